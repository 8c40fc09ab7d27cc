"""Metrics of a model that predicts numbers or several labels, for its report and model card.

They are the sibling of `linkdist.report.metrics`, which is about classes. Everything is measured on
predictions of validation nodes by networks that have not seen their labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import Graph, known_labels
from linkdist.nn.inputs import Inputs
from linkdist.report.held_out import chosen_scores, held_out_predictions
from linkdist.report.hidden_map import HiddenMap, map_nodes
from linkdist.report.link_correlation import link_correlation
from linkdist.report.map_groups import Groups, label_groups, number_groups
from linkdist.report.score_text import MODES
from linkdist.report.task_evaluation import (
    MultilabelEvaluation,
    MultilabelEvaluator,
    RegressionEvaluation,
    RegressionEvaluator,
)
from linkdist.training.decisions import conformal_width
from linkdist.training.fit import Fit
from linkdist.training.measures import MEASURES, TITLES, Array
from linkdist.training.panel.decision import COVERAGE, PARTS
from linkdist.training.panel.estimates import FOLDED, Estimates, RelationWorth


class NumberMode(NamedTuple):
    """Predicted numbers of one mode.

    Attributes
    ----------
    scores : RegressionEvaluation
        R², errors, and the coverage of prediction intervals.
    truth, predicted : (N,) arrays
        The numbers of validation nodes.
    width : float or None
        Half the width of the prediction intervals; None if there are too few nodes for them.
    """

    scores: RegressionEvaluation
    truth: Array
    predicted: Array
    width: float | None


class TaskValidation(NamedTuple):
    """Metrics on validation nodes.

    Attributes
    ----------
    nodes : int
        Number of different validation nodes.
    numbers, labels : mappings
        For each mode: those of numbers, or the scores of several labels. One of them is empty.
    chosen : mapping of str to float
        Scores of the measure that the model was chosen by.
    """

    nodes: int
    numbers: Mapping[str, NumberMode]
    labels: Mapping[str, MultilabelEvaluation]
    chosen: Mapping[str, float]

    def stored(self) -> dict[str, Any]:
        """What a model directory keeps of them."""
        found: dict[str, float] = {}
        for mode, one in self.numbers.items():
            found[f"{TITLES['r2']} {MODES[mode]}"] = one.scores.r2
            found[f"{TITLES['mae']} {MODES[mode]}"] = one.scores.mae
        for mode, scores in self.labels.items():
            found[f"{TITLES['micro-f1']} {MODES[mode]}"] = scores.micro_f1
            found[f"{TITLES['macro-f1']} {MODES[mode]}"] = scores.macro_f1
        return {"scores": {"validation nodes": self.nodes, **rounded({**found, **self.chosen})}}


def rounded(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores with four digits, in any unit; those that are not defined are left out.

    Examples
    --------
    >>> rounded({"R²": 0.123456, "mean absolute error": 12345.67, "ROC AUC": float("nan")})
    {'R²': 0.1235, 'mean absolute error': 12350.0}
    """
    return {name: float(f"{value:.4g}") for name, value in scores.items() if np.isfinite(value)}


@dataclass(frozen=True)
class TaskMetrics:
    """Everything that the report of such a model shows.

    Attributes
    ----------
    task : {'regression', 'multilabel'}
        What is predicted.
    classes : tuple of str
        The name of the number, or names of the C labels.
    nodes, labelled, links : int
        Number of nodes, of those with known labels, and of links between different nodes.
    replicas : int
        Number of replicas.
    validation : TaskValidation or None
        None without validation nodes.
    joined : int
        Number of links with known labels at both ends.
    correlation : (C,) array
        The correlation of these labels; see `link_correlation`.
    positives : (C,) int array
        For several labels, the number of nodes with each; empty for numbers.
    map : HiddenMap or None
        None if the map is switched off.
    groups : tuple of str
        Names of the groups of nodes on the map.
    estimates : Estimates, optional
        Estimated scores.
    relations : sequence of RelationWorth
        α and worth of each of several relations.
    """

    task: str
    classes: tuple[str, ...]
    nodes: int
    labelled: int
    links: int
    replicas: int
    validation: TaskValidation | None
    joined: int
    correlation: npt.NDArray[np.float64]
    positives: npt.NDArray[np.int64]
    map: HiddenMap | None = None
    groups: tuple[str, ...] = ()
    estimates: Estimates | None = None
    relations: Sequence[RelationWorth] = ()


def compute_task_metrics(
    graph: Graph, result: Fit, relations: Sequence[RelationWorth] = ()
) -> TaskMetrics:
    """Compute the metrics of a model without the map.

    Parameters
    ----------
    graph : Graph
        The training graph.
    result : Fit
        The result of `linkdist.fit`.
    relations : sequence of RelationWorth, optional
        What each relation is worth.
    """
    known = known_labels(graph.labels)
    joined, correlation = link_correlation(graph.links, graph.labels)
    several = graph.task == "multilabel"
    return TaskMetrics(
        graph.task,
        graph.classes,
        graph.n,
        int(known.sum()),
        int((graph.links[:, 0] != graph.links[:, 1]).sum()),
        len(result.model.alpha),
        validate_task(graph, result),
        joined,
        correlation,
        graph.labels[known].sum(axis=0) if several else np.zeros(0, dtype=np.int64),
        estimates=result.estimates,
        relations=relations,
    )


