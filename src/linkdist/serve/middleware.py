"""What stands around every request: the token, safe headers, counting, and an end to errors.

Written for ASGI itself, since it runs for every request, and since a token must be asked for
before anything of the request is read.
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

OPEN = ("/healthz", "/readyz")
"""What needs no token: who asks whether the service lives has none."""

SHORTEST = 16
"""Characters of a token: fewer are guessed."""

HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
]

Scope: TypeAlias = Any
Receive: TypeAlias = Any
Send: TypeAlias = Any

log = logging.getLogger("linkdist.serve")


def read_token(path: str) -> str:
    """The token in a file, without the space around it; none where there is no file.

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
    if len(token) < SHORTEST or not token.isascii():
        raise OptionError(
            f"the token in {path} must be {SHORTEST} ASCII characters or more; found "
            f"{len(token)}. Make one: openssl rand -hex 24 > {path}"
        )
    return token


class Guard:
    """The app, with what stands around every request.

    Parameters
    ----------
    app : ASGI application
        That answers.
    token : str
        What a request must carry; empty where it need not.
    metrics : Metrics
        Where requests are counted.
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
            if self.token and scope["path"] not in OPEN and not self._is_known(scope):
                await _send(send_guarded, _unknown(), [(b"www-authenticate", CHALLENGE)])
            else:
                await self.app(scope, receive, send_guarded)
        except Exception:
            log.exception("a fault of LinkDist's at %s", scope["path"])
            if not status:
                fault = RefusedError(500, "this is a fault of LinkDist's; its log has more.")
                await _send(send_guarded, fault)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, status, time.perf_counter() - started)

    def _is_known(self, scope: Scope) -> bool:
        """Whether the request carries the token; the time that takes tells nothing of it."""
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


def _unknown() -> RefusedError:
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
