"""Write tables of predictions; an incomplete table is never visible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from linkdist._files import replacing, sweep_aside
from linkdist.errors import OptionError, TableError
from linkdist.tables.io import SUFFIXES

GROUP = 1 << 14
"""Number of rows that are written together; larger groups are faster to read but need memory."""


def prediction_schema(id_name: str, id_type: pa.DataType, classes: Sequence[str]) -> pa.Schema:
    """The columns of a table of predictions: ids, `label`, `confidence`, `p_<class>` per class.

    Raises
    ------
    TableError
        If the column of ids has the name of another column.

    Examples
    --------
    >>> prediction_schema("paper", pa.int64(), ["art", "math"]).names
    ['paper', 'label', 'confidence', 'p_art', 'p_math']
    """
    added = ["label", "confidence", *(f"p_{name}" for name in classes)]
    if id_name in added:
        advice = f"Rename it; the columns of predictions are {', '.join(added)}."
        raise TableError(f"{id_name!r} cannot be the name of the column of ids. {advice}")
    types = [id_type, pa.string(), *[pa.float32()] * (len(added) - 1)]
    return pa.schema(list(zip([id_name, *added], types, strict=True)))


def prediction_batch(
    ids: pa.Array, p: npt.NDArray[np.float32], schema: pa.Schema, classes: pa.Array
) -> pa.RecordBatch:
    """Combine ids (n,) and probabilities (n, C) into rows of `prediction_schema`."""
    label = classes.take(pa.array(p.argmax(axis=1)))
    columns = [ids.cast(schema.types[0]), label, p.max(axis=1), *p.T]
    return pa.record_batch(columns, schema=schema)


class PredictionWriter:
    """Writes a table of predictions to a temporary file and renames it when it is complete.

    The columns are the ids, `label`, `confidence` (the probability of the label) and one
    `p_<class>` per class.

    Parameters
    ----------
    path : Path
        The file to write, named .parquet, .pq, .csv or .tsv.
    id_name : str
        Name of the column of ids.
    id_type : DataType
        Type of the ids.
    classes : sequence of str
        Names of the C classes.

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
        _check_suffix(self.path)
        self._schema = prediction_schema(id_name, id_type, classes)
        self._waiting: list[pa.RecordBatch] = []

    def __enter__(self) -> Self:
        """Create the temporary file."""
        sweep_aside(self.path)
        with _written(self.path), ExitStack() as stack:
            self._file = stack.enter_context(replacing(self.path))
            self._writer = _make_writer(self._file, self.path, self._schema)
            self._open = stack.pop_all()
        return self

    def write(self, ids: pa.Array, probabilities: npt.ArrayLike) -> None:
        """Append rows.

        Parameters
        ----------
        ids : (n,) Arrow array
            Ids of type `id_type`.
        probabilities : (n, C) array
            One row per node.
        """
        p = np.asarray(probabilities, dtype=np.float32)
        if p.shape != (len(ids), len(self._classes)):
            shape = (len(ids), len(self._classes))
            raise TableError(f"probabilities must have shape {shape}; found {p.shape}.")
        with _written(self.path):
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
        """Rename the temporary file, or delete it after a failure."""
        if kind is None:
            with _written(self.path), self._open:
                if self._waiting:
                    self._write()
                self._writer.close()
            return
        # The first exception is raised, not that of closing the file.
        with suppress(Exception), self._open:
            self._writer.close()
            raise InterruptedError  # so that the file is not renamed


def write_table(table: pa.Table, path: Path | str) -> None:
    """Write a table to a temporary file, and rename it when it is complete.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "table.csv")
    ...     write_table(pa.table({"id": [7], "field": pa.nulls(1, pa.string())}), path)
    ...     print(path.read_text())
    "id","field"
    7,
    <BLANKLINE>
    """
    path = Path(path)
    _check_suffix(path)
    with _written(path), replacing(path) as file, _make_writer(file, path, table.schema) as writer:
        writer.write_table(table)


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        advice = f"Use one of {', '.join(SUFFIXES)}."
        raise TableError(f"{path}: the suffix is not that of a table. {advice}")


def _make_writer(file: Any, path: Path, schema: pa.Schema) -> Any:  # noqa: ANN401
    """A writer of Arrow for the format that the suffix names."""
    if SUFFIXES[path.suffix.lower()] == "Parquet":
        return pyarrow.parquet.ParquetWriter(file, schema)
    tab = path.suffix.lower() == ".tsv"
    options = pyarrow.csv.WriteOptions(delimiter="\t" if tab else ",")
    return pyarrow.csv.CSVWriter(file, schema, write_options=options)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Turn errors of writing into errors that say what to do."""
    try:
        yield
    except pa.ArrowException as error:
        advice = "Write Parquet, which supports more types of ids than CSV."
        raise TableError(f"{path} cannot be written: {error}. {advice}") from error
    except OSError as error:
        advice = "Name an existing folder with write permission."
        text = error.strerror or error
        raise OptionError(f"{path} cannot be written: {text}. {advice}") from error
