"""Read the raw files of named data sets, and check their content.

Nothing in a file is trusted. The planetoid files are pickles; `_safe_pickle` reads them without
running any code that they name. Every data set must have the paper's sizes and, by a digest of its
arrays, the content that the paper's numbers are based on. The digest is taken of the arrays and
not of the files, because the same arrays are distributed in more than one encoding.

Values stay as stored, except that the rows of the three planetoid data sets are scaled to sum to 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist.data._registry import PICKLES, DatasetInfo
from linkdist.data._safe_pickle import checked_csr, unpickle
from linkdist.data.graph import FeatureMatrix, FloatArray, Graph, IntArray
from linkdist.errors import DataError

_NPZ_PARTS = ("data", "indices", "indptr", "shape")
_NEIGHBOURS = 8


def read_raw(info: DatasetInfo, folder: Path) -> Graph:
    """Read a data set from the folder with its raw files."""
    planetoid = info.family == "planetoid"
    graph = _read_planetoid(info, folder) if planetoid else _read_npz(info, folder)
    # The digest comes before the scaling, because rounding depends on the machine.
    _check(info, graph, folder)
    return replace(graph, features=_rows_sum_to_one(graph.features)) if planetoid else graph


def read_digits(info: DatasetInfo) -> Graph:
    """Link each of scikit-learn's images of digits to the eight nearest images."""
    from sklearn.datasets import load_digits  # the import takes a second

    bunch = load_digits()
    images: npt.NDArray[np.float64] = bunch.data
    features: FloatArray = (images / 16).astype(np.float32)
    classes = tuple(str(digit) for digit in bunch.target_names)
    return Graph.build(features, nearest(images), bunch.target, classes, info.name)


def nearest(images: npt.NDArray[np.float64]) -> IntArray:
    """Pairs of each image and its eight nearest images; the lower row number wins a tie.

    Pixels are whole numbers, so all sums are exact and the links are the same on every machine.
    """
    squares = (images**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * images @ images.T
    np.fill_diagonal(distances, np.inf)
    neighbours = np.argsort(distances, axis=1, kind="stable")[:, :_NEIGHBOURS]
    nodes = np.repeat(np.arange(len(images)), _NEIGHBOURS)
    return np.stack([nodes, neighbours.ravel()], axis=1)


def read_test_index(info: DatasetInfo, folder: Path) -> IntArray:
    """The test nodes of a planetoid data set, in the order of their rows in tx and ty."""
    path = folder / f"ind.{info.name}.test.index"
    with reading(info, path):
        return np.array([int(line) for line in path.read_text("ascii").split()], dtype=np.int64)


@contextmanager
def reading(info: DatasetInfo, path: Path) -> Iterator[None]:
    """Turn every exception into a `DataError` that names the file or folder."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # a damaged pickle or archive can raise any exception
        found = f"{type(error).__name__}: {error}"
        raise DataError(
            f"{path} is damaged or is not the published file ({found}). {_advice(info)}"
        ) from error


def digest(graph: Graph) -> str:
    """SHA-256 digest of a graph's arrays in a canonical form."""
    x = sparse.csr_matrix(graph.features)
    total = hashlib.sha256(np.array(x.shape, dtype="<i8").tobytes())
    for array in (x.indptr, x.indices, graph.links, graph.labels):
        total.update(array.astype("<i8").tobytes())
    total.update(x.data.astype("<f4").tobytes())
    return total.hexdigest()


def _advice(info: DatasetInfo) -> str:
    return (
        f"Delete the files of {info.name} there to download them again, or replace them. "
        f"{info.manual_download}"
    )


def _check(info: DatasetInfo, graph: Graph, folder: Path) -> None:
    expected = f"n = {info.n}, d = {info.d}, C = {info.C}, e = {info.e}"
    found = f"n = {graph.n}, d = {graph.d}, C = {graph.C}, e = {len(graph.edges)}"
    if found == expected and info.digest is not None:
        expected, found = f"digest {info.digest}", f"digest {digest(graph)}"
    if found != expected:
        raise DataError(
            f"{folder} does not contain {info.name} as published: expected {expected}; found "
            f"{found}. A file is damaged or is not the published file. {_advice(info)}"
        )


def _rows_sum_to_one(x: FeatureMatrix) -> sparse.csr_matrix:
    """Scale rows to sum to 1; rows of zeros stay zero."""
    x = sparse.csr_matrix(x)
    sums = np.asarray(x.sum(axis=1, dtype=np.float64)).ravel()
    values = x.data / np.repeat(sums, np.diff(x.indptr))
    return sparse.csr_matrix((values.astype(np.float32), x.indices, x.indptr), shape=x.shape)


def _read_npz(info: DatasetInfo, folder: Path) -> Graph:
    path = folder / info.files[0]
    with reading(info, path):
        # NumPy does not close a file that is not an archive. Only these keys are read, because
        # published files also contain object arrays.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as raw:
            links = checked_csr(*(raw[f"adj_{part}"] for part in _NPZ_PARTS)).tocoo()
            features = checked_csr(*(raw[f"attr_{part}"] for part in _NPZ_PARTS))
            labels = raw["labels"]
        edges = np.stack([links.row, links.col], axis=1)
        return Graph.build(features, edges, labels, name=info.name)


def _read_planetoid(info: DatasetInfo, folder: Path) -> Graph:
    """Combine the files of a planetoid data set.

    allx and ally contain the rows of nodes 0, 1, …; tx and ty contain the rows of the nodes in
    test.index, in that order; x and y repeat the first rows of allx and ally. A node without a
    row (citeseer has 15) gets zeros as features and class 0.
    """
    raw: dict[str, Any] = {}
    for part in PICKLES:
        path = folder / f"ind.{info.name}.{part}"
        with reading(info, path):
            raw[part] = unpickle(path.read_bytes())
    test = read_test_index(info, folder)
    with reading(info, folder):
        for head, whole in (("x", "allx"), ("y", "ally")):
            if (raw[head] != raw[whole][: raw[head].shape[0]]).sum():
                raise ValueError(f"{head} differs from the first rows of {whole}")
        nodes = np.concatenate([np.arange(raw["allx"].shape[0]), test])
        if len(np.unique(nodes)) != len(nodes):
            raise ValueError("test.index contains a node twice, or a node of allx")
        n = int(nodes.max()) + 1
        rows = sparse.vstack([raw["allx"], raw["tx"]]).tocoo()
        shape = (n, rows.shape[1])
        features = sparse.csr_matrix((rows.data, (nodes[rows.row], rows.col)), shape=shape)
        labels = np.zeros(n, dtype=np.int64)
        labels[nodes] = np.concatenate([raw["ally"], raw["ty"]]).argmax(axis=1)
        edges = [(node, other) for node, others in raw["graph"].items() for other in others]
        return Graph.build(features, edges, labels, name=info.name)
