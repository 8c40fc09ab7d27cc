"""A model that is served: an engine with its request schema, its training curve and its report."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

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
        extras = (self.directory / CURVE, self.directory / REPORT)
        # A symbolic link could lead out of the directory.
        present = [path for path in extras if path.is_file() and not path.is_symlink()]
        self.extras = {path.name: path.read_bytes() for path in present}
