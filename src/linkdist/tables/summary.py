"""What was understood of the tables, and what is suspicious about them, before any training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from linkdist.data.graph import IntArray, known_labels
from linkdist.tables.bag_encoders import Categorical, Vocabulary
from linkdist.tables.encoders import Encoder, Numeric, Standardised
from linkdist.tables.label_warnings import label_warnings, multilabel_warnings, number_warnings
from linkdist.tables.links import LinkReport
from linkdist.tables.nodes import Nodes
from linkdist.tables.source import Tables
from linkdist.tables.targets import count_labels, label_columns
from linkdist.tables.text_encoders import HashedText
from linkdist.tables.validation import Problems

LISTED = 20
"""Maximum number of classes and of graphs in a summary."""


@dataclass(frozen=True)
class Column:
    """What was understood of a column.

    Attributes
    ----------
    name : str
        The column.
    kind : str or None
        One of `linkdist.tables.schema.KINDS`, or None if it is not a feature.
    why : str
        Why this kind was chosen.
    missing : float or None
        The share of missing values; None if the column was not read.
    example : str
        A value of the column.
    """

    name: str
    kind: str | None
    why: str
    missing: float | None
    example: str


@dataclass(frozen=True)
class Summary:
    """What was understood of the tables.

    Attributes
    ----------
    rows : int
        Number of nodes.
    columns : tuple of Column
        The columns of the node table, without ids and labels.
    label : str
        The label column, or several.
    classes : dict of str to int
        Number of labels of each class; for regression, of numbers in the label column.
    unknown : int
        Number of nodes without a label.
    links : LinkReport
        Counts of the rows of the link table.
    warnings : tuple of str
        What the user should check.
    task : {'classification', 'regression', 'multilabel'}
        What the labels are.
    why : str
        What the task was guessed from, and what changes it, or how labels are separated.
    numbers : tuple of float or None
        For regression, the smallest number, the largest one and the mean.
    graphs : dict of str to (int, int)
        Number of rows and of labelled rows of each graph, if there are several.
    """

    rows: int
    columns: tuple[Column, ...]
    label: str
    classes: dict[str, int]
    unknown: int
    links: LinkReport
    warnings: tuple[str, ...]
    task: str = "classification"
    why: str = ""
    numbers: tuple[float, float, float] | None = None
    graphs: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        """The summary as text."""
        rows = [("column", "kind", "missing", "example", "why")]
        for column in self.columns:
            missing = "" if column.missing is None else f"{100 * column.missing:.0f} %"
            example = column.example if len(column.example) <= 30 else f"{column.example[:27]}..."
            rows.append((column.name, column.kind or "left out", missing, example, column.why))
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        table = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        used = sum(column.kind is not None for column in self.columns)
        kinds = {"classification": f"{len(self.classes)} classes", "regression": "1 number"}
        lines = [
            f"{self.rows} rows, {used} feature column{'s' * (used != 1)}, "
            f"{kinds.get(self.task, f'{len(self.classes)} labels')}",
            *table,
            f"Task: {self.task}{f' ({self.why})' * bool(self.why)}",
            self.describe_labels(),
            *self.describe_graphs(),
            f"links: {self.links}",
        ]
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])

    def describe_labels(self) -> str:
        """A line about the labels: their classes, or the range and the mean of the numbers."""
        unknown = f"unknown in {self.unknown} rows"
        if self.numbers is not None:
            low, high, mean = self.numbers
            found = f"{self.rows - self.unknown} numbers from {low:.6g} to {high:.6g}"
            share = f"{100 * self.unknown / max(self.rows, 1):.0f} %"
            return f"labels ({self.label}): {found}, mean {mean:.6g}; {unknown} ({share})"
        counts = _listed([f"{name} {count}" for name, count in self.classes.items()], "classes")
        return f"labels ({self.label}): {counts}; {unknown}"

    def describe_graphs(self) -> list[str]:
        """A line about the graphs, if there are several."""
        if not self.graphs:
            return []
        counts = [
            f"{name} {rows} rows, {labels} labels" for name, (rows, labels) in self.graphs.items()
        ]
        return [f"{len(counts)} graphs: {_listed(counts, 'graphs', '; ')}"]


def _listed(parts: list[str], what: str, mark: str = ", ") -> str:
    more = [f"{len(parts) - LISTED} more {what}"] * (len(parts) > LISTED)
    return mark.join([*parts[:LISTED], *more])


def summarise(
    tables: Tables, nodes: Nodes, links: LinkReport, pairs: IntArray | None = None
) -> Summary:
    """Summarise tables that were read.

    Parameters
    ----------
    tables, nodes, links
        The tables, and what was read from them.
    pairs : (m, 2) int array, optional
        The links, among which those between two graphs are counted.

    Raises
    ------
    TableError
        If `tables.strict` and there are warnings: all of them.
    """
    known, classes = known_labels(nodes.labels), count_labels(nodes.labels, nodes.classes)
    warnings = (
        *_label_warnings(nodes, classes),
        *_column_warnings(nodes),
        *_graph_warnings(nodes, links, pairs),
    )
    if tables.strict:
        problems = Problems()
        for warning in warnings:
            problems.add(warning)
        problems.check()
    columns = []
    for name, guess in nodes.guesses.items():
        tally = nodes.tallies.get(name)
        missing = (tally.missing + tally.unsuitable) / max(tally.rows, 1) if tally else None
        columns.append(Column(name, guess.kind, guess.why, missing, guess.example))
    numbers, graphs = None, {}
    if nodes.task == "regression" and known.any():
        y = nodes.labels[known]
        numbers = float(y.min()), float(y.max()), float(y.mean())
    if nodes.groups is not None:
        in_graph = [nodes.groups == k for k in range(len(nodes.graphs))]
        counts = [(int(rows.sum()), int((rows & known).sum())) for rows in in_graph]
        graphs = dict(zip(nodes.graphs, counts, strict=True))
    return Summary(
        len(known), tuple(columns), ", ".join(label_columns(tables.label)), classes,
        int((~known).sum()), links, warnings, nodes.task, _why(nodes), numbers, graphs,
    )  # fmt: skip


def _why(nodes: Nodes) -> str:
    """What to say about the task."""
    if nodes.guess is not None:
        return f"guessed from {nodes.guess.why}"
    mark = nodes.label_format.separator
    return "" if mark is None else f"labels are separated by {mark!r}"


def _label_warnings(nodes: Nodes, classes: dict[str, int]) -> Iterator[str]:
    columns = nodes.label_format.columns
    if nodes.task == "regression":
        yield from number_warnings(columns[0], nodes.labels)
    elif nodes.task == "multilabel":
        rows = int(known_labels(nodes.labels).sum())
        yield from multilabel_warnings(columns, classes, rows)
    else:
        yield from label_warnings(columns[0], classes, forced=nodes.guess is None)


def _graph_warnings(nodes: Nodes, links: LinkReport, pairs: IntArray | None) -> Iterator[str]:
    if nodes.groups is None:
        return
    if len(nodes.graphs) == 1:
        yield f"there is one graph only, {nodes.graphs[0]!r}, so no graph can be held out."
    if pairs is None:
        return
    crossing = pairs[nodes.groups[pairs[:, 0]] != nodes.groups[pairs[:, 1]]]
    if len(crossing):
        ends = crossing[0].tolist()
        a, b = (f"{nodes.ids[i].as_py()!r} in {nodes.graphs[nodes.groups[i]]!r}" for i in ends)
        yield (
            f"{len(crossing)} of {links.kept} links join two graphs, such as {a} and {b}. They are "
            "used, so a graph that is held out is not quite unseen."
        )


def _column_warnings(nodes: Nodes) -> Iterator[str]:
    encoders = {encoder.name: encoder for encoder in nodes.encoders.columns}
    for name, guess in nodes.guesses.items():
        if guess.warning:
            yield f"column {name!r}: {guess.warning}."
        if name in encoders and _is_constant(encoders[name]):
            yield f"column {name!r} has the same value in every row, so it carries no information."
        tally = nodes.tallies.get(name)
        if tally is not None and tally.unsuitable:
            count, kind = tally.unsuitable, "date" if guess.kind == "date" else "number"
            found = (
                f"1 value is not a {kind} and is"
                if count == 1
                else (f"{count} values are not {kind}s and are")
            )
            yield f"column {name!r}: {found} treated as missing: {', '.join(tally.examples)}."


def _is_constant(encoder: Encoder) -> bool:
    if isinstance(encoder, Numeric | Standardised):
        return not np.any(encoder.deviation)
    if isinstance(encoder, Categorical):
        return encoder.width <= 1
    if isinstance(encoder, HashedText):
        return bool(np.isin(encoder.frequencies, [0, encoder.rows]).all())
    assert isinstance(encoder, Vocabulary)
    return set(encoder.frequencies.values()) <= {encoder.rows}
