"""Limits on connections, which hold before a request reaches the app and its token is checked.

uvicorn's own protocol waits for headers without limit. `BoundedProtocol` adds what is missing:

- Headers must arrive within `header_seconds` and have at most 64 KiB.
- An answer that nobody reads is cut off after `seconds`.
- There are at most `connections` open connections. One more takes the place of the connection that
  has waited longest for its client: half-sent requests cannot keep others out. If the service works
  on all of them, the further ones are answered at /healthz and /readyz only.
"""

from __future__ import annotations

import asyncio
import functools
import json
import time
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from linkdist.serve.errors import RefusedError
from linkdist.serve.guard import WITHOUT_TOKEN
from linkdist.serve.settings import Settings

HEADER_BYTES = 1 << 16
"""Bytes of headers, or between two parts of a body. A little more may arrive with the last part."""

PIPELINED = 8
"""Requests that a client may send ahead on one connection."""

RESERVE = 32
"""Connections above the limit, for health checks."""

INTERVAL = 1.0
"""Seconds between two checks of all connections."""

BUSY = RefusedError(503, "too many connections are open. Try again in a second.")


class Connections:
    """The open connections of a process.

    Parameters
    ----------
    settings : Settings
        `connections`, `header_seconds` and `seconds` are used.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._open: set[BoundedProtocol] = set()
        self._waiting: dict[BoundedProtocol, None] = {}  # the one that waits longest comes first
        self._sweeps = False

    def add(self, new: BoundedProtocol) -> bool:
        """Add a connection; whether requests on it may be answered, not health checks only."""
        is_room = len(self._open) < self.settings.connections or self._drop_longest_waiting()
        if len(self._open) >= self.settings.connections + RESERVE:
            new.transport.abort()
            return False
        self._open.add(new)
        if not self._sweeps:
            self._sweeps = True
            new.loop.call_later(INTERVAL, self._sweep, new.loop)
        return is_room

    def remove(self, old: BoundedProtocol) -> None:
        """Remove a connection that is closed."""
        self._open.discard(old)
        self._waiting.pop(old, None)

    def waits(self, one: BoundedProtocol, is_waiting: bool) -> None:
        """Note that a connection waits for its client from now on, or no longer."""
        self._waiting.pop(one, None)
        if is_waiting:
            self._waiting[one] = None

    def _drop_longest_waiting(self) -> bool:
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False
        self.remove(longest)
        longest.transport.abort()
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        for one in list(self._open):
            one.check(time.monotonic(), self.settings)
        self._sweeps = bool(self._open)
        if self._sweeps:
            loop.call_later(INTERVAL, self._sweep, loop)


@functools.cache
def connections() -> Connections:
    """The connections of this process."""
    return Connections(Settings.published())


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on headers, connections and clients that do not read.

    Attributes
    ----------
    since : float or None
        Since when the client is expected to send; None while the service works on a request.
    """

    since: float | None = None
    _in_head = True
    _overhead = 0
    _unsent = (0, 0.0)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection."""
        super().connection_made(transport)
        has_room = connections().add(self)
        self._expect(True)
        if not has_room:
            self.app: Any = _only_health(self.app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no longer."""
        connections().remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and refuse headers that are too long."""
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > HEADER_BYTES and not self.transport.is_closing():
            self._refuse(431, f"the headers may have {HEADER_BYTES:,} bytes.")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        if self._is_idle():
            self._expect(True)
            self._in_head = True

    def on_headers_complete(self) -> None:
        """The headers of a request are complete."""
        if self.transport.is_closing():  # the rest of what arrived is still being parsed
            return
        if len(self.pipeline) >= PIPELINED:
            self.transport.abort()
            return
        super().on_headers_complete()
        self._in_head = False

    def on_body(self, body: bytes) -> None:
        """A part of a body has arrived."""
        self._overhead = 0
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is complete; the service works on it now."""
        self._overhead = 0
        if not self._is_idle():
            self._expect(False)
        if self.cycle is not None:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is complete; the client may send the next request."""
        if not self.pipeline:
            self._expect(True)
            self._in_head = True
        super().on_response_complete()

    def check(self, now: float, settings: Settings) -> None:
        """Close the connection if the client is too slow."""
        size = self.transport.get_write_buffer_size()
        if size == 0 or size != self._unsent[0]:
            self._unsent = size, now
        elif now - self._unsent[1] > settings.seconds:
            self.transport.abort()
        if self._in_head and self.since is not None and now - self.since > settings.header_seconds:
            text = f"the headers did not arrive within {settings.header_seconds:g} seconds."
            self._refuse(408, text)

    def _expect(self, is_waiting: bool) -> None:
        """Note whether the client is expected to send."""
        self.since = time.monotonic() if is_waiting else None
        connections().waits(self, is_waiting)

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, status: int, text: str) -> None:
        """Answer and close, or only close if an answer has begun."""
        if self.transport.is_closing() or not self._is_idle():
            self.transport.abort()
            return
        body = json.dumps(RefusedError(status, text).body()).encode()
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.transport.close()


def _only_health(app: ASGIApp) -> ASGIApp:
    """An app that refuses all requests but health checks."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        allowed = scope["type"] != "http" or scope["path"] in WITHOUT_TOKEN
        chosen = app if allowed else BUSY.response({"Connection": "close", "Retry-After": "1"})
        await chosen(scope, receive, send)

    return answer
