"""Merge new links into the buckets of a store.

A bucket that gets links is written again: its old links and its new ones are sorted, so they are
merged. All other buckets stay as they are. If links have weights, those of a link that exists are
added up.

A node without links has a self-loop (`linkdist.store.own_loops`). An old node loses it with its
first link, and a new node without links gets one. Its weight is the average weight of all links, so
it changes with the links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import IntArray
from linkdist.store.append_nodes import Room
from linkdist.store.append_runs import LinkRuns
from linkdist.store.format import OwnLoopCount, bucket_file, bucket_index, buckets
from linkdist.store.generation import Generation
from linkdist.store.keys import Keys
from linkdist.store.own_loops import OwnLoops, among, stored_links
from linkdist.store.partition import Done
from linkdist.store.resolve_links import Merged, Weights

NONE: Keys = np.empty(0, np.uint64)


@dataclass
class MergeCounts:
    """Counts of links.

    Attributes
    ----------
    new, duplicates, loops : (R,) int64 array
        For each relation, number of new links, of rows that repeat a link, and of new links that
        are self-loops.
    counts : list of int
        Number of links of each bucket, in the order of `buckets`.
    isolated, dropped : int
        Number of self-loops that new nodes without links got, and that old nodes lost.
    changed : bool
        Whether a file changes.
    weight : float
        The sum of the weights that were added.
    range : tuple of float, optional
        The smallest and the largest weight of a link that is in the tables.
    own_loops : OwnLoopCount, optional
        The self-loops of nodes without links after the append, if links have weights.
    """

    new: IntArray
    duplicates: IntArray
    loops: IntArray
    counts: list[int] = field(default_factory=list)
    isolated: int = 0
    dropped: int = 0
    changed: bool = False
    weight: float = 0.0
    range: tuple[float, float] | None = None
    own_loops: OwnLoopCount | None = None


def merge_links(
    generation: Generation, runs: LinkRuns, room: Room, sizes: list[int], progress: Done
) -> MergeCounts:
    """Write the buckets that change.

    Parameters
    ----------
    generation : Generation
        Receives the files.
    runs : LinkRuns
        The new links.
    room : Room
        The rows of the new nodes.
    sizes : (P,) list of int
        The number of nodes of each part after the append.
    progress : callable
        Receives the number of buckets that are done.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.generation import open_generation
    >>> from linkdist.store.synthetic import Planted, synth
    >>> with TemporaryDirectory() as folder:
    ...     store = synth(f"{folder}/store", Planted(4, 2, seed=1), parts=1)
    ...     with open_generation(f"{folder}/store") as generation:
    ...         runs = LinkRuns(generation.work("runs"), P=1)
    ...         _ = runs.add(np.zeros(4, int), np.array([0, 3, 3, 0]))
    ...         room = Room.of(store.manifest)
    ...         merged = merge_links(generation, runs, room, [4], lambda done: None)
    ...         old, new = store.links(0, 0), np.load(generation.path("links/0000-0000.npy"))
    >>> old.tolist(), new.tolist(), merged.new.tolist(), merged.duplicates.tolist()
    ([[0, 0], [1, 1], [2, 2], [3, 3]], [[0, 3], [1, 1], [2, 2]], [1], [1])
    """
    merger = _Merger(generation, runs, room, sizes)
    for done, (a, b) in enumerate(buckets(runs.P), start=1):
        merger.total.counts.append(merger.merge(a, b))
        progress(done)
    if runs.weighted:
        merger.fill_weights()
    return merger.total


class _Merger:
    """Merges new links, bucket by bucket."""

    def __init__(
        self, generation: Generation, runs: LinkRuns, room: Room, sizes: list[int]
    ) -> None:
        self._generation, self._store, self._runs = generation, generation.store, runs
        self._room, self._sizes, self._own = room, sizes, OwnLoops(generation.store)
        self.total = MergeCounts(*np.zeros((3, len(generation.store.relations)), np.int64))

    def merge(self, a: int, b: int) -> int:
        """Write a bucket if it changes; the number of its links."""
        rows, exists = self._runs.links(a, b), b < self._store.P
        drop = self._lost_loops(a) if a == b and exists else NONE
        alone = self._new_loops(a) if a == b else NONE
        if exists and not (len(rows.keys) or len(drop) or len(alone)):
            count: int = self._store.manifest.counts[bucket_index(a, b, self._store.P)]
            return count
        old, (keys, sums) = self._old_links(a, b, drop), _added_up(rows)
        is_new = ~among(keys, old.keys)
        self._count(rows.keys, keys[is_new], a == b)
        self.total.isolated += len(alone)
        self.total.dropped += len(drop)
        has_others = not exists or bool(is_new.any() or len(drop) or len(alone))
        if not has_others and sums is None:
            return len(old.keys)
        new = Merged(keys[is_new], None)
        if sums is not None:
            old, new = self._with_weights(old, keys, sums, is_new)
        both = _joined(old, new, alone)
        self._save(a, b, both, has_others)
        return len(both.keys)

    def fill_weights(self) -> None:
        """Give the self-loops of nodes without links the average weight of all links."""
        manifest, total = self._store.manifest, self.total
        count, weight = manifest.own_loops or OwnLoopCount(0, 1.0)
        after, changed = count - total.dropped + total.isolated, False
        if total.weight:
            mean = (weight * (self._store.m - count) + total.weight) / (sum(total.counts) - after)
            changed, weight = np.float32(mean) != np.float32(weight), mean
        total.own_loops = OwnLoopCount(after, weight)
        for part in range(self._runs.P):
            rows = NONE
            if changed and count and part < self._store.P:
                rows = self._own.rows(part)
                rows = rows[~among(rows, self._runs.rows(part))]
            self._fill(part, self._loops(rows), weight)

    def _fill(self, part: int, loops: Keys, weight: float) -> None:
        """Set the weights of these self-loops, and those that are NaN because they are new."""
        files, name = self._generation.files, bucket_file(part, part, "weights.npy")
        if name not in files and not len(loops):
            return
        keys, weights = self._current_links(part)
        stale = np.isnan(weights)
        stale[np.searchsorted(keys, loops)] = True
        if stale.any():
            weights[stale] = weight
            self._generation.save(name, weights)

    def _current_links(self, part: int) -> tuple[Keys, Weights]:
        """The links within a part, from new files where there are some."""

        def load(what: str) -> npt.NDArray[Any] | None:
            name = bucket_file(part, part, what)
            is_new = name in self._generation.files
            return np.load(self._generation.path(name)) if is_new else None

        pairs, heads, weights = map(load, ("npy", "heads.npy", "weights.npy"))
        if pairs is not None:
            keys = self._runs.code.pack(pairs[:, 0], pairs[:, 1], heads, within=False)
            return keys, np.empty(0, np.float32) if weights is None else weights
        old = stored_links(self._store, part, part)
        found = old.weights if weights is None else weights
        return old.keys, np.empty(0, np.float32) if found is None else found

    def _old_links(self, a: int, b: int, drop: Keys) -> Merged:
        """The links that the bucket keeps."""
        if b >= self._store.P:
            return Merged(NONE, np.empty(0, np.float32) if self._runs.weighted else None)
        keys, weights = stored_links(self._store, a, b)
        if not len(drop):
            return Merged(keys, weights)
        kept = ~among(keys, drop)
        return Merged(keys[kept], None if weights is None else weights[kept])

    def _count(self, rows: Keys, new: Keys, within: bool) -> None:
        """Count the rows of a bucket and its new links, for each relation."""
        links, total = self._of_relations(new), self.total
        total.new += links
        total.duplicates += self._of_relations(rows) - links
        if within:
            total.loops += self._of_relations(new[self._runs.code.is_loop(new)])

    def _of_relations(self, keys: Keys) -> IntArray:
        numbers = self._runs.code.relations(keys).astype(np.int64)
        return np.bincount(numbers, minlength=len(self._store.relations))

    def _with_weights(
        self, old: Merged, keys: Keys, sums: npt.NDArray[np.float64], is_new: npt.NDArray[np.bool_]
    ) -> tuple[Merged, Merged]:
        """The old links with added weights, and the new ones with theirs."""
        total, weights = self.total, cast("Weights", old.weights)
        place = np.searchsorted(old.keys, keys[~is_new])
        before = weights[place].astype(np.float64)
        weights[place] = before + sums[~is_new]
        new = sums[is_new].astype(np.float32)
        after = np.concatenate([weights[place], new])
        total.weight += float(after.sum(dtype=np.float64) - before.sum())
        if len(after):
            low, high = total.range or (np.inf, 0.0)
            total.range = min(low, float(after.min())), max(high, float(after.max()))
        return Merged(old.keys, weights), Merged(keys[is_new], new)

    def _save(self, a: int, b: int, links: Merged, has_others: bool) -> None:
        """Write a bucket; if it `has_others`, not only the weights have changed."""
        pairs, heads = self._runs.code.unpack(links.keys)
        arrays = {"npy": pairs, "heads.npy": heads} if has_others else {}
        for what, array in {**arrays, "weights.npy": links.weights}.items():
            if array is not None:
                self._generation.save(bucket_file(a, b, what), array)
        self.total.changed = True

    def _new_loops(self, part: int) -> Keys:
        """The self-loops of the new nodes of a part that have no links, sorted."""
        first = self._room.filled if part == self._room.first else 0
        if part < self._room.first or first == self._sizes[part]:
            return NONE
        rows = np.arange(first, self._sizes[part], dtype=np.uint64)
        return self._loops(rows[~among(rows, self._runs.rows(part))])

    def _lost_loops(self, part: int) -> Keys:
        """The self-loops of nodes that had no links and now get some, sorted."""
        # Without weights, a new row of the same self-loop changes nothing.
        linked = self._runs.rows(part, own_loops=self._runs.weighted)
        return self._loops(self._own.rows(part, linked)) if len(linked) else NONE

    def _loops(self, rows: Keys) -> Keys:
        return self._runs.code.pack(rows, rows, np.zeros_like(rows), within=True)


def _added_up(rows: Merged) -> tuple[Keys, npt.NDArray[np.float64] | None]:
    """The different links of some rows, sorted, and the sums of their weights."""
    if rows.weights is None:
        return np.unique(rows.keys), None
    keys, places = np.unique(rows.keys, return_inverse=True)
    return keys, np.bincount(places, rows.weights, len(keys)).astype(np.float64)


def _joined(old: Merged, new: Merged, loops: Keys) -> Merged:
    """All links, sorted; the weight of the self-loops is NaN until all links are known."""
    added = np.concatenate([new.keys, loops])
    order = np.argsort(added)
    place = np.searchsorted(old.keys, added[order])
    keys = np.insert(old.keys, place, added[order])
    if old.weights is None or new.weights is None:
        return Merged(keys, None)
    weights = np.concatenate([new.weights, np.full(len(loops), np.nan, np.float32)])
    return Merged(keys, np.insert(old.weights, place, weights[order]))
