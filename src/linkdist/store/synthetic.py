"""A graph of planted classes, made straight into a store, of any size.

A node's class y is drawn evenly. Its features are noise of deviation 1 around its class's mean,
and the means lie so far apart that features alone tell a class in 60 % of the cases. A link's first
node is drawn evenly, its second of the same class with probability `homophily`, else evenly. A
share of the nodes is labelled; the truth of all is stored beside.

Each part and each bucket has random numbers of its own. So a file depends on the options alone, and
a killed process leaves out what is there already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.errors import OptionError, check_names
from linkdist.progress import Callback
from linkdist.store.build_log import Journal, open_journal
from linkdist.store.keys import Keys, Seen, count_loops, distinct, packed, unpacked
from linkdist.store.manifest import DENSE, bucket_file, buckets, expected_files, part_file
from linkdist.store.npy import HEADER, as_bytes, npy_header, rows_in
from linkdist.store.plan import MEMORY, check_parts, parse_memory, parts_for
from linkdist.store.reader import Store

TOLD = 0.6
"""How often the best guess from a node's features alone is right."""

CHUNK = 1 << 22
"""Features that are drawn at once."""

NODE, LINK, MEANS = range(3)
"""Whose random numbers they are."""


@dataclass(frozen=True)
class Planted:
    """What graph to make; the fields are the command's options.

    Attributes
    ----------
    nodes, links, features, classes : int
        How many; links that come twice are dropped.
    labelled, homophily : float
        Shares, of the nodes and of the links.
    seed : int
        Of all that is drawn.
    dtype : {'float16', 'float32'}
        Of the features.
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
        """Refuse what no graph can be made of, all of it at once."""
        check_names("type of features", [self.dtype], DENSE)
        least = {"nodes": 2, "links": 1, "features": 1, "classes": 2, "seed": 0}
        problems = [
            f"--{name} must be {low} or more; found {getattr(self, name)}."
            for name, low in least.items()
            if getattr(self, name) < low
        ]
        problems += [
            f"--{name} must be a share, 0 to 1; found {getattr(self, name)}."
            for name in ("labelled", "homophily")
            if not 0 <= getattr(self, name) <= 1
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
    """Make a graph of planted classes as a store; killed, it goes on where it was.

    Parameters
    ----------
    out : Path
        The store's directory.
    planted : Planted
        What graph.
    parts : int, optional
        How many; by default as few as suit the memory.
    memory : int, optional
        Bytes that training shall take at most; by default 2 GB.
    overwrite : bool
        Whether a store that is there may be replaced.
    callback : Callback, optional
        Receives progress and messages.

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
        journal.needed = _bytes(planted, parts)
        journal.note()
        callback.stage("making nodes")
        for part, n in enumerate(sizes.tolist()):
            _make_part(journal, planted, part, n)
            callback.progress(part + 1, parts)
        callback.stage("making links")
        for done, _ in enumerate(_make_buckets(journal, planted, sizes), start=1):
            callback.progress(done, parts * (parts + 1) // 2)
        _finish(journal, planted, sizes, callback)
    return Store.open(out)


def _bytes(planted: Planted, parts: int) -> float:
    """Bytes of the whole store."""
    node = planted.features * np.dtype(planted.dtype).itemsize + 2 * 4 + 1
    return planted.nodes * node + planted.links * 8 + (3 * parts + parts**2 / 2) * HEADER


def _make_part(journal: Journal, planted: Planted, part: int, n: int) -> None:
    truth, labels, features = (
        part_file(part, f"{name}.npy") for name in ("truth", "labels", "features")
    )
    if journal.has(features):
        return
    random = np.random.default_rng([planted.seed, NODE, part])
    y = random.integers(0, planted.classes, n, dtype=np.int32)
    known = random.random(n, dtype=np.float32) < planted.labelled
    journal.save(truth, y)
    journal.save(labels, np.where(known, y, np.int32(UNKNOWN)))
    means = _means(planted)
    with journal.whole(features) as file:  # last: it stands for all three
        file.write(npy_header((n, planted.features), planted.dtype))
        step = max(1, CHUNK // planted.features)
        for start in range(0, n, step):
            of = y[start : start + step]
            x = random.standard_normal((len(of), planted.features), dtype=np.float32)
            x += means[of]
            file.write(as_bytes(x.astype(planted.dtype)))


def _means(planted: Planted) -> npt.NDArray[np.float32]:
    """The classes' means, (C, d), all equally far from 0."""
    random = np.random.default_rng([planted.seed, MEANS])
    means = random.standard_normal((planted.classes, planted.features))
    means *= _distance(planted.classes) / np.linalg.norm(means, axis=1, keepdims=True)
    return means.astype(np.float32)


def _distance(C: int) -> float:
    """How far from 0 the means of C classes must lie, in as many directions.

    The node's own direction shows r plus noise, the others noise alone: the right one is the
    largest with probability ∫ φ(t - r) Φ(t)^(C - 1) dt.
    """
    from scipy.special import ndtr

    t = np.linspace(-12.0, 24.0, 3601)
    low, high = 0.0, 12.0
    for _ in range(50):
        r = (low + high) / 2
        right = np.sum(np.exp(-((t - r) ** 2) / 2) * ndtr(t) ** (C - 1)) * (t[1] - t[0])
        low, high = (low, r) if right / np.sqrt(2 * np.pi) > TOLD else (r, high)
    return low


def _make_buckets(journal: Journal, planted: Planted, sizes: IntArray) -> Iterator[None]:
    """Make the links between parts, then those within: who has none until then gets a self-loop."""
    P = len(sizes)
    share = np.triu(2 * np.outer(sizes, sizes) - np.diag(sizes**2))[np.triu_indices(P)]
    ends = np.rint(planted.links * (np.cumsum(share) / share.sum())).astype(np.int64)
    wanted = dict(zip(buckets(P), np.diff(ends, prepend=0).tolist(), strict=True))
    seen = Seen(journal, sizes)
    for within in (False, True):
        for b in range(P):
            others: _ByClass | None = None
            for a in [b] if within else range(b):
                if not journal.has(bucket_file(a, b)):
                    others = others or _ByClass(_truth(journal, b), planted.classes)
                    keys = _draw(journal, planted, others, wanted[a, b], a, b)
                    links = unpacked(keys)
                    seen.mark(a, links[:, 0])
                    seen.mark(b, links[:, 1])
                    if within:
                        links = unpacked(seen.with_own_loops(b, keys))
                    journal.save(bucket_file(a, b), links)
                yield


class _ByClass:
    """The rows of a part, from which those of a class can be drawn."""

    def __init__(self, y: npt.NDArray[np.int32], C: int) -> None:
        kind = np.uint16 if C <= 1 << 16 else np.int32  # the former are sorted by their digits
        self.rows = np.argsort(y.astype(kind), kind="stable").astype(np.uint32)
        self.size = np.bincount(y, minlength=C)
        self.start = np.cumsum(self.size) - self.size

    def draw(self, random: np.random.Generator, of: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """A row of the class asked for, for each; any row where there is none of it."""
        size, start = self.size[of], self.start[of]
        size[of < 0], start[of < 0] = 0, 0
        start[size == 0], size[size == 0] = 0, len(self.rows)
        place = (random.random(len(of)) * size).astype(np.int64) + start
        return self.rows[place].astype(np.int64)


def _draw(journal: Journal, planted: Planted, others: _ByClass, m: int, a: int, b: int) -> Keys:
    """About m links between two parts, each once, none of them a self-loop."""
    random = np.random.default_rng([planted.seed, LINK, a, b])
    y = _truth(journal, a)
    i = random.integers(0, len(y), m)
    alike = random.random(m, dtype=np.float32) < planted.homophily
    j = others.draw(random, np.where(alike, y[i], np.int32(UNKNOWN)))
    apart = slice(None) if a != b else i != j
    return distinct(packed(i[apart], j[apart], within=a == b))


def _truth(journal: Journal, part: int) -> npt.NDArray[np.int32]:
    y: npt.NDArray[np.int32] = np.load(journal.folder / part_file(part, "truth.npy"))
    return y


def _finish(journal: Journal, planted: Planted, sizes: IntArray, callback: Callback) -> None:
    P, folder = len(sizes), journal.folder
    labelled, loops = np.zeros(planted.classes, dtype=np.int64), 0
    for part in range(P):
        y = np.load(folder / part_file(part, "labels.npy"))
        labelled += np.bincount(y[y != UNKNOWN], minlength=planted.classes)
        links = np.load(folder / bucket_file(part, part))
        loops += count_loops(packed(links[:, 0], links[:, 1], within=True))
    fields = {
        "kind": planted.dtype,
        "d": planted.features,
        "classes": tuple(str(c) for c in range(planted.classes)),
        "labelled": tuple(labelled.tolist()),
        "sizes": tuple(sizes.tolist()),
        "counts": tuple(rows_in(folder / bucket_file(a, b), 8) for a, b in buckets(P)),
        "loops": loops,
        "made": True,
        "columns": None,
        "source": asdict(planted),
    }
    journal.finish(expected_files(P, planted.dtype, made=True), fields, callback)
