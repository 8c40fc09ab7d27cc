"""What was found in link tables: counts, problems, and columns that an option would use."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.compute as pc

from linkdist.data.links import MOST_RELATIONS
from linkdist.tables.formats import Table
from linkdist.tables.parsing import as_numbers, is_number, is_text, plain
from linkdist.tables.validation import SHOWN, Problems, Rows

WEIGHTS = {"amount", "count", "frequency", "score", "strength", "value", "w", "weight", "weights"}
"""The last words of column names that suggest the weights of links."""

RELATIONS = {"category", "kind", "predicate", "rel", "relation", "relationship", "type"}
"""The last words of column names that suggest the relations of links."""


@dataclass(frozen=True)
class LinkReport:
    """Counts of the rows of a link table.

    Attributes
    ----------
    total : int
        Number of rows, the sum of `kept`, `unknown` and `duplicates`.
    kept : int
        Number of links.
    unknown : int
        Number of rows with an unknown node, which are skipped.
    duplicates : int
        Number of rows that repeat a link of the same relation, in either direction unless links are
        directed; they are merged.
    loops : int
        Number of self-loops among the links, which are kept.
    examples : tuple of (int, str or None)
        Rows and ids of the first unknown nodes; None where an id is missing.
    unused : tuple of str
        Columns without a role.
    relations : tuple of (str, int)
        The relations and their numbers of links, if links have relations.
    left_out : tuple of str
        Relations all of whose rows have an unknown node.
    weights : tuple of float, optional
        The smallest and the largest weight of a link, if links have weights.
    directed : bool
        Whether links have a direction.
    ends : tuple of str, optional
        The columns from and to which directed links lead, if they are the same in all tables.
    tables : tuple of str
        The relation of each of the `examples`, if there are several tables.
    hints : tuple of str
        Options that would use some of the `unused` columns.
    """

    total: int
    kept: int
    unknown: int = 0
    duplicates: int = 0
    loops: int = 0
    examples: tuple[tuple[int, str | None], ...] = ()
    unused: tuple[str, ...] = ()
    relations: tuple[tuple[str, int], ...] = ()
    left_out: tuple[str, ...] = ()
    weights: tuple[float, float] | None = None
    directed: bool = False
    ends: tuple[str, str] | None = None
    tables: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A sentence with all counts."""
        parts = [f"{self.kept} links from {self.total} rows"]
        if self.relations:
            counts = ", ".join(f"{name} {count}" for name, count in self.relations)
            parts.append(f"links of each relation: {counts}")
        if self.left_out:
            parts.append(f"relations without links left out: {', '.join(self.left_out)}")
        if self.directed:
            way = "" if self.ends is None else f" from column {self.ends[0]!r} to {self.ends[1]!r}"
            parts.append(f"directed{way}")
        if self.weights is not None:
            parts.append(f"weights from {self.weights[0]:g} to {self.weights[1]:g}")
        if self.duplicates:
            added = "" if self.weights is None else ", weights added up"
            parts.append(f"duplicates merged{added}: {self.duplicates}")
        if self.loops:
            parts.append(f"self-loops kept: {self.loops}")
        if self.unknown:
            where = [f" of {name}" for name in self.tables] or [""] * len(self.examples)
            found = zip(self.examples, where, strict=True)
            first = ", ".join(f"{value!r} in row {row}{of}" for (row, value), of in found)
            parts.append(f"links to unknown nodes skipped: {self.unknown} (first: {first})")
        if self.unused:
            parts.append(f"columns that are not used: {', '.join(self.unused)}")
        return f"{'; '.join([*parts, *self.hints])}."


