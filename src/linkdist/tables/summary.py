"""What was understood of the tables, and what is suspicious about them, before any training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from linkdist.data.graph import UNKNOWN
from linkdist.tables.bag_encoders import Categorical, Tags, Text
from linkdist.tables.encoders import Encoder, Numeric, Standardised
from linkdist.tables.labels import label_warnings
from linkdist.tables.links import LinkReport
from linkdist.tables.nodes import Nodes
from linkdist.tables.source import Tables
from linkdist.tables.validation import Problems


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
        The label column.
    classes : dict of str to int
        Number of labels of each class.
    unknown : int
        Number of nodes without a label.
    links : LinkReport
        Counts of the rows of the link table.
    warnings : tuple of str
        What the user should check.
    """

    rows: int
    columns: tuple[Column, ...]
    label: str
    classes: dict[str, int]
    unknown: int
    links: LinkReport
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        """The summary as text."""
        rows = [("column", "kind", "missing", "example", "why")]
        for column in self.columns:
            missing = "" if column.missing is None else f"{100 * column.missing:.0f} %"
            example = column.example if len(column.example) <= 30 else f"{column.example[:27]}..."
            rows.append((column.name, column.kind or "left out", missing, example, column.why))
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        table = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        counts = [f"{name} {count}" for name, count in list(self.classes.items())[:20]]
        counts += [f"{len(self.classes) - 20} more classes"] * (len(self.classes) > 20)
        used = sum(column.kind is not None for column in self.columns)
        lines = [
            f"{self.rows} rows, {used} feature column{'s' * (used != 1)}, "
            f"{len(self.classes)} classes",
            *table,
            f"labels ({self.label}): {', '.join(counts)}; unknown in {self.unknown} rows",
            f"links: {self.links}",
        ]
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def summarise(tables: Tables, nodes: Nodes, links: LinkReport) -> Summary:
    """Summarise tables that were read.

    Raises
    ------
    TableError
        If `tables.strict` and there are warnings: all of them.
    """
    labels = nodes.labels[nodes.labels != UNKNOWN]
    counts = np.bincount(labels, minlength=len(nodes.classes)).tolist()
    classes = dict(zip(nodes.classes, counts, strict=True))
    warnings = tuple(_warnings(tables.label, nodes, classes))
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
    rows = len(nodes.labels)
    return Summary(rows, tuple(columns), tables.label, classes, rows - len(labels), links, warnings)


def _warnings(label: str, nodes: Nodes, classes: dict[str, int]) -> Iterator[str]:
    yield from label_warnings(label, classes)
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
    if isinstance(encoder, Text):
        return bool(np.isin(encoder.frequencies, [0, encoder.rows]).all())
    assert isinstance(encoder, Tags)
    return set(encoder.frequencies.values()) <= {encoder.rows}
