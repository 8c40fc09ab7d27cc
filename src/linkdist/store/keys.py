"""Links of one bucket as sorted numbers, and which nodes have any.

A link of rows i and j is the number i * 2**32 + j, so that sorting numbers sorts links.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from linkdist.store.build_log import WORK, Journal

Keys: TypeAlias = npt.NDArray[np.uint64]
Rows: TypeAlias = npt.NDArray[np.uint32]

HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)


def packed(i: npt.NDArray[np.integer], j: npt.NDArray[np.integer], within: bool) -> Keys:
    """Links as numbers; `within` a part the smaller row stands first.

    Examples
    --------
    >>> unpacked(packed(np.array([5, 0]), np.array([1, 7]), within=True)).tolist()
    [[1, 5], [0, 7]]
    """
    if within:
        i, j = np.minimum(i, j), np.maximum(i, j)
    keys: Keys = (i.astype(np.uint64) << HALF) | j.astype(np.uint64)
    return keys


def unpacked(keys: Keys) -> Rows:
    """Numbers as links, (m, 2)."""
    links = np.empty((len(keys), 2), dtype=np.uint32)
    links[:, 0] = keys >> HALF
    links[:, 1] = keys & LOW
    return links


def distinct(keys: Keys) -> Keys:
    """Each number once, in order; the array given is sorted on the way.

    Examples
    --------
    >>> distinct(np.array([3, 1, 3], np.uint64)).tolist()
    [1, 3]
    """
    keys.sort()
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys if first.all() else keys[first]


def count_loops(keys: Keys) -> int:
    """How many links of a part with itself are self-loops.

    Examples
    --------
    >>> count_loops(packed(np.array([1, 2]), np.array([1, 3]), within=True))
    1
    """
    return int(np.count_nonzero((keys >> HALF) == (keys & LOW)))


class Seen:
    """Which nodes of each part have links: a byte a node, on the disk.

    To say of a node again that it has links changes nothing, so a killed process may do it twice.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.build_log import open_journal
    >>> with TemporaryDirectory() as folder, open_journal(f"{folder}/store", {}) as journal:
    ...     seen = Seen(journal, [3])
    ...     seen.mark(0, np.array([0, 2]))
    ...     seen.with_own_loops(0, packed(np.array([0]), np.array([2]), within=True)).tolist()
    [2, 4294967297]
    """

    def __init__(self, journal: Journal, sizes: npt.ArrayLike) -> None:
        self._journal, self._sizes = journal, np.asarray(sizes).tolist()

    def mark(self, part: int, rows: npt.NDArray[np.integer]) -> None:
        """Say that these nodes have links."""
        if len(rows):
            flags = self._flags(part)
            flags[rows] = 1
            # No memory map: on a full disk that ends the process, where writing raises an error.
            with self._journal.whole(_file(part)) as file:
                file.write(flags.data)

    def with_own_loops(self, part: int, keys: Keys) -> Keys:
        """A part's links with itself, and a self-loop at every node of it that has no link."""
        alone = np.flatnonzero(self._flags(part) == 0)
        return distinct(np.concatenate([keys, packed(alone, alone, within=True)]))

    def _flags(self, part: int) -> npt.NDArray[np.uint8]:
        if self._journal.has(_file(part)):
            return np.fromfile(self._journal.folder / _file(part), np.uint8)
        return np.zeros(self._sizes[part], np.uint8)


def _file(part: int) -> str:
    return f"{WORK}/{part:04}.seen"
