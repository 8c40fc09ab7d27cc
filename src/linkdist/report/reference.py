"""What the predictions of a training are like, for comparison with those of later rows.

A network is more certain of rows that it was trained on than of new ones. There are therefore two
references: predictions of validation nodes, and those of the model for nodes of the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkdist.data.graph import Graph
from linkdist.data.splits import Split
from linkdist.report.held_out import held_out_predictions
from linkdist.report.metrics import predict_modes
from linkdist.tables.column_summary import summarise_predictions
from linkdist.tables.prediction_columns import MODES, PredictionColumns
from linkdist.tables.prediction_values import prediction_values
from linkdist.tables.table_sample import SAMPLED
from linkdist.training.fit import Fit


def reference_predictions(
    result: Fit, graph: Graph, splits: Sequence[Split], columns: PredictionColumns
) -> dict[str, list[dict[str, Any]]]:
    """Summarise the predictions of a training for each mode.

    Parameters
    ----------
    result : Fit
        The result of the training.
    graph, splits : Graph, sequence of Split
        The graph and the splits of the training.
    columns : PredictionColumns
        What predictions become.

    Returns
    -------
    dict of str to list
        JSON values of `linkdist.tables.column_summary.Summary.predictions`.

    Examples
    --------
    >>> from linkdist.training.fit import fit
    >>> graph = Graph.build(np.eye(4), [(0, 1), (2, 3)], [0, 0, 1, 1])
    >>> splits = [Split(np.array([0, 2]), np.array([1, 3]), np.array([], int))]
    >>> result = fit(graph, splits, method="colinkdist", epochs=1, device="cpu")
    >>> columns = PredictionColumns.of({}, graph.classes)
    >>> [one["name"] for one in reference_predictions(result, graph, splits, columns)["links"]]
    ['predicted class', 'confidence']
    """
    _, each = predict_modes(graph, result)
    known = {mode: p.mean(axis=0).astype(np.float32) for mode, p in each.items()}
    held_out = held_out_predictions(result, graph.task)
    new = {mode: one.ranked.astype(np.float32) for mode, one in held_out.items()}
    if not new and len(splits[0].validation):
        new = {mode: p[splits[0].validation] for mode, p in known.items()}
    random, found = np.random.default_rng(0), {}
    rows = random.choice(graph.n, min(graph.n, SAMPLED), replace=False)
    for mode in MODES:
        groups = [known[mode][rows]]
        if mode in new:
            kept = random.permutation(len(new[mode]))[:SAMPLED]
            groups.insert(0, new[mode][kept])
        linked = [np.full(len(p), mode == "links") for p in groups]
        found[mode] = summarise_predictions(
            [prediction_values(columns, p, of) for p, of in zip(groups, linked, strict=True)]
        )
    return found
