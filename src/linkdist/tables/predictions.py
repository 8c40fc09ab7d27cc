"""Write tables of predictions; an incomplete table is never visible."""

from __future__ import annotations

from collections import Counter
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

from linkdist._files import replacing, sweep_aside, unwritable
from linkdist.errors import TableError
from linkdist.tables.csv_text import escape_formulas, escape_names
from linkdist.tables.io import SUFFIXES
from linkdist.tables.prediction_columns import PredictionColumns

GROUP = 1 << 14
"""Number of rows that are written together; larger groups are faster to read but need memory."""


class PredictionWriter:
    """Writes a table of predictions to a temporary file and renames it when it is complete.

    Parameters
    ----------
    path : Path
        The file to write, named .parquet, .pq, .csv or .tsv.
    id_name : str
        Name of the column of ids.
    id_type : DataType
        Type of the ids.
    columns : PredictionColumns or sequence of str
        The other columns; for a classification, names of the C classes.
    raw_text : bool
        Whether text in CSV stays as it is, even if a spreadsheet would take it for a formula.

    Attributes
    ----------
    escaped : dict of str to int
        How many values of each column were escaped; see `linkdist.tables.csv_text`.

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
        self,
        path: Path | str,
        id_name: str,
        id_type: pa.DataType,
        columns: PredictionColumns | Sequence[str],
        raw_text: bool = False,
    ) -> None:
        self.path = Path(path)
        if not isinstance(columns, PredictionColumns):
            columns = PredictionColumns.of({}, columns)
        self._columns = columns
        _check_suffix(self.path)
        parquet = SUFFIXES[self.path.suffix.lower()] == "Parquet"
        self._schema = columns.schema(id_name, id_type, lists=parquet)
        self._raw, self.escaped = raw_text or parquet, Counter[str]()
        self._waiting: list[pa.RecordBatch] = []

    def __enter__(self) -> Self:
        """Create the temporary file."""
        sweep_aside(self.path)
        with _written(self.path), ExitStack() as stack:
            self._file = stack.enter_context(replacing(self.path))
            schema = self._schema if self._raw else escape_names(self._schema)
            self._writer = _make_writer(self._file, self.path, schema)
            self._open = stack.pop_all()
        return self

    def write(
        self,
        ids: pa.Array,
        values: npt.ArrayLike,
        linked: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Append rows.

        Parameters
        ----------
        ids : (n,) Arrow array
            Ids of type `id_type`.
        values : (n, C) array
            One row of probabilities per node; for regression, a number (n, 1).
        linked : (n,) array of bool, optional
            Which nodes have links; by default none.
        """
        p = np.asarray(values, dtype=np.float32)
        shape = (len(ids), len(self._columns.form.classes))
        if p.shape != shape:
            what = "numbers" if self._columns.task == "regression" else "probabilities"
            raise TableError(f"{what} must have shape {shape}; found {p.shape}.")
        with _written(self.path):
            self._waiting.append(self._columns.batch(ids, p, self._schema, linked))
            if sum(map(len, self._waiting)) >= GROUP:
                self._write()

    def _write(self) -> None:
        table = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(table if self._raw else _escaped(table, self.escaped))
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


def write_table(table: pa.Table, path: Path | str, raw_text: bool = False) -> dict[str, int]:
    """Write a table to a temporary file, and rename it when it is complete.

    Parameters
    ----------
    table : Table
        The table.
    path : Path or str
        The file to write, named .parquet, .pq, .csv or .tsv.
    raw_text : bool
        Whether text in CSV stays as it is, even if a spreadsheet would take it for a formula.

    Returns
    -------
    dict of str to int
        How many values of each column were escaped; see `linkdist.tables.csv_text`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "table.csv")
    ...     _ = write_table(pa.table({"id": [7], "field": pa.nulls(1, pa.string())}), path)
    ...     print(path.read_text())
    "id","field"
    7,
    <BLANKLINE>
    """
    path, escaped = Path(path), Counter[str]()
    _check_suffix(path)
    if not (raw_text or SUFFIXES[path.suffix.lower()] == "Parquet"):
        table = _escaped(table, escaped)
    with _written(path), replacing(path) as file, _make_writer(file, path, table.schema) as writer:
        writer.write_table(table)
    return dict(escaped)


def _escaped(table: pa.Table, counts: Counter[str]) -> pa.Table:
    """A table for CSV, whose text a spreadsheet takes for text; adds to `counts`."""
    batches = []
    for batch in table.to_batches():
        escaped, found = escape_formulas(batch)
        counts.update(found)
        batches.append(escaped)
    names = escape_names(table.schema).names
    return pa.Table.from_batches(batches, table.schema).rename_columns(names)


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
        raise unwritable(path, error) from error
