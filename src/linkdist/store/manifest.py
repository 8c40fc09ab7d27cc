"""What a store says of itself: its sizes, its classes and the digest of each of its files.

    STORE/
      manifest.json            written last
      parts/0003.features.npy  (n_p, d), float16 or float32
      parts/0003.features.{data,indices,indptr}.npy  instead of that where features are CSR
      parts/0003.labels.npy    (n_p,) int32, -1 where unknown
      parts/0003.truth.npy     (n_p,) int32, of a made graph: what the labels would be
      parts/0003.ids.arrow     (n_p,) text, but for a made graph
      links/0001-0003.npy      (m_ab, 2) uint32: row in part a, row in part b, a <= b

A store without a manifest is half-built, and nothing reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linkdist._files import replace_text
from linkdist.data.graph import IntArray
from linkdist.errors import LinkDistError, StoreError
from linkdist.tables.encoders import Encoders

VERSION = 1

MANIFEST, JOURNAL = "manifest.json", "journal.json"

DENSE = ("float16", "float32")

KINDS = (*DENSE, "csr")

CSR = ("data", "indices", "indptr")

PARTS = 9999
"""The most parts that a store may have: their names have four digits."""

AGAIN = "Build it again, or copy it again from where it was built."
OTHER = "Name one that 'linkdist store build' or 'linkdist store synth' made."


class File(NamedTuple):
    """A file's size in bytes and its SHA-256 in hexadecimal."""

    size: int
    digest: str


