"""The formats of tables: Parquet, CSV, JSON lines, several files, and data frames in memory."""

from __future__ import annotations

import codecs
import errno
import gzip
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from linkdist.errors import TableError
from linkdist.tables.validation import SHOWN, Problems

BATCH = 4096
"""Number of rows in a batch."""

BLOCK = 1 << 22
"""Bytes of a block of text and of the longest row; types are inferred from the first block."""

SAMPLE = 1000
"""Number of rows from which the kinds of columns are inferred."""

BUFFER = 1 << 20
"""Bytes of the read buffer of a Parquet column."""

MISFIT = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (.+?): (.*)", re.DOTALL
)
"""Arrow's message about a CSV value that does not have the type of its column."""


SAVE = "Save it in this encoding."


class Table(ABC):
    """Rows with named columns.

    Attributes
    ----------
    name : str
        The path, or what messages call a table in memory.
    schema : Schema
        Columns and their types.
    rows : int or None
        Number of rows; None for text, where it is unknown before the whole file is read.
    """

    name: str
    schema: pa.Schema
    rows: int | None = None

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
        problems.check(self.name)
        with self.errors():
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

    def place(self, row: int) -> str:
        """What messages call a row that was read, given its number."""
        return f"row {row}"

    def sample(self) -> pa.Table:
        """The first rows, at most `SAMPLE`, from as many batches as needed."""
        taken, missing = [], SAMPLE
        for batch in self.batches(size=SAMPLE):
            taken.append(batch.slice(0, missing))
            missing -= len(taken[-1])
            if not missing:
                break
        return pa.Table.from_batches(taken, self.schema)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn Arrow's errors about a table into a `TableError` that says what to do."""
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
            # Arrow raises OSErrors for damaged content, too; errors of the system have a number.
            if isinstance(error, OSError) and error.errno:
                reason = unreadable(error)
            else:
                reason = self._explain(str(error))
            raise TableError(f"{self.name} {reason}") from error

    def _explain(self, text: str) -> str:
        """What an error of Arrow means, and what to do."""
        return f"is damaged: {text.rstrip('.')}. Write it again."

    @abstractmethod
    def _read(
        self, columns: list[str], size: int, as_text: Collection[str]
    ) -> Iterator[pa.RecordBatch]: ...


