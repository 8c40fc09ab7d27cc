"""New links on disk: a run for each chunk of the link table, sorted by bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import IntArray
from linkdist.store.format import bucket_index
from linkdist.store.keys import HALF, LOW, Keys, is_loop, pack


class LinkRuns:
    """New links between rows of parts, as numbers that `linkdist.store.keys.pack` gives.

    Parameters
    ----------
    path : Path
        The working file; an existing one is replaced.
    P : int
        Number of parts after the append.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     runs = LinkRuns(Path(folder, "runs"), P=2)
    ...     known = runs.add(np.array([1, 0, 1, 1, -1, 0]), np.array([5, 7, 3, 2, -1, 0]))
    ...     known.tolist(), runs.rows(1).tolist(), len(runs.links(0, 1)), len(runs.links(0, 0))
    ([True, True, False], [2, 3, 5], 1, 0)
    """

    def __init__(self, path: Path, P: int) -> None:
        self._path, self.P = path, P
        self._path.write_bytes(b"")
        self._starts = [np.zeros(P * (P + 1) // 2 + 1, np.int64)]

    def add(self, part: IntArray, row: IntArray) -> npt.NDArray[np.bool_]:
        """Add a run.

        Parameters
        ----------
        part, row : (2 * m,) int64 array
            The parts and rows of the two nodes of each link, one after the other; -1 if unknown.

        Returns
        -------
        (m,) bool array
            Whether both nodes are known; other links are left out.
        """
        part, row = part.reshape(-1, 2), row.reshape(-1, 2)
        known: npt.NDArray[np.bool_] = (part[:, 0] >= 0) & (part[:, 1] >= 0)
        part, row = part[known], row[known]
        later = (part[:, 0] > part[:, 1]) | ((part[:, 0] == part[:, 1]) & (row[:, 0] > row[:, 1]))
        part, row = (np.where(later[:, None], ends[:, ::-1], ends) for ends in (part, row))
        place = bucket_index(part[:, 0], part[:, 1], self.P)
        keys = pack(row[:, 0], row[:, 1], within=False)
        with self._path.open("ab") as file:
            file.write(keys[np.argsort(place, kind="stable")].data)
        counts = np.bincount(place, minlength=len(self._starts[0]) - 1)
        self._starts.append(self._starts[-1][-1] + np.concatenate([[0], np.cumsum(counts)]))
        return known

    def links(self, a: int, b: int) -> Keys:
        """The new links of a bucket, with duplicates, not sorted."""
        place, pieces = bucket_index(a, b, self.P), [np.empty(0, np.uint64)]
        with self._path.open("rb") as file:
            for starts in self._starts:
                start, end = starts[place : place + 2].tolist()
                file.seek(8 * start)
                pieces.append(np.frombuffer(file.read(8 * (end - start)), np.uint64))
        return np.concatenate(pieces)

    def rows(self, part: int, loops: bool = True) -> Keys:
        """The rows of a part that have new links, sorted; with or without self-loops."""
        pieces = [np.empty(0, np.uint64)]
        for a, b in buckets_of(part, self.P):
            keys = self.links(a, b)
            pieces += rows_of(keys if loops or a != b else keys[~is_loop(keys)], part, a, b)
        return np.unique(np.concatenate(pieces))


def buckets_of(part: int, P: int) -> Iterator[tuple[int, int]]:
    """The buckets with the links of a part, those within the part first.

    Examples
    --------
    >>> list(buckets_of(1, P=3))
    [(1, 1), (0, 1), (1, 2)]
    """
    yield part, part
    yield from ((min(part, other), max(part, other)) for other in range(P) if other != part)


def rows_of(keys: Keys, part: int, a: int, b: int) -> list[Keys]:
    """The rows of a part in links of the bucket (a, b): one array for each end in the part.

    Examples
    --------
    >>> keys = pack(np.array([5]), np.array([7]), within=False)
    >>> [rows.tolist() for rows in rows_of(keys, 1, 0, 1)]
    [[7]]
    """
    return [keys >> HALF] * (a == part) + [keys & LOW] * (b == part)
