"""Metrics of a trained model, computed once for its report and its model card.

Accuracy, confusion matrix and calibration are measured on validation nodes. Each replica is
evaluated on its own validation nodes, because another replica may have trained on them. Statements
about all nodes use the mean probabilities of the replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.data.splits import Split
from linkdist.model import logits
from linkdist.nn.aggregation import relations_of
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.report.hidden_map import Array, HiddenMap, map_hidden_layer
from linkdist.training.fit import Fit
from linkdist.training.panel.estimates import Estimates

BINS = 10
"""Number of equally wide confidence bins for calibration."""
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
    """Metrics of one prediction mode; rows of `confusion` are true classes."""

    accuracy: float
    confusion: IntArray
    scores: ClassScores
    reliability: Reliability


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
    """

    nodes: int
    curves: Mapping[str, Array]
    best: IntArray
    modes: Mapping[str, ModeMetrics]


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
    counts : (C, C) int array
        Number of neighbours with the column's class of nodes with the row's class. A link counts
        in both directions.
    """

    links: int
    share: float
    chance: float
    counts: IntArray


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
        Accuracy estimates of SelfLinkDist.
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


def compute_metrics(
    graph: Graph, splits: Sequence[Split], result: Fit, ids: Sequence[Any], map: bool | None = None
) -> Metrics:
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
    Metrics
        The metrics.

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
    inputs, probabilities = _predict(graph, result)
    p = probabilities["features"].mean(axis=0)  # (n, C)
    if map is None:
        map = graph.n <= MAP_LIMIT
    return Metrics(
        graph.classes,
        graph.n,
        np.bincount(graph.labels[graph.labels != UNKNOWN], minlength=graph.C),
        len(model.alpha),
        evaluate_validation(graph, splits, result, probabilities),
        homophily(graph.links, graph.labels, graph.C),
        homophily(graph.links, p.argmax(axis=1), graph.C),
        map_hidden_layer(graph, model.network, inputs, p, ids) if map else None,
        least_certain(p, graph.labels, ids),
        result.estimates,
    )


def evaluate_validation(
    graph: Graph,
    splits: Sequence[Split],
    result: Fit,
    probabilities: Mapping[str, Array] | None = None,
) -> ValidationMetrics | None:
    """Compute only the validation metrics of a model; None without validation nodes.

    The nodes are those of the splits or, for SelfLinkDist, of its estimates.
    """
    history = result.history
    predicted = result.predictions.get("new row") or result.predictions.get("validation")
    if predicted is not None:
        found = {mode: (np.exp(predicted[mode].scores), predicted[mode].labels) for mode in CURVES}
        nodes = result.estimates.labels if result.estimates else len(found["features"][1])
    elif history.chooses and len(splits[0].validation):
        chosen = [split.validation for split in splits]
        truth, nodes = graph.labels[np.concatenate(chosen)], len(np.unique(np.concatenate(chosen)))
        found = {
            mode: (np.concatenate([q[v] for q, v in zip(p, chosen, strict=True)]), truth)
            for mode, p in (probabilities or _predict(graph, result)[1]).items()
        }
    else:
        return None
    curves = {mode: history.curve(name)[:, 0] for mode, name in CURVES.items()}
    modes = {mode: evaluate(*pair) for mode, pair in found.items()}
    return ValidationMetrics(nodes, curves, history.best("features").epochs - 1, modes)


def _predict(graph: Graph, result: Fit) -> tuple[Inputs, dict[str, Array]]:
    """Return the inputs and the probabilities (R, n, C) of both prediction modes."""
    inputs = result.inputs or make_inputs(graph.features, result.model.alpha.device)
    neighbours = result.neighbours or relations_of(graph, graph.n, inputs.device)
    z, s = logits(result.model.network, inputs)
    linked = result.model.with_neighbours(z, s, neighbours)
    return inputs, {"features": _softmax(z), "links": _softmax(linked)}


def _softmax(scores: Tensor) -> Array:
    """Return probabilities; uniform ones where the weights of a network overflowed."""
    p: Array = scores.double().softmax(-1).nan_to_num(1 / scores.shape[-1]).cpu().numpy()
    return p


def evaluate(p: Array, truth: IntArray) -> ModeMetrics:
    """Compare probabilities (n, C) with true classes (n,).

    Examples
    --------
    >>> evaluate(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1])).confusion.tolist()
    [[1, 0], [1, 0]]
    """
    # scikit-learn takes a second to import, and prediction does not need it.
    from sklearn.metrics import precision_recall_fscore_support

    predicted, C = p.argmax(axis=1), p.shape[1]
    # Not sklearn.metrics.confusion_matrix, which warns if there is a single class.
    confusion = np.bincount(truth * C + predicted, minlength=C * C).reshape(C, C)
    precision, recall, f1, support = precision_recall_fscore_support(
        truth, predicted, labels=range(C), zero_division=0
    )
    return ModeMetrics(
        float((predicted == truth).mean()),
        confusion,
        ClassScores(precision, recall, f1, support, confusion.sum(axis=0)),
        reliability(p, truth),
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
    counts = np.bincount(ends[:, 0] * C + ends[:, 1], minlength=C * C).reshape(C, C)
    sizes = np.bincount(classes[classes != UNKNOWN], minlength=C)
    chance = (_shares(sizes, sizes.sum()) ** 2).sum()
    share = counts.trace() / max(len(ends), 1)
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
    top = np.argsort(-p, axis=1, kind="stable")[:, :2]  # (n, 2)
    values = np.take_along_axis(p, top, axis=1)
    order = np.argsort(values[:, 0] - values[:, 1], kind="stable")[:most]
    return [
        UncertainNode(
            str(ids[i]), int(labels[i]), *zip(top[i].tolist(), values[i].tolist(), strict=True)
        )
        for i in order.tolist()
    ]
