"""The link table of an append: its rows as hashes of ids, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.store.keys import Keys, hash64
from linkdist.store.partition import grouped
from linkdist.store.reader import Store
from linkdist.tables.io import Table, TableLike, open_table
from linkdist.tables.links import LINKS, LinkReport, link_batches, link_ends
from linkdist.tables.parsing import as_mask
from linkdist.tables.source import Tables
from linkdist.tables.trained_columns import with_trained_columns
from linkdist.tables.validation import SHOWN, Problems


@dataclass(frozen=True)
class Chunk:
    """Some rows of a link table.

    Attributes
    ----------
    keys : (m, 2) uint64 array
        The hashes of the ids of the rows that have two.
    rows : (m,) int64 array
        The numbers of these rows, counted from 1.
    missing : (k,) int64 array
        The numbers of the rows that lack an id.
    """

    keys: Keys
    rows: npt.NDArray[np.int64]
    missing: npt.NDArray[np.int64]

    @classmethod
    def joined(cls, parts: list[Chunk]) -> Chunk:
        """Join chunks; without any, the result is empty."""
        none = np.empty(0, np.int64)
        return cls(
            np.concatenate([np.empty((0, 2), np.uint64), *(part.keys for part in parts)]),
            np.concatenate([none, *(part.rows for part in parts)]),
            np.concatenate([none, *(part.missing for part in parts)]),
        )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows) + len(self.missing)


@dataclass(frozen=True)
class LinkTable:
    """A link table and the columns of the two nodes of a link."""

    table: Table
    ends: tuple[str, str]

    @classmethod
    def open(
        cls, edges: TableLike, source: str | None, target: str | None, store: Store
    ) -> LinkTable:
        """Open a link table, which is read as that of the store."""
        tables = Tables(None, edges, "", "", source=source, target=target)
        tables = with_trained_columns(tables, store.about)
        table = open_table(tables.edges, "the link table")
        return cls(table, link_ends(table, tables.source, tables.target))

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Read the table in chunks of about `size` rows, or more if a batch is larger."""
        batches = link_batches(self.table, self.ends, min(LINKS, size))
        hashed = (_hashed(*batch) for batch in batches)
        return map(Chunk.joined, grouped(hashed, len, size))

    def texts(self, rows: tuple[int, ...]) -> dict[int, list[str | None]]:
        """The two ids of some rows."""
        found = dict[int, list[str | None]]()
        for first, *texts in link_batches(self.table, self.ends) if rows else ():
            there = [row for row in rows if first <= row < first + len(texts[0])]
            found |= {row: [text[row - first].as_py() for text in texts] for row in there}
            if len(found) == len(rows):
                break
        return found

    def check(self, report: LinkReport) -> None:
        """Raise an error if no row of the table connects two nodes."""
        problems, (one, other) = Problems(self.table.place), self.ends
        if not report.total:
            problems.add("the table has no rows. Leave it out, or add links")
        elif report.unknown == report.total:
            rule = f"columns {one!r} and {other!r} must contain ids of the store or of new nodes"
            lost = [row for row, _ in report.examples], [value for _, value in report.examples]
            problems.rows(f"{rule}, but no row contains two of them", *lost, report.unknown)
        problems.check(self.table.name)


@dataclass
class RowCounts:
    """Counts of the rows of a link table.

    Attributes
    ----------
    total, unknown : int
        Number of rows, and of those with an unknown node.
    first : tuple of int
        The first rows with an unknown node.
    """

    total: int = 0
    unknown: int = 0
    first: tuple[int, ...] = ()

    def add(self, chunk: Chunk, known: npt.NDArray[np.bool_]) -> None:
        """Add the rows of a chunk; `known` says which of its links have two known nodes."""
        lost = np.concatenate([chunk.rows[~known], chunk.missing])
        self.total += len(chunk)
        self.unknown += len(lost)
        self.first = tuple(sorted([*self.first, *np.sort(lost)[:SHOWN].tolist()])[:SHOWN])


def _hashed(row: int, sources: pa.Array, targets: pa.Array) -> Chunk:
    there = as_mask(pc.and_(sources.is_valid(), targets.is_valid()))
    rows = np.arange(row, row + len(there))
    keys = [hash64(text.filter(pa.array(there))) for text in (sources, targets)]
    return Chunk(np.stack(keys, axis=1), rows[there], rows[~there])
