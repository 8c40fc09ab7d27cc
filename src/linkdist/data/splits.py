"""Splits, and the part of a graph that training may use.

A `Split` contains the nodes whose labels are used for training, for choosing the epoch (validation)
and for the final score (test). A setting determines what else is hidden from training:

- transductive: training uses all features and all links, and the labels of the training nodes;
- inductive: validation nodes, test nodes and their links are hidden;
- full-supervised: like transductive, with 60 % of the nodes as training nodes;
- production: test nodes and their links are hidden, validation nodes are not.

The first three settings are those of the paper; the last one is that of GLNN (Zhang et al., 2022)
and later work, which use other splits.

`observe` applies a setting. It is the only function that hides anything: training gets nothing but
the `View` that it returns. A view shares the feature matrix of the graph and lists the rows that
may be read, so that ten views of a graph need one feature matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from linkdist.data import datasets
from linkdist.data.graph import (
    UNKNOWN,
    FeatureMatrix,
    FloatArray,
    Graph,
    IntArray,
    Labels,
    known_labels,
    without_labels,
)
from linkdist.data.links import Edges
from linkdist.errors import SplitError, check_names

SETTINGS = ("inductive", "transductive", "full-supervised")
"""The three settings of the paper, in the order of its tables."""
PROTOCOLS = {"paper": SETTINGS, "glnn": ("transductive", "production")}
"""Evaluation protocols and their settings."""


HELD_OUT = 0.1
"""Default share of the labelled nodes that become validation nodes."""
TENTHS = 10
"""Number of strata of numbers."""


@dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint sets of nodes, each in ascending order."""

    train: IntArray
    validation: IntArray
    test: IntArray


@dataclass(frozen=True, eq=False)
class View:
    """The part of a graph that training may use.

    Attributes
    ----------
    features : (n, d) array or CSR matrix
        The features of all nodes of the graph; only the rows in `nodes` may be read.
    nodes : (n',) int64 array
        The visible nodes, in ascending order.
    edges : (e', 2) int64 array
        The directed edges between visible nodes.
    labels : array
        y of the training nodes, unknown for all other nodes; see `Graph.labels`.
    C : int
        Number of classes.
    heads, weights : (e',) arrays, optional
        The neighbour head and the weight of each edge; see `Edges`.
    directed : bool
        Whether heads 2 r and 2 r + 1 are the two directions of the same links.
    """

    features: FeatureMatrix
    nodes: IntArray
    edges: IntArray
    labels: Labels
    C: int
    heads: IntArray | None = None
    weights: FloatArray | None = None
    directed: bool = False

    @property
    def all_edges(self) -> Edges:
        """The edges with their heads and weights."""
        return Edges(self.edges, self.heads, self.weights)

    def with_edges(self, edges: Edges) -> View:
        """A view with other edges."""
        return replace(self, edges=edges.pairs, heads=edges.heads, weights=edges.weights)

    @property
    def train(self) -> IntArray:
        """The training nodes, in ascending order."""
        return np.flatnonzero(known_labels(self.labels))


def observe(graph: Graph, split: Split, setting: str) -> View:
    """Return the part of a graph that training may use in a setting.

    Parameters
    ----------
    graph : Graph
        The whole graph.
    split : Split
        The training, validation and test nodes.
    setting : {'inductive', 'transductive', 'full-supervised', 'production'}
        Determines what is hidden in addition to the labels of validation and test nodes.

    Examples
    --------
    >>> graph = Graph.build([[1.0], [2.0], [3.0]], [(0, 1), (1, 2)], [0, 1, 0])
    >>> split = Split(np.array([0, 1]), np.array([], dtype=int), np.array([2]))
    >>> observe(graph, split, "inductive").edges.tolist()
    [[0, 1], [1, 0]]
    >>> observe(graph, split, "transductive").labels.tolist()
    [0, 1, -1]
    """
    check_names("setting", [setting], (*SETTINGS, "production"))
    hidden = np.ones(graph.n, dtype=bool)
    hidden[split.train] = False
    labels = without_labels(graph.labels, hidden)
    seen = np.ones(graph.n, dtype=bool)
    if setting == "inductive":
        seen[split.validation] = False
    if setting in ("inductive", "production"):
        seen[split.test] = False
    edges = graph.all_edges.between(seen)
    common = (graph.features, np.flatnonzero(seen), edges.pairs, labels, graph.C)
    return View(*common, edges.heads, edges.weights, graph.directed)


def semi_supervised(
    graph: Graph, seed: int, per_class: int = 20, validation: int = 500, test: int | None = 1000
) -> Split:
    """Draw at most `per_class` training nodes per class, then validation and test nodes.

    Parameters
    ----------
    graph : Graph
        Only nodes with a known label are drawn.
    seed : int
        Random seed.
    per_class, validation : int
        Number of training nodes per class, and of validation nodes.
    test : int or None
        Number of test nodes; with None, all remaining nodes.

    Examples
    --------
    >>> graph = datasets.load_dataset("digits")
    >>> split = semi_supervised(graph, 0, per_class=2, validation=300, test=None)
    >>> len(split.train), len(split.validation), len(split.test)
    (20, 300, 1477)
    """
    order = _labelled_nodes(graph, seed)
    of_class = [order[graph.labels[order] == c][:per_class] for c in range(graph.C)]
    train = np.concatenate(of_class)
    rest = order[~np.isin(order, train)]
    if len(rest) < validation + (1 if test is None else test):
        raise SplitError(
            f"{graph.name}: {validation} validation and {test or 'some'} test nodes were "
            f"requested, but only {len(rest)} labelled nodes remain after {len(train)} training "
            "nodes; request fewer."
        )
    stop = None if test is None else validation + test
    return Split(np.sort(train), np.sort(rest[:validation]), np.sort(rest[validation:stop]))


