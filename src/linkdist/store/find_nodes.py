"""Find the nodes of a store by the hashes of their ids.

The hash of an id gives the part that may have it; appended parts may have any id. Each part is read
once for all ids that are looked up together, so the memory depends on the number of these ids and
on the size of a part.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from linkdist.data.graph import IntArray
from linkdist.store.append_nodes import NewNodes, Room
from linkdist.store.keys import Keys, hash64, part_of
from linkdist.store.partition import Done
from linkdist.store.reader import Store


def find_rows(store: Store, keys: Keys, progress: Done) -> tuple[IntArray, IntArray]:
    r"""Find nodes by the hashes of their ids.

    Parameters
    ----------
    store : Store
        The store.
    keys : (k,) uint64 array
        Hashes of ids.
    progress : callable
        Receives the number of parts that are done.

    Returns
    -------
    part, row : (k,) int64 array
        The part of each node and its row there, -1 where the store does not have the node.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> from linkdist.store.build import build
    >>> from linkdist.tables.source import Tables
    >>> nodes = "id,class,age\n7,a,1\n8,b,2\n"
    >>> with TemporaryDirectory() as folder:
    ...     for name, text in {"nodes": nodes, "links": "a,b\n7,8\n"}.items():
    ...         _ = Path(folder, f"{name}.csv").write_text(text)
    ...     tables = Tables(f"{folder}/nodes.csv", f"{folder}/links.csv", "id", "class")
    ...     store = build(tables, f"{folder}/store")
    ...     find_rows(store, hash64(pa.array(["8", "9"], pa.large_string())), lambda done: None)
    (array([ 0, -1]), array([ 1, -1]))
    """
    part, row = np.full((2, len(keys)), -1, dtype=np.int64)
    hashed = store.manifest.hashed
    home = part_of(keys, hashed)
    order = np.argsort(home, kind="stable")
    bounds = np.searchsorted(home[order], np.arange(hashed + 1))
    for number in range(store.P):
        if number < hashed:
            wanted = order[bounds[number] : bounds[number + 1]]
        else:
            wanted = np.flatnonzero(part < 0)
        if len(wanted) and store.manifest.sizes[number]:
            rows = _rows_among(hash64(store.ids(number)), keys[wanted])
            found = rows >= 0
            part[wanted[found]], row[wanted[found]] = number, rows[found]
        progress(number + 1)
    return part, row


def _rows_among(known: Keys, keys: Keys) -> IntArray:
    """The positions of some hashes among known ones, which are not sorted; -1 if unknown."""
    order = np.argsort(known)
    place = np.searchsorted(known, keys, sorter=order)
    rows = order[np.minimum(place, len(known) - 1)]
    return np.where(known[rows] == keys, rows, -1)


class NodeIndex:
    """Finds old and new nodes.

    Parameters
    ----------
    store : Store
        The store as it was.
    nodes : NewNodes
        The new nodes.
    room : Room
        The rows that they get.
    """

    def __init__(self, store: Store, nodes: NewNodes, room: Room) -> None:
        self._store, self._nodes, self._room = store, nodes, room

    def find(self, keys: Keys, progress: Done) -> tuple[IntArray, IntArray]:
        """The part and row of each node, -1 where it is unknown."""
        distinct, places = np.unique(keys, return_inverse=True)
        part, row = (found[places] for found in find_rows(self._store, distinct, progress))
        return self._with_new(keys, part, row)

    def find_first(self, keys: Keys, progress: Done) -> tuple[tuple[IntArray, IntArray], ...]:
        """The same, and where the store has the ids of the new nodes.

        Reading the ids of all parts takes most of the time, so both are looked up together.
        """
        asked = np.concatenate([keys, self._nodes.keys])
        distinct, places = np.unique(asked, return_inverse=True)
        part, row = (found[places] for found in find_rows(self._store, distinct, progress))
        m = len(keys)
        return self._with_new(keys, part[:m], row[:m]), (part[m:], row[m:])

    def known(self, texts: set[str]) -> set[str]:
        """Those of some texts that are ids of old or new nodes."""
        asked = sorted(texts)
        part, _ = self.find(hash64(pa.array(asked, pa.large_string())), lambda done: None)
        return {text for text, number in zip(asked, part.tolist(), strict=True) if number >= 0}

    def _with_new(self, keys: Keys, part: IntArray, row: IntArray) -> tuple[IntArray, IntArray]:
        if len(self._nodes.keys):
            arrival = _rows_among(self._nodes.keys, keys)
            new = np.flatnonzero((arrival >= 0) & (part < 0))
            part[new], row[new] = self._room.places(arrival[new])
        return part, row
