"""Merge new links into the buckets of a store.

A bucket that gets links is written again: its old links and its new ones are sorted, so they are
merged. All other buckets stay as they are.

A node without links has a self-loop. An old node loses it with its first link to another node, and
a new node without links gets one. A store does not record whether a self-loop was in a link table,
so any self-loop that is the only link of its node is treated in this way.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from linkdist.store.append_nodes import Room
from linkdist.store.append_runs import LinkRuns, buckets_of, rows_of
from linkdist.store.format import bucket_file, bucket_index, buckets
from linkdist.store.generation import Generation
from linkdist.store.keys import LOW, Keys, count_loops, is_loop, pack, sort_unique, unpack
from linkdist.store.partition import Done
from linkdist.store.reader import Store

NONE: Keys = np.empty(0, np.uint64)


@dataclass
class Merged:
    """Counts of links.

    Attributes
    ----------
    counts : list of int
        Number of links of each bucket, in the order of `buckets`.
    new, duplicates, loops : int
        Number of new links, of rows that repeat a link, and of new links that are self-loops.
    isolated, dropped : int
        Number of self-loops that new nodes without links got, and that old nodes lost.
    """

    counts: list[int] = field(default_factory=list)
    new: int = 0
    duplicates: int = 0
    loops: int = 0
    isolated: int = 0
    dropped: int = 0


def merge_links(
    generation: Generation, runs: LinkRuns, room: Room, sizes: list[int], progress: Done
) -> Merged:
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
    """
    total, store = Merged(), generation.store
    for done, (a, b) in enumerate(buckets(runs.P), start=1):
        drop, own = NONE, NONE
        if a == b:
            drop = _lost_loops(store, runs, a) if a < store.P else NONE
            own = _own_loops(runs, room, a, sizes[a])
        total.counts.append(_merge_bucket(generation, (a, b), runs.links(a, b), drop, own, total))
        progress(done)
    return total


def _merge_bucket(
    generation: Generation, pair: tuple[int, int], rows: Keys, drop: Keys, own: Keys, total: Merged
) -> int:
    """Write a bucket if it changes; the number of its links."""
    store, (a, b) = generation.store, pair
    exists = b < store.P
    if exists and not (len(rows) or len(drop) or len(own)):
        count: int = store.manifest.counts[bucket_index(a, b, store.P)]
        return count
    old = _old_links(store, a, b) if exists else NONE
    kept = old[~_among(old, drop)] if len(drop) else old
    given = sort_unique(rows.copy())
    new = given[~_among(given, kept)]
    total.new += len(new)
    total.duplicates += len(rows) - len(new)
    total.loops += count_loops(new) if a == b else 0
    total.isolated += len(own)
    total.dropped += len(drop)
    if exists and not (len(new) or len(drop) or len(own)):
        return len(old)
    added = np.union1d(new, own)
    both = np.insert(kept, np.searchsorted(kept, added), added)
    generation.save(bucket_file(a, b), unpack(both))
    return len(both)


def _among(keys: Keys, known: Keys) -> npt.NDArray[np.bool_]:
    """Whether each number is among others, which are sorted."""
    if not len(known):
        return np.zeros(len(keys), dtype=bool)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    same: npt.NDArray[np.bool_] = known[place] == keys
    return same


def _own_loops(runs: LinkRuns, room: Room, part: int, size: int) -> Keys:
    """The self-loops of the new nodes of a part that have no links, sorted."""
    if part < room.first:
        return NONE
    first = room.filled if part == room.first else 0
    if first == size:
        return NONE
    rows = np.arange(first, size, dtype=np.uint64)
    alone = rows[~_among(rows, runs.rows(part))]
    return pack(alone, alone, within=True)


def _lost_loops(store: Store, runs: LinkRuns, part: int) -> Keys:
    """The self-loops of old nodes of a part that have no other link and now get one, sorted."""
    if not store.loops or not len(linked := runs.rows(part, loops=False)):
        return NONE
    own = _old_links(store, part, part)
    rows = own[is_loop(own)] & LOW
    rows = rows[_among(rows, linked)]
    for a, b in buckets_of(part, store.P):
        if not len(rows):
            break
        links = _old_links(store, a, b)
        for others in rows_of(links[~is_loop(links)] if a == b else links, part, a, b):
            rows = rows[~np.isin(rows, others)]
    return pack(rows, rows, within=True)


def _old_links(store: Store, a: int, b: int) -> Keys:
    links = store.links(a, b)
    return pack(links[:, 0], links[:, 1], within=False)
