"""Whether a store is what its manifest says, to the last byte and beyond.

A digest tells that a file is the one that was written. That what was written is a graph, the
content tells: rows within their parts, links in order, labels within the classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from scipy import sparse

from linkdist.data.graph import UNKNOWN
from linkdist.errors import StoreError
from linkdist.progress import Callback
from linkdist.store.hashing import hash64, part_of
from linkdist.store.keys import count_loops, packed
from linkdist.store.manifest import Manifest, bucket_file, buckets, feature_files, part_file
from linkdist.store.reader import Store, distrust, size_problems


def check(directory: Path | str, callback: Callback | None = None) -> list[str]:
    """All that is wrong with a store, in words.

    Parameters
    ----------
    directory : Path
        The store.
    callback : Callback, optional
        Receives progress and messages.

    Raises
    ------
    StoreError
        If it has no manifest that can be read.

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
    distrust()
    problems = size_problems(target, store.manifest)
    look = _Look(store, {problem.partition(" ")[0] for problem in problems})
    looks = [
        *(partial(look.at_part, part) for part in range(store.P)),
        *(partial(look.at_bucket, a, b) for a, b in buckets(store.P)),
    ]
    callback.stage("checking")
    for done, at in enumerate(looks, start=1):
        problems += at()
        callback.progress(done, len(looks))
    return problems or look.at_totals()


class _Look:
    """What is wrong with parts and buckets; `broken` files are not looked into."""

    def __init__(self, store: Store, broken: set[str]) -> None:
        self._store, self._broken = store, broken
        self._labelled = np.zeros(store.C, dtype=np.int64)
        self._loops = 0

    def at_part(self, part: int) -> list[str]:
        store = self._store
        found = self._tried(_features, part, *feature_files(part, store.kind))
        found += self._tried(self._labels, part, part_file(part, "labels.npy"))
        if store.manifest.made:
            return found + self._tried(_truth, part, part_file(part, "truth.npy"))
        return found + self._tried(_ids, part, part_file(part, "ids.arrow"))

    def at_bucket(self, a: int, b: int) -> list[str]:
        return self._tried(partial(self._links, a, b), a, bucket_file(a, b))

    def at_totals(self) -> list[str]:
        """Whether what was counted on the way is what the manifest says."""
        store, found = self._store, []
        if self._loops != store.loops:
            found.append(f"the manifest counts {store.loops} self-loops; there are {self._loops}")
        if self._labelled.tolist() != list(store.manifest.labelled):
            found.append("the manifest's counts of labels are not those of the parts")
        return found

    def _tried(self, look: Callable[..., list[str]], part: int, *names: str) -> list[str]:
        if self._broken.intersection(names):
            return []
        try:
            return look(self._store, part, *names)
        except StoreError as error:
            return [str(error)]

    def _labels(self, store: Store, part: int, name: str) -> list[str]:
        y = store.labels(part)
        bad = int(((y < UNKNOWN) | (y >= store.C)).sum())
        if bad:
            return [f"{name} must hold {UNKNOWN}..{store.C - 1}; {bad} are outside"]
        self._labelled += np.bincount(y[y != UNKNOWN], minlength=store.C)
        return []

    def _links(self, a: int, b: int, store: Store, _: int, name: str) -> list[str]:
        links, found = store.links(a, b), []
        for part, rows in ((a, links[:, 0]), (b, links[:, 1])):
            outside = int((rows >= store.sizes[part]).sum())
            if outside:
                rule = f"{name} must name rows 0..{store.sizes[part] - 1} of part {part}"
                found.append(f"{rule}; {outside} are outside")
        keys = packed(links[:, 0], links[:, 1], within=False)
        if (keys[1:] <= keys[:-1]).any():
            found.append(f"{name} must hold links in order, each once")
        if a == b:
            if (links[:, 0] > links[:, 1]).any():
                found.append(f"{name} must hold links with the smaller row first")
            self._loops += count_loops(keys)
        return found


def _features(store: Store, part: int, *names: str) -> list[str]:
    x: Any = store.features(part)
    if sparse.issparse(x):
        if (np.diff(x.indptr) < 0).any():
            return [f"{names[2]} must rise from 0"]
        if len(x.indices) and not 0 <= x.indices.min() <= x.indices.max() < store.d:
            return [f"{names[1]} must hold features 0..{store.d - 1}"]
        x = x.data
    bad = int((~np.isfinite(x)).sum())
    return [f"{names[0]} must hold finite numbers; {bad} are not"] if bad else []


def _truth(store: Store, part: int, name: str) -> list[str]:
    y = store.truth(part)
    bad = int(((y < 0) | (y >= store.C)).sum())
    return [f"{name} must hold 0..{store.C - 1}; {bad} are outside"] if bad else []


def _ids(store: Store, part: int, name: str) -> list[str]:
    ids = store.ids(part)
    if ids.null_count or pc.count_distinct(ids).as_py() != len(ids):
        return [f"{name} must hold ids that stand once"]
    elsewhere = int((part_of(hash64(ids), store.P) != part).sum())
    return [f"{name} holds {elsewhere} ids of other parts"] if elsewhere else []
