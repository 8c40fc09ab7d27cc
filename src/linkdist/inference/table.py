"""Predict a table of nodes batch by batch, whatever computes the predictions.

ONNX Runtime (`linkdist.inference.engine`) and PyTorch (`linkdist.prediction`) share this module, so
that both read tables and links, report problems and write predictions in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.data.graph import FeatureMatrix, FloatArray
from linkdist.data.links import Links, has_neighbours
from linkdist.errors import ModelError, TableError
from linkdist.progress import Callback
from linkdist.tables.csv_text import KEEP_TEXT, escape_notice
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.graphs import GraphTables, open_nodes, read_each, shown_ids
from linkdist.tables.io import Table, TableLike
from linkdist.tables.link_report import LinkReport
from linkdist.tables.links import links_of
from linkdist.tables.node_table import check_ids
from linkdist.tables.nodes import labelled_batches
from linkdist.tables.prediction_columns import NO_INTERVALS, PredictionColumns, modes_of
from linkdist.tables.predictions import PredictionWriter
from linkdist.tables.source import Tables
from linkdist.tables.targets import LabelColumns
from linkdist.tables.trained_columns import trained_link_tables, trained_relations
from linkdist.tables.validation import Problems


class Network(Protocol):
    """What computes predictions: probabilities (n, C) or, for regression, numbers (n, 1)."""

    def probabilities(self, features: FeatureMatrix) -> FloatArray:
        """Predict nodes from their features (n, d)."""

    def outputs(self, features: FeatureMatrix) -> Any:  # noqa: ANN401
        """The outputs of all heads for some nodes, which `with_links` combines."""

    def with_links(self, outputs: Sequence[Any], links: Links) -> FloatArray:
        """Predict all nodes from the outputs of every batch and the links between nodes."""


class Described(Protocol):
    """A model with the columns of its tables, such as the header of a model directory."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Description of the training."""

    @property
    def encoders(self) -> FeatureEncoder | None:
        """The encoders of the feature columns."""


class Predicted(NamedTuple):
    """Predictions of a batch of nodes.

    Attributes
    ----------
    ids : (k,) array
        Ids, in the type of their column.
    labels : (k,) array
        Known labels as they are written; see `linkdist.tables.targets.label_values`.
    values : (k, C) float32 array
        Probabilities; for regression, numbers (k, 1).
    linked : (k,) array of bool or None
        Which nodes have links, if links are given. The others are predicted from features.
    """

    ids: pa.Array
    labels: pa.Array
    values: npt.NDArray[np.float32]
    linked: npt.NDArray[np.bool_] | None = None

    @classmethod
    def joined(cls, parts: Iterable[Predicted]) -> Predicted:
        """All predictions of a table as one batch."""
        first, *others = parts
        if not others:  # the only case with links
            return first
        ids, labels, values, _ = zip(first, *others, strict=True)
        return cls(pa.concat_arrays(ids), pa.concat_arrays(labels), np.concatenate(values))


def table_columns(model: Described) -> tuple[str, FeatureEncoder]:
    """The id column and the encoders of a model that was trained on tables."""
    if model.encoders is None or not model.about.get("id"):
        raise ModelError("this model was not trained on a table; use it from Python.")
    return model.about["id"], model.encoders


