"""Read a graph on disk, one part and one bucket at a time.

The nodes of a store are in P parts and its links in buckets, one for each pair of parts. With two
parts in memory, training can use the links between them; nothing here reads more than that.
`Store.open` only checks names and sizes of files. The content of a file is compared with its
SHA-256 when this process reads it for the first time. A digest does not make a file harmless, so
rows, columns, classes, heads and weights are checked at each reading, before compiled loops use
them.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from linkdist._files import open_regular, read_regular
from linkdist.artifacts.manifest import some
from linkdist.data.csr import checked_csr
from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.data.links import Links
from linkdist.errors import StoreError
from linkdist.store.content import (
    class_problem,
    count_infinite,
    head_problem,
    label_problem,
    row_problem,
    weight_problem,
)
from linkdist.store.format import (
    HEADER,
    LABELS,
    REBUILD,
    Manifest,
    bucket_file,
    bucket_index,
    feature_files,
    label_shape,
    npy_header,
    part_file,
)
from linkdist.store.plan import COPIES, label_bytes
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.source import LINK_ROLES, ROLES

_verified: set[tuple[str, int, int]] = set()
"""Path, size and time of the files that this process has compared with their digests."""


class Bucket(NamedTuple):
    """The links between two parts a <= b, sorted by their rows, then by their heads.

    Attributes
    ----------
    pairs : (m_ab, 2) uint32 array
        The row in part a and the row in part b; within one part, the smaller row comes first.
    heads : (m_ab,) uint8 array, optional
        The head of the edge from the row in part a to the row in part b; the other direction has
        `linkdist.data.links.reverse_head`. None if there is one head.
    weights : (m_ab,) float32 array, optional
        Positive weights; None if links have no weights.
    """

    pairs: npt.NDArray[np.uint32]
    heads: npt.NDArray[np.uint8] | None = None
    weights: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Store:
    """A graph in a directory.

    Attributes
    ----------
    directory : Path
        The directory.
    manifest : Manifest
        The description of the store.
    """

    directory: Path
    manifest: Manifest

    @classmethod
    def open(cls, directory: Path | str) -> Store:
        """Open a store: read its manifest, and check that all files exist and have their sizes.

        Raises
        ------
        StoreError
            If the store is missing, unfinished or newer than this program, or with the names of
            all files that are missing or have another size.

        Examples
        --------
        >>> Store.open("/nowhere")
        Traceback (most recent call last):
        linkdist.errors.StoreError: there is no directory /nowhere. Name a directory that \
