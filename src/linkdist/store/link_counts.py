"""Counts of the rows of link tables while a store is built, and the report that they give.

The counts are in the journal, as plain JSON: a list with a number for each table, and the first
rows of each table as examples. Duplicates, self-loops and links that are kept are counted for each
relation; if there are several tables, each is a relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from linkdist.errors import TableError
from linkdist.store.link_source import LinkFile, LinkPlan, raise_all
from linkdist.tables.link_report import LinkReport, check_links, merge_reports, option_hints
from linkdist.tables.links import link_batches
from linkdist.tables.validation import SHOWN

Counts: TypeAlias = dict[str, Any]
Texts: TypeAlias = dict[int, list[str | None]]


def new_counts(plan: LinkPlan, names: Iterable[str]) -> Counts:
    """Counts of rows of each table, all 0, and no examples.

    Examples
    --------
    >>> new_counts(LinkPlan((5,), ("links",), False, False), ["missing"])
    {'missing': [0], 'first': {'missing': [[]]}}
    """
    names, T = list(names), len(plan.rows)
    zeros = {name: [0] * T for name in names}
    return {**zeros, "first": {name: [[] for _ in range(T)] for name in names}}


def count_rows(counts: Counts, name: str, rows: npt.NDArray[np.uint64], plan: LinkPlan) -> None:
    """Count rows of the tables, and keep the first ones.

    Examples
    --------
    >>> plan = LinkPlan((5, 5), ("cites", "knows"), False, False)
    >>> counts = new_counts(plan, ["missing"])
    >>> count_rows(counts, "missing", np.array([9, 1, 7], np.uint64), plan)
    >>> counts
    {'missing': [1, 2], 'first': {'missing': [[1], [2, 4]]}}
    """
    for table, found in _by_table(rows, plan):
        counts[name][table] += len(found)
    keep_first(counts, name, rows, plan)


def keep_first(counts: Counts, name: str, rows: npt.NDArray[np.uint64], plan: LinkPlan) -> None:
    """Keep the first of some rows of each table, without counting them."""
    kept = counts["first"].setdefault(name, [[] for _ in plan.rows])
    for table, found in _by_table(rows, plan):
        kept[table] = sorted([*kept[table], *np.sort(found)[:SHOWN].tolist()])[:SHOWN]


def _by_table(
    rows: npt.NDArray[np.uint64], plan: LinkPlan
) -> Iterable[tuple[int, npt.NDArray[np.int64]]]:
    """The rows of each table, counted from 1 in that table."""
    numbers, starts = rows.astype(np.int64), plan.starts
    if len(starts) == 1:
        return [(0, numbers)]
    table = np.searchsorted(starts, numbers) - 1
    return [(t, numbers[table == t] - starts[t]) for t in range(len(starts))]


def report_of(
    files: Sequence[LinkFile],
    plan: LinkPlan,
    lost: Counts,
    resolved: Counts,
    is_node: Callable[[str], bool],
    strict: bool,
) -> LinkReport:
    """The counts of the rows of all link tables.

    Parameters
    ----------
    files, plan
        The tables and what their links are.
    lost, resolved : dict
        The counts of the journal.
    is_node : callable
        Whether a text is the id of a node.
    strict : bool
        Whether any problem is an error.

    Raises
    ------
    TableError
        As from `read_links`: if no link of a table is left, or if there is any problem and
        `strict`. The message lists the problems of all tables.
    """
    reports, errors = dict[str | None, LinkReport](), list[TableError]()
    for t, file in enumerate(files):
        first = {**lost["first"], **resolved["first"]}
        rows = {name: list(first[name][t]) if name in first else [] for name in EXAMPLES}
        mine = slice(None) if len(files) == 1 else slice(t, t + 1)
        kept, duplicates, loops = (sum(resolved[name][mine]) for name in RELATIONAL)
        unknown = lost["missing"][t] + resolved["unknown"][t]
        report = LinkReport(plan.rows[t], kept, unknown, duplicates, loops, directed=plan.directed)
        try:
            reports[file.name] = _checked(file, report, rows, is_node, strict)
        except TableError as error:
            errors.append(error)
    raise_all(errors)
    reports = {name: _with_links(one, plan, resolved) for name, one in reports.items()}
    if None not in reports:
        return merge_reports({str(name): one for name, one in reports.items()})
    pairs = zip(plan.relations, resolved["kept"], strict=True)
    counts = () if files[0].relation is None else tuple((name, kept) for name, kept in pairs)
    return replace(reports[None], relations=counts, left_out=tuple(resolved["left_out"]))


EXAMPLES = ("missing", "unknown", "duplicates", "loops")
RELATIONAL = ("kept", "duplicates", "loops")


def _checked(
    file: LinkFile,
    report: LinkReport,
    rows: Mapping[str, list[int]],
    is_node: Callable[[str], bool],
    strict: bool,
) -> LinkReport:
    """Add examples and columns to the report of a table, and check it."""
    lost = sorted([*rows["missing"], *rows["unknown"]])[:SHOWN]
    texts = read_texts(file, {*lost, *rows["duplicates"], *rows["loops"]})
    examples = tuple((row, unknown_id(texts[row], is_node)) for row in lost)
    names = file.table.schema.names
    unused = tuple(name for name in names if name not in (*file.ends, *file.others))
    report = replace(report, examples=examples, unused=unused)
    pairs = [(rows[name], [texts[row] for row in rows[name]]) for name in ("duplicates", "loops")]
    check_links(file.path, file.ends, report, strict, *pairs)
    free = ["weight"] * (file.weight is None)
    free += ["relation"] * (file.relation is None and file.name is None)
    ends = file.ends if report.directed else None
    return replace(report, ends=ends, hints=option_hints(file.table, unused, free))


def _with_links(report: LinkReport, plan: LinkPlan, resolved: Counts) -> LinkReport:
    low, high = resolved["range"] or (0.0, 0.0)
    return replace(report, weights=(low, high)) if plan.weighted else report


def read_texts(file: LinkFile, rows: set[int]) -> Texts:
    """The ids in some rows of a link table.

    Examples
    --------
    >>> table = {"a": ["x", "y"], "b": ["y", "z"]}
    >>> read_texts(LinkFile(None, table, ("a", "b"), None, None), {2})
    {2: ['y', 'z']}
    """
    found: Texts = {}
    for row, *texts in link_batches(file.table, file.ends) if rows else ():
        for wanted in rows:
            if row <= wanted < row + len(texts[0]):
                found[wanted] = [text[wanted - row].as_py() for text in texts]
        if len(found) == len(rows):
            break
    return found


def unknown_id(texts: list[str | None], is_node: Callable[[str], bool]) -> str | None:
    """The first of the two ids of a row that is not the id of a node.

    Examples
    --------
    >>> unknown_id(["x", "y"], {"x"}.__contains__)
    'y'
    """
    for text in texts:
        if text is None or not is_node(text):
            return text
    raise AssertionError("the row was counted as a link to an unknown node")
