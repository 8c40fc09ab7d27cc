"""Append nodes and links to a store, without building it again.

    nodes      read the new nodes with the encoders of the store, and write them to parts at the end
    links      read the new links, and find their nodes in the store and among the new ones
    buckets    write the buckets that get links
    manifest   replace the manifest, which makes all of this visible at once

The result is the graph that a build from the old and the new tables gives, with three exceptions:
the encoders, the classes and the relations stay as they are; the nodes are in another order; and a
link that comes before one of its nodes is skipped. Files that do not change are not written again.
After a kill, the store is as it was, and the same call starts over.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from linkdist.errors import OptionError, StoreError
from linkdist.progress import Callback
from linkdist.store.append_nodes import NewNodes, Room, check_new, no_nodes, write_new_nodes
from linkdist.store.append_report import report_new_links
from linkdist.store.append_runs import LinkRuns
from linkdist.store.append_table import Chunk, NewLinks
from linkdist.store.find_nodes import NodeIndex
from linkdist.store.generation import Generation, open_generation
from linkdist.store.link_counts import Counts, count_rows, new_counts
from linkdist.store.merge_links import MergeCounts, merge_links
from linkdist.store.own_loops import store_code
from linkdist.store.partition import Done
from linkdist.store.plan import MEMORY, parse_memory
from linkdist.store.reader import Store
from linkdist.tables.io import TableLike, open_table
from linkdist.tables.links import LinkReport

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
    edges : path or table, mapping of str to table, or list of paths, optional
        New links, between any two nodes, with the columns of the link tables of the store. If each
        of these was a relation, the keys of a mapping or the names of files are the relations.
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
    >>> from linkdist.tables.source import Tables
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
        _check_columns(generation.store)
        work = _Append(generation, memory, callback or Callback())
        work.run(nodes, work.open_links(edges, source, target))
    return Store.open(directory)


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

    def open_links(self, edges: TableLike, source: str | None, target: str | None) -> NewLinks:
        """Open the link tables and check their relations and weights."""
        if edges is None:
            return NewLinks.none(self.store)
        self.callback.stage("counting links")
        return NewLinks.open(edges, source, target, self.store, self.callback.progress)

    def run(self, nodes: TableLike, links: NewLinks) -> None:
        """Write the new files and switch to them."""
        store, room = self.store, Room.of(self.store.manifest)
        new = self.write_nodes(nodes, room)
        index = NodeIndex(store, new, room)
        sizes = [*store.manifest.sizes[: room.first], *room.sizes(len(new.ids))]
        runs = LinkRuns(self.generation.work("runs"), len(sizes), store_code(store), store.weighted)
        lost = self.find_links(links, runs, index, new)
        self.callback.stage("writing links")
        number = len(sizes) * (len(sizes) + 1) // 2
        merged = merge_links(self.generation, runs, room, sizes, self._progress(number))
        report = None
        if links.files:
            report = report_new_links(links, lost, merged, index.known)
            self.callback.links(report)
        if not len(new.ids) and not merged.changed:
            found = f"{store.directory} has all these links already"
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
        self, links: NewLinks, runs: LinkRuns, index: NodeIndex, new: NewNodes
    ) -> Counts:
        """Find the nodes of all links and write the links as runs; checks the new ids, too.

        Returns the counts of rows with an unknown node.
        """
        self.callback.stage("finding nodes")
        progress, lost = self._progress(self.store.P), new_counts(links.plan, ["unknown"])
        size = max(MIN_LINKS, self.memory // 2 // LINK_BYTES)
        chunks = links.chunks(size)
        first = next(chunks, Chunk.joined([]))
        found, taken = index.find_first(first.keys.reshape(-1), progress)
        check_new(new, self.store, *taken)
        for chunk in chain([first], chunks):
            if chunk is not first:
                found = index.find(chunk.keys.reshape(-1), progress)
            known = runs.add(*found, chunk.relation, chunk.weights)
            rows = np.concatenate([chunk.rows[~known], chunk.missing])
            if len(rows):
                count_rows(lost, "unknown", rows, links.plan)
        return lost

    def fields(self, new: NewNodes, sizes: list[int], merged: MergeCounts) -> dict[str, Any]:
        """The fields of the manifest that change, except the source and the files."""
        old = self.store.manifest
        return {
            "labelled": (np.array(old.labelled, np.int64) + new.labelled).tolist(),
            "sizes": sizes,
            "counts": merged.counts,
            "loops": old.loops + int(merged.loops.sum()) + merged.isolated - merged.dropped,
            "own_loops": merged.own_loops,
        }

    def source(
        self, nodes: TableLike, links: NewLinks, report: LinkReport | None, merged: MergeCounts
    ) -> dict[str, Any]:
        """What the store was built from, for people, with this append."""
        source, one = self.store.manifest.source, dict[str, Any]()
        if nodes is not None:
            one["nodes"] = Path(open_table(nodes, "the node table").name).name
        if links.files:
            names = ", ".join(file.path.name for file in links.files)
            one |= {"edges": names, "links": str(report)}
        one |= {"isolated": merged.isolated, "linked": merged.dropped}
        return {**source, "appended": [*source.get("appended", []), one]}

    def _progress(self, total: int) -> Done:
        return lambda done: self.callback.progress(done, total)


def _check_columns(store: Store) -> None:
    if store.manifest.columns is None:
        raise StoreError(
            f"{store.directory} is a synthetic graph, which has no columns, so tables cannot be "
            "appended to it. Generate a larger graph with 'linkdist store synth'."
        )
    if store.weighted and store.manifest.own_loops is None:
        raise StoreError(
            f"{store.directory} does not record the average weight of its links, so links cannot "
            "be appended to it. Build it again from all tables."
        )
