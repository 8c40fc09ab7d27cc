"""Guards against hostile requests: the token, and limits on the body.

`Guard` is the middleware of every request. It is plain ASGI, because it runs for every request, and
because the token must be checked before any part of the body is read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import time
from collections.abc import AsyncIterator
from typing import IO, Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from linkdist.serve.errors import RefusedError
from linkdist.serve.metrics import Metrics

WITHOUT_TOKEN = ("/healthz", "/readyz")
"""Addresses that need no token: monitoring programs have none."""

NO_TOKEN = RefusedError(
    401,
    "this service needs its token: send 'Authorization: Bearer TOKEN', or, in a browser, the "
    "token as the password.",
).response({"WWW-Authenticate": 'Basic realm="linkdist", charset="UTF-8"'})

HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
]

log = logging.getLogger("linkdist.serve")


class Guard:
    """The middleware around the app: token, security headers, metrics, log of unexpected errors.

    Parameters
    ----------
    app : ASGI application
        Answers the requests.
    token : str
        The token that requests must send; empty if there is none.
    metrics : Metrics
        Counts the requests.
    """

    def __init__(self, app: ASGIApp, token: str, metrics: Metrics) -> None:
        self.app, self.token, self.metrics = app, token.encode(), metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status = time.perf_counter(), 0

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            answer = self.app if self._is_allowed(scope) else NO_TOKEN
            await answer(scope, receive, send_guarded)
        except Exception:  # the app has answered with status 500
            log.exception("unexpected error at %s", scope["path"])
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, status, time.perf_counter() - started)

    def _is_allowed(self, scope: Scope) -> bool:
        """Whether no token is needed, or it was sent; a wrong one takes the same time as any."""
        if not self.token or scope["path"] in WITHOUT_TOKEN:
            return True
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


def check_content_type(request: Request, expected: str) -> None:
    """Refuse a body without the expected content type.

    A page of another site can send other types without the browser's permission check.
    """
    found = request.headers.get("content-type", "")
    if found.partition(";")[0].strip().lower() != expected:
        raise RefusedError(415, f"the content type must be {expected}; found {found[:60]!r}.")


async def read_body(request: Request, max_bytes: int, seconds: float) -> bytes:
    """Read a whole body."""
    return b"".join([part async for part in _parts(request, max_bytes, seconds)])


async def save_body(file: IO[Any], request: Request, max_bytes: int, seconds: float) -> None:
    """Write a body to a file.

    The upload may last as long as it needs, but no pause may be longer than `seconds`.
    """
    async for part in _parts(request, max_bytes, seconds, per_part=True):
        await asyncio.to_thread(file.write, part)
    file.flush()


async def _parts(
    request: Request, max_bytes: int, seconds: float, per_part: bool = False
) -> AsyncIterator[bytes]:
    """Yield the parts of a body; the time limit is for all of it, or for each part."""
    declared = request.headers.get("content-length", "")
    too_large = RefusedError(413, f"the body may have {max_bytes:,} bytes. Send fewer at once.")
    if declared.isdigit() and int(declared) > max_bytes:
        raise too_large
    stream, received = request.stream(), 0
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                part = await anext(stream, None)
        except TimeoutError:
            text = f"the body did not arrive within {seconds:g} seconds. Send it again."
            raise RefusedError(408, text) from None
        except ClientDisconnect:
            raise RefusedError(400, "the body was cut off. Send it again.") from None
        if part is None:
            return
        received += len(part)
        if received > max_bytes:
            raise too_large
        if per_part:
            deadline = asyncio.get_running_loop().time() + seconds
        yield part
