"""Find the self-loops that the nodes without links have in a store.

A store does not record which self-loops were in a link table. So these are the self-loops of the
first head that are the only links of their nodes and, if links have weights, have the weight that
the manifest gives for them.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from linkdist.store.append_runs import buckets_of, rows_of
from linkdist.store.keys import LOW, Keys, LinkCode
from linkdist.store.reader import Store
from linkdist.store.resolve_links import Merged


def store_code(store: Store) -> LinkCode:
    """How the links of a store become numbers.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.synthetic import Planted, synth
    >>> with TemporaryDirectory() as folder:
    ...     store_code(synth(f"{folder}/store", Planted(4, 8), parts=1))
    LinkCode(heads=1, directed=False)
    """
    return LinkCode(store.manifest.K, store.directed)


def stored_links(store: Store, a: int, b: int) -> Merged:
    """The links of a bucket as sorted numbers, and their weights.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.synthetic import Planted, synth
    >>> with TemporaryDirectory() as folder:
    ...     store = synth(f"{folder}/store", Planted(4, 2, seed=1), parts=1)
    ...     keys, weights = stored_links(store, 0, 0)
    >>> [divmod(key, 1 << 32) for key in keys.tolist()], weights
    ([(0, 0), (1, 1), (2, 2), (3, 3)], None)
    """
    pairs, heads, weights = store.bucket(a, b)
    return Merged(store_code(store).pack(pairs[:, 0], pairs[:, 1], heads, within=False), weights)


def among(keys: Keys, known: Keys) -> npt.NDArray[np.bool_]:
    """Whether each number is among others, which are sorted.

    Examples
    --------
    >>> among(np.array([5, 1], np.uint64), np.array([1, 2], np.uint64)).tolist()
    [False, True]
    """
    if not len(known):
        return np.zeros(len(keys), dtype=bool)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    same: npt.NDArray[np.bool_] = known[place] == keys
    return same


class OwnLoops:
    """The self-loops of the nodes of a store that have no other links.

    Parameters
    ----------
    store : Store
        The store.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.synthetic import Planted, synth
    >>> with TemporaryDirectory() as folder:
    ...     store = synth(f"{folder}/store", Planted(50, 20), parts=1)
    ...     pairs = store.links(0, 0).tolist()
    ...     rows = OwnLoops(store).rows(0).tolist()
    >>> rows == [i for i in range(50) if [pair for pair in pairs if i in pair] == [[i, i]]]
    True
    """

    def __init__(self, store: Store) -> None:
        self._store, self._code = store, store_code(store)

    def rows(self, part: int, only: Keys | None = None) -> Keys:
        """The nodes of a part that have such a self-loop, sorted.

        Parameters
        ----------
        part : int
            The part.
        only : (k,) uint64 array, optional
            The rows in question, sorted; by default all. With few of them, fewer files are read.
        """
        rows = self._candidates(part) if self._store.loops else np.empty(0, np.uint64)
        if only is not None:
            rows = rows[among(rows, only)]
        return rows if self._are_certain else self._alone(part, rows)

    @cached_property
    def _are_certain(self) -> bool:
        """Whether the candidates are as many as the manifest says, so that each of them counts."""
        own = self._store.manifest.own_loops
        if own is None:
            return False
        return own.number == sum(len(self._candidates(part)) for part in range(self._store.P))

    def _candidates(self, part: int) -> Keys:
        """The rows of self-loops that may be the only links of their nodes, sorted."""
        keys, weights = stored_links(self._store, part, part)
        found, own = self._code.is_own_loop(keys), self._store.manifest.own_loops
        if weights is not None and own is not None:
            found &= weights == np.float32(own.weight)
        return self._code.without_heads(keys[found]) & LOW

    def _alone(self, part: int, rows: Keys) -> Keys:
        """The rows that have no other links."""
        for a, b in buckets_of(part, self._store.P):
            if not len(rows):
                break
            keys = stored_links(self._store, a, b).keys
            if a == b:
                keys = keys[~self._code.is_own_loop(keys)]
            for others in rows_of(self._code.without_heads(keys), part, a, b):
                rows = rows[~np.isin(rows, others)]
        return rows
