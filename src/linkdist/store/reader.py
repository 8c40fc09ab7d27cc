"""A graph on disk, read a part and a bucket at a time.

A store's nodes lie in P parts and its links in buckets, one a pair of parts. Who holds two parts
can work on the links between them; nothing here reads more than what is asked for. `Store.open`
looks at names and sizes alone. A file's content is compared with its SHA-256 when this process
reads it for the first time.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from linkdist.artifacts.manifest import some
from linkdist.data.graph import IntArray
from linkdist.errors import StoreError
from linkdist.store.manifest import (
    AGAIN,
    CSR,
    Manifest,
    bucket_file,
    bucket_place,
    feature_files,
    part_file,
)
from linkdist.store.npy import HEADER, as_bytes, npy_header
from linkdist.store.plan import COPIES
from linkdist.tables.encoders import Encoders

_checked: set[tuple[str, int, int]] = set()
"""Path, size and time of the files that this process has compared with their digests."""


@dataclass(frozen=True)
class Store:
    """A graph in a directory.

    Attributes
    ----------
    directory : Path
        Where it lies.
    manifest : Manifest
        What it says of itself.
    """

    directory: Path
    manifest: Manifest

    @classmethod
    def open(cls, directory: Path | str) -> Store:
        """Open a store; its manifest is read, and all files must be there with their sizes.

        Raises
        ------
        StoreError
            If it is missing, half-built, newer than this program, or if files are missing or of
            other sizes: all of them in one message.

        Examples
        --------
        >>> Store.open("/nowhere")
        Traceback (most recent call last):
        linkdist.errors.StoreError: there is no directory /nowhere. Name one that 'linkdist store \
build' or 'linkdist store synth' made.
        """
        target = Path(directory).resolve()
        manifest = Manifest.read(target)
        problems = size_problems(target, manifest)
        if problems:
            raise StoreError(f"{target} was damaged or changed: {some(problems, '; ')}. {AGAIN}")
        return cls(target, manifest)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return sum(self.manifest.sizes)

    @property
    def m(self) -> int:
        """Number of undirected links, self-loops among them."""
        return sum(self.manifest.counts)

    @property
    def loops(self) -> int:
        """How many of the links are self-loops."""
        return self.manifest.loops

    @property
    def d(self) -> int:
        """Number of features of a node."""
        return self.manifest.d

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes' names."""
        return self.manifest.classes

    @property
    def C(self) -> int:  # noqa: N802
        """Number of classes."""
        return len(self.classes)

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
        """Nodes a part, (P,)."""
        return np.array(self.manifest.sizes, dtype=np.int64)

    @property
    def counts(self) -> IntArray:
        """Links a bucket, (P, P), zeros below the diagonal."""
        return self.manifest.matrix()

    @property
    def part_bytes(self) -> list[int]:
        """Bytes that each part takes in training: its features, and eight a label."""
        files, sizes = self.manifest.files, self.manifest.sizes
        return [
            COPIES[self.kind] * sum(files[name].size for name in feature_files(part, self.kind))
            + 8 * n
            for part, n in enumerate(sizes)
        ]

    @property
    def encoders(self) -> Encoders | None:
        """What turned a table's columns into features; None where the graph was made."""
        return self.manifest.encoders()

    @property
    def about(self) -> dict[str, Any]:
        """What a model directory tells of its table: the columns `id` and `label`, if any."""
        columns: Mapping[str, Any] = self.manifest.columns or {}
        return {name: columns[name] for name in ("id", "label") if name in columns}

    def features(
        self, part: int, out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any] | sparse.csr_matrix:
        """The features of a part's nodes.

        Parameters
        ----------
        part : int
            Which.
        out : (>= n_p, d) array, optional
            Of the stored type, in rows without gaps: dense features are read straight into its
            first rows.

        Returns
        -------
        (n_p, d) array or CSR matrix
            In the stored type; a view of `out` where that is given.
        """
        n = self.manifest.sizes[part]
        if self.kind != "csr":
            name = part_file(part, "features.npy")
            return self._array(name, self.kind, (n, self.d), out)
        data, indices, indptr = (part_file(part, f"features.{name}.npy") for name in CSR)
        ends = self._array(indptr, "int64", (n + 1,))
        arrays = (
            self._array(data, "float32", (int(ends[-1]),)),
            self._array(indices, "int32", (int(ends[-1]),)),
            ends,
        )
        try:
            return sparse.csr_matrix(arrays, shape=(n, self.d))
        except ValueError as error:
            raise StoreError(f"{self.directory / indptr} is broken: {error}. {AGAIN}") from error

    def labels(self, part: int) -> npt.NDArray[np.int32]:
        """The labels of a part's nodes, (n_p,), -1 where unknown."""
        return self._array(part_file(part, "labels.npy"), "int32", (self.manifest.sizes[part],))

    def truth(self, part: int) -> npt.NDArray[np.int32]:
        """The classes of a part's nodes, (n_p,), whether labelled or not: of a made graph only."""
        if not self.manifest.made:
            raise StoreError(f"{self.directory} was built from tables: it has labels, no truth.")
        return self._array(part_file(part, "truth.npy"), "int32", (self.manifest.sizes[part],))

    def ids(self, part: int) -> pa.Array:
        """The ids of a part's nodes as text, (n_p,)."""
        n = self.manifest.sizes[part]
        if self.manifest.made:
            rows = pa.array(np.arange(n)).cast(pa.large_string())
            first, dash = (pa.scalar(text, pa.large_string()) for text in (str(part), "-"))
            return pc.binary_join_element_wise(first, rows, dash)
        name = part_file(part, "ids.arrow")
        content = self._bytes(name)
        try:
            with pa.ipc.open_file(pa.py_buffer(content)) as file:
                ids = file.read_all().column("id").combine_chunks()
        except (pa.ArrowException, OSError, LookupError) as error:
            raise StoreError(f"{self.directory / name} is broken: {error}. {AGAIN}") from error
        if len(ids) != n or not pa.types.is_large_string(ids.type):
            raise StoreError(f"{self.directory / name} must hold {n} texts. {AGAIN}")
        return ids

    def links(self, a: int, b: int) -> npt.NDArray[np.uint32]:
        """The links between two parts, (m_ab, 2): rows of part a and of part b, a <= b."""
        if not 0 <= a <= b < self.P:
            raise StoreError(f"links lie in buckets a <= b < {self.P}; asked for {a} and {b}.")
        m = self.manifest.counts[bucket_place(a, b, self.P)]
        return self._array(bucket_file(a, b), "uint32", (m, 2))

    def _array(
        self, name: str, kind: str, shape: tuple[int, ...], out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """A .npy file's array, read once and into its place."""
        path = self.directory / name
        expected = npy_header(shape, kind)
        try:
            with path.open("rb") as file:
                header = file.read(HEADER)
                size = file.seek(0, io.SEEK_END) - HEADER
                if header != expected or size != math.prod(shape) * np.dtype(kind).itemsize:
                    raise StoreError(f"{path} must hold {kind} of shape {shape}. {AGAIN}")
                into = np.empty(shape, kind) if out is None else _place(out, shape, kind)
                file.seek(HEADER)
                read = file.readinto(as_bytes(into))
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}. {AGAIN}") from error
        if read != into.nbytes:
            raise StoreError(f"{path} was cut off while it was read. {AGAIN}")
        self._check(name, header, as_bytes(into))
        return into

    def _bytes(self, name: str) -> bytes:
        try:
            content = (self.directory / name).read_bytes()
        except OSError as error:
            raise StoreError(
                f"{self.directory / name} cannot be read: {error.strerror}. {AGAIN}"
            ) from error
        self._check(name, content)
        return content

    def _check(self, name: str, *content: bytes | memoryview) -> None:
        path = self.directory / name
        status = path.stat()
        key = (str(path), status.st_size, status.st_mtime_ns)
        if key in _checked:
            return
        digest = hashlib.sha256()
        for piece in content:
            digest.update(piece)
        check_digest(path, digest.hexdigest(), self.manifest.files[name].digest)
        _checked.add(key)


