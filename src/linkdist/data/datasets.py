"""Named graphs: one embedded, and the paper's eight, read from their raw files.

`digits` needs no file: scikit-learn's 1797 images of handwritten digits, each linked to the eight
images nearest to it. The paper's sets are read from the files that their authors publish, which a
PyTorch Geometric user already has. They are looked for

1. in the folder given, or else in the one that LINKDIST_DATA names,
2. in the cache folder: LINKDIST_CACHE, or else linkdist in XDG_CACHE_HOME or ~/.cache;

what is in neither is downloaded into the cache folder, whole and checked or not at all.

Two things are done so that a file can be trusted. The planetoid files are pickles, and
`_safe_pickle` reads them without running anything they say. And once read, a set must have the
paper's counts and, by a digest over its arrays, the very content that the paper's numbers rest on;
the digest is of arrays rather than of files because the same arrays are passed around in more than
one encoding.

Values stay as stored. Only the three planetoid sets have their rows scaled to sum to 1.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from scipy import sparse

from linkdist.data._safe_pickle import checked_csr, unpickle
from linkdist.data.graph import FeatureMatrix, FloatArray, Graph, IntArray
from linkdist.errors import DataError, OptionError, check_names

_PICKLES = ("x", "y", "tx", "ty", "allx", "ally", "graph")
_NPZ_PARTS = ("data", "indices", "indptr", "shape")
_NEIGHBOURS = 8
_TRAIN_PER_CLASS, _VALIDATION, _TEST = 20, 500, 1000
_TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class DatasetInfo:
    """What a named graph holds and where its raw files come from.

    Attributes
    ----------
    name : str
        What to ask for.
    n, d, C, e : int
        Nodes, features, classes, and entries in the directed edge list.
    family, folder : str
        Its raw files lie in family/folder/raw, as PyTorch Geometric lays them out.
    files : tuple of str
        Names of the raw files; none if the set is embedded.
    source : str
        The address that the files lie under.
    digest : str or None
        SHA-256 over the arrays; None if nobody has seen them yet, then only counts are checked.
    """

    name: str
    n: int
    d: int
    C: int
    e: int
    family: str = ""
    folder: str = ""
    files: tuple[str, ...] = ()
    source: str = ""
    digest: str | None = None

    @property
    def urls(self) -> tuple[str, ...]:
        """Public addresses of the raw files."""
        return tuple(f"{self.source}/{file}" for file in self.files)


def _planetoid(
    name: str, folder: str, counts: tuple[int, int, int, int], digest: str
) -> DatasetInfo:
    files = tuple(f"ind.{name}.{part}" for part in (*_PICKLES, "test.index"))
    source = "https://github.com/kimiyoung/planetoid/raw/master/data"
    return DatasetInfo(name, *counts, "planetoid", folder, files, source, digest)


def _npz(
    name: str, where: str, file: str, counts: tuple[int, int, int, int], digest: str | None
) -> DatasetInfo:
    family, folder = where.split("/")
    source = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
    return DatasetInfo(name, *counts, family, folder, (file,), source, digest)


DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        DatasetInfo(
            "digits",
            1797,
            64,
            10,
            19858,
            digest="00c2bf142434370c19139a3787792b6fe558378ff0189dfb3f42f3a7ffc05b11",
        ),
        _planetoid(
            "cora",
            "Cora",
            (2708, 1433, 7, 10556),
            "5f3e728d5fccc60e8411d19fc3b3e937d60e2aa43d1ca4468de9125a35cb7278",
        ),
        _planetoid(
            "citeseer",
            "CiteSeer",
            (3327, 3703, 6, 9228),
            "3b226cf8a1a1e00ef827ce91a18ac43903104fe247d5f16db02a61f6267a5b96",
        ),
        _planetoid(
            "pubmed",
            "PubMed",
            (19717, 500, 3, 88651),
            "4e8df22057a5be8703c039b5b733d0b77b2459da0008407fe1182d91ea40a4a9",
        ),
        _npz(
            "cora-full",
            "citation_full/Cora",
            "cora_full.npz",
            (19793, 8710, 70, 126842),
            None,
        ),
        _npz(
            "amazon-photo",
            "amazon/Photo",
            "amazon_electronics_photo.npz",
            (7650, 745, 8, 238163),
            "e359dc3b18b403854b1fe19dbd331049443c441177c5bb1aed78155a6c6422a7",
        ),
        _npz(
            "amazon-computers",
            "amazon/Computers",
            "amazon_electronics_computers.npz",
            (13752, 767, 10, 491722),
            "9b83a6901ff525a906f2ffcaf93781c67d7ee2e043c05b6fecee6206a0335ba6",
        ),
        _npz(
            "coauthor-cs",
            "coauthor/CS",
            "ms_academic_cs.npz",
            (18333, 6805, 15, 163788),
            "08320df7721cbc6b49074fb4a9ae60d40ce6ca01251711f18fcbcc3287fb279d",
        ),
        _npz(
            "coauthor-physics",
            "coauthor/Physics",
            "ms_academic_phy.npz",
            (34493, 8415, 5, 495924),
            "670372f4d7d5f6697df206a3a37a96ecdeb72a5d2288e4a987baa0b0e2e79d60",
        ),
    )
}
"""Every named graph, in the order in which they are shown."""

PAPER_DATASETS: tuple[str, ...] = tuple(name for name in DATASETS if name != "digits")
"""The eight sets of the paper."""

PUBLIC_SPLITS: tuple[str, ...] = tuple(
    name for name, info in DATASETS.items() if info.family == "planetoid"
)
"""Those that are published with a split."""


def load(name: str, data: str | Path | None = None, *, download: bool = True) -> Graph:
    """Load a named graph.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.
    data : path, optional
        A folder with raw files; by default the one that LINKDIST_DATA names.
    download : bool, optional
        Whether to download what is neither there nor in the cache folder.

    Raises
    ------
    OptionError
        If there is no such set.
    DataError
        If its raw files are missing, cut off or foreign.

    Examples
    --------
    >>> graph = load("digits")
    >>> graph.n, graph.d, graph.C
    (1797, 64, 10)
    """
    info = _info(name)
    if not info.files:
        return _digits(info)
    return _read(info, _locate(info, data, download))


def public_split(
    name: str, data: str | Path | None = None, *, download: bool = True
) -> tuple[IntArray, IntArray, IntArray]:
    """Give the split that cora, citeseer and pubmed are published with.

    Training nodes are the first 20 a class, validation nodes the 500 after them; the 1000 test
    nodes are those of the file test.index.

    Parameters
    ----------
    name : str
        One of `PUBLIC_SPLITS`.
    data, download
        As for `load`.

    Returns
    -------
    train, validation, test : int64 arrays
        Numbers of nodes, in order.

    Raises
    ------
    OptionError
        If the set has no public split.
    DataError
        If its raw files are missing, cut off or foreign.

    Examples
    --------
    >>> public_split("digits")
    Traceback (most recent call last):
    linkdist.errors.OptionError: digits has no public split; cora, citeseer, pubmed have one.
    """
    info = _info(name)
    if name not in PUBLIC_SPLITS:
        raise OptionError(f"{name} has no public split; {', '.join(PUBLIC_SPLITS)} have one.")
    folder = _locate(info, data, download)
    train = np.arange(_TRAIN_PER_CLASS * info.C, dtype=np.int64)
    validation = np.arange(len(train), len(train) + _VALIDATION, dtype=np.int64)
    with _reading(info, folder / info.files[-1]):
        test = np.unique(_test_index(info, folder))
        if len(test) != _TEST or test[0] <= validation[-1] or test[-1] >= info.n:
            low = validation[-1] + 1
            raise ValueError(f"it must name {_TEST} different nodes in {low}..{info.n - 1}")
    return train, validation, test


def find_raw(name: str, data: str | Path | None = None) -> Path | None:
    """Tell where all of a set's raw files are at hand.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.
    data : path, optional
        As for `load`.

    Returns
    -------
    Path or None
        The folder that holds them; None if no place has them all, or the set needs none.

    Examples
    --------
    >>> find_raw("digits") is None
    True
    """
    info = _info(name)
    complete = (folder for folder in _candidates(info, data) if not _absent(info, folder))
    return next(complete, None) if info.files else None


def _info(name: str) -> DatasetInfo:
    check_names("data set", [name], DATASETS)
    return DATASETS[name]


# Digits.


def _digits(info: DatasetInfo) -> Graph:
    from sklearn.datasets import load_digits  # takes a second, and no other graph needs it

    bunch = load_digits()
    images: npt.NDArray[np.float64] = bunch.data
    features: FloatArray = (images / 16).astype(np.float32)
    classes = tuple(str(digit) for digit in bunch.target_names)
    return Graph.build(features, _nearest(images), bunch.target, classes, info.name)


def _nearest(images: npt.NDArray[np.float64]) -> IntArray:
    """Pairs of each image and its nearest ones, the lower number first where two are as near.

    Pixels are whole numbers, so every sum below is exact and the links are the same everywhere.
    """
    squares = (images**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * images @ images.T
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :_NEIGHBOURS]
    nodes = np.repeat(np.arange(len(images)), _NEIGHBOURS)
    return np.stack([nodes, nearest.ravel()], axis=1)


# Where raw files are.


def _cache_folder() -> Path:
    if own := os.environ.get("LINKDIST_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "linkdist"


def _places(data: str | Path | None) -> list[Path]:
    given = os.environ.get("LINKDIST_DATA") if data is None else data
    return [*([Path(given).expanduser()] if given else []), _cache_folder()]


def _candidates(info: DatasetInfo, data: str | Path | None) -> Iterator[Path]:
    for place in _places(data):
        yield place / info.family / info.folder / "raw"
        yield place / info.folder / "raw"
        yield place


def _absent(info: DatasetInfo, folder: Path) -> list[str]:
    return [file for file in info.files if not (folder / file).is_file()]


def _locate(info: DatasetInfo, data: str | Path | None, download: bool) -> Path:
    found = find_raw(info.name, data)
    if found is not None:
        return found
    if download:
        return _download(info)
    absent = min((_absent(info, folder) for folder in _candidates(info, data)), key=len)
    places = ", ".join(str(place) for place in _places(data))
    raise DataError(
        f"{info.name} needs {', '.join(absent)}, which is in none of the places looked in: "
        f"{places} (there in {info.family}/{info.folder}/raw, {info.folder}/raw or the folder "
        f"itself). {_by_hand(info)}"
    )


def _by_hand(info: DatasetInfo) -> str:
    return (
        f"The files of {info.name} are public: put {', '.join(info.files)} from {info.source} "
        "into one folder and name it with --data DIR or LINKDIST_DATA."
    )


# Download.


def _download(info: DatasetInfo) -> Path:
    """Fetch a set into the cache folder, where it appears whole and checked or not at all."""
    cache = _cache_folder()
    target = cache / info.family / info.folder / "raw"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=cache) as scratch:
            fetched = Path(scratch) / "raw"
            fetched.mkdir()
            _fetch(info, fetched)
            _check_fetched(info, fetched)
            target.parent.mkdir(parents=True, exist_ok=True)
            _move(fetched, target)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(
            f"{info.name} could not be downloaded from {info.source} ({reason}); nothing was "
            f"kept. Try again, or get it by hand. {_by_hand(info)}"
        ) from error
    return target


def _fetch(info: DatasetInfo, folder: Path) -> None:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        for url, file in zip(info.urls, info.files, strict=True):
            _fetch_file(url, folder / file, bar)


def _fetch_file(url: str, path: Path, bar: Progress) -> None:
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as reply, path.open("wb") as file:
        size = int(reply.headers.get("Content-Length") or 0)
        task = bar.add_task(path.name, total=size or None)
        while chunk := reply.read(1 << 16):
            bar.advance(task, file.write(chunk))
        if size and file.tell() != size:  # urllib takes a cut-off reply for a finished one
            raise OSError(f"{path.name} was cut off after {file.tell()} of {size} bytes")


def _check_fetched(info: DatasetInfo, folder: Path) -> None:
    try:
        _read(info, folder)
    except DataError as error:
        raise DataError(f"The download was refused and removed: {error}") from error


def _move(folder: Path, target: Path) -> None:
    try:
        folder.rename(target)
    except OSError:  # part of the set lies there, or another process was quicker
        for path in folder.iterdir():
            path.replace(target / path.name)


# Reading and checking.


def _read(info: DatasetInfo, folder: Path) -> Graph:
    planetoid = info.family == "planetoid"
    graph = _read_planetoid(info, folder) if planetoid else _read_npz(info, folder)
    # The digest is taken before rows are scaled: rounding is the machine's, the content is not.
    _check(info, graph, folder)
    return replace(graph, features=_rows_to_one(graph.features)) if planetoid else graph


@contextmanager
def _reading(info: DatasetInfo, path: Path) -> Iterator[None]:
    """Say of anything that goes wrong which file or folder it was."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # a damaged pickle or archive can fail in any way at all
        found = f"{type(error).__name__}: {error}"
        raise DataError(f"{path} is foreign or damaged ({found}). {_anew(info)}") from error


