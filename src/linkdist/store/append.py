"""Append nodes and links to a store, without building it again.

    nodes      read the new nodes with the encoders of the store, and write them to parts at the end
    links      read the new links, and find their nodes in the store and among the new ones
    buckets    write the buckets that get links
    manifest   replace the manifest, which makes all of this visible at once

The result is the graph that a build from the old and the new tables gives, except that the encoders
and the classes stay as they are, and that the nodes are in another order. Files that do not change
are neither read nor written. After a kill, the store is as it was; the same call starts over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from linkdist.data.graph import IntArray
from linkdist.errors import OptionError, StoreError
from linkdist.progress import Callback
from linkdist.store.append_nodes import NewNodes, Room, check_new, no_nodes, write_new_nodes
from linkdist.store.find_nodes import NodeIndex
from linkdist.store.generation import Generation, open_generation
from linkdist.store.keys import hash64
from linkdist.store.link_runs import LinkRuns
from linkdist.store.merge_links import Merged, merge_links
from linkdist.store.partition import Done, grouped
from linkdist.store.plan import MEMORY, parse_memory
from linkdist.store.reader import Store
from linkdist.store.resolve_links import Records, hashed_links, texts_in
from linkdist.tables.io import Table, TableLike, open_table
from linkdist.tables.links import LINKS, LinkReport, link_batches, link_ends
from linkdist.tables.source import Tables
from linkdist.tables.trained_columns import with_trained_columns
from linkdist.tables.validation import SHOWN, Problems

LINK_BYTES = 256
"""Bytes that a new link needs while its nodes are found; links may take half of the memory."""

MIN_LINKS = 1 << 16
"""The smallest number of links whose nodes are found at once."""


def append(
    directory: Path | str,
    nodes: TableLike = None,
    edges: TableLike = None,
    *,
    source: str | None = None,
    target: str | None = None,
    memory: int | None = None,
    callback: Callback | None = None,
) -> Store:
    r"""Append new nodes, new links or both to a store.

    Parameters
    ----------
    directory : Path
        A store that was built from tables.
    nodes : path or table, optional
        New nodes, with the columns of the node table of the store.
    edges : path or table, optional
        New links, between any two nodes.
    source, target : str, optional
        Columns of the link table; by default those of the store, or the first two.
    memory : int, optional
        Bytes that may be used; by default 2 GB.
    callback : Callback, optional
        Receives progress and messages.

    Returns
    -------
    Store
        The store with the new nodes and links.

    Raises
    ------
    TableError, OptionError, StoreError
        With all problems, and what to do; the store is then as it was.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.build import build
    >>> with TemporaryDirectory() as folder:
    ...     old, links = Path(folder, "nodes.csv"), Path(folder, "links.csv")
    ...     _ = old.write_text("paper,field,age\n7,math,1\n8,art,3\n9,,2\n")
    ...     _ = links.write_text("a,b\n7,8\n")
    ...     _ = build(Tables(old, links, "paper", "field"), Path(folder, "store"))
    ...     new = {"paper": [10], "field": ["art"], "age": [3]}
    ...     store = append(Path(folder, "store"), new, {"a": [9], "b": [10]})
    ...     store.ids(1).to_pylist(), store.links(0, 0).tolist(), store.links(0, 1).tolist()
    (['10'], [[0, 1]], [[2, 0]])
    """
    memory = parse_memory(MEMORY) if memory is None else memory
    if memory < 1:
        raise OptionError(f"memory must be 1 byte or more; found {memory}.")
    if nodes is None and edges is None:
        raise OptionError("there is nothing to append. Give --nodes, --edges or both.")
    with open_generation(directory) as generation:
        store = generation.store
        _check_columns(store)
        links = None if edges is None else _LinkTable.open(edges, source, target, store)
        _Append(generation, memory, callback or Callback()).run(nodes, links)
    return Store.open(directory)


@dataclass(frozen=True)
class _LinkTable:
    """A link table and the columns of the two nodes of a link."""

    table: Table
    ends: tuple[str, str]

    @classmethod
    def open(
        cls, edges: TableLike, source: str | None, target: str | None, store: Store
    ) -> _LinkTable:
        """Open a link table, which is read as that of the store."""
        tables = Tables(None, edges, "", "", source=source, target=target)
        tables = with_trained_columns(tables, store.about)
        table = open_table(tables.edges, "the link table")
        return cls(table, link_ends(table, tables.source, tables.target))

    def chunks(self, size: int) -> Iterator[tuple[Records, Records]]:
        """Hashes and rows of about `size` links, and the rows that have no id."""
        hashed = hashed_links(link_batches(self.table, self.ends, min(LINKS, size)), 0)
        for group in grouped(hashed, lambda batch: sum(map(len, batch)), size):
            records, missing = (np.concatenate(arrays) for arrays in zip(*group, strict=True))
            yield records, missing

    def check(self, report: LinkReport) -> None:
        """Raise an error if no row of the table is a link."""
        problems, (one, other) = Problems(self.table.place), self.ends
        if not report.total:
            problems.add("the table has no rows. Leave it out, or add links")
        elif report.unknown == report.total:
            rule = f"columns {one!r} and {other!r} must contain ids of the store or of new nodes"
            lost = [row for row, _ in report.examples], [value for _, value in report.examples]
            problems.rows(f"{rule}, but no row contains two of them", *lost, report.unknown)
        problems.check(self.table.name)


@dataclass
class _Rows:
    """Counts of the rows of a link table: all, those with an unknown node, the first of these."""

    total: int = 0
    unknown: int = 0
    first: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Append:
    """The steps of an append."""

    generation: Generation
    memory: int
    callback: Callback

    @property
    def store(self) -> Store:
        """The store as it was."""
        return self.generation.store

    def run(self, nodes: TableLike, links: _LinkTable | None) -> None:
        """Write the new files and switch to them."""
        room = Room.of(self.store.manifest)
        new = self.write_nodes(nodes, room)
        index = NodeIndex(self.store, new, room)
        sizes = [*self.store.manifest.sizes[: room.first], *room.sizes(len(new.ids))]
        runs = LinkRuns(self.generation.work("runs"), len(sizes))
        rows = self.find_links(links, runs, index, new)
        self.callback.stage("writing links")
        number = len(sizes) * (len(sizes) + 1) // 2
        merged = merge_links(self.generation, runs, room, sizes, self._progress(number))
        report = None if links is None else self.report(links, rows, merged, index)
        if not len(new.ids) and not merged.new:
            found = f"{self.store.directory} has all these links already"
            raise StoreError(f"{found}, so there is nothing to append.")
        fields = self.fields(new, sizes, merged)
        fields["source"] = self.source(nodes, links, report, merged)
        self.generation.switch(fields)

    def write_nodes(self, nodes: TableLike, room: Room) -> NewNodes:
        """Write the parts of the new nodes."""
        if nodes is None:
            return no_nodes(self.store.C)
        self.callback.stage("writing nodes")
        return write_new_nodes(self.generation, nodes, room, self.memory, self.callback)

    def find_links(
        self, links: _LinkTable | None, runs: LinkRuns, index: NodeIndex, new: NewNodes
    ) -> _Rows:
        """Find the nodes of all links and write the links as runs; checks the new ids, too."""
        self.callback.stage("finding nodes")
        progress = self._progress(self.store.P)
        size = max(MIN_LINKS, self.memory // 2 // LINK_BYTES)
        nothing = np.empty((0, 3), np.uint64), np.empty(0, np.uint64)
        chunks = iter(()) if links is None else links.chunks(size)
        records, missing = next(chunks, nothing)
        (part, row), known = index.find_first(records[:, :2].reshape(-1), progress)
        check_new(new, self.store, *known)
        rows = _Rows()
        _add_chunk(runs, rows, records, missing, part, row)
        for records, missing in chunks:
            part, row = index.find(records[:, :2].reshape(-1), progress)
            _add_chunk(runs, rows, records, missing, part, row)
        return rows

    def report(
        self, links: _LinkTable, rows: _Rows, merged: Merged, index: NodeIndex
    ) -> LinkReport:
        """The counts of the rows of the link table."""
        texts = texts_in(links.table, links.ends, set(rows.first))
        asked = sorted({text for pair in texts.values() for text in pair if text is not None})
        part, _ = index.find(hash64(pa.array(asked, pa.large_string())), lambda done: None)
        known = {text for text, number in zip(asked, part.tolist(), strict=True) if number >= 0}
        examples = ((row, next(t for t in texts[row] if t not in known)) for row in rows.first)
        names = links.table.schema.names
        unused = tuple(name for name in names if name not in links.ends)
        counts = (rows.total, merged.new, rows.unknown, merged.duplicates, merged.loops)
        report = LinkReport(*counts, tuple(examples), unused)
        links.check(report)
        self.callback.links(report)
        return report

    def fields(self, new: NewNodes, sizes: list[int], merged: Merged) -> dict[str, Any]:
        """The fields of the manifest that change, except the source and the files."""
        old = self.store.manifest
        return {
            "labelled": (np.array(old.labelled, np.int64) + new.labelled).tolist(),
            "sizes": sizes,
            "counts": merged.counts,
            "loops": old.loops + merged.loops + merged.isolated - merged.dropped,
            "hashed": old.hash_parts,
        }

    def source(
        self, nodes: TableLike, links: _LinkTable | None, report: LinkReport | None, merged: Merged
    ) -> dict[str, Any]:
        """What the store was built from, for people, with this append."""
        source, one = self.store.manifest.source, dict[str, Any]()
        if nodes is not None:
            one["nodes"] = Path(open_table(nodes, "the node table").name).name
        if links is not None:
            one |= {"edges": Path(links.table.name).name, "links": str(report)}
        one |= {"isolated": merged.isolated, "linked": merged.dropped}
        return {**source, "appended": [*source.get("appended", []), one]}

    def _progress(self, total: int) -> Done:
        return lambda done: self.callback.progress(done, total)


def _add_chunk(
    runs: LinkRuns, rows: _Rows, records: Records, missing: Records, part: IntArray, row: IntArray
) -> None:
    """Add the links of a chunk whose nodes are known, and count the others."""
    part, row = part.reshape(-1, 2), row.reshape(-1, 2)
    known = (part >= 0).all(axis=1)
    runs.add(part[known], row[known])
    lost = np.concatenate([records[~known, 2], missing])
    rows.total += len(records) + len(missing)
    rows.unknown += len(lost)
    rows.first = tuple(sorted([*rows.first, *np.sort(lost)[:SHOWN].tolist()])[:SHOWN])


def _check_columns(store: Store) -> None:
    if store.manifest.columns is None:
        raise StoreError(
            f"{store.directory} is a synthetic graph, which has no columns, so tables cannot be "
            "appended to it. Generate a larger graph with 'linkdist store synth'."
        )