def table_predictions(
    network: Network,
    model: Described,
    nodes: TableLike,
    edges: TableLike = None,
    *,
    id: str | None = None,
    label: LabelColumns = None,
    callback: Callback | None = None,
) -> Iterator[Predicted]:
    """Predict a table batch by batch; with links there is one batch.

    Parameters
    ----------
    network : Network
        Computes the predictions.
    model : Described
        Says how the tables are read.
    nodes : path or table
        A table with the columns of the model.
    edges : path or table, mapping of str to table, or list of paths, optional
        Links between these nodes: a table, or one for each relation of the model.
    id : str, optional
        The column of ids, which links need.
    label : str or sequence of str, optional
        The columns of labels.
    callback : Callback, optional
        Receives progress and messages.

    Raises
    ------
    TableError
        Lists all problems of the tables; also if there are no rows.
    """
    callback = callback or Callback()
    _, encoders = table_columns(model)
    callback.stage("predicting")
    each = dict[str | None, Tables]()
    if edges is not None:
        each = trained_link_tables(Tables(nodes, edges, id or "", label or ""), model.about)
    table, done = open_nodes(nodes), 0
    problems = Problems(table.place)
    batches = labelled_batches(table, id, label, encoders, problems=problems)
    waiting: list[tuple[pa.Array, pa.Array, Any]] = []
    for own_ids, labels, x in batches:
        ids = batch_ids(table, own_ids, done)
        if edges is None:
            yield Predicted(ids, labels, network.probabilities(x))
        else:
            waiting.append((ids, labels, network.outputs(x)))
        done += len(ids)
        callback.progress(done, table.rows or 0)
    if not done:
        raise TableError(f"{table.name}: the table has no rows.")
    for notice in problems.notices():
        callback.note(notice)
    if edges is not None:
        all_ids, all_labels, outputs = zip(*waiting, strict=True)
        ids = pa.concat_arrays(all_ids)
        links = read_table_links(
            table, each, trained_relations(model.about), ids, str(id), callback
        )
        p = network.with_links(outputs, links)
        yield Predicted(ids, pa.concat_arrays(all_labels), p, has_neighbours(links, len(ids)))


def write_predictions(
    parts: Iterator[Predicted],
    out: Path,
    id: str,
    columns: PredictionColumns,
    callback: Callback | None = None,
    raw_text: bool = False,
) -> int:
    """Write the predictions of a table to a file, and return the number of nodes.

    Parameters
    ----------
    parts : iterator of Predicted
        At least one batch.
    out : Path
        The table to write.
    id : str
        The column of ids.
    columns : PredictionColumns
        The other columns.
    callback : Callback, optional
        Receives warnings, and how many rows are answered if some are not.
    raw_text : bool
        Whether text in a CSV file stays as it is, even if a spreadsheet would take it for a
        formula; see `linkdist.tables.csv_text`.
    """
    first, callback = next(parts), callback or Callback()
    warn_of_gaps(columns, callback, first.linked)
    rows, answered = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    with PredictionWriter(out, id, first.ids.type, columns, raw_text) as writer:
        for part in itertools.chain([first], parts):
            writer.write(part.ids, part.values, part.linked)
            modes = modes_of(part.linked, len(part.ids))
            rows += np.bincount(modes, minlength=2)
            answered += np.bincount(modes[columns.answered(part.values, part.linked)], minlength=2)
    if notice := escape_notice(writer.escaped, KEEP_TEXT):
        callback.note(notice)
    if text := columns.answered_text(rows, answered):
        callback.note(text)
    return int(rows.sum())


def warn_of_gaps(
    columns: PredictionColumns, callback: Callback, linked: npt.NDArray[np.bool_] | None = None
) -> None:
    """Report a regression without prediction intervals, and too few labels for conformal sets."""
    if columns.task == "regression" and columns.lacks_intervals(linked):
        callback.note(f"Warning: 'low' and 'high' are empty: {NO_INTERVALS}.")
    if text := columns.too_few():
        callback.note(f"Warning: {text}")


def batch_ids(table: Table, ids: pa.Array, done: int) -> pa.Array:
    """The ids of a batch after `done` rows; those of several node tables as GRAPH/ID."""
    if not isinstance(table, GraphTables):
        return ids
    return shown_ids(ids, table.groups[done : done + len(ids)], table.graphs)


def read_table_links(
    table: Table,
    each: Mapping[str | None, Tables],
    relations: tuple[str, ...],
    ids: pa.Array,
    column: str,
    callback: Callback,
) -> Links:
    """Read the links between the nodes of a table, whose ids must be unique.

    Parameters
    ----------
    table : Table
        The table of nodes, for messages.
    each : mapping of str to Tables
        The link tables, as `linkdist.tables.trained_columns.trained_link_tables` returns them.
    relations : tuple of str
        The relations of the model.
    ids : (n,) Arrow array
        The ids of all nodes, as `batch_ids` returns them.
    column : str
        The column of ids.
    callback : Callback
        Receives the report of the links.
    """
    problems = Problems(table.place)
    check_ids(ids, column, problems)
    problems.check(table.name)
    callback.stage("reading links")

    def read(tables: Tables, own_ids: pa.Array) -> tuple[Links, LinkReport]:
        return links_of(tables, own_ids, relations)

    links, report = read_each(each, ids, read)
    callback.links(report)
    return links
