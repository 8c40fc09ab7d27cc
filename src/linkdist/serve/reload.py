"""The model that is served now, and the next one as soon as it is there and good.

A model directory is replaced whole, so a changed `model.json` means a new model. It is read and
tried out aside; then it takes the old one's place, which goes on until its last request is
answered. A model that cannot be read or does not run is refused, and the old one stays.
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

EVERY = 1.0
"""Seconds between looks at the directory."""

log = logging.getLogger("linkdist.serve")


class Refused(NamedTuple):
    """A model that was not put in place."""

    at: datetime
    reason: str


class Current:
    """The model that is served now.

    Parameters
    ----------
    directory : Path
        A model directory.
    most : int
        Rows that may wait to be computed.
    metrics : Metrics
        Where models and batches are counted.

    Raises
    ------
    ModelError
        If the first model is not good.

    Attributes
    ----------
    batcher : Batcher
        In front of the engine that answers now.
    refused : Refused or None
        A newer model that is not good.
    """

    def __init__(self, directory: Path, most: int, metrics: Metrics) -> None:
        self.directory, self.most, self.metrics = directory, most, metrics
        self.refused: Refused | None = None
        self._stamp = _stamp(directory)
        self.batcher = Batcher(Engine(directory), most, metrics)
        metrics.model("loaded")

    @property
    def engine(self) -> Engine:
        """That answers now."""
        return self.batcher.engine

    async def watch(self) -> None:
        """Look for a new model, for as long as the service lives."""
        while True:
            await asyncio.sleep(EVERY)
            await self.look()

    async def look(self) -> None:
        """Put a new model in place if there is a good one."""
        stamp = _stamp(self.directory)
        if stamp is None or stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            engine = await asyncio.to_thread(Engine, self.directory)
        except (LinkDistError, OSError) as error:
            self.refused = Refused(datetime.now(UTC), str(error))
            self.metrics.model("refused")
            log.warning("the new model is refused, the old one stays: %s", error)
            return
        self.batcher = Batcher(engine, self.most, self.metrics)
        self.refused = None
        self.metrics.model("loaded")
        log.warning("now serving version %s", engine.header.version)


def _stamp(directory: Path) -> tuple[int, int, int] | None:
    try:
        found = (directory / HEADER).stat()
    except OSError:  # between two models, or gone: the one that is loaded goes on
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
