"""A graph: the features, links and labels of its nodes.

A graph has n nodes with d features each, m undirected links and C classes. `Graph.links` contains
each link once; `Graph.edges` contains both directions of each link, and each self-loop once.

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
from scipy import sparse
from scipy.sparse import csgraph

from linkdist.data.edges import both_directions, link_keys, links_of_keys
from linkdist.errors import GraphError

FloatArray: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]
FeatureMatrix: TypeAlias = "FloatArray | sparse.csr_matrix"

UNKNOWN = -1
"""The label of a node with an unknown class."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes with features, undirected links and labels.

    Create a graph with `Graph.build`, which checks its arguments; the constructor does not. Two
    graphs are equal only if they are the same object.

    Attributes
    ----------
    features : (n, d) float32 array or CSR matrix
        x, one row per node.
    links : (m, 2) int64 array
        Each undirected link once, sorted, with the smaller node first.
    labels : (n,) int64 array
        y, from 0 to C - 1, or `UNKNOWN`.
    classes : tuple of str
        Names of the C classes.
    name : str
        Name of the graph in tables.
    """

    features: FeatureMatrix
    links: IntArray
    labels: IntArray
    classes: tuple[str, ...]
    name: str = "graph"

    @classmethod
    def build(
        cls,
        features: npt.ArrayLike | sparse.spmatrix,
        edges: npt.ArrayLike,
        labels: npt.ArrayLike,
        classes: tuple[str, ...] | None = None,
        name: str = "graph",
    ) -> Graph:
        """Create a graph from arrays, and check them.

        Parameters
        ----------
        features : (n, d) array or sparse matrix
            Finite numbers.
        edges : (e, 2) array of int
            Pairs of linked nodes, in any order and direction; duplicates are merged.
        labels : (n,) array of int
            Class numbers from 0, or -1 if unknown.
        classes : tuple of str, optional
            Names of the classes; by default their numbers, of which each must occur.
        name : str, optional
            Name of the graph in tables.

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
        pairs = np.asarray(edges)
        y = np.asarray(labels)
        if pairs.size == 0:
            pairs = np.empty((0, 2), dtype=np.int64)
        problems = [
            *_feature_problems(x),
            *_edge_problems(pairs, x.shape[0] if x.ndim == 2 else 0),
            *_label_problems(y, x.shape[0] if x.ndim == 2 else 0, classes),
        ]
        if problems:
            raise GraphError(" ".join(problems))
        if classes is None:
            classes = tuple(str(c) for c in range(int(y.max(initial=-1)) + 1))
        return cls(x, _unique_links(pairs, x.shape[0]), y.astype(np.int64), classes, name)

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
        """Number of classes."""
        return len(self.classes)

    @cached_property
    def edges(self) -> IntArray:
        """Both directions of each link and each self-loop once, sorted; (e, 2)."""
        both = both_directions(self.links)
        return both[np.lexsort((both[:, 1], both[:, 0]))]

    @property
    def degree(self) -> float:
        """Average degree e / n."""
        return len(self.edges) / self.n


def largest_component(graph: Graph) -> Graph:
    """The largest connected component of a graph, without self-loops.

    Examples
    --------
    >>> graph = Graph.build(np.eye(5), [(0, 1), (2, 3), (3, 4), (4, 4)], [0, 0, 1, 1, 0])
    >>> part = largest_component(graph)
    >>> part.labels.tolist(), part.links.tolist()
    ([1, 1, 0], [[0, 1], [1, 2]])
    """
    ones = np.ones(len(graph.links), dtype=np.int8)
    adjacency = sparse.coo_matrix((ones, graph.links.T), (graph.n, graph.n))
    _, part = csgraph.connected_components(adjacency, directed=False)
    nodes = np.flatnonzero(part == np.bincount(part).argmax())
    links = graph.links[graph.links[:, 0] != graph.links[:, 1]]
    links = links[np.isin(links[:, 0], nodes)]
    return replace(
        graph,
        features=graph.features[nodes],
        links=np.searchsorted(nodes, links),
        labels=graph.labels[nodes],
    )


def as_features(features: npt.ArrayLike | sparse.spmatrix, d: int) -> FeatureMatrix:
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


def _as_matrix(features: npt.ArrayLike | sparse.spmatrix) -> FeatureMatrix:
    if sparse.issparse(features):
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


def _edge_problems(pairs: npt.NDArray[Any], n: int) -> list[str]:
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        return [f"links must be pairs, shape (e, 2); found shape {pairs.shape}."]
    if not np.issubdtype(pairs.dtype, np.integer):
        return [f"links must be pairs of row numbers; found {pairs.dtype}."]
    outside = ((pairs < 0) | (pairs >= n)).any(axis=1)
    if not outside.any():
        return []
    row = int(outside.argmax())
    found = f"link {row} is {pairs[row].tolist()}"
    return [f"links must be pairs of nodes 0..{n - 1}; {found}, {int(outside.sum())} in total."]


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


def _unique_links(pairs: npt.NDArray[Any], n: int) -> IntArray:
    """Each undirected link once, sorted, with the smaller node first."""
    keys = link_keys(pairs.astype(np.int64), n)
    if not (keys[1:] > keys[:-1]).all():  # tables and stores have unique links already
        keys = np.unique(keys)
    return links_of_keys(keys, n)
