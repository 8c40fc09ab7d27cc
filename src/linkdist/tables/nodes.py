"""Read node tables into arrays.

A node table has a column of ids, one or more columns of labels and feature columns. Ids are
compared as text: 7 in Parquet and 7 in CSV are the same node, 007 is another one. Several node
tables, or a column with the names of graphs, make several graphs (`linkdist.tables.graphs`).

The types of CSV columns are inferred from their first rows, which may not be typical. Columns are
therefore read as text and parsed by their encoders, which report the row of an unsuitable value;
only times, and dates that are used as numbers, are parsed by Arrow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from linkdist.data.graph import FeatureMatrix, IntArray, Labels, stacked
from linkdist.progress import Progress
from linkdist.tables.embedding import TextEncoder
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.graphs import GraphTables, find_groups, open_nodes, shown_ids
from linkdist.tables.io import BATCH, Table, TableLike, open_table
from linkdist.tables.label_survey import (
    DIFFERENT,
    SeenLabels,
    check_new_labels,
    different_labels,
)
from linkdist.tables.label_table import read_label_table, read_labels
from linkdist.tables.node_table import NodeTable, check_ids, check_missing
from linkdist.tables.parsing import single_values, text_of
from linkdist.tables.schema import Guess
from linkdist.tables.table_sample import SAMPLED, TableSample
from linkdist.tables.targets import LabelColumns, LabelFormat, label_values
from linkdist.tables.task import TaskGuess
from linkdist.tables.validation import Problems, Tally


@dataclass(frozen=True, eq=False)
class Nodes:
    """The arrays of a node table.

    Attributes
    ----------
    ids : (n,) Arrow array
        Ids, in the type of the Parquet column or as text from CSV; of several node tables, text
        such as GRAPH/ID.
    labels : (n,) int64, (n,) float64 or (n, C) int64 array
        y, as `linkdist.data.graph.Graph` describes it.
    classes : tuple of str
        Names of the C classes; integers are sorted by value, other names alphabetically, and label
        columns as they are given. For regression, the label column.
    features : (n, d) float32 array or CSR matrix
        x, one row per node.
    encoders : FeatureEncoder
        The encoder that produced the features.
    guesses : dict of str to Guess
        The inferred kinds of columns; empty if an encoder was passed.
    unknown_labels : dict of str to int
        Labels that are not among the classes that were passed, with their counts.
    tallies : dict of str to Tally
        Values of each column that were not used as they are.
    notices : tuple of str
        The same as sentences.
    label_format : LabelFormat
        How the labels are written.
    guess : TaskGuess or None
        The guess of the task, if it was not given.
    groups : (n,) int64 array or None
        The position of each node's graph in `graphs`, if there are several graphs.
    graphs : tuple of str
        Names of the graphs, sorted like classes.
    sample : TableSample or None
        The feature columns of a random sample of rows, if an encoder was fitted to them.
    """

    ids: pa.Array
    labels: Labels
    classes: tuple[str, ...]
    features: FeatureMatrix
    encoders: FeatureEncoder
    guesses: Mapping[str, Guess] = field(default_factory=dict)
    unknown_labels: Mapping[str, int] = field(default_factory=dict)
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    label_format: LabelFormat = field(default=LabelFormat("classification", ()))
    guess: TaskGuess | None = None
    groups: IntArray | None = None
    graphs: tuple[str, ...] = ()
    sample: TableSample | None = None

    @property
    def task(self) -> str:
        """What the labels are, one of `linkdist.data.graph.TASKS`."""
        return self.label_format.task


def read_nodes(
    path: TableLike,
    id: str,
    label: LabelColumns,
    kinds: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
    encoders: FeatureEncoder | None = None,
    progress: Progress | None = None,
    classes: tuple[str, ...] | None = None,
    unknown: Collection[str] = (),
    more_labels: TableLike = None,
    text_encoder: TextEncoder | None = None,
    task: str | None = None,
    graph: str | None = None,
    label_format: LabelFormat | None = None,
) -> Nodes:
    r"""Read a node table, or those of several graphs.

    Parameters
    ----------
    path : path or table, or several
        Any table that `open_table` opens; a sequence of tables, or a mapping of names to tables,
        has a graph in each.
    id : str
        The column of ids.
    label : str or sequence of str
        The column of labels, or several columns of 0 and 1. A label is unknown if it is missing,
        empty, among `unknown` or, among integer classes, -1.
    kinds : mapping of str to str, optional
        Kinds of columns that should not be inferred.
    features : sequence of str, optional
        The feature columns; by default all suitable columns.
    encoders : FeatureEncoder, optional
        The encoder of a model, which is not changed; by default a new one is fitted.
    progress : callable, optional
        Called with the number of rows that are done and the number of all rows, 0 if unknown.
    classes : tuple of str, optional
        The classes of a model; by default all classes among the labels.
    unknown : collection of str
        Values of the label column that mean an unknown label.
    more_labels : path or table, optional
        A table of ids and labels, under the same names, that adds labels.
    text_encoder : TextEncoder, optional
        Computes the features of text columns, instead of tf-idf.
    task : {'classification', 'regression', 'multilabel'}, optional
        What the labels are; by default it is guessed (`linkdist.tables.task`).
    graph : str, optional
        The column with the names of graphs.
    label_format : LabelFormat, optional
        How the labels of a model are written, which also has its classes; by default it is found.

    Raises
    ------
    TableError
        Lists all problems of the table.

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
    opened = open_nodes(path)
    table = NodeTable(opened, id, label, encoders, kinds, features, text_encoder, graph=graph)
    problems, present = table.problems, table.present
    ids, labels, names = list[pa.Array](), list[pa.Array](), list[pa.Array]()
    sample = TableSample(present.names, SAMPLED) if encoders is None else None
    if graph is not None and isinstance(opened, GraphTables):
        problems.add(f"several node tables are graphs already; leave out the column {graph!r}")

    def batches() -> Iterator[tuple[int, pa.RecordBatch]]:
        for first_row, batch in table.batches(progress=progress):
            ids.append(single_values(batch, id, problems))
            labels.append(label_values(batch, table.labels, problems))
            names.append(text_of(single_values(batch, graph, problems)))
            if sample is not None:
                sample.add(batch)
            yield first_row, batch

    if encoders is None:
        x = present.fit_transform(batches(), problems)
    else:
        blocks = [present.transform(batch, row, problems) for row, batch in batches()]
        x = stacked(blocks or [present.concatenate([], 0)])
    table.check_rows(sum(map(len, ids)))
    all_ids, groups = pa.concat_arrays(ids), None
    graphs: tuple[str, ...] = ()
    if isinstance(opened, GraphTables):
        groups, graphs = opened.groups, opened.graphs
        all_ids = shown_ids(all_ids, groups, graphs)
    elif graph in table.columns:
        groups, graphs = find_groups(pa.concat_arrays(names), str(graph), problems)
    if id in table.columns:
        check_ids(all_ids, id, problems)
    values, more = pa.concat_arrays(labels), None
    if not table.has_labels:  # a label column that is not there is a problem already
        values, classes = pa.nulls(len(all_ids), pa.large_string()), classes or ()
    elif more_labels is not None and id in table.columns:
        more = read_label_table(more_labels, id, table.labels)
    if label_format is None and classes is not None:
        label_format = LabelFormat("classification", table.labels, classes, tuple(unknown))
    found = read_labels(values, table.labels, task, unknown, problems, label_format, all_ids, more)
    table.check()
    return Nodes(
        all_ids, found.labels, found.form.classes, x, table.encoder, table.guesses, found.unknown,
        dict(problems.tallies), tuple(problems.notices()), found.form, found.guess, groups, graphs,
        sample,
    )  # fmt: skip


