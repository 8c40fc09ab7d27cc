"""Made graphs, of which it is known what each link says.

The class of a node is drawn uniformly, and its features are noise around the mean of its class, so
near that features alone give few classes. The rest has to come from links, and each graph has links
that help and links that do not:

- `graph_of_relations`: links of three relations, of which one joins nodes of the same class;
- `graph_of_directions`: nodes whose class depends on the nodes that they link to, and not on the
  nodes that link to them;
- `graph_of_weights`: links within a class, and as many random links of low weight;
- `graph_of_rare_class`: two classes, of which one is rare.

A few labels are drawn for training. All classes are known, so that a score can be computed on the
other nodes. The same seed gives the same graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import UNKNOWN, FloatArray, Graph, IntArray, stacked
from linkdist.data.links import Links
from linkdist.data.splits import Split
from linkdist.errors import OptionError

RELATIONS = ("informative", "misleading", "noise")
CLASSES = 5
FEATURES = 20
APART = 1.5
"""Length of the class means; the standard deviation of the noise is 1 in each direction."""
RARE_APART = 3.0
"""The distance of the means of the rare class and the other."""
HEAVY, LIGHT = (0.5, 1.5), (0.01, 0.05)
"""The ranges of the weights of links within a class and of random links."""
MOST_LINKS = 0.5
"""The largest share of the possible links; with more, drawing different ones would take long."""


class Made(NamedTuple):
    """A made graph.

    Attributes
    ----------
    graph : Graph
        The graph with all labels.
    split : Split
        The nodes whose labels are for training, and the test nodes; no validation nodes.
    helpful : (m,) array of bool
        Which links of the graph help to predict a class.
    """

    graph: Graph
    split: Split
    helpful: npt.NDArray[np.bool_]


def graph_of_relations(
    seed: int,
    n: int = 3000,
    labels: int = 120,
    homophily: tuple[float, float, float] = (0.75, 0.0, 0.2),
    degrees: tuple[int, int, int] = (5, 10, 5),
) -> Made:
    """A graph with the relations 'informative', 'misleading' and 'noise'.

    Misleading links join different classes only. If relations are ignored, the share of links
    within a class is by default 0.24, almost that of random links: the links say nothing. If
    relations are used, the informative links say almost all that can be known.

    Parameters
    ----------
    seed : int
        Random seed.
    n, labels : int
        Number of nodes, and of labels for training.
    homophily : tuple of float
        The share of the links of each relation that are within a class; it is met exactly, up to
        one link.
    degrees : tuple of int
        The average number of neighbours of a node in each relation.

    Returns
    -------
    Made

    Examples
    --------
    >>> graph, split, helpful = graph_of_relations(seed=0)
    >>> equal = graph.labels[graph.links[:, 0]] == graph.labels[graph.links[:, 1]]
    >>> [round(float(equal[graph.link_relation == k].mean()), 3) for k in range(3)]
    [0.75, 0.0, 0.2]
    >>> graph.relations, len(split.train)
    (('informative', 'misleading', 'noise'), 120)
    """
    _check(n, labels, CLASSES, max(degrees), homophily)
    random = np.random.default_rng([1, seed])
    y = random.integers(CLASSES, size=n)
    parts = [
        _links_of(random, y, n * degree // 2, share)
        for degree, share in zip(degrees, homophily, strict=True)
    ]
    relation = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    links = Links(np.concatenate(parts), relation, relations=RELATIONS)
    graph = Graph.build(_features(random, y), links, y, name="relations")
    assert graph.link_relation is not None
    return Made(
        graph, _split(np.arange(n), random.permutation(n)[:labels]), graph.link_relation == 0
    )


def graph_of_directions(
    seed: int, n: int = 3000, labels: int = 120, homophily: float = 0.75, degree: int = 5
) -> Made:
    """A directed graph in which only the nodes that a node links to say what its class is.

    A node has a class, and a kind that has nothing to do with it. It links to nodes whose kind is
    mostly its class. So the kinds of the nodes that it links to tell the class of a node, and the
    kinds of the nodes that link to it tell nothing. Features tell both, class and kind.

    Parameters
    ----------
    seed : int
        Random seed.
    n, labels : int
        Number of nodes, and of labels for training.
    homophily : float
        The share of the links that lead to a node whose kind is the class of the first node.
    degree : int
        The number of nodes that a node links to; fewer if some are drawn twice.

    Returns
    -------
    Made
        Every link helps its first node; see `outgoing_alone`.

    Examples
    --------
    >>> graph, split, helpful = graph_of_directions(seed=0)
    >>> graph.heads
    ('links (out)', 'links (in)')
    """
    _check(n, labels, CLASSES, degree, (homophily,))
    random = np.random.default_rng([2, seed])
    y, kind = random.integers(CLASSES, size=(2, n))
    start = np.repeat(np.arange(n), degree)
    alike = _of_classes(random, _by_class(kind), y[start])
    end = np.where(
        random.random(len(start)) < homophily, alike, random.integers(n, size=len(start))
    )
    pairs = np.stack([start, end], axis=1)
    links = Links(np.unique(pairs[start != end], axis=0), directed=True)
    x = np.hstack([_features(random, y), _features(random, kind)])
    graph = Graph.build(x, links, y, name="directions")
    split = _split(np.arange(n), random.permutation(n)[:labels])
    return Made(graph, split, np.ones(len(graph.links), dtype=bool))


def outgoing_alone(graph: Graph) -> Graph:
    """An undirected graph in which a node has the nodes that it links to as its only neighbours.

    Each node has a copy without a label, and is linked with the copies of those nodes.

    Examples
    --------
    >>> graph, _, _ = graph_of_directions(seed=0)
    >>> alone = outgoing_alone(graph)
    >>> alone.n, len(alone.links) == len(graph.links), alone.heads
    (6000, True, ('links',))
    """
    links = Links(graph.links + np.array([0, graph.n]))
    labels = np.concatenate([graph.labels, np.full(graph.n, UNKNOWN)])
    return Graph.build(stacked([graph.features] * 2), links, labels, graph.classes)


def graph_of_weights(
    seed: int, n: int = 3000, labels: int = 120, homophily: float = 0.75, degree: int = 5
) -> Made:
    """A graph whose links are mostly within a class, and as many random links of low weight.

    Parameters
    ----------
    seed : int
        Random seed.
    n, labels : int
        Number of nodes, and of labels for training.
    homophily : float
        The share of the links of high weight that are within a class.
    degree : int
        The average number of neighbours of a node by links of high weight; as many by random ones.

    Returns
    -------
    Made

    Examples
    --------
    >>> graph, split, helpful = graph_of_weights(seed=0)
    >>> float(helpful.mean()), bool(graph.link_weights[~helpful].max() <= 0.05)
    (0.5, True)
    """
    _check(n, labels, CLASSES, 2 * degree, (homophily,))
    random = np.random.default_rng([3, seed])
    y, m = random.integers(CLASSES, size=n), n * degree // 2
    clean = _links_of(random, y, m, homophily)
    taken = set(_keys(clean, n).tolist())

    def others(count: int) -> IntArray:
        pairs = random.integers(n, size=(count, 2))
        return pairs[[key not in taken for key in _keys(pairs, n).tolist()]]

    noise = _different(others, m, n)
    weights = np.concatenate([random.uniform(*HEAVY, m), random.uniform(*LIGHT, m)])
    links = Links(np.concatenate([clean, noise]), weights=weights.astype(np.float32))
    graph = Graph.build(_features(random, y), links, y, name="weights")
    assert graph.link_weights is not None
    return Made(
        graph, _split(np.arange(n), random.permutation(n)[:labels]), graph.link_weights >= HEAVY[0]
    )


def graph_of_rare_class(
    seed: int, n: int = 20_000, ratio: int = 400, labels: float = 0.5, degree: int = 4
) -> Made:
    """A graph in which one of `ratio` + 1 nodes is of class 1.

    The two classes are normal with the same covariance, so the best score from features is linear.
    Links are random; rare nodes have as many links again among themselves, so that about half of
    their neighbours are rare.

    Parameters
    ----------
    seed : int
        Random seed.
    n : int
        Number of nodes.
    ratio : int
        Number of nodes of class 0 for each node of class 1.
    labels : float
        The share of each class that is for training.
    degree : int
        The average number of neighbours by random links.

    Returns
    -------
    Made

    Examples
    --------
    >>> graph, split, helpful = graph_of_rare_class(seed=0)
    >>> np.bincount(graph.labels).tolist(), int(graph.labels[split.train].sum())
    ([19950, 50], 25)
    """
    rare = round(n / (ratio + 1))
    _check(rare, round(rare * labels), 1, degree, (labels,))
    random = np.random.default_rng([4, seed])
    y = np.zeros(n, dtype=np.int64)
    y[random.permutation(n)[:rare]] = 1
    found = np.flatnonzero(y == 1)

    def among(nodes: IntArray) -> IntArray:
        count = len(nodes) * degree // 2
        return _different(lambda size: random.choice(nodes, size=(size, 2)), count, n)

    links = np.concatenate([among(np.arange(n)), among(found)])
    x = random.standard_normal((n, FEATURES))
    x[:, 0] += RARE_APART * y
    turned, _ = np.linalg.qr(random.standard_normal((FEATURES, FEATURES)))
    graph = Graph.build(x @ turned, links, y, name="rare class")
    parts = [random.permutation(nodes) for nodes in (np.flatnonzero(y == 0), found)]
    train = np.concatenate([part[: round(len(part) * labels)] for part in parts])
    return Made(graph, _split(np.arange(n), train), (y[graph.links] == 1).all(axis=1))


def _features(random: np.random.Generator, y: IntArray) -> FloatArray:
    """Noise (n, d) around the means of the classes, which are orthogonal."""
    means, _ = np.linalg.qr(random.standard_normal((FEATURES, CLASSES)))
    x: FloatArray = (random.standard_normal((len(y), FEATURES)) + APART * means.T[y]).astype(
        np.float32
    )
    return x


def _split(nodes: IntArray, train: IntArray) -> Split:
    none = np.array([], dtype=np.int64)
    return Split(np.sort(train), none, np.setdiff1d(nodes, train))


def _links_of(random: np.random.Generator, y: IntArray, count: int, share: float) -> IntArray:
    """Different links (count, 2), of which a share is within a class."""
    n, others, inside = len(y), _by_class(y), round(share * count)

    def within(size: int) -> IntArray:
        nodes = random.integers(n, size=size)
        return np.stack([nodes, _of_classes(random, others, y[nodes])], axis=1)

    def between(size: int) -> IntArray:
        pairs = random.integers(n, size=(size, 2))
        apart: IntArray = pairs[y[pairs[:, 0]] != y[pairs[:, 1]]]
        return apart

    return np.concatenate([_different(within, inside, n), _different(between, count - inside, n)])


def _by_class(y: IntArray) -> list[IntArray]:
    return [np.flatnonzero(y == c) for c in range(CLASSES)]


def _of_classes(random: np.random.Generator, by_class: list[IntArray], asked: IntArray) -> IntArray:
    """A random node of each class that is asked for."""
    sizes = np.array([len(nodes) for nodes in by_class])
    nodes = np.concatenate(by_class)
    starts = np.cumsum(sizes) - sizes
    at: IntArray = starts[asked] + (random.random(len(asked)) * sizes[asked]).astype(np.int64)
    return nodes[at]


def _different(draw: Callable[[int], IntArray], count: int, n: int) -> IntArray:
    """`count` different links without self-loops, from a function that draws pairs."""
    pairs = np.empty((0, 2), dtype=np.int64)
    while len(pairs) < count:
        more = draw(count)
        pairs = np.concatenate([pairs, more[more[:, 0] != more[:, 1]]])
        _, first = np.unique(_keys(pairs, n), return_index=True)
        pairs = pairs[np.sort(first)]
    return pairs[:count]


def _keys(pairs: IntArray, n: int) -> IntArray:
    keys: IntArray = pairs.min(axis=1) * n + pairs.max(axis=1)
    return keys


def _check(n: int, labels: int, classes: int, degree: int, shares: tuple[float, ...]) -> None:
    """Raise one error for all options that are out of range."""
    problems = []
    if not classes <= labels < n:
        problems.append(f"labels must be from {classes} to below the {n} nodes; found {labels}.")
    if degree < 1 or degree * classes > MOST_LINKS * n:
        most = int(MOST_LINKS * n / classes)
        problems.append(f"a node must have from 1 to {most} neighbours; found {degree}.")
    wrong = [share for share in shares if not 0 <= share <= 1]
    if wrong:
        problems.append(f"shares must be from 0 to 1; found {', '.join(map(str, wrong))}.")
    if problems:
        raise OptionError(" ".join(problems))
