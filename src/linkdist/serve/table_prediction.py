"""A table that someone drops on the service, predicted piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from linkdist.errors import TableError
from linkdist.serve.engine import Engine
from linkdist.serve.errors import RefusedError
from linkdist.tables.io import SUFFIXES, open_table
from linkdist.tables.nodes import node_batches
from linkdist.tables.predictions import prediction_batch, prediction_schema


def suffix_of(name: str) -> str:
    """The ending of a file's name, if it is one of a table's.

    Examples
    --------
    >>> suffix_of("Nodes.CSV")
    '.csv'
    """
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise RefusedError(415, f"{name!r} must be a table and end in one of {known}.")
    return suffix


class Predicted:
    """The predictions of a table as pieces of CSV.

    Parameters
    ----------
    path : Path
        The table.
    name : str
        How its owner calls it, for messages.
    engine : Engine
        That predicts.

    Raises
    ------
    RefusedError
        Here or on the way, if the table cannot be used.

    Attributes
    ----------
    total : int or None
        Rows of the table; None where only reading tells.
    """

    def __init__(self, path: Path, name: str, engine: Engine) -> None:
        self.path, self.name, self.engine = path, name, engine
        self.column = str(engine.header.about.get("id", ""))
        if engine.header.encoders is None or not self.column:
            raise RefusedError(
                422, "the model knows no columns, so it reads no tables. Post rows of numbers."
            )
        try:
            table = open_table(path)
        except TableError as error:
            raise self._refused(error) from error
        self.total = table.rows
        self._check_columns(engine.header.encoders.names, table.schema.names)

    def _check_columns(self, needed: Sequence[str], there: Sequence[str]) -> None:
        missing = [name for name in (self.column, *needed) if name not in there]
        if missing:
            lacks, has = (", ".join(map(repr, names)) for names in (missing, there))
            rule = f"{self.name} must have all columns that the model reads, and the ids"
            raise RefusedError(
                422,
                f"{rule}; it lacks {lacks} and has {has}.",
                {name: f"{self.name} has no column {name!r}." for name in missing},
            )

    def pieces(self) -> Iterator[tuple[int, str]]:
        """How many rows a piece has, and its text; the first begins with the header."""
        header = self.engine.header
        assert header.encoders is not None
        classes = pa.array(header.classes, pa.string())
        first = True
        try:
            for ids, features in node_batches(self.path, self.column, header.encoders):
                p = self.engine.probabilities(features)
                schema = prediction_schema(self.column, ids.type, header.classes)
                yield len(ids), _csv(prediction_batch(ids, p, schema, classes), first)
                first = False
        except TableError as error:
            raise self._refused(error) from error
        except pa.ArrowException as error:
            raise RefusedError(422, f"{self.name}: ids cannot be written: {error}.") from error
        if first:
            raise RefusedError(422, f"{self.name}: the table has no rows.")

    def _refused(self, error: TableError) -> RefusedError:
        """The same with the owner's name for the file, and the columns that it blames."""
        text = str(error).replace(str(self.path), self.name)
        names = () if self.engine.header.encoders is None else self.engine.header.encoders.names
        return RefusedError(422, text, {name: text for name in names if f"column {name!r}" in text})


def _csv(batch: pa.RecordBatch, with_header: bool) -> str:
    out = BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=with_header)
    pyarrow.csv.write_csv(batch, out, options)
    return out.getvalue().decode()
