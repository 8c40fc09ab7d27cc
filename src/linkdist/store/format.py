"""The files of a store: names and the manifest.

    STORE/
      manifest.json            written last
      parts/0003.features.npy  (n_p, d), float16 or float32
      parts/0003.features.{data,indices,indptr}.npy  instead of that for CSR features
      parts/0003.labels.npy    (n_p,) int32, -1 where unknown (classification); (n_p, C) int8, 0 or
                               1, -1 where unknown (multilabel); (n_p,) float32, NaN where unknown
                               (regression)
      parts/0003.truth.npy     (n_p,) int32, only in a synthetic graph: the class of every node
      parts/0003.ids.arrow     (n_p,) text, except in a synthetic graph
      links/0001-0003.npy      (m_ab, 2) uint32: row in part a, row in part b, a <= b
      links/0001-0003.heads.npy    (m_ab,) uint8, only if there are several heads: the head of the
                               edge from the row in part a to the row in part b
      links/0001-0003.weights.npy  (m_ab,) float32, only if links have weights

The links of a bucket are sorted by their rows, then by their heads. Within one part, the smaller
row comes first. The edge from part b to part a has the head `linkdist.data.links.reverse_head`, so
a directed link is stored once, in either direction; a directed self-loop has the head of 'out'.

A directory without a manifest is an unfinished store, and nothing reads it. What an append writes
has its generation in its name, such as links/0001-0003.1.npy, so that the files of the manifest
that it replaces stay as they are (`linkdist.store.generation`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, ValidationError, model_validator

from linkdist._files import read_regular, replace_text
from linkdist._version import __version__
from linkdist.artifacts.manifest import some
from linkdist.data.graph import TASKS
from linkdist.data.links import LINKS, MOST_RELATIONS
from linkdist.errors import ModelError, StoreError
from linkdist.store.npy import HEADER as HEADER
from linkdist.store.npy import npy_header as npy_header
from linkdist.store.npy import rows_in as rows_in
from linkdist.tables.feature_encoder import FeatureEncoder

FORMAT, VERSION = "linkdist store", 3
OLDEST = 2
"""The oldest version that can be read: stores for classification with one relation."""

MANIFEST, JOURNAL = "manifest.json", "journal.json"

DENSE = ("float16", "float32")

CSR = ("data", "indices", "indptr")

LABELS = {"classification": "int32", "multilabel": "int8", "regression": "float32"}
"""The type of stored labels for each task."""

MOST_LABEL_ROWS = 2000
"""The largest number of labelled nodes whose rows in the table a manifest has."""

MAX_PARTS = 9999
"""The largest number of parts: file names have four digits for it."""

REBUILD = "Build it again, or copy it again from where it was built."
NOT_A_STORE = "Name a directory that 'linkdist store build' or 'linkdist store synth' wrote."

Count = Annotated[int, Field(strict=True, ge=0, lt=2**48)]


class File(NamedTuple):
    """The size of a file in bytes, its SHA-256 in hexadecimal, and the append that wrote it."""

    size: Count
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    generation: Count = 0


class OwnLoopCount(NamedTuple):
    """The self-loops of nodes without links: their number, and the weight that each of them has."""

    number: Count
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Columns(BaseModel):
    """The columns of the tables from which a store was built."""

    id: str
    label: str | list[str]
    unknown: list[str] = []
    source: str | None = None
    target: str | None = None
    task: str | None = None
    graph: str | None = None
    relation: str | None = None
    weight: str | None = None
    directed: bool = False
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
    task : {'classification', 'multilabel', 'regression'}
        What the labels are.
    classes : tuple of str
        Names of the C classes; for regression, the name of the number.
    labelled : (C,) tuple of int
        Number of known labels of each class; for regression, of known numbers.
    label_rows : tuple of tuples of int, or None
        The rows in the table of the labelled nodes of each part that was filled by hashing, if
        there are few: folds of the labels are then those of the table. Nodes that were appended
        come after them.
    label_format : dict
        How the labels are written in the table; see `linkdist.tables.targets.LabelFormat.state`.
    sizes : (P,) tuple of int
        Number of nodes of each part.
    hashed : int
        Number of parts that were filled by hashing: the ids of part p < `hashed` are those whose
        hash modulo `hashed` is p. The other parts contain nodes that were appended later, in order
        of arrival.
    counts : tuple of int
        Number of links of each bucket, in the order of `buckets`.
    loops : int
        Number of links that are self-loops.
    own_loops : OwnLoopCount or None
        The self-loops of nodes without links, whose weight is the average weight of all other
        links; None if links have no weights.
    relations : tuple of str
        Names of the relations of links.
    directed, weighted : bool
        Whether links have a direction, and whether they have weights.
    synthetic : bool
        Whether `linkdist.store.synthetic` generated the graph: then ids are 'part-row', and the
        store has the class of every node.
    columns : Columns or None
        The columns of the node table; None for a synthetic graph.
    source : dict
        What the store was built from, for people.
    files : dict of str to File
        All files except the manifest, by their path in the store without the generation.
    """

    format: Literal["linkdist store"] = "linkdist store"
    version: Literal[3] = 3
    program: str = __version__
    kind: Literal["float16", "float32", "csr"]
    d: Count
    task: Literal["classification", "multilabel", "regression"]
    classes: tuple[str, ...]
    labelled: tuple[Count, ...]
    label_rows: tuple[tuple[Count, ...], ...] | None = None
    label_format: dict[Literal["decimal", "separator", "binary"], str | bool | None]
    sizes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=MAX_PARTS)]
    hashed: Annotated[Count, Field(ge=1)]
    counts: tuple[Count, ...]
    loops: Count
    own_loops: OwnLoopCount | None = None
    relations: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_RELATIONS)] = LINKS
    directed: Annotated[bool, Field(strict=True)]
    weighted: Annotated[bool, Field(strict=True)]
    synthetic: Annotated[bool, Field(strict=True)]
    columns: Columns | None
    source: dict[str, Any]
    files: dict[str, File]

    @model_validator(mode="after")
    def _check_consistency(self) -> Manifest:
        """Compare the fields with each other; each is valid by itself."""
        problems = self._label_problems()
        if len(set(self.relations)) < len(self.relations):
            problems.append("two relations have the same name")
        if self.hashed > self.P:
            problems.append(f"{self.hashed} parts are filled by hashing, but there are {self.P}")
        if len(self.counts) != self.P * (self.P + 1) // 2:
            problems.append(f"there are {len(self.counts)} counts for {self.P} parts")
        if self.synthetic is not (self.columns is None):
            problems.append("a store must either be synthetic or have columns")
        elif self.columns is not None:
            try:
                d = FeatureEncoder.from_state(self.columns.encoders).d
                if d != self.d:
                    problems.append(f"the columns have {d} features, not {self.d}")
            except ModelError as error:
                problems.append(str(error))
        if set(self.files) != set(self.expected_files()):
            problems.append("the list of files does not match the numbers of parts and buckets")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _label_problems(self) -> list[str]:
        problems = []
        if len(self.labelled) != len(self.classes):
            problems.append(f"labelled has {len(self.labelled)} of {len(self.classes)} classes")
        if self.label_rows is not None and len(self.label_rows) != self.hashed:
            problems.append(f"label_rows has {len(self.label_rows)} of {self.hashed} parts")
        if self.task == "regression" and len(self.classes) != 1:
            problems.append(f"regression predicts one number, not {len(self.classes)}")
        if self.task == "multilabel" and not self.classes:
            problems.append("multilabel needs one class or more")
        if self.synthetic and self.task != "classification":
            problems.append(f"a synthetic store is for classification, not {self.task}")
        return problems

    @property
    def P(self) -> int:  # noqa: N802
        """Number of parts."""
        return len(self.sizes)

    @property
    def K(self) -> int:  # noqa: N802
        """Number of neighbour heads: one for each relation or, if links are directed, two."""
        return len(self.relations) * (1 + self.directed)

    def expected_files(self) -> list[str]:
        """The names of all files of the store except the manifest."""
        return expected_files(self.P, self.kind, self.synthetic, self.K, self.weighted)

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
        if type(number) is not int or not OLDEST <= number <= VERSION:
            older = type(number) is int and number < OLDEST
            raise StoreError(
                f"{directory} is a store of version {number!r}, written by linkdist "
                f"{fields.get('program', 'of another version')}; this is linkdist "
                f"{__version__}, which reads versions {OLDEST} to {VERSION}. "
                + ("Build it again." if older else "Upgrade: pip install --upgrade linkdist.")
            )
        try:
            return cls.model_validate(_with_defaults(fields) if number == OLDEST else fields)
        except ValidationError as error:
            found = ((".".join(map(str, one["loc"])), one["msg"]) for one in error.errors())
            problems = some([": ".join(filter(None, one)) for one in found], "; ")
            problem = f"was changed or is truncated ({problems})"
            raise StoreError(f"{path} {problem}. {REBUILD}") from error


