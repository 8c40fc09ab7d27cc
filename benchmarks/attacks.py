"""The service under attack: whether it stays healthy, in bounds and useful.

For each attack of docs/security.md that aims at time or memory, honest clients send single rows as
fast as they are answered, first alone and then during the attack. Measured meanwhile: the slowest
answer of /healthz, the memory of all processes of the service, and what the attacker itself takes
of the processors, which all share. Everything stays on this machine, for some seconds each.
Usage: python benchmarks/attacks.py [NUMBER ...] [--seconds 8]
"""

import argparse
import contextlib
import io
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pyarrow as pa
import pyarrow.parquet

HONEST = 8
"""Connections of honest clients."""

TITLES = {
    3: "unknown columns: bodies of 120 KiB and 4 MiB, 200 columns",
    4: "Parquet dictionary bomb, tens of gigabytes in a few kilobytes",
    5: "endless tables: clients that leave, do not read, or send slowly",
    6: "1,100 half-sent requests, headers without end, 250 unfinished bodies of 8 MB",
    13: "rows × 2,000 classes, below and above the limit",
    14: "overload: 32 connections with 10,000 rows each",
}


# Models and honest requests.


def papers(folder):
    """A model of the example tables, and rows for it."""
    import serving

    return serving.papers(folder)


def columns(folder):
    """A model of 200 numbers, and rows for it."""
    from linkdist.tables.feature_encoder import make_feature_encoder

    names = [f"c{k}" for k in range(200)]
    _save(folder / "columns", make_feature_encoder(dict.fromkeys(names, "numeric")), 2)
    return [dict.fromkeys(names, 1.5)]


def classes(folder):
    """A model of 2,000 classes, and rows for it."""
    from linkdist.tables.feature_encoder import make_feature_encoder

    encoder = make_feature_encoder({"v": "vector"})
    encoder.partial_fit(pa.record_batch({"v": [[0.0, 1.0, 2.0], [3.0, 1.0, 5.0]]}))
    _save(folder / "classes", encoder, 2000)
    return [{"v": [1.0, 2.0, 3.0]}]


def _save(path, encoder, count):
    import torch

    from linkdist.artifacts.model_dir import Saved, save_model
    from linkdist.artifacts.onnx import with_onnx
    from linkdist.model import Model
    from linkdist.nn.network import ForkedMLP

    network = Model(ForkedMLP(encoder.d, count, [0]), torch.ones(1), tuple(map(str, range(count))))
    save_model(path, with_onnx(Saved(network, encoder, {"id": "node", "label": "kind"})))


MODELS = {"columns": columns, "classes": classes, "papers": papers}
MODEL_OF = {3: "columns", 13: "classes"}


# The attacker, a process of its own: what it sends is prepared before it starts.


def head(path, length, more=""):
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n{more}\r\n"
    ).encode()


def body_of(rows):
    return json.dumps({"rows": rows}).encode()


def whole(path, body):
    return head(path, len(body), "Connection: close\r\n") + body


def names_of(size):
    """Unknown names, so many bytes."""
    count = size // 32
    return body_of([{f"column {k:x} of a request".ljust(26): 1 for k in range(count)}])