def _place(out: npt.NDArray[Any], shape: tuple[int, ...], kind: str) -> npt.NDArray[Any]:
    """The first rows of an array that is given to be filled."""
    into = out[: shape[0]]
    if into.dtype != kind or into.shape != shape or not into.flags.c_contiguous:
        rule = f"out must be {kind}, of {shape} or more rows, without gaps"
        raise ValueError(f"{rule}; found {out.dtype} {out.shape}")
    return into


def size_problems(directory: Path, manifest: Manifest) -> list[str]:
    """The files of a store that are missing or of another size, in words."""
    problems = []
    for name, file in manifest.files.items():
        try:
            found = (directory / name).stat().st_size
        except OSError:
            problems.append(f"{name} is missing")
            continue
        if found != file.size:
            problems.append(f"{name} has {found} bytes, not {file.size}")
    return problems


def distrust() -> None:
    """Compare files with their digests again when they are read next.

    Examples
    --------
    >>> distrust()
    """
    _checked.clear()


def check_digest(path: Path, found: str, expected: str) -> None:
    """Refuse a file whose SHA-256 is not the manifest's.

    Examples
    --------
    >>> check_digest(Path("links/0000-0000.npy"), "ab" * 32, "ab" * 32)
    """
    if found != expected:
        raise StoreError(
            f"{path} was damaged or changed: its SHA-256 begins with {found[:12]}, not with "
            f"{expected[:12]}. {AGAIN}"
        )
