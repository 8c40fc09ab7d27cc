"""The pipeline: data in, a model directory out; then its export to ONNX.

`train` is the one place where a training is started, evaluated and saved. What differs between
tables, graphs in memory, stores and Ray workers is a `Source`: it reads the data and fits a model.
Nothing here prints; a `linkdist.progress.Callback` receives progress and messages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from linkdist.artifacts.model_dir import (
    Saved,
    check_replaced,
    check_target,
    save_model,
)
from linkdist.artifacts.onnx import export_onnx, with_onnx
from linkdist.data.graph import Graph, known_labels
from linkdist.data.links import LINKS, Links
from linkdist.data.splits import Split
from linkdist.errors import ModelError, TableError
from linkdist.inference.table import table_columns
from linkdist.progress import SCALE, Callback, part_of
from linkdist.report.html import render_report
from linkdist.report.metrics import ValidationMetrics, compute_metrics, evaluate_validation
from linkdist.report.task_metrics import TaskValidation
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.graphs import read_each
from linkdist.tables.io import open_table
from linkdist.tables.labels import check_known_classes
from linkdist.tables.links import LinkReport, links_of
from linkdist.tables.nodes import Nodes, node_batches, read_nodes
from linkdist.tables.source import LINK_ROLES, ROLES
from linkdist.tables.source import Tables as Tables
from linkdist.tables.summary import Summary, summarise
from linkdist.tables.targets import LabelFormat
from linkdist.tables.trained_columns import trained_link_tables, trained_relations
from linkdist.training.checkpoint import Keeper, checkpoint_beside
from linkdist.training.fit import Fit, fit
from linkdist.training.options import Options as Options
from linkdist.training.panel.estimates import limits
from linkdist.training.replay import ReplayBuffer, feature_arrays, make_replay_buffer, pack

FITTED = 0.9
"""Where the progress of a training is when the model is fitted; the report takes the rest."""

COMPARED = 10_000
"""Number of rows on which an exported model is compared with the original."""


@dataclass(frozen=True)
class Trained:
    """A fitted model with everything that is needed to evaluate and save it.

    Attributes
    ----------
    fit : Fit
        The model and its training history.
    graph, splits : Graph, sequence of Split
        The graph on which the model is evaluated, and one split of it for each replica.
    about : dict
        Describes the data in the model directory.
    replay : ReplayBuffer
        The replay buffer for later updates.
    encoders : FeatureEncoder, optional
        Turn the columns of a table into features.
    ids : sequence, optional
        The ids of the nodes. A report is written only where they are given.
    """

    fit: Fit
    graph: Graph
    splits: Sequence[Split]
    about: dict[str, Any]
    replay: ReplayBuffer
    encoders: FeatureEncoder | None = None
    ids: Sequence[Any] | None = None


class Source(Protocol):
    """Data that a model can be trained on."""

    resume_rule: str
    """What must be unchanged to resume a training."""

    unit: str
    """What a checkpoint counts, such as epochs."""

    def open(self, out: Path, options: Options, callback: Callback) -> Keeper:
        """Check and read the data; return the checkpoint of this training."""

    def train(self, options: Options, checkpoint: Keeper, callback: Callback) -> Trained:
        """Fit a model, starting from the checkpoint where it has a state."""


def train(
    source: Tables | Source,
    out: Path,
    options: Options,
    *,
    resume: bool = False,
    force: bool = False,
    callback: Callback | None = None,
    tsne: bool | None = None,
) -> Saved:
    """Train a model, save it, evaluate it and add a report and an ONNX file.

    The model is saved before it is evaluated. If the report or the ONNX file fails, the callback
    receives a warning and the model directory stays complete without it.

    Parameters
    ----------
    source : Tables or Source
        The data.
    out : Path
        The model directory. The model of another training there is replaced only with `force`.
    options : Options
        How to train.
    resume : bool
        Whether to continue an interrupted training of the same data and options.
    force : bool
        Whether to replace any model that is in the directory.
    callback : Callback, optional
        Receives progress and messages.
    tsne : bool, optional
        Whether the report has a t-SNE map of the hidden layer; by default up to 50,000 nodes.

    Returns
    -------
    Saved
        The content of the model directory.
    """
    callback = callback or Callback()
    check_target(out)
    options.check()
    source = read_tables(source, callback) if isinstance(source, Tables) else source
    checkpoint = source.open(out, options, callback)
    check_replaced(out, checkpoint.training, force)
    if not resume:
        checkpoint.remove()
    elif (epochs := checkpoint.epochs()) is None:
        callback.note(
            "There is no checkpoint of this training to resume from: it must have the same "
            f"{source.resume_rule}. Training starts from the beginning."
        )
    else:
        callback.note(f"The training resumes after {epochs} {source.unit}.")
    trained = source.train(options, checkpoint, callback)
    saved = describe(trained, options)
    saved = replace(saved, about={**saved.about, "training": checkpoint.training})
    save_model(out, saved)
    checkpoint.remove()
    saved = with_report(saved, trained, out.resolve().name, callback, tsne)
    save_model(out, saved)
    return saved


def describe(trained: Trained, options: Options) -> Saved:
    """The content of a model directory, without report and ONNX file."""
    about = {
        **trained.about,
        "method": options.method,
        "seed": options.seed,
        "epochs": trained.fit.epochs,
        "seconds": round(trained.fit.seconds, 1),
        "date": datetime.now(UTC).date().isoformat(),
    }
    if trained.fit.estimates is not None:
        about["estimates"] = trained.fit.estimates.as_json()
    if decision := trained.fit.decision.as_json():
        about["decision"] = decision
    return Saved(trained.fit.model, trained.encoders, about, pack(trained.replay))


def with_report(
    saved: Saved, trained: Trained, name: str, callback: Callback, tsne: bool | None = None
) -> Saved:
    """Add scores, a report and an ONNX file; a failure of one of them is only a warning."""
    graph, splits, result = trained.graph, trained.splits, trained.fit
    try:
        if trained.ids is None:
            validation = evaluate_validation(graph, splits, result)
            saved = replace(saved, about={**saved.about, **scores_of(validation)})
        else:
            metrics = compute_metrics(graph, splits, result, trained.ids, map=tsne)
            about = {**saved.about, **scores_of(metrics.validation)}
            page = render_report(name, metrics, about)
            saved = replace(saved, about=about, report_html=page)
    except Exception as error:  # anything that scikit-learn or a chart may raise
        callback.note(f"Warning: the model is saved, but its report could not be written: {error}")
    try:
        saved = with_onnx(saved)
    except Exception as error:  # anything that ONNX may raise
        callback.note(f"Warning: the model is saved, but not as ONNX: {error}")
    callback.progress(SCALE, SCALE)
    return saved


@dataclass
class GraphSource:
    """A graph in memory.

    Attributes
    ----------
    graph : Graph
        The graph.
    ids : sequence, optional
        The ids of the nodes, for the report; by default their row numbers.
    about : dict
        Describes the data in the model directory.
    encoders : FeatureEncoder, optional
        Turn the columns of a table into the features.
    """

    graph: Graph
    ids: Sequence[Any] | None = None
    about: dict[str, Any] = field(default_factory=dict)
    encoders: FeatureEncoder | None = None
    resume_rule = "data and options"
    unit = "epochs"

    def open(self, out: Path, options: Options, callback: Callback) -> Keeper:
        """Return the checkpoint next to the model directory, for exactly these data and options."""
        return checkpoint_beside(out, digest_of(self.graph, asdict(options)))

    def train(self, options: Options, checkpoint: Keeper | None, callback: Callback) -> Trained:
        """Fit a model to the graph."""
        options.check_graph(self.graph)
        graph, splits, hyper = (
            self.graph,
            options.splits(self.graph.labels),
            options.hyperparameters,
        )
        for warning in limits(graph, splits[0].train):
            callback.note(f"Warning: {warning}")
        callback.stage("training")
        result = fit(
            graph,
            splits,
            method=options.method,
            seeds=list(options.seeds),
            epochs=options.epochs,
            device=options.device,
            progress=part_of(callback.progress, 0, FITTED),
            checkpoint=checkpoint,
            baselines=True,
            budget=options.budget,
            held_out=options.held_out,
            loss=options.loss,
            metric=options.metric,
            class_weight=options.class_factors(graph),
            hold_out_graphs=options.hold_out_graphs,
            **asdict(hyper) | {"batch_size": hyper.batch},
        )
        about = {"data": describe_data(graph, f"{len(graph.links)} links"), **self.about}
        ids = range(graph.n) if self.ids is None else self.ids
        replay = make_replay_buffer(graph, splits, options.seed)
        return Trained(result, graph, splits, about, replay, self.encoders, ids)


def summarise_tables(tables: Tables, callback: Callback) -> Summary:
    """Read the tables as a training does, and return what was understood of them."""
    nodes, graph, report = read_graph(tables, callback)
    return summarise(tables, nodes, report, graph.links)


def read_tables(tables: Tables, callback: Callback) -> GraphSource:
    """Read the tables, and report what was understood of them."""
    nodes, graph, report = read_graph(tables, callback)
    callback.summary(summarise(tables, nodes, report, graph.links))
    about = {role: getattr(tables, role) for role in (*ROLES, *LINK_ROLES)} | {"task": nodes.task}
    if written := nodes.label_format.state():
        about["label_format"] = written
    if report.ends is not None:
        # A later table may have its columns in another order, which would turn the links round.
        about["source"], about["target"] = report.ends
    about["relations"] = graph.relations
    about["data"] = describe_data(graph, str(replace(report, hints=())))
    return GraphSource(graph, nodes.ids, about, nodes.encoders)


def export(
    saved: Saved, path: Path, *, with_neighbour_head: bool = False, rows: Path | None = None
) -> tuple[int, float]:
    """Write a model as ONNX after comparing both on a table, or on the model's replay buffer.

    Returns
    -------
    int, float
        Number of rows on which they were compared, and the largest difference.
    """
    if rows is not None:
        column, encoders = table_columns(saved)
        _, features = next(node_batches(open_table(rows), column, encoders, COMPARED), (None, None))
        if features is None:
            raise TableError(f"{rows}: the table has no rows.")
    elif saved.replay is not None:
        features = saved.replay_buffer().graph.features[:COMPARED]
    else:
        raise ModelError("the model has no replay buffer to compare on; name a table of rows.")
    difference = export_onnx(saved, path, with_neighbour_head=with_neighbour_head, rows=features)
    return features.shape[0], difference


def read_graph(
    tables: Tables, callback: Callback, saved: Saved | None = None
) -> tuple[Nodes, Graph, LinkReport]:
    """Read the tables; for an update, with the columns, classes and relations of a model."""
    each = trained_link_tables(tables, None if saved is None else saved.about)
    callback.stage("reading nodes")
    nodes = read_nodes(
        tables.nodes,
        tables.id,
        tables.label,
        kinds=tables.kinds,
        features=tables.features,
        encoders=None if saved is None else saved.encoders,
        progress=callback.progress,
        unknown=tables.unknown,
        more_labels=tables.labels,
        text_encoder=tables.text_encoder,
        task=tables.task,
        graph=tables.graph,
        label_format=None if saved is None else LabelFormat.of(saved.about, saved.model.classes),
    )
    check_known_classes(nodes.label_format.columns[0], nodes.unknown_labels)
    callback.stage("reading links")
    relations = None if saved is None else trained_relations(saved.about)

    def read(own: Tables, ids: pa.Array) -> tuple[Links, LinkReport]:
        return links_of(own, ids, relations)

    links, report = read_each(each, nodes.ids, read)
    graph = Graph.build(
        nodes.features,
        links.with_own_loops(len(nodes.labels)),
        nodes.labels,
        nodes.classes,
        task=nodes.task,
        groups=nodes.groups,
    )
    return nodes, graph, report


def digest_of(graph: Graph, options: object) -> str:
    """A digest of the data and options of a training."""
    digest = hashlib.sha256(json.dumps(options).encode())
    parts = [*feature_arrays(graph.features).values(), graph.links, graph.labels]
    for part in parts if graph.groups is None else [*parts, graph.groups]:
        digest.update(np.ascontiguousarray(part).data)
    if graph.heads != LINKS:
        digest.update(json.dumps(graph.heads).encode())
    for more in (graph.link_relation, graph.link_weights):
        if more is not None:
            digest.update(np.ascontiguousarray(more).data)
    return digest.hexdigest()


def describe_data(graph: Graph, links: str) -> dict[str, Any]:
    """Number of nodes, labels of each class and links, for the model card."""
    known = graph.labels[known_labels(graph.labels)]
    if graph.task == "regression":
        counts = [len(known)]
    elif graph.task == "multilabel":
        counts = known.sum(axis=0).tolist()
    else:
        counts = np.bincount(known, minlength=graph.C).tolist()
    labels = dict(zip(graph.classes, counts, strict=True))
    return {"nodes": graph.n, "labels": labels, "links": links}


def scores_of(validation: ValidationMetrics | TaskValidation | None) -> dict[str, Any]:
    """The validation metrics that a model directory keeps."""
    return {} if validation is None else validation.stored()
