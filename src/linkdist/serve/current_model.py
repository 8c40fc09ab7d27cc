"""The model that is served: the queue in front of it, and its replacement by a newer one.

Requests that arrive together are computed together. While one batch is computed in a thread, the
requests that arrive in the meantime wait for the next one. A single request therefore never waits,
and a busy service computes many rows at once.

A model directory is replaced as a whole, so a changed `model.json` means a new model. The new model
is loaded and tested while the old one continues to answer. A model that cannot be loaded is
refused, and the old one stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from linkdist.artifacts.manifest import HEADER
from linkdist.data.graph import FloatArray
from linkdist.errors import LinkDistError
from linkdist.serve.answers import RefusedModel
from linkdist.serve.compute import Result, compute
from linkdist.serve.drift import DriftWatch, make_watch
from linkdist.serve.errors import RefusedError
from linkdist.serve.metrics import Metrics
from linkdist.serve.schema import PredictionRequest
from linkdist.serve.served_model import ServedModel

BATCH_ROWS = 4096
"""Rows of a batch at most, unless a single request has more."""

INTERVAL = 1.0
"""Seconds between two checks of the directory."""

Waiting: TypeAlias = tuple[PredictionRequest, "asyncio.Future[Result]"]

log = logging.getLogger("linkdist.serve")


class CurrentModel:
    """The model that is served.

    Parameters
    ----------
    directory : Path
        A model directory.
    max_waiting : int
        Rows that may wait to be computed.
    metrics : Metrics
        Counts models and batches.
    drift_rows : int
        Rows of a window that are compared with the training; 0 if none are.

    Raises
    ------
    ModelError
        If the first model cannot be loaded.

    Attributes
    ----------
    batcher : Batcher
        The queue of the current engine.
    refused : RefusedModel or None
        Why a newer model was refused.
    """

    def __init__(
        self, directory: Path, max_waiting: int, metrics: Metrics, drift_rows: int = 0
    ) -> None:
        self.directory, self.max_waiting, self.metrics = directory, max_waiting, metrics
        self.drift_rows = drift_rows
        self._stamp = _stamp(directory)
        self._serve(ServedModel(directory))

    @property
    def engine(self) -> ServedModel:
        """The current engine."""
        return self.batcher.engine

    async def watch(self) -> None:
        """Check the directory regularly, as long as the service runs."""
        while True:
            await asyncio.sleep(INTERVAL)
            await self.check()

    async def check(self) -> None:
        """Load a new model if there is one; never raises, so that `watch` goes on."""
        stamp = _stamp(self.directory)
        if stamp is None or stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            engine = await asyncio.to_thread(ServedModel, self.directory)
        except (LinkDistError, OSError) as error:
            self._refuse(str(error))
        except Exception as error:
            log.exception("unexpected error while a model was loaded")
            self._refuse(f"unexpected error: {type(error).__name__}: {error}")
        else:
            self._serve(engine)
            log.warning("now serving version %s", engine.header.version)

    def _serve(self, engine: ServedModel) -> None:
        # Requests that wait were read for the old model, so the new one has a queue of its own.
        watch = make_watch(engine, self.drift_rows, self.metrics.drift)
        self.batcher = Batcher(engine, self.max_waiting, self.metrics, watch)
        self.refused: RefusedModel | None = None
        self.metrics.models.labels("loaded").inc()

    def _refuse(self, reason: str) -> None:
        self.refused = RefusedModel(at=datetime.now(UTC).isoformat(), reason=reason)
        self.metrics.models.labels("refused").inc()
        log.warning("the new model is refused, and the old one stays: %s", reason)


def _stamp(directory: Path) -> tuple[int, int, int] | None:
    try:
        found = (directory / HEADER).stat()
    except OSError:  # between two models, or deleted: the loaded one continues to answer
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Batcher:
    """The queue in front of an engine.

    Parameters
    ----------
    engine : ServedModel
        Computes the probabilities.
    max_waiting : int
        Rows that may wait; a request beyond them is refused.
    metrics : Metrics
        Counts the batches.
    watch : DriftWatch, optional
        Compares the rows with the training.
    """

    def __init__(
        self,
        engine: ServedModel,
        max_waiting: int,
        metrics: Metrics,
        watch: DriftWatch | None = None,
    ) -> None:
        self.engine, self.max_waiting, self.metrics = engine, max_waiting, metrics
        self.watch = watch
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
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        self._rows += request.count
        if self._task is None:
            self._task = asyncio.create_task(self._compute())
        result = await future
        if isinstance(result, Exception):
            raise result
        return result

    async def _compute(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            requests, futures = zip(*self._take(), strict=True)
            self.metrics.batch_rows.observe(sum(request.count for request in requests))
            try:
                results = await loop.run_in_executor(self._thread, compute, self.engine, requests)
            except Exception as error:
                results = [error] * len(requests)
            for future, result in zip(futures, results, strict=True):
                if not future.done():  # done: the client has disconnected
                    future.set_result(result)
            if self.watch is not None and self.watch.is_free():
                await loop.run_in_executor(self._thread, self.watch.add, requests, results)
        self._task = None

    def _take(self) -> list[Waiting]:
        batch: list[Waiting] = []
        rows = 0
        while self._waiting and (not batch or rows + self._waiting[0][0].count <= BATCH_ROWS):
            batch.append(self._waiting.popleft())
            rows += batch[-1][0].count
        self._rows -= rows
        return batch
