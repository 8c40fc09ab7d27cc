"""What training must know about a store in advance, from one pass over its links.

- The validation nodes: a share of the labelled nodes of each class, at most 10,000 nodes. Each
  node has its own random key, so no table of all labelled nodes is needed.
- The counts from which α, β and the class weights are computed (`Tally`).
- A sample: the validation nodes with their neighbours, on which the network is evaluated, links
  from the whole graph for the replay buffer of a later update, and nodes that the caller needs. It
  is an ordinary `Graph`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import UNKNOWN, FeatureMatrix, Graph, IntArray, known_labels, stacked
from linkdist.data.links import Links
from linkdist.data.splits import Split
from linkdist.progress import Callback
from linkdist.store.format import buckets
from linkdist.store.reader import Bucket, Store
from linkdist.training.link_task import Tally
from linkdist.training.replay import LIMIT

MAX_VALIDATION = 10_000
"""The largest number of validation nodes."""
NODE_LINKS, MAX_LINKS = 100, 100_000
"""The largest number of links of one validation node in the sample, and of all of them."""
PART = 32
"""A node is identified by one number: its part, and its row in the lowest bits."""


@dataclass(frozen=True)
class Survey:
    """The result of one pass over a store.

    Attributes
    ----------
    held : mapping of int to (h,) int arrays
        The rows of the validation nodes of each part.
    tally : Tally
        Counts of everything that training sees.
    sample : Graph
        The validation nodes and their neighbours, and links from the whole graph.
    split : Split
        The split of the sample.
    nodes : (n',) int array
        The node numbers of the sample: the part of a node, and its row in the lowest bits.
    """

    held: Mapping[int, IntArray]
    tally: Tally
    sample: Graph
    split: Split
    nodes: IntArray

    @property
    def degree(self) -> float:
        """Average degree e / n of the graph."""
        return self.tally.ends / 2 / self.tally.nodes


def survey(store: Store, share: float, seed: int, callback: Callback | None = None) -> Survey:
    """Draw validation nodes and read all links of a store once.

    Parameters
    ----------
    store : Store
        A store of any size.
    share : float
        Fraction of the labels of each class that are used for validation.
    seed : int
        Random seed.
    callback : Callback, optional
        Receives the progress.
    """
    return survey_with(store, draw_validation(store, share, seed), seed, callback)


def draw_validation(store: Store, share: float, seed: int) -> IntArray:
    """Draw a share of the labelled nodes of each class, never all; sorted node numbers."""
    counts = np.array(store.manifest.labelled)
    quota = np.minimum(np.round(share * counts), np.maximum(counts - 1, 0))
    quota = np.ceil(quota * min(1.0, MAX_VALIDATION / max(quota.sum(), 1)))
    drawn = np.empty(0, dtype=[("class", "i8"), ("key", "f8"), ("node", "i8")])
    for part in range(store.P):
        y = store.labels(part)
        rows = np.flatnonzero(y != UNKNOWN)
        new = np.empty(len(rows), dtype=drawn.dtype)
        new["class"], new["node"] = y[rows], number(part, rows)
        new["key"] = np.random.default_rng([seed, part]).random(len(rows))
        drawn = np.sort(np.concatenate([drawn, new]))
        drawn = drawn[_rank(drawn["class"]) < quota[drawn["class"]]]
    return np.sort(drawn["node"])


def survey_with(
    store: Store,
    nodes: IntArray,
    seed: int,
    callback: Callback | None = None,
    also: IntArray | None = None,
    most: int | None = None,
) -> Survey:
    """Read all links of a store once, for given validation nodes.

    Parameters
    ----------
    store : Store
        A store of any size.
    nodes : (v,) int array
        Sorted node numbers of the validation nodes.
    seed : int
        Random seed.
    callback : Callback, optional
        Receives the progress.
    also : (k,) int array, optional
        Numbers of nodes that the sample contains as well.
    most : int, optional
        The largest number of links of validation nodes in the sample; by default `MAX_LINKS`.
    """
    callback = callback or Callback()
    callback.stage("reading the links")
    held = {part: _rows(nodes, part) for part in range(store.P)}
    first = dict(zip(held, np.cumsum([0, *map(len, held.values())]).tolist(), strict=False))
    of_nodes, of_ends = np.zeros(store.C, dtype=np.int64), np.zeros(store.C, dtype=np.int64)
    picked, taken = list[Links](), np.zeros(len(nodes), dtype=np.int64)
    limit = min(NODE_LINKS, max(1, (most or MAX_LINKS) // max(1, len(nodes))))
    for done, (a, b) in enumerate(order := list(buckets(store.P)), start=1):
        bucket = store.bucket(a, b)
        links = bucket.pairs
        # Each link of the graph is in the sample with the probability that gives `LIMIT` links.
        random = np.random.default_rng([seed, a, b])
        chosen = random.random(len(links), dtype=np.float32) < LIMIT / max(store.m, 1)
        for part, end in zip((a, b), links.T, strict=True):
            known = _mark(_classes(store, part), held[part], first[part])
            found = known[end]
            chosen[_wanted(found, taken, limit)] = True
            of_ends += 2 * _count_classes(found, store.C)
        if a == b:
            of_nodes += _count_classes(known, store.C)
            # A self-loop has one end, not two.
            of_ends -= 2 * _count_classes(found[links[:, 0] == links[:, 1]], store.C)
        picked.append(_numbered(store, bucket, chosen, a, b))
        callback.progress(done, len(order))
    tally = Tally(store.n, 4 * store.m - 2 * store.loops, of_nodes, of_ends)
    ends = [part.pairs.ravel() for part in picked]
    every = np.unique(np.concatenate([*ends, nodes, nodes[:0] if also is None else also]))
    sample = _sample(store, picked, every)
    validation = np.searchsorted(every, nodes)
    train = np.setdiff1d(np.flatnonzero(known_labels(sample.labels)), validation)
    split = Split(train, validation, np.array([], dtype=np.int64))
    return Survey(held, tally, sample, split, every)


def _classes(store: Store, part: int) -> npt.NDArray[np.int32]:
    """The classes of a part; all are unknown for other tasks, which count none."""
    if store.task == "classification":
        return store.labels(part)
    return np.full(store.manifest.sizes[part], UNKNOWN, dtype=np.int32)


def _numbered(store: Store, bucket: Bucket, chosen: npt.NDArray[np.bool_], a: int, b: int) -> Links:
    """Some links of a bucket between node numbers, with their relations and directions."""
    pairs = bucket.pairs[chosen]
    ends = np.stack([number(a, pairs[:, 0]), number(b, pairs[:, 1])], axis=1)
    relation = None if bucket.heads is None else bucket.heads[chosen].astype(np.int64)
    weights = None if bucket.weights is None else bucket.weights[chosen]
    if store.directed and relation is not None:
        back = relation % 2 == 1  # the link leads from part b to part a
        ends[back] = ends[back, ::-1]
        relation = relation // 2
    if len(store.relations) == 1:
        relation = None
    return Links(ends, relation, weights, store.relations, store.directed)


def _mark(y: npt.NDArray[np.int32], held: IntArray, first: int) -> npt.NDArray[np.int32]:
    """The labels of a part; validation nodes have their index instead, counted below `UNKNOWN`.

    There are many links, and so one lookup for each end is enough.
    """
    y[held] = UNKNOWN - 1 - np.arange(first, first + len(held))
    return y


def _count_classes(y: npt.NDArray[Any], C: int) -> IntArray:
    return np.bincount(y[y >= 0], minlength=C)


def _wanted(found: npt.NDArray[np.int32], taken: IntArray, limit: int) -> IntArray:
    """The ends that are validation nodes with fewer links than the limit; updates `taken`."""
    hits = np.flatnonzero(found < UNKNOWN)
    place = UNKNOWN - 1 - found[hits].astype(np.int64)
    order = np.argsort(place, kind="stable")
    hits, place = hits[order], place[order]
    wanted: IntArray = hits[taken[place] + _rank(place) < limit]
    taken += np.bincount(place, minlength=len(taken))
    return wanted


def _sample(store: Store, picked: list[Links], nodes: IntArray) -> Graph:
    """The graph of some links and some nodes, with new node numbers."""
    features: list[FeatureMatrix] = []
    labels = []
    for part, rows in part_rows(nodes):
        features.append(store.features(part)[rows].astype(np.float32, copy=False))
        labels.append(store.labels(part)[rows])
    y = np.concatenate(labels)
    y = y.astype(np.float64 if y.dtype.kind == "f" else np.int64)
    pairs = np.searchsorted(nodes, np.concatenate([part.pairs for part in picked]))
    links = replace(
        picked[0],
        pairs=pairs,
        relation=_joined([part.relation for part in picked]),
        weights=_joined([part.weights for part in picked]),
    )
    return Graph.build(stacked(features), links, y, store.classes, task=store.task)


def _joined(parts: Sequence[npt.NDArray[Any] | None]) -> npt.NDArray[Any] | None:
    found = [part for part in parts if part is not None]
    return np.concatenate(found) if found else None


def part_rows(nodes: IntArray) -> list[tuple[int, IntArray]]:
    """Each part of some sorted node numbers, with the rows of its nodes.

    Examples
    --------
    >>> part_rows(np.array([3, (1 << PART) + 5, (1 << PART) + 8]))
    [(0, array([3])), (1, array([5, 8]))]
    """
    return [(part, _rows(nodes, part)) for part in np.unique(nodes >> PART).tolist()]


def number(part: int, rows: npt.NDArray[Any]) -> IntArray:
    """The numbers of the nodes in some rows of a part.

    Examples
    --------
    >>> number(0, np.array([5]))
    array([5])
    """
    return (part << PART) + rows.astype(np.int64)


def _rows(nodes: IntArray, part: int) -> IntArray:
    own: IntArray = nodes[nodes >> PART == part]
    return own & ((1 << PART) - 1)


def _rank(values: IntArray) -> IntArray:
    """The index of each of some sorted values among its equals, from 0."""
    rank: IntArray = np.arange(len(values)) - np.searchsorted(values, values)
    return rank