def merge_reports(reports: dict[str, LinkReport]) -> LinkReport:
    """The report of several tables, which are relations.

    Examples
    --------
    >>> print(merge_reports({"cites": LinkReport(3, 2, duplicates=1), "knows": LinkReport(1, 1)}))
    3 links from 4 rows; links of each relation: cites 2, knows 1; duplicates merged: 1.
    """
    parts = list(reports.values())
    first = [(name, example) for name, part in reports.items() for example in part.examples][:SHOWN]
    ends = {part.ends for part in parts}
    ranges = [part.weights for part in parts if part.weights is not None]
    return LinkReport(
        total=sum(part.total for part in parts),
        kept=sum(part.kept for part in parts),
        unknown=sum(part.unknown for part in parts),
        duplicates=sum(part.duplicates for part in parts),
        loops=sum(part.loops for part in parts),
        examples=tuple(example for _, example in first),
        unused=tuple(dict.fromkeys(name for part in parts for name in part.unused)),
        relations=tuple((name, part.kept) for name, part in reports.items()),
        weights=(min(low for low, _ in ranges), max(high for _, high in ranges))
        if ranges
        else None,
        directed=any(part.directed for part in parts),
        ends=ends.pop() if len(ends) == 1 else None,
        tables=tuple(name for name, _ in first),
        hints=tuple(dict.fromkeys(hint for part in parts for hint in part.hints)),
    )


Examples: TypeAlias = "tuple[Rows, Sequence[Any]]"


def check_links(
    path: Path | str,
    ends: tuple[str, str],
    report: LinkReport,
    strict: bool = False,
    again: Examples = ((), ()),
    loops: Examples = ((), ()),
    *,
    problems: Problems | None = None,
) -> None:
    """Raise an error if a link table has no links or, with `strict`, any other problems.

    Parameters
    ----------
    path : Path
        The link table.
    ends : tuple of str
        The columns of the two nodes of a link.
    report : LinkReport
        Counts of the rows.
    strict : bool
        Whether unknown nodes, duplicates and self-loops are errors.
    again, loops : rows and ids
        The first duplicates and self-loops.
    problems : Problems, optional
        Problems of the table that were found already.

    Examples
    --------
    >>> check_links("links.csv", ("a", "b"), LinkReport(2, 0, 2, examples=((1, "x"), (2, "y"))))
    Traceback (most recent call last):
    linkdist.errors.TableError: links.csv: columns 'a' and 'b' must contain ids of the node \
table, but no row contains two of them; row 1 has 'x', row 2 has 'y'.
    """
    problems = problems or Problems()
    lost = [row for row, _ in report.examples], [value for _, value in report.examples]
    if not report.total:
        problems.add("the table has no rows; a graph needs links")
    elif not report.kept:
        rule = f"columns {ends[0]!r} and {ends[1]!r} must contain ids of the node table"
        problems.rows(f"{rule}, but no row contains two of them", *lost, report.unknown)
    elif strict:
        once = "links must be listed once" + ", in one direction" * (not report.directed)
        problems.rows("links must connect nodes of the node table", *lost, report.unknown)
        problems.rows(once, *again, report.duplicates)
        problems.rows("links must connect two different nodes", *loops, report.loops)
    problems.check(str(path))


def option_hints(
    table: Table, unused: Collection[str], options: Collection[str]
) -> tuple[str, ...]:
    """Say which options would use columns that look like weights or relations.

    Parameters
    ----------
    table : Table
        A link table.
    unused : collection of str
        Its columns without a role.
    options : collection of {'relation', 'weight'}
        The options that are free.

    Examples
    --------
    >>> from linkdist.tables.io import open_table
    >>> table = open_table({"a": [1, 2], "b": [2, 3], "link_type": ["cites", "knows"]})
    >>> option_hints(table, ["link_type"], ["relation", "weight"])
    ('--relation link_type would use link_type as the relations of the links',)
    """
    last = {name: re.split(r"[\W_]+", name.lower())[-1] for name in unused}
    weights = [name for name in last if "weight" in options and last[name] in WEIGHTS]
    relations = [name for name in last if "relation" in options and last[name] in RELATIONS]
    if not weights and not relations:
        return ()
    sample, hints = table.sample(), []
    for name in relations:
        values = plain(sample[name])
        if is_text(values.type) and 1 < len(pc.unique(values)) <= MOST_RELATIONS:
            hints.append(f"--relation {name} would use {name} as the relations of the links")
    for name in weights:
        values = plain(sample[name])
        if is_number(values.type) and (as_numbers(values)[0] > 0).all():
            hints.append(f"--weight {name} would use {name} as the weights of the links")
    return tuple(hints)
