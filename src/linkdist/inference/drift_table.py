"""Count the rows of a table, and compare them with a model's training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from linkdist.data.graph import FeatureMatrix, FloatArray, stacked
from linkdist.data.links import Links, has_neighbours
from linkdist.inference.drift import THRESHOLD, compare
from linkdist.inference.drift_report import DriftReport
from linkdist.inference.table import batch_ids, read_table_links
from linkdist.progress import Callback
from linkdist.tables.column_summary import Counts, read_summary
from linkdist.tables.column_values import Values
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.graphs import open_nodes
from linkdist.tables.io import TableLike
from linkdist.tables.node_table import NodeTable
from linkdist.tables.parsing import single_values
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.tables.prediction_values import label_values, prediction_values
from linkdist.tables.source import Tables
from linkdist.tables.targets import LabelFormat
from linkdist.tables.targets import label_values as label_texts
from linkdist.tables.trained_columns import trained_link_tables, trained_relations
from linkdist.tables.validation import Problems

if TYPE_CHECKING:
    from linkdist.inference.engine import Engine  # needs ONNX Runtime, which is optional


@dataclass(frozen=True)
class Reference:
    """What a comparison needs of a model.

    Attributes
    ----------
    about : mapping
        The description of the model, with its summary.
    encoders : FeatureEncoder or None
        Turn the columns of a table into features.
    columns : PredictionColumns
        What predictions become.
    predict : callable
        Returns probabilities or numbers (n, C) of features (n, d), with links if they are given.
    """

    about: Mapping[str, Any]
    encoders: FeatureEncoder | None
    columns: PredictionColumns
    predict: Callable[[FeatureMatrix, Links | None], FloatArray]

    @classmethod
    def of_engine(cls, engine: Engine) -> Reference:
        """What a comparison needs of a loaded engine."""
        header = engine.header
        return cls(header.about, header.encoders, engine.columns, engine.probabilities)


def drift(
    reference: Reference,
    nodes: TableLike,
    edges: TableLike = None,
    *,
    threshold: float = THRESHOLD,
    callback: Callback | None = None,
) -> DriftReport:
    """Compare a table with the training of a model; without links it may be larger than memory.

    Parameters
    ----------
    reference : Reference
        The model.
    nodes : path or table
        A table with the feature columns of the model.
    edges : path or table, mapping of str to table, or list of paths, optional
        Links between these nodes. With them, predictions with links are compared.
    threshold : float
        The population stability index above which there may be an alarm.
    callback : Callback, optional
        Receives progress and messages.

    Raises
    ------
    ModelError
        If the model has no summary of its training.
    TableError
        Lists all problems of the table.
    """
    callback = callback or Callback()
    summary = read_summary(reference.about, reference.encoders)
    assert reference.encoders is not None
    id = None if edges is None else str(reference.about["id"])
    table = open_nodes(nodes)
    form = reference.columns.form
    has_labels = bool(form.columns) and set(form.columns) <= set(table.schema.names)
    rows = NodeTable(table, id, form.columns if has_labels else None, reference.encoders)
    counts = Counts(summary, reference.encoders.columns, "features" if edges is None else "links")
    waiting = list[tuple[pa.Array, FeatureMatrix]]()
    callback.stage("comparing")
    for first_row, batch in rows.batches(progress=callback.progress):
        ids = single_values(batch, id, rows.problems)
        x = rows.present.transform(batch, first_row, rows.problems)
        if rows.problems:  # the other problems are found, too, before all are reported
            continue
        columns = {name: batch.column(name) for name in rows.present.names}
        counts.add(columns, _labels(batch, form) if has_labels else None)
        if edges is None:
            p = reference.predict(x, None)
            counts.add_predictions(prediction_values(reference.columns, p))
        else:
            waiting.append((ids, x))
    rows.problems.check(table.name)
    rows.check_rows(counts.rows)
    if edges is not None:
        ids, x = pa.concat_arrays([part for part, _ in waiting]), stacked([x for _, x in waiting])
        ids, relations = batch_ids(table, ids, 0), trained_relations(reference.about)
        each = trained_link_tables(Tables(nodes, edges, str(id), ""), reference.about)
        links = read_table_links(table, each, relations, ids, str(id), callback)
        p, linked = reference.predict(x, links), has_neighbours(links, len(ids))
        counts.add_predictions(prediction_values(reference.columns, p, linked))
    return compare(counts, threshold)


def _labels(batch: pa.RecordBatch, form: LabelFormat) -> Values | None:
    """The labels of a batch; None if they cannot be read, which is no problem here."""
    problems = Problems()
    labels, _ = form.encode(label_texts(batch, form.columns, problems), 1, problems)
    return None if problems else label_values(form, labels)