@dataclass(frozen=True)
class Survey:
    """The result of a first pass over a node table that may be larger than memory.

    Attributes
    ----------
    rows : int
        n, the number of nodes.
    label_format : LabelFormat
        How the labels are written, with their task and classes.
    encoders : FeatureEncoder
        The fitted encoder.
    guesses : mapping of str to Guess
        The inferred kinds of columns.
    guess : TaskGuess or None
        The guess of the task, if it was not given.
    """

    rows: int
    label_format: LabelFormat
    encoders: FeatureEncoder
    guesses: Mapping[str, Guess]
    guess: TaskGuess | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, as in `Nodes`."""
        return self.label_format.classes


def survey_nodes(
    path: Path | str,
    id: str,
    label: LabelColumns,
    kinds: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
    progress: Progress | None = None,
    unknown: Collection[str] = (),
    task: str | None = None,
) -> Survey:
    r"""Fit an encoder to a node table of any size; parameters as in `read_nodes`.

    Duplicate ids are not detected.

    Raises
    ------
    TableError
        Lists all other problems of the table.

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
    table = NodeTable(open_table(path), id, label, None, kinds, features)
    rows, seen = 0, SeenLabels(table.labels, task, unknown, DIFFERENT)
    for first_row, batch in table.batches(progress=progress):
        if id in table.columns:
            ids = text_of(single_values(batch, id, table.problems))
            check_missing(ids, id, table.problems, first_row)
        if table.has_labels:
            seen.add(label_values(batch, table.labels, table.problems))
        table.present.partial_fit(batch, first_row, table.problems)
        rows += batch.num_rows
    table.check_rows(rows)
    form, guess = LabelFormat("classification", table.labels, unknown=tuple(unknown)), None
    if table.has_labels:
        before = len(table.problems)
        form, guess = seen.format(table.problems)
        found = different_labels(_encoded(open_table(path), form, table.problems))
        check_new_labels(form, guess, found, before, table.problems)
    table.check()
    return Survey(rows, form, table.encoder, table.guesses, guess)


