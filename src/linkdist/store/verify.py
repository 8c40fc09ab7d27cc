"""Check that a store is what its manifest says, and that its content is a valid graph.

A digest shows that a file is the one that was written. Whether that is a graph depends on the
content. `Store` refuses rows outside their parts, labels outside the classes and invalid heads and
weights; sorted links, unique ids and counts are checked here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from linkdist.errors import StoreError
from linkdist.progress import Callback
from linkdist.store.appended_ids import AppendedIds
from linkdist.store.format import (
    REBUILD,
    Manifest,
    bucket_files,
    buckets,
    feature_files,
    part_file,
)
from linkdist.store.keys import hash64, is_loop, pack
from linkdist.store.reader import Store, forget_verified
from linkdist.tables.targets import count_labels


def check(directory: Path | str, callback: Callback | None = None) -> list[str]:
    """Find all problems of a store.

    Parameters
    ----------
    directory : Path
        The store.
    callback : Callback, optional
        Receives the progress.

    Returns
    -------
    list of str
        A message for each problem.

    Raises
    ------
    StoreError
        If it has no valid manifest.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.synthetic import Planted, synth
    >>> with TemporaryDirectory() as folder:
    ...     _ = synth(f"{folder}/store", Planted(100, 500), parts=2)
    ...     labels = Path(folder, "store/parts/0001.labels.npy")
    ...     labels.write_bytes(labels.read_bytes()[:-1])
    ...     check(f"{folder}/store")
    327
    ['parts/0001.labels.npy has 327 bytes, not 328']
    """
    callback = callback or Callback()
    target = Path(directory).resolve()
    store = Store(target, Manifest.read(target))
    forget_verified()
    checks, problems = _Checks(store), store.size_problems()
    broken = {problem.partition(" ")[0] for problem in problems}
    callback.stage("checking")
    work = list(checks.all())
    for done, (check_one, keys, *numbers) in enumerate(work, start=1):
        names = [store.manifest.path(key) for key in keys]
        if broken.isdisjoint(names):
            try:
                problems += check_one(*numbers, *names)
            except StoreError as error:
                found = str(error).removesuffix(f". {REBUILD}")
                problems.append(found.removeprefix(f"{target}{os.sep}"))
        callback.progress(done, len(work))
    return problems or list(checks.totals())


class _Checks:
    """Finds problems in the files of a store, and counts labels and self-loops on the way."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._labelled = np.zeros(store.C, dtype=np.int64)
        self._loops = 0
        self._appended = AppendedIds(store)

    def all(self) -> Iterator[tuple[Any, ...]]:
        """Each check with the files that it reads, and the numbers of its part or parts."""
        store = self._store
        last = (self.truth, "truth.npy") if store.manifest.synthetic else (self.ids, "ids.arrow")
        for part in range(store.P):
            yield self.features, feature_files(part, store.kind), part
            for check_one, what in ((self.labels, "labels.npy"), last):
                yield check_one, [part_file(part, what)], part
        for a, b in buckets(store.P):
            yield self.links, bucket_files(a, b, store.manifest.K, store.weighted), a, b

    def features(self, part: int, *names: str) -> Iterable[str]:
        self._store.features(part)  # reading checks them
        return ()

    def labels(self, part: int, name: str) -> Iterable[str]:
        counts = count_labels(self._store.labels(part), self._store.classes)
        self._labelled += np.array(list(counts.values()), dtype=np.int64)
        return ()

    def truth(self, part: int, name: str) -> Iterable[str]:
        self._store.truth(part)
        return ()

    def ids(self, part: int, name: str) -> Iterator[str]:
        ids = self._store.ids(part)
        if ids.null_count or pc.count_distinct(ids).as_py() != len(ids):
            yield f"{name} contains duplicate or missing ids"
        elif elsewhere := self._appended.misplaced(part, hash64(ids)):
            yield f"{name} contains {elsewhere} ids of other parts"

    def links(self, a: int, b: int, name: str, *others: str) -> Iterator[str]:
        pairs, heads, _ = self._store.bucket(a, b)
        keys = pack(pairs[:, 0], pairs[:, 1], within=False)
        wrong = keys[1:] <= keys[:-1]
        if heads is not None:
            wrong &= (keys[1:] != keys[:-1]) | (heads[1:] <= heads[:-1])
        if wrong.any():
            yield f"{name} must contain sorted links without duplicates"
        if a == b:
            if (pairs[:, 0] > pairs[:, 1]).any():
                yield f"{name} must contain links with the smaller row first"
            loops = is_loop(keys)
            self._loops += int(np.count_nonzero(loops))
            if heads is not None and self._store.directed and (heads[loops] & 1).any():
                yield f"{others[0]} must contain even heads for self-loops"

    def totals(self) -> Iterator[str]:
        """Compare the counts with those of the manifest."""
        manifest = self._store.manifest
        if self._loops != manifest.loops:
            yield f"the manifest has {manifest.loops} self-loops; there are {self._loops}"
        if self._labelled.tolist() != list(manifest.labelled):
            yield "the counts of labels in the manifest differ from those of the parts"
