"""Links: pairs of nodes with an optional relation and weight, directed or not.

A link of relation r joins two nodes. Training and prediction use edges, which are the directions of
the links: an edge (i, j) of head h says that j is a neighbour of i. An undirected link is two edges
of the head r. A directed link a → b is an edge (a, b) of the head 2 r, 'out', and an edge (b, a) of
the head 2 r + 1, 'in': the nodes that a points to and the nodes that point to b may tell different
things. The network has a neighbour head for each.

`linkdist.data.interchange` reads links from arrays and from the objects of graph libraries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]

Integer = TypeVar("Integer", bound=np.integer[Any])

LINKS = ("links",)
"""The name of the relation of links that have none."""
MOST_RELATIONS = 20


class Edges(NamedTuple):
    """Directed edges.

    Attributes
    ----------
    pairs : (e, 2) int64 array
        A node and its neighbour.
    heads : (e,) int64 array, optional
        The neighbour head of each edge; by default the only one.
    weights : (e,) float32 array, optional
        The weight of each edge; by default all are equal.
    """

    pairs: IntArray
    heads: IntArray | None = None
    weights: FloatArray | None = None

    def take(self, rows: npt.NDArray[Any]) -> Edges:
        """Some of the edges, by a mask or their indices."""
        heads, weights = (None if part is None else part[rows] for part in self[1:])
        return Edges(self.pairs[rows], heads, weights)

    def between(self, visible: npt.NDArray[np.bool_]) -> Edges:
        """The edges between visible nodes, given by a mask (n,)."""
        return self.take(visible[self.pairs[:, 0]] & visible[self.pairs[:, 1]])

    def of_head(self, head: int) -> Edges:
        """The edges of one head, without their heads."""
        if self.heads is None:
            return self
        return self.take(self.heads == head)._replace(heads=None)


def reverse_head(head: int, directed: bool) -> int:
    """The head of the other direction of an edge.

    Examples
    --------
    >>> reverse_head(2, directed=True), reverse_head(2, directed=False)
    (3, 2)
    """
    return head ^ 1 if directed else head


@dataclass(frozen=True, eq=False)
class Links:
    """Links of one or more relations.

    Attributes
    ----------
    pairs : (m, 2) int array
        The two nodes of each link; of a directed link, first the node that it starts from.
    relation : (m,) int array, optional
        The position of each link's relation in `relations`.
    weights : (m,) array, optional
        Positive numbers; by default all links weigh the same.
    relations : tuple of str
        Names of the relations.
    directed : bool
        Whether the links have a direction.

    Examples
    --------
    >>> links = Links(np.array([[0, 1], [1, 2]]), np.array([0, 1]), relations=("cites", "knows"))
    >>> links.heads
    ('cites', 'knows')
    >>> replace(links, directed=True).heads
    ('cites (out)', 'cites (in)', 'knows (out)', 'knows (in)')
    """

    pairs: IntArray
    relation: IntArray | None = None
    weights: FloatArray | None = None
    relations: tuple[str, ...] = LINKS
    directed: bool = False

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the neighbour heads that the links train."""
        if not self.directed:
            return self.relations
        return tuple(f"{name} ({way})" for name in self.relations for way in ("out", "in"))

    def take(self, rows: npt.NDArray[Any]) -> Links:
        """Some of the links, by a mask or their indices."""
        relation = None if self.relation is None else self.relation[rows]
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, pairs=self.pairs[rows], relation=relation, weights=weights)

    def joined(self, others: Links, shift: int) -> Links:
        """These links and those between other nodes, whose numbers start at `shift`.

        Examples
        --------
        >>> one = Links(np.array([[0, 1]]))
        >>> one.joined(one, 2).pairs.tolist()
        [[0, 1], [2, 3]]
        """

        def both(first: Any, second: Any) -> Any:  # noqa: ANN401
            return None if first is None else np.concatenate([first, second])

        return replace(
            self,
            pairs=np.concatenate([self.pairs, others.pairs + shift]),
            relation=both(self.relation, others.relation),
            weights=both(self.weights, others.weights),
        )

    def problems(self, n: int) -> list[str]:
        """What is wrong with links between n nodes, in sentences."""
        problems = _pair_problems(self.pairs, n)
        if problems:
            return problems
        m, K = len(self.pairs), len(self.relations)
        if not 1 <= K <= MOST_RELATIONS or len(set(self.relations)) != K:
            rule = f"there must be 1 to {MOST_RELATIONS} relations with different names"
            shown = ", ".join(self.relations[:5]) + ", ..." * (K > 5)
            problems.append(f"{rule}; found {K}: {shown}. Merge relations, or leave them out.")
        if self.relation is not None:
            problems += _relation_problems(self.relation, m, K)
        elif K > 1:
            problems.append(f"links need their relation, one of {', '.join(self.relations)}.")
        if self.weights is not None:
            problems += weight_problems(np.asarray(self.weights), m)
        return problems

    def merged(self, n: int) -> Links:
        """Each link once and sorted; the weights of duplicates are added up.

        Undirected links have their smaller node first.

        Examples
        --------
        >>> Links(np.array([[1, 0], [0, 1]]), weights=np.array([1.0, 2.0])).merged(2).weights
        array([3.], dtype=float32)
        """
        keys = self.keys(n)
        if self.weights is None and (keys[1:] > keys[:-1]).all():
            found, weights = keys, None  # tables and stores have unique links already
        elif self.weights is None:
            found, weights = np.unique(keys), None
        else:
            found, places = np.unique(keys, return_inverse=True)
            weights = np.bincount(places, self.weights, len(found)).astype(np.float32)
        relation = None if self.relation is None else found // max(n * n, 1)
        return replace(self, pairs=links_of_keys(found, n), relation=relation, weights=weights)

    def keys(self, n: int) -> IntArray:
        """One number for each different link between n nodes."""
        pairs = self.pairs.astype(np.int64)
        keys = pairs[:, 0] * n + pairs[:, 1] if self.directed else link_keys(pairs, n)
        return keys if self.relation is None else keys + self.relation.astype(np.int64) * n * n

    def edges(self) -> Edges:
        """Both directions of each link and each self-loop once, sorted.

        Examples
        --------
        >>> edges = Links(np.array([[2, 0]]), directed=True).edges()
        >>> edges.pairs.tolist(), edges.heads.tolist()
        ([[0, 2], [2, 0]], [1, 0])
        """
        back = self.pairs[:, 0] != self.pairs[:, 1]
        pairs = both_directions(self.pairs)
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        weights, heads = self.weights, self.relation
        if weights is not None:
            weights = np.concatenate([weights, weights[back]])[order]
        if self.directed:
            first = np.zeros(len(back), dtype=np.int64) if heads is None else 2 * heads
            heads = np.concatenate([first, first[back] + 1])[order]
        elif heads is not None:
            heads = np.concatenate([heads, heads[back]])[order]
        return Edges(pairs[order], heads, weights)

    def with_own_loops(self, n: int) -> Links:
        """Add a self-loop to every node without a link; see `with_own_loops`."""
        if self.relation is None and self.weights is None:
            return replace(self, pairs=with_own_loops(self.pairs, n))
        alone = _unlinked(self.pairs, n)
        pairs = np.concatenate([self.pairs, np.stack([alone, alone], axis=1)])
        relation, weights = self.relation, self.weights
        if relation is not None:
            relation = np.concatenate([relation, np.zeros(len(alone), dtype=np.int64)])
        if weights is not None:
            typical = float(weights.mean()) if len(weights) else 1.0
            weights = np.concatenate([weights, np.full(len(alone), typical, dtype=np.float32)])
        return replace(self, pairs=pairs, relation=relation, weights=weights).merged(n)