def _anew(info: DatasetInfo) -> str:
    return (
        f"Remove the files of {info.name} there and they are downloaded anew, or replace them. "
        f"{_by_hand(info)}"
    )


def _check(info: DatasetInfo, graph: Graph, folder: Path) -> None:
    expected = f"n = {info.n}, d = {info.d}, C = {info.C}, e = {info.e}"
    found = f"n = {graph.n}, d = {graph.d}, C = {graph.C}, e = {len(graph.edges)}"
    if found == expected and info.digest is not None:
        expected, found = f"digest {info.digest}", f"digest {_digest(graph)}"
    if found != expected:
        raise DataError(
            f"{folder} does not hold {info.name} as published: expected {expected}; found {found}. "
            f"A file is foreign or damaged. {_anew(info)}"
        )


def _digest(graph: Graph) -> str:
    """SHA-256 over a graph's arrays in one fixed form."""
    x = sparse.csr_matrix(graph.features)
    total = hashlib.sha256(np.array(x.shape, dtype="<i8").tobytes())
    for array in (x.indptr, x.indices, graph.links, graph.labels):
        total.update(array.astype("<i8").tobytes())
    total.update(x.data.astype("<f4").tobytes())
    return total.hexdigest()


def _rows_to_one(x: FeatureMatrix) -> sparse.csr_matrix:
    """Scale rows to sum to 1; an all-zero row stores nothing and so stays."""
    x = sparse.csr_matrix(x)
    sums = np.asarray(x.sum(axis=1, dtype=np.float64)).ravel()
    values = x.data / np.repeat(sums, np.diff(x.indptr))
    return sparse.csr_matrix((values.astype(np.float32), x.indices, x.indptr), shape=x.shape)


