"""Reading the body of a request, with limits on its size and its duration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import IO, Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from linkdist.serve.errors import RefusedError


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
