"""The prediction of an uploaded table, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.csv

from linkdist.errors import LinkDistError, OptionError, TableError, check_names
from linkdist.serve.errors import RefusedError
from linkdist.serve.served_model import ServedModel
from linkdist.tables.csv_text import escape_formulas, escape_names
from linkdist.tables.io import READ, open_table
from linkdist.tables.nodes import labelled_batches
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.tables.validation import Problems


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

    Parameters
    ----------
    path : Path
        The uploaded file.
    name : str
        The name that the user gave the file, for messages.
    engine : ServedModel
        Computes the predictions.
    metrics : Counter
        Counts the rows.
    columns : PredictionColumns, optional
        Those of the predictions, perhaps with sets; by default those of the engine.

    Raises
    ------
    RefusedError
        If the table cannot be used; also while it is read.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        engine: ServedModel,
        metrics: Counter,
        columns: PredictionColumns | None = None,
    ) -> None:
        self.path, self.name, self.engine, self.metrics = path, name, engine, metrics
        self.columns = columns or engine.columns
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
            lacking = {column: f"{name} has no column {column!r}." for column in missing}
            raise RefusedError(422, f"{name}: {error}", lacking) from error

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
        """Return a sentence for each column with missing or unknown values, and about sets."""
        return [*self.problems.notices(), *filter(None, [self.columns.too_few()])]

    def _batches(self) -> Iterator[tuple[int, str]]:
        """Yield the number of rows and the text of each batch; the first has the CSV header."""
        header = self.engine.header
        assert header.encoders is not None
        columns = self.columns
        is_first = True
        try:
            batches = labelled_batches(
                self.table, self.id, None, header.encoders, problems=self.problems
            )
            for ids, _, features in batches:
                p = self.engine.probabilities(features)
                schema = columns.schema(self.id, ids.type, lists=False)
                text = csv_text(columns.batch(ids, p, schema), is_first)
                self.metrics.predicted("features", len(ids))
                yield len(ids), text
                is_first = False
        except TableError as error:
            raise self._refused(error) from error
        except pa.ArrowException as error:
            raise RefusedError(422, f"{self.name}: ids cannot be written: {error}.") from error
        if is_first:
            raise RefusedError(422, f"{self.name}: the table has no rows.")

    def _refused(self, error: LinkDistError) -> RefusedError:
        """The same error with the user's name for the file, and the columns that it names."""
        text = str(error).replace(str(self.path), self.name)
        named = {name: text for name in self.engine.schema.names if f"column {name!r}" in text}
        return RefusedError(422, text, named)


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
