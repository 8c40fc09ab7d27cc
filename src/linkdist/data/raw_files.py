"""Read the raw files of named data sets, and check their content.

Nothing in a file is trusted. The planetoid files are pickles, and a pickle can name any function
for Python to call. Here, only those names are allowed that a NumPy array, a SciPy CSR matrix or a
dictionary of lists needs, and most of them are replaced by a record that stores its arguments. The
arrays are created from these records afterwards, and contain plain numbers only.

Every data set must have the paper's sizes and, by a digest of its arrays, the content that the
paper's numbers are based on. The digest is taken of the arrays and not of the files, because the
same arrays are distributed in more than one encoding.

Values stay as stored, except that the rows of the three planetoid data sets are scaled to sum to 1.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist._files import open_regular, read_regular
from linkdist.data.csr import checked_csr
from linkdist.data.graph import FeatureMatrix, FloatArray, Graph, IntArray
from linkdist.errors import DataError

AnyArray: TypeAlias = npt.NDArray[Any]

PICKLES = ("x", "y", "tx", "ty", "allx", "ally", "graph")
"""The parts of a planetoid data set that are stored as pickles."""
_NPZ_PARTS = ("data", "indices", "indptr", "shape")
_NEIGHBOURS = 8
_TRAIN_PER_CLASS, _VALIDATION, _TEST = 20, 500, 1000  # the public split


@dataclass(frozen=True)
class DatasetInfo:
    """The size of a named data set and the source of its raw files.

    Attributes
    ----------
    name : str
        The name that `load_dataset` takes.
    n, d, C, e : int
        Number of nodes, features, classes and entries of the directed edge list.
    family, folder : str
        PyTorch Geometric stores the raw files in family/folder/raw.
    files : tuple of str
        Names of the raw files; empty if the data set comes with a library.
    source : str
        URL of the folder that contains the files.
    digest : str or None
        SHA-256 digest of the arrays. With None, only the sizes are checked.
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
        """Public URLs of the raw files."""
        return tuple(f"{self.source}/{file}" for file in self.files)

    @property
    def manual_download(self) -> str:
        """Instructions for a download by hand, as part of error messages."""
        return (
            f"The files of {self.name} are public: download {', '.join(self.files)} from "
            f"{self.source} into one folder and pass that folder with --data DIR or LINKDIST_DATA."
        )


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


def read_public_split(info: DatasetInfo, folder: Path) -> tuple[IntArray, IntArray, IntArray]:
    """The training, validation and test nodes of a planetoid data set, in ascending order."""
    train = np.arange(_TRAIN_PER_CLASS * info.C, dtype=np.int64)
    validation = np.arange(len(train), len(train) + _VALIDATION, dtype=np.int64)
    with _reading(info, folder / info.files[-1]):
        test = np.unique(_read_test_index(info, folder))
        if len(test) != _TEST or test[0] <= validation[-1] or test[-1] >= info.n:
            low = validation[-1] + 1
            raise ValueError(f"it must contain {_TEST} different nodes in {low}..{info.n - 1}")
    return train, validation, test


def _read_test_index(info: DatasetInfo, folder: Path) -> IntArray:
    """The test nodes of a planetoid data set, in the order of their rows in tx and ty."""
    path = folder / f"ind.{info.name}.test.index"
    with _reading(info, path):
        return np.array([int(line) for line in path.read_text("ascii").split()], dtype=np.int64)


@contextmanager
def _reading(info: DatasetInfo, path: Path) -> Iterator[None]:
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
    with _reading(info, path):
        # NumPy does not close a file that is not an archive. Only these keys are read, because
        # published files also contain object arrays.
        with open_regular(path) as file, np.load(file, allow_pickle=False) as raw:
            links = _canonical_csr(*(raw[f"adj_{part}"] for part in _NPZ_PARTS)).tocoo()
            features = _canonical_csr(*(raw[f"attr_{part}"] for part in _NPZ_PARTS))
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
        with _reading(info, path):
            raw[part] = unpickle(read_regular(path, follow=True))
    test = _read_test_index(info, folder)
    with _reading(info, folder):
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


def unpickle(content: bytes) -> Any:  # noqa: ANN401
    """Read an array, a CSR matrix or a dictionary of lists from a pickle.

    Raises
    ------
    pickle.UnpicklingError
        If the pickle names anything else; a damaged pickle may raise any exception.

    Examples
    --------
    >>> unpickle(pickle.dumps(np.arange(3)))
    array([0, 1, 2])
    """
    thing = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    return thing.revive() if isinstance(thing, (_Array, _Csr)) else thing


def _canonical_csr(
    data: AnyArray, indices: AnyArray, indptr: AnyArray, shape: Sequence[int]
) -> sparse.csr_matrix:
    """Create a CSR matrix from untrusted arrays, without duplicates and stored zeros."""
    matrix = checked_csr(data, indices, indptr, shape).copy()  # arrays may be read-only
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


class _Record:
    """Replaces an object that a pickle names; it stores its arguments and does nothing else."""

    parts: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *parts: object) -> None:
        self.parts = parts

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Dtype(_Record):
    def revive(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(f"{self.state[1]}{self.parts[0]}")
        if dtype.kind not in "biuf":
            raise ValueError(f"arrays must contain plain numbers; found {dtype}")
        return dtype


class _Array(_Record):
    def revive(self) -> AnyArray:
        _, shape, dtype, fortran, values = self.state
        # Python 2 wrote bytes as text, which latin1 decodes unchanged.
        raw = values.encode("latin1") if isinstance(values, str) else values
        return np.frombuffer(raw, dtype.revive()).reshape(shape, order="F" if fortran else "C")


class _Csr(_Record):
    def revive(self) -> sparse.csr_matrix:
        data, indices, indptr = (self.state[key].revive() for key in ("data", "indices", "indptr"))
        return _canonical_csr(data, indices, indptr, self.state["_shape"])


ADMITTED: dict[tuple[str, str], type] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it names {f'{module}.{name}'!r}, which is not allowed")
        return ADMITTED[module, name]
