"""The middleware of every request: token, security headers, metrics, unexpected errors.

It is plain ASGI, because it runs for every request, and because the token must be checked before
any part of the body is read.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import logging
import time
from pathlib import Path
from typing import Any, TypeAlias

from linkdist.errors import OptionError
from linkdist.serve.errors import RefusedError
from linkdist.serve.metrics import Metrics

WITHOUT_TOKEN = ("/healthz", "/readyz")
"""Addresses that need no token: monitoring programs have none."""

MIN_LENGTH = 16
"""The smallest length of a token: shorter ones can be guessed."""

HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
]

UNEXPECTED = "an unexpected error occurred. This is a bug in LinkDist; the log has the details."

Scope: TypeAlias = Any
Receive: TypeAlias = Any
Send: TypeAlias = Any

log = logging.getLogger("linkdist.serve")


def read_token(path: str) -> str:
    """Read a token from a file; an empty path means no token.

    Examples
    --------
    >>> read_token("")
    ''
    """
    if not path:
        return ""
    try:
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"the token file {path} cannot be read: {error}.") from error
    if len(token) < MIN_LENGTH or not token.isascii():
        raise OptionError(
            f"the token in {path} must be {MIN_LENGTH} ASCII characters or more; found "
            f"{len(token)}. Make one: openssl rand -hex 24 > {path}"
        )
    return token


class Guard:
    """The middleware around the app.

    Parameters
    ----------
    app : ASGI application
        Answers the requests.
    token : str
        The token that requests must send; empty if there is none.
    metrics : Metrics
        Counts the requests.
    """

    def __init__(self, app: Any, token: str, metrics: Metrics) -> None:  # noqa: ANN401
        self.app, self.token, self.metrics = app, token.encode(), metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def send_guarded(message: Any) -> None:  # noqa: ANN401
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            if self.token and scope["path"] not in WITHOUT_TOKEN and not self._has_token(scope):
                await _send(send_guarded, _no_token(), [(b"www-authenticate", CHALLENGE)])
            else:
                await self.app(scope, receive, send_guarded)
        except Exception:
            log.exception("unexpected error at %s", scope["path"])
            if not status:
                await _send(send_guarded, RefusedError(500, UNEXPECTED))
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, status, time.perf_counter() - started)

    def _has_token(self, scope: Scope) -> bool:
        """Whether the request has the token; the comparison takes the same time for any token."""
        sent = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, value = sent.partition(b" ")
        if kind.lower() == b"basic":
            try:
                value = base64.b64decode(value, validate=True).partition(b":")[2]
            except (binascii.Error, ValueError):
                return False
        elif kind.lower() != b"bearer":
            return False
        return hmac.compare_digest(value.strip(), self.token)


CHALLENGE = b'Basic realm="linkdist", charset="UTF-8"'


def _no_token() -> RefusedError:
    return RefusedError(
        401,
        "this service needs its token: send 'Authorization: Bearer TOKEN', or, in a browser, the "
        "token as the password.",
    )


async def _send(send: Send, refused: RefusedError, headers: Any = ()) -> None:  # noqa: ANN401
    body = json.dumps(refused.body()).encode()
    start = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    head = {"type": "http.response.start", "status": refused.status, "headers": [*start, *headers]}
    await send(head)
    await send({"type": "http.response.body", "body": body})
