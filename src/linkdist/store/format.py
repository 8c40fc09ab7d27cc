"""The files of a store: names, .npy headers and the manifest.

    STORE/
      manifest.json            written last
      parts/0003.features.npy  (n_p, d), float16 or float32
      parts/0003.features.{data,indices,indptr}.npy  instead of that for CSR features
      parts/0003.labels.npy    (n_p,) int32, -1 where unknown
      parts/0003.truth.npy     (n_p,) int32, only in a synthetic graph: the class of every node
      parts/0003.ids.arrow     (n_p,) text, except in a synthetic graph
      links/0001-0003.npy      (m_ab, 2) uint32: row in part a, row in part b, a <= b

A directory without a manifest is an unfinished store, and nothing reads it. What an append writes
has its generation in its name, such as links/0001-0003.1.npy, so that the files of the manifest
that it replaces stay as they are (`linkdist.store.generation`).

NumPy pads the header of any one- or two-dimensional array to 128 bytes. So the length of a file
gives its number of rows, a file can grow before its header is written, and a reader that knows the
shape compares bytes instead of parsing a header.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field, ValidationError, model_validator

from linkdist._files import read_regular, replace_text
from linkdist._version import __version__
from linkdist.artifacts.manifest import some
from linkdist.errors import ModelError, StoreError
from linkdist.tables.feature_encoder import FeatureEncoder

FORMAT, VERSION = "linkdist store", 2

MANIFEST, JOURNAL = "manifest.json", "journal.json"

DENSE = ("float16", "float32")

CSR = ("data", "indices", "indptr")

MAX_PARTS = 9999
"""The largest number of parts: file names have four digits for it."""

HEADER = 128
"""Number of bytes of a .npy header."""

REBUILD = "Build it again, or copy it again from where it was built."
NOT_A_STORE = "Name a directory that 'linkdist store build' or 'linkdist store synth' wrote."

Count = Annotated[int, Field(strict=True, ge=0, lt=2**48)]


class File(NamedTuple):
    """The size of a file in bytes, its SHA-256 in hexadecimal, and the append that wrote it."""

    size: Count
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    generation: Count = 0


class Columns(BaseModel):
    """The columns of the node table from which a store was built."""

    id: str
    label: str
    unknown: list[str] = []
    source: str | None = None
    target: str | None = None
    task: str | None = None
    graph: str | None = None
    encoders: list[dict[str, Any]]


class Manifest(BaseModel, frozen=True):
    """The description of a store.

    Attributes
    ----------
    format, version, program : str, int and str
        Identify the file format and the version of LinkDist that wrote it.
    kind : {'float16', 'float32', 'csr'}
        How features are stored.
    d : int
        Number of features of a node.
    classes : tuple of str
        Names of the C classes.
    labelled : (C,) tuple of int
        Number of known labels of each class.
    sizes : (P,) tuple of int
        Number of nodes of each part.
    counts : tuple of int
        Number of links of each bucket, in the order of `buckets`.
    loops : int
        Number of links that are self-loops.
    synthetic : bool
        Whether `linkdist.store.synthetic` generated the graph: then ids are 'part-row', and the
        store has the class of every node.
    columns : Columns or None
        The columns of the node table; None for a synthetic graph.
    source : dict
        What the store was built from, for people.
    files : dict of str to File
        All files except the manifest, by their path in the store without the generation.
    hashed : int or None
        Number of parts that are filled by the hashes of ids, by default all; the nodes of later
        parts were appended and are in order of arrival.
    """

    format: Literal["linkdist store"] = "linkdist store"
    version: Literal[2] = 2
    program: str = __version__
    kind: Literal["float16", "float32", "csr"]
    d: Count
    classes: tuple[str, ...]
    labelled: tuple[Count, ...]
    sizes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=MAX_PARTS)]
    counts: tuple[Count, ...]
    loops: Count
    synthetic: Annotated[bool, Field(strict=True)]
    columns: Columns | None
    source: dict[str, Any]
    files: dict[str, File]
    hashed: Count | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Manifest:
        """Compare the fields with each other; each is valid by itself."""
        problems = []
        if len(self.counts) != self.P * (self.P + 1) // 2:
            problems.append(f"there are {len(self.counts)} counts for {self.P} parts")
        if len(self.labelled) != len(self.classes):
            problems.append(f"labelled has {len(self.labelled)} of {len(self.classes)} classes")
        if self.synthetic is not (self.columns is None):
            problems.append("a store must either be synthetic or have columns")
        elif self.columns is not None:
            try:
                d = FeatureEncoder.from_state(self.columns.encoders).d
                if d != self.d:
                    problems.append(f"the columns have {d} features, not {self.d}")
            except ModelError as error:
                problems.append(str(error))
        if set(self.files) != set(expected_files(self.P, self.kind, self.synthetic)):
            problems.append("the list of files does not match the numbers of parts and buckets")
        if not 1 <= self.hash_parts <= self.P:
            problems.append(f"hashed is {self.hashed}, not a number of parts from 1 to {self.P}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def P(self) -> int:  # noqa: N802
        """Number of parts."""
        return len(self.sizes)

    @property
    def hash_parts(self) -> int:
        """Number of parts that are filled by the hashes of ids."""
        return self.P if self.hashed is None else self.hashed

    def path(self, name: str) -> str:
        """The path of a file in the store, with its generation."""
        return generation_file(name, self.files[name].generation)

    def write(self, directory: Path) -> None:
        """Write the manifest, which makes the directory a store."""
        fields = self.model_dump(mode="json")
        lines = [f'"{key}": {json.dumps(value, allow_nan=False)}' for key, value in fields.items()]
        replace_text(directory / MANIFEST, "{\n" + ",\n".join(lines) + "\n}\n")

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        """Read and validate the manifest of a store, but not the other files.

        Raises
        ------
        StoreError
            If there is no manifest, if it has another version, or if it is not valid.

        Examples
        --------
        >>> Manifest.read(Path("/nowhere"))
        Traceback (most recent call last):
        linkdist.errors.StoreError: there is no directory /nowhere. Name a directory that \
