"""What a training shows of a graph, as numbers: the matter of a model's report.

Scores, confusion and calibration are those of held-out nodes, each replica judged on the nodes
that it held out itself: another replica may have been trained on them. What is said of all nodes,
held out or not, comes from the replicas' mean probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.data.splits import Split
from linkdist.model import Model, logits
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.training.fit import Fit
from linkdist.training.history import History
from linkdist.training.panel.estimates import Estimates

Array: TypeAlias = npt.NDArray[np.float64]

BINS = 10
"""Equal widths of confidence over which calibration is judged."""
UNSURE = 20
"""How many of the least sure nodes are named."""
MAPPED = 1000
"""How many nodes the map of the hidden layer shows at most."""
FEW = 30
"""Below so many nodes t-SNE has no neighbourhoods to keep."""
WIDTH = 50
"""Dimensions that are left of the hidden layer before t-SNE."""


class ClassScores(NamedTuple):
    """Scores of each class, (C,) arrays; a share of nothing is 0."""

    precision: Array
    recall: Array
    f1: Array
    support: IntArray
    predicted: IntArray


class Reliability(NamedTuple):
    """Confidence beside accuracy, (BINS,) arrays, 0 in an empty bin; and their distance.

    Attributes
    ----------
    counts : (BINS,) int array
        Nodes whose confidence lies in the bin.
    confidence, accuracy : (BINS,) arrays
        Their mean confidence and the share that is right.
    error : float
        Expected calibration error: the mean distance of the two, weighted by the counts.
    """

    counts: IntArray
    confidence: Array
    accuracy: Array
    error: float


class Judged(NamedTuple):
    """What held-out nodes say of one mode of prediction; a row of `confusion` is the truth."""

    accuracy: float
    confusion: IntArray
    scores: ClassScores
    reliability: Reliability


class HeldOut(NamedTuple):
    """What held-out nodes say.

    Attributes
    ----------
    nodes : int
        How many different nodes were held out, by all replicas together.
    curves : mapping of str to (looks, R) array
        Accuracy at each look at the weights, by mode.
    chosen : (R,) int array
        The look whose weights each replica kept, from 0.
    modes : mapping of str to Judged
        Of the weights that were kept.
    """

    nodes: int
    curves: Mapping[str, Array]
    chosen: IntArray
    modes: Mapping[str, Judged]


class Unsure(NamedTuple):
    """A node between two classes: `first` and `second` are a class and its probability."""

    id: str
    label: int
    first: tuple[int, float]
    second: tuple[int, float]


class HiddenMap(NamedTuple):
    """Some nodes' places in a plane, (k, 2), their ids, classes, and whether these are known."""

    method: str
    places: Array
    ids: list[str]
    classes: IntArray
    known: npt.NDArray[np.bool_]


class Agreement(NamedTuple):
    """Which classes links join; a node's link to itself says nothing and is left out.

    Attributes
    ----------
    links : int
        How many have a class at both ends.
    share : float
        How many of them join equal classes.
    chance : float
        What two nodes drawn at random would give: the sum of squared class shares.
    counts : (C, C) int array
        Neighbours of a row's class that are of a column's class; a link is seen from both ends.
    """

    links: int
    share: float
    chance: float
    counts: IntArray

    @property
    def matrix(self) -> Array:
        """The same as shares of each row, (C, C); a row of no neighbours is 0."""
        return row_shares(self.counts)


@dataclass(frozen=True)
class Findings:
    """All that a report tells; `held_out` is None where no nodes were."""

    classes: tuple[str, ...]
    nodes: int
    known: IntArray
    """Labelled nodes of each class, (C,)."""
    replicas: int
    held_out: HeldOut | None
    known_links: Agreement
    predicted_links: Agreement
    map: HiddenMap
    unsure: list[Unsure]
    estimates: Estimates | None = None


def find(graph: Graph, splits: Sequence[Split], result: Fit, ids: Sequence[Any]) -> Findings:
    """Look at a fitted model from all sides.

    Parameters
    ----------
    graph : Graph
        What it was trained on.
    splits : sequence of Split
        One a replica; its validation nodes are those held out.
    result : Fit
        As `linkdist.fit` gave it.
    ids : sequence
        The nodes' ids, shown as text.

    Examples
    --------
    >>> from linkdist.data.datasets import load
    >>> from linkdist.data.splits import held_out
    >>> from linkdist.training.fit import fit
    >>> graph = load("digits")
    >>> splits = [held_out(graph.labels, 0.1, seed=0)]
    >>> result = fit(graph, splits, epochs=1, device="cpu")
    >>> found = find(graph, splits, result, range(graph.n))
    >>> int(found.held_out.modes["features"].confusion.sum()), len(found.unsure)
    (179, 20)
    """
    model = result.model
    inputs = result.inputs or make_inputs(graph.features, model.alpha.device)
    each = _in_both_modes(graph, model, inputs, result.neighbours)
    p = each["features"].mean(axis=0)
    known = graph.labels[graph.labels != UNKNOWN]
    return Findings(
        graph.classes,
        graph.n,
        np.bincount(known, minlength=graph.C),
        len(model.alpha),
        judged_nodes(graph, splits, result, each),
        agreement(graph.links, graph.labels, graph.C),
        agreement(graph.links, p.argmax(axis=1), graph.C),
        _map(graph, model.network, inputs, p, ids),
        least_sure(p, graph.labels, ids),
        result.estimates,
    )


