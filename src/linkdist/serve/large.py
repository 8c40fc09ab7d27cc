"""Tables, large requests and explanations: computed by workers, sent from temporary files.

A worker is busy only while it computes. A request waits for it after its body has arrived, and the
answer is sent after the worker is free again, so clients that send or read slowly hold up nobody.
The work ends when the client disconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from linkdist.serve.errors import RefusedError
from linkdist.serve.guard import SLOWEST
from linkdist.serve.metrics import Metrics
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from linkdist.serve.spool import Spool, SpooledFile, declared_size
from linkdist.serve.table_prediction import Upload
from linkdist.serve.workers import Process, Workers
from linkdist.tables.certainty import Caution

PART = 1 << 16
"""Bytes that are sent at once."""

T = TypeVar("T")


class LargeRequests:
    """Answers tables, large requests and requests for explanations.

    Parameters
    ----------
    settings : Settings
        Limits.
    metrics : Metrics
        Counts the rows.
    idle : deque of Process, optional
        Worker processes that are used before new ones are started.

    Attributes
    ----------
    spool : Spool
        The temporary files.
    requests, tables : Workers
        The processes for large requests and explanations, and those for tables.
    """

    def __init__(
        self, settings: Settings, metrics: Metrics, idle: deque[Process] | None = None
    ) -> None:
        self.settings, self.metrics = settings, metrics
        self.spool = Spool(settings.spool_bytes)
        limits = settings.memory_bytes, settings.spool_bytes // 2, idle
        self.requests, self.tables = Workers(1, *limits), Workers(settings.tables, *limits)

    def check_room_for_table(self, request: Request) -> None:
        """Refuse a table before its body is read, if there is no room for it."""
        self.tables.check_room()
        self.spool.check_room(min(declared_size(request), self.settings.file_bytes))

    def check_room(self, size: int) -> None:
        """Refuse a large request of so many bytes, if there is no room for it."""
        self.requests.check_room()
        self.spool.check_room(size)

    async def predict(
        self, request: Request, engine: ServedModel, body: bytes | SpooledFile, caution: Caution
    ) -> Response:
        """Predict the rows of a JSON request, whose body this closes."""
        task = {"kind": "rows", "values": self.settings.values, "caution": caution}
        return await self._answer(request, engine, body, task)

    async def explain(
        self,
        request: Request,
        engine: ServedModel,
        body: bytes | SpooledFile,
        labels: Sequence[str] | None,
    ) -> Response:
        """Explain the rows of a JSON request, whose body this closes."""
        return await self._answer(request, engine, body, {"kind": "explain", "labels": labels})

    async def _answer(
        self, request: Request, engine: ServedModel, body: bytes | SpooledFile, task: dict[str, Any]
    ) -> Response:
        settings = self.settings
        with ExitStack() as resources:
            file = resources.enter_context(self.spool.file() if isinstance(body, bytes) else body)
            if isinstance(body, bytes):
                file.write(body)
            task |= {"path": str(file.path), "rows": settings.rows, **_model(engine)}
            out = resources.enter_context(self.spool.file())
            work = self._run(self.requests, task, settings.seconds, out)
            await unless_gone(request, work)
            return SentFile(out, "application/json", settings.seconds, resources.pop_all())

    async def predict_table(
        self,
        request: Request,
        engine: ServedModel,
        table: Upload,
        links: Sequence[Upload],
        lines_type: str | None,
        resources: ExitStack,
        caution: Caution,
    ) -> Response:
        """Predict a table.

        Parameters
        ----------
        request : Request
            The request, whose body has been read.
        engine : ServedModel
            The model.
        table, links : Upload, sequence of Upload
            The uploaded files.
        lines_type : str or None
            The content type if the answer is a stream of JSON lines instead of CSV.
        resources : ExitStack
            What is closed at the end, such as the uploaded file.
        caution : Caution
            Conformal sets, or a share of rows that is left unanswered.
        """
        settings = self.settings
        out, has_grown = resources.enter_context(self.spool.file()), asyncio.Event()
        files = [(str(one.path), one.name) for one in links]
        tables = {"path": str(table.path), "name": table.name, "links": files}
        kind = {"kind": "table", "rows": settings.table_rows, "lines": bool(lines_type)}
        task = {**kind, **tables, "caution": caution, **_model(engine)}
        work = self._run(self.tables, task, settings.table_seconds, out, has_grown)
        if lines_type is None:
            await unless_gone(request, work)
            return SentFile(out, "text/csv", settings.seconds, resources.pop_all())
        writing = asyncio.ensure_future(work)
        resources.callback(writing.cancel)
        await unless_gone(request, _first(writing, has_grown))
        if writing.done():
            writing.result()  # raises an error, which is better as a status than as a line
        lines = following(out, writing, has_grown, settings.seconds)
        return SentFile(out, lines_type, settings.seconds, resources.pop_all(), lines)

    async def _run(
        self,
        workers: Workers,
        task: dict[str, Any],
        seconds: float,
        out: SpooledFile,
        has_grown: asyncio.Event | None = None,
    ) -> None:
        def grown(size: int) -> None:
            out.grow(size)
            if has_grown is not None:
                has_grown.set()

        task["out"] = str(out.path)
        for mode, rows in (await workers.run(task, seconds, grown)).items():
            self.metrics.predicted(mode, rows)

    def close(self) -> None:
        """End the workers."""
        self.requests.close()
        self.tables.close()


def _model(engine: ServedModel) -> dict[str, str]:
    return {"model": str(engine.directory), "version": engine.header.version}


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Await work, and cancel it if the client disconnects.

    Raises
    ------
    RefusedError
        If the client has disconnected; nobody reads it.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({task, gone}, return_when="FIRST_COMPLETED")
        if not task.done():
            raise RefusedError(400, "the client has disconnected.")
        return task.result()
    finally:
        gone.cancel()
        task.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)


async def _first(writing: asyncio.Future[None], has_grown: asyncio.Event) -> None:
    """Wait until a file has content, or until it is complete."""
    growth = asyncio.ensure_future(has_grown.wait())
    either: set[asyncio.Future[Any]] = {writing, growth}
    try:
        await asyncio.wait(either, return_when="FIRST_COMPLETED")
    finally:
        growth.cancel()


async def following(
    file: SpooledFile, writing: asyncio.Future[None], has_grown: asyncio.Event, seconds: float
) -> AsyncIterator[bytes]:
    """Yield the lines that a worker is still writing to a file, and why it stopped if it did."""
    sent, late = 0, None
    while not (writing.done() and sent == file.size):
        has_grown.clear()
        if part := file.read(sent, min(PART, file.size - sent)):
            sent += len(part)
            yield part
        else:
            await _first(writing, has_grown)
        if writing.done():
            late = late or asyncio.get_running_loop().time() + _time_limit(file, seconds)
            if asyncio.get_running_loop().time() > late:
                return
    error = writing.exception()
    if isinstance(error, RefusedError):
        yield json.dumps(error.body()).encode() + b"\n"
    elif error is not None:
        raise error


def _time_limit(file: SpooledFile, seconds: float) -> float:
    return seconds + file.size / SLOWEST


class SentFile(StreamingResponse):
    """A temporary file as an answer; the client must read it at some speed.

    Parameters
    ----------
    file : SpooledFile
        The content.
    media_type : str
        Its content type.
    seconds : float
        Time limit, which grows with the size by a second for each 16 KiB.
    resources : ExitStack
        What is closed at the end, also if the client disconnects.
    parts : async iterator of bytes, optional
        The content if the file is not complete yet; it has a time limit of its own.
    """

    def __init__(
        self,
        file: SpooledFile,
        media_type: str,
        seconds: float,
        resources: ExitStack,
        parts: AsyncIterator[bytes] | None = None,
    ) -> None:
        super().__init__(self._parts() if parts is None else parts, media_type=media_type)
        self.file, self.resources = file, resources
        self.seconds = None if parts else _time_limit(file, seconds)
        if parts is None:
            self.headers["content-length"] = str(file.size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        with self.resources, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                await super().__call__(scope, receive, send)

    async def _parts(self) -> AsyncIterator[bytes]:
        for start in range(0, self.file.size, PART):
            yield self.file.read(start, min(PART, self.file.size - start))