def validate_task(graph: Graph, result: Fit) -> TaskValidation | None:
    """Compute only the validation metrics of a model; None without validation nodes."""
    found = held_out_predictions(result, graph.task)
    if not found or result.estimates is None:
        return None
    decision = result.decision
    chosen = chosen_scores(result.estimates)
    nodes = result.estimates.labels
    # As in the estimates, so that the page does not have two intervals of one score.
    effective = nodes * (FOLDED if result.estimates.by == "folds" else 1.0)
    if graph.task == "regression":
        widths = decision.widths or {}
        numbers = {
            mode: evaluate_numbers(held.values[:, 0], held.labels, widths.get(mode), effective)
            for mode, held in found.items()
        }
        return TaskValidation(nodes, numbers, {}, chosen)
    thresholds = decision.thresholds or {}
    labels = {
        mode: evaluate_labels(held.values, held.labels, graph.classes, thresholds.get(mode))
        for mode, held in found.items()
    }
    return TaskValidation(nodes, {}, labels, chosen)


def evaluate_numbers(
    predicted: Array, truth: Array, width: float | None, effective: float | None = None
) -> NumberMode:
    """Compare predicted numbers (N,) with the truth (N,).

    The coverage of intervals is measured on other nodes than their width: the nodes are divided
    into five parts, and the width for a part comes from the other four.

    Parameters
    ----------
    predicted, truth : (N,) arrays
        The numbers.
    width : float or None
        Half the width of the model's prediction intervals.
    effective : float, optional
        The effective number of nodes for the intervals of scores.

    Examples
    --------
    >>> truth = np.arange(40.0)
    >>> found = evaluate_numbers(truth + np.tile([1.0, -1.0], 20), truth, 1.0)
    >>> found.scores.mae, found.scores.coverage, found.scores.width
    (1.0, 1.0, 2.0)
    """
    evaluator = RegressionEvaluator(COVERAGE)
    finite = width is not None and bool(np.isfinite(width))
    half = np.full(len(truth), np.inf)
    if finite:
        part = np.random.default_rng(0).permutation(len(truth)) % PARTS
        for k in range(PARTS):
            half[part == k] = conformal_width((truth - predicted)[part != k], COVERAGE)
    if np.isfinite(half).all():
        evaluator.add(truth, predicted, predicted - half, predicted + half)
    else:
        evaluator.add(truth, predicted)
    r2, mae = MEASURES["regression"]
    values = predicted[:, None]
    scores = replace(
        evaluator.result(effective),
        r2_interval=r2.interval(values, truth, effective),
        mae_interval=mae.interval(values, truth, effective),
    )
    return NumberMode(scores, truth, predicted, width if finite else None)


def evaluate_labels(
    p: Array, truth: npt.NDArray[np.int64], names: Sequence[str], thresholds: Sequence[float] | None
) -> MultilabelEvaluation:
    """Compare label probabilities (N, C), decided at 0.5, with the truth (N, C).

    The thresholds that the result shows are those of the model.

    Examples
    --------
    >>> p, truth = np.array([[0.9, 0.2], [0.4, 0.6]]), np.array([[1, 0], [1, 1]])
    >>> found = evaluate_labels(p, truth, ["even", "loop"], [0.3, 0.7])
    >>> [(one.threshold, one.recall) for one in found.labels]
    [(0.3, 0.5), (0.7, 1.0)]
    """
    evaluator = MultilabelEvaluator(names)
    evaluator.add(truth, p)
    found = evaluator.result()
    if thresholds is None:
        return found
    labels = zip(found.labels, thresholds, strict=True)
    return replace(found, labels=tuple(replace(one, threshold=t) for one, t in labels))


def with_map(
    metrics: TaskMetrics, graph: Graph, result: Fit, inputs: Inputs, p: Array, ids: Sequence[Any]
) -> TaskMetrics:
    """The metrics with a map of the hidden layer, coloured by known or predicted labels."""
    known = known_labels(graph.labels)
    groups = _groups(graph, result, p, known)
    network = result.model.network
    found = map_nodes(network, inputs, ids, groups.of_node, known)._replace(ordered=groups.ordered)
    return replace(metrics, map=found, groups=groups.names)


def _groups(graph: Graph, result: Fit, p: Array, known: npt.NDArray[np.bool_]) -> Groups:
    if graph.task == "regression":
        return number_groups(np.where(known, graph.labels, p[:, 0]))
    thresholds = (result.decision.thresholds or {}).get("features", 0.5)
    present = np.where(known[:, None], graph.labels == 1, p >= np.asarray(thresholds))
    return label_groups(present, graph.classes)
