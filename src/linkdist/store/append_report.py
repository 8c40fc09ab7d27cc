"""The report of the link tables of an append."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from linkdist.errors import TableError
from linkdist.store.append_table import NewLinks
from linkdist.store.link_counts import Counts, read_texts, unknown_id
from linkdist.store.link_source import LinkFile, raise_all
from linkdist.store.merge_links import MergeCounts
from linkdist.tables.link_report import LinkReport, merge_reports
from linkdist.tables.validation import Problems


def report_new_links(
    links: NewLinks, lost: Counts, merged: MergeCounts, known: Callable[[set[str]], set[str]]
) -> LinkReport:
    """The counts of the rows of the link tables of an append.

    Parameters
    ----------
    links : NewLinks
        The tables.
    lost : dict
        The counts of rows with an unknown node; see `linkdist.store.link_counts`.
    merged : MergeCounts
        The counts of links.
    known : callable
        Finds the texts that are ids of nodes.

    Raises
    ------
    TableError
        Lists the tables without a row that connects two nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from linkdist.store.link_source import LinkPlan
    >>> table = {"a": ["x", "x", "x"], "b": ["y", "y", "z"]}
    >>> file = LinkFile(None, table, ("a", "b"), None, None)
    >>> links = NewLinks([file], LinkPlan((3,), ("links",), False, False))
    >>> lost = {"unknown": [1], "first": {"unknown": [[3]]}}
    >>> merged = MergeCounts(new=np.array([1]), duplicates=np.array([1]), loops=np.array([0]))
    >>> print(report_new_links(links, lost, merged, lambda texts: texts & {"x", "y"}))
    1 links from 3 rows; duplicates merged: 1; links to unknown nodes skipped: 1 (first: 'z' in \
row 3).
    """
    reports, errors = dict[str | None, LinkReport](), list[TableError]()
    for t, file in enumerate(links.files):
        report = _counts(links, t, merged, lost["unknown"][t])
        texts = read_texts(file, set(rows := lost["first"]["unknown"][t]))
        nodes = known({text for pair in texts.values() for text in pair if text is not None})
        examples = tuple((row, unknown_id(texts[row], nodes.__contains__)) for row in rows)
        unused = [name for name in file.table.schema.names if name not in file.columns]
        reports[file.name] = replace(report, examples=examples, unused=tuple(unused))
        try:
            _check(file, reports[file.name], may_be_empty=any(links.plan.rows))
        except TableError as error:
            errors.append(error)
    raise_all(errors)
    if None not in reports:
        return merge_reports({str(name): one for name, one in reports.items()})
    pairs = tuple(zip(links.plan.relations, merged.new.tolist(), strict=True))
    return replace(reports[None], relations=pairs if links.files[0].relation else ())


def _counts(links: NewLinks, t: int, merged: MergeCounts, unknown: int) -> LinkReport:
    """The counts of a table; if there are several, each is a relation."""
    plan, file = links.plan, links.files[t]
    place = slice(None)
    if file.name is not None:
        number = plan.relations.index(file.name)
        place = slice(number, number + 1)
    new, duplicates, loops = (
        int(one[place].sum()) for one in (merged.new, merged.duplicates, merged.loops)
    )
    report = LinkReport(plan.rows[t], new, unknown, duplicates, loops, directed=plan.directed)
    ends = file.ends if plan.directed else None
    return replace(report, weights=merged.range, ends=ends)


def _check(file: LinkFile, report: LinkReport, may_be_empty: bool) -> None:
    """Raise an error if no row of a table connects two nodes."""
    problems, (one, other) = Problems(file.table.place), file.ends
    if not report.total and not may_be_empty:
        problems.add("the table has no rows. Leave it out, or add links")
    elif report.total and report.unknown == report.total:
        rule = f"columns {one!r} and {other!r} must contain ids of the store or of new nodes"
        lost = [row for row, _ in report.examples], [value for _, value in report.examples]
        problems.rows(f"{rule}, but no row contains two of them", *lost, report.unknown)
    problems.check(file.table.name)
