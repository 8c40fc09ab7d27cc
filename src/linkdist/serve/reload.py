"""The model that is served, and its replacement by a newer one.

A model directory is replaced as a whole, so a changed `model.json` means a new model. The new model
is loaded and tested while the old one continues to answer. A model that cannot be loaded is
refused, and the old one stays.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from linkdist.artifacts.manifest import HEADER
from linkdist.errors import LinkDistError
from linkdist.serve.batching import Batcher
from linkdist.serve.engine import Engine
from linkdist.serve.metrics import Metrics

INTERVAL = 1.0
"""Seconds between two checks of the directory."""

log = logging.getLogger("linkdist.serve")


class Refusal(NamedTuple):
    """When and why a newer model was refused."""

    at: datetime
    reason: str


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

    Raises
    ------
    ModelError
        If the first model cannot be loaded.

    Attributes
    ----------
    batcher : Batcher
        The queue of the current engine.
    refused : Refusal or None
        Why a newer model was refused.
    """

    def __init__(self, directory: Path, max_waiting: int, metrics: Metrics) -> None:
        self.directory, self.max_waiting, self.metrics = directory, max_waiting, metrics
        self.refused: Refusal | None = None
        self._stamp = _stamp(directory)
        self.batcher = Batcher(Engine(directory), max_waiting, metrics)
        metrics.model("loaded")

    @property
    def engine(self) -> Engine:
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
            engine = await asyncio.to_thread(Engine, self.directory)
        except (LinkDistError, OSError) as error:
            self._refuse(str(error))
        except Exception as error:
            log.exception("unexpected error while a model was loaded")
            self._refuse(f"unexpected error: {type(error).__name__}: {error}")
        else:
            self.batcher = Batcher(engine, self.max_waiting, self.metrics)
            self.refused = None
            self.metrics.model("loaded")
            log.warning("now serving version %s", engine.header.version)

    def _refuse(self, reason: str) -> None:
        self.refused = Refusal(datetime.now(UTC), reason)
        self.metrics.model("refused")
        log.warning("the new model is refused, and the old one stays: %s", reason)


def _stamp(directory: Path) -> tuple[int, int, int] | None:
    try:
        found = (directory / HEADER).stat()
    except OSError:  # between two models, or deleted: the loaded one continues to answer
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
