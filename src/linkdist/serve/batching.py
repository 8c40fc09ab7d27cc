"""Requests that arrive together are computed together.

While one batch is computed in a thread, the requests that arrive in the meantime wait for the next
one. A single request therefore never waits, and a busy service computes many rows at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np

from linkdist.data.graph import FloatArray
from linkdist.serve.engine import Engine
from linkdist.serve.errors import RefusedError
from linkdist.serve.metrics import Metrics
from linkdist.serve.schema import Columns, PredictionRequest

BATCH_ROWS = 4096
"""Rows of a batch at most, unless a single request has more."""

TOO_LARGE = "The values are too large: the model gives no probabilities. Send smaller numbers."

Waiting: TypeAlias = tuple[PredictionRequest, "asyncio.Future[FloatArray]"]


class Batcher:
    """The queue in front of an engine.

    Parameters
    ----------
    engine : Engine
        Computes the probabilities.
    max_waiting : int
        Rows that may wait; a request beyond them is refused.
    metrics : Metrics
        Counts the batches.
    """

    def __init__(self, engine: Engine, max_waiting: int, metrics: Metrics) -> None:
        self.engine, self.max_waiting, self.metrics = engine, max_waiting, metrics
        self._waiting: deque[Waiting] = deque()
        self._rows = 0
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="linkdist")

    def check_room(self, rows: int = 1) -> None:
        """Refuse a request of so many rows if too many rows wait already."""
        if self._rows + rows > self.max_waiting:
            raise RefusedError(503, "too many rows wait to be computed. Try again in a second.")

    async def predict(self, request: PredictionRequest) -> FloatArray:
        """Return the probabilities (rows, C) of a request.

        Raises
        ------
        RefusedError
            If too many rows wait, or if the values are too large for the model.
        """
        self.check_room(request.count)
        result: asyncio.Future[FloatArray] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, result))
        self._rows += request.count
        if self._task is None:
            self._task = asyncio.create_task(self._compute())
        return await result

    async def _compute(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = self._take()
            requests = [request for request, _ in batch]
            found: Sequence[FloatArray | Exception]
            try:
                found = await loop.run_in_executor(self._thread, compute, self.engine, requests)
            except Exception as error:
                found = [error] * len(batch)
            self.metrics.batch(sum(request.count for request in requests))
            for (_, result), value in zip(batch, found, strict=True):
                if result.done():  # the client has disconnected
                    continue
                if isinstance(value, Exception):
                    result.set_exception(value)
                else:
                    result.set_result(value)
        self._task = None

    def _take(self) -> list[Waiting]:
        batch: list[Waiting] = []
        rows = 0
        while self._waiting and (not batch or rows + self._waiting[0][0].count <= BATCH_ROWS):
            batch.append(self._waiting.popleft())
            rows += batch[-1][0].count
        self._rows -= rows
        return batch


def compute(
    engine: Engine, requests: Sequence[PredictionRequest]
) -> list[FloatArray | RefusedError]:
    """Compute the probabilities of several requests at once.

    Returns
    -------
    list of (rows, C) array or RefusedError
        One for each request. A request that cannot be computed does not affect the others.
    """
    features = engine.schema.encode(_join([request.columns for request in requests]))
    starts = np.cumsum([0, *(request.count for request in requests)])
    links = [one.links + start for one, start in zip(requests, starts, strict=False)]
    p = engine.probabilities(features, np.concatenate(links))
    parts = [p[start : start + one.rows] for start, one in zip(starts, requests, strict=False)]
    return [part if np.isfinite(part).all() else RefusedError(422, TOO_LARGE) for part in parts]


def _join(columns: Sequence[Columns]) -> Columns:
    if len(columns) == 1:
        return columns[0]
    return {name: [value for part in columns for value in part[name]] for name in columns[0]}
