"""Temporary files of requests and answers that other processes compute; their size is limited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import Self

from starlette.requests import Request

from linkdist.serve.errors import RefusedError, no_space
from linkdist.serve.guard import body_parts, in_thread

SMALL = 1 << 14
"""Bytes or probabilities of a request that is computed in this process."""

FULL = "the service has no room for further files. Try again in a minute."


class Spool:
    """The temporary files of a service.

    Parameters
    ----------
    max_bytes : int
        Their largest total size.

    Attributes
    ----------
    writing : Lock
        Parts of bodies are written one at a time, so that other requests are answered in between.

    Examples
    --------
    >>> spool = Spool(10)
    >>> with spool.file() as file:
    ...     file.write(b"12345")
    ...     file.path.read_bytes(), spool.used
    (b'12345', 5)
    >>> spool.used
    0
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.used, self._lock = max_bytes, 0, threading.Lock()
        self.writing = asyncio.Lock()

    def take(self, size: int) -> None:
        """Count further bytes, or refuse them if there is no room."""
        with self._lock:
            if self.used + size > self.max_bytes:
                raise RefusedError(503, FULL)
            self.used += size

    def give_back(self, size: int) -> None:
        """Make room for other files."""
        with self._lock:
            self.used -= size

    def check_room(self, size: int) -> None:
        """Refuse a body of so many bytes if there is no room for it."""
        self.take(size)
        self.give_back(size)

    def file(self, suffix: str = "") -> SpooledFile:
        """Return a new file.

        Raises
        ------
        RefusedError
            If the disk is full.
        """
        return SpooledFile(self, suffix)


class SpooledFile:
    """A temporary file; closing deletes it and makes room for others.

    Attributes
    ----------
    path : Path
        Where it is.
    size : int
        Its size as far as it is known here; a worker may be writing to it.
    """

    def __init__(self, spool: Spool, suffix: str) -> None:
        self.size, self._spool = 0, spool
        try:
            self._file = NamedTemporaryFile(suffix=suffix, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise no_space(error) from error
        self.path = Path(self._file.name)

    def write(self, part: bytes) -> None:
        """Append to the file.

        Raises
        ------
        RefusedError
            If the files are too large in total, or if the disk is full.
        """
        self.grow(self.size + len(part))
        rest = memoryview(part)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise no_space(error) from error

    def grow(self, size: int) -> None:
        """Count bytes up to a size, which a worker may have written."""
        self._spool.take(size - self.size)
        self.size = size

    def read(self, start: int, count: int) -> bytes:
        """Read bytes from a position."""
        self._file.seek(start)
        return self._file.read(count)

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        """Delete the file."""
        self._spool.give_back(self.size)
        self.size = 0
        self._file.close()

    def __enter__(self) -> Self:
        """Use the file in a block, at whose end it is deleted."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete the file."""
        self.close()


def declared_size(request: Request) -> int:
    """Return the size that a request announces for its body; 1 if it does not."""
    declared = request.headers.get("content-length", "")
    return int(declared[:20]) if declared.isascii() and declared.isdecimal() else 1


async def read_spooled(
    spool: Spool,
    request: Request,
    max_bytes: int,
    seconds: float,
    check_room: Callable[[int], None],
) -> bytes | SpooledFile:
    """Read a body: a small one into memory, a large one into a file, which the caller closes.

    `check_room` is called with the size of a large body before the body is read.
    """
    start, file = b"", None
    if SMALL < (size := declared_size(request)) <= max_bytes:
        check_room(size)
    try:
        async for part in body_parts(request, max_bytes, seconds):
            if file is None and len(start) + len(part) <= SMALL:
                start += part
                continue
            if file is None:
                check_room(len(part))
                file, part = spool.file(), start + part
            async with spool.writing:
                await in_thread(file.write, part)
    except BaseException:
        if file is not None:
            file.close()
        raise
    return start if file is None else file