class Parquet(Table):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        with self.errors(), pyarrow.parquet.ParquetFile(path) as file:
            self.schema = file.schema_arrow
            self.rows = file.metadata.num_rows

    def _read(
        self, columns: list[str], size: int, as_text: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        # One buffer per column and no read-ahead: otherwise Arrow keeps a whole row group.
        buffered = pyarrow.parquet.ParquetFile(self._path, buffer_size=BUFFER, pre_buffer=False)
        with buffered as file:
            # One row group at a time: otherwise Arrow keeps the row groups that it has read.
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(size, row_groups=[group], columns=columns):
                    yield batch.select(columns)


class Parts(Table):
    """Several Parquet files with the same columns, read one after the other."""

    def __init__(self, name: str, parts: Sequence[Table]) -> None:
        self.name, self._parts = name, parts
        self.schema = parts[0].schema
        problems = Problems()
        for part in parts:
            if not isinstance(part, Parquet):
                problems.add(f"a folder or glob must contain Parquet files only; found {part.name}")
            elif part.schema != self.schema:
                wrong = sorted({*part.schema.names} ^ {*self.schema.names}) or ["their types"]
                rule = f"all files must have the columns of {parts[0].name}"
                problems.add(f"{rule}; {part.name} differs in {', '.join(wrong)}")
        problems.check(name)
        self.rows = sum(part.rows or 0 for part in parts)

    def _read(
        self, columns: list[str], size: int, as_text: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        for part in self._parts:
            yield from part.batches(columns, size)


class Frame(Table):
    """A table in memory: a pandas or Polars frame, or an object that exports an Arrow stream."""

    def __init__(self, source: Any, name: str) -> None:  # noqa: ANN401
        self.name = name
        with self.errors():
            self._table = _as_arrow(source, name)
        self.schema, self.rows = self._table.schema, self._table.num_rows

    def _read(
        self, columns: list[str], size: int, as_text: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(columns).to_batches(max_chunksize=size)

    def _explain(self, text: str) -> str:
        return f"cannot be read: {text.rstrip('.')}."


class Csv(Table):
    """A CSV file whose values are separated by commas, semicolons or tabs."""

    def __init__(self, path: Path, start: bytes) -> None:
        self.name, self._path = str(path), path
        self.schema = pa.schema([])
        header = start.split(b"\n", 1)[0].decode(errors="replace")
        self._delimiter = max(",;\t", key=header.count)
        with self.errors():
            self._check_encoding()
        with self.errors(), self._open({}, None, []) as reader:
            self.schema = _with_text(reader.schema)
            first = [next((batch for batch in reader if batch.num_rows), None)]
            rows = pa.Table.from_batches(filter(None, first), reader.schema)
            self._sample = rows.slice(0, SAMPLE).cast(self.schema)

    def _check_encoding(self) -> None:
        """Decode the first block; Arrow reports text in another encoding that comes later."""
        compressed = self._path.suffix.lower() == ".gz"
        with gzip.open(self._path) if compressed else self._path.open("rb") as file:
            block = file.read(BLOCK)
        codecs.getincrementaldecoder("utf-8")().decode(block, final=len(block) < BLOCK)

    def sample(self) -> pa.Table:
        """The first rows of the first block; rows with too few or too many values are left out."""
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
        problems.check(self.name)

    def _open(
        self, types: dict[str, pa.DataType], columns: list[str] | None, broken: list[Any]
    ) -> Any:  # noqa: ANN401
        def skip(row: Any) -> str:  # noqa: ANN401
            broken.append((row.number - 1, row.text if len(broken) < SHOWN else ""))
            return "skip"

        return pyarrow.csv.open_csv(
            self._path,
            # Row numbers are known with one thread only. Another encoding than Arrow's own would be
            # decoded by Python in a thread that reads ahead, for which a reader waits when it is
            # closed: an error before the end of a file ended in a deadlock or an abort.
            read_options=pyarrow.csv.ReadOptions(block_size=BLOCK, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            convert_options=pyarrow.csv.ConvertOptions(column_types=types, include_columns=columns),
        )

    def _explain(self, text: str) -> str:
        if misfit := MISFIT.fullmatch(text):
            column, row, kind, found = misfit.groups()
            name = self.schema.names[int(column)] if len(self.schema) else f"#{column}"
            where = f"row {int(row) - 1}: " if row else ""
            if found == "invalid UTF8 data":
                return f"must be text in UTF-8: column {name!r}, {where}{found}. {SAVE}"
            inferred = f"column {name!r} contains {kind} in its first rows"
            advice = "Correct it, or declare the column text."
            return f"cannot be read: {inferred}; {where}{found}. {advice}"
        if "codec can't decode" in text:
            return f"must be text in UTF-8: {text}. {SAVE}"
        if "straddling" in text:
            return f"has a row of more than {BLOCK} bytes. Close the quotes, or use Parquet."
        if "cannot infer number of columns" in text:
            return "has no rows. A table has a header and rows."
        return super()._explain(text)


class JsonLines(Table):
    """A file with one JSON object in each line."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        with self.errors(), self._open(None) as reader:
            self.schema = _with_text(reader.schema)

    def _read(
        self, columns: list[str], size: int, as_text: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        with self._open(self.schema) as reader:
            for batch in reader:
                yield batch.select(columns)

    def _open(self, schema: pa.Schema | None) -> Any:  # noqa: ANN401
        return pyarrow.json.open_json(
            str(self._path),
            read_options=pyarrow.json.ReadOptions(block_size=BLOCK, use_threads=False),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=schema,
                unexpected_field_behavior="infer" if schema is None else "error",
            ),
        )

    def _explain(self, text: str) -> str:
        advice = "Each line must be a JSON object, and a field must have one type in all lines."
        return f"cannot be read: {text.rstrip('.')}. {advice}"


def _with_text(schema: pa.Schema) -> pa.Schema:
    """Columns without values in the first block become text, which can hold any value."""
    return pa.schema(
        [one.with_type(pa.string()) if pa.types.is_null(one.type) else one for one in schema]
    )


def _as_arrow(source: Any, name: str) -> pa.Table:  # noqa: ANN401
    if hasattr(source, "reset_index") and hasattr(source, "columns"):
        return _from_pandas(source, name)
    if hasattr(source, "__arrow_c_stream__") or isinstance(source, pa.Table | pa.RecordBatch):
        return pa.table(source)
    if isinstance(source, dict):
        return pa.table({key: _column(values) for key, values in source.items()})
    raise TableError(
        f"{name} must be a path, a pandas or Polars frame, an Arrow table or a dict of columns; "
        f"found {type(source).__name__}."
    )


def _from_pandas(frame: Any, name: str) -> pa.Table:  # noqa: ANN401
    """Columns of a pandas frame; a named index is a column, too, unless there is one already."""
    levels = [one for one in frame.index.names if one is not None and one not in frame.columns]
    frame = frame.reset_index(level=levels) if levels else frame
    wrong = [column for column in frame.columns if not isinstance(column, str)]
    if wrong:
        raise TableError(
            f"{name} must have names as columns; found {wrong[0]!r}. "
            "Rename them, for example by frame.columns = frame.columns.astype(str)."
        )
    return pa.table([_column(values) for _, values in frame.items()], list(frame.columns))


def _column(values: Any) -> pa.Array:  # noqa: ANN401
    """An Arrow array; values of several types become text, as they would be in CSV."""
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        text = [None if _is_missing(value) else str(value) for value in values]
        return pa.array(text, pa.large_string())


def _is_missing(value: Any) -> bool:  # noqa: ANN401
    """Whether a value is None, NaN, NaT or pandas.NA."""
    try:
        return bool(value is None or value != value)
    except (TypeError, ValueError):  # pandas.NA and arrays have no truth value
        return not hasattr(value, "__len__")


def unreadable(error: OSError) -> str:
    """The reason why the system could not read a file, and what to do."""
    advice = "Name an existing Parquet or CSV file; if it exists, run the same command again."
    return f"cannot be read: {os.strerror(error.errno or errno.EIO)}. {advice}"
