"""Labels of the nodes, also those of a second table, such as one that `linkdist suggest` wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from linkdist.data.graph import Labels, known_labels
from linkdist.tables.io import TableLike, open_table
from linkdist.tables.label_survey import check_new_labels, find_format
from linkdist.tables.parsing import places_among, single_values, text_of
from linkdist.tables.targets import LabelFormat, label_values
from linkdist.tables.task import TaskGuess
from linkdist.tables.validation import SHOWN, Problems


class LabelTable(NamedTuple):
    """A table of ids and labels that was read.

    Attributes
    ----------
    name : str
        What messages call the table.
    id : str
        The column of ids.
    ids : (k,) array of large_string
        Ids.
    labels : (k,) Arrow array
        Labels as they are written; see `linkdist.tables.targets.label_values`.
    """

    name: str
    id: str
    ids: pa.Array
    labels: pa.Array


class ReadLabels(NamedTuple):
    """The labels of the nodes.

    Attributes
    ----------
    labels : array
        As `linkdist.data.graph.Graph` describes it.
    form : LabelFormat
        How they are written.
    guess : TaskGuess or None
        The guess of the task, if it was not given.
    unknown : dict of str to int
        The number of rows of each class that is not among the classes of a model.
    """

    labels: Labels
    form: LabelFormat
    guess: TaskGuess | None
    unknown: dict[str, int]


def read_labels(
    values: pa.Array,
    columns: tuple[str, ...],
    task: str | None,
    unknown: Collection[str],
    problems: Problems,
    form: LabelFormat | None = None,
    ids: pa.Array | None = None,
    more: LabelTable | None = None,
) -> ReadLabels:
    """Convert the labels of a node table to an array, and add those of a second table.

    Parameters
    ----------
    values : (n,) Arrow array
        The labels as they are written; see `linkdist.tables.targets.label_values`.
    columns, task, unknown, problems
        As in `linkdist.tables.label_survey.find_format`.
    form : LabelFormat, optional
        How the labels of a model are written; by default it is found.
    ids : (n,) array, optional
        Ids of the nodes.
    more : LabelTable, optional
        Further labels, which need `ids`.

    Examples
    --------
    >>> found = read_labels(pa.array(["b", None, "a"]), ("field",), None, [], Problems())
    >>> found.labels.tolist(), found.form.classes
    ([1, -1, 0], ('a', 'b'))
    """
    guess, is_new, before = None, form is None, len(problems)
    if form is None:
        parts = [values] if more is None else [values, more.labels]
        form, guess = find_format(columns, parts, task, unknown, problems)
    labels, new = form.encode(values, problems=problems)
    if more is not None:
        labels, new = add_labels(labels, ids, more, form, new)
    if is_new:
        check_new_labels(form, guess, labels, before, problems)
    return ReadLabels(labels, form, guess, new)


def read_label_table(labels: TableLike, id: str, columns: Sequence[str]) -> LabelTable:
    """Read a table of ids and labels.

    Parameters
    ----------
    labels : path or table
        Any table that `open_table` opens.
    id : str
        The column of ids.
    columns : sequence of str
        The label columns.

    Raises
    ------
    TableError
        If there are no such columns.

    Examples
    --------
    >>> read_label_table({"id": [9, 8], "field": ["math", None]}, "id", ["field"]).ids.to_pylist()
    ['9', '8']
    """
    table, problems = open_table(labels, "the label table"), Problems()
    names = [id, *columns]
    problems.names("column", names, table.schema.names)
    problems.check(table.name)
    empty = pa.record_batch([pa.array([], pa.string())] * len(names), names)
    batches = list(table.batches(names, as_text=names)) or [empty]
    ids = [text_of(single_values(batch, id, problems)) for batch in batches]
    values = [label_values(batch, columns, problems) for batch in batches]
    problems.check(table.name)
    return LabelTable(table.name, id, pa.concat_arrays(ids), pa.concat_arrays(values))


def add_labels(
    labels: Labels,
    ids: pa.Array,
    more: LabelTable,
    form: LabelFormat,
    unknown: Mapping[str, int] | None = None,
) -> tuple[Labels, dict[str, int]]:
    """Fill in the labels of nodes.

    Parameters
    ----------
    labels : array
        The labels of the n nodes; see `linkdist.data.graph.Graph`.
    ids : (n,) array
        Ids of the nodes.
    more : LabelTable
        Further labels; rows without a label are skipped.
    form : LabelFormat
        How they are written.
    unknown : mapping of str to int, optional
        The number of rows of each class that is not among the classes, so far.

    Returns
    -------
    labels : array
        The labels of the nodes.
    unknown : dict of str to int
        The number of rows of each class that is not among the classes, in both tables.

    Raises
    ------
    TableError
        Lists all ids that are unknown or occur with several labels.

    Examples
    --------
    >>> more = read_label_table({"id": [9, 8], "field": ["math", None]}, "id", ["field"])
    >>> form = LabelFormat("classification", ("field",), ("art", "math"))
    >>> add_labels(np.array([0, -1, -1]), pa.array([7, 8, 9]), more, form)[0].tolist()
    [0, -1, 1]
    """
    problems, y = Problems(), labels.copy()
    new, others = form.encode(more.labels, problems=problems)
    rows, known = np.flatnonzero(known_labels(new)), known_labels(y)
    given = more.ids.take(pa.array(rows))
    place = places_among(given, text_of(ids))
    lost = np.flatnonzero(place < 0)
    rule = f"column {more.id!r} must contain ids of the node table"
    problems.rows(rule, rows[lost] + 1, given.take(pa.array(lost[:SHOWN])))
    for i, label in zip(place.tolist(), new[rows], strict=True):
        if i >= 0 and known[i] and not np.array_equal(y[i], label):
            both = f"{_shown(y[i], form)} and {_shown(label, form)}"
            problems.add(f"node {ids[i].as_py()!r} has the labels {both}")
        elif i >= 0:
            y[i], known[i] = label, True
    problems.check(more.name)
    return y, dict(sorted((Counter(unknown or {}) + Counter(others)).items()))


def _shown(label: Any, form: LabelFormat) -> str:  # noqa: ANN401
    """A label in a message."""
    if form.task == "regression":
        return f"{label:g}"
    if form.task == "classification":
        return repr(form.classes[label])
    return repr([name for name, one in zip(form.classes, label, strict=True) if one])