@dataclass(frozen=True)
class Manifest:
    """A store's own account.

    Attributes
    ----------
    kind : {'float16', 'float32', 'csr'}
        How features are stored.
    d : int
        Number of features of a node.
    classes : tuple of str
        The C classes' names.
    labelled : tuple of int
        How many labels of each class are known.
    sizes : tuple of int
        Nodes a part.
    counts : tuple of int
        Links a bucket, in the order of `buckets`.
    loops : int
        How many of the links are self-loops.
    made : bool
        Whether the graph was made, by `linkdist.store.synthetic`: then ids are 'part-row' and the
        labels that are not given are known as truth.
    columns : mapping or None
        `id` and `label`, the columns' names, and `encoders`, their state; None where made.
    source : mapping
        What the store was built from, for people.
    files : mapping of str to File
        All files but the manifest, by their path below the store.
    """

    kind: str
    d: int
    classes: tuple[str, ...]
    labelled: tuple[int, ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    loops: int
    made: bool
    columns: Mapping[str, Any] | None
    source: Mapping[str, Any]
    files: Mapping[str, File]

    @property
    def P(self) -> int:  # noqa: N802
        """Number of parts."""
        return len(self.sizes)

    def matrix(self) -> IntArray:
        """Links a bucket as a (P, P) array, zeros below the diagonal."""
        counts = np.zeros((self.P, self.P), dtype=np.int64)
        counts[np.triu_indices(self.P)] = self.counts
        return counts

    def encoders(self) -> Encoders | None:
        """What turned a table's columns into features; None where the graph was made."""
        return None if self.columns is None else Encoders.from_state(self.columns["encoders"])

    def write(self, directory: Path) -> None:
        """Write the manifest, which makes a store of the directory."""
        files = {name: list(file) for name, file in sorted(self.files.items())}
        fields = {
            "format": "linkdist store",
            "version": VERSION,
            "program": version("linkdist"),
            **{name: value for name, value in vars(self).items() if name != "files"},
        }
        lines = [f'"{key}": {json.dumps(value, allow_nan=False)}' for key, value in fields.items()]
        named = ",\n".join(f'"{name}": {json.dumps(file)}' for name, file in files.items())
        text = ",\n".join([*lines, f'"files": {{\n{named}\n}}'])
        replace_text(directory / MANIFEST, f"{{\n{text}\n}}\n")

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        """Read and check a store's manifest, but not its files.

        Raises
        ------
        StoreError
            If there is none, if it is of another version, or if it was changed.

        Examples
        --------
        >>> Manifest.read(Path("/nowhere"))
        Traceback (most recent call last):
        linkdist.errors.StoreError: there is no directory /nowhere. Name one that 'linkdist store \
build' or 'linkdist store synth' made.
        """
        fields = _parse(directory, _text(directory))
        try:
            manifest = _from_fields(fields)
            problems = _problems(manifest)
        except (LinkDistError, LookupError, TypeError, ValueError, AttributeError) as error:
            problems = [f"{type(error).__name__}: {error}"]
        if problems:
            where = directory / MANIFEST
            raise StoreError(f"{where} was changed or cut off ({'; '.join(problems)}). {AGAIN}")
        return manifest


def buckets(P: int) -> Iterator[tuple[int, int]]:
    """The pairs of parts that links lie between, in order.

    Examples
    --------
    >>> list(buckets(2))
    [(0, 0), (0, 1), (1, 1)]
    """
    return ((a, b) for a in range(P) for b in range(a, P))


def bucket_place(a: Any, b: Any, P: int) -> Any:  # noqa: ANN401
    """Where a bucket stands in the order of `buckets`; a and b may be arrays.

    Examples
    --------
    >>> [bucket_place(a, b, P=3) for a, b in buckets(3)]
    [0, 1, 2, 3, 4, 5]
    """
    return a * P - a * (a + 1) // 2 + b


def part_file(part: int, what: str) -> str:
    """The name of a part's file.

    Examples
    --------
    >>> part_file(3, "labels.npy")
    'parts/0003.labels.npy'
    """
    return f"parts/{part:04}.{what}"


def bucket_file(a: int, b: int) -> str:
    """The name of a bucket's file.

    Examples
    --------
    >>> bucket_file(1, 3)
    'links/0001-0003.npy'
    """
    return f"links/{a:04}-{b:04}.npy"


def feature_files(part: int, kind: str) -> list[str]:
    """The names of the files that hold a part's features.

    Examples
    --------
    >>> feature_files(3, "float16")
    ['parts/0003.features.npy']
    """
    ends = [f"features.{name}.npy" for name in CSR] if kind == "csr" else ["features.npy"]
    return [part_file(part, end) for end in ends]


def expected_files(P: int, kind: str, made: bool) -> list[str]:
    """The names of all files of a store but the manifest.

    Examples
    --------
    >>> expected_files(1, "float16", made=True)
    ['parts/0000.features.npy', 'parts/0000.labels.npy', 'parts/0000.truth.npy', \
'links/0000-0000.npy']
    """
    ends = ["labels.npy", "truth.npy" if made else "ids.arrow"]
    names = []
    for part in range(P):
        names += [*feature_files(part, kind), *(part_file(part, end) for end in ends)]
    return names + [bucket_file(a, b) for a, b in buckets(P)]


def _text(directory: Path) -> bytes:
    try:
        return (directory / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        if not directory.is_dir():
            raise StoreError(f"there is no directory {directory}. {OTHER}") from error
        if (directory / JOURNAL).exists():
            raise StoreError(
                f"{directory} is half-built: it has no {MANIFEST} yet. Give the command that began "
                "it again; it goes on where it was."
            ) from error
        raise StoreError(f"{directory} has no {MANIFEST}, so it is no store. {OTHER}") from error
    except OSError as error:
        raise StoreError(f"{directory / MANIFEST} cannot be read: {error.strerror}.") from error


def _parse(directory: Path, text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text)
        known, number = fields["format"] == "linkdist store", fields["version"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        where = directory / MANIFEST
        raise StoreError(f"{where} is no store's manifest, or cut off. {AGAIN}") from error
    if not known:
        raise StoreError(f"{directory / MANIFEST} is not of a store. {OTHER}")
    if number != VERSION or type(number) is not int:
        writer = fields.get("program", "of another version")
        older = type(number) is int and number < VERSION
        advice = "Build it again" if older else "Upgrade it: pip install --upgrade linkdist"
        raise StoreError(
            f"{directory} is a store of version {number!r}, written by linkdist {writer}; this is "
            f"linkdist {version('linkdist')}, which reads version {VERSION}. {advice}."
        )
    checked: dict[str, Any] = fields
    return checked


def _from_fields(fields: Mapping[str, Any]) -> Manifest:
    columns = fields["columns"]
    return Manifest(
        kind=fields["kind"],
        d=fields["d"],
        classes=tuple(fields["classes"]),
        labelled=tuple(fields["labelled"]),
        sizes=tuple(fields["sizes"]),
        counts=tuple(fields["counts"]),
        loops=fields["loops"],
        made=fields["made"],
        columns=None if columns is None else dict(columns),
        source=dict(fields["source"]),
        files={name: File(*file) for name, file in dict(fields["files"]).items()},
    )


def _problems(manifest: Manifest) -> list[str]:
    problems = []
    if manifest.kind not in KINDS:
        problems.append(f"kind is {manifest.kind!r}, not one of {', '.join(KINDS)}")
    if not 1 <= manifest.P <= PARTS:
        problems.append(f"there are {manifest.P} parts, not 1 to {PARTS}")
    lists = ("labelled", "sizes", "counts")
    numbers = {name: list(getattr(manifest, name)) for name in lists}
    for name, values in {**numbers, "d": [manifest.d], "loops": [manifest.loops]}.items():
        wrong = [value for value in values if not (type(value) is int and 0 <= value < 2**48)]
        if wrong:
            problems.append(f"{name} has {wrong[0]!r}, not a number of 0 or more")
    if len(manifest.counts) != manifest.P * (manifest.P + 1) // 2:
        problems.append(f"there are {len(manifest.counts)} counts for {manifest.P} parts")
    names = manifest.classes
    if not all(type(name) is str for name in names) or len(manifest.labelled) != len(names):
        problems.append("classes must be text, with a count each")
    if manifest.made is not (manifest.columns is None):
        problems.append("a graph must be made, or have columns")
    if problems:  # the files below follow from all this
        return problems
    if manifest.columns is not None:
        encoders = manifest.encoders()
        if not all(type(manifest.columns[name]) is str for name in ("id", "label")):
            problems.append("columns must name those of ids and labels")
        if encoders is not None and encoders.d != manifest.d:
            problems.append(f"the columns make {encoders.d} features, not {manifest.d}")
    expected = expected_files(manifest.P, manifest.kind, manifest.made)
    if set(manifest.files) != set(expected):
        problems.append("the list of files is not that of such a store")
    unknown = [name for name, file in manifest.files.items() if not _is_file(*file)]
    if unknown:
        problems.append(f"{unknown[0]} has no size and SHA-256")
    return problems


def _is_file(size: Any, digest: Any) -> bool:  # noqa: ANN401
    return type(size) is int and bool(re.fullmatch("[0-9a-f]{64}", digest))
