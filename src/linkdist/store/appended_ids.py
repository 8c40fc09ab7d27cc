"""Find ids that are in two parts of a store.

The hash of an id gives its part, if nothing was appended. An appended part may contain any ids, so
the hashes of all appended nodes are compared with those of the other parts; 8 bytes for each.
No two nodes of a store have the same hash.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from linkdist.errors import StoreError
from linkdist.store.keys import Keys, hash64, part_of
from linkdist.store.reader import Store


class AppendedIds:
    """The hashes of the ids of all appended parts, which are read when they are needed.

    Parameters
    ----------
    store : Store
        A store that was built from tables.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def misplaced(self, part: int, keys: Keys) -> int:
        """The number of ids, given by their hashes, that belong to another part or are in two.

        Parameters
        ----------
        part : int
            The part of the ids.
        keys : (n_p,) uint64 array
            Their hashes, without duplicates.
        """
        hashed, others = self._store.manifest.hashed, self._sorted
        start, end = (np.searchsorted(others, keys, side=side) for side in ("left", "right"))
        found = end - start
        if part < hashed:
            return int(((found > 0) | (part_of(keys, hashed) != part)).sum())
        return int((found > 1).sum())

    @cached_property
    def _sorted(self) -> Keys:
        pieces = [np.empty(0, np.uint64)]
        for part in range(self._store.manifest.hashed, self._store.P):
            try:
                pieces.append(hash64(self._store.ids(part)))
            except (StoreError, ValueError):  # the check of this part reports the problem
                continue
        return np.sort(np.concatenate(pieces))
