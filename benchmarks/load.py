"""Load for an HTTP service, from a process of its own, at a fixed rate.

Requests are due at fixed times whether or not earlier ones were answered, and a latency counts from
the time that a request was due: a service that stalls cannot hide it. Prints JSON.
Usage: python benchmarks/load.py URL BODY_FILE RATE SECONDS [CONNECTIONS]; a RATE of 0 sends the
next request on a connection as soon as the last one was answered.
"""

import asyncio
import collections
import json
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import uvloop


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, load):
        self.load, self.buffer, self.due = load, b"", None

    def connection_made(self, transport):
        """The connection is open."""
        self.transport = transport

    def ask(self, due):
        """Send a request that was due at some time."""
        self.due = due
        self.transport.write(self.load.request)

    def data_received(self, data):
        """A part of an answer arrived."""
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self.buffer) >= end + 4 + length:
            status = int(head[9:12])
            self.buffer = self.buffer[end + 4 + length :]
            self.load.answered(self, status)

    def connection_lost(self, error):
        """The connection is closed; with a request on its way that is a failure."""
        self.load.lost(self)


class Load:
    """A run: its schedule, its connections and what came of them."""

    def __init__(self, url, body, rate, seconds):
        self.host, self.port = url.hostname, url.port
        self.request = (
            f"POST {url.path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        self.rate, self.seconds = rate, seconds
        self.idle, self.due = collections.deque(), collections.deque()
        self.latencies, self.statuses = [], collections.Counter()

    async def run(self, connections):
        """Open the connections, send what is due, wait for the last answers."""
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            await self.open()
        self.started = time.perf_counter()
        if self.rate:
            for k in range(int(self.rate * self.seconds)):
                due = self.started + k / self.rate
                wait = due - time.perf_counter()
                if wait > 0.0005:
                    await asyncio.sleep(wait)
                self.due.append(due)
                self.send()
        else:
            while self.idle:
                self.idle.popleft().ask(time.perf_counter())
            await asyncio.sleep(self.seconds)
        self.over = True
        end = loop.time() + 30
        while (self.due or self.open_requests()) and loop.time() < end:
            await asyncio.sleep(0.01)
        self.statuses["unanswered"] += len(self.due) + self.open_requests()

    over = False

    async def open(self):
        """One more connection."""
        make = asyncio.get_running_loop().create_connection
        _, connection = await make(lambda: Connection(self), self.host, self.port)
        self.all = [*getattr(self, "all", []), connection]
        self.idle.append(connection)

    def open_requests(self):
        """How many wait for an answer."""
        return sum(connection.due is not None for connection in self.all)

    def send(self):
        """Hand what is due to idle connections."""
        while self.due and self.idle:
            self.idle.popleft().ask(self.due.popleft())

    def answered(self, connection, status):
        """An answer arrived."""
        now = time.perf_counter()
        self.latencies.append((connection.due - self.started, now - connection.due))
        self.statuses[status] += 1
        connection.due = None
        if not self.rate and not self.over:
            connection.ask(now)
            return
        self.idle.append(connection)
        self.send()

    def lost(self, connection):
        """A connection was closed under us."""
        if connection.due is not None:
            self.statuses["lost"] += 1
            connection.due = None
        if connection in self.idle:
            self.idle.remove(connection)
        self.all.remove(connection)
        if not self.over:
            asyncio.get_running_loop().create_task(self.open())

    def summary(self):
        """What came of it."""
        at, took = np.array(self.latencies).reshape(-1, 2).T
        ms = 1000 * took
        seconds = np.arange(int(at.max()) + 1) if len(at) else []
        return {
            "rate": self.rate or round(len(ms) / self.seconds, 1),
            "answered": len(ms),
            "statuses": {str(key): n for key, n in self.statuses.items() if n},
            **{f"p{q}": round(float(np.percentile(ms, q)), 2) for q in (50, 90, 99, 99.9)},
            "max": round(float(ms.max()), 2),
            "p99_by_second": [
                round(float(np.percentile(ms[at.astype(int) == s], 99)), 2)
                for s in seconds
                if (at.astype(int) == s).any()
            ],
        }


def main():
    url, body, rate, seconds, *connections = sys.argv[1:]
    load = Load(urlsplit(url), Path(body).read_bytes(), float(rate), float(seconds))
    uvloop.run(load.run(int(connections[0]) if connections else 64))
    print(json.dumps(load.summary()))


if __name__ == "__main__":
    main()
