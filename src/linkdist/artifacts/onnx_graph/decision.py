"""What a user reads: labels, or the ends of prediction intervals, as ONNX operations."""

from __future__ import annotations

import numpy as np

from linkdist.artifacts.onnx_graph.graph import GraphBuilder
from linkdist.tables.prediction_columns import PredictionColumns


def add_decision(graph: GraphBuilder, columns: PredictionColumns, prediction: str) -> None:
    """Append the outputs that `linkdist predict` writes besides the prediction.

    ==============  ==================================================================
    classification  `label` (n,), `classes` (C,)
    multilabel      `labels` (n, C), empty where a label is not predicted; `classes`
    regression      `low` and `high` (n, 1), if the model has prediction intervals
    ==============  ==================================================================
    """
    if columns.task == "regression":
        _add_interval(graph, float(columns.widths[0]), prediction)
        return
    classes = np.array(columns.form.classes, dtype=object)
    if columns.task == "classification":
        best = graph.add("ArgMax", prediction, axis=1, keepdims=0)
        graph.output(graph.add("Gather", classes, best, name="label"), "STRING")
    else:
        p = graph.cast(prediction, "DOUBLE")
        decided = graph.add("GreaterOrEqual", p, columns.thresholds[0])
        nothing = np.array("", dtype=object)
        labels = graph.add("Where", decided, classes, nothing, name="labels")
        graph.output(labels, "STRING", len(classes))
    graph.constant("classes", classes)


def _add_interval(graph: GraphBuilder, width: float, value: str) -> None:
    if np.isnan(width):
        return
    for kind, name in (("Sub", "low"), ("Add", "high")):
        graph.output(graph.add(kind, value, np.float32(width), name=name), "FLOAT", 1)
