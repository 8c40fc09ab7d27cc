"""The prediction of an uploaded table, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from linkdist.errors import OptionError, TableError, check_names
from linkdist.serve.errors import RefusedError
from linkdist.serve.metrics import Metrics
from linkdist.serve.served_model import ServedModel
from linkdist.tables.csv_text import escape_formulas, escape_names
from linkdist.tables.io import READ, open_table
from linkdist.tables.nodes import labelled_batches
from linkdist.tables.validation import Problems


def table_suffix(name: str) -> str:
    """Return the suffix of a table's file name.

    Raises
    ------
    RefusedError
        If it is not the suffix of a table.

    Examples
    --------
    >>> table_suffix("Nodes.CSV")
    '.csv'
    """
    suffix = Path(name).suffix.lower()
    if suffix not in READ:  # a compressed file may be much larger than the limit
        known = ", ".join(READ)
        raise RefusedError(415, f"{name!r} must be a table, with a name that ends in {known}.")
    return suffix


class TablePrediction:
    """The predictions of a table as CSV text.

    Parameters
    ----------
    path : Path
        The uploaded file.
    name : str
        The name that the user gave the file, for messages.
    engine : ServedModel
        Computes the predictions.
    metrics : Metrics
        Counts the rows.

    Raises
    ------
    RefusedError
        If the table cannot be used; also while it is read.
    """

    def __init__(self, path: Path, name: str, engine: ServedModel, metrics: Metrics) -> None:
        self.path, self.name, self.engine, self.metrics = path, name, engine, metrics
        self.id = engine.header.about.get("id") or ""
        if engine.header.encoders is None or not self.id:
            text = "the model has no columns, so it cannot read tables. Send rows of numbers."
            raise RefusedError(422, text)
        self.problems = Problems()
        try:
            self.table = open_table(path)
        except TableError as error:
            raise self._refused(error) from error
        # Checked here, too, because a stream has begun when its first row is read.
        needed, present = (self.id, *engine.schema.names), self.table.schema.names
        try:
            check_names("column", needed, present)
        except OptionError as error:
            missing = (column for column in needed if column not in present)
            columns = {column: f"{name} has no column {column!r}." for column in missing}
            raise RefusedError(422, f"{name}: {error}", columns) from error

    def write(self, file: IO[bytes]) -> None:
        """Write all predictions to a file, and rewind it."""
        for _, text in self._batches():
            file.write(text.encode())
        file.seek(0)

    def lines(self) -> Iterator[bytes]:
        """Yield lines of JSON: the total, a line for each batch, and the end or an error."""
        done = 0
        yield _line({"total": self.table.rows})
        try:
            for rows, text in self._batches():
                done += rows
                yield _line({"done": done, "csv": text})
        except RefusedError as error:
            yield _line(error.body())
        else:
            notices = self.problems.notices()
            yield _line({"end": done, "notices": notices} if notices else {"end": done})

    def _batches(self) -> Iterator[tuple[int, str]]:
        """Yield the number of rows and the text of each batch; the first has the CSV header."""
        header = self.engine.header
        assert header.encoders is not None
        columns = self.engine.columns
        is_first = True
        try:
            batches = labelled_batches(
                self.table, self.id, None, header.encoders, problems=self.problems
            )
            for ids, _, features in batches:
                p = self.engine.probabilities(features)
                schema = columns.schema(self.id, ids.type, lists=False)
                text = _csv(columns.batch(ids, p, schema), is_first)
                self.metrics.predicted("features", len(ids))
                yield len(ids), text
                is_first = False
        except TableError as error:
            raise self._refused(error) from error
        except pa.ArrowException as error:
            raise RefusedError(422, f"{self.name}: ids cannot be written: {error}.") from error
        if is_first:
            raise RefusedError(422, f"{self.name}: the table has no rows.")

    def _refused(self, error: TableError) -> RefusedError:
        """The same error with the user's name for the file, and the columns that it names."""
        text = str(error).replace(str(self.path), self.name)
        named = {name: text for name in self.engine.schema.names if f"column {name!r}" in text}
        return RefusedError(422, text, named)


class Streamed(StreamingResponse):
    """A stream that closes its resources at the end, also if the client disconnects.

    Parameters
    ----------
    stream : iterable of bytes
        The content; every part is computed in a thread.
    media_type : str
        Its content type.
    resources : ExitStack
        What is closed at the end.
    """

    def __init__(self, stream: Iterable[bytes], media_type: str, resources: ExitStack) -> None:
        super().__init__(stream, media_type=media_type)
        self.resources = resources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        with self.resources:
            await super().__call__(scope, receive, send)


def _csv(batch: pa.RecordBatch, with_header: bool) -> str:
    batch, _ = escape_formulas(batch)
    batch = batch.rename_columns(escape_names(batch.schema).names)
    out = BytesIO()
    pyarrow.csv.write_csv(batch, out, pyarrow.csv.WriteOptions(include_header=with_header))
    return out.getvalue().decode()


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
