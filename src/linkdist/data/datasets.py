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

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from linkdist.data._readers import read_digits, read_raw, read_test_index, reading
from linkdist.data._registry import DATASETS, PAPER_DATASETS, PUBLIC_SPLITS, DatasetInfo
from linkdist.data.graph import Graph, IntArray
from linkdist.errors import DataError, OptionError, check_names

__all__ = [
    "DATASETS",
    "PAPER_DATASETS",
    "PUBLIC_SPLITS",
    "DatasetInfo",
    "cache_folder",
    "find_raw",
    "load_dataset",
    "public_split",
]

_TRAIN_PER_CLASS, _VALIDATION, _TEST = 20, 500, 1000
_TIMEOUT = 30.0  # seconds without any data


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
    folder = _locate(info, data, download)
    train = np.arange(_TRAIN_PER_CLASS * info.C, dtype=np.int64)
    validation = np.arange(len(train), len(train) + _VALIDATION, dtype=np.int64)
    with reading(info, folder / info.files[-1]):
        test = np.unique(read_test_index(info, folder))
        if len(test) != _TEST or test[0] <= validation[-1] or test[-1] >= info.n:
            low = validation[-1] + 1
            raise ValueError(f"it must contain {_TEST} different nodes in {low}..{info.n - 1}")
    return train, validation, test


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
    with _quiet(pooch.get_logger()):
        for url, file in zip(info.urls, info.files, strict=True):
            try:
                # The files' hashes are unknown; `read_raw` compares the digest of their arrays.
                pooch.retrieve(url, None, file, folder, downloader=downloader)
            except requests.RequestException as error:
                raise ConnectionError(f"{file}: {error}") from error


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Hide pooch's message about each file for a while."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
