"""The access log: one line for each request, on standard error.

    2026-11-18T09:30:00Z 127.0.0.1 POST /v1/predict 200 213B 4.1ms

time, client, method, route, status, bytes of the answer's body, and duration. Nothing in a line is
text that a client chose: a client that is no address is '-', an address that the service does not
have is 'other', and an unusual method is 'OTHER'. The query and the headers are left out, so a line
shows no row, no file name and no token, and a client cannot forge lines.
"""

from __future__ import annotations

import ipaddress
import logging
import sys
import time
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")

log = logging.getLogger("linkdist.access")


class AccessLog:
    """The middleware that writes the access log.

    Parameters
    ----------
    app : ASGI application
        Answers the requests. It must be outermost, to see refused requests, too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        _write_to_stderr()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and write its line."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status, sent = time.perf_counter(), 0, 0

        async def send_counted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, send_counted)
        finally:
            log.info(access_line(scope, status, sent, time.perf_counter() - started))


def access_line(scope: Scope, status: int, sent: int, seconds: float) -> str:
    """Return the line of a request.

    Parameters
    ----------
    scope : dict
        The ASGI scope of the request.
    status : int
        The status of the answer; 0 if the client left before there was one.
    sent : int
        Bytes of the answer's body.
    seconds : float
        The duration.

    Examples
    --------
    >>> scope = {"client": ("::1", 80), "method": "GET", "path": "/a;token=7", "headers": []}
    >>> access_line(scope, 404, 52, 0.0021).partition(" ")[2]
    '::1 GET other 404 52B 2.1ms'
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    method = scope["method"] if scope["method"] in METHODS else "OTHER"
    route = getattr(scope.get("route"), "path", "other")
    shown = str(status) if status else "-"
    return f"{now} {_client(scope)} {method} {route} {shown} {sent}B {1000 * seconds:.1f}ms"


def _client(scope: Scope) -> str:
    """The address of the client; behind a proxy it comes from a header, so it may be any text."""
    host = (scope.get("client") or ("", 0))[0].partition("%")[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return "-"


def _write_to_stderr() -> None:
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
