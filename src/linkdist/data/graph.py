"""A graph: the features, links and labels of its nodes.

A graph has n nodes with d features each, m links and C classes. `Graph.links` contains each link
once; `Graph.edges` contains both directions of each link, and each self-loop once. Links may have
relations, weights and a direction (`linkdist.data.links`).

The label of a node is a class, a number to predict (regression), or several classes of which any
number is right (multilabel).

Features are a dense array or a CSR matrix. Bags of words are mostly zeros, so a CSR matrix is never
converted to a dense one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from linkdist.data import sparse
from linkdist.data.csr import check_indices
from linkdist.data.links import LINKS, Edges, Links
from linkdist.data.links import FloatArray as FloatArray
from linkdist.data.links import IntArray as IntArray
from linkdist.errors import GraphError

FeatureMatrix: TypeAlias = "FloatArray | sparse.csr_matrix"
Labels: TypeAlias = npt.NDArray[Any]
"""(n,) int64 classes, (n,) float64 numbers, or an (n, C) int64 array of 0 and 1."""

UNKNOWN = -1
"""The label of a node with an unknown class."""

TASKS = ("classification", "regression", "multilabel")


def known_labels(labels: Labels) -> npt.NDArray[np.bool_]:
    """Which nodes (n,) have a known label.

    Examples
    --------
    >>> known_labels(np.array([2, UNKNOWN])), known_labels(np.array([0.5, np.nan]))
    (array([ True, False]), array([ True, False]))
    >>> known_labels(np.array([[1, 0], [UNKNOWN, UNKNOWN]]))
    array([ True, False])
    """
    if labels.dtype.kind == "f":
        return ~np.isnan(labels)
    known: npt.NDArray[np.bool_] = labels != UNKNOWN
    return np.asarray(known.all(axis=1)) if known.ndim == 2 else known


def without_labels(labels: Labels, nodes: npt.NDArray[Any]) -> Labels:
    """A copy of labels in which some nodes, given by a mask or their numbers, have none.

    Examples
    --------
    >>> without_labels(np.array([2.0, 3.0]), np.array([1]))
    array([ 2., nan])
    """
    labels = labels.copy()
    labels[nodes] = np.nan if labels.dtype.kind == "f" else UNKNOWN
    return labels


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes with features, links and labels.

    Create a graph with `Graph.build`, which checks its arguments; the constructor does not. Two
    graphs are equal only if they are the same object.

    Attributes
    ----------
    features : (n, d) float32 array or CSR matrix
        x, one row per node.
    links : (m, 2) int64 array
        Each link once, sorted; undirected links have their smaller node first.
    labels : (n,) int64 array, (n,) float64 array or (n, C) int64 array
        y: classes from 0 to C - 1 or `UNKNOWN`; for regression, numbers or NaN; for multilabel, 1
        for each class of a node and 0 for the others, or `UNKNOWN` in the whole row.
    classes : tuple of str
        Names of the C classes; for regression, the name of the number.
    name : str
        Name of the graph in tables.
    label_weights : (n,) float32 array, optional
        How much the label of each node counts; by default all count alike.
    task : {'classification', 'regression', 'multilabel'}
        What the labels are.
    link_relation : (m,) int64 array, optional
        The position of each link's relation in `relations`.
    link_weights : (m,) float32 array, optional
        Positive weights of the links.
    relations : tuple of str
        Names of the relations.
    directed : bool
        Whether links have a direction.
    groups : (n,) int64 array, optional
        The number of the graph that each node belongs to, if there are several.
    """

    features: FeatureMatrix
    links: IntArray
    labels: Labels
    classes: tuple[str, ...]
    name: str = "graph"
    label_weights: FloatArray | None = None
    task: str = "classification"
    link_relation: IntArray | None = None
    link_weights: FloatArray | None = None
    relations: tuple[str, ...] = LINKS
    directed: bool = False
    groups: IntArray | None = None

    @classmethod
    def build(
        cls,
        features: npt.ArrayLike | sparse.csr_matrix,
        edges: npt.ArrayLike | Links,
        labels: npt.ArrayLike,
        classes: tuple[str, ...] | None = None,
        name: str = "graph",
        *,
        task: str = "classification",
        groups: IntArray | None = None,
    ) -> Graph:
        """Create a graph from arrays, and check them.

        Parameters
        ----------
        features : (n, d) array or sparse matrix
            Finite numbers.
        edges : (e, 2) array of int, or Links
            Pairs of linked nodes, in any order and direction; duplicates are merged.
        labels : array
            The labels in the form that `Graph` describes.
        classes : tuple of str, optional
            Names of the classes; by default their numbers, of which each must occur.
        name : str, optional
            Name of the graph in tables.
        task : {'classification', 'regression', 'multilabel'}
            What the labels are.
        groups : (n,) array of int, optional
            The number of the graph that each node belongs to.

        Raises
        ------
        GraphError
            Lists all problems of the arrays.

        Examples
        --------
        >>> graph = Graph.build([[1.0], [0.0], [2.0]], [(1, 0), (0, 1), (2, 2)], [0, 1, -1])
        >>> graph.links.tolist()
        [[0, 1], [2, 2]]
        >>> graph.edges.tolist()
        [[0, 1], [1, 0], [2, 2]]
        """
        x = _as_matrix(features)
        links = edges if isinstance(edges, Links) else Links(_as_pairs(edges))
        y = np.asarray(labels)
        n = x.shape[0] if x.ndim == 2 else 0
        problems = _feature_problems(x) + links.problems(n) + _problems_of(task)(y, n, classes)
        if problems:
            raise GraphError(" ".join(problems))
        if classes is None:
            classes = _numbered(y, task)
        links = links.merged(n)
        y = y.astype(np.float64 if task == "regression" else np.int64)
        return cls(
            x, links.pairs, y, classes, name, None, task, links.relation, links.weights,
            links.relations, links.directed, groups,
        )  # fmt: skip

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.features.shape[0])

    @property
    def d(self) -> int:
        """Number of features of a node."""
        return int(self.features.shape[1])

    @property
    def C(self) -> int:  # noqa: N802
        """Number of classes; 1 for regression."""
        return len(self.classes)

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the K neighbour heads: the relations or, if directed, two for each of them."""
        return self.all_links.heads

    @property
    def all_links(self) -> Links:
        """The links with their relations, weights and direction."""
        parts = (self.link_relation, self.link_weights, self.relations, self.directed)
        return Links(self.links, *parts)

    @cached_property
    def all_edges(self) -> Edges:
        """The edges with their heads and weights."""
        return self.all_links.edges()

    @property
    def edges(self) -> IntArray:
        """Both directions of each link and each self-loop once, sorted; (e, 2)."""
        return self.all_edges.pairs

    @property
    def degree(self) -> float:
        """Average degree e / n."""
        return len(self.edges) / self.n


def with_links(graph: Graph, links: Links) -> Graph:
    """A graph with other links, which are unique and sorted.

    Examples
    --------
    >>> graph = Graph.build([[1.0], [0.0]], [(0, 1)], [0, 1])
    >>> with_links(graph, Links(np.empty((0, 2), dtype=int))).degree
    0.0
    """
    return replace(
        graph,
        links=links.pairs,
        link_relation=links.relation,
        link_weights=links.weights,
        relations=links.relations,
        directed=links.directed,
    )


def largest_component(graph: Graph) -> Graph:
    """The largest connected component of a graph, without self-loops.

    Examples
    --------
    >>> graph = Graph.build(np.eye(5), [(0, 1), (2, 3), (3, 4), (4, 4)], [0, 0, 1, 1, 0])
    >>> part = largest_component(graph)
    >>> part.labels.tolist(), part.links.tolist()
    ([1, 1, 0], [[0, 1], [1, 2]])
    """
    from scipy.sparse import coo_matrix, csgraph

    ones = np.ones(len(graph.links), dtype=np.int8)
    adjacency = coo_matrix((ones, graph.links.T), (graph.n, graph.n))
    _, part = csgraph.connected_components(adjacency, directed=False)
    nodes = np.flatnonzero(part == np.bincount(part).argmax())
    links = graph.links[graph.links[:, 0] != graph.links[:, 1]]
    links = np.searchsorted(nodes, links[np.isin(links[:, 0], nodes)])
    part = replace(graph, features=graph.features[nodes], labels=graph.labels[nodes])
    return with_links(part, Links(links))


def as_features(features: npt.ArrayLike | sparse.csr_matrix, d: int) -> FeatureMatrix:
    """Check features for a model with d features, and convert them to its type.

    Examples
    --------
    >>> as_features([[1, 2], [3, 4]], d=2).dtype
    dtype('float32')
    >>> as_features([[1, 2, 3]], d=2)
    Traceback (most recent call last):
    linkdist.errors.GraphError: features must have 2 columns, as in training; found 3.
    """
    x = _as_matrix(features)
    problems = _feature_problems(x)
    if x.ndim == 2 and x.shape[1] != d:
        problems.append(f"features must have {d} columns, as in training; found {x.shape[1]}.")
    if problems:
        raise GraphError(" ".join(problems))
    return x


def stacked(parts: Sequence[FeatureMatrix]) -> FeatureMatrix:
    """Concatenate the features of several groups of nodes; CSR if any group is.

    Examples
    --------
    >>> stacked([np.eye(2, dtype=np.float32), np.ones((1, 2), dtype=np.float32)]).shape
    (3, 2)
    """
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack([sparse.csr_matrix(part) for part in parts], format="csr")
    return np.concatenate(parts)


def _as_matrix(features: npt.ArrayLike | sparse.csr_matrix) -> FeatureMatrix:
    if sparse.issparse(features):
        try:
            check_indices(features)
        except ValueError as error:
            raise GraphError(f"features are not a valid sparse matrix: {error}.") from error
        matrix = sparse.csr_matrix(features, dtype=np.float32)
        matrix.sum_duplicates()
        return matrix
    return np.ascontiguousarray(features, dtype=np.float32)


def _feature_problems(x: FeatureMatrix) -> list[str]:
    if x.ndim != 2:
        return [f"features must be a table with one row per node; found {x.ndim} dimensions."]
    if x.shape[0] == 0 or x.shape[1] == 0:
        return [f"features must have rows and columns; found shape {x.shape}."]
    values = x.data if sparse.issparse(x) else x
    bad = int((~np.isfinite(values)).sum())
    return [f"features must be finite numbers; {bad} are NaN or infinite."] if bad else []


def _as_pairs(edges: npt.ArrayLike) -> npt.NDArray[Any]:
    pairs = np.asarray(edges)
    return pairs if pairs.size else np.empty((0, 2), dtype=np.int64)


def _problems_of(task: str) -> Any:  # noqa: ANN401
    return {"regression": _number_problems, "multilabel": _set_problems}.get(task, _label_problems)


def _numbered(y: Labels, task: str) -> tuple[str, ...]:
    if task == "regression":
        return ("value",)
    count = y.shape[1] if task == "multilabel" else int(y.max(initial=-1)) + 1
    return tuple(map(str, range(count)))


def _number_problems(y: Labels, n: int, classes: tuple[str, ...] | None) -> list[str]:
    if y.shape != (n,):
        return [f"labels must have one number per node, shape ({n},); found shape {y.shape}."]
    if y.dtype.kind not in "iuf":
        return [f"labels of a regression must be numbers, NaN if unknown; found {y.dtype}."]
    infinite = int(np.isinf(y).sum())
    return [f"labels must be finite numbers; {infinite} are infinite."] if infinite else []


def _set_problems(y: Labels, n: int, classes: tuple[str, ...] | None) -> list[str]:
    C = y.shape[1] if y.ndim == 2 else 0
    if y.ndim != 2 or len(y) != n or C < 1 or len(classes or range(C)) != C:
        rule = f"labels must have a row per node and a column per class, {n} rows"
        return [f"{rule}; found shape {y.shape}."]
    if y.dtype.kind not in "iub" or not np.isin(y, (UNKNOWN, 0, 1)).all():
        return [f"labels of several classes must be 0, 1, or {UNKNOWN} if unknown."]
    partly = (y == UNKNOWN).any(axis=1) & (y != UNKNOWN).any(axis=1)
    if partly.any():
        rule = "labels must be known for all classes of a node, or for none"
        return [f"{rule}; node {int(partly.argmax())} has some, {int(partly.sum())} in total."]
    return []


def _label_problems(y: npt.NDArray[Any], n: int, classes: tuple[str, ...] | None) -> list[str]:
    if y.shape != (n,):
        return [f"labels must have one entry per node, shape ({n},); found shape {y.shape}."]
    if not np.issubdtype(y.dtype, np.integer):
        return [f"labels must be integers, {UNKNOWN} if unknown; found {y.dtype}."]
    top = len(classes) if classes is not None else np.iinfo(np.int64).max
    outside = (y < UNKNOWN) | (y >= top)
    if outside.any():
        node = int(outside.argmax())
        rule = f"labels must be {UNKNOWN} (unknown) or 0..{top - 1}"
        return [f"{rule}; node {node} has {y[node]}, {int(outside.sum())} in total."]
    found = np.unique(y[y != UNKNOWN])
    if classes is None and len(found) and found[-1] >= len(found):
        gap = int((found != np.arange(len(found))).argmax())
        rule = f"labels must be numbered 0..{len(found) - 1} for {len(found)} classes"
        advice = "Number the classes without gaps, or pass their names with classes=."
        return [f"{rule}; no node has {gap}, and the largest label is {found[-1]}. {advice}"]
    return []
