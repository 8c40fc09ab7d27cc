"""Generate a graph with planted classes directly as a store, of any size.

The class y of a node is drawn uniformly. Its features are noise of standard deviation 1 around the
mean of its class, and the means are so far apart that features alone give the class in 60 % of the
cases. The first node of a link is drawn uniformly, the second from the same class with probability
`homophily` and uniformly otherwise. A fraction of the nodes has a label; the class of every node is
stored as well.

Each part and each bucket has its own random stream. So a file depends on the options alone, and a
process that continues after a kill skips the files that exist.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.errors import OptionError, check_names
from linkdist.progress import Callback, Progress
from linkdist.store.build import count_known
from linkdist.store.format import DENSE, bucket_file, buckets, expected_files, npy_header, part_file
from linkdist.store.journal import Journal, open_journal
from linkdist.store.keys import Keys, pack, sort_unique
from linkdist.store.plan import MEMORY, check_parts, parse_memory, parts_for
from linkdist.store.reader import Store
from linkdist.store.resolve_links import BucketWriter, count_links

ACCURACY = 0.6
"""Accuracy of the best classifier that uses features alone."""

CHUNK = 1 << 22
"""Number of features that are drawn at once."""

NODE, LINK, MEANS = range(3)
"""The random streams."""


@dataclass(frozen=True)
class Planted:
    """The graph to generate; the fields are the options of the command.

    Attributes
    ----------
    nodes, links, features, classes : int
        Number of each; duplicate links are dropped.
    labelled, homophily : float
        Fraction of the nodes with a label, and of the links within a class.
    seed : int
        Random seed.
    dtype : {'float16', 'float32'}
        Type of the features.
    """

    nodes: int
    links: int
    features: int = 64
    classes: int = 40
    labelled: float = 0.01
    homophily: float = 0.8
    seed: int = 0
    dtype: str = "float16"

    def check(self) -> None:
        """Raise an error with all values that are out of range."""
        check_names("type of features", [self.dtype], DENSE)
        least = {"nodes": 2, "links": 1, "features": 1, "classes": 2, "seed": 0}
        rules = {name: (low, math.inf, f"{low} or more") for name, low in least.items()}
        rules |= dict.fromkeys(("labelled", "homophily"), (0, 1, "0 to 1"))
        problems = [
            f"--{name} must be {rule}; found {getattr(self, name)}."
            for name, (low, high, rule) in rules.items()
            if not low <= getattr(self, name) <= high
        ]
        if problems:
            raise OptionError(" ".join(problems))


def synth(
    out: Path | str,
    planted: Planted,
    *,
    parts: int | None = None,
    memory: int | None = None,
    overwrite: bool = False,
    callback: Callback | None = None,
) -> Store:
    """Generate a graph with planted classes; after a kill, it continues where it stopped.

    Parameters
    ----------
    out : Path
        The directory of the store.
    planted : Planted
        The graph to generate.
    parts : int, optional
        Number of parts; by default the smallest number that fits the memory.
    memory : int, optional
        Bytes that training may use; by default 2 GB.
    overwrite : bool
        Whether an existing store may be replaced.
    callback : Callback, optional
        Receives the progress.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = synth(f"{folder}/store", Planted(1000, 5000), parts=3)
    ...     store.n, store.P, store.features(0).shape, store.ids(2)[7].as_py()
    (1000, 3, (333, 64), '2-7')
    """
    planted.check()
    callback = callback or Callback()
    if parts is None:
        node = planted.features * np.dtype(planted.dtype).itemsize + 4
        parts = parts_for(planted.nodes, node, planted.links, memory or parse_memory(MEMORY))
    check_parts(parts, planted.links)
    sizes = np.diff(np.arange(parts + 1) * planted.nodes // parts)
    with open_journal(out, {"synth": asdict(planted), "parts": parts}, overwrite) as journal:
        width = planted.features * np.dtype(planted.dtype).itemsize + 2 * 4 + 1
        journal.commit(needed=planted.nodes * width + planted.links * 8)
        callback.stage("generating nodes")
        for part, n in enumerate(sizes.tolist()):
            _write_part(journal, planted, part, n)
            callback.progress(part + 1, parts)
        callback.stage("generating links")
        _write_buckets(journal, planted, sizes, callback.progress)
        names = expected_files(parts, planted.dtype, synthetic=True)
        journal.finish(names, _fields(journal.folder, planted, sizes), callback)
    return Store.open(out)


def _write_part(journal: Journal, planted: Planted, part: int, n: int) -> None:
    features = part_file(part, "features.npy")
    if journal.has(features):
        return
    random = np.random.default_rng([planted.seed, NODE, part])
    y = random.integers(0, planted.classes, n, dtype=np.int32)
    known = random.random(n, dtype=np.float32) < planted.labelled
    journal.save(part_file(part, "truth.npy"), y)
    journal.save(part_file(part, "labels.npy"), np.where(known, y, np.int32(UNKNOWN)))
    means = _means(planted)
    with journal.replace(features) as file:  # last: if it exists, so do the other two
        file.write(npy_header((n, planted.features), planted.dtype))
        step = max(1, CHUNK // planted.features)
        for start in range(0, n, step):
            classes = y[start : start + step]
            x = random.standard_normal((len(classes), planted.features), dtype=np.float32)
            x += means[classes]
            file.write(x.astype(planted.dtype).data)


def _means(planted: Planted) -> npt.NDArray[np.float32]:
    """The means of the classes, (C, d), all at the same distance from 0."""
    random = np.random.default_rng([planted.seed, MEANS])
    means = random.standard_normal((planted.classes, planted.features))
    means *= _distance(planted.classes) / np.linalg.norm(means, axis=1, keepdims=True)
    return means.astype(np.float32)


def _distance(C: int) -> float:
    """The distance r of the means of C classes from 0, if they are orthogonal.

    The features have the coordinate r plus noise in the direction of the class of a node, and noise
    alone in the others: the former is the largest with probability ∫ φ(t - r) Φ(t)^(C - 1) dt.
    """
    from scipy.special import ndtr

    t = np.linspace(-12.0, 24.0, 3601)
    low, high = 0.0, 12.0
    for _ in range(50):
        r = (low + high) / 2
        right = np.sum(np.exp(-((t - r) ** 2) / 2) * ndtr(t) ** (C - 1)) * (t[1] - t[0])
        low, high = (low, r) if right / np.sqrt(2 * np.pi) > ACCURACY else (r, high)
    return low


def _write_buckets(journal: Journal, planted: Planted, sizes: IntArray, progress: Progress) -> None:
    """Write the links between parts, then those within, with self-loops at isolated nodes."""
    P = len(sizes)
    share = np.triu(2 * np.outer(sizes, sizes) - np.diag(sizes**2))[np.triu_indices(P)]
    ends = np.rint(planted.links * (np.cumsum(share) / share.sum())).astype(np.int64)
    wanted = dict(zip(buckets(P), np.diff(ends, prepend=0).tolist(), strict=True))
    writer = BucketWriter(journal, sizes)
    by_class = lru_cache(1)(lambda part: _ByClass(_truth(journal, part), planted.classes))
    order = sorted(buckets(P), key=lambda pair: (pair[0] == pair[1], pair[1]))
    for done, (a, b) in enumerate(order, start=1):
        if not journal.has(bucket_file(a, b)):
            writer.write(a, b, _draw(journal, planted, by_class(b), wanted[a, b], a, b))
        progress(done, len(order))


class _ByClass:
    """The rows of a part by class, to draw rows of a class."""

    def __init__(self, y: npt.NDArray[np.int32], C: int) -> None:
        kind = np.uint16 if C <= 1 << 16 else np.int32  # NumPy sorts the former by radix sort
        self.rows = np.argsort(y.astype(kind), kind="stable").astype(np.uint32)
        self.size = np.bincount(y, minlength=C)
        self.start = np.cumsum(self.size) - self.size

    def draw(self, random: np.random.Generator, y: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """A row of each class in y; any row for -1 or a class without rows."""
        size, start = self.size[y], self.start[y]
        size[y < 0], start[y < 0] = 0, 0
        start[size == 0], size[size == 0] = 0, len(self.rows)
        place = (random.random(len(y)) * size).astype(np.int64) + start
        return self.rows[place].astype(np.int64)


def _draw(journal: Journal, planted: Planted, others: _ByClass, m: int, a: int, b: int) -> Keys:
    """About m distinct links between two parts, without self-loops."""
    random = np.random.default_rng([planted.seed, LINK, a, b])
    y = _truth(journal, a)
    i = random.integers(0, len(y), m)
    same = random.random(m, dtype=np.float32) < planted.homophily
    j = others.draw(random, np.where(same, y[i], np.int32(UNKNOWN)))
    apart = slice(None) if a != b else i != j
    return sort_unique(pack(i[apart], j[apart], within=a == b))


def _truth(journal: Journal, part: int) -> npt.NDArray[np.int32]:
    y: npt.NDArray[np.int32] = np.load(journal.folder / part_file(part, "truth.npy"))
    return y


def _fields(folder: Path, planted: Planted, sizes: IntArray) -> dict[str, Any]:
    """The fields of the manifest, except the files."""
    P = len(sizes)
    within = (np.load(folder / bucket_file(part, part)) for part in range(P))
    classes = tuple(map(str, range(planted.classes)))
    return {
        "kind": planted.dtype,
        "d": planted.features,
        "task": "classification",
        "classes": classes,
        "labelled": count_known(folder, P, classes),
        "label_format": {},
        "sizes": sizes.tolist(),
        "hashed": P,
        "counts": count_links(folder, P),
        "loops": sum(int((links[:, 0] == links[:, 1]).sum()) for links in within),
        "directed": False,
        "weighted": False,
        "synthetic": True,
        "columns": None,
        "source": asdict(planted),
    }