def judged_nodes(
    graph: Graph, splits: Sequence[Split], result: Fit, each: Mapping[str, Array]
) -> HeldOut | None:
    """What held-out nodes say: those of the splits, or those that judged SelfLinkDist."""
    heard = result.predictions.get("new row") or result.predictions.get("validation")
    if heard is None:
        held = result.history.chooses and bool(len(splits[0].validation))
        return _held_out(graph, splits, result.history, each) if held else None
    curves = {
        mode: result.history.curve(name)[:, 0]
        for mode, name in (("features", "features"), ("links", "mean"))
    }
    modes = {mode: judge(np.exp(heard[mode].log_p), heard[mode].labels) for mode in curves}
    judges = result.estimates.judges if result.estimates else len(heard["features"].labels)
    return HeldOut(judges, curves, result.history.best("features").epochs - 1, modes)


def held_out_of(graph: Graph, splits: Sequence[Split], result: Fit) -> HeldOut | None:
    """What held-out nodes say of a fitted model, and nothing else of what `find` finds."""
    if not result.history.chooses:
        return None
    inputs = result.inputs or make_inputs(graph.features, result.model.alpha.device)
    each = _in_both_modes(graph, result.model, inputs, result.neighbours)
    return _held_out(graph, splits, result.history, each)


def _in_both_modes(
    graph: Graph, model: Model, inputs: Inputs, neighbours: Neighbours | None
) -> dict[str, Array]:
    """Probabilities (R, n, C) from features and with links."""
    z, s = logits(model.network, inputs)
    neighbours = neighbours or Neighbours([graph.edges], graph.n, inputs.device)
    linked = model.with_neighbours(z, s, neighbours)
    return {"features": _probabilities(z), "links": _probabilities(linked)}


def _probabilities(scores: Tensor) -> Array:
    """Softmax; a network whose weights overflowed says nothing, so all classes are alike."""
    p: Array = scores.double().softmax(-1).nan_to_num(1 / scores.shape[-1]).cpu().numpy()
    return p


def _held_out(
    graph: Graph, splits: Sequence[Split], history: History, each: Mapping[str, Array]
) -> HeldOut:
    nodes = [split.validation for split in splits]
    truth = graph.labels[np.concatenate(nodes)]
    return HeldOut(
        len(np.unique(np.concatenate(nodes))),
        {"features": history.curve("features")[:, 0], "links": history.curve("mean")[:, 0]},
        history.best("features").epochs - 1,
        {
            mode: judge(np.concatenate([q[v] for q, v in zip(p, nodes, strict=True)]), truth)
            for mode, p in each.items()
        },
    )


def judge(p: Array, truth: IntArray) -> Judged:
    """Hold probabilities (n, C) against the truth (n,).

    Examples
    --------
    >>> judge(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1])).confusion.tolist()
    [[1, 0], [1, 0]]
    """
    found = p.argmax(axis=1)
    C = p.shape[1]
    confusion = np.bincount(truth * C + found, minlength=C * C).reshape(C, C)
    right = float((found == truth).mean())
    return Judged(right, confusion, class_scores(confusion), reliability(p, truth))


def class_scores(confusion: IntArray) -> ClassScores:
    """Precision, recall, F1, support of each class; a row of `confusion` is the truth.

    Examples
    --------
    >>> class_scores(np.array([[3, 1], [0, 0]])).precision.tolist()
    [1.0, 0.0]
    """
    hits, support, predicted = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    return ClassScores(
        _shares(hits, predicted),
        _shares(hits, support),
        _shares(2 * hits, support + predicted),
        support,
        predicted,
    )


