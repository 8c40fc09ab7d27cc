"""Read tables from Parquet and CSV files, batch by batch.

A file may be larger than memory. Its type is detected from its content, and its name must agree.
Opening a file also infers its schema, for which the first block of a CSV file is parsed.
"""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from linkdist.errors import TableError
from linkdist.tables.validation import SHOWN, Problems

SUFFIXES = {".parquet": "Parquet", ".pq": "Parquet", ".csv": "CSV", ".tsv": "CSV"}

MAGIC = b"PAR1"

BATCH = 4096
"""Number of rows in a batch."""

BLOCK = 1 << 22
"""Bytes of a CSV block and of the longest row; types are inferred from the first block."""

BUFFER = 1 << 20
"""Bytes of the read buffer of a Parquet column."""

SAMPLE = 1000
"""Number of rows from which the kinds of columns are inferred."""

MISFIT = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (.+?): (.*)", re.DOTALL
)
"""Arrow's message about a CSV value that does not have the type of its column."""


class Table(ABC):
    """A file with rows and named columns.

    Attributes
    ----------
    path : Path
        The file.
    schema : Schema
        Columns and their types.
    rows : int or None
        Number of rows; None for CSV, where it is unknown before the whole file is read.
    """

    path: Path
    schema: pa.Schema
    rows: int | None

    def batches(
        self,
        columns: Sequence[str] | None = None,
        size: int = BATCH,
        as_text: Collection[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows in order.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; by default all.
        size : int
            Maximum number of rows in a batch.
        as_text : collection of str
            Columns that are read as text from CSV, whatever their inferred type.

        Raises
        ------
        TableError
            If the file is damaged or cannot be read.
        """
        names = list(self.schema.names if columns is None else columns)
        problems = Problems()
        problems.names("column", names, self.schema.names)
        problems.check(str(self.path))
        with _table_errors(self):
            for batch in self._read(names, size, as_text):
                batch.validate(full=True)  # text in Parquet may not be UTF-8
                yield from (batch.slice(i, size) for i in range(0, batch.num_rows, size))

    def numbered_batches(
        self, columns: Sequence[str], size: int = BATCH, as_text: Collection[str] = ()
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read batches with the row numbers of their first rows; parameters as in `batches`."""
        row = 1
        for batch in self.batches(columns, size, as_text):
            yield row, batch
            row += batch.num_rows

    @abstractmethod
    def sample(self) -> pa.Table:
        """The first rows, at most `SAMPLE`."""

    @abstractmethod
    def _read(
        self, columns: list[str], size: int, as_text: Collection[str]
    ) -> Iterator[pa.RecordBatch]: ...


def open_table(path: Path | str) -> Table:
    r"""Open a Parquet or CSV file.

    Parameters
    ----------
    path : Path
        A file named .parquet, .pq, .csv or .tsv.

    Raises
    ------
    TableError
        If the file does not exist, or its content does not agree with its name.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "nodes.csv")
    ...     _ = path.write_text("id,age\n007,30\n")
    ...     [batch.to_pylist() for batch in open_table(path).batches(as_text=["id"])]
    [[{'id': '007', 'age': 30}]]
    """
    path = Path(path)
    named = SUFFIXES.get(path.suffix.lower())
    start = _read_start(path)
    if start.startswith(MAGIC):
        found = "Parquet"
    else:
        found = "neither Parquet nor text" if b"\0" in start[:4096] else "text"
    if found == "Parquet" and named != "CSV":
        table: Table = _Parquet(path)
    elif found == "text" and named == "CSV":
        table = _Csv(path, start)
    else:
        known = " and ".join(sorted(set(SUFFIXES.values())))
        rule = f"is named {path.suffix or 'without a suffix'}, but contains {found}"
        advice = f"{known} files can be read; their suffixes are {', '.join(SUFFIXES)}."
        raise TableError(f"{path} {rule}. {advice}")
    twice = [name for name, times in Counter(table.schema.names).items() if times > 1]
    if twice:
        found = f"duplicate column names: {', '.join(map(repr, twice))}"
        raise TableError(f"{path} contains {found}. Give every column a different name.")
    return table


class _Parquet(Table):
    def __init__(self, path: Path) -> None:
        self.path = path
        with _table_errors(self), pyarrow.parquet.ParquetFile(path) as file:
            self.schema = file.schema_arrow
            self.rows = file.metadata.num_rows

    def sample(self) -> pa.Table:
        """The first rows, from as many row groups as needed."""
        taken, missing = [], SAMPLE
        for batch in self.batches(size=SAMPLE):
            taken.append(batch.slice(0, missing))
            missing -= len(taken[-1])
            if not missing:
                break
        return pa.Table.from_batches(taken, self.schema)

    def _read(
        self, columns: list[str], size: int, as_text: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        # One buffer per column and no read-ahead: otherwise Arrow keeps a whole row group.
        buffered = pyarrow.parquet.ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False)
        with buffered as file:
            # One row group at a time: otherwise Arrow keeps the row groups that it has read.
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(size, row_groups=[group], columns=columns):
                    yield batch.select(columns)


class _Csv(Table):
    rows = None

    def __init__(self, path: Path, start: bytes) -> None:
        self.path = path
        self.schema = pa.schema([])
        header = start.split(b"\n", 1)[0].decode(errors="replace")
        self._delimiter = max(",;\t", key=header.count)
        with _table_errors(self), self._open({}, None, []) as reader:
            fields = [
                field.with_type(pa.string()) if pa.types.is_null(field.type) else field
                for field in reader.schema
            ]
            self.schema = pa.schema(fields)
            first = [next((batch for batch in reader if batch.num_rows), None)]
            rows = pa.Table.from_batches(filter(None, first), reader.schema)
            self._sample = rows.slice(0, SAMPLE).cast(self.schema)

    def sample(self) -> pa.Table:
        """The first rows of the first block; rows with missing values are left out."""
        return self._sample

    def _read(
        self, columns: list[str], size: int, as_text: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        types = {field.name: field.type for field in self.schema}
        types |= {name: pa.string() for name in as_text if name in types}
        broken: list[tuple[int, str]] = []
        with self._open(types, columns, broken) as reader:
            for batch in reader:
                if not broken:
                    yield batch
        problems = Problems()
        rule = f"rows must have {len(self.schema)} values, like the header"
        problems.rows(rule, [row for row, _ in broken], [text for _, text in broken])
        problems.check(str(self.path))

    def _open(
        self, types: dict[str, pa.DataType], columns: list[str] | None, broken: list[Any]
    ) -> Any:  # noqa: ANN401
        def skip(row: Any) -> str:  # noqa: ANN401
            broken.append((row.number - 1, row.text if len(broken) < SHOWN else ""))
            return "skip"

        return pyarrow.csv.open_csv(
            self.path,
            # Row numbers are known with one thread only. Decoding rejects other text than UTF-8.
            read_options=pyarrow.csv.ReadOptions(
                block_size=BLOCK, use_threads=False, encoding="utf-8-sig"
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            convert_options=pyarrow.csv.ConvertOptions(column_types=types, include_columns=columns),
        )


def _read_start(path: Path) -> bytes:
    """The first bytes of a file, up to the end of its first line and at least 4096."""
    try:
        with path.open("rb") as file:
            start = file.readline(BLOCK)
            start += file.read(max(0, 4096 - len(start)))
    except OSError as error:
        raise TableError(f"{path} {_unreadable(error)}") from error
    if not start.strip():
        raise TableError(f"{path} is empty. A table has a header and rows.")
    return start


@contextmanager
def _table_errors(table: Table) -> Iterator[None]:
    """Turn Arrow's errors about a file into a `TableError` that says what to do."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow raises OSErrors for damaged content, too; errors of the system have a number.
        if isinstance(error, OSError) and error.errno:
            reason = _unreadable(error)
        else:
            reason = _explain(table, str(error))
        raise TableError(f"{table.path} {reason}") from error


def _unreadable(error: OSError) -> str:
    advice = "Name an existing Parquet or CSV file; if it exists, run the same command again."
    return f"cannot be read: {os.strerror(error.errno or errno.EIO)}. {advice}"


def _explain(table: Table, text: str) -> str:
    misfit = MISFIT.fullmatch(text)
    if misfit:
        column, row, kind, found = misfit.groups()
        name = table.schema.names[int(column)] if len(table.schema) else f"#{column}"
        where = f"row {int(row) - 1}: " if row else ""
        inferred = f"column {name!r} contains {kind} in its first rows"
        return (
            f"cannot be read: {inferred}; {where}{found}. Correct it, or declare the column text."
        )
    if "codec can't decode" in text:
        return f"must be text in UTF-8: {text}. Save it in this encoding."
    if "straddling" in text:
        return f"has a row of more than {BLOCK} bytes. Close the quotes, or use Parquet."
    if "cannot infer number of columns" in text:
        return "has no rows. A table has a header and rows."
    return f"is damaged: {text.rstrip('.')}. Write it again."