def parquet(rows, title, titles):
    """A table of papers that repeats one row."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([title]))
    table = {"paper": pa.nulls(rows, pa.int64()).fill_null(7), titles: texts}
    table |= {
        "venue": pa.nulls(rows, pa.string()).fill_null("x"),
        "year": pa.nulls(rows, pa.float64()),
    }
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(table), out, compression="zstd")
    return out.getvalue()


TABLE = "/v1/predict/table?name=a.parquet"


def payloads(number):
    """The requests of an attack, complete or not: what is sent, and then whether it is read."""
    if number == 3:
        return [(whole("/v1/predict", names_of(size)), True) for size in (120 << 10, 4 << 20)]
    if number == 4:
        return [(whole(TABLE, parquet(4000, "a" * 2_000_000, "title")), True)]
    if number == 5:
        endless = whole(TABLE, parquet(4_900_000, "a", "title"))
        return [(endless, False), (endless, True), (head(TABLE, 10_000) + b"PAR1", False)]
    if number == 6:
        half, long = b"GET /healthz HTTP/1.1\r\nHost: ", b"GET / HTTP/1.1\r\nA: " + b"a" * (1 << 20)
        return [
            (half, False),
            (long, True),
            (head("/v1/predict", 8 << 20) + b" " * (1 << 20), False),
        ]
    if number == 13:
        rows = [{"v": [1, 2, 3]}] * 3000
        return [(whole("/v1/predict", body_of(rows[:n])), True) for n in (500, 3000)]
    rows = [{"title": "photon theory of vacuum", "venue": "review", "year": 1974}] * 10_000
    return [(whole("/v1/predict", body_of(rows)), True)]


COUNTS = {3: (2, 2), 4: (4,), 5: (4, 4, 20), 6: (1100, 4, 250), 13: (4, 4), 14: (32,)}
"""Connections of each payload of an attack at a time."""

PAUSE = 0.05
"""Seconds between two requests of a connection, so that the attacker itself takes little."""


def attack(number, url, seconds):
    """Attack for some seconds; prints how many requests were sent and what was answered."""
    prepared, address, statuses = payloads(number), urlsplit(url), {}
    print("ready", flush=True)
    before, end, threads = sum(psutil.Process().cpu_times()[:2]), time.monotonic() + seconds, []
    for (content, reads), count in zip(prepared, COUNTS[number], strict=True):
        for held in [1] * count if reads else [count]:  # one thread holds all that are not read
            args = (address, content, reads, held, end, statuses)
            threads.append(threading.Thread(target=_attack, args=args))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = sum(psutil.Process().cpu_times()[:2]) - before
    print(json.dumps({"statuses": statuses, "cpu": round(took / seconds, 2)}))


def _attack(address, content, reads, held, end, statuses):
    open_ = []
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            one = socket.create_connection((address.hostname, address.port), timeout=5)
            one.settimeout(max(0.1, end - time.monotonic()))
            open_.append(one)
            status = "sent"
            one.sendall(content)
            if reads:
                status = one.recv(12)[9:].decode() or "closed"
                while one.recv(1 << 16):
                    pass
            statuses[status] = statuses.get(status, 0) + 1
        time.sleep(PAUSE if reads else seconds_between(held))
        while len(open_) >= held:
            open_.pop(0).close()


def seconds_between(held):
    """All are opened within the first two seconds."""
    return 2 / held


# What is measured.


class Watch:
    """The slowest health answer and the highest memory, while it runs."""

    def __init__(self, service):
        self.service, self.slowest, self.memory, self.failed = service, 0.0, 0.0, 0
        self.over = threading.Event()
        self.threads = [threading.Thread(target=each) for each in (self._health, self._memory)]

    def __enter__(self):
        """Start."""
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        """End."""
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _health(self):
        address = urlsplit(self.service.url)
        while not self.over.wait(0.05):
            started = time.perf_counter()
            try:
                with socket.create_connection((address.hostname, address.port), timeout=5) as one:
                    one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    self.failed += one.recv(12) != b"HTTP/1.1 200"
            except OSError:
                self.failed += 1
            self.slowest = max(self.slowest, time.perf_counter() - started)

    def _memory(self):
        while not self.over.wait(0.1):
            with contextlib.suppress(psutil.Error):
                self.memory = max(self.memory, self.service.memory())


def answered(found, seconds):
    return found["statuses"].get("200", 0) / seconds


def measure(number, folder, rows, seconds):
    """One attack."""
    from serving import Service, loaded

    name = MODEL_OF.get(number, "papers")
    body = body_of(rows[name][:1])
    with Service(folder / name) as service:
        service.ask(body)
        alone = answered(loaded(service, body, 0, seconds, HONEST), seconds)
        asked = [sys.executable, __file__, "--attack", str(number), service.url, str(seconds + 3)]
        attacker = subprocess.Popen(asked, stdout=subprocess.PIPE, text=True)
        attacker.stdout.readline()  # what it sends is prepared
        time.sleep(2)  # and now the first connections are open
        with Watch(service) as watch:
            during = answered(loaded(service, body, 0, seconds, HONEST), seconds)
        told = json.loads(attacker.stdout.read())
    return {
        "attack": number,
        "what": TITLES[number],
        "honest requests a second, alone": round(alone),
        "during the attack": round(during),
        "share": f"{during / alone:.0%}",
        "slowest health answer, ms": round(1000 * watch.slowest),
        "failed health answers": watch.failed,
        "peak memory, MB": round(watch.memory),
        "attacker's cores": told["cpu"],
        "answers to the attacker": ", ".join(f"{k}: {n}" for k, n in told["statuses"].items()),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("numbers", nargs="*", type=int, default=list(TITLES))
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--attack", nargs=3, metavar=("NUMBER", "URL", "SECONDS"))
    asked = parser.parse_args()
    if asked.attack:
        number, url, seconds = asked.attack
        attack(int(number), url, float(seconds))
        return
    from measure import write

    found = []
    with tempfile.TemporaryDirectory() as folder:
        needed = {MODEL_OF.get(number, "papers") for number in asked.numbers}
        rows = {name: MODELS[name](Path(folder)) for name in sorted(needed)}
        for number in asked.numbers:
            found.append(measure(number, Path(folder), rows, asked.seconds))
            print(found[-1], file=sys.stderr)
    notes = [
        "",
        f"{HONEST} connections of honest clients send one row each, as fast as they are answered. "
        "Service, honest clients and attacker share the cores. Memory is the sum of the resident "
        "memory of all processes of the service, which counts shared pages several times.",
    ]
    write(
        "attacks",
        f"python benchmarks/attacks.py {' '.join(map(str, asked.numbers))}",
        found,
        notes=notes,
    )


if __name__ == "__main__":
    main()
