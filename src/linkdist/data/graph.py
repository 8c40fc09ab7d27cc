"""A graph: the features, links and labels of its nodes.

A graph has n nodes with d features each, m undirected links and C classes. `Graph.links` contains
each link once; `Graph.edges` contains both directions of each link, and each self-loop once.
`as_links` reads links from arrays, sparse matrices and NetworkX graphs.

Features are a dense array or a CSR matrix. Bags of words are mostly zeros, so a CSR matrix is never
converted to a dense one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from linkdist.errors import GraphError

FloatArray: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]
FeatureMatrix: TypeAlias = "FloatArray | sparse.csr_matrix"

Integer = TypeVar("Integer", bound=np.integer[Any])

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
    label_weights : (n,) float32 array, optional
        How much the label of each node counts; by default all count alike.
    """

    features: FeatureMatrix
    links: IntArray
    labels: IntArray
    classes: tuple[str, ...]
    name: str = "graph"
    label_weights: FloatArray | None = None

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
        n = x.shape[0] if x.ndim == 2 else 0
        problems = _feature_problems(x) + _edge_problems(pairs, n) + _label_problems(y, n, classes)
        if problems:
            raise GraphError(" ".join(problems))
        if classes is None:
            classes = tuple(str(c) for c in range(int(y.max(initial=-1)) + 1))
        return cls(x, _unique_links(pairs, n), y.astype(np.int64), classes, name)

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
    links = np.searchsorted(nodes, links[np.isin(links[:, 0], nodes)])
    return replace(graph, features=graph.features[nodes], links=links, labels=graph.labels[nodes])


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


def as_links(edges: Any, n: int, nodes: Sequence[Hashable] | None = None) -> IntArray:  # noqa: ANN401
    """Convert links to the form that `Graph.build` takes.

    If nodes have names, links to nodes without a row are skipped, so that a subset of the nodes
    (for example a fold of a cross-validation) keeps the links between them.

    Parameters
    ----------
    edges : array, sparse matrix or NetworkX graph
        Pairs of linked nodes as an array, list or tensor of shape (m, 2) or (2, m); an (n, n) SciPy
        matrix whose non-zeros are links; or an object with the `nodes` and `edges` of a NetworkX
        graph. The rows of a 2 by 2 array are two links.
    n : int
        Number of nodes.
    nodes : sequence of hashable, optional
        The name of each row, to which links refer; by default the row numbers.

    Examples
    --------
    >>> as_links([[0, 1, 2], [1, 2, 0]], n=3).tolist()
    [[0, 1], [1, 2], [2, 0]]
    >>> as_links([("a", "b"), ("b", "x")], n=2, nodes=["a", "b"]).tolist()
    [[0, 1]]
    >>> as_links(sparse.eye(2), n=2).tolist()
    [[0, 0], [1, 1]]
    """
    if sparse.issparse(edges):
        return _from_matrix(edges, n)
    pairs = _pairs(edges)
    if nodes is None:
        return _as_rows(pairs)
    if len(nodes) != n:
        raise GraphError(
            f"nodes must contain a name for each row; found {len(nodes)} names for {n} rows."
        )
    row = {name: i for i, name in enumerate(nodes)}
    if len(row) != n:
        raise GraphError(f"nodes must have different names; {n - len(row)} of {n} are duplicates.")
    known = [(row[a], row[b]) for a, b in pairs.tolist() if a in row and b in row]
    return np.array(known, dtype=np.int64).reshape(-1, 2)


def with_own_loops(links: IntArray, n: int) -> IntArray:
    """Add a self-loop to every node without a link, so that training on links includes it.

    Sorted links stay sorted.

    Examples
    --------
    >>> with_own_loops(np.array([[0, 2]]), n=4).tolist()
    [[0, 2], [1, 1], [3, 3]]
    """
    linked = np.zeros(n, dtype=bool)
    linked[links] = True
    alone = np.flatnonzero(~linked)
    places = np.searchsorted(links[:, 0], alone)
    return np.insert(links, places, np.stack([alone, alone], axis=1), axis=0)


def both_directions(links: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """Directed edges in both directions of each link; a self-loop is one edge.

    Parameters
    ----------
    links : (m, 2) integer array
        Undirected links.

    Examples
    --------
    >>> both_directions(np.array([[0, 1], [2, 2]])).tolist()
    [[0, 1], [2, 2], [1, 0]]
    """
    back = links[links[:, 0] != links[:, 1], ::-1]
    return np.concatenate([links, back])


def link_keys(pairs: IntArray, n: int) -> IntArray:
    """One number for each undirected link between n nodes, the same for both directions.

    Examples
    --------
    >>> link_keys(np.array([[0, 1], [1, 0], [2, 2]]), n=3).tolist()
    [1, 1, 8]
    """
    low, high = np.sort(pairs, axis=1).T
    keys: IntArray = low * n + high
    return keys


def links_of_keys(keys: IntArray, n: int) -> IntArray:
    """The links of `link_keys`, with the smaller node first.

    Examples
    --------
    >>> links_of_keys(np.array([1, 8]), n=3).tolist()
    [[0, 1], [2, 2]]
    """
    return np.stack(np.divmod(keys, max(n, 1)), axis=1)


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


def _from_matrix(matrix: sparse.spmatrix, n: int) -> IntArray:
    if matrix.shape != (n, n):
        raise GraphError(
            f"an adjacency matrix must have one row and one column per node, {n} by {n}; "
            f"found {matrix.shape[0]} by {matrix.shape[1]}."
        )
    return np.stack(matrix.nonzero(), axis=1).astype(np.int64)


def _pairs(edges: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    if hasattr(edges, "nodes") and hasattr(edges, "edges"):
        edges = [(a, b) for a, b, *_ in edges.edges]
    try:
        pairs = np.asarray(edges)
    except ValueError as error:
        raise GraphError(f"links must be pairs, (m, 2) or (2, m): {error}.") from error
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim == 2 and pairs.shape[0] == 2 and pairs.shape[1] != 2:
        pairs = pairs.T
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise GraphError(f"links must be pairs, (m, 2) or (2, m); found shape {pairs.shape}.")
    return pairs


def _as_rows(pairs: npt.NDArray[Any]) -> IntArray:
    kind = pairs.dtype.kind
    if kind not in "iuf" or (kind == "f" and (pairs != np.floor(pairs)).any()):
        raise GraphError(
            f"links must be pairs of row numbers; found {pairs.dtype}, such as {pairs.flat[0]!r}. "
            "If nodes have names, pass the name of each row with nodes=."
        )
    return pairs.astype(np.int64)
