"""Predict a table of nodes with a saved model, from features or with links."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from linkdist.artifacts.model_dir import Saved, load_model
from linkdist.data.graph import both_directions
from linkdist.errors import ModelError, TableError
from linkdist.model import Model, from_features, logits
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import make_inputs
from linkdist.progress import Callback
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.io import Table, TableLike, open_table
from linkdist.tables.links import read_links
from linkdist.tables.node_table import check_ids
from linkdist.tables.nodes import labelled_batches
from linkdist.tables.predictions import PredictionWriter
from linkdist.tables.validation import Problems
from linkdist.training.loop import find_device


class Predicted(NamedTuple):
    """Predictions of a batch of nodes.

    Attributes
    ----------
    ids : (k,) array
        Ids, in the type of their column.
    labels : (k,) array of large_string
        Known labels, null where unknown.
    probabilities : (k, C) float32 array
        Class probabilities.
    """

    ids: pa.Array
    labels: pa.Array
    probabilities: npt.NDArray[np.float32]


def predict(
    model: Path,
    nodes: TableLike,
    out: Path,
    *,
    edges: TableLike = None,
    device: str = "auto",
    callback: Callback | None = None,
) -> int:
    """Predict a table of nodes; without links it may be larger than memory.

    Parameters
    ----------
    model : Path
        The model directory.
    nodes : path or table
        A table with the columns of the model.
    out : Path
        The table to write.
    edges : path or table, optional
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
    nodes: TableLike,
    out: Path,
    *,
    edges: TableLike = None,
    device: str = "auto",
    callback: Callback | None = None,
) -> int:
    """`predict` with a model that is already loaded, to predict several tables with it."""
    column, _ = table_columns(saved)
    parts = predictions(saved, nodes, edges, id=column, device=device, callback=callback)
    first = next(parts)
    done = 0
    with PredictionWriter(out, column, first.ids.type, saved.model.classes) as writer:
        for part in itertools.chain([first], parts):
            writer.write(part.ids, part.probabilities)
            done += len(part.ids)
    return done


def predictions(
    saved: Saved,
    nodes: TableLike,
    edges: TableLike = None,
    *,
    id: str | None = None,
    label: str | None = None,
    device: str = "auto",
    callback: Callback | None = None,
) -> Iterator[Predicted]:
    """Predict a table batch by batch; with links there is one batch.

    Parameters
    ----------
    saved : Saved
        The content of a model directory.
    nodes, edges, device, callback
        As in `predict`.
    id, label : str, optional
        The columns of ids, which links need, and of labels.

    Raises
    ------
    TableError
        Lists all problems of the tables; also if there are no rows.
    """
    callback = callback or Callback()
    _, encoders = table_columns(saved)
    model = saved.model.to(find_device(device))
    callback.stage("predicting")
    table, problems, done = open_table(nodes, "the node table"), Problems(), 0
    batches = labelled_batches(table, id, label, encoders, problems=problems)
    waiting: list[tuple[pa.Array, pa.Array, torch.Tensor]] = []
    for ids, labels, x in batches:
        if edges is None:
            yield Predicted(ids, labels, from_features(model, x))
        else:
            inputs = make_inputs(x, model.alpha.device)
            waiting.append((ids, labels, torch.stack(logits(model.network, inputs))))
        done += len(ids)
        callback.progress(done, table.rows or 0)
    if not done:
        raise TableError(f"{table.name}: the table has no rows.")
    for notice in problems.notices():
        callback.note(notice)
    if edges is not None:
        all_ids, all_labels, both = zip(*waiting, strict=True)
        ids, (z, s) = pa.concat_arrays(all_ids), torch.cat(both, dim=2)
        p = _with_links(model, z, s, ids, id or "", link_table(saved, edges), callback)
        yield Predicted(ids, pa.concat_arrays(all_labels), p)


def table_columns(saved: Saved) -> tuple[str, FeatureEncoder]:
    """The id column and the encoders of a model that was trained on tables."""
    if saved.encoders is None or "id" not in saved.about:
        raise ModelError("this model was not trained on a table; use it from Python.")
    return saved.about["id"], saved.encoders


def link_table(saved: Saved, edges: TableLike) -> tuple[Table, str | None, str | None]:
    """Open a link table; the ends of its links are the columns of the training, if it has them."""
    table = open_table(edges, "the link table")
    names = [saved.about.get(end) for end in ("source", "target")]
    source, target = (name if name in table.schema.names else None for name in names)
    return table, source, target


def _with_links(
    model: Model,
    z: torch.Tensor,
    s: torch.Tensor,
    ids: pa.Array,
    column: str,
    link_table: tuple[Table, str | None, str | None],
    callback: Callback,
) -> npt.NDArray[np.float32]:
    """Predict all nodes at once: the neighbours of a node may be anywhere in the table."""
    problems = Problems()
    check_ids(ids, column, problems)
    problems.check()
    callback.stage("reading links")
    links, report = read_links(link_table[0], ids, *link_table[1:])
    callback.links(report)
    neighbours = Neighbours([both_directions(links)], len(ids), model.alpha.device)
    p: npt.NDArray[np.float32] = (
        model.with_neighbours(z, s, neighbours).softmax(-1).mean(0).cpu().numpy()
    )
    return p
