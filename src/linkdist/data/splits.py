"""What training may see.

A `Split` names the nodes whose labels are for training, for choosing the epoch (validation) and
for the score (test). A setting says what else is hidden:

- transductive: every node's features and every link are seen, and the training nodes' labels;
- inductive: validation and test nodes are not there in training, nor any link that touches one;
- full-supervised: as transductive, on a split whose training set is 60 % of the nodes;
- production: as inductive for the test nodes, while the validation nodes are there.

The first three are the paper's; the last is that of GLNN (Zhang et al., 2022) and the work after
it, which has splits of its own.

`observe` applies a setting, and it is the only place where anything is hidden: what it returns,
the `View`, is all that training gets, and nothing below knows the word 'inductive'. A view refers
to the graph's own feature matrix and names the rows that may be read, so that ten views of one
graph cost one feature matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from linkdist.data import datasets
from linkdist.data.graph import UNKNOWN, FeatureMatrix, Graph, IntArray
from linkdist.errors import SplitError, check_names

SETTINGS = ("inductive", "transductive", "full-supervised")
"""The paper's three settings, in the order of its tables."""
PROTOCOLS = {"paper": SETTINGS, "glnn": ("transductive", "production")}
"""How accuracy is measured, and in which settings."""


HELD_OUT = 0.1
"""Share of the labels that choose the epoch where no validation nodes are named: see docs."""


@dataclass(frozen=True)
class Split:
    """Three disjoint sets of nodes, each in ascending order."""

    train: IntArray
    validation: IntArray
    test: IntArray


@dataclass(frozen=True)
class View:
    """What training may see of a graph.

    Attributes
    ----------
    features : (n, d) array or CSR matrix
        The graph's own matrix; only the rows named by `nodes` are read.
    nodes : (n',) int64 array
        The nodes that are there, in ascending order.
    edges : (e', 2) int64 array
        The directed edges between them.
    labels : (n,) int64 array
        y of the training nodes, `UNKNOWN` for all others.
    C : int
        Number of classes.
    """

    features: FeatureMatrix
    nodes: IntArray
    edges: IntArray
    labels: IntArray
    C: int

    @property
    def train(self) -> IntArray:
        """The nodes with a known label."""
        return np.flatnonzero(self.labels != UNKNOWN)


