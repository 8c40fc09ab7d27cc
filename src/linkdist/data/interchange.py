"""Read links from arrays and from the objects of graph libraries, which need not be installed.

============================= ================= ======================= ============================
object                        directed          weights                 relations
============================= ================= ======================= ============================
pairs (m, 2) or (2, m)        if asked          if given                if given
SciPy matrix (n, n)           if asked          its values, if asked    if given
NetworkX graph                as the graph is   'weight'                an attribute; keys of text
PyG `Data`, `HeteroData`      if asked          'edge_weight'           'edge_type'; the edge types
DGL graph                     if asked          'weight' or 'w'         the edge types
mapping of names to these     as its values     as its values           the names
============================= ================= ======================= ============================

PyG, DGL and SciPy store an undirected link as two edges, and a graph of which some edges have no
counterpart may be either. So links are directed only if NetworkX or the user says so. In undirected
links, the two edges are one link, and their weights are added up.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linkdist.data.link_readers import Asked, Found, read_edges
from linkdist.data.links import LINKS, IntArray, Links, weight_problems
from linkdist.errors import GraphError


def as_links(
    edges: Any,  # noqa: ANN401
    n: int,
    nodes: Sequence[Hashable] | None = None,
    *,
    relation: Any = None,  # noqa: ANN401
    edge_weight: Any = None,  # noqa: ANN401
    directed: bool | None = None,
    relations: Sequence[str] | None = None,
) -> Links:
    """Convert links to the form that `Graph.build` takes.

    If nodes have names, links to nodes without a row are skipped, so that a subset of the nodes
    (for example a fold of a cross-validation) keeps the links between them.

    Parameters
    ----------
    edges : array, matrix, graph, mapping or Links
        Pairs of linked nodes as an array, list or tensor of shape (m, 2) or (2, m), where the rows
        of a 2 by 2 array are two links; an (n, n) SciPy matrix whose non-zeros are links; an object
        of NetworkX, PyTorch Geometric or DGL; a mapping of the names of relations to these; or
        `Links`.
    n : int
        Number of nodes.
    nodes : sequence of hashable, optional
        The name of each row, to which links refer; by default the row numbers.
    relation : (m,) array or str, optional
        The name of the relation of each link, or of the edge attribute with these names ('key' for
        the keys of a NetworkX multigraph). False ignores the relations of an object.
    edge_weight : (m,) array, str or bool, optional
        Positive weights of the links, or the name of the edge attribute with these weights; True
        for the values of a SciPy matrix. For a mapping, it may be a mapping too. False ignores the
        weights of an object.
    directed : bool, optional
        Whether links lead from the first node to the second; by default only those of a directed
        NetworkX graph do.
    relations : sequence of str, optional
        The relations of a trained model. Others are errors; not all of them need links.

    Raises
    ------
    GraphError
        Lists all problems of the links.

    Examples
    --------
    >>> as_links([[0, 1, 2], [1, 2, 0]], n=3).pairs.tolist()
    [[0, 1], [1, 2], [2, 0]]
    >>> as_links([("a", "b"), ("b", "x")], n=2, nodes=["a", "b"]).pairs.tolist()
    [[0, 1]]
    >>> from scipy.sparse import eye
    >>> as_links(eye(2), n=2).pairs.tolist()
    [[0, 0], [1, 1]]
    >>> typed = as_links({"cites": [(0, 1)], "knows": [(1, 2)]}, n=3, edge_weight={"knows": [2.0]})
    Traceback (most recent call last):
    linkdist.errors.GraphError: either all relations have weights or none; 'cites' has none.
    >>> typed = as_links([(0, 1), (1, 2)], n=3, relation=["cites", "knows"], edge_weight=[1, 2])
    >>> typed.relations, typed.relation.tolist(), typed.weights.tolist()
    (('cites', 'knows'), [0, 1], [1.0, 2.0])
    """
    found = read_edges(edges, n, Asked(relation, edge_weight, directed))
    problems = _problems(found)
    pairs, kept = np.empty((0, 2), dtype=np.int64), None
    try:
        pairs, kept = _row_numbers(found.pairs, n, nodes)
        problems += Links(pairs).problems(n)
    except GraphError as error:
        problems.append(str(error))
    if problems:
        raise GraphError(" ".join(problems))
    every = slice(None) if kept is None else kept
    codes = None if found.relation is None else found.relation[every]
    codes, names = _numbered(codes, found.relations, len(pairs), relations)
    weights = None if found.weights is None else found.weights[every].astype(np.float32)
    return Links(pairs, codes, weights, names, bool(found.directed))


def links_with_loops(links: Links | None, n: int) -> Links:
    """Links between n nodes, with a self-loop for every node without one, so that it is trained.

    Examples
    --------
    >>> links_with_loops(None, 2).pairs.tolist()
    [[0, 0], [1, 1]]
    """
    return (links or Links(np.empty((0, 2), dtype=np.int64))).with_own_loops(n)


def _problems(found: Found) -> list[str]:
    """What is wrong with the weights and relations of links, before any of them is skipped."""
    m, problems = len(found.pairs), list(found.problems)
    if found.weights is not None:
        narrow = found.weights
        if narrow.dtype.kind == "f":  # a tiny number is 0 in the precision of training
            with np.errstate(over="ignore"):
                narrow = narrow.astype(np.float32)
        problems += weight_problems(narrow, m)
    if found.relation is None:
        return problems
    if len(found.relation) != m:
        count = len(found.relation)
        problems.append(f"there must be one relation for each link, {m}; found {count}.")
    used = tuple(found.relations[i] for i in np.unique(found.relation)) or LINKS
    none = np.empty(0, dtype=np.int64)
    return problems + Links(none.reshape(0, 2), none, relations=used).problems(0)


def _numbered(
    codes: IntArray | None, names: tuple[str, ...], m: int, known: Sequence[str] | None
) -> tuple[IntArray | None, tuple[str, ...]]:
    """The relation of each link among the known ones, or among those that have links."""
    used = [0] if codes is None else np.unique(codes).tolist()
    if known is None:
        # A relation without links cannot be trained.
        kept = tuple(names[i] for i in used) or names[:1]
        if codes is None or len(kept) == 1:
            return None, kept
        return np.searchsorted(used, codes), kept
    known = tuple(known)
    named = [] if names == LINKS or not m else [names[i] for i in used]
    _check_known(named, known, m)
    if len(known) == 1:
        return None, known
    order = np.array([known.index(name) if name in known else 0 for name in names])
    return order[np.zeros(m, dtype=np.int64) if codes is None else codes], known


def _check_known(named: Sequence[str], known: tuple[str, ...], m: int) -> None:
    """Raise a GraphError if links have no relation of a model, or one that it does not have."""
    if named and known == LINKS:
        rule = "the model was trained without relations"
        raise GraphError(f"{rule}; found {_listed(named)}. Pass relation=False to merge them.")
    if unseen := [name for name in named if name not in known]:
        rule = f"links must have relations of the training, {', '.join(known)}"
        raise GraphError(f"{rule}; found {_listed(unseen)}. Leave these links out.")
    if m and not named and len(known) > 1:
        rule = f"links need their relation, one of {', '.join(known)}"
        raise GraphError(f"{rule}; found links without. Pass it with relation=.")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _row_numbers(
    pairs: npt.NDArray[Any], n: int, nodes: Sequence[Hashable] | None
) -> tuple[IntArray, npt.NDArray[np.bool_] | None]:
    """Pairs of row numbers (m', 2), and which of the m links they are, if not all."""
    if nodes is None:
        return _as_rows(pairs), None
    if len(nodes) != n:
        raise GraphError(
            f"nodes must contain a name for each row; found {len(nodes)} names for {n} rows."
        )
    row = {name: i for i, name in enumerate(nodes)}
    if len(row) != n:
        raise GraphError(f"nodes must have different names; {n - len(row)} of {n} are duplicates.")
    ends = pairs.tolist()
    kept = np.array([a in row and b in row for a, b in ends], dtype=bool)
    if len(ends) and not kept.any():
        warnings.warn(
            f"None of the {len(ends)} links joins two rows. Links must refer to rows by their "
            f"names, such as {nodes[0]!r}; the first link is {tuple(ends[0])!r}.",
            stacklevel=3,
        )
    known = [(row[a], row[b]) for (a, b), keep in zip(ends, kept, strict=True) if keep]
    return np.array(known, dtype=np.int64).reshape(-1, 2), kept


def _as_rows(pairs: npt.NDArray[Any]) -> IntArray:
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    rows = np.array(pairs.tolist()) if pairs.dtype.kind == "O" else pairs
    kind = rows.dtype.kind
    if rows.ndim != 2 or kind not in "iuf" or (kind == "f" and (rows != np.floor(rows)).any()):
        raise GraphError(
            f"links must be pairs of row numbers; found {pairs[0, 0]!r}. If nodes have names, pass "
            "the name of each row with nodes=."
        )
    return rows.astype(np.int64)
