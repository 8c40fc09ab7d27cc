"""A table of predictions that is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from linkdist._files import sweep_aside
from linkdist.errors import OptionError, TableError
from linkdist.tables.io import SUFFIXES

GROUP = 1 << 14
"""Rows that are written at once: larger groups would suit readers, but cost memory here."""


def prediction_schema(id_name: str, id_type: pa.DataType, classes: Sequence[str]) -> pa.Schema:
    """Ids, `label`, `confidence` and `p_<class>` for each class, as columns.

    Raises
    ------
    TableError
        If the ids' name is one of the others.

    Examples
    --------
    >>> prediction_schema("paper", pa.int64(), ["art", "math"]).names
    ['paper', 'label', 'confidence', 'p_art', 'p_math']
    """
    added = ["label", "confidence", *(f"p_{name}" for name in classes)]
    if id_name in added:
        advice = f"Rename the column of ids; {', '.join(added)} are the predictions'."
        raise TableError(f"{id_name!r} cannot name ids beside predictions. {advice}")
    types = [id_type, pa.string(), *[pa.float32()] * (len(added) - 1)]
    return pa.schema(list(zip([id_name, *added], types, strict=True)))


def prediction_batch(
    ids: pa.Array, p: npt.NDArray[np.float32], schema: pa.Schema, classes: pa.Array
) -> pa.RecordBatch:
    """Ids (n,) and probabilities (n, C) as rows of that schema."""
    label = classes.take(pa.array(p.argmax(axis=1)))
    columns = [ids.cast(schema.types[0]), label, p.max(axis=1), *p.T]
    return pa.record_batch(columns, schema=schema)


class PredictionWriter:
    """A table of predictions that is there whole or not at all.

    Its columns are the ids under their own name, `label`, `confidence` (the label's probability)
    and `p_<class>` for each class.

    Parameters
    ----------
    path : Path
        Named .parquet, .pq, .csv or .tsv.
    id_name : str
        The column of ids.
    id_type : DataType
        Of the ids.
    classes : sequence of str
        The C classes' names.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "predictions.csv")
    ...     with PredictionWriter(path, "paper", pa.int64(), ["art", "math"]) as writer:
    ...         writer.write(pa.array([7]), np.array([[0.25, 0.75]]))
    ...     print(path.read_text().strip())
    "paper","label","confidence","p_art","p_math"
    7,"math",0.75,0.25,0.75
    """

    def __init__(
        self, path: Path | str, id_name: str, id_type: pa.DataType, classes: Sequence[str]
    ) -> None:
        self.path = Path(path)
        self._classes = pa.array(classes, pa.string())
        if self.path.suffix.lower() not in SUFFIXES:
            advice = f"Name it {', '.join(SUFFIXES)}."
            raise TableError(f"{self.path}: its ending says no kind of table. {advice}")
        self._schema = prediction_schema(id_name, id_type, classes)
        self._waiting: list[pa.RecordBatch] = []
        self._aside = self.path.with_name(f".{self.path.name}.{uuid4().hex}")

    def __enter__(self) -> Self:
        """Open a file aside."""
        sweep_aside(self.path)
        with self._written():
            self._file = self._aside.open("xb")
            try:
                self._writer = self._make_writer()
            except BaseException:
                self._discard()
                raise
        return self

    def write(self, ids: pa.Array, probabilities: npt.ArrayLike) -> None:
        """Append rows.

        Parameters
        ----------
        ids : (n,) Arrow array
            Of the type given.
        probabilities : (n, C) array
            A row a node.
        """
        p = np.asarray(probabilities, dtype=np.float32)
        if p.shape != (len(ids), len(self._classes)):
            shape = (len(ids), len(self._classes))
            raise TableError(f"probabilities must have shape {shape}; found {p.shape}.")
        with self._written():
            self._waiting.append(prediction_batch(ids, p, self._schema, self._classes))
            if sum(map(len, self._waiting)) >= GROUP:
                self._write()

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting = []

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the file its name, or take it away after a failure."""
        try:
            # What went wrong first is told, not that the rest cannot be written either.
            with suppress(*([] if kind is None else [Exception])), self._written():
                if self._waiting and kind is None:
                    self._write()
                self._writer.close()
                self._file.flush()
                # Else a crash may leave the new name on a file that was never stored.
                os.fsync(self._file.fileno())
                if kind is None:
                    self._aside.replace(self.path)
        finally:
            self._discard()

    def _discard(self) -> None:
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):  # not there: renamed by now
            self._aside.unlink()

    def _make_writer(self) -> Any:  # noqa: ANN401
        if SUFFIXES[self.path.suffix.lower()] == "Parquet":
            return pyarrow.parquet.ParquetWriter(self._file, self._schema)
        tab = self.path.suffix.lower() == ".tsv"
        options = pyarrow.csv.WriteOptions(delimiter="\t" if tab else ",")
        return pyarrow.csv.CSVWriter(self._file, self._schema, write_options=options)

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except pa.ArrowException as error:
            advice = "Write Parquet, which holds ids of more types than CSV does."
            raise TableError(f"{self.path} cannot be written: {error}. {advice}") from error
        except OSError as error:
            advice = "Name a folder that is there and that you may write to."
            text = error.strerror or error
            raise OptionError(f"{self.path} cannot be written: {text}. {advice}") from error
