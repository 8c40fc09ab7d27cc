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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.data.splits import HELD_OUT, Split, View, held_out, observe
from linkdist.errors import GraphError, OptionError
from linkdist.nn.inputs import Inputs
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
STUDENTS = 0.6
"""The share of a time budget for the students; teachers and scores need the rest."""


@dataclass(frozen=True)
class PanelOptions:
    """Options of SelfLinkDist; see `linkdist.fit`."""

    setting: str
    seeds: tuple[int, ...]
    epochs: int | None = None
    teachers: tuple[Any, ...] = ()
    folds: bool = True
    baselines: bool = False
    budget: float | None = None
    held_out: float | None = None
    hyper: Hyperparameters = field(default_factory=Hyperparameters)


def fit_panel(
    graph: Graph, splits: Sequence[Split], inputs: Inputs, run: TrainingRun, options: PanelOptions
) -> tuple[Panel, Estimates | None]:
    """Select the validation nodes, train, and estimate the accuracy."""
    started = time.perf_counter()
    for split in splits:
        classes = np.unique(graph.labels[split.train])
        if len(classes) < 2:
            found = f"{len(split.train)} labelled rows of {len(classes)} class(es)"
            raise GraphError(
                f"training needs labels of more than one class; found {found}. Label more rows."
            )
    given = [split for split in splits if len(split.validation)]
    replicas = _replicas(graph, splits, len(given) == len(splits), options)
    nodes = len(replicas[-1].view.nodes)
    folds = any(replica.kind != "kept" for replica in replicas)
    cycles: Sequence[int] = (
        (options.epochs,) if options.epochs else cycles_for(nodes, folds, options.hyper.batch)
    )
    baselines = options.baselines
    if options.budget is not None:
        visit = seconds_per_visit(graph, replicas[-1], inputs, hyper=options.hyper)
        replicas, cycles = within(options.budget * STUDENTS, visit, replicas, cycles)
    panel = train_panel(
        graph,
        replicas,
        inputs,
        run,
        cycles=cycles,
        teachers=options.teachers,
        splits=splits if given else (),
        hyper=options.hyper,
    )
    if options.budget is not None:
        left = options.budget - (time.perf_counter() - started)
        baselines = baselines and left > options.budget / 3
    return panel, _estimates(graph, splits, panel, baselines)


def _replicas(
    graph: Graph, splits: Sequence[Split], validation: bool, options: PanelOptions
) -> list[Replica]:
    if validation:
        return validation_replicas(graph, splits, options.setting, options.seeds)
    if any(split is not splits[0] for split in splits):
        raise OptionError(
            "without validation nodes, all replicas must have the same split: folds of its "
            "training labels validate them. Train the splits one by one, or give validation nodes."
        )
    if options.held_out:
        return held_out_replicas(graph, splits[0], options.setting, options.seeds, options.held_out)
    if options.folds and len(splits[0].train) > FEW:
        return held_out_replicas(graph, splits[0], options.setting, options.seeds)
    return fold_replicas(graph, splits[0], options.setting, options.seeds, options.folds)


def _estimates(
    graph: Graph, splits: Sequence[Split], panel: Panel, baselines: bool
) -> Estimates | None:
    ensemble = panel.ensemble
    if ensemble is None or not ensemble.scored:
        return None
    found = {kind: dict(by_name) for kind, by_name in panel.predictions.items()}
    new = found["new row" if "new row" in found else "validation"]
    new[LARGEST] = largest_class(ensemble)
    if baselines:
        new |= colinkdist(ensemble)
    first = ensemble.replicas[ensemble.scored[0]]
    seen = bool(np.isin(first.validation, first.view.nodes).all())
    nodes = np.concatenate([ensemble.replicas[place].validation for place in ensemble.scored])
    warnings = limits(graph, splits[0].train)
    rows = "rows of the table" if seen else "new rows"
    return estimate(found, panel.mixture, warnings, len(np.unique(nodes)), rows)


def seconds_per_visit(
    graph: Graph,
    replica: Replica,
    inputs: Inputs,
    steps: int = 5,
    hyper: Hyperparameters | None = None,
) -> float:
    """The time a student needs to visit each node once, measured on a few steps."""
    hyper = hyper or Hyperparameters()
    network = hyper.network(graph.d, graph.C, [0], inputs.device)
    even = torch.full((1, graph.n, graph.C), 1 / graph.C, device=inputs.device)
    loop = loop_on_targets(network, inputs, [replica.view], [0], even, 1, hyper.batch)
    loop.run(min(1.0, 2 / loop.steps))  # exclude compilation and first allocations
    steps = min(steps, loop.steps)
    started = time.perf_counter()
    loop.run(steps / loop.steps)
    if inputs.device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / steps * loop.steps