'linkdist store build' or 'linkdist store synth' wrote.
        """
        target = Path(directory).resolve()
        store = cls(target, Manifest.read(target))
        problems = store.size_problems()
        if problems and store.is_outdated():  # an append ended meanwhile
            return cls.open(directory)
        if problems:
            raise StoreError(f"{target} was damaged or changed: {some(problems, '; ')}. {REBUILD}")
        return store

    @property
    def n(self) -> int:
        """Number of nodes."""
        return sum(self.manifest.sizes)

    @property
    def m(self) -> int:
        """Number of links, including self-loops."""
        return sum(self.manifest.counts)

    @property
    def loops(self) -> int:
        """Number of links that are self-loops."""
        return self.manifest.loops

    @property
    def d(self) -> int:
        """Number of features of a node."""
        return self.manifest.d

    @property
    def task(self) -> str:
        """What the labels are: 'classification', 'multilabel' or 'regression'."""
        return self.manifest.task

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; for regression, the name of the number."""
        return self.manifest.classes

    @property
    def C(self) -> int:  # noqa: N802
        """Number of classes; 1 for regression."""
        return len(self.classes)

    @property
    def relations(self) -> tuple[str, ...]:
        """Names of the relations of links."""
        return self.manifest.relations

    @property
    def directed(self) -> bool:
        """Whether links have a direction."""
        return self.manifest.directed

    @property
    def weighted(self) -> bool:
        """Whether links have weights."""
        return self.manifest.weighted

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the K neighbour heads, as in `linkdist.data.links.Links`."""
        none = np.empty((0, 2), dtype=np.int64)
        return Links(none, relations=self.relations, directed=self.directed).heads

    @property
    def P(self) -> int:  # noqa: N802
        """Number of parts."""
        return self.manifest.P

    @property
    def kind(self) -> str:
        """How features are stored: 'float16', 'float32' or 'csr'."""
        return self.manifest.kind

    @property
    def sizes(self) -> IntArray:
        """Number of nodes of each part, (P,)."""
        return np.array(self.manifest.sizes, dtype=np.int64)

    @property
    def counts(self) -> IntArray:
        """Number of links of each bucket, (P, P), with zeros below the diagonal."""
        counts = np.zeros((self.P, self.P), dtype=np.int64)
        counts[np.triu_indices(self.P)] = self.manifest.counts
        return counts

    @property
    def part_bytes(self) -> list[int]:
        """Bytes that each part needs in training: its features and its labels."""
        files, copies = self.manifest.files, COPIES[self.kind]
        label = label_bytes(self.task, self.C)
        return [
            copies * sum(files[name].size for name in feature_files(part, self.kind)) + label * n
            for part, n in enumerate(self.manifest.sizes)
        ]

    @property
    def encoders(self) -> FeatureEncoder | None:
        """The encoders of the columns of the node table; None for a synthetic graph."""
        columns = self.manifest.columns
        return None if columns is None else FeatureEncoder.from_state(columns.encoders)

    @property
    def about(self) -> dict[str, Any]:
        """What a model directory records about the tables; nothing for a synthetic graph."""
        columns = self.manifest.columns
        if columns is None:
            return {}
        about = {role: getattr(columns, role) for role in (*ROLES, *LINK_ROLES)}
        about |= {"task": self.task, "relations": self.relations}
        if self.manifest.label_format:
            about["label_format"] = dict(self.manifest.label_format)
        return about

    def features(
        self, part: int, out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any] | sparse.csr_matrix:
        """The features of the nodes of a part.

        Parameters
        ----------
        part : int
            The part.
        out : (>= n_p, d) array, optional
            A C-contiguous array of the stored type; dense features are read into its first rows.

        Returns
        -------
        (n_p, d) array or CSR matrix
            Features of the stored type; a view of `out` if that is given.
        """
        n, names = self.manifest.sizes[part], feature_files(part, self.kind)
        if self.kind != "csr":
            return self._array(names[0], self.kind, (n, self.d), out)
        indptr = self._array(names[2], "int64", (n + 1,))
        size = (max(int(indptr[-1]), 0),)
        arrays = self._array(names[0], "float32", size), self._array(names[1], "int32", size)
        try:
            return checked_csr(*arrays, indptr, (n, self.d))
        except ValueError as error:
            path = self.directory / part_file(part, "features.*.npy")
            raise StoreError(f"{path} are not a matrix: {error}. {REBUILD}") from error

    def labels(self, part: int) -> npt.NDArray[Any]:
        """The labels of the nodes of a part.

        Returns
        -------
        (n_p,) int32, (n_p, C) int8 or (n_p,) float32 array
            Classes, -1 where unknown; for multilabel, 1 for each class of a node and 0 for the
            others, -1 in the whole row where unknown; for regression, numbers, NaN where unknown.
        """
        name = part_file(part, "labels.npy")
        if self.task == "classification":
            return self._classes(name, part, UNKNOWN)
        shape = label_shape(self.manifest.sizes[part], self.task, self.C)
        y = self._array(name, LABELS[self.task], shape, finite=False)
        self._refuse(name, label_problem(y, self.task))
        return y

    def truth(self, part: int) -> npt.NDArray[np.int32]:
        """The classes of all nodes of a part, (n_p,); only in a synthetic graph."""
        if not self.manifest.synthetic:
            raise StoreError(f"{self.directory} was built from tables: it has labels but no truth.")
        return self._classes(part_file(part, "truth.npy"), part, 0)

    def _classes(self, name: str, part: int, least: int) -> npt.NDArray[np.int32]:
        """The classes of a part; the smallest number is `least`."""
        y = self._array(name, "int32", (self.manifest.sizes[part],))
        self._refuse(name, class_problem(y, least, self.C))
        return y

    def ids(self, part: int) -> pa.Array:
        """The ids of the nodes of a part as text, (n_p,)."""
        n = self.manifest.sizes[part]
        if self.manifest.synthetic:
            rows = pa.array(np.arange(n)).cast(pa.large_string())
            first, dash = (pa.scalar(text, pa.large_string()) for text in (str(part), "-"))
            return pc.binary_join_element_wise(first, rows, dash)
        path = self._path(name := part_file(part, "ids.arrow"))
        try:
            content = read_regular(path, follow=True)
            self._verify(name, content)
            with pa.ipc.open_file(pa.py_buffer(content)) as file:
                ids = file.read_all().column("id").combine_chunks()
            ids.validate(full=True)  # Arrow does not check where the texts of a file start and end
        except (pa.ArrowException, OSError, LookupError) as error:
            raise self._unreadable(path, error) from error
        if len(ids) != n or not pa.types.is_large_string(ids.type):
            raise StoreError(f"{path} must contain {n} texts. {REBUILD}")
        return ids

    def links(
        self, a: int, b: int, out: npt.NDArray[np.uint32] | None = None
    ) -> npt.NDArray[np.uint32]:
        """The links between two parts, (m_ab, 2): rows of part a and rows of part b, a <= b.

        They are read into the first rows of `out`, if that is given.
        """
        links = self._array(bucket_file(a, b), "uint32", (self._count(a, b), 2), out)
        for part, rows in zip((a, b), links.T, strict=True):
            self._refuse(bucket_file(a, b), row_problem(rows, part, self.manifest.sizes[part]))
        return links

    def bucket(self, a: int, b: int) -> Bucket:
        """The links between two parts with their heads and weights, a <= b."""
        m, heads, weights = self._count(a, b), None, None
        if self.manifest.K > 1:
            name = bucket_file(a, b, "heads.npy")
            heads = self._array(name, "uint8", (m,))
            self._refuse(name, head_problem(heads, self.manifest.K))
        if self.weighted:
            name = bucket_file(a, b, "weights.npy")
            weights = self._array(name, "float32", (m,), finite=False)
            self._refuse(name, weight_problem(weights))
        return Bucket(self.links(a, b), heads, weights)

    def _count(self, a: int, b: int) -> int:
        """The number of links between two parts."""
        if not 0 <= a <= b < self.P:
            raise StoreError(f"a bucket has parts a <= b < {self.P}; found {a} and {b}.")
        return self.manifest.counts[bucket_index(a, b, self.P)]  # type: ignore[no-any-return]

    def is_outdated(self) -> bool:
        """Whether the manifest was replaced, by an append or a build, since it was read."""
        try:
            return Manifest.read(self.directory) != self.manifest
        except StoreError:
            return False

    def size_problems(self) -> list[str]:
        """A message for each file that is missing or has another size."""
        problems = []
        for key, file in self.manifest.files.items():
            name = self.manifest.path(key)
            try:
                found = (self.directory / name).stat().st_size
                if found != file.size:
                    problems.append(f"{name} has {found} bytes, not {file.size}")
            except OSError:
                problems.append(f"{name} is missing")
        return problems

    def _array(
        self,
        name: str,
        kind: str,
        shape: tuple[int, ...],
        out: npt.NDArray[Any] | None = None,
        finite: bool = True,
    ) -> npt.NDArray[Any]:
        """The array of a .npy file, read directly into its place; `finite` refuses NaN."""
        path, header = self._path(name), npy_header(shape, kind)
        size = HEADER + math.prod(shape) * np.dtype(kind).itemsize
        try:
            with open_regular(path) as file:
                if file.read(HEADER) != header or path.stat().st_size != size:
                    raise StoreError(f"{path} must contain {kind} of shape {shape}. {REBUILD}")
                into = np.empty(shape, kind) if out is None else _first_rows(out, shape, kind)
                content = into.reshape(-1).view(np.uint8).data
                read = file.readinto(content)
        except OSError as error:
            raise self._unreadable(path, error) from error
        if read != len(content):
            raise StoreError(f"{path} was truncated while it was read. {REBUILD}")
        if self._verify(name, header, content) and finite and (bad := count_infinite(into)):
            raise StoreError(f"{path} must contain finite numbers; {bad} are not. {REBUILD}")
        return into

    def _path(self, name: str) -> Path:
        return self.directory / self.manifest.path(name)

    def _refuse(self, name: str, problem: str | None) -> None:
        """Raise an error if there is a problem with the content of a file."""
        if problem is not None:
            raise StoreError(f"{self._path(name)} {problem}. {REBUILD}")

    def _unreadable(self, path: Path, error: Exception) -> StoreError:
        """The error for a file that cannot be read; an append removes files that it replaced."""
        if isinstance(error, FileNotFoundError) and self.is_outdated():
            changed = "was changed by 'linkdist store append' after it was opened"
            return StoreError(f"{self.directory} {changed}. Run the same command again.")
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        return StoreError(f"{path} cannot be read: {reason}. {REBUILD}")

    def _verify(self, name: str, *content: bytes | memoryview) -> bool:
        """Compare a file with its digest; False if this process has done so before."""
        path = self._path(name)
        try:
            status = path.stat()
        except OSError as error:  # an append has removed it since it was read
            raise self._unreadable(path, error) from error
        key = (str(path), status.st_size, status.st_mtime_ns)
        if key in _verified:
            return False
        digest = hashlib.sha256()
        for piece in content:
            digest.update(piece)
        found = digest.hexdigest()
        expected = self.manifest.files[name].digest
        if found != expected:
            problem = f"its SHA-256 begins with {found[:12]}, not with {expected[:12]}"
            raise StoreError(f"{path} was damaged or changed: {problem}. {REBUILD}")
        _verified.add(key)
        return True


def _first_rows(out: npt.NDArray[Any], shape: tuple[int, ...], kind: str) -> npt.NDArray[Any]:
    into = out[: shape[0]]
    if into.dtype != kind or into.shape != shape or not into.flags.c_contiguous:
        rule = f"out must be a C-contiguous {kind} array of {shape} or more rows"
        raise ValueError(f"{rule}; found {out.dtype} {out.shape}")
    return into


def forget_verified() -> None:
    """Compare all files with their digests again when they are read next.

    Examples
    --------
    >>> forget_verified()
    """
    _verified.clear()