def _with_defaults(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a manifest of version 2 with those that version 3 has as well."""
    sizes = fields.get("sizes")
    new = {
        "version": VERSION,
        "task": TASKS[0],
        "label_format": {},
        "hashed": len(sizes) if isinstance(sizes, list) else 1,
        "relations": LINKS,
        "directed": False,
        "weighted": False,
    }
    return fields | new


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


def bucket_file(a: int, b: int, what: str = "npy") -> str:
    """The name of a file of a bucket.

    Examples
    --------
    >>> bucket_file(1, 3), bucket_file(1, 3, "heads.npy")
    ('links/0001-0003.npy', 'links/0001-0003.heads.npy')
    """
    return f"links/{a:04}-{b:04}.{what}"


def bucket_files(a: int, b: int, heads: int, weighted: bool) -> list[str]:
    """The names of all files of a bucket, given the number of heads.

    Examples
    --------
    >>> bucket_files(1, 3, heads=1, weighted=True)
    ['links/0001-0003.npy', 'links/0001-0003.weights.npy']
    """
    ends = ["npy", *["heads.npy"] * (heads > 1), *["weights.npy"] * weighted]
    return [bucket_file(a, b, end) for end in ends]


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


def label_shape(n: int, task: str, C: int) -> tuple[int, ...]:
    """The shape of the labels of n nodes.

    Examples
    --------
    >>> label_shape(7, "multilabel", 3), label_shape(7, "classification", 3)
    ((7, 3), (7,))
    """
    return (n, C) if task == "multilabel" else (n,)


def expected_files(
    P: int, kind: str, synthetic: bool, heads: int = 1, weighted: bool = False
) -> list[str]:
    """The names of all files of a store except the manifest.

    Parameters
    ----------
    P, heads : int
        Number of parts, and of neighbour heads.
    kind, synthetic, weighted
        As in `Manifest`.

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
    return names + [one for a, b in buckets(P) for one in bucket_files(a, b, heads, weighted)]
