"""The prediction of an uploaded table, with links if there are tables of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.csv

from linkdist.errors import LinkDistError, OptionError, TableError, check_names
from linkdist.inference.table import Predicted, table_predictions
from linkdist.progress import Callback
from linkdist.serve.errors import RefusedError
from linkdist.serve.served_model import ServedModel
from linkdist.tables.csv_text import escape_formulas, escape_names
from linkdist.tables.formats import BATCH
from linkdist.tables.io import READ, TableLike, open_table
from linkdist.tables.link_tables import file_name
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.tables.source import Tables
from linkdist.tables.trained_columns import with_trained_columns


class Counter(Protocol):
    """Counts predicted rows; `Metrics` is one."""

    def predicted(self, mode: str, rows: int) -> None:
        """Count rows that were predicted."""


class Upload(NamedTuple):
    """A file of a request.

    Attributes
    ----------
    path : Path
        A temporary file.
    name : str
        The name that the user gave the file.
    """

    path: Path
    name: str


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

    With links, all rows are computed at once, because the neighbours of a row may be anywhere in
    the table. The columns of the link tables have the roles that they had in the training.

    Parameters
    ----------
    table : Upload
        The table of nodes.
    links : sequence of Upload
        The tables of links: none, one, or one for each relation.
    engine : ServedModel
        Computes the predictions.
    metrics : Counter
        Counts the rows.
    columns : PredictionColumns, optional
        Those of the predictions, perhaps with sets; by default those of the engine.

    Raises
    ------
    RefusedError
        If a table cannot be used; also while it is read.
    """

    def __init__(
        self,
        table: Upload,
        links: Sequence[Upload],
        engine: ServedModel,
        metrics: Counter,
        columns: PredictionColumns | None = None,
    ) -> None:
        self.name, self.engine, self.metrics = table.name, engine, metrics
        self.columns = columns or engine.columns
        self.id = engine.header.about.get("id") or ""
        if engine.header.encoders is None or not self.id:
            text = "the model has no columns, so it cannot read tables. Send rows of numbers."
            raise RefusedError(422, text)
        self._names = {str(path): name for path, name in (table, *links)}
        self._messages = _Messages()
        # Checked here, too, because a stream has begun when its first row is read.
        try:
            self.table = open_table(table.path)
            self._check_columns()
            self._edges = self._open_links(links) if links else None
        except LinkDistError as error:
            raise self._refused(error) from error

    def _check_columns(self) -> None:
        needed, present = (self.id, *self.engine.schema.names), self.table.schema.names
        try:
            check_names("column", needed, present)
        except OptionError as error:
            missing = (column for column in needed if column not in present)
            lacking = {column: f"{self.name} has no column {column!r}." for column in missing}
            raise RefusedError(422, f"{self.name}: {error}", lacking) from error

    def _open_links(self, links: Sequence[Upload]) -> TableLike:
        """The link tables, by relation if the training had a table for each."""
        header = self.engine.header
        by_table = len(header.relations) > 1 and header.about.get("relation") is None
        files = {str(file_name(upload.name)): upload.path for upload in links}
        edges = files if by_table else [upload.path for upload in links]
        return with_trained_columns(Tables(self.table, edges, self.id, ""), header.about).edges

    def parts(self) -> Iterator[bytes]:
        """Yield the CSV table in parts."""
        for _, text in self._batches():
            yield text.encode()

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
            notices = self.notices()
            yield _line({"end": done, "notices": notices} if notices else {"end": done})

    def notices(self) -> list[str]:
        """Return notices about columns with missing or unknown values, sets and links."""
        found = self._messages
        return [*found.notes, *filter(None, [self.columns.too_few(), found.report])]

    def _batches(self) -> Iterator[tuple[int, str]]:
        """Yield the number of rows and the text of each batch; the first has the CSV header."""
        engine, has_header = self.engine, True
        parts = table_predictions(
            engine, engine.header, self.table, self._edges, id=self.id, callback=self._messages
        )
        try:
            for part in parts:
                linked = 0 if part.linked is None else int(part.linked.sum())
                self.metrics.predicted("links", linked)
                self.metrics.predicted("features", len(part.ids) - linked)
                for batch in self._written(part):
                    yield batch.num_rows, csv_text(batch, has_header)
                    has_header = False
        except TableError as error:
            raise self._refused(error) from error
        except pa.ArrowException as error:
            raise RefusedError(422, f"{self.name}: ids cannot be written: {error}.") from error

    def _written(self, part: Predicted) -> Iterator[pa.RecordBatch]:
        """The columns of predictions, a few rows at a time."""
        schema = self.columns.schema(self.id, part.ids.type, lists=False)
        for start in range(0, len(part.ids), BATCH):
            rows = slice(start, start + BATCH)
            linked = None if part.linked is None else part.linked[rows]
            yield self.columns.batch(part.ids[rows], part.values[rows], schema, linked)

    def _refused(self, error: LinkDistError) -> RefusedError:
        """The same error with the user's names for the files, and the columns that it names."""
        text = str(error)
        for path, name in self._names.items():
            text = text.replace(path, name)
        named = {name: text for name in self.engine.schema.names if f"column {name!r}" in text}
        return RefusedError(422, text, named)


class _Messages(Callback):
    """Keeps the notices of a prediction, and the report of its links as text."""

    def __init__(self) -> None:
        self.notes, self.report = list[str](), ""

    def note(self, text: str) -> None:
        self.notes.append(text)

    def links(self, report: object) -> None:
        self.report = str(report)


def csv_text(batch: pa.RecordBatch, with_header: bool) -> str:
    r"""Write rows as CSV.

    Examples
    --------
    >>> csv_text(pa.record_batch({"paper": [7], "label": ["art"]}), with_header=True)
    '"paper","label"\n7,"art"\n'
    """
    batch, _ = escape_formulas(batch)
    batch = batch.rename_columns(escape_names(batch.schema).names)
    out = BytesIO()
    pyarrow.csv.write_csv(batch, out, pyarrow.csv.WriteOptions(include_header=with_header))
    return out.getvalue().decode()


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