def full_supervised(graph: Graph, seed: int, share: float = 0.2) -> Split:
    """Draw floor(`share` · n) validation nodes, as many test nodes, the rest for training.

    Examples
    --------
    >>> split = full_supervised(datasets.load_dataset("digits"), seed=0)
    >>> len(split.train), len(split.validation), len(split.test)
    (1079, 359, 359)
    """
    order = _labelled_nodes(graph, seed)
    size = int(share * len(order))
    if size < 1:
        raise SplitError(
            f"{graph.name}: a share of {share} of {len(order)} labelled nodes is less than one "
            "node; a full-supervised split needs more labels or a larger share."
        )
    return Split(np.sort(order[2 * size :]), np.sort(order[:size]), np.sort(order[size : 2 * size]))


def glnn_split(graph: Graph, setting: str, seed: int) -> Split:
    """Draw 20 training and 30 validation nodes per class; the other nodes are test nodes.

    In the setting 'production', only a fifth of these are test nodes, which are hidden in training.

    Examples
    --------
    >>> graph = datasets.load_dataset("digits")
    >>> [len(glnn_split(graph, setting, seed=0).test) for setting in PROTOCOLS["glnn"]]
    [1297, 259]
    """
    check_names("setting", [setting], PROTOCOLS["glnn"])
    order = _labelled_nodes(graph, seed)
    of_class = [order[graph.labels[order] == c] for c in range(graph.C)]
    few = [graph.classes[c] for c, nodes in enumerate(of_class) if len(nodes) <= 50]
    if few:
        raise SplitError(
            f"{graph.name}: each class needs 20 training, 30 validation and some test nodes; found "
            f"50 or fewer of {', '.join(few)}."
        )
    train = np.concatenate([nodes[:20] for nodes in of_class])
    validation = np.concatenate([nodes[20:50] for nodes in of_class])
    rest = order[~np.isin(order, np.r_[train, validation])]
    test = rest[: len(rest) // 5] if setting == "production" else rest
    return Split(np.sort(train), np.sort(validation), np.sort(test))


def named_split(graph: Graph, setting: str, seed: int, data: str | Path | None = None) -> Split:
    """The split that the paper uses for a named data set, or this project for `digits`.

    Parameters
    ----------
    graph : Graph
        As `load_dataset` returns it.
    setting : {'inductive', 'transductive', 'full-supervised'}
        Full-supervised uses another split than the other two settings.
    seed : int
        Random seed, which public splits do not use.
    data : path, optional
        The folder with the raw files, from which public splits are read.

    Examples
    --------
    >>> len(named_split(datasets.load_dataset("digits"), "inductive", seed=3).train)
    20
    """
    check_names("setting", [setting], SETTINGS)
    if setting == "full-supervised":
        return full_supervised(graph, seed)
    if graph.name in datasets.PUBLIC_SPLITS:
        return Split(*datasets.public_split(graph.name, data))
    if graph.name == "digits":
        # With all other nodes as test nodes, the inductive setting would hide all unlabelled ones.
        test = 500 if setting == "inductive" else None
        return semi_supervised(graph, seed, per_class=2, validation=300, test=test)
    return semi_supervised(graph, seed)


def strata(labels: Labels) -> IntArray:
    """The group of similar labels that each node (n,) belongs to, or `UNKNOWN`.

    Similar labels are equal classes, equal sets of classes, or numbers of the same tenth.

    Examples
    --------
    >>> strata(np.array([1, -1])).tolist(), strata(np.array([[1, 0], [0, 0], [-1, -1]])).tolist()
    ([1, -1], [1, 0, -1])
    >>> strata(np.array([0.5, np.nan, 9.0, 3.0])).tolist()
    [0, -1, 6, 3]
    """
    if labels.ndim == 1 and labels.dtype.kind != "f":
        return labels
    known, found = known_labels(labels), np.full(len(labels), UNKNOWN)
    if labels.ndim == 2:
        _, found[known] = np.unique(labels[known], axis=0, return_inverse=True)
    else:
        rank = np.argsort(np.argsort(labels[known], kind="stable"), kind="stable")
        found[known] = rank * TENTHS // max(int(known.sum()), 1)
    return found


def held_out(labels: Labels, share: float, seed: int) -> Split:
    """Draw a share of the labelled nodes of each stratum, but never all, as validation nodes.

    Examples
    --------
    >>> split = held_out(np.array([0] * 10 + [1] * 10 + [-1] * 5), share=0.2, seed=0)
    >>> len(split.train), len(split.validation), len(split.test)
    (16, 4, 0)
    """
    random, held = np.random.default_rng(seed), [np.array([], dtype=np.int64)]
    of_node = strata(labels)
    for c in range(of_node.max(initial=UNKNOWN) + 1):
        nodes = random.permutation(np.flatnonzero(of_node == c))
        held.append(nodes[: min(round(share * len(nodes)), max(len(nodes) - 1, 0))])
    return keep_aside(labels, np.concatenate(held))


def keep_aside(labels: Labels, validation: IntArray) -> Split:
    """Create a split whose training nodes are all labelled nodes that are not validation nodes.

    There are no test nodes.

    Examples
    --------
    >>> keep_aside(np.array([0, 1, -1, 0]), np.array([3, 2])).validation
    array([3])
    """
    known = np.flatnonzero(known_labels(labels))
    held = np.intersect1d(known, validation)
    return Split(np.setdiff1d(known, held), held, np.array([], dtype=np.int64))


def _labelled_nodes(graph: Graph, seed: int) -> IntArray:
    """The nodes with a known label, in random order."""
    return np.random.default_rng(seed).permutation(np.flatnonzero(known_labels(graph.labels)))
