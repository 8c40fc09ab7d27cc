"""New links on disk: a run for each chunk of the link tables, sorted by bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import IntArray
from linkdist.store.format import bucket_index
from linkdist.store.keys import HALF, LOW, Keys, LinkCode
from linkdist.store.resolve_links import Merged, Weights


class LinkRuns:
    """New links between rows of parts, as numbers that a `LinkCode` gives.

    Parameters
    ----------
    path : Path
        The working file; an existing one is replaced. The file of the weights has a longer name.
    P : int
        Number of parts after the append.
    code : LinkCode
        How links become numbers.
    weighted : bool
        Whether links have weights.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     runs = LinkRuns(Path(folder, "runs"), P=2)
    ...     known = runs.add(np.array([1, 0, 1, 1, -1, 0]), np.array([5, 7, 3, 2, -1, 0]))
    ...     known.tolist(), runs.rows(1).tolist(), len(runs.links(0, 1)[0])
    ([True, True, False], [2, 3, 5], 1)
    """

    def __init__(
        self, path: Path, P: int, code: LinkCode | None = None, weighted: bool = False
    ) -> None:
        self.P, self.code, self.weighted = P, code or LinkCode(), weighted
        self._keys, self._weights = path, path.with_name(f"{path.name}.weights")
        for one in (self._keys, self._weights):
            one.write_bytes(b"")
        self._starts = [np.zeros(P * (P + 1) // 2 + 1, np.int64)]

    def add(
        self,
        part: IntArray,
        row: IntArray,
        relation: npt.NDArray[np.uint8] | None = None,
        weights: Weights | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Add a run.

        Parameters
        ----------
        part, row : (2 * m,) int64 array
            The parts and rows of the two nodes of each link, one after the other; -1 if unknown.
        relation : (m,) uint8 array, optional
            The positions of the relations; by default the first one.
        weights : (m,) float32 array, optional
            The weights, if links have weights.

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
        heads = np.zeros(len(part), np.uint8) if relation is None else relation[known]
        if self.code.directed:
            heads = (heads << 1) | later
        place = bucket_index(part[:, 0], part[:, 1], self.P)
        keys = self.code.pack(row[:, 0], row[:, 1], heads, within=False)
        order = np.argsort(place, kind="stable")  # weights are added up in the order of the rows
        _append(self._keys, keys[order])
        if self.weighted and weights is not None:
            _append(self._weights, weights[known][order])
        counts = np.bincount(place, minlength=len(self._starts[0]) - 1)
        self._starts.append(self._starts[-1][-1] + np.concatenate([[0], np.cumsum(counts)]))
        return known

    def links(self, a: int, b: int) -> Merged:
        """The new links of a bucket, with duplicates, in the order of the rows of the tables."""
        weights = self._read(self._weights, a, b, np.float32) if self.weighted else None
        return Merged(self._read(self._keys, a, b, np.uint64), weights)

    def rows(self, part: int, own_loops: bool = True) -> Keys:
        """The rows of a part that have new links, sorted.

        Without `own_loops`, the self-loops that nodes without links have do not count.
        """
        pieces = [np.empty(0, np.uint64)]
        for a, b in buckets_of(part, self.P):
            keys = self._read(self._keys, a, b, np.uint64)
            if a == b and not own_loops:
                keys = keys[~self.code.is_own_loop(keys)]
            pieces += rows_of(self.code.without_heads(keys), part, a, b)
        return np.unique(np.concatenate(pieces))

    def _read(self, path: Path, a: int, b: int, kind: type) -> npt.NDArray[Any]:
        """The numbers of a bucket from all runs."""
        place, pieces = bucket_index(a, b, self.P), list[npt.NDArray[Any]]()
        size = np.dtype(kind).itemsize
        with path.open("rb") as file:
            for starts in self._starts:
                start, end = starts[place : place + 2].tolist()
                file.seek(size * start)
                pieces.append(np.frombuffer(file.read(size * (end - start)), kind))
        return np.concatenate(pieces)


def _append(path: Path, array: npt.NDArray[Any]) -> None:
    with path.open("ab") as file:
        file.write(array.data)


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
    >>> keys = LinkCode().pack(np.array([5]), np.array([7]), None, within=False)
    >>> [rows.tolist() for rows in rows_of(keys, 1, 0, 1)]
    [[7]]
    """
    return [keys >> HALF] * (a == part) + [keys & LOW] * (b == part)