def _read_npz(info: DatasetInfo, folder: Path) -> Graph:
    path = folder / info.files[0]
    with _reading(info, path):
        # NumPy leaves a file that is no archive open. Only the keys below are read: published
        # files hold object arrays as well.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as raw:
            links = checked_csr(*(raw[f"adj_{part}"] for part in _NPZ_PARTS)).tocoo()
            features = checked_csr(*(raw[f"attr_{part}"] for part in _NPZ_PARTS))
            labels = raw["labels"]
        edges = np.stack([links.row, links.col], axis=1)
        return Graph.build(features, edges, labels, name=info.name)


def _read_planetoid(info: DatasetInfo, folder: Path) -> Graph:
    """Put a planetoid set together.

    allx and ally hold the rows of nodes 0, 1, …; tx and ty those of the nodes in test.index, in
    that order; x and y repeat the first rows of allx and ally. A node without a row, of which
    citeseer has 15, keeps zeros: no features, class 0.
    """
    raw = {part: _unpickle(info, folder / f"ind.{info.name}.{part}") for part in _PICKLES}
    test = _test_index(info, folder)
    with _reading(info, folder):
        _check_heads(raw)
        nodes = np.concatenate([np.arange(raw["allx"].shape[0]), test])
        if len(np.unique(nodes)) != len(nodes):
            raise ValueError("test.index names a node twice, or one that allx holds")
        n = int(nodes.max()) + 1
        rows = sparse.vstack([raw["allx"], raw["tx"]]).tocoo()
        shape = (n, rows.shape[1])
        features = sparse.csr_matrix((rows.data, (nodes[rows.row], rows.col)), shape=shape)
        labels = np.zeros(n, dtype=np.int64)
        labels[nodes] = np.concatenate([raw["ally"], raw["ty"]]).argmax(axis=1)
        edges = [(node, other) for node, others in raw["graph"].items() for other in others]
        return Graph.build(features, edges, labels, name=info.name)


def _check_heads(raw: dict[str, Any]) -> None:
    for head, whole in (("x", "allx"), ("y", "ally")):
        if (raw[head] != raw[whole][: raw[head].shape[0]]).sum():
            raise ValueError(f"{head} is not the first rows of {whole}")


def _test_index(info: DatasetInfo, folder: Path) -> IntArray:
    path = folder / f"ind.{info.name}.test.index"
    with _reading(info, path):
        return np.array([int(line) for line in path.read_text("ascii").split()], dtype=np.int64)


def _unpickle(info: DatasetInfo, path: Path) -> Any:  # noqa: ANN401
    with _reading(info, path):
        return unpickle(path.read_bytes())
