"""Answers that are too long to hold: the predictions of a table, part by part."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import IO

from fastapi.responses import StreamingResponse

from linkdist.serve.errors import RefusedError
from linkdist.serve.metrics import Metrics
from linkdist.serve.middleware import Receive, Scope, Send
from linkdist.serve.table_prediction import Predicted


class Streamed(StreamingResponse):
    """A stream, and what is given back when it has ended, also where its client has gone."""

    def __init__(
        self, stream: AsyncIterator[bytes], kind: str, after: contextlib.ExitStack
    ) -> None:
        super().__init__(stream, media_type=kind)
        self.after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self.after:
            await super().__call__(scope, receive, send)


def write(table: Predicted, file: IO[bytes]) -> int:
    """All predictions of a table into a file; gives their number."""
    done = 0
    for rows, text in table.pieces():
        file.write(text.encode())
        done += rows
    file.seek(0)
    return done


async def parts_of(file: IO[bytes]) -> AsyncIterator[bytes]:
    """A file, part by part."""
    while part := await asyncio.to_thread(file.read, 1 << 16):
        yield part


async def lines_of(table: Predicted, metrics: Metrics) -> AsyncIterator[bytes]:
    """The predictions of a table, a line a piece."""
    done, pieces = 0, table.pieces()
    yield _line({"total": table.total})
    try:
        while piece := await asyncio.to_thread(next, pieces, None):
            done += piece[0]
            metrics.predicted("features", piece[0])
            yield _line({"done": done, "csv": piece[1]})
    except RefusedError as error:
        yield _line(error.body())
        return
    yield _line({"end": done})


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
