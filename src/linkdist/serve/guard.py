"""Guards against hostile requests: the token, and limits on the body.

`Guard` is the middleware of every request. It is plain ASGI, because it runs for every request, and
because the token must be checked before any part of the body is read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Collection
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from linkdist.serve.errors import RefusedError, no_space
from linkdist.serve.metrics import Metrics
from linkdist.serve.settings import ANY_HOST

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

HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d{1,5})?", re.ASCII)

SLOWEST = 1 << 14
"""Bytes per second: clients must send large files and read large answers at least as fast."""

T = TypeVar("T")

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
    hosts : collection of str
        Host names under which the service may be addressed; '*' stands for all.
    """

    def __init__(
        self, app: ASGIApp, token: str, metrics: Metrics, hosts: Collection[str] = (ANY_HOST,)
    ) -> None:
        self.app, self.token, self.metrics = app, token.encode(), metrics
        self.hosts = {host.lower() for host in hosts}

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
            await self._answer(scope)(scope, receive, send_guarded)
        except Exception:  # the app has answered with status 500
            log.exception("unexpected error at %s", scope["path"])
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, status, time.perf_counter() - started)

    def _answer(self, scope: Scope) -> ASGIApp:
        """The app, or a refusal; health checks are always answered."""
        if scope["path"] in WITHOUT_TOKEN:
            return self.app
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if not self._is_known(host):
            return unknown_host(host).response({"Connection": "close"})
        return self.app if self._is_allowed(scope) else NO_TOKEN

    def _is_known(self, host: str) -> bool:
        """Whether a host is an address, 'localhost' or one of the names.

        A page of another site can let its own name point to this machine; then the browser sends
        that name. It cannot do so with an address.
        """
        if ANY_HOST in self.hosts or not host:
            return True
        name = urlsplit(f"//{host}").hostname if HOST.fullmatch(host) else None
        return name is not None and (name in self.hosts or is_address(name))

    def _is_allowed(self, scope: Scope) -> bool:
        """Whether no token is needed, or it was sent; a wrong one takes the same time as any."""
        if not self.token:
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


def is_address(name: str) -> bool:
    """Whether a host is given by its address, or is this machine.

    Examples
    --------
    >>> is_address("127.0.0.1"), is_address("::1"), is_address("localhost"), is_address("a.example")
    (True, True, True, False)
    """
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True


def unknown_host(host: str) -> RefusedError:
    """Why a host name is refused."""
    found = f"the service is not known as {host[:60]!r}"
    return RefusedError(421, f"{found}. Start it with --allowed-host NAME, or use its address.")


def check_content_type(request: Request, expected: str) -> None:
    """Refuse a body without the expected content type.

    A page of another site can send other types without the browser's permission check.
    """
    found = request.headers.get("content-type", "")
    if found.partition(";")[0].strip().lower() != expected:
        raise RefusedError(415, f"the content type must be {expected}; found {found[:60]!r}.")


class Sink(Protocol):
    """What a body is written to, such as a file."""

    def write(self, part: bytes, /) -> object:
        """Write a part."""

    def flush(self) -> None:
        """Write what is left."""


async def save_body(
    file: Sink, request: Request, max_bytes: int, seconds: float, turn: asyncio.Lock
) -> None:
    """Write a body to a file; a large one may take longer than `seconds`.

    `turn` lets one body at a time write a part, so that other requests are answered in between.
    """
    try:
        async for part in body_parts(request, max_bytes, seconds, is_file=True):
            async with turn:
                await in_thread(file.write, part)
        file.flush()
    except OSError as error:
        raise no_space(error) from error


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Call a function in a thread, and wait for its end even if this task is cancelled.

    A file must not be closed while a thread writes to it.
    """
    call = asyncio.ensure_future(asyncio.to_thread(function, *args))
    try:
        return await asyncio.shield(call)
    finally:
        await asyncio.wait([call])


async def body_parts(
    request: Request, max_bytes: int, seconds: float, is_file: bool = False
) -> AsyncIterator[bytes]:
    """Yield the parts of a body, within limits.

    Parameters
    ----------
    request : Request
        The request.
    max_bytes : int
        Its largest size.
    seconds : float
        Time limit.
    is_file : bool
        Whether the time limit grows with what has arrived, by a second for each 16 KiB.

    Raises
    ------
    RefusedError
        If the body is too large, arrives too slowly or is cut off.
    """
    declared = request.headers.get("content-length", "")
    too_large = RefusedError(413, f"the body may have {max_bytes:,} bytes. Send fewer at once.")
    if declared.isdigit() and int(declared[:20]) > max_bytes:
        raise too_large
    stream, received = request.stream(), 0
    started = asyncio.get_running_loop().time()
    while True:
        limit = seconds + (received / SLOWEST if is_file else 0)
        try:
            async with asyncio.timeout_at(started + limit):
                part = await anext(stream, None)
        except TimeoutError:
            text = f"the body did not arrive within {round(limit, 2):g} seconds. Send it again."
            raise RefusedError(408, text) from None
        except ClientDisconnect:
            raise RefusedError(400, "the body was cut off. Send it again.") from None
        if part is None:
            return
        received += len(part)
        if received > max_bytes:
            raise too_large
        yield part
