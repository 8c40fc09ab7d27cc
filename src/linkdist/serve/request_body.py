"""The bodies of requests, up to a number of bytes and within a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from linkdist.serve.errors import RefusedError


def check_type(request: Request, expected: str) -> None:
    """Refuse a body that says it is of another type."""
    found = request.headers.get("content-type", expected)
    if found.partition(";")[0].strip().lower() != expected:
        raise RefusedError(415, f"the body must be {expected}; found {found[:60]!r}.")


async def read(request: Request, most: int, seconds: float) -> bytes:
    """A whole body."""
    parts = [part async for part in _arriving(request, most, seconds)]
    return b"".join(parts)


async def read_into(file: Any, request: Request, most: int, seconds: float) -> None:  # noqa: ANN401
    """A body into a file, part by part."""
    # A table may take as long as it likes, as long as some of it arrives.
    async for part in _arriving(request, most, seconds, each=True):
        await asyncio.to_thread(file.write, part)
    file.flush()


async def _arriving(
    request: Request, most: int, seconds: float, each: bool = False
) -> AsyncIterator[bytes]:
    """The parts of a body, up to a number of bytes and within a time; `each` renews the time."""
    told = request.headers.get("content-length", "")
    too_many = RefusedError(413, f"the body may have {most:,} bytes. Send less at once.")
    if told.isdigit() and int(told) > most:
        raise too_many
    stream, arrived = request.stream(), 0
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
        arrived += len(part)
        if arrived > most:
            raise too_many
        if each:
            deadline = asyncio.get_running_loop().time() + seconds
        yield part
