"""What training must know of a store before it begins, from one pass over its links.

- Which labelled nodes are held out: a share of each class, 10,000 nodes at most, each drawn by a
  random key of its own, so that no table of all labelled nodes is needed.
- The counts from which α, β and the class weights come (`Tally`).
- A sample: the held-out nodes with their neighbours, on which the network is looked at, and some
  links from everywhere, which a later update rehearses. It is a `Graph` like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import UNKNOWN, FeatureMatrix, Graph, IntArray, stacked
from linkdist.data.splits import Split
from linkdist.progress import Callback
from linkdist.store.format import buckets
from linkdist.store.reader import Store
from linkdist.training.coefficients import Tally
from linkdist.training.replay import LIMIT

MOST = 10_000
"""How many nodes are held out at most."""
AROUND, NEAR = 100, 100_000
"""How many links of a held-out node a look takes in at most, and of all of these together."""
PART = 32
"""A node is known by one number: its part, and in the lowest bits its row."""


@dataclass(frozen=True)
class Survey:
    """What one pass over a store has found.

    Attributes
    ----------
    held : mapping of int to (h,) int arrays
        The rows of each part whose labels are held out.
    tally : Tally
        Counts of all that training sees.
    sample : Graph
        Held-out nodes and their neighbours, and links from everywhere.
    split : Split
        Of the sample: the held-out nodes are its validation nodes.
    """

    held: Mapping[int, IntArray]
    tally: Tally
    sample: Graph
    split: Split

    @property
    def degree(self) -> float:
        """Average degree e / n of the store's graph."""
        return self.tally.ends / 2 / self.tally.nodes


def survey(store: Store, share: float, seed: int, callback: Callback | None = None) -> Survey:
    """Look through a store.

    Parameters
    ----------
    store : Store
        Of any size.
    share : float
        Of each class's labels that are held out.
    seed : int
        Of all that is drawn.
    callback : Callback, optional
        Receives progress and messages.
    """
    held = draw_held_out(store, share, seed)
    return survey_with(store, held, seed, callback)


def draw_held_out(store: Store, share: float, seed: int) -> IntArray:
    """Hold out a share of each class's labels, never all; the nodes' numbers in order."""
    counts = np.array(store.manifest.labelled)
    quota = np.minimum(np.round(share * counts), np.maximum(counts - 1, 0))
    quota = np.ceil(quota * min(1.0, MOST / max(quota.sum(), 1)))
    drawn = np.empty(0, dtype=[("class", "i8"), ("key", "f8"), ("node", "i8")])
    for part in range(store.P):
        y = store.labels(part)
        rows = np.flatnonzero(y != UNKNOWN)
        new = np.empty(len(rows), dtype=drawn.dtype)
        new["class"], new["node"] = y[rows], _number(part, rows)
        new["key"] = np.random.default_rng([seed, part]).random(len(rows))
        drawn = np.sort(np.concatenate([drawn, new]))
        drawn = drawn[_rank(drawn["class"]) < quota[drawn["class"]]]
    return np.sort(drawn["node"])


def survey_with(
    store: Store, nodes: IntArray, seed: int, callback: Callback | None = None
) -> Survey:
    """Look through a store whose held-out nodes are known, by their numbers in order."""
    callback = callback or Callback()
    held = {part: _rows(nodes, part) for part in range(store.P)}
    first = dict(zip(held, np.cumsum([0, *map(len, held.values())]).tolist(), strict=False))
    of_nodes, of_ends = np.zeros(store.C, dtype=np.int64), np.zeros(store.C, dtype=np.int64)
    picked, taken, total = [], np.zeros(len(nodes), dtype=np.int64), store.P * (store.P + 1) // 2
    around = min(AROUND, max(1, NEAR // max(1, len(nodes))))
    for done, (a, b) in enumerate(buckets(store.P), 1):
        links = store.links(a, b)
        near = _some(len(links), store.m, [seed, a, b])
        for part, end in zip((a, b), links.T, strict=True):
            known = _known(store.labels(part), held[part], first[part])
            found = known[end]
            near[_wanted(found, taken, around)] = True
            of_ends += 2 * _classes(found, store.C)
        if a == b:
            of_nodes += _classes(known, store.C)
            # One end of a self-loop, not two.
            of_ends -= 2 * _classes(found[links[:, 0] == links[:, 1]], store.C)
        few = links[near]
        picked.append(np.stack([_number(a, few[:, 0]), _number(b, few[:, 1])], axis=1))
        callback.progress(done, total)
    tally = Tally(store.n, 4 * store.m - 2 * store.loops, of_nodes, of_ends)
    sample, split = _sample(store, np.concatenate(picked), nodes)
    return Survey(held, tally, sample, split)


def _known(y: npt.NDArray[np.int32], held: IntArray, first: int) -> npt.NDArray[np.int32]:
    """Labels of a part, and below `UNKNOWN` the place of a held-out node among all of these.

    Links are many, and this is all that one must look up for an end of each.
    """
    y[held] = UNKNOWN - 1 - np.arange(first, first + len(held))
    return y


def _classes(y: npt.NDArray[Any], C: int) -> IntArray:
    return np.bincount(y[y >= 0], minlength=C)


def _wanted(found: npt.NDArray[np.int32], taken: IntArray, around: int) -> IntArray:
    """Which ends are held-out nodes that have not enough links yet; counts them."""
    hits = np.flatnonzero(found < UNKNOWN)
    place = UNKNOWN - 1 - found[hits].astype(np.int64)
    order = np.argsort(place, kind="stable")
    hits, place = hits[order], place[order]
    wanted: IntArray = hits[taken[place] + _rank(place) < around]
    taken += np.bincount(place, minlength=len(taken))
    return wanted


def _some(count: int, m: int, seed: list[int]) -> npt.NDArray[np.bool_]:
    """Each link with the probability that leaves about `LIMIT` in all."""
    return np.random.default_rng(seed).random(count, dtype=np.float32) < LIMIT / m


def _sample(store: Store, ends: IntArray, held: IntArray) -> tuple[Graph, Split]:
    """The graph of some links and the held-out nodes, renumbered."""
    nodes = np.union1d(ends, held)
    parts: list[FeatureMatrix] = []
    labels = []
    for part, rows in _by_part(nodes):
        x = store.features(part)[rows]
        parts.append(x.astype(np.float32, copy=False))
        labels.append(store.labels(part)[rows].astype(np.int64))
    y = np.concatenate(labels)
    graph = Graph.build(stacked(parts), np.searchsorted(nodes, ends), y, store.classes)
    validation = np.searchsorted(nodes, held)
    train = np.setdiff1d(np.flatnonzero(y != UNKNOWN), validation)
    return graph, Split(train, validation, np.array([], dtype=np.int64))


def _by_part(nodes: IntArray) -> Iterator[tuple[int, IntArray]]:
    for part in np.unique(nodes >> PART).tolist():
        yield part, _rows(nodes, part)


def _number(part: int, rows: npt.NDArray[Any]) -> IntArray:
    return (part << PART) + rows.astype(np.int64)


def _rows(nodes: IntArray, part: int) -> IntArray:
    own: IntArray = nodes[nodes >> PART == part]
    return own & ((1 << PART) - 1)


def _rank(values: IntArray) -> IntArray:
    """The how-manieth of its like each of some sorted values is, from 0."""
    rank: IntArray = np.arange(len(values)) - np.searchsorted(values, values)
    return rank
