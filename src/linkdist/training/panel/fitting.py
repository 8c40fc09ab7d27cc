"""SelfLinkDist for `fit`: select validation nodes, train the panel, estimate its accuracy."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from linkdist.data.graph import Graph
from linkdist.data.splits import HELD_OUT, Split
from linkdist.errors import GraphError, OptionError
from linkdist.model import reweighted, shifted
from linkdist.nn.inputs import Inputs
from linkdist.progress import Progress, part_of
from linkdist.tables.certainty import Certainty
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.link_task import loop_on_targets
from linkdist.training.loop import Hyperparameters
from linkdist.training.measures import Measure, measure_for
from linkdist.training.panel.baselines import colinkdist, largest_class
from linkdist.training.panel.decision import MODES, Decision, decide, decided, with_factors
from linkdist.training.panel.ensemble import Predictions, Replica, mostly_labelled
from linkdist.training.panel.estimates import SIMPLEST, Estimates, estimate, limits
from linkdist.training.panel.learning import Panel, cycles_for, train_panel
from linkdist.training.panel.likelihood import Array
from linkdist.training.panel.replicas import (
    fold_replicas,
    graph_replicas,
    held_out_replicas,
    renumbered,
    validation_replicas,
)

FEW = 1000
"""Maximum number of labels for folds; with more, a share of them is held out."""
FEW_NUMBERS = 2000
"""The same for regression: a tenth of the labels says less about numbers than about classes."""
RANKINGS = ("roc-auc", "average-precision")
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
    loss: str = "squared",
    metric: str | None = None,
    class_weight: Array | None = None,
    hold_out_graphs: bool = False,
) -> tuple[Panel, Estimates | None, Decision]:
    """Select the validation nodes, train, and estimate the accuracy; see `linkdist.fit`."""
    started = time.perf_counter()
    for split in splits:
        check_labels(graph, split)
    units = Units.of(graph, splits)
    graph = units.standardised(graph)
    measure = measure_for(graph.task, metric)
    if hold_out_graphs:
        replicas = graph_replicas(graph, splits[0], setting, seeds)
    else:
        replicas = replicas_for(graph, splits, setting, seeds, held_out)
    folds = any(replica.kind != "kept" for replica in replicas)
    # A student that knows most labels by heart ranks new rows and rows of other graphs badly.
    view = replicas[-1].view
    smooth = graph.task == "classification" and (metric is not None or hold_out_graphs)
    short = smooth and mostly_labelled(view)
    long, nodes = graph.task == "regression" or metric in RANKINGS, len(view.nodes)
    planned = cycles_for(nodes, folds or short, hyper.batch, long and not short)
    cycles: Sequence[int] = (epochs,) if epochs else planned
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
        graph,
        replicas,
        inputs,
        run,
        cycles=cycles,
        teachers=teachers,
        splits=scored,
        hyper=hyper,
        loss=loss,
        measure=None if metric is None else measure,
        smooth=smooth,
    )
    panel, decision = with_decision(units.restored(panel), measure, class_weight)
    if budget is not None and time.perf_counter() - started >= budget * 2 / 3:
        baselines = False
    kind = "rows of other graphs" if hold_out_graphs else None
    ends = part_of(progress, end, 1.0)
    chosen = class_weight is None  # given factors are applied already
    estimates = estimates_of(units, splits, panel, measure, baselines, ends, kind, chosen)
    ends(1, 1)
    return panel, estimates, decision


def with_decision(panel: Panel, measure: Measure, factors: Array | None) -> tuple[Panel, Decision]:
    """The panel with the factors of its decision applied, and the decision."""
    graph, family = panel.ensemble.graph, panel.ensemble.family
    new = panel.predictions.get("new row") or panel.predictions.get("validation")
    if new is None:
        decision = Decision(factors=None if factors is None else factors.tolist())
    else:
        decision = decide(graph.task, measure, family, new, factors)
    decision = replace(decision, certainty=_certainty(panel, new, decision.factors))
    if decision.factors is None:
        return panel, decision
    by = np.array(decision.factors)
    panel = replace(panel, model=reweighted(panel.model, by))
    if factors is None:  # the estimates choose the factors of each node without it
        return panel, decision
    predictions = {
        kind: {
            name: with_factors(part, by) if name in MODES else part
            for name, part in by_name.items()
        }
        for kind, by_name in panel.predictions.items()
    }
    return replace(panel, predictions=predictions), decision


def _certainty(
    panel: Panel,
    predictions: Mapping[str, Predictions] | None,
    factors: list[float] | None,
) -> Certainty | None:
    """The certainty of classes by predictions of validation nodes, as the model would return them.

    Several kept networks predict the mean of their probabilities; if they have the same validation
    nodes, it is taken here as well. Folds have one network for each node.
    """
    ensemble = panel.ensemble
    if predictions is None or ensemble.graph.task != "classification":
        return None
    parts = {mode: predictions[mode] for mode in MODES}
    if factors is not None:
        parts = {mode: with_factors(part, np.array(factors)) for mode, part in parts.items()}
    nodes = [replica.validation for replica in ensemble.replicas if len(replica.validation)]
    same = all(np.array_equal(nodes[0], other) for other in nodes)
    R, labels = len(nodes) if same else 1, parts["features"].labels
    p = {
        mode: np.exp(part.scores).reshape(R, -1, ensemble.graph.C).mean(axis=0)
        for mode, part in parts.items()
    }
    return Certainty.of(p, labels[: len(labels) // R])


def check_labels(graph: Graph, split: Split) -> None:
    """Raise a GraphError if the training labels do not differ."""
    labels = graph.labels[split.train]
    different = len(np.unique(labels, axis=0))
    if different >= 2:
        return
    if graph.task == "classification":
        raise GraphError(
            "training needs labels of more than one class; found "
            f"{len(split.train)} labelled rows of {different} class(es). Label more rows."
        )
    raise GraphError(
        f"training needs labels that differ; found {len(split.train)} labelled rows with "
        f"{different} different label(s). Label more rows."
    )


@dataclass(frozen=True)
class Units:
    """The mean and standard deviation of the numbers of a regression; 0 and 1 for other tasks."""

    centre: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, graph: Graph, splits: Sequence[Split]) -> Units:
        """The units of the training labels."""
        if graph.task != "regression":
            return cls()
        labels = graph.labels[np.concatenate([split.train for split in splits])]
        return cls(float(labels.mean()), float(labels.std()))

    def standardised(self, graph: Graph) -> Graph:
        """The graph with standardised labels."""
        if graph.task != "regression":
            return graph
        return replace(graph, labels=(graph.labels - self.centre) / self.scale)

    def restored(self, panel: Panel) -> Panel:
        """The panel with predictions in the units of the labels."""
        if panel.model.task != "regression":
            return panel
        predictions = {
            kind: {name: self.of_labels(part) for name, part in by_name.items()}
            for kind, by_name in panel.predictions.items()
        }
        model = shifted(panel.model, torch.tensor([self.centre]), self.scale)
        return replace(panel, model=model, predictions=predictions)

    def of_labels(self, predictions: Predictions) -> Predictions:
        """Predictions in the units of the labels."""
        if (self.centre, self.scale) == (0.0, 1.0):
            return predictions
        return Predictions(*(self.centre + self.scale * part for part in predictions))


def replicas_for(
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
    if folds and len(split.train) > (FEW_NUMBERS if graph.task == "regression" else FEW):
        share = HELD_OUT
    if share:
        return held_out_replicas(graph, split, setting, seeds, share)
    return fold_replicas(graph, split, setting, seeds, folds)


def estimates_of(
    units: Units,
    splits: Sequence[Split],
    panel: Panel,
    measure: Measure,
    baselines: bool,
    progress: Progress,
    kind: str | None,
    chosen: bool,
    warnings: Sequence[str] | None = None,
) -> Estimates | None:
    """The estimates of a panel; see `linkdist.training.panel.estimates`.

    Parameters
    ----------
    units : Units
        The units of the labels.
    splits : sequence of Split
        The splits of the kept replicas.
    panel : Panel
        The result of the training.
    measure : Measure
        What is estimated.
    baselines : bool
        Whether to train CoLinkDist as a baseline.
    progress : callable
        Receives the progress of the baseline.
    kind : str, optional
        What the validation nodes represent; by default it follows from the views.
    chosen : bool
        Whether the factors of classes were chosen instead of given.
    warnings : sequence of str, optional
        The limits of the scores; by default those of the graph.
    """
    ensemble = panel.ensemble
    graph, family = ensemble.graph, ensemble.family
    if not ensemble.scored:
        return None
    predictions = {kind: dict(by_name) for kind, by_name in panel.predictions.items()}
    new_rows = predictions["new row" if "new row" in predictions else "validation"]
    new_rows[SIMPLEST[graph.task]] = units.of_labels(largest_class(ensemble))
    if baselines:
        new_rows |= colinkdist(ensemble, progress)
    predictions = {
        kind: {
            name: decided(graph.task, measure, family, part)
            if chosen or name not in MODES
            else part
            for name, part in found.items()
        }
        for kind, found in predictions.items()
    }
    replicas = [ensemble.replicas[r] for r in ensemble.scored]
    seen = np.isin(replicas[0].validation, replicas[0].view.nodes).all()
    nodes = np.unique(np.concatenate([replica.validation for replica in replicas]))
    rows = kind or ("rows of the table" if seen else "new rows")
    if warnings is None:
        warnings = limits(graph, splits[0].train)
    alpha = dict(zip(graph.heads, panel.model.alpha.mean(0).tolist(), strict=True))
    return estimate(
        predictions,
        panel.mixture,
        warnings,
        len(nodes),
        rows,
        measure=measure,
        family=family,
        alpha=alpha if len(alpha) > 1 else None,
    )


def _seconds_per_visit(
    graph: Graph, replica: Replica, inputs: Inputs, hyper: Hyperparameters
) -> float:
    """The time a student needs to visit each node once, measured on a few steps."""
    network = hyper.network(graph.d, graph.C, [0], inputs.device, len(graph.heads))
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
