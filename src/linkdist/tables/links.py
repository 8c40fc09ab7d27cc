"""Read link tables into pairs of row numbers.

A link table has two columns of ids, which are compared as text, like the ids of a node table.
Duplicate links, links to unknown nodes and self-loops are counted and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from linkdist.data.graph import IntArray, link_keys, links_of_keys
from linkdist.tables.io import Table, TableLike, open_table
from linkdist.tables.parsing import places_among, single_values, text_of
from linkdist.tables.validation import SHOWN, Problems, Rows

LINKS = 1 << 20
"""Number of rows in a batch of links; it is large because each batch builds an index of all ids."""


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
        Number of rows that repeat a link, in either direction; they are merged.
    loops : int
        Number of self-loops among the links, which are kept.
    examples : tuple of (int, str or None)
        Rows and ids of the first unknown nodes; None where an id is missing.
    unused : tuple of str
        Columns that are neither of the two ends.
    """

    total: int
    kept: int
    unknown: int = 0
    duplicates: int = 0
    loops: int = 0
    examples: tuple[tuple[int, str | None], ...] = ()
    unused: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A sentence with all counts."""
        parts = [f"{self.kept} links from {self.total} rows"]
        if self.duplicates:
            parts.append(f"duplicates merged: {self.duplicates}")
        if self.loops:
            parts.append(f"self-loops kept: {self.loops}")
        if self.unknown:
            first = ", ".join(f"{value!r} in row {row}" for row, value in self.examples)
            parts.append(f"links to unknown nodes skipped: {self.unknown} (first: {first})")
        if self.unused:
            parts.append(f"columns that are not used: {', '.join(self.unused)}")
        return f"{'; '.join(parts)}."


def read_links(
    path: TableLike,
    ids: pa.Array,
    source: str | None = None,
    target: str | None = None,
    strict: bool = False,
) -> tuple[IntArray, LinkReport]:
    r"""Read a link table.

    Parameters
    ----------
    path : path or table
        Any table that `open_table` opens.
    ids : (n,) Arrow array
        The ids of the nodes, without duplicates, as in `Nodes`.
    source, target : str, optional
        The columns of the two nodes of a link; by default the first two columns.
    strict : bool
        Whether unknown nodes, duplicates and self-loops are errors.

    Returns
    -------
    links : (m, 2) int64 array
        Each link once, as positions in `ids`, sorted and with the smaller position first.
    report : LinkReport
        Counts of the rows.

    Raises
    ------
    TableError
        If there are no links or, with `strict`, any other problems.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "links.csv")
    ...     _ = path.write_text("a,b\n7,8\n8,7\n9,9\n")
    ...     links, report = read_links(path, pa.array([7, 8, 9]))
    >>> links.tolist()
    [[0, 1], [2, 2]]
    >>> print(report)
    2 links from 3 rows; duplicates merged: 1; self-loops kept: 1.
    """
    table = open_table(path, "the link table")
    ends = link_ends(table, source, target)
    known = text_of(ids)
    places, named = _places(table, ends, known)

    def pairs(rows: IntArray) -> list[list[str]]:
        return [known.take(pa.array(places[row])).to_pylist() for row in rows[:SHOWN]]

    known_both = (places >= 0).all(axis=1)
    there, lost = np.flatnonzero(known_both), np.flatnonzero(~known_both)
    keys, first = np.unique(link_keys(places[there], len(known)), return_index=True)
    links = links_of_keys(keys, len(known))
    again = np.delete(there, first)  # rows
    loops = np.sort(there[first[links[:, 0] == links[:, 1]]])
    examples = tuple(zip((lost[:SHOWN] + 1).tolist(), named, strict=True))
    counts = (len(places), len(links), len(lost), len(again), len(loops))
    unused = tuple(name for name in table.schema.names if name not in ends)
    report = LinkReport(*counts, examples, unused)
    check_links(
        table.name, ends, report, strict,
        (again[:SHOWN] + 1, pairs(again)), (loops[:SHOWN] + 1, pairs(loops)),
    )  # fmt: skip
    return links, report


Examples: TypeAlias = "tuple[Rows, Sequence[Any]]"


def check_links(
    path: Path | str,
    ends: tuple[str, str],
    report: LinkReport,
    strict: bool = False,
    again: Examples = ((), ()),
    loops: Examples = ((), ()),
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

    Examples
    --------
    >>> check_links("links.csv", ("a", "b"), LinkReport(2, 0, 2, examples=((1, "x"), (2, "y"))))
    Traceback (most recent call last):
    linkdist.errors.TableError: links.csv: columns 'a' and 'b' must contain ids of the node \
table, but no row contains two of them; row 1 has 'x', row 2 has 'y'.
    """
    problems = Problems()
    lost = [row for row, _ in report.examples], [value for _, value in report.examples]
    if not report.total:
        problems.add("the table has no rows; a graph needs links")
    elif not report.kept:
        rule = f"columns {ends[0]!r} and {ends[1]!r} must contain ids of the node table"
        problems.rows(f"{rule}, but no row contains two of them", *lost, report.unknown)
    elif strict:
        problems.rows("links must connect nodes of the node table", *lost, report.unknown)
        problems.rows("links must be listed once, in one direction", *again, report.duplicates)
        problems.rows("links must connect two different nodes", *loops, report.loops)
    problems.check(str(path))


