"""Load named data sets: `digits`, which needs no files, and the eight data sets of the paper.

`digits` contains scikit-learn's 1797 images of handwritten digits, each linked to the eight
nearest images. The paper's data sets are read from the raw files that their authors publish and
that PyTorch Geometric stores. The search order for these files is

1. the folder that is passed, or else the folder in the environment variable LINKDIST_DATA,
2. the cache folder: LINKDIST_CACHE, or else linkdist in XDG_CACHE_HOME or ~/.cache.

Missing files are downloaded into the cache folder. A download is checked before it gets its final
name, so the cache never contains a part of a data set or a damaged one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from linkdist.data.graph import Graph, IntArray
from linkdist.data.raw_files import PICKLES, DatasetInfo, read_digits, read_public_split, read_raw
from linkdist.errors import DataError, OptionError, check_names

_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_NPZ = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
_TIMEOUT = 30.0  # seconds without any data

_DIGESTS = {
    "digits": "00c2bf142434370c19139a3787792b6fe558378ff0189dfb3f42f3a7ffc05b11",
    "cora": "5f3e728d5fccc60e8411d19fc3b3e937d60e2aa43d1ca4468de9125a35cb7278",
    "citeseer": "3b226cf8a1a1e00ef827ce91a18ac43903104fe247d5f16db02a61f6267a5b96",
    "pubmed": "4e8df22057a5be8703c039b5b733d0b77b2459da0008407fe1182d91ea40a4a9",
    "amazon-photo": "e359dc3b18b403854b1fe19dbd331049443c441177c5bb1aed78155a6c6422a7",
    "amazon-computers": "9b83a6901ff525a906f2ffcaf93781c67d7ee2e043c05b6fecee6206a0335ba6",
    "coauthor-cs": "08320df7721cbc6b49074fb4a9ae60d40ce6ca01251711f18fcbcc3287fb279d",
    "coauthor-physics": "670372f4d7d5f6697df206a3a37a96ecdeb72a5d2288e4a987baa0b0e2e79d60",
}


def _planetoid(name: str, folder: str, sizes: tuple[int, int, int, int]) -> DatasetInfo:
    files = tuple(f"ind.{name}.{part}" for part in (*PICKLES, "test.index"))
    return DatasetInfo(name, *sizes, "planetoid", folder, files, _PLANETOID, _DIGESTS[name])


def _npz(name: str, where: str, file: str, sizes: tuple[int, int, int, int]) -> DatasetInfo:
    family, folder = where.split("/")
    return DatasetInfo(name, *sizes, family, folder, (f"{file}.npz",), _NPZ, _DIGESTS.get(name))


DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        DatasetInfo("digits", 1797, 64, 10, 19858, digest=_DIGESTS["digits"]),
        _planetoid("cora", "Cora", (2708, 1433, 7, 10556)),
        _planetoid("citeseer", "CiteSeer", (3327, 3703, 6, 9228)),
        _planetoid("pubmed", "PubMed", (19717, 500, 3, 88651)),
        _npz("cora-full", "citation_full/Cora", "cora_full", (19793, 8710, 70, 126842)),
        _npz("amazon-photo", "amazon/Photo", "amazon_electronics_photo", (7650, 745, 8, 238163)),
        _npz(
            "amazon-computers",
            "amazon/Computers",
            "amazon_electronics_computers",
            (13752, 767, 10, 491722),
        ),
        _npz("coauthor-cs", "coauthor/CS", "ms_academic_cs", (18333, 6805, 15, 163788)),
        _npz("coauthor-physics", "coauthor/Physics", "ms_academic_phy", (34493, 8415, 5, 495924)),
    )
}
"""All named data sets, in display order."""

PAPER_DATASETS: tuple[str, ...] = tuple(name for name in DATASETS if name != "digits")
"""The eight data sets of the paper."""

PUBLIC_SPLITS: tuple[str, ...] = tuple(
    name for name, info in DATASETS.items() if info.family == "planetoid"
)
"""The data sets that are published with a split."""


def load_dataset(name: str, data: str | Path | None = None, *, download: bool = True) -> Graph:
    """Load a named data set.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.
    data : path, optional
        The folder with the raw files; by default the folder in LINKDIST_DATA.
    download : bool, optional
        Whether to download files that are neither there nor in the cache folder.

    Raises
    ------
    OptionError
        If there is no data set of this name.
    DataError
        If raw files are missing, incomplete or not the published ones.

    Examples
    --------
    >>> graph = load_dataset("digits")
    >>> graph.n, graph.d, graph.C
    (1797, 64, 10)
    """
    info = _info(name)
    if not info.files:
        return read_digits(info)
    return read_raw(info, _locate(info, data, download))


def public_split(
    name: str, data: str | Path | None = None, *, download: bool = True
) -> tuple[IntArray, IntArray, IntArray]:
    """Load the split that cora, citeseer and pubmed are published with.

    The first 20 nodes of each class are training nodes, the next 500 nodes are validation nodes;
    the file test.index contains the 1000 test nodes.

    Parameters
    ----------
    name : str
        One of `PUBLIC_SPLITS`.
    data, download
        As in `load_dataset`.

    Returns
    -------
    train, validation, test : int64 arrays
        Row numbers of the nodes, in ascending order.

    Raises
    ------
    OptionError
        If the data set has no public split.
    DataError
        If raw files are missing, incomplete or not the published ones.

    Examples
    --------
    >>> public_split("digits")
    Traceback (most recent call last):
    linkdist.errors.OptionError: digits has no public split; cora, citeseer, pubmed have one.
    """
    info = _info(name)
    if name not in PUBLIC_SPLITS:
        raise OptionError(f"{name} has no public split; {', '.join(PUBLIC_SPLITS)} have one.")
    return read_public_split(info, _locate(info, data, download))


def find_raw(name: str, data: str | Path | None = None) -> Path | None:
    """Find the folder that contains all raw files of a data set.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.
    data : path, optional
        As in `load_dataset`.

    Returns
    -------
    Path or None
        None if no folder contains all files, or if the data set has no raw files.

    Examples
    --------
    >>> find_raw("digits") is None
    True
    """
    info = _info(name)
    complete = (folder for folder in _candidates(info, data) if not _missing(info, folder))
    return next(complete, None) if info.files else None


def cache_folder() -> Path:
    """The folder that downloads are stored in.

    Examples
    --------
    >>> cache_folder().is_absolute()
    True
    """
    if own := os.environ.get("LINKDIST_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "linkdist"


def _info(name: str) -> DatasetInfo:
    check_names("data set", [name], DATASETS)
    return DATASETS[name]


def _roots(data: str | Path | None) -> list[Path]:
    given = os.environ.get("LINKDIST_DATA") if data is None else data
    return [*([Path(given).expanduser()] if given else []), cache_folder()]


def _candidates(info: DatasetInfo, data: str | Path | None) -> Iterator[Path]:
    for root in _roots(data):
        yield root / info.family / info.folder / "raw"
        yield root / info.folder / "raw"
        yield root


def _missing(info: DatasetInfo, folder: Path) -> list[str]:
    return [file for file in info.files if not (folder / file).is_file()]


def _locate(info: DatasetInfo, data: str | Path | None, download: bool) -> Path:
    found = find_raw(info.name, data)
    if found is not None:
        return found
    if download:
        return _download(info)
    missing = min((_missing(info, folder) for folder in _candidates(info, data)), key=len)
    roots = ", ".join(str(root) for root in _roots(data))
    raise DataError(
        f"{info.name} needs {', '.join(missing)}; no such files were found in {roots} (nor in "
        f"{info.family}/{info.folder}/raw or {info.folder}/raw below them). {info.manual_download}"
    )


def _download(info: DatasetInfo) -> Path:
    """Download a data set into a temporary folder, check it, and move it into the cache folder."""
    cache = cache_folder()
    target = cache / info.family / info.folder / "raw"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=cache) as scratch:
            fetched = Path(scratch) / "raw"
            _fetch(info, fetched)
            try:
                read_raw(info, fetched)
            except DataError as error:
                raise DataError(f"The download was rejected and deleted: {error}") from error
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                fetched.rename(target)
            except OSError:  # some of the files exist, or another process was faster
                for path in fetched.iterdir():
                    path.replace(target / path.name)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{info.name} could not be downloaded from {info.source} ({type(error).__name__}: "
            f"{error}); nothing was stored. Try again, or download it by hand. "
            f"{info.manual_download}"
        ) from error
    return target


def _fetch(info: DatasetInfo, folder: Path) -> None:
    import pooch  # only downloads need these two, and they take a while
    import requests

    downloader = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(), chunk_size=1 << 16, timeout=_TIMEOUT
    )
    folder.mkdir()
    for url, file in zip(info.urls, info.files, strict=True):
        try:
            # The files' hashes are unknown; `read_raw` compares the digest of their arrays.
            downloader(url, folder / file, None)
        except requests.RequestException as error:
            raise ConnectionError(f"{file}: {error}") from error