'linkdist store build' or 'linkdist store synth' wrote.
        """
        path = directory / MANIFEST
        try:
            fields = json.loads(_read_bytes(directory))
            found, number = fields["format"], fields["version"]
        except (ValueError, RecursionError, LookupError, TypeError) as error:
            problem = "is not the manifest of a store, or it is truncated"
            raise StoreError(f"{path} {problem}. {REBUILD}") from error
        if found != FORMAT:
            raise StoreError(f"{path} is not the manifest of a store. {NOT_A_STORE}")
        if number != VERSION or type(number) is not int:
            older = type(number) is int and number < VERSION
            raise StoreError(
                f"{directory} is a store of version {number!r}, written by linkdist "
                f"{fields.get('program', 'of another version')}; this is linkdist "
                f"{__version__}, which reads version {VERSION}. "
                + ("Build it again." if older else "Upgrade: pip install --upgrade linkdist.")
            )
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            found = ((".".join(map(str, one["loc"])), one["msg"]) for one in error.errors())
            problems = some([": ".join(filter(None, one)) for one in found], "; ")
            problem = f"was changed or is truncated ({problems})"
            raise StoreError(f"{path} {problem}. {REBUILD}") from error


def _read_bytes(directory: Path) -> bytes:
    try:
        return read_regular(directory / MANIFEST, follow=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        if not directory.is_dir():
            problem = f"there is no directory {directory}. {NOT_A_STORE}"
        elif (directory / JOURNAL).exists():
            advice = "Run the command that started it again; it continues where it stopped."
            problem = f"{directory} is unfinished: it has no {MANIFEST} yet. {advice}"
        else:
            problem = f"{directory} has no {MANIFEST}, so it is not a store. {NOT_A_STORE}"
        raise StoreError(problem) from error
    except OSError as error:
        raise StoreError(f"{directory / MANIFEST} cannot be read: {error.strerror}.") from error


def buckets(P: int) -> Iterator[tuple[int, int]]:
    """The pairs of parts that have links between them, in order.

    Examples
    --------
    >>> list(buckets(2))
    [(0, 0), (0, 1), (1, 1)]
    """
    return ((a, b) for a in range(P) for b in range(a, P))


def bucket_index(a: Any, b: Any, P: int) -> Any:  # noqa: ANN401
    """The position of a bucket in the order of `buckets`; a and b may be arrays.

    Examples
    --------
    >>> [bucket_index(a, b, P=3) for a, b in buckets(3)]
    [0, 1, 2, 3, 4, 5]
    """
    return a * P - a * (a + 1) // 2 + b


def part_file(part: int, what: str) -> str:
    """The name of a file of a part.

    Examples
    --------
    >>> part_file(3, "labels.npy")
    'parts/0003.labels.npy'
    """
    return f"parts/{part:04}.{what}"


def bucket_file(a: int, b: int) -> str:
    """The name of the file of a bucket.

    Examples
    --------
    >>> bucket_file(1, 3)
    'links/0001-0003.npy'
    """
    return f"links/{a:04}-{b:04}.npy"


def generation_file(name: str, generation: int) -> str:
    """The name of a file with the generation that wrote it; 0 is the build.

    Examples
    --------
    >>> generation_file("links/0001-0003.npy", 2), generation_file("links/0001-0003.npy", 0)
    ('links/0001-0003.2.npy', 'links/0001-0003.npy')
    """
    stem, dot, ending = name.rpartition(".")
    return f"{stem}.{generation}{dot}{ending}" if generation else name


def feature_files(part: int, kind: str) -> list[str]:
    """The names of the files with the features of a part.

    Examples
    --------
    >>> feature_files(3, "float16")
    ['parts/0003.features.npy']
    """
    ends = [f"features.{name}.npy" for name in CSR] if kind == "csr" else ["features.npy"]
    return [part_file(part, end) for end in ends]


def expected_files(P: int, kind: str, synthetic: bool) -> list[str]:
    """The names of all files of a store except the manifest.

    Examples
    --------
    >>> expected_files(1, "float16", synthetic=True)
    ['parts/0000.features.npy', 'parts/0000.labels.npy', 'parts/0000.truth.npy', \
'links/0000-0000.npy']
    """
    ends = ["labels.npy", "truth.npy" if synthetic else "ids.arrow"]
    names = []
    for part in range(P):
        names += [*feature_files(part, kind), *(part_file(part, end) for end in ends)]
    return names + [bucket_file(a, b) for a, b in buckets(P)]


def npy_header(shape: tuple[int, ...], dtype: npt.DTypeLike) -> bytes:
    """The first 128 bytes of a .npy file, as `numpy.save` writes them.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> np.save(file, np.zeros((3, 2), np.uint32))
    >>> file.getvalue() == npy_header((3, 2), "uint32") + bytes(24)
    True
    """
    file = io.BytesIO()
    fields = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    header = file.getvalue()
    if len(header) != HEADER:
        raise ValueError(f"the header has {len(header)} bytes: {shape} has too many dimensions")
    return header


def rows_in(path: Path, width: int) -> int:
    """The number of rows of `width` bytes in a .npy file, from its length.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/links.npy", np.zeros((3, 2), np.uint32))
    ...     rows_in(Path(folder, "links.npy"), 8)
    3
    """
    return (path.stat().st_size - HEADER) // width
