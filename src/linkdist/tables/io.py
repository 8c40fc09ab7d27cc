"""Files of rows and named columns: Parquet and CSV, read batch by batch.

A file may be longer than memory. Its kind comes from its content, and its name must agree.
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
"""Rows of a batch."""

BLOCK = 1 << 22
"""Bytes of CSV that are read at once, and the longest row; types are inferred from the first."""

BUFFER = 1 << 20
"""Bytes of a Parquet column that are read at once."""

MISFIT = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (.+?): (.*)", re.DOTALL
)
"""How Arrow tells of a CSV value that is not of its column's type."""


class Table(ABC):
    """A file of rows and named columns.

    Attributes
    ----------
    path : Path
        The file.
    schema : Schema
        Columns and types.
    rows : int or None
        How many there are; None where only reading all tells.
    """

    path: Path
    schema: pa.Schema
    rows: int | None

    def batches(
        self, columns: Sequence[str] | None = None, size: int = BATCH
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows in order.

        Parameters
        ----------
        columns : sequence of str, optional
            Which, in which order; by default all.
        size : int
            Rows of a batch, at most.

        Raises
        ------
        TableError
            Where the file is broken, or the system cannot read it.
        """
        asked = list(self.schema.names if columns is None else columns)
        problems = Problems()
        problems.names("column", asked, self.schema.names)
        problems.check(str(self.path))
        with _told(self):
            for batch in self._read(asked, size):
                batch.validate(full=True)  # Parquet's text may be anything
                yield from (batch.slice(i, size) for i in range(0, batch.num_rows, size))

    def sample(self, rows: int = 1000) -> pa.Table:
        """The first rows."""
        first = next(self.batches(size=rows), None)
        return pa.Table.from_batches([] if first is None else [first], self.schema)

    @abstractmethod
    def _read(self, columns: list[str], size: int) -> Iterator[pa.RecordBatch]: ...


def open_table(path: Path | str, as_text: Collection[str] = ()) -> Table:
    r"""Open a Parquet or CSV file.

    Parameters
    ----------
    path : Path
        Named .parquet, .pq, .csv or .tsv, and holding that.
    as_text : collection of str
        Columns that CSV shall give as text, whatever they look like.

    Raises
    ------
    TableError
        If there is no such file, or it is not what its name says.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "nodes.csv")
    ...     _ = path.write_text("id,age\n007,30\n")
    ...     [batch.to_pylist() for batch in open_table(path, as_text=["id"]).batches()]
    [[{'id': '007', 'age': 30}]]
    """
    path = Path(path)
    named = SUFFIXES.get(path.suffix.lower())
    found = _content(path)
    if found == "Parquet" and named != "CSV":
        table: Table = _Parquet(path)
    elif found == "text" and named == "CSV":
        table = _Csv(path, as_text)
    else:
        known = " and ".join(sorted(set(SUFFIXES.values())))
        rule = f"named {path.suffix or 'without an ending'}, but holds {found}"
        advice = f"{known} are read; name them {', '.join(SUFFIXES)}."
        raise TableError(f"{path} is {rule}. {advice}")
    with _told(table):
        names = table.schema.names
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        rule = "columns must have names of their own"
        raise TableError(f"{path}: {rule}; found twice: {', '.join(map(repr, twice))}.")
    return table


def numbered(
    table: Table, columns: Sequence[str], size: int = BATCH
) -> Iterator[tuple[int, pa.RecordBatch]]:
    r"""Batches with the number of their first row.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "links.csv")
    ...     _ = path.write_text("a,b\n7,8\n8,9\n")
    ...     [(row, len(batch)) for row, batch in numbered(open_table(path), ["a"])]
    [(1, 2)]
    """
    row = 1
    for batch in table.batches(columns, size):
        yield row, batch
        row += batch.num_rows


class _Parquet(Table):
    def __init__(self, path: Path) -> None:
        self.path = path
        with _told(self), pyarrow.parquet.ParquetFile(path) as file:
            self.schema = file.schema_arrow
            self.rows = file.metadata.num_rows

    def sample(self, rows: int = 1000) -> pa.Table:
        """The first rows, from as many row groups as hold them."""
        taken, missing = [], rows
        for batch in self.batches(size=rows):
            taken.append(batch.slice(0, missing))
            missing -= len(taken[-1])
            if not missing:
                break
        return pa.Table.from_batches(taken, self.schema)

    def _read(self, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        # A buffer a column, nothing ahead: else Arrow holds all of a row group as it is stored.
        buffered = pyarrow.parquet.ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False)
        with buffered as file:
            # One row group at a time: asked for all, Arrow holds on to those it has read.
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(size, row_groups=[group], columns=columns):
                    yield batch.select(columns)


class _Csv(Table):
    rows = None

    def __init__(self, path: Path, as_text: Collection[str]) -> None:
        self.path = path
        self.schema = pa.schema([])
        with _told(self), path.open("rb") as file:
            header = file.readline(BLOCK)
        self._delimiter = max(",;\t", key=header.decode(errors="replace").count)
        with _told(self), self._open(dict.fromkeys(as_text, pa.string()), None, []) as reader:
            fields = [
                field.with_type(pa.string()) if pa.types.is_null(field.type) else field
                for field in reader.schema
            ]
        self.schema = pa.schema(fields)

    def _read(self, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        types = {field.name: field.type for field in self.schema}
        broken: list[tuple[int, str]] = []
        with self._open(types, columns, broken) as reader:
            for batch in reader:
                if not broken:
                    yield batch
        problems = Problems()
        rule = f"rows must have {len(self.schema)} values, as the header has"
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
            # One thread knows the number of a row. Decoding refuses what is not UTF-8.
            read_options=pyarrow.csv.ReadOptions(
                block_size=BLOCK, use_threads=False, encoding="utf-8-sig"
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            convert_options=pyarrow.csv.ConvertOptions(column_types=types, include_columns=columns),
        )


def _content(path: Path) -> str:
    """What a file holds by its first bytes: Parquet, text or what else; an error if nothing."""
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise TableError(f"{path} {_unread(error)}") from error
    if not start.strip():
        raise TableError(f"{path} is empty. A table has a header and rows.")
    if start.startswith(MAGIC):
        return "Parquet"
    return "neither Parquet nor text" if b"\0" in start else "text"


@contextmanager
def _told(table: Table) -> Iterator[None]:
    """Arrow's errors about a file, told as the user's."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow raises OSErrors for broken content, too; those of the system have a number.
        if isinstance(error, OSError) and error.errno:
            reason = _unread(error)
        else:
            reason = _reason(table, str(error))
        raise TableError(f"{table.path} {reason}") from error


def _unread(error: OSError) -> str:
    advice = "Name a Parquet or CSV file that is there; if it is, give the same command again."
    return f"cannot be read: {os.strerror(error.errno or errno.EIO)}. {advice}"


def _reason(table: Table, text: str) -> str:
    misfit = MISFIT.fullmatch(text)
    if misfit:
        column, row, kind, found = misfit.groups()
        name = table.schema.names[int(column)] if len(table.schema) else f"#{column}"
        where = f"row {int(row) - 1}: " if row else ""
        took = f"column {name!r} holds {kind} by its first rows"
        return f"cannot be read: {took}; {where}{found}. Correct it, or declare the column text."
    if "codec can't decode" in text:
        return f"must be text in UTF-8: {text}. Save it as such."
    if "straddling" in text:
        return f"has a row of more than {BLOCK} bytes. Close the quotes, or use Parquet."
    if "cannot infer number of columns" in text:
        return "has no rows. A table has a header and rows."
    return f"is broken: {text.rstrip('.')}. Write it anew."