def _encoded(table: Table, form: LabelFormat, problems: Problems) -> Iterator[Labels]:
    """The labels of a table, batch by batch."""
    names = form.columns
    for first_row, batch in table.numbered_batches(names, as_text=names):
        yield form.encode(label_values(batch, names, problems), first_row, problems)[0]
        if form.task == "classification":
            return  # every text is a valid class, so the rest has no problems


def encoded_nodes(
    path: Path | str,
    id: str,
    label: LabelColumns,
    survey: Survey,
    skip: int = 0,
    size: int = BATCH,
) -> Iterator[tuple[pa.Array, Labels, FeatureMatrix]]:
    r"""Read ids, labels and features of a node table after `survey_nodes`, batch by batch.

    Parameters
    ----------
    path : Path
        A Parquet or CSV file.
    id, label : str
        The columns of ids and labels.
    survey : Survey
        The survey of this table.
    skip : int
        Number of rows to skip, which must be the end of a batch.
    size : int
        Maximum number of rows in a batch.

    Yields
    ------
    ids : (k,) array of large_string
        Ids as text.
    labels : (k,) int64, (k,) float64 or (k, C) int64 array
        Labels, as in `Nodes`.
    features : (k, d) float32 array or CSR matrix
        Features, as in `Nodes`.

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
    table = NodeTable(open_table(path), id, label, survey.encoders)
    for first_row, batch in table.batches(size):
        if first_row > skip:
            ids = text_of(single_values(batch, id, table.problems))
            values = label_values(batch, table.labels, table.problems)
            y, _ = survey.label_format.encode(values, first_row)
            yield ids, y, table.present.transform(batch, first_row)


def node_batches(
    table: Table, id: str, encoders: FeatureEncoder, size: int = BATCH
) -> Iterator[tuple[pa.Array, FeatureMatrix]]:
    r"""Read ids and features of a node table of any size, batch by batch.

    Parameters
    ----------
    table : Table
        As `open_table` returns it.
    id : str
        The column of ids, which may be missing or duplicate.
    encoders : FeatureEncoder
        The encoder of a model.
    size : int
        Maximum number of rows in a batch.

    Raises
    ------
    TableError
        Lists all problems of the table; no batch follows after the first problem.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.tables.feature_encoder import make_feature_encoder
    >>> encoder = make_feature_encoder({"age": "numeric"})
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "nodes.csv")
    ...     _ = path.write_text("paper,age\n7,1\n8,3\n")
    ...     batches = node_batches(open_table(path), "paper", encoder)
    ...     [(ids.to_pylist(), x.shape) for ids, x in batches]
    [(['7', '8'], (2, 1))]
    """
    for ids, _, x in labelled_batches(table, id, None, encoders, size):
        yield ids, x


def labelled_batches(
    table: Table,
    id: str | None,
    label: LabelColumns,
    encoders: FeatureEncoder,
    size: int = BATCH,
    problems: Problems | None = None,
) -> Iterator[tuple[pa.Array, pa.Array, FeatureMatrix]]:
    """Read ids, labels and features of a node table of any size, batch by batch.

    Parameters
    ----------
    table, encoders, size
        As in `node_batches`.
    id : str, optional
        The column of ids; without one, they are null.
    label : str or sequence of str, optional
        The columns of labels; without one, they are null.
    problems : Problems, optional
        Receives the tallies of the columns.

    Yields
    ------
    ids : (k,) array
        Ids, in the type of the column.
    labels : (k,) array
        Labels as they are written, which `LabelFormat.encode` reads; see `label_values`.
    features : (k, d) float32 array or CSR matrix
        Features.

    Examples
    --------
    >>> from linkdist.tables.feature_encoder import make_feature_encoder
    >>> encoder = make_feature_encoder({"age": "numeric"})
    >>> table = open_table({"age": [1, 3], "field": ["art", None]})
    >>> [labels.to_pylist() for _, labels, _ in labelled_batches(table, None, "field", encoder)]
    [['art', None]]
    """
    nodes = NodeTable(table, id, label, encoders, problems=problems)
    for first_row, batch in nodes.batches(size):
        ids = single_values(batch, id, nodes.problems)
        labels = label_values(batch, nodes.labels, nodes.problems)
        x = nodes.present.transform(batch, first_row, nodes.problems)
        if not nodes.problems:
            yield ids, labels, x
    nodes.problems.check(table.name)
