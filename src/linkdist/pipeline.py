"""From tables to a model, from a model to predictions, and on to the next model.

What the commands `train`, `predict` and `update` do, each in one call. Nothing here prints; a
`Callback` is told what a person may want to see.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from linkdist.artifacts.model_dir import Saved, check_target, load, save
from linkdist.artifacts.onnx import export_onnx, with_onnx
from linkdist.data.edges import with_own_loops
from linkdist.data.graph import UNKNOWN, FeatureMatrix, Graph, IntArray
from linkdist.data.splits import HELD_OUT, Split, held_out, keep_aside
from linkdist.errors import ModelError, OptionError, TableError
from linkdist.model import Model, from_features, logits
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import make_inputs
from linkdist.progress import Callback
from linkdist.report.metrics import HeldOut, find
from linkdist.report.model_report import render
from linkdist.tables.encoders import Encoders
from linkdist.tables.io import open_table
from linkdist.tables.links import LinkReport, read_links
from linkdist.tables.nodes import Nodes, check_ids, node_batches, read_nodes
from linkdist.tables.predictions import PredictionWriter
from linkdist.tables.validation import Problems
from linkdist.training.checkpoint import Checkpoint, Keeper, checkpoint_beside
from linkdist.training.fit import Fit, check_epochs, fit
from linkdist.training.loop import find_device
from linkdist.training.panel.estimates import limits
from linkdist.training.replay import feature_arrays, pack, remember, unpack
from linkdist.training.update import update as update_model

COMPARED = 10_000
"""Rows of a table, or of a model's sample, on which an export is compared."""


@dataclass(frozen=True)
class Tables:
    """A node table and a link table, and what their columns are.

    Attributes
    ----------
    nodes, edges : Path
        Parquet or CSV.
    id, label : str
        Columns of the node table.
    features : sequence of str, optional
        The columns that are features; by default all that can be.
    kinds : mapping of str to str
        Columns that are of another kind than guessed.
    source, target : str, optional
        Columns of the link table; by default its first two.
    strict : bool
        Whether links of unknown nodes, duplicates and self-loops are errors.
    """

    nodes: Path
    edges: Path
    id: str
    label: str
    features: Sequence[str] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    target: str | None = None
    strict: bool = False


@dataclass(frozen=True)
class Options:
    """How to train; the fields are the command's options."""

    method: str = "selflinkdist"
    replicas: int = 1
    epochs: int | None = None
    held_out: float | None = None
    seed: int = 0
    device: str = "auto"
    budget: float | None = None

    @property
    def share(self) -> float:
        """The share of the labels that is held out where a method needs validation nodes."""
        return HELD_OUT if self.held_out is None else self.held_out

    def splits(self, labels: IntArray) -> list[Split]:
        """One split for each replica; SelfLinkDist judges itself unless a share is given."""
        seeds = range(self.seed, self.seed + self.replicas)
        if self.method == "selflinkdist":
            return [keep_aside(labels, np.array([], dtype=np.int64))] * self.replicas
        return [held_out(labels, self.share, seed) for seed in seeds]


def train(
    tables: Tables,
    out: Path,
    options: Options,
    *,
    resume: bool = False,
    callback: Callback | None = None,
) -> Saved:
    """Train on tables and leave a model directory.

    Parameters
    ----------
    tables : Tables
        The data.
    out : Path
        The model directory.
    options : Options
        How to train.
    resume : bool
        Whether to go on where a killed training of the same data and options was.
    callback : Callback, optional
        Receives progress and messages.

    Returns
    -------
    Saved
        What the directory holds.
    """
    callback = callback or Callback()
    check_options(out, options)
    nodes, graph, report = _read(tables, callback)
    splits = options.splits(graph.labels)
    checkpoint = _checkpoint(out, graph, options)
    begin(checkpoint, resume, "data and options", callback)
    for warning in limits(graph, splits[0].train):
        callback.note(f"Warning: {warning}")
    callback.stage("training")
    result = fit(
        graph,
        splits,
        method=options.method,
        seeds=list(range(options.seed, options.seed + options.replicas)),
        epochs=options.epochs,
        device=options.device,
        progress=callback.progress,
        checkpoint=checkpoint,
        judge=options.held_out != 0,
        baselines=True,
        budget=options.budget,
        held_out=options.held_out,
    )
    about = {
        "id": tables.id,
        "label": tables.label,
        "method": options.method,
        "seed": options.seed,
        "epochs": result.epochs,
        "seconds": round(result.seconds, 1),
        "date": datetime.now(UTC).date().isoformat(),
        "data": {"nodes": graph.n, **_counts(graph), "links": str(report)},
    }
    if result.estimates is not None:
        about["estimates"] = result.estimates.as_json()
    memory = remember(graph, splits, options.seed)
    saved = Saved(result.model, nodes.encoders, about, pack(memory))
    save(out, saved)
    checkpoint.remove()
    saved = _with_report(saved, out, graph, splits, result, nodes.ids, callback)
    save(out, saved)
    return saved


