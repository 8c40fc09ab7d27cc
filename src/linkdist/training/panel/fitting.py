"""What a call of `fit` asks of the panel, and what it gets.

Who judges follows from the splits: their validation nodes; where there are none, folds of the
training labels, or a share of them where labels are many.
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
from linkdist.training.hyperparameters import Hyperparameters
from linkdist.training.panel.baselines import LARGEST, colinkdist, largest_class
from linkdist.training.panel.estimates import Estimates, estimate, limits
from linkdist.training.panel.learning import Panel, cycles_for, train_panel
from linkdist.training.panel.replicas import FEW, Replica, folded, held, validated
from linkdist.training.stages import Course
from linkdist.training.targets import loop_on_targets

FEWEST_VISITS = 5
"""Visits below which folds are left out to keep within a budget."""
STUDENTS = 0.6
"""The share of a budget that is planned for the students; teachers and scores need the rest."""


@dataclass(frozen=True)
class Asked:
    """What a call of `fit` asks for; see there."""

    setting: str
    seeds: tuple[int, ...]
    epochs: int | None = None
    teachers: tuple[Any, ...] = ()
    judge: bool = True
    baselines: bool = False
    budget: float | None = None
    held_out: float | None = None
    hyper: Hyperparameters = field(default_factory=Hyperparameters)


def fit_panel(
    graph: Graph, splits: Sequence[Split], inputs: Inputs, course: Course, asked: Asked
) -> tuple[Panel, Estimates | None]:
    """Choose who judges, train, and put the estimates together."""
    started = time.perf_counter()
    for split in splits:
        classes = np.unique(graph.labels[split.train])
        if len(classes) < 2:
            found = f"{len(split.train)} labelled rows of {len(classes)} class(es)"
            raise GraphError(
                f"training needs labels of more than one class; found {found}. Label more rows."
            )
    given = [split for split in splits if len(split.validation)]
    replicas = _replicas(graph, splits, len(given) == len(splits), asked)
    nodes = len(replicas[-1].view.nodes)
    folds = any(replica.kind != "kept" for replica in replicas)
    cycles: Sequence[int] = (
        (asked.epochs,) if asked.epochs else cycles_for(nodes, folds, asked.hyper.batch)
    )
    baselines = asked.baselines
    if asked.budget is not None:
        visit = seconds_per_visit(graph, replicas[-1], inputs, hyper=asked.hyper)
        replicas, cycles = within(asked.budget * STUDENTS, visit, replicas, cycles)
    panel = train_panel(
        graph,
        replicas,
        inputs,
        course,
        cycles=cycles,
        teachers=asked.teachers,
        splits=splits if given else (),
        hyper=asked.hyper,
    )
    if asked.budget is not None:
        left = asked.budget - (time.perf_counter() - started)
        baselines = baselines and left > asked.budget / 3
    return panel, _estimates(graph, splits, panel, baselines)


def _replicas(
    graph: Graph, splits: Sequence[Split], validation: bool, asked: Asked
) -> list[Replica]:
    if validation:
        return validated(graph, splits, asked.setting, asked.seeds)
    if any(split is not splits[0] for split in splits):
        raise OptionError(
            "splits without validation nodes must be one split for all replicas: folds of its "
            "training labels judge them. Train the splits one by one, or give validation nodes."
        )
    if asked.held_out:
        return held(graph, splits[0], asked.setting, asked.seeds, asked.held_out)
    if asked.judge and len(splits[0].train) > FEW:
        return held(graph, splits[0], asked.setting, asked.seeds)
    return folded(graph, splits[0], asked.setting, asked.seeds, asked.judge)


def _estimates(
    graph: Graph, splits: Sequence[Split], panel: Panel, baselines: bool
) -> Estimates | None:
    faculty = panel.faculty
    if faculty is None or not faculty.judged:
        return None
    judged = {kind: dict(heard) for kind, heard in panel.judged.items()}
    new = judged["new row" if "new row" in judged else "validation"]
    new[LARGEST] = largest_class(faculty)
    if baselines:
        new |= colinkdist(faculty)
    first = faculty.replicas[faculty.judged[0]]
    seen = bool(np.isin(first.judges, first.view.nodes).all())
    nodes = np.concatenate([faculty.replicas[place].judges for place in faculty.judged])
    warnings = limits(graph, splits[0].train)
    rows = "rows of the table" if seen else "new rows"
    return estimate(judged, panel.mixture, warnings, len(np.unique(nodes)), rows)


def seconds_per_visit(
    graph: Graph,
    replica: Replica,
    inputs: Inputs,
    steps: int = 5,
    hyper: Hyperparameters | None = None,
) -> float:
    """How long a student takes to visit each node once, measured on a few steps."""
    hyper = hyper or Hyperparameters()
    network = hyper.network(graph.d, graph.C, [0], inputs.device)
    even = torch.full((1, graph.n, graph.C), 1 / graph.C, device=inputs.device)
    loop = loop_on_targets(network, inputs, [replica.view], [0], even, 1, hyper.batch)
    loop.run(min(1.0, 2 / loop.steps))  # what is compiled or allocated once does not count
    steps = min(steps, loop.steps)
    started = time.perf_counter()
    loop.run(steps / loop.steps)
    if inputs.device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / steps * loop.steps


def within(
    seconds: float, visit: float, replicas: list[Replica], cycles: Sequence[int]
) -> tuple[list[Replica], Sequence[int]]:
    """The replicas and cycles that fit into some seconds.

    First the schedule is shortened, then rows of the table go without a score, then all folds.

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
    """Replicas of which some were left out, their references in order again."""
    if not replicas or any(replica.kind == "new row" for replica in replicas):
        first = [r for r, replica in enumerate(replicas) if replica.kind == "kept"]
        return [
            replace(replica, taught_by=first[0])
            if replica.kind == "kept" and not len(replica.judges)
            else replica
            for replica in replicas
        ]
    if any(len(replica.judges) for replica in replicas):
        return replicas
    return [replace(replica, taught_by=0, trusts=()) for replica in replicas]
