"""Metrics of a trained model, computed once for its report and its model card.

Accuracy, confusion matrix and calibration are measured on validation nodes. Each replica is
evaluated on its own validation nodes, because another replica may have trained on them. Statements
about all nodes use the mean probabilities of the replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.data.splits import Split
from linkdist.model import logits
from linkdist.nn.aggregation import relations_of
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.report.held_out import HeldOut, chosen_scores, held_out_predictions
from linkdist.report.hidden_map import Array, HiddenMap, map_hidden_layer
from linkdist.report.pair_counts import PairCounts, count_pairs, pair_sums
from linkdist.report.ranking import RankingMetrics, rank_rare_class
from linkdist.report.task_metrics import (
    TaskMetrics,
    TaskValidation,
    compute_task_metrics,
    rounded,
    validate_task,
    with_map,
)
from linkdist.training.fit import Fit
from linkdist.training.panel.estimates import Estimates, RelationWorth

BINS = 10
"""Number of equally wide confidence bins for calibration."""
MOST_STORED = 100
"""Largest number of classes for which a model directory keeps the confusion matrix."""
UNCERTAIN = 20
"""Number of least certain nodes that are listed."""
MAP_LIMIT = 50_000
"""Largest graph for which a map is drawn unless it is requested."""
CURVES = {"features": "features", "links": "mean"}
"""The curve of each prediction mode in the history of a training."""


class ClassScores(NamedTuple):
    """Scores of each class, (C,) arrays. A score with a denominator of 0 is 0."""

    precision: Array
    recall: Array
    f1: Array
    support: IntArray
    predicted: IntArray


class Reliability(NamedTuple):
    """Confidence and accuracy in each bin.

    Attributes
    ----------
    counts : (BINS,) int array
        Number of predictions in each bin.
    confidence, accuracy : (BINS,) arrays
        Mean confidence and accuracy; 0 in an empty bin.
    error : float
        Expected calibration error: the mean difference of the two, weighted by the counts.
    """

    counts: IntArray
    confidence: Array
    accuracy: Array
    error: float

    @property
    def mean_confidence(self) -> float:
        """The mean confidence of all predictions."""
        return float(np.average(self.confidence, weights=self.counts))


class ModeMetrics(NamedTuple):
    """Metrics of one prediction mode; rows of `confusion` are true classes.

    `ranking` is about the rarest class, where it is rare or one of two.
    """

    accuracy: float
    confusion: PairCounts
    scores: ClassScores
    reliability: Reliability
    ranking: RankingMetrics | None = None


class ValidationMetrics(NamedTuple):
    """Metrics on validation nodes.

    Attributes
    ----------
    nodes : int
        Number of different validation nodes of all replicas.
    curves : mapping of str to (evaluations, R) array
        Accuracy at each evaluation, for the modes 'features' and 'links'.
    best : (R,) int array
        Index of the evaluation whose weights each replica kept.
    modes : mapping of str to ModeMetrics
        Metrics of the kept weights. They count one prediction for each pair of a replica and one
        of its validation nodes.
    chosen : mapping of str to float, optional
        Scores of the measure that the model was chosen by, if it is not the accuracy.
    """

    nodes: int
    curves: Mapping[str, Array]
    best: IntArray
    modes: Mapping[str, ModeMetrics]
    chosen: Mapping[str, float] = MappingProxyType({})

    def stored(self) -> dict[str, Any]:
        """What a model directory keeps; curve and confusion matrix are those from features."""
        features, links = (self.modes[mode] for mode in CURVES)
        found: dict[str, Any] = {
            "scores": {
                "validation nodes": self.nodes,
                "accuracy from features": round(features.accuracy, 4),
                "accuracy with links": round(links.accuracy, 4),
                **rounded(self.chosen),
            },
        }
        if len(features.scores.support) <= MOST_STORED:
            found["confusion"] = features.confusion.tolist()
        if len(self.curves["features"]) > 2:
            found["curve"] = self.curves["features"].T.round(4).tolist()
            found["kept"] = (self.best + 1).tolist()
        return found


class UncertainNode(NamedTuple):
    """A node with its two most probable classes; `first` and `second` are (class, probability)."""

    id: str
    label: int
    first: tuple[int, float]
    second: tuple[int, float]


class Homophily(NamedTuple):
    """Classes at the two ends of links. Self-loops are ignored.

    Attributes
    ----------
    links : int
        Number of links with a class at both ends.
    share : float
        Share of these links whose two classes are equal.
    chance : float
        The share that is expected of random pairs of nodes.
    counts : (C, C) int array or CSR matrix
        Number of neighbours with the column's class of nodes with the row's class. A link counts
        in both directions.
    """

    links: int
    share: float
    chance: float
    counts: PairCounts


@dataclass(frozen=True)
class Metrics:
    """Everything that the report of a model shows.

    Attributes
    ----------
    classes : tuple of str
        Names of the C classes.
    nodes : int
        Number of nodes.
    labelled : (C,) int array
        Number of labelled nodes of each class.
    replicas : int
        Number of replicas.
    validation : ValidationMetrics or None
        None without validation nodes.
    known_links, predicted_links : Homophily
        Homophily of the known labels and of the classes predicted from features.
    map : HiddenMap or None
        None if the map is switched off.
    uncertain : list of UncertainNode
        The least certain nodes.
    estimates : Estimates, optional
        Estimated scores of SelfLinkDist.
    relations : sequence of RelationWorth
        α and worth of each of several relations.
    """

    classes: tuple[str, ...]
    nodes: int
    labelled: IntArray
    replicas: int
    validation: ValidationMetrics | None
    known_links: Homophily
    predicted_links: Homophily
    map: HiddenMap | None
    uncertain: list[UncertainNode]
    estimates: Estimates | None = None
    relations: Sequence[RelationWorth] = ()


def compute_metrics(
    graph: Graph, splits: Sequence[Split], result: Fit, ids: Sequence[Any], map: bool | None = None
) -> Metrics | TaskMetrics:
    """Compute the metrics of a trained model.

    Parameters
    ----------
    graph : Graph
        The training graph.
    splits : sequence of Split
        One split for each replica.
    result : Fit
        The result of `linkdist.fit`.
    ids : sequence
        The ids of the nodes.
    map : bool, optional
        Whether to map the hidden layer by t-SNE, which takes a few seconds. By default a map is
        made for graphs of at most `MAP_LIMIT` nodes.

    Returns
    -------
    Metrics or TaskMetrics
        The metrics; the latter for numbers and for several labels.

    Examples
    --------
    >>> from linkdist.data.datasets import load_dataset
    >>> from linkdist.data.splits import held_out
    >>> from linkdist.training.fit import fit
    >>> graph = load_dataset("digits")
    >>> splits = [held_out(graph.labels, 0.1, seed=0)]
    >>> result = fit(graph, splits, epochs=1, device="cpu")
    >>> metrics = compute_metrics(graph, splits, result, range(graph.n), map=False)
    >>> int(metrics.validation.modes["features"].confusion.sum()), len(metrics.uncertain)
    (179, 20)
    """
    model = result.model
    inputs, probabilities = predict_modes(graph, result)
    p = probabilities["features"].mean(axis=0)  # (n, C)
    relations = _relations(graph, result)
    if map is None:
        map = graph.n <= MAP_LIMIT
    if graph.task != "classification":
        found = compute_task_metrics(graph, result, relations)
        return with_map(found, graph, result, inputs, p, ids) if map else found
    return Metrics(
        graph.classes,
        graph.n,
        np.bincount(graph.labels[graph.labels != UNKNOWN], minlength=graph.C),
        len(model.alpha),
        _evaluate_classes(graph, splits, result, probabilities),
        homophily(graph.links, graph.labels, graph.C),
        homophily(graph.links, p.argmax(axis=1), graph.C),
        map_hidden_layer(graph, model.network, inputs, p, ids) if map else None,
        least_certain(p, graph.labels, ids),
        result.estimates,
        relations,
    )


def _relations(graph: Graph, result: Fit) -> Sequence[RelationWorth]:
    """α and worth of each of several relations; without estimates, the worth is not known."""
    if len(graph.heads) < 2:
        return ()
    if result.estimates and result.estimates.relations:
        return result.estimates.relations
    alpha = result.model.alpha.mean(0).tolist()
    return [RelationWorth(*one, float("nan")) for one in zip(graph.heads, alpha, strict=True)]


def evaluate_validation(
    graph: Graph, splits: Sequence[Split], result: Fit
) -> ValidationMetrics | TaskValidation | None:
    """Compute only the validation metrics of a model; None without validation nodes.

    The nodes are those of the splits or, for SelfLinkDist, of its estimates.
    """
    if graph.task != "classification":
        return validate_task(graph, result)
    return _evaluate_classes(graph, splits, result)


def _evaluate_classes(
    graph: Graph,
    splits: Sequence[Split],
    result: Fit,
    probabilities: Mapping[str, Array] | None = None,
) -> ValidationMetrics | None:
    history = result.history
    found = held_out_predictions(result, graph.task)
    if found:
        nodes = result.estimates.labels if result.estimates else len(found["features"][1])
    elif history.chooses and len(splits[0].validation):
        rows = [split.validation for split in splits]
        truth, nodes = graph.labels[np.concatenate(rows)], len(np.unique(np.concatenate(rows)))
        found = {}
        for mode, each in (probabilities or predict_modes(graph, result)[1]).items():
            p = np.concatenate([p[v] for p, v in zip(each, rows, strict=True)])
            found[mode] = HeldOut(p, truth, p)
    else:
        return None
    curves = {mode: history.curve(name)[:, 0] for mode, name in CURVES.items()}
    modes = {mode: evaluate(*held) for mode, held in found.items()}
    chosen = {} if _by_accuracy(result) else chosen_scores(result.estimates)
    return ValidationMetrics(nodes, curves, history.best("features").epochs - 1, modes, chosen)


def _by_accuracy(result: Fit) -> bool:
    return result.estimates is None or result.estimates.measure == "accuracy"


def predict_modes(graph: Graph, result: Fit) -> tuple[Inputs, dict[str, Array]]:
    """Return the inputs and the predictions (R, n, C) of both prediction modes."""
    inputs = result.inputs or make_inputs(graph.features, result.model.alpha.device)
    neighbours = result.neighbours or relations_of(graph, graph.n, inputs.device)
    z, s = logits(result.model.network, inputs)
    linked = result.model.with_neighbours(z, s, neighbours)
    mean = result.model.output.mean
    return inputs, {"features": _finite(mean(z.double())), "links": _finite(mean(linked.double()))}


def _finite(p: Tensor) -> Array:
    """Return predictions; uniform probabilities where the weights of a network overflowed."""
    found: Array = p.nan_to_num(1 / p.shape[-1]).cpu().numpy()
    return found


def evaluate(p: Array, truth: IntArray, ranked: Array | None = None) -> ModeMetrics:
    """Compare probabilities (n, C) with true classes (n,).

    A rare class is ranked by the probabilities `ranked` (n, C), by default the same ones.

    Examples
    --------
    >>> evaluate(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1])).confusion.tolist()
    [[1, 0], [1, 0]]
    """
    # scikit-learn takes a second to import, and prediction does not need it.
    from sklearn.metrics import precision_recall_fscore_support

    predicted, C = p.argmax(axis=1), p.shape[1]
    confusion = count_pairs(truth, predicted, C)
    precision, recall, f1, support = precision_recall_fscore_support(
        truth, predicted, labels=range(C), zero_division=0
    )
    return ModeMetrics(
        float((predicted == truth).mean()),
        confusion,
        ClassScores(precision, recall, f1, support, pair_sums(confusion, axis=0)),
        reliability(p, truth),
        rank_rare_class(p if ranked is None else ranked, truth, p),
    )


def _shares(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> Array:
    """Return part / whole, and 0 where the whole is 0."""
    shares: Array = part / np.maximum(whole, 1)
    return shares


def row_shares(counts: IntArray) -> Array:
    """Divide a matrix of counts by the sums of its rows; an empty row is 0.

    Examples
    --------
    >>> row_shares(np.array([[1, 3], [0, 0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    return _shares(counts, counts.sum(axis=1, keepdims=True))


def reliability(p: Array, truth: IntArray) -> Reliability:
    """Compare the confidence of probabilities (n, C) with their accuracy.

    `sklearn.calibration.calibration_curve` leaves out empty bins and the counts.

    Examples
    --------
    >>> found = reliability(np.array([[0.95, 0.05], [0.25, 0.75]]), np.array([0, 0]))
    >>> found.counts.tolist(), round(found.error, 3)
    ([0, 0, 0, 0, 0, 0, 0, 1, 0, 1], 0.4)
    """
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == truth
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    sums = [np.bincount(bins, weights=values, minlength=BINS) for values in (confidence, correct)]
    error = float(np.abs(sums[0] - sums[1]).sum() / max(len(truth), 1))
    return Reliability(counts, _shares(sums[0], counts), _shares(sums[1], counts), error)


def homophily(links: IntArray, classes: IntArray, C: int) -> Homophily:
    """Count the classes at the ends of links (m, 2); `classes` (n,) may contain `UNKNOWN`.

    Examples
    --------
    >>> found = homophily(np.array([[0, 1], [1, 2], [2, 3], [2, 2]]), np.array([0, 0, 1, -1]), C=2)
    >>> found.links, found.share, row_shares(found.counts).round(2).tolist()
    (2, 0.5, [[0.67, 0.33], [1.0, 0.0]])
    """
    ends = classes[links[links[:, 0] != links[:, 1]]]  # (m', 2)
    ends = ends[(ends != UNKNOWN).all(axis=1)]
    counts = count_pairs(ends[:, 0], ends[:, 1], C)
    sizes = np.bincount(classes[classes != UNKNOWN], minlength=C)
    chance = (_shares(sizes, sizes.sum()) ** 2).sum()
    share = (ends[:, 0] == ends[:, 1]).sum() / max(len(ends), 1)
    return Homophily(len(ends), float(share), float(chance), counts + counts.T)


def least_certain(
    p: Array, labels: IntArray, ids: Sequence[Any], most: int = UNCERTAIN
) -> list[UncertainNode]:
    """Return the nodes with the smallest margin between their two most probable classes.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> least_certain(p, np.array([0, -1]), ["x", "y"], most=1)
    [UncertainNode(id='y', label=-1, first=(1, 0.6), second=(0, 0.4))]
    """
    if p.shape[1] < 2:
        return []
    top = np.empty((len(p), 2), dtype=np.int64)
    top[:, 0] = p.argmax(axis=1)
    # Sorting all classes of a node would take a minute if there are 10,000.
    rest = p.copy()
    np.put_along_axis(rest, top[:, :1], -np.inf, axis=1)
    top[:, 1] = rest.argmax(axis=1)
    values = np.take_along_axis(p, top, axis=1)
    order = np.argsort(values[:, 0] - values[:, 1], kind="stable")[:most]
    return [
        UncertainNode(
            str(ids[i]), int(labels[i]), *zip(top[i].tolist(), values[i].tolist(), strict=True)
        )
        for i in order.tolist()
    ]
