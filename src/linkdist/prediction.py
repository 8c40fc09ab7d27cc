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
from linkdist.data.links import Links
from linkdist.errors import ModelError, TableError
from linkdist.model import Model, from_features, logits
from linkdist.nn.aggregation import relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.progress import Callback
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.io import TableLike, open_table
from linkdist.tables.links import links_of
from linkdist.tables.node_table import check_ids
from linkdist.tables.nodes import labelled_batches
from linkdist.tables.predictions import PredictionWriter
from linkdist.tables.source import Tables
from linkdist.tables.targets import LabelColumns
from linkdist.tables.trained_columns import trained_relations, with_trained_columns
from linkdist.tables.validation import Problems
from linkdist.training.loop import find_device


class Predicted(NamedTuple):
    """Predictions of a batch of nodes.

    Attributes
    ----------
    ids : (k,) array
        Ids, in the type of their column.
    labels : (k,) array
        Known labels as they are written; see `linkdist.tables.targets.label_values`.
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
    edges : path or table, mapping of str to table, or list of paths, optional
        Links between these nodes: a table, or one for each relation of the model. With links, the
        logits of all nodes are in memory.
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
    label: LabelColumns = None,
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
    id : str, optional
        The column of ids, which links need.
    label : str or sequence of str, optional
        The columns of labels.

    Raises
    ------
    TableError
        Lists all problems of the tables; also if there are no rows.
    """
    callback = callback or Callback()
    _, encoders = table_columns(saved)
    model = saved.model.to(find_device(device))
    callback.stage("predicting")
    tables = Tables(nodes, edges, id or "", label or "")
    if edges is not None:
        tables = with_trained_columns(tables, saved.about, callback)
    table, problems, done = open_table(nodes, "the node table"), Problems(), 0
    batches = labelled_batches(table, id, label, encoders, problems=problems)
    waiting: list[tuple[pa.Array, pa.Array, torch.Tensor, torch.Tensor]] = []
    for ids, labels, x in batches:
        if edges is None:
            yield Predicted(ids, labels, from_features(model, x))
        else:
            inputs = make_inputs(x, model.alpha.device)
            waiting.append((ids, labels, *logits(model.network, inputs)))
        done += len(ids)
        callback.progress(done, table.rows or 0)
    if not done:
        raise TableError(f"{table.name}: the table has no rows.")
    for notice in problems.notices():
        callback.note(notice)
    if edges is not None:
        all_ids, all_labels, *both = zip(*waiting, strict=True)
        ids, (z, s) = pa.concat_arrays(all_ids), (torch.cat(part, dim=-2) for part in both)
        links = _read_links(tables, trained_relations(saved.about), ids, callback)
        p = _with_links(model, z, s, links)
        yield Predicted(ids, pa.concat_arrays(all_labels), p)


def table_columns(saved: Saved) -> tuple[str, FeatureEncoder]:
    """The id column and the encoders of a model that was trained on tables."""
    if saved.encoders is None or "id" not in saved.about:
        raise ModelError("this model was not trained on a table; use it from Python.")
    return saved.about["id"], saved.encoders


def _read_links(
    tables: Tables, relations: tuple[str, ...], ids: pa.Array, callback: Callback
) -> Links:
    """Read the links between nodes, whose ids must be unique."""
    problems = Problems()
    check_ids(ids, tables.id, problems)
    problems.check()
    callback.stage("reading links")
    links, report = links_of(tables, ids, relations)
    callback.links(report)
    return links


def _with_links(
    model: Model, z: torch.Tensor, s: torch.Tensor, links: Links
) -> npt.NDArray[np.float32]:
    """Predict all nodes at once: the neighbours of a node may be anywhere in the table."""
    neighbours = relations_of(links, z.shape[-2], model.alpha.device)
    return model.mean_prediction(model.with_neighbours(z, s, neighbours))