def within(
    seconds: float, visit: float, replicas: list[Replica], cycles: Sequence[int]
) -> tuple[list[Replica], Sequence[int]]:
    """The replicas and cycles that fit into a time budget.

    First the schedule is shortened; then the folds for rows of the table are omitted, then all
    folds.

    Examples
    --------
    >>> within(100.0, 0.1, [], (30, 60))[1]
    (30, 60)
    """
    folds = any(replica.kind != "kept" for replica in replicas)
    planned = cycles[:1] if folds else cycles
    for kinds in (("new row", "known row", "kept"), ("new row", "kept"), ("kept",)):
        some = [replica for replica in replicas if replica.kind in kinds]
        visits = int(seconds / max(visit * max(len(some), 1), 1e-9))
        if visits >= sum(planned):
            return renumbered(some), planned
        if visits >= FEWEST_VISITS or kinds == ("kept",):
            return renumbered(some), (max(1, min(visits, planned[0])),)
    raise AssertionError("one of the three fits")


def renumbered(replicas: list[Replica]) -> list[Replica]:
    """Correct the references between replicas after some were omitted."""
    if not replicas or any(replica.kind == "new row" for replica in replicas):
        first = [r for r, replica in enumerate(replicas) if replica.kind == "kept"]
        return [
            replace(replica, taught_by=first[0])
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
    found = []
    for place, (split, seed) in enumerate(zip(splits, seeds, strict=True)):
        view = observe(graph, split, setting)
        present = np.union1d(view.nodes, split.validation)
        found.append(Replica(view, split.validation, present, seed, place, (place,), "kept"))
    return found


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
    parts = stratified(graph.labels[split.train], FOLDS, seeds[0])
    count = int(parts.max(initial=-1)) + 1 if folds and len(split.train) >= FEWEST else 0
    everyone = tuple(range(count))
    hidden, known = [], []
    for k in everyone:
        validation = split.train[parts == k]
        others = tuple(j for j in everyone if j != k)
        labels = whole.labels.copy()
        labels[validation] = UNKNOWN
        view, seed = replace(whole, labels=labels), seeds[0] + k
        known.append(Replica(view, validation, whole.nodes, seed, k, others, "known row"))
        hidden.append(replace(known[-1], view=_without(view, validation), kind="new row"))
    none = np.array([], dtype=np.int64)
    kept = [Replica(whole, none, whole.nodes, seed, 0, everyone, "kept") for seed in seeds]
    found = [*hidden, *known, *kept]
    first = len(found) - len(kept)
    return [replace(r, taught_by=first) if r.kind == "kept" else r for r in found]


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
    hidden = stratified(graph.labels[aside], 2, seeds[0]) == 0
    labels = whole.labels.copy()
    labels[aside] = UNKNOWN
    view = _without(replace(whole, labels=labels), aside[hidden])
    return [
        Replica(
            view, aside[hidden], whole.nodes, seed, place, (place,), "kept", known=aside[~hidden]
        )
        for place, seed in enumerate(seeds)
    ]


def stratified(labels: IntArray, folds: int, seed: int) -> IntArray:
    """The fold of each label: stratified by class, with folds of similar size.

    Examples
    --------
    >>> np.bincount(stratified(np.array([0, 0, 0, 1, 1, 1, 2]), 3, seed=0))
    array([3, 2, 2])
    """
    random, found, place = np.random.default_rng(seed), np.zeros(len(labels), dtype=np.int64), 0
    for c in np.unique(labels):
        mine = random.permutation(np.flatnonzero(labels == c))
        found[mine] = (place + np.arange(len(mine))) % folds
        place += len(mine)
    return found


def _without(view: View, hidden: IntArray) -> View:
    """A view without some nodes and their links."""
    there = np.zeros(len(view.labels), dtype=bool)
    there[view.nodes] = True
    there[hidden] = False
    edges = view.edges[there[view.edges].all(axis=1)]
    return replace(view, nodes=np.flatnonzero(there), edges=edges)