def _with_report(
    saved: Saved,
    out: Path,
    graph: Graph,
    splits: Sequence[Split],
    result: Fit,
    ids: Sequence[Any],
    callback: Callback,
) -> Saved:
    """The same with scores, a report and an ONNX file; what fails leaves a warning, not a hole."""
    callback.stage("writing the report")
    try:
        findings = find(graph, splits, result, ids)
        about = {**saved.about, **scores_of(findings.held_out)}
        saved = replace(saved, about=about, report=render(out.resolve().name, findings, about))
    except Exception as error:  # whatever scikit-learn or a drawing raises
        callback.note(f"Warning: the model is saved, but its report could not be written: {error}")
    try:
        return with_onnx(saved)
    except Exception as error:  # whatever ONNX raises
        callback.note(f"Warning: the model is saved, but not as ONNX: {error}")
        return saved


def begin(checkpoint: Keeper, resume: bool, same: str, callback: Callback) -> None:
    """Forget what an earlier training left, or say that there is nothing to go on from.

    Examples
    --------
    >>> begin(Checkpoint(Path("no/such/state"), "digits"), True, "data and options", Callback())
    """
    if not resume:
        checkpoint.remove()
    elif checkpoint.load() is None:
        callback.note(
            f"There is no state of this very training to go on from: it must have the same {same}. "
            "It begins anew."
        )


def check_options(out: Path, options: Options) -> None:
    """Refuse what no training can begin with, before anything is read.

    Examples
    --------
    >>> check_options(Path("a/directory/that/is/not/there"), Options())
    """
    check_target(out)
    check_epochs(options.epochs)
    if options.held_out is not None and not 0 <= options.held_out < 1:
        raise OptionError(f"held-out must be from 0 to below 1; found {options.held_out}.")
    if options.budget is not None and options.budget <= 0:
        raise OptionError(f"a budget must be longer than 0 s; found {options.budget:g} s.")


def predict(
    model: Path,
    nodes: Path,
    out: Path,
    *,
    edges: Path | None = None,
    device: str = "auto",
    callback: Callback | None = None,
) -> int:
    """Predict a table of nodes, of any length where no links are given.

    Parameters
    ----------
    model, nodes, out : Path
        The model directory, a table with the model's columns, and the table to write.
    edges : Path, optional
        Links among these nodes; then all of their logits are held at once.
    device : {'auto', 'cpu', 'cuda'}
        Where to compute.
    callback : Callback, optional
        Receives progress and messages.

    Returns
    -------
    int
        How many nodes were predicted.
    """
    return predict_table(load(model), nodes, out, edges=edges, device=device, callback=callback)


def predict_table(
    saved: Saved,
    nodes: Path,
    out: Path,
    *,
    edges: Path | None = None,
    device: str = "auto",
    callback: Callback | None = None,
) -> int:
    """`predict` with a model that is loaded already, for who predicts many tables."""
    callback = callback or Callback()
    column, encoders = table_columns(saved)
    there = saved.model.to(find_device(device))
    callback.stage("predicting")
    batches = _watched(node_batches(nodes, column, encoders), open_table(nodes).rows or 0, callback)
    parts = (
        _from_features(there, batches)
        if edges is None
        else _linked(there, column, batches, edges, callback)
    )
    first = next(parts, None)
    if first is None:
        raise TableError(f"{nodes}: the table has no rows.")
    done = 0
    with PredictionWriter(out, column, first[0].type, there.classes) as writer:
        for ids, p in itertools.chain([first], parts):
            writer.write(ids, p)
            done += len(ids)
    return done


def update(
    model: Path,
    tables: Tables,
    out: Path,
    *,
    epochs: int | None = None,
    seed: int = 0,
    device: str = "auto",
    callback: Callback | None = None,
) -> Saved:
    """Bring a model up to date with new nodes and links.

    Parameters
    ----------
    model : Path
        The model directory.
    tables : Tables
        What is new, with the model's columns; old nodes that new links lead to come along.
    out : Path
        The new model's directory; may be the old one's.
    epochs, seed, device
        As `linkdist.training.update.update` takes them.
    callback : Callback, optional
        Receives progress and messages.
    """
    callback = callback or Callback()
    check_target(out)
    check_epochs(epochs)
    saved = load(model)
    if saved.rehearsal is None:
        raise ModelError(f"{model} keeps no sample of old links, so it cannot be updated.")
    there = saved.model.to(find_device(device))
    _, graph, report = _read(tables, callback, saved)
    callback.stage("updating")
    memory = update_model(
        there,
        unpack(saved.rehearsal, there.classes),
        graph,
        method=saved.about.get("method", "colinkdist"),
        seed=seed,
        epochs=epochs,
        progress=callback.progress,
    )
    added = {"nodes": graph.n, **_counts(graph), "links": str(report)}
    about = {**saved.about, "updates": [*saved.about.get("updates", []), added]}
    new = with_onnx(Saved(there.to(torch.device("cpu")), saved.encoders, about, pack(memory)))
    save(out, new)
    return new