def _shares(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> Array:
    """Part of whole, 0 where the whole is nothing."""
    shares: Array = part / np.maximum(whole, 1)
    return shares


def row_shares(counts: IntArray) -> Array:
    """A matrix of counts as shares of each row, 0 where a row is empty.

    Examples
    --------
    >>> row_shares(np.array([[1, 3], [0, 0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    return _shares(counts, counts.sum(axis=1, keepdims=True))


def reliability(p: Array, truth: IntArray) -> Reliability:
    """Set the confidence of probabilities (n, C) beside how often they are right.

    Examples
    --------
    >>> found = reliability(np.array([[0.95, 0.05], [0.25, 0.75]]), np.array([0, 0]))
    >>> found.counts.tolist(), round(found.error, 3)
    ([0, 0, 0, 0, 0, 0, 0, 1, 0, 1], 0.4)
    """
    confidence, right = p.max(axis=1), p.argmax(axis=1) == truth
    at = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(at, minlength=BINS)
    sums = [np.bincount(at, weights=values, minlength=BINS) for values in (confidence, right)]
    error = float(np.abs(sums[0] - sums[1]).sum() / max(len(truth), 1))
    return Reliability(counts, _shares(sums[0], counts), _shares(sums[1], counts), error)


def agreement(links: IntArray, classes: IntArray, C: int) -> Agreement:
    """Count which classes links (m, 2) join; `classes` (n,) may be `UNKNOWN`.

    Examples
    --------
    >>> found = agreement(np.array([[0, 1], [1, 2], [2, 3], [2, 2]]), np.array([0, 0, 1, -1]), C=2)
    >>> found.links, found.share, found.matrix.round(2).tolist()
    (2, 0.5, [[0.67, 0.33], [1.0, 0.0]])
    """
    ends = classes[links[links[:, 0] != links[:, 1]]]  # (m', 2)
    ends = ends[(ends != UNKNOWN).all(axis=1)]
    joins = np.bincount(ends[:, 0] * C + ends[:, 1], minlength=C * C).reshape(C, C)
    both_ways = joins + joins.T
    size = np.bincount(classes[classes != UNKNOWN], minlength=C)
    chance = (_shares(size, size.sum()) ** 2).sum()
    share = joins.trace() / max(len(ends), 1)
    return Agreement(len(ends), float(share), float(chance), both_ways)


def least_sure(p: Array, labels: IntArray, ids: Sequence[Any], most: int = UNSURE) -> list[Unsure]:
    """The nodes whose first two classes are the closest, the closest first.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> least_sure(p, np.array([0, -1]), ["x", "y"], most=1)
    [Unsure(id='y', label=-1, first=(1, 0.6), second=(0, 0.4))]
    """
    if p.shape[1] < 2:
        return []
    top = np.argsort(-p, axis=1, kind="stable")[:, :2]  # (n, 2)
    values = np.take_along_axis(p, top, axis=1)
    order = np.argsort(values[:, 0] - values[:, 1], kind="stable")[:most]
    return [
        Unsure(str(ids[i]), int(labels[i]), *zip(top[i].tolist(), values[i].tolist(), strict=True))
        for i in order.tolist()
    ]


def _map(
    graph: Graph, network: ForkedMLP, inputs: Inputs, p: Array, ids: Sequence[Any]
) -> HiddenMap:
    random = np.random.default_rng(0)
    drawn = np.sort(random.choice(graph.n, min(MAPPED, graph.n), replace=False))
    known = graph.labels[drawn] != UNKNOWN
    return HiddenMap(
        "t-SNE" if len(drawn) >= FEW else "PCA",
        flatten(_hidden(network, inputs, drawn)),
        [str(ids[i]) for i in drawn.tolist()],
        np.where(known, graph.labels[drawn], p[drawn].argmax(axis=1)),
        known,
    )


@torch.no_grad()
def _hidden(network: ForkedMLP, inputs: Inputs, nodes: IntArray) -> Array:
    """The trunk's output h of the first replica, (k, hidden)."""
    R = network.first.weight.shape[0]
    rows = torch.from_numpy(nodes).to(inputs.device).expand(R, 1, -1)
    h: Array = network.trunk(network.first(inputs, rows))[0, 0].double().cpu().numpy()
    return h


def flatten(h: Array) -> Array:
    """Places in a plane (k, 2) that keep near what is near in h (k, f), the same each time.

    Examples
    --------
    >>> flatten(np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))[:, 0].round(6)
    array([ 2., -1., -1.])
    """
    h = np.where(np.isfinite(h), h, 0.0)
    if not np.ptp(h, axis=0).any():
        return np.zeros((len(h), 2))
    few = len(h) < FEW
    # scikit-learn takes a second to import, and only a training draws a map.
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # Several threads would add in an order of their own, and are slower on so few nodes.
    with threadpool_limits(1):
        x = PCA(min(2 if few else WIDTH, *h.shape), svd_solver="full").fit_transform(h)
        plane: Array = np.pad(x[:, :2], [(0, 0), (0, max(0, 2 - x.shape[1]))])
        if few:
            return plane
        start = 1e-4 * plane / plane[:, 0].std()  # as scikit-learn's own start from PCA
        perplexity = min(30.0, (len(h) - 1) / 3)
        tsne = TSNE(init=start, perplexity=perplexity, max_iter=500, random_state=0)
        places: Array = tsne.fit_transform(x).astype(np.float64)
    return places
