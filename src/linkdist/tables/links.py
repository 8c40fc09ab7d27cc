"""Tables of links become pairs of rows.

A link table has two columns of ids, which are compared as text, as those of nodes are. What stands
twice, leads nowhere or back is counted and told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from linkdist.data.graph import IntArray
from linkdist.tables.io import Table, numbered, open_table
from linkdist.tables.schema import places_among, single_values, text_of
from linkdist.tables.validation import SHOWN, Problems, Rows

LINKS = 1 << 20
"""Rows of a batch of links: large, since all ids are indexed anew for each."""


@dataclass(frozen=True)
class LinkReport:
    """What became of the rows of a link table.

    Attributes
    ----------
    total : int
        Rows: kept, of unknown nodes, or duplicates.
    kept : int
        Links.
    unknown : int
        Rows that name a node that is not there; they are left out.
    duplicates : int
        Rows that name a link again, in either direction; they are merged.
    loops : int
        Links of a node with itself; they are kept.
    examples : tuple of (int, str or None)
        The first unknown nodes, with their rows; None where an id is missing.
    """

    total: int
    kept: int
    unknown: int = 0
    duplicates: int = 0
    loops: int = 0
    examples: tuple[tuple[int, str | None], ...] = ()

    def __str__(self) -> str:
        """What became of them in a sentence."""
        parts = [f"{self.kept} links from {self.total} rows"]
        if self.duplicates:
            parts.append(f"duplicates merged: {self.duplicates}")
        if self.loops:
            parts.append(f"self-loops kept: {self.loops}")
        if self.unknown:
            first = ", ".join(f"{value!r} in row {row}" for row, value in self.examples)
            parts.append(f"left out, of unknown nodes: {self.unknown} (first: {first})")
        return f"{'; '.join(parts)}."


def read_links(
    path: Path | str,
    ids: pa.Array,
    source: str | None = None,
    target: str | None = None,
    strict: bool = False,
) -> tuple[IntArray, LinkReport]:
    r"""Read a link table.

    Parameters
    ----------
    path : Path
        A Parquet or CSV file.
    ids : (n,) Arrow array
        The nodes' ids, each its own, as in `Nodes`.
    source, target : str, optional
        The columns of a link's two nodes; by default the first two.
    strict : bool
        Whether unknown nodes, duplicates and self-loops are errors.

    Returns
    -------
    links : (m, 2) int64 array
        Each link once, by its nodes' places in `ids`, the smaller first, in order.
    report : LinkReport
        What became of the rows.

    Raises
    ------
    TableError
        If no link is left, or anything is wrong and `strict`.

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
    ends = link_ends(path, source, target)
    known = text_of(ids)
    places, named = _places(path, ends, known)

    def pairs(rows: IntArray) -> list[list[str]]:
        return [known.take(pa.array(places[row])).to_pylist() for row in rows[:SHOWN]]

    known_both = (places >= 0).all(axis=1)
    there, lost = np.flatnonzero(known_both), np.flatnonzero(~known_both)
    low, high = np.sort(places[there], axis=1).T
    keys, first = np.unique(low * len(known) + high, return_index=True)
    links = np.stack(np.divmod(keys, max(len(known), 1)), axis=1)
    again = np.delete(there, first)  # rows
    loops = np.sort(there[first[links[:, 0] == links[:, 1]]])
    examples = tuple(zip((lost[:SHOWN] + 1).tolist(), named, strict=True))
    counts = (len(places), len(links), len(lost), len(again), len(loops))
    report = LinkReport(*counts, examples)
    check_links(
        path, ends, report, strict,
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
    """Refuse links of which none is left or, if `strict`, with which anything is wrong.

    Parameters
    ----------
    path : Path
        The link table.
    ends : tuple of str
        Its columns of a link's two nodes.
    report : LinkReport
        What became of its rows.
    strict : bool
        Whether unknown nodes, duplicates and self-loops are errors.
    again, loops : rows and ids
        The first duplicates and self-loops.

    Examples
    --------
    >>> check_links("links.csv", ("a", "b"), LinkReport(2, 0, 2, examples=((1, "x"), (2, "y"))))
    Traceback (most recent call last):
    linkdist.errors.TableError: links.csv: columns 'a' and 'b' must hold ids of the node table, \
but no row names two nodes of it; row 1 has 'x', row 2 has 'y'.
    """
    problems = Problems()
    lost = [row for row, _ in report.examples], [value for _, value in report.examples]
    if not report.total:
        problems.add("the table has no rows; a graph needs links")
    elif not report.kept:
        rule = f"columns {ends[0]!r} and {ends[1]!r} must hold ids of the node table"
        problems.rows(f"{rule}, but no row names two nodes of it", *lost, report.unknown)
    elif strict:
        problems.rows("links must name nodes of the node table", *lost, report.unknown)
        problems.rows("links must stand once, in one direction", *again, report.duplicates)
        problems.rows("links must join two nodes", *loops, report.loops)
    problems.check(str(path))


def link_ends(
    path: Path | str, source: str | None = None, target: str | None = None
) -> tuple[str, str]:
    r"""The columns of a link table that hold a link's two nodes, by default the first two.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "links.csv")
    ...     _ = path.write_text("year,a,b\n2020,7,8\n")
    ...     link_ends(path, target="a")
    ('year', 'a')
    """
    return _ends(open_table(path), source, target)


def link_batches(
    path: Path | str, ends: tuple[str, str], size: int | None = None
) -> Iterator[tuple[int, pa.Array, pa.Array]]:
    r"""The ids of a link table of any length, batch by batch.

    Parameters
    ----------
    path : Path
        A Parquet or CSV file.
    ends : tuple of str
        The columns of a link's two nodes.
    size : int, optional
        Rows of a batch, at most; by default `LINKS`.

    Yields
    ------
    first_row : int
        The number of the batch's first row.
    sources, targets : (k,) arrays of large_string
        Ids as text, null where missing.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "links.csv")
    ...     _ = path.write_text("a,b\n7,8\n8,\n")
    ...     ((row, a, b),) = link_batches(path, ("a", "b"))
    >>> row, a.to_pylist(), b.to_pylist()
    (1, ['7', '8'], ['8', None])
    """
    problems = Problems()
    for first_row, batch in numbered(open_table(path, as_text=ends), ends, size or LINKS):
        sources, targets = (text_of(single_values(batch, name, problems)) for name in ends)
        yield first_row, sources, targets
    problems.check(str(path))


def _ends(table: Table, source: str | None, target: str | None) -> tuple[str, str]:
    """The columns of a link's two nodes."""
    names, problems = table.schema.names, Problems()
    asked = [name for name in (source, target) if name is not None]
    problems.names("column", dict.fromkeys(asked), names)
    rest = [name for name in names if name not in asked]
    if source == target is not None or len(asked) + len(rest) < 2:
        problems.add(f"links need two columns of ids; found {', '.join(asked or names)}")
    problems.check(str(table.path))
    first = rest.pop(0) if source is None else source
    return first, rest.pop(0) if target is None else target


def _places(
    path: Path | str, ends: tuple[str, str], known: pa.Array
) -> tuple[IntArray, list[str | None]]:
    """Each row's two nodes by their places, -1 where unknown, and the first unknown ids."""
    parts, named = [np.empty((0, 2), dtype=np.int64)], list[str | None]()
    for _, *texts in link_batches(path, ends):
        parts.append(np.stack([places_among(text, known) for text in texts], axis=1))
        unknown = parts[-1] < 0
        for row in np.flatnonzero(unknown.any(axis=1))[: SHOWN - len(named)]:
            named.append(texts[unknown[row].argmax()][int(row)].as_py())
    return np.concatenate(parts), named