def export(
    saved: Saved,
    path: Path,
    *,
    with_neighbour_head: bool = False,
    rows: Path | None = None,
) -> tuple[int, float]:
    """Write a model as ONNX, compared on a table's rows or on the model's own sample.

    Returns
    -------
    int, float
        On how many rows it was compared, and the largest difference.
    """
    if rows is not None:
        column, encoders = table_columns(saved)
        _, features = next(node_batches(rows, column, encoders, COMPARED), (None, None))
        if features is None:
            raise TableError(f"{rows}: the table has no rows.")
    elif saved.rehearsal is not None:
        features = unpack(saved.rehearsal, saved.model.classes).graph.features[:COMPARED]
    else:
        raise ModelError("the model keeps no sample of nodes to compare on; name a table of rows.")
    difference = export_onnx(saved, path, with_neighbour_head=with_neighbour_head, rows=features)
    return features.shape[0], difference


def _read(
    tables: Tables, callback: Callback, saved: Saved | None = None
) -> tuple[Nodes, Graph, LinkReport]:
    callback.stage("reading nodes")
    nodes = read_nodes(
        tables.nodes,
        tables.id,
        tables.label,
        kinds=tables.kinds,
        features=tables.features,
        encoders=None if saved is None else saved.encoders,
        progress=callback.progress,
        classes=None if saved is None else saved.model.classes,
    )
    if nodes.unknown_labels:
        named = ", ".join(f"{name!r} ({n} rows)" for name, n in nodes.unknown_labels.items())
        raise TableError(
            f"{tables.nodes}: the model does not know the classes {named}; an update takes no new "
            "classes. Train anew on all data, or leave these labels empty."
        )
    callback.columns(nodes.guesses)
    callback.stage("reading links")
    links, report = read_links(tables.edges, nodes.ids, tables.source, tables.target, tables.strict)
    callback.links(report)
    every = with_own_loops(links, len(nodes.labels))
    return nodes, Graph.build(nodes.features, every, nodes.labels, nodes.classes), report


def table_columns(saved: Saved) -> tuple[str, Encoders]:
    """The column of ids and the encoders of a model that reads tables."""
    if saved.encoders is None or "id" not in saved.about:
        raise ModelError("this model was not trained on a table; use it from Python.")
    return saved.about["id"], saved.encoders


Batches: TypeAlias = Iterator[tuple[pa.Array, FeatureMatrix]]
Parts: TypeAlias = Iterator[tuple[pa.Array, npt.NDArray[np.float32]]]


def _watched(batches: Batches, total: int, callback: Callback) -> Batches:
    done = 0
    for ids, features in batches:
        yield ids, features
        done += len(ids)
        callback.progress(done, total)


def _from_features(model: Model, batches: Batches) -> Parts:
    return ((ids, from_features(model, features)) for ids, features in batches)


def _linked(model: Model, column: str, batches: Batches, edges: Path, callback: Callback) -> Parts:
    """All nodes at once: a node's neighbours may stand anywhere in the table."""
    device, ids, both = model.alpha.device, [], []
    for names, features in batches:
        ids.append(names)
        both.append(torch.stack(logits(model.network, make_inputs(features, device))))
    if not ids:
        return
    whole, (z, s) = pa.concat_arrays(ids), torch.cat(both, dim=2)
    problems = Problems()
    check_ids(whole, column, problems)
    problems.check()
    callback.stage("reading links")
    links, report = read_links(edges, whole)
    callback.links(report)
    back = links[links[:, 0] != links[:, 1], ::-1]
    neighbours = Neighbours([np.concatenate([links, back])], len(whole), device)
    passed = model.with_neighbours(z, s, neighbours)
    yield whole, passed.softmax(-1).mean(0).cpu().numpy()


def _checkpoint(out: Path, graph: Graph, options: Options) -> Checkpoint:
    """Beside the model directory, for this very data and these options."""
    digest = hashlib.sha256(json.dumps(vars(options), default=str).encode())
    for part in (*feature_arrays(graph.features).values(), graph.links, graph.labels):
        digest.update(np.ascontiguousarray(part).data)
    return checkpoint_beside(out, digest.hexdigest())


def _counts(graph: Graph) -> dict[str, Any]:
    known = graph.labels[graph.labels != UNKNOWN]
    counts = np.bincount(known, minlength=graph.C).tolist()
    return {"labels": dict(zip(graph.classes, counts, strict=True))}


def scores_of(held: HeldOut | None) -> dict[str, Any]:
    """Accuracies of the kept weights on held-out nodes; curve and confusion from features."""
    if held is None:
        return {}
    found = {
        "scores": {
            "held-out nodes": held.nodes,
            "accuracy from features": round(held.modes["features"].accuracy, 4),
            "accuracy with links": round(held.modes["links"].accuracy, 4),
        },
        "confusion": held.modes["features"].confusion.tolist(),
    }
    if len(held.curves["features"]) > 2:
        found["curve"] = held.curves["features"].T.round(4).tolist()
        found["kept"] = (held.chosen + 1).tolist()
    return found
