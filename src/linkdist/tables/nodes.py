"""Tables of nodes become arrays.

A node table has a column of ids, one of labels and columns that are features. Ids are compared as
text: 7 in Parquet and 7 in CSV are one node, 007 is another.

A CSV file does not say what its columns hold, and its first rows may mislead. What a node table is
read for is therefore read as text and understood by its encoder, which knows the row of what does
not fit; only dates and truth values are left to Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from linkdist.data.graph import UNKNOWN, FeatureMatrix, IntArray, stacked
from linkdist.progress import Progress
from linkdist.tables.encoders import Encoders, make_encoders
from linkdist.tables.io import BATCH, Table, numbered, open_table
from linkdist.tables.schema import Guess, guess, places_among, single_values, text_of
from linkdist.tables.validation import SHOWN, Problems

WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Nodes:
    """A node table as arrays.

    Attributes
    ----------
    ids : (n,) Arrow array
        In the table's type, or text from CSV.
    labels : (n,) int64 array
        y, from 0 to C - 1, or `UNKNOWN`.
    classes : tuple of str
        The C classes' names: whole numbers by size, others by name.
    features : (n, d) float32 array or CSR matrix
        x, a row a node.
    encoders : Encoders
        That gave the features.
    guesses : dict of str to Guess
        What each column was taken for; empty where the encoders were given.
    unknown_labels : dict of str to int
        Labels outside the classes given, and how often each stands.
    """

    ids: pa.Array
    labels: IntArray
    classes: tuple[str, ...]
    features: FeatureMatrix
    encoders: Encoders
    guesses: Mapping[str, Guess] = field(default_factory=dict)
    unknown_labels: Mapping[str, int] = field(default_factory=dict)


def read_nodes(
    path: Path | str,
    id: str,
    label: str | None,
    kinds: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
    encoders: Encoders | None = None,
    progress: Progress | None = None,
    classes: tuple[str, ...] | None = None,
) -> Nodes:
    r"""Read a node table.

    Parameters
    ----------
    path : Path
        A Parquet or CSV file.
    id, label : str
        The columns of ids and of labels. A label may be missing, empty or, among whole numbers,
        -1: then it is unknown.
    kinds : mapping of str to str, optional
        Columns that are of another kind than guessed.
    features : sequence of str, optional
        The columns that are features; by default all others that can be.
    encoders : Encoders, optional
        Those of a model, used as they are; by default they learn from this table.
    progress : callable, optional
        Called with rows done and rows in all, 0 while unknown; a table that encoders learn from
        is read twice.
    classes : tuple of str, optional
        Those of a model; by default all that the labels name.

    Raises
    ------
    TableError
        With every problem of the table.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "nodes.csv")
    ...     _ = path.write_text("paper,field,age\n7,math,1\n8,art,3\n9,,2\n")
    ...     nodes = read_nodes(path, id="paper", label="field")
    >>> nodes.classes, nodes.labels.tolist(), nodes.features[:2].tolist()
    (('art', 'math'), [1, 0, -1], [[-1.2247449159622192], [1.2247449159622192]])
    """
    table, problems, guesses = open_table(path), Problems(), {}
    learn = encoders is None
    if encoders is None:
        guesses = _guesses(table, id, label, kinds or {}, features, problems)
        used = {name: found.kind for name, found in guesses.items() if found.kind is not None}
        encoders = make_encoders(used)
    table, present, columns = _as_nodes(table, [id, label], encoders, problems)
    bar = _Bar(table.rows, 2 if learn else 1, progress)
    ids, labels, blocks = [], [], []
    for first_row, batch in numbered(table, columns):
        ids.append(single_values(batch, id, problems))
        labels.append(text_of(single_values(batch, label, problems)))
        if learn:
            present.see(batch, first_row, problems)
        else:
            blocks.append(present.encode(batch, first_row, problems))
        bar.advance(batch.num_rows)
    if learn:
        present.settle()
    if not ids:
        problems.add("the table has no rows")
        problems.check(str(path))
    if id in table.schema.names:
        check_ids(pa.concat_arrays(ids), id, problems)
    text = pa.concat_arrays(labels)
    if classes is None and label is not None and label in table.schema.names:
        classes = _classes(text, label, problems)
    _check_features(present, encoders, problems)
    problems.check(str(path))
    if learn:
        bar.know()
        for first_row, batch in numbered(table, columns):
            blocks.append(encoders.encode(batch, first_row))
            bar.advance(batch.num_rows)
    y, unknown = _labels(text, classes or ())
    x = stacked(blocks)
    return Nodes(pa.concat_arrays(ids), y, classes or (), x, encoders, guesses, unknown)


@dataclass(frozen=True)
class Survey:
    """What a first reading of a node table tells; its rows are not held.

    Attributes
    ----------
    rows : int
        n.
    classes : tuple of str
        As in `Nodes`.
    encoders : Encoders
        That have learnt from all rows.
    guesses : mapping of str to Guess
        What each column was taken for.
    """

    rows: int
    classes: tuple[str, ...]
    encoders: Encoders
    guesses: Mapping[str, Guess]


def survey_nodes(
    path: Path | str,
    id: str,
    label: str,
    kinds: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Survey:
    r"""Learn from a node table of any length what `read_nodes` would; parameters as there.

    Ids that stand twice are not looked for.

    Raises
    ------
    TableError
        With every other problem of the table.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "nodes.csv")
    ...     _ = path.write_text("paper,field,age\n7,math,1\n8,art,3\n9,,2\n")
    ...     survey = survey_nodes(path, id="paper", label="field")
    >>> survey.rows, survey.classes, survey.encoders.d
    (3, ('art', 'math'), 1)
    """
    table, problems = open_table(path), Problems()
    guesses = _guesses(table, id, label, kinds or {}, features, problems)
    used = {name: found.kind for name, found in guesses.items() if found.kind is not None}
    encoders = make_encoders(used)
    table, present, columns = _as_nodes(table, [id, label], encoders, problems)
    bar = _Bar(table.rows, 1, progress)
    rows, labels = 0, pa.array([], pa.large_string())
    for first_row, batch in numbered(table, columns):
        if id in columns:
            _check_there(text_of(single_values(batch, id, problems)), id, problems, first_row)
        text = text_of(single_values(batch, label, problems))
        labels = pa.concat_arrays([labels, text.drop_null().unique()]).unique()
        present.see(batch, first_row, problems)
        rows += batch.num_rows
        bar.advance(batch.num_rows)
    present.settle()
    if not rows:
        problems.add("the table has no rows")
        problems.check(str(path))
    classes = _classes(labels, label, problems) if label in columns else ()
    _check_features(present, encoders, problems)
    problems.check(str(path))
    return Survey(rows, classes, encoders, guesses)


def encoded_nodes(
    path: Path | str,
    id: str,
    label: str,
    survey: Survey,
    skip: int = 0,
    size: int = BATCH,
) -> Iterator[tuple[pa.Array, IntArray, FeatureMatrix]]:
    r"""Ids, labels and features of a surveyed node table, batch by batch.

    Parameters
    ----------
    path : Path
        A Parquet or CSV file.
    id, label : str
        The columns of ids and of labels.
    survey : Survey
        Of this very table.
    skip : int
        Rows to leave out, as many as earlier batches had.
    size : int
        Rows of a batch, at most.

    Yields
    ------
    ids : (k,) array of large_string
        As text.
    labels : (k,) int64 array
        As in `Nodes`.
    features : (k, d) float32 array or CSR matrix
        As in `Nodes`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "nodes.csv")
    ...     _ = path.write_text("paper,field,age\n7,math,1\n8,art,3\n9,,2\n")
    ...     survey = survey_nodes(path, id="paper", label="field")
    ...     ((ids, labels, x),) = encoded_nodes(path, "paper", "field", survey)
    >>> ids.to_pylist(), labels.tolist(), x.shape
    (['7', '8', '9'], [1, 0, -1], (3, 1))
    """
    problems = Problems()
    table, encoders, columns = _as_nodes(open_table(path), [id, label], survey.encoders, problems)
    for first_row, batch in numbered(table, columns, size):
        if first_row > skip:
            ids = text_of(single_values(batch, id, problems))
            y, _ = _labels(text_of(single_values(batch, label, problems)), survey.classes)
            yield ids, y, encoders.encode(batch, first_row)


def node_batches(
    path: Path | str, id: str, encoders: Encoders, size: int = BATCH
) -> Iterator[tuple[pa.Array, FeatureMatrix]]:
    r"""Ids and features of a node table of any length, batch by batch.

    Parameters
    ----------
    path : Path
        A Parquet or CSV file.
    id : str
        The column of ids; they may be missing or stand twice.
    encoders : Encoders
        Those of a model.
    size : int
        Rows of a batch, at most.

    Raises
    ------
    TableError
        With every problem of the table: nothing is given from the first one on.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> encoders = make_encoders({"age": "numeric"})
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "nodes.csv")
    ...     _ = path.write_text("paper,age\n7,1\n8,3\n")
    ...     [(ids.to_pylist(), x.shape) for ids, x in node_batches(path, "paper", encoders)]
    [(['7', '8'], (2, 1))]
    """
    problems = Problems()
    table, present, columns = _as_nodes(open_table(path), [id], encoders, problems)
    for first_row, batch in numbered(table, columns, size):
        ids = single_values(batch, id, problems)
        x = present.encode(batch, first_row, problems)
        if not problems:
            yield ids, x
    problems.check(str(path))


def _as_nodes(
    table: Table, singles: Sequence[str | None], encoders: Encoders, problems: Problems
) -> tuple[Table, Encoders, list[str]]:
    """The table as nodes are read from it; the encoders and the columns that have their place."""
    asked = dict.fromkeys([*(name for name in singles if name is not None), *encoders.names])
    problems.names("column", asked, table.schema.names)
    columns = [name for name in asked if name in table.schema.names]
    if not columns:
        problems.check(str(table.path))
    here = [column for column in encoders.columns if column.name in columns]
    typed = {
        column.name
        for column in here
        if column.kind == "numeric" and _is_typed(table.schema.field(column.name).type)
    }
    as_text = [name for name in columns if name in singles or name not in typed]
    return open_table(table.path, as_text), Encoders(here), columns


def _is_typed(kind: pa.DataType) -> bool:
    """Whether numbers come of a type that Arrow finds in CSV and that text does not spell."""
    return bool(pa.types.is_temporal(kind) or pa.types.is_boolean(kind))


def _guesses(
    table: Table,
    id: str,
    label: str | None,
    kinds: Mapping[str, str],
    features: Sequence[str] | None,
    problems: Problems,
) -> dict[str, Guess]:
    """What each column is taken for; `features` and `kinds` have the last word."""
    asked = list(dict.fromkeys([*(features or ()), *kinds]))
    problems.names("column", asked, table.schema.names)
    taken = [name for name in (id, label) if name is not None]
    for name in asked:
        if name in taken:
            problems.add(f"column {name!r} holds ids or labels and cannot be a feature")
    if id == label:
        problems.add(f"ids and labels must be two columns; both are {id!r}")
    guesses = guess(table.schema, table.sample(), taken)
    guesses |= {name: Guess(kinds[name], "as asked") for name in kinds if name in guesses}
    if features is None:
        return guesses
    guesses = {name: guesses[name] for name in asked if name in guesses}
    for name, found in guesses.items():
        if found.kind is None:
            problems.add(f"column {name!r} cannot be a feature: it {found.why}")
    return guesses


def check_ids(ids: pa.Array, name: str, problems: Problems) -> None:
    """Note ids that are missing or stand twice.

    Examples
    --------
    >>> problems = Problems()
    >>> check_ids(pa.array([7, 8, 7]), "paper", problems)
    >>> bool(problems)
    True
    """
    text = text_of(ids)
    _check_there(text, name, problems)
    codes = text.drop_null().dictionary_encode().indices.to_numpy()
    first = np.unique(codes, return_index=True)[1]
    again = np.delete(np.flatnonzero(text.is_valid()), first)
    problems.rows(stand_once(name), again + 1, text.take(pa.array(again[:SHOWN])))


def stand_once(name: str) -> str:
    """The rule that a column of ids broke where two rows have one id.

    Examples
    --------
    >>> stand_once("paper")
    "column 'paper' must hold ids that stand once"
    """
    return f"column {name!r} must hold ids that stand once"


def _check_there(ids: pa.Array, name: str, problems: Problems, first_row: int = 1) -> None:
    """Note ids that are missing; ids are texts."""
    missing = np.flatnonzero(ids.is_null())
    rule = f"column {name!r} must hold an id in each row"
    problems.rows(rule, missing + first_row, [None] * len(missing))


def _check_features(present: Encoders, asked: Encoders, problems: Problems) -> None:
    """Note that no feature is left, unless a column is missing, which is noted elsewhere."""
    if not present.d and len(present.columns) == len(asked.columns):
        problems.add("no column is left that gives features; name some and their kinds")


def _classes(text: pa.Array, name: str, problems: Problems) -> tuple[str, ...]:
    """The classes that labels name, whole numbers by size, others by name."""
    found = set(text.drop_null().unique().to_pylist())
    if _are_whole(found):
        classes = tuple(sorted(found - {str(UNKNOWN)}, key=lambda label: (int(label), label)))
    else:
        classes = tuple(sorted(found))
    if not classes:
        problems.add(f"column {name!r} holds no label at all; training needs some")
    elif len(classes) == 1:
        rule = f"column {name!r} must hold labels of two classes or more"
        problems.add(f"{rule}; all are {classes[0]!r}")
    return classes


def _labels(text: pa.Array, classes: tuple[str, ...]) -> tuple[IntArray, dict[str, int]]:
    """Labels by their places among the classes, and those outside with their counts."""
    y = places_among(text, pa.array(classes, pa.large_string()))
    outside = pc.value_counts(text.filter(pa.array(y == UNKNOWN)).drop_null()).to_pylist()
    unknown = {pair["values"]: pair["counts"] for pair in outside}
    if _are_whole(classes):
        unknown.pop(str(UNKNOWN), None)
    return y, dict(sorted(unknown.items()))


def _are_whole(labels: Collection[str]) -> bool:
    return all(WHOLE.fullmatch(label) for label in labels)


class _Bar:
    """Rows done and rows in all, told to `progress`."""

    def __init__(self, rows: int | None, passes: int, progress: Progress | None) -> None:
        self._total, self._passes, self._progress = (rows or 0) * passes, passes, progress
        self._done = 0

    def advance(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            self._progress(self._done, self._total)

    def know(self) -> None:
        """After the first pass, what was done is what there is."""
        self._total = self._done * self._passes
