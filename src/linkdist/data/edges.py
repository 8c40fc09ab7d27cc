"""Convert links from arrays, sparse matrices and NetworkX graphs to pairs of row numbers.

If nodes have names, `nodes` contains the name of every row, and links refer to these names. Links
to nodes without a row are skipped, so that a subset of the nodes (for example a fold of a
cross-validation) keeps the links between them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist.errors import GraphError

if TYPE_CHECKING:
    from linkdist.data.graph import IntArray  # which imports this module

Integer = TypeVar("Integer", bound=np.integer[Any])


def as_links(edges: Any, n: int, nodes: Sequence[Hashable] | None = None) -> IntArray:  # noqa: ANN401
    """Convert links to the form that `Graph.build` takes.

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


def _from_matrix(matrix: sparse.spmatrix, n: int) -> IntArray:
    if matrix.shape != (n, n):
        raise GraphError(
            f"an adjacency matrix must have one row and one column per node, {n} by {n}; "
            f"found {matrix.shape[0]} by {matrix.shape[1]}."
        )
    entries = matrix.tocoo()
    there = entries.data != 0
    return np.stack([entries.row[there], entries.col[there]], axis=1).astype(np.int64)


def _pairs(edges: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    if hasattr(edges, "nodes") and hasattr(edges, "edges"):
        edges = [(a, b) for a, b, *_ in edges.edges]
    pairs = edges if isinstance(edges, np.ndarray) else _as_array(edges)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim == 2 and pairs.shape[0] == 2 and pairs.shape[1] != 2:
        pairs = pairs.T
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise GraphError(f"links must be pairs, (m, 2) or (2, m); found shape {pairs.shape}.")
    return pairs


def _as_array(edges: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    try:
        return np.asarray(edges)
    except ValueError as error:
        raise GraphError(f"links must be pairs, (m, 2) or (2, m): {error}.") from error


def _as_rows(pairs: npt.NDArray[Any]) -> IntArray:
    if np.issubdtype(pairs.dtype, np.integer):
        return pairs.astype(np.int64)
    whole = np.issubdtype(pairs.dtype, np.floating) and bool((pairs == np.floor(pairs)).all())
    if whole:
        return pairs.astype(np.int64)
    raise GraphError(
        f"links must be pairs of row numbers; found {pairs.dtype}, such as {pairs.flat[0]!r}. "
        "If nodes have names, pass the name of each row with nodes=."
    )
