"""A model that is served: an engine with its request schema, its training curve and its report."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from linkdist._files import read_regular
from linkdist.artifacts.manifest import CURVE, REPORT
from linkdist.inference.engine import Engine
from linkdist.serve.schema import RequestSchema


class ServedModel(Engine):
    """An engine, and what a service shows of its model.

    Attributes
    ----------
    schema : RequestSchema
        Reads requests to this model.
    loaded : datetime
        When the model was loaded.
    extras : mapping of str to bytes
        The training curve and the report, if the directory has them.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.schema = RequestSchema(self.header)
        self.loaded = datetime.now(UTC)
        self.extras = {name: content for name in (CURVE, REPORT) if (content := self._extra(name))}

    def _extra(self, name: str) -> bytes | None:
        with suppress(OSError):  # missing, or a link that may lead out of the directory
            return read_regular(self.directory / name)
        return None