def observe(graph: Graph, split: Split, setting: str) -> View:
    """Hide what a setting hides.

    Parameters
    ----------
    graph : Graph
        Everything that is known.
    split : Split
        Which nodes train, validate, test.
    setting : {'inductive', 'transductive', 'full-supervised', 'production'}
        What is hidden beside the labels of validation and test nodes.

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
    labels = np.full(graph.n, UNKNOWN)
    labels[split.train] = graph.labels[split.train]
    seen = np.ones(graph.n, dtype=bool)
    if setting == "inductive":
        seen[split.validation] = False
    if setting in ("inductive", "production"):
        seen[split.test] = False
    edges = graph.edges[seen[graph.edges].all(axis=1)]
    return View(graph.features, np.flatnonzero(seen), edges, labels, graph.C)


def semi_supervised(
    graph: Graph,
    seed: int,
    per_class: int = 20,
    validation: int = 500,
    test: int | None = 1000,
) -> Split:
    """Draw at most `per_class` training nodes a class, then validation and test nodes.

    Parameters
    ----------
    graph : Graph
        Nodes without a known label are never drawn.
    seed : int
        Of the draw.
    per_class, validation : int
        Numbers of nodes.
    test : int or None
        Number of test nodes; None takes all that are left.

    Examples
    --------
    >>> graph = datasets.load_dataset("digits")
    >>> split = semi_supervised(graph, 0, per_class=2, validation=300, test=None)
    >>> len(split.train), len(split.validation), len(split.test)
    (20, 300, 1477)
    """
    random = np.random.default_rng(seed)
    order = random.permutation(np.flatnonzero(graph.labels != UNKNOWN))
    of_class = [order[graph.labels[order] == c][:per_class] for c in range(graph.C)]
    train = np.concatenate(of_class)
    rest = order[~np.isin(order, train)]
    asked = validation + (1 if test is None else test)
    if len(rest) < asked:
        raise SplitError(
            f"{graph.name}: {validation} validation and {test or 'some'} test nodes were asked "
            f"for, and {len(rest)} labelled nodes are left beside {len(train)} training nodes; "
            "ask for fewer."
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
    random = np.random.default_rng(seed)
    order = random.permutation(np.flatnonzero(graph.labels != UNKNOWN))
    size = int(share * len(order))
    if size < 1:
        raise SplitError(
            f"{graph.name}: a share of {share} of {len(order)} labelled nodes is not one node; "
            "a full-supervised split needs more labels or a larger share."
        )
    return Split(np.sort(order[2 * size :]), np.sort(order[:size]), np.sort(order[size : 2 * size]))


def glnn_split(graph: Graph, setting: str, seed: int) -> Split:
    """Draw 20 training and 30 validation nodes a class; the rest are test nodes.

    In the setting 'production' a fifth of these is hidden in training and is the test set.

    Examples
    --------
    >>> graph = datasets.load_dataset("digits")
    >>> [len(glnn_split(graph, setting, seed=0).test) for setting in PROTOCOLS["glnn"]]
    [1297, 259]
    """
    check_names("setting", [setting], PROTOCOLS["glnn"])
    random = np.random.default_rng(seed)
    order = random.permutation(np.flatnonzero(graph.labels != UNKNOWN))
    of_class = [order[graph.labels[order] == c] for c in range(graph.C)]
    few = [graph.classes[c] for c, nodes in enumerate(of_class) if len(nodes) <= 50]
    if few:
        raise SplitError(
            f"{graph.name}: 20 training, 30 validation and some test nodes are needed of each "
            f"class; found 50 or fewer of {', '.join(few)}."
        )
    train = np.concatenate([nodes[:20] for nodes in of_class])
    validation = np.concatenate([nodes[20:50] for nodes in of_class])
    rest = order[~np.isin(order, np.r_[train, validation])]
    test = rest[: len(rest) // 5] if setting == "production" else rest
    return Split(np.sort(train), np.sort(validation), np.sort(test))


def named_split(graph: Graph, setting: str, seed: int, data: str | Path | None = None) -> Split:
    """The split that the paper, or this project for `digits`, uses on a named graph.

    Parameters
    ----------
    graph : Graph
        As `datasets.load_dataset` gave it.
    setting : {'inductive', 'transductive', 'full-supervised'}
        Full-supervised has a split of its own; the other two share one.
    seed : int
        Of the draw, where the split is not a public one.
    data : path, optional
        Where the raw files are; the public split is read from them.

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
        # Were all the rest test nodes, the inductive setting would hide every unlabelled one.
        test = 500 if setting == "inductive" else None
        return semi_supervised(graph, seed, per_class=2, validation=300, test=test)
    return semi_supervised(graph, seed)


def held_out(labels: IntArray, share: float, seed: int) -> Split:
    """Hold out a share of each class's labelled nodes, never all of them, to choose the epoch by.

    Examples
    --------
    >>> split = held_out(np.array([0] * 10 + [1] * 10 + [-1] * 5), share=0.2, seed=0)
    >>> len(split.train), len(split.validation), len(split.test)
    (16, 4, 0)
    """
    random, held = np.random.default_rng(seed), [np.array([], dtype=np.int64)]
    for c in range(labels.max(initial=UNKNOWN) + 1):
        nodes = random.permutation(np.flatnonzero(labels == c))
        held.append(nodes[: min(round(share * len(nodes)), max(len(nodes) - 1, 0))])
    return keep_aside(labels, np.concatenate(held))


def keep_aside(labels: IntArray, validation: IntArray) -> Split:
    """The split that trains on all labelled nodes but those named, and tests on none.

    Examples
    --------
    >>> keep_aside(np.array([0, 1, -1, 0]), np.array([3, 2])).validation
    array([3])
    """
    known = np.flatnonzero(labels != UNKNOWN)
    held = np.intersect1d(known, validation)
    return Split(np.setdiff1d(known, held), held, np.array([], dtype=np.int64))
