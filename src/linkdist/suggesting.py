"""Suggest the rows of a table whose labels would help a model most."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.artifacts.model_dir import Saved
from linkdist.data.graph import known_labels
from linkdist.data.links import has_neighbours
from linkdist.errors import OptionError
from linkdist.inference.table import table_columns
from linkdist.pipeline import read_graph
from linkdist.progress import Callback
from linkdist.tables.io import TableLike
from linkdist.tables.source import Tables
from linkdist.tables.targets import label_columns
from linkdist.training.suggestion import suggest_nodes


def suggest(
    saved: Saved,
    nodes: TableLike,
    links: TableLike,
    count: int,
    *,
    labels: TableLike,
    seed: int,
    callback: Callback,
) -> pa.Table:
    """Rows to label next, as a table to fill in; see `linkdist.TrainedModel.suggest`."""
    column, _ = table_columns(saved)
    label, unknown = saved.about["label"], saved.about.get("unknown") or ()
    tables = Tables(nodes, links, column, label, labels=labels, unknown=unknown)
    read, graph, _ = read_graph(tables, callback, saved)
    p = saved.model.predict_proba(graph.features, graph.all_links)
    without = ~known_labels(graph.labels)
    if count < 1 or not without.any():
        raise OptionError(
            f"count must be 1 or more, and some rows must have no label; found {count} and "
            f"{int(without.sum())} rows."
        )
    task = saved.model.task
    rows = suggest_nodes(p, graph.features, graph.links, without, count, seed, task)
    linked = has_neighbours(graph.all_links, graph.n)[rows]
    return pa.table(
        {
            column: read.ids.take(pa.array(rows)),
            **{name: pa.nulls(len(rows), pa.string()) for name in label_columns(label)},
            **_predicted(saved, p[rows], linked),
        }
    )


def _predicted(
    saved: Saved, p: npt.NDArray[np.float32], linked: npt.NDArray[np.bool_]
) -> dict[str, Any]:
    """What is predicted for suggested rows."""
    columns, task = saved.prediction_columns, saved.model.task
    if task == "regression":
        ends = columns.interval(p, linked).astype(np.float32).T
        low, high = (pa.array(end, mask=np.isnan(end)) for end in ends)
        return {"predicted": p[:, 0], "low": low, "high": high}
    if task == "multilabel":
        return {"predicted": columns.label_lists(columns.decided(p, linked))}
    predicted = [saved.model.classes[i] for i in p.argmax(axis=1)]
    return {"predicted": predicted, "confidence": p.max(axis=1)}
