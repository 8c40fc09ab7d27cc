"""Predict a table of nodes with a saved model, from features or with links."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from linkdist.artifacts.model_dir import Saved, load_model
from linkdist.data.graph import FeatureMatrix, both_directions
from linkdist.errors import ModelError, TableError
from linkdist.model import Model, from_features, logits
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import make_inputs
from linkdist.progress import Callback
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.io import open_table
from linkdist.tables.links import read_links
from linkdist.tables.nodes import check_ids, node_batches
from linkdist.tables.predictions import PredictionWriter
from linkdist.tables.validation import Problems
from linkdist.training.loop import find_device

Batches: TypeAlias = Iterator[tuple[pa.Array, FeatureMatrix]]
Predictions: TypeAlias = Iterator[tuple[pa.Array, npt.NDArray[np.float32]]]


def predict(
    model: Path,
    nodes: Path,
    out: Path,
    *,
    edges: Path | None = None,
    device: str = "auto",
    callback: Callback | None = None,
) -> int:
    """Predict a table of nodes; without links it may be larger than memory.

    Parameters
    ----------
    model : Path
        The model directory.
    nodes : Path
        A table with the columns of the model.
    out : Path
        The table to write.
    edges : Path, optional
        A table of links between these nodes. With links, the logits of all nodes are in memory.
    device : {'auto', 'cpu', 'cuda'}
        Where to compute.
    callback : Callback, optional
        Receives progress and messages.

    Returns
    -------
    int
        Number of predicted nodes.
    """
    return predict_table(
        load_model(model), nodes, out, edges=edges, device=device, callback=callback
    )


def predict_table(
    saved: Saved,
    nodes: Path,
    out: Path,
    *,
    edges: Path | None = None,
    device: str = "auto",
    callback: Callback | None = None,
) -> int:
    """`predict` with a model that is already loaded, to predict several tables with it."""
    callback = callback or Callback()
    column, encoders = table_columns(saved)
    model = saved.model.to(find_device(device))
    callback.stage("predicting")
    table = open_table(nodes)
    batches = _with_progress(node_batches(table, column, encoders), table.rows or 0, callback)
    if edges is None:
        parts: Predictions = ((ids, from_features(model, x)) for ids, x in batches)
    else:
        parts = _with_links(model, column, batches, edges, callback)
    first = next(parts, None)
    if first is None:
        raise TableError(f"{nodes}: the table has no rows.")
    done = 0
    with PredictionWriter(out, column, first[0].type, model.classes) as writer:
        for ids, p in itertools.chain([first], parts):
            writer.write(ids, p)
            done += len(ids)
    return done


def table_columns(saved: Saved) -> tuple[str, FeatureEncoder]:
    """The id column and the encoders of a model that was trained on tables."""
    if saved.encoders is None or "id" not in saved.about:
        raise ModelError("this model was not trained on a table; use it from Python.")
    return saved.about["id"], saved.encoders


def _with_progress(batches: Batches, total: int, callback: Callback) -> Batches:
    done = 0
    for ids, features in batches:
        yield ids, features
        done += len(ids)
        callback.progress(done, total)


def _with_links(
    model: Model, column: str, batches: Batches, edges: Path, callback: Callback
) -> Predictions:
    """Predict all nodes at once: the neighbours of a node may be anywhere in the table."""
    device, parts, both = model.alpha.device, [], []
    for ids, features in batches:
        parts.append(ids)
        both.append(torch.stack(logits(model.network, make_inputs(features, device))))
    if not parts:
        return
    all_ids, (z, s) = pa.concat_arrays(parts), torch.cat(both, dim=2)
    problems = Problems()
    check_ids(all_ids, column, problems)
    problems.check()
    callback.stage("reading links")
    links, report = read_links(edges, all_ids)
    callback.links(report)
    neighbours = Neighbours([both_directions(links)], len(all_ids), device)
    scores = model.with_neighbours(z, s, neighbours)
    yield all_ids, scores.softmax(-1).mean(0).cpu().numpy()