def link_ends(
    table: Table, source: str | None = None, target: str | None = None
) -> tuple[str, str]:
    r"""Find the columns of the two nodes of a link, by default the first two columns.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "links.csv")
    ...     _ = path.write_text("year,a,b\n2020,7,8\n")
    ...     link_ends(open_table(path), target="a")
    ('year', 'a')
    """
    names, problems = table.schema.names, Problems()
    given = [name for name in (source, target) if name is not None]
    problems.names("column", dict.fromkeys(given), names)
    rest = [name for name in names if name not in given]
    if source == target is not None or len(given) + len(rest) < 2:
        problems.add(f"links need two columns of ids; found {', '.join(given or names)}")
    problems.check(table.name)
    first = rest.pop(0) if source is None else source
    return first, rest.pop(0) if target is None else target


def link_batches(
    table: Table, ends: tuple[str, str], size: int | None = None
) -> Iterator[tuple[int, pa.Array, pa.Array]]:
    r"""Read the ids of a link table of any size, batch by batch.

    Parameters
    ----------
    table : Table
        As `open_table` returns it.
    ends : tuple of str
        The columns of the two nodes of a link.
    size : int, optional
        Maximum number of rows in a batch; by default `LINKS`.

    Yields
    ------
    first_row : int
        Row number of the first row of the batch.
    sources, targets : (k,) arrays of large_string
        Ids as text, null where missing.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "links.csv")
    ...     _ = path.write_text("a,b\n7,8\n8,\n")
    ...     ((row, a, b),) = link_batches(open_table(path), ("a", "b"))
    >>> row, a.to_pylist(), b.to_pylist()
    (1, ['7', '8'], ['8', None])
    """
    problems = Problems()
    for first_row, batch in table.numbered_batches(ends, size or LINKS, as_text=ends):
        sources, targets = (text_of(single_values(batch, name, problems)) for name in ends)
        yield first_row, sources, targets
    problems.check(table.name)


def _places(
    table: Table, ends: tuple[str, str], known: pa.Array
) -> tuple[IntArray, list[str | None]]:
    """The positions of both nodes of each row, -1 if unknown, and the first unknown ids."""
    parts, named = [np.empty((0, 2), dtype=np.int64)], list[str | None]()
    for _, *texts in link_batches(table, ends):
        parts.append(np.stack([places_among(text, known) for text in texts], axis=1))
        unknown = parts[-1] < 0
        for row in np.flatnonzero(unknown.any(axis=1))[: SHOWN - len(named)]:
            named.append(texts[unknown[row].argmax()][int(row)].as_py())
    return np.concatenate(parts), named