def weight_problems(weights: npt.NDArray[Any], m: int) -> list[str]:
    """What is wrong with the weights of m links, in sentences.

    Examples
    --------
    >>> weight_problems(np.array([1.0, 0.0, np.nan]), 3)
    ['link weights must be positive numbers; link 1 has 0.0, 2 in total.']
    """
    if weights.shape != (m,):
        return [f"there must be one weight for each link, {m}; found shape {weights.shape}."]
    if weights.dtype.kind not in "iufb":
        return [f"link weights must be positive numbers; found {weights.dtype}."]
    wrong = ~((weights > 0) & np.isfinite(weights))
    if not wrong.any():
        return []
    row = int(wrong.argmax())
    rule = "link weights must be positive numbers"
    return [f"{rule}; link {row} has {weights[row]}, {int(wrong.sum())} in total."]


def _relation_problems(relation: npt.NDArray[Any], m: int, K: int) -> list[str]:
    if relation.shape != (m,):
        return [f"there must be one relation for each link, {m}; found shape {relation.shape}."]
    wrong = (relation < 0) | (relation >= K)
    if not wrong.any():
        return []
    row = int(wrong.argmax())
    rule = f"relations must be numbers 0..{K - 1}"
    return [f"{rule}; link {row} has {relation[row]}, {int(wrong.sum())} in total."]


def with_own_loops(links: IntArray, n: int) -> IntArray:
    """Add a self-loop to every node without a link, so that training on links includes it.

    Sorted links stay sorted.

    Examples
    --------
    >>> with_own_loops(np.array([[0, 2]]), n=4).tolist()
    [[0, 2], [1, 1], [3, 3]]
    """
    alone = _unlinked(links, n)
    places = np.searchsorted(links[:, 0], alone)
    return np.insert(links, places, np.stack([alone, alone], axis=1), axis=0)


def _unlinked(links: IntArray, n: int) -> IntArray:
    linked = np.zeros(n, dtype=bool)
    linked[links] = True
    return np.flatnonzero(~linked)


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
    return np.stack(np.divmod(keys % max(n * n, 1), max(n, 1)), axis=1)


def _pair_problems(pairs: npt.NDArray[Any], n: int) -> list[str]:
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


def has_neighbours(links: Links, n: int) -> npt.NDArray[np.bool_]:
    """Which of n nodes have a neighbour; a self-loop makes no node its own neighbour.

    Examples
    --------
    >>> has_neighbours(Links(np.array([[0, 2], [1, 1]])), 3).tolist()
    [True, False, True]
    """
    proper = links.pairs[links.pairs[:, 0] != links.pairs[:, 1]]
    linked = np.zeros(n, dtype=bool)
    linked[proper.ravel()] = True
    return linked
