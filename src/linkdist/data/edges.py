"""Links in whatever form they come: arrays, sparse matrices, NetworkX graphs.

All become an (m, 2) array of row numbers. Where nodes have names of their own, `nodes` gives the
name of every row, and links speak of names; a link that names a node without a row is left out,
so that a part of the nodes (a fold of a cross-validation, say) comes with the links among them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist.data.graph import IntArray
from linkdist.errors import GraphError


def as_links(edges: Any, n: int, nodes: Sequence[Hashable] | None = None) -> IntArray:  # noqa: ANN401
    """Bring links into the form that `Graph.build` takes.

    Parameters
    ----------
    edges : array, sparse matrix or NetworkX graph
        Pairs of linked nodes, (m, 2) or (2, m), a list of pairs or a tensor; an (n, n) SciPy
        matrix whose non-zeros are links; or anything with the `nodes` and `edges` of a NetworkX
        graph. Four numbers, 2 by 2, are two links, a row each.
    n : int
        Number of nodes.
    nodes : sequence of hashable, optional
        Each row's name, in which links are given; by default rows are named 0 to n - 1.

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
        raise GraphError(f"nodes must name every row; found {len(nodes)} names for {n} rows.")
    row = {name: i for i, name in enumerate(nodes)}
    if len(row) != n:
        raise GraphError(f"nodes must have different names; {n - len(row)} of {n} come twice.")
    known = [(row[a], row[b]) for a, b in pairs.tolist() if a in row and b in row]
    return np.array(known, dtype=np.int64).reshape(-1, 2)


def with_own_loops(links: IntArray, n: int) -> IntArray:
    """Links, and a self-loop at every node without one, so that training on links sees it too.

    Examples
    --------
    >>> with_own_loops(np.array([[0, 2]]), n=4).tolist()
    [[0, 2], [1, 1], [3, 3]]
    """
    alone = np.setdiff1d(np.arange(n), links)
    return np.concatenate([links, np.stack([alone, alone], axis=1)])


def _from_matrix(matrix: sparse.spmatrix, n: int) -> IntArray:
    if matrix.shape != (n, n):
        raise GraphError(
            f"an adjacency matrix must be {n} by {n}, a row and a column a node; "
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
        f"links must name rows by whole numbers; found {pairs.dtype}, such as {pairs.flat[0]!r}. "
        "Where nodes have names, give each row's with nodes=."
    )
