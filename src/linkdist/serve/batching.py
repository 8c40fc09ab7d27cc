"""Requests that arrive together are computed together.

While one batch is computed in a thread, the requests that arrive meanwhile wait for the next. So a
lone request waits for nobody, and a busy service computes many rows at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np

from linkdist.data.graph import FloatArray
from linkdist.serve.encoding import features_of
from linkdist.serve.engine import Engine
from linkdist.serve.errors import RefusedError
from linkdist.serve.metrics import Metrics
from linkdist.serve.rows import Asked, Columns

TOGETHER = 4096
"""Rows that are computed at once, unless one request has more."""

Waiting: TypeAlias = tuple[Asked, "asyncio.Future[FloatArray]"]


class Batcher:
    """The queue in front of an engine.

    Parameters
    ----------
    engine : Engine
        That computes.
    most : int
        Rows that may wait; a request beyond is refused.
    metrics : Metrics
        Where batches are counted.
    """

    def __init__(self, engine: Engine, most: int, metrics: Metrics) -> None:
        self.engine, self.most, self.metrics = engine, most, metrics
        self._waiting: deque[Waiting] = deque()
        self._rows = 0
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="linkdist")

    async def ask(self, asked: Asked) -> FloatArray:
        """The probabilities (rows, C) of a request, once its turn came.

        Raises
        ------
        RefusedError
            Where its values do not fit, or too many wait.
        """
        if self._rows + asked.count > self.most:
            raise RefusedError(503, "too many rows wait to be computed. Try again in a second.")
        answer: asyncio.Future[FloatArray] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        self._rows += asked.count
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = self._take()
            asked = [one for one, _ in batch]
            try:
                found = await loop.run_in_executor(self._thread, answers, self.engine, asked)
            except Exception as error:
                found = [error] * len(batch)
            self.metrics.batch(sum(one.count for one in asked))
            for (_, answer), result in zip(batch, found, strict=True):
                if answer.done():  # its client has gone
                    continue
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)
        self._task = None

    def _take(self) -> list[Waiting]:
        batch: list[Waiting] = []
        rows = 0
        while self._waiting and (not batch or rows + self._waiting[0][0].count <= TOGETHER):
            batch.append(self._waiting.popleft())
            rows += batch[-1][0].count
        self._rows -= rows
        return batch


def answers(engine: Engine, asked: Sequence[Asked]) -> list[FloatArray | Exception]:
    """Probabilities for each request; where one cannot be computed, it alone has the error."""
    try:
        p = _together(engine, asked)
    except RefusedError as error:
        if len(asked) == 1:
            return [error]
        return [one for part in asked for one in answers(engine, [part])]
    ends = np.cumsum([one.count for one in asked])
    starts = ends - [one.count for one in asked]
    return [p[start : start + one.rows] for start, one in zip(starts, asked, strict=True)]


def _together(engine: Engine, asked: Sequence[Asked]) -> FloatArray:
    features = features_of(_joined([one.columns for one in asked]), engine.header)
    starts = np.cumsum([0, *(one.count for one in asked)])
    links = [one.links + start for one, start in zip(asked, starts, strict=False)]
    return engine.probabilities(features, np.concatenate(links))


def _joined(columns: Sequence[Columns]) -> Columns:
    if len(columns) == 1:
        return columns[0]
    return {name: [value for part in columns for value in part[name]] for name in columns[0]}
