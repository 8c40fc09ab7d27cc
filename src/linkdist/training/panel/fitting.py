"""SelfLinkDist for `fit`: select validation nodes, train the panel, estimate its accuracy.

The validation nodes are those of the splits; without any, they are folds of the training labels, or
a share of them if there are many labels.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from linkdist.data.graph import Graph
from linkdist.data.splits import Split
from linkdist.errors import GraphError, OptionError
from linkdist.nn.inputs import Inputs
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.hyperparameters import Hyperparameters
from linkdist.training.panel.baselines import LARGEST, colinkdist, largest_class
from linkdist.training.panel.estimates import Estimates, estimate, limits
from linkdist.training.panel.learning import Panel, cycles_for, train_panel
from linkdist.training.panel.replicas import (
    FEW,
    Replica,
    fold_replicas,
    held_out_replicas,
    validation_replicas,
)
from linkdist.training.targets import loop_on_targets

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
