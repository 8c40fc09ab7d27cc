"""SelfLinkDist for `fit`: select validation nodes, train the panel, estimate its accuracy.

A replica sees a view and learns from its labels. Its validation nodes are labelled nodes that are
not in its view, or whose labels it does not know. They are

- the validation nodes of its split, if there are any;
- otherwise, with few labels, a fold of the training labels. Each label is held out twice: once from
  a replica that does not see its node at all ('new row'), and once from a replica that sees the
  node without its label ('known row'). The last replicas, which are kept, learn from all labels and
  have no validation nodes;
- otherwise a tenth of the training labels: half of these nodes are hidden and are validation nodes,
  the other half stay in the view without their labels.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.data.splits import HELD_OUT, Split, View, held_out, observe
from linkdist.errors import GraphError, OptionError
from linkdist.nn.inputs import Inputs
from linkdist.progress import Progress, part_of
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.link_task import loop_on_targets
from linkdist.training.loop import Hyperparameters
from linkdist.training.panel.ensemble import Replica
from linkdist.training.panel.estimates import (
    LARGEST,
    Estimates,
    colinkdist,
    estimate,
    largest_class,
    limits,
)
from linkdist.training.panel.learning import Panel, cycles_for, train_panel

FOLDS = 5
"""Number of folds."""
FEWEST = 4
"""Minimum number of labels for folds."""
FEW = 1000
"""Maximum number of labels for folds; with more, a share of them is held out."""
FEWEST_VISITS = 5
"""Number of visits below which folds are omitted to keep a time budget."""
MEASURED_STEPS = 5
"""Number of steps that measure the time of a visit."""
STUDENTS = 0.6
"""The share of a time budget for the students; teachers and scores need the rest."""
TEACHING, LEARNING = 0.15, 0.85
"""Where progress is when the teachers and the students have learned; baselines take the rest."""


def fit_panel(
    graph: Graph,
    splits: Sequence[Split],
    setting: str,
    seeds: Sequence[int],
    inputs: Inputs,
    run: TrainingRun,
    hyper: Hyperparameters,
    epochs: int | None = None,
    *,
    teachers: Sequence[Any] = (),
    baselines: bool = False,
    budget: float | None = None,
    held_out: float | None = None,
) -> tuple[Panel, Estimates | None]:
    """Select the validation nodes, train, and estimate the accuracy; see `linkdist.fit`."""
    started = time.perf_counter()
    for split in splits:
        classes = np.unique(graph.labels[split.train])
        if len(classes) < 2:
            raise GraphError(
                "training needs labels of more than one class; found "
                f"{len(split.train)} labelled rows of {len(classes)} class(es). Label more rows."
            )
    replicas = _replicas(graph, splits, setting, seeds, held_out)
    folds = any(replica.kind != "kept" for replica in replicas)
    cycles: Sequence[int] = (
        (epochs,) if epochs else cycles_for(len(replicas[-1].view.nodes), folds, hyper.batch)
    )
    if budget is not None:
        visit = _seconds_per_visit(graph, replicas[-1], inputs, hyper)
        replicas, cycles = within_budget(budget * STUDENTS, visit, replicas, cycles)
    scored = splits if any(len(split.validation) for split in splits) else ()
    progress, end = run.progress, LEARNING if baselines else 1.0
    run.progress = part_of(progress, TEACHING, end)
    if run.done:
        run.progress(run.done, sum(cycles))
    else:
        part_of(progress, 0, TEACHING)(0, 1)
    panel = train_panel(
        graph, replicas, inputs, run, cycles=cycles, teachers=teachers, splits=scored, hyper=hyper
    )
    if budget is not None and time.perf_counter() - started >= budget * 2 / 3:
        baselines = False
    estimates = _estimates(graph, splits, panel, baselines, part_of(progress, end, 1.0))
    part_of(progress, end, 1.0)(1, 1)
    return panel, estimates


def _replicas(
    graph: Graph, splits: Sequence[Split], setting: str, seeds: Sequence[int], share: float | None
) -> list[Replica]:
    """The replicas with the validation nodes of the splits, or of the training labels."""
    if all(len(split.validation) for split in splits):
        return validation_replicas(graph, splits, setting, seeds)
    split = splits[0]
    if any(other is not split for other in splits):
        raise OptionError(
            "without validation nodes, all replicas must have the same split: folds of its "
            "training labels validate them. Train the splits one by one, or give validation nodes."
        )
    folds = share is None
    if folds and len(split.train) > FEW:
        share = HELD_OUT
    if share:
        return held_out_replicas(graph, split, setting, seeds, share)
    return fold_replicas(graph, split, setting, seeds, folds)


def _estimates(
    graph: Graph, splits: Sequence[Split], panel: Panel, baselines: bool, progress: Progress
) -> Estimates | None:
    ensemble = panel.ensemble
    if not ensemble.scored:
        return None
    predictions = {kind: dict(by_name) for kind, by_name in panel.predictions.items()}
    new_rows = predictions["new row" if "new row" in predictions else "validation"]
    new_rows[LARGEST] = largest_class(ensemble)
    if baselines:
        new_rows |= colinkdist(ensemble, progress)
    replicas = [ensemble.replicas[r] for r in ensemble.scored]
    seen = np.isin(replicas[0].validation, replicas[0].view.nodes).all()
    nodes = np.unique(np.concatenate([replica.validation for replica in replicas]))
    rows = "rows of the table" if seen else "new rows"
    warnings = limits(graph, splits[0].train)
    return estimate(predictions, panel.mixture, warnings, len(nodes), rows)


def _seconds_per_visit(
    graph: Graph, replica: Replica, inputs: Inputs, hyper: Hyperparameters
) -> float:
    """The time a student needs to visit each node once, measured on a few steps."""
    network = hyper.network(graph.d, graph.C, [0], inputs.device)
    uniform = torch.full((1, graph.n, graph.C), 1 / graph.C, device=inputs.device)
    loop = loop_on_targets(network, inputs, [replica.view], [0], uniform, 1, hyper.batch)
    loop.run(min(1.0, 2 / loop.steps))  # exclude compilation and first allocations
    steps = min(MEASURED_STEPS, loop.steps)
    started = time.perf_counter()
    loop.run(steps / loop.steps)
    if inputs.device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / steps * loop.steps


def within_budget(
    seconds: float, visit: float, replicas: list[Replica], cycles: Sequence[int]
) -> tuple[list[Replica], Sequence[int]]:
    """The replicas and cycles that fit into a time budget, for the seconds of a visit.

    First the schedule is shortened; then the folds for rows of the table are omitted, then all
    folds.

    Examples
    --------
    >>> within_budget(100.0, 0.1, [], (30, 60))[1]
    (30, 60)
    """
    folds = any(replica.kind != "kept" for replica in replicas)
    planned = cycles[:1] if folds else cycles
    for omitted in ((), ("known row",), ("known row", "new row")):
        remaining = [replica for replica in replicas if replica.kind not in omitted]
        visits = int(seconds / max(visit * max(len(remaining), 1), 1e-9))
        if visits >= sum(planned):
            return renumbered(remaining), planned
        if visits >= FEWEST_VISITS:
            break
    return renumbered(remaining), (max(1, min(visits, planned[0])),)


def renumbered(replicas: list[Replica]) -> list[Replica]:
    """Correct the references between replicas after some were omitted."""
    kinds = [replica.kind for replica in replicas]
    if "new row" in kinds:
        kept = kinds.index("kept")
        return [
            replace(replica, taught_by=kept)
            if replica.kind == "kept" and not len(replica.validation)
            else replica
            for replica in replicas
        ]
    if any(len(replica.validation) for replica in replicas):
        return replicas
    return [replace(replica, taught_by=0, calibrated_by=()) for replica in replicas]


def validation_replicas(
    graph: Graph, splits: Sequence[Split], setting: str, seeds: Sequence[int]
) -> list[Replica]:
    """One replica for each split, with the validation nodes of the split.

    Examples
    --------
    >>> graph = Graph.build([[1.0], [2.0], [3.0]], [(0, 1), (1, 2)], [0, 1, 0])
    >>> split = Split(np.array([0, 1]), np.array([2]), np.array([], dtype=int))
    >>> validation_replicas(graph, [split], "inductive", [0])[0].present
    array([0, 1, 2])
    """
    replicas = []
    for r, (split, seed) in enumerate(zip(splits, seeds, strict=True)):
        view = observe(graph, split, setting)
        present = np.union1d(view.nodes, split.validation)
        replicas.append(Replica(view, split.validation, present, seed, r, (r,), "kept"))
    return replicas


def fold_replicas(
    graph: Graph, split: Split, setting: str, seeds: Sequence[int], folds: bool = True
) -> list[Replica]:
    """Replicas for each fold of the training labels, then one for each seed with all labels.

    Examples
    --------
    >>> graph = Graph.build(np.eye(6), [(0, 1), (2, 3)], [0, 1, 0, 1, 0, -1])
    >>> split = Split(np.arange(5), np.array([], dtype=int), np.array([], dtype=int))
    >>> [replica.kind for replica in fold_replicas(graph, split, "transductive", [0])]
    ['new row', 'new row', 'new row', 'new row', 'new row', 'known row', 'known row', 'known row', \
'known row', 'known row', 'kept']
    """
    whole = observe(graph, split, setting)
    fold_of_label = stratified(graph.labels[split.train], FOLDS, seeds[0])
    count = int(fold_of_label.max(initial=-1)) + 1 if folds and len(split.train) >= FEWEST else 0
    all_folds = tuple(range(count))
    new_rows, known_rows = [], []
    for k in all_folds:
        validation = split.train[fold_of_label == k]
        view = _without_labels(whole, validation)
        others = tuple(j for j in all_folds if j != k)
        known = Replica(view, validation, whole.nodes, seeds[0] + k, k, others, "known row")
        known_rows.append(known)
        new_rows.append(replace(known, view=_without_nodes(view, validation), kind="new row"))
    none = np.array([], dtype=np.int64)
    kept = [Replica(whole, none, whole.nodes, seed, 2 * count, all_folds, "kept") for seed in seeds]
    return [*new_rows, *known_rows, *kept]


def held_out_replicas(
    graph: Graph, split: Split, setting: str, seeds: Sequence[int], share: float = HELD_OUT
) -> list[Replica]:
    """One replica for each seed, with a share of the training labels as validation labels.

    Examples
    --------
    >>> graph = Graph.build(np.ones((40, 1)), [(0, 1)], np.arange(40) % 2)
    >>> split = Split(np.arange(40), np.array([], dtype=int), np.array([], dtype=int))
    >>> replica = held_out_replicas(graph, split, "transductive", [0])[0]
    >>> len(replica.view.train), len(replica.validation), len(replica.known)
    (36, 2, 2)
    >>> len(replica.view.nodes)
    38
    """
    whole = observe(graph, split, setting)
    aside = held_out(whole.labels, share, seeds[0]).validation
    half = stratified(graph.labels[aside], 2, seeds[0])
    hidden, known = aside[half == 0], aside[half == 1]
    view = _without_nodes(_without_labels(whole, aside), hidden)
    return [
        Replica(view, hidden, whole.nodes, seed, r, (r,), "kept", known)
        for r, seed in enumerate(seeds)
    ]


def stratified(labels: IntArray, folds: int, seed: int) -> IntArray:
    """The fold of each label: stratified by class, with folds of similar size.

    Examples
    --------
    >>> np.bincount(stratified(np.array([0, 0, 0, 1, 1, 1, 2]), 3, seed=0))
    array([3, 2, 2])
    """
    random = np.random.default_rng(seed)
    classes = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    order = [label for members in classes for label in random.permutation(members)]
    fold_of_label = np.empty(len(labels), dtype=np.int64)
    fold_of_label[order] = np.arange(len(labels)) % folds
    return fold_of_label


def _without_labels(view: View, nodes: IntArray) -> View:
    """A view that does not know the labels of some nodes."""
    labels = view.labels.copy()
    labels[nodes] = UNKNOWN
    return replace(view, labels=labels)


def _without_nodes(view: View, hidden: IntArray) -> View:
    """A view without some nodes and their links."""
    visible = np.zeros(len(view.labels), dtype=bool)
    visible[view.nodes] = True
    visible[hidden] = False
    edges = view.edges[visible[view.edges].all(axis=1)]
    return replace(view, nodes=np.flatnonzero(visible), edges=edges)
