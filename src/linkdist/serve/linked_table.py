"""The prediction of an uploaded table with the links between its rows.

The neighbours of a row may be anywhere in the table, so all rows are in memory at once; their
number is limited. The columns of the link tables have the roles that they had in the training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from linkdist.data.graph import FeatureMatrix, stacked
from linkdist.data.links import Links
from linkdist.errors import LinkDistError, TableError
from linkdist.serve.errors import RefusedError
from linkdist.serve.forms import Upload
from linkdist.serve.metrics import Metrics
from linkdist.serve.served_model import ServedModel
from linkdist.serve.table_prediction import TablePrediction, csv_text
from linkdist.tables.link_tables import file_name
from linkdist.tables.links import links_of
from linkdist.tables.node_table import check_ids
from linkdist.tables.nodes import labelled_batches
from linkdist.tables.source import Tables
from linkdist.tables.trained_columns import with_trained_columns
from linkdist.tables.validation import Problems

MOST_NUMBERS = 100_000_000
"""Largest number of features and outputs of all rows, 400 MB."""

ROWS = 4096
"""Rows that are written at once."""


def predict_files(
    table: Upload, links: Sequence[Upload], engine: ServedModel, metrics: Metrics
) -> TablePrediction:
    """Return the prediction of a table, with links if there are tables of them."""
    if links:
        return LinkedTablePrediction(*table, engine, metrics, links)
    return TablePrediction(*table, engine, metrics)


class LinkedTablePrediction(TablePrediction):
    """The predictions of a table with links, as CSV text.

    Parameters
    ----------
    path, name, engine, metrics
        As in `TablePrediction`.
    links : sequence of Upload
        The tables of links: one, or one for each relation.

    Raises
    ------
    RefusedError
        If a table cannot be used; also while it is read.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        engine: ServedModel,
        metrics: Metrics,
        links: Sequence[Upload],
    ) -> None:
        super().__init__(path, name, engine, metrics)
        self._links = links
        self._named = {str(path): name, **{str(upload.path): upload.name for upload in links}}
        header = engine.header
        about = {**header.about, "relations": header.relations, "directed": header.directed}
        by_table = len(header.relations) > 1 and about.get("relation") is None
        files = {str(file_name(upload.name)): upload.path for upload in links}
        edges = files if by_table else [upload.path for upload in links]
        self._report = ""
        try:
            # Checked here, because a stream has begun when its first row is read.
            self._tables = with_trained_columns(Tables(path, edges, self.id, ""), about)
        except LinkDistError as error:
            raise self._refused(error) from error

    def notices(self) -> list[str]:
        """Return the notices of the columns, and the counts of the links."""
        return [*super().notices(), *filter(None, [self._report])]

    def _batches(self) -> Iterator[tuple[int, str]]:
        """Yield the number of rows and the text of each batch; the first has the CSV header."""
        try:
            ids, features = self._read_nodes()
            links = self._read_links(ids)
            p = self.engine.probabilities(features, links)
            columns, n = self.engine.columns, len(ids)
            linked = np.isin(np.arange(n), links.pairs[links.pairs[:, 0] != links.pairs[:, 1]])
            schema = columns.schema(self.id, ids.type, lists=False)
            for start in range(0, n, ROWS):
                rows = slice(start, min(start + ROWS, n))
                batch = columns.batch(ids[rows], p[rows], schema, linked[rows])
                yield batch.num_rows, csv_text(batch, start == 0)
            self.metrics.predicted("links", int(linked.sum()))
            self.metrics.predicted("features", int((~linked).sum()))
        except TableError as error:
            raise self._refused(error) from error
        except pa.ArrowException as error:
            raise RefusedError(422, f"{self.name}: ids cannot be written: {error}.") from error

    def _read_nodes(self) -> tuple[pa.Array, FeatureMatrix]:
        """The ids (n,) and the features (n, d) of all rows."""
        header, shape = self.engine.header, self.engine.header.shape
        assert header.encoders is not None
        outputs = shape.replicas * (1 + header.heads) * shape.classes
        ids, parts, numbers = list[pa.Array](), list[FeatureMatrix](), 0
        for own_ids, _, features in labelled_batches(
            self.table, self.id, None, header.encoders, problems=self.problems
        ):
            stored = features.size if isinstance(features, np.ndarray) else features.nnz
            numbers += int(stored) + len(own_ids) * outputs
            if numbers > MOST_NUMBERS:
                rule = f"{self.name} has too many rows for a prediction with links"
                advice = "Leave out the links, or use linkdist predict on the command line."
                raise RefusedError(413, f"{rule}, which needs all of them in memory. {advice}")
            ids.append(own_ids)
            parts.append(features)
        if not ids:
            raise RefusedError(422, f"{self.name}: the table has no rows.")
        return pa.concat_arrays(ids), stacked(parts)

    def _read_links(self, ids: pa.Array) -> Links:
        """The links between rows, whose ids must be unique."""
        problems = Problems()
        check_ids(ids, self.id, problems)
        problems.check(str(self.path))
        links, report = links_of(self._tables, ids, self.engine.header.relations)
        self._report = str(report)
        return links

    def _refused(self, error: LinkDistError) -> RefusedError:
        refused = super()._refused(error)
        for path, name in self._named.items():
            refused.error = refused.error.replace(path, name)
        return refused
