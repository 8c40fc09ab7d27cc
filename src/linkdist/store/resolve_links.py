"""Links between ids become links between rows, one bucket at a time.

The hashes of the two ids of a link give its bucket. So the link table is read once: a group of its
rows is sorted by bucket and written, with the positions at which each bucket starts. A bucket is
then collected from all groups, and its hashes are looked up in the sorted hashes of its two parts.
The links between different parts come first, then those within a part: by then it is known which
nodes have no link, and each of these gets a self-loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.errors import StoreError
from linkdist.store.format import bucket_file, bucket_index, buckets, rows_in
from linkdist.store.journal import WORK, Journal
from linkdist.store.keys import Keys, hash64, is_loop, pack, part_of, sort_unique, unpack
from linkdist.store.partition import Done, grouped, work_file
from linkdist.tables.io import open_table
from linkdist.tables.links import LinkReport, check_links, link_batches
from linkdist.tables.parsing import as_mask
from linkdist.tables.source import Tables
from linkdist.tables.validation import SHOWN

RUNS, INDEX = f"{WORK}/runs", f"{WORK}/runs.index"

RECORD = 24
"""Bytes of a link in a run: the hashes of its two ids and its row in the table."""

COMMIT_LINKS = 1 << 20
"""Number of links after which the journal is written."""

CHUNK = 1 << 20
"""Number of links that are looked up at once."""

Batch: TypeAlias = "tuple[int, pa.Array, pa.Array]"
"""The number of the first row, and the two ids of each row, as `link_batches` gives them."""
Records: TypeAlias = npt.NDArray[np.uint64]
"""(m, 3): the hashes of the two ids of each link, and its row in the table."""


def write_runs(
    journal: Journal, batches: Iterable[Batch], P: int, budget: int, progress: Done
) -> None:
    """Write the rows of a link table as runs, each sorted by bucket.

    Parameters
    ----------
    journal : Journal
        Its `read` is the number of rows that are written, `missing` the number of rows without
        an id, and `first_missing` has the first of these.
    batches : iterable
        The batches of `link_batches`, from the first one.
    P : int
        Number of parts.
    budget : int
        Bytes of a run.
    progress : callable
        Receives the number of rows that are read.
    """
    if "read" not in journal.state:
        journal.append(RUNS)
        _write_run(journal, np.empty((0, 3), np.uint64), P)
        journal.commit(read=0, missing=0, first_missing=[])
    hashed = _hashed(batches, journal.state["read"])
    for group in grouped(hashed, lambda batch: batch[0].nbytes, budget):
        _write_run(journal, np.concatenate([records for records, _ in group]), P)
        _count(journal.state, "missing", np.concatenate([rows for _, rows in group]))
        read = sum(len(records) + len(rows) for records, rows in group)
        journal.commit(read=journal.state["read"] + read)
        del group  # before the next group is collected
        progress(journal.state["read"])


def resolve(journal: Journal, P: int, sizes: list[int], strict: bool, progress: Done) -> None:
    """Write the buckets.

    Parameters
    ----------
    journal : Journal
        It counts links as `kept`, `unknown`, `duplicates`, `loops` and, as `isolated`, the
        self-loops of nodes without links.
    P, sizes : int and list of int
        Number of parts, and number of nodes of each.
    strict : bool
        Whether to keep the first rows of duplicates and self-loops as well.
    progress : callable
        Receives the number of buckets that are written.
    """
    state = journal.state
    for name in ("resolved", "kept", "unknown", "duplicates", "loops", "isolated"):
        state.setdefault(name, 0)
    index, writer, pending = HashIndex(journal.folder), BucketWriter(journal, sizes), 0
    order = sorted(buckets(P), key=lambda pair: pair[0] == pair[1])
    for done, (a, b) in enumerate(order[state["resolved"] :], start=state["resolved"] + 1):
        records = _read_bucket(journal, P, a, b)
        i, j = index.find(a, records[:, 0]), index.find(b, records[:, 1])
        known = (i >= 0) & (j >= 0)
        keys = pack(i[known], j[known], within=a == b)
        _count(state, "unknown", records[~known, 2])
        if strict:
            _keep_examples(state, keys, records[known, 2], within=a == b)
        del records, i, j
        total = len(keys)
        keys = sort_unique(keys)
        state["kept"] += len(keys)
        state["duplicates"] += total - len(keys)
        state["loops"] += int(is_loop(keys).sum()) if a == b else 0
        state["isolated"] += writer.write(a, b, keys)
        pending += total
        if pending >= COMMIT_LINKS or done == len(order):
            journal.commit(resolved=done)
            pending = 0
        progress(done)


def count_links(folder: Path, P: int) -> list[int]:
    """The number of links of each bucket, from the lengths of the files."""
    return [rows_in(folder / bucket_file(a, b), 8) for a, b in buckets(P)]


def report_of(journal: Journal, tables: Tables, ends: tuple[str, str], P: int) -> LinkReport:
    """The counts of the rows of the link table.

    Raises
    ------
    TableError
        As from `read_links`: if no link is left, or if there is any problem and `strict`.
    """
    state = journal.state
    lost = sorted([*state.get("first_missing", []), *state.get("first_unknown", [])])[:SHOWN]
    again, loops = (state.get(f"first_{name}", []) for name in ("duplicates", "loops"))
    texts = _texts(tables.edges, ends, {*lost, *again, *loops})
    index = HashIndex(journal.folder)
    unknown = state["unknown"] + state["missing"]
    counts = (state["read"], state["kept"], unknown, state["duplicates"], state["loops"])
    examples = tuple((row, _unknown_id(index, texts[row], P)) for row in lost)
    unused = tuple(name for name in open_table(tables.edges).schema.names if name not in ends)
    report = LinkReport(*counts, examples, unused)
    pairs = ((rows, [texts[row] for row in rows]) for rows in (again, loops))
    check_links(tables.edges, ends, report, tables.strict, *pairs)
    return report


class BucketWriter:
    """Writes the buckets, those within a part last, with a self-loop at each node without links.

    Which nodes have links is on disk, one byte per node. Marking a node twice changes nothing, so
    an interrupted build may repeat it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.journal import open_journal
    >>> with TemporaryDirectory() as folder, open_journal(f"{folder}/store", {}) as journal:
    ...     keys = pack(np.array([0]), np.array([2]), within=True)
    ...     isolated = BucketWriter(journal, [3]).write(0, 0, keys)
    ...     isolated, np.load(journal.folder / "links/0000-0000.npy").tolist()
    (1, [[0, 2], [1, 1]])
    """

    def __init__(self, journal: Journal, sizes: npt.ArrayLike) -> None:
        self._journal, self._sizes = journal, np.asarray(sizes).tolist()

    def write(self, a: int, b: int, keys: Keys) -> int:
        """Write sorted links between two parts; the number of nodes that got a self-loop."""
        links, isolated = unpack(keys), np.empty(0, np.int64)
        if len(links):
            self._mark(a, links[:, 0])
            self._mark(b, links[:, 1])
        if a == b:
            isolated = np.flatnonzero(self._flags(a) == 0)
            loops = pack(isolated, isolated, within=True)
            links = unpack(sort_unique(np.concatenate([keys, loops])))
        self._journal.save(bucket_file(a, b), links)
        return len(isolated)

    def _mark(self, part: int, rows: npt.NDArray[np.uint32]) -> None:
        flags = self._flags(part)
        flags[rows] = 1
        # Not a memory map: on a full disk that kills the process instead of raising an error.
        with self._journal.replace(work_file(part, "linked")) as file:
            file.write(flags.data)

    def _flags(self, part: int) -> npt.NDArray[np.uint8]:
        if self._journal.has(name := work_file(part, "linked")):
            return np.fromfile(self._journal.folder / name, np.uint8)
        return np.zeros(self._sizes[part], np.uint8)


class HashIndex:
    """Finds the rows of hashes in parts; holds the hashes of two parts at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._load = lru_cache(2)(self._read)

    def find(self, part: int, keys: Keys) -> npt.NDArray[np.int64]:
        """The rows of hashes in a part, -1 for those that are not there."""
        known, order = self._load(part)
        rows = np.full(len(keys), -1, dtype=np.int64)
        for start in range(0, len(keys) if len(known) else 0, CHUNK):
            chunk = keys[start : start + CHUNK]
            place = np.minimum(np.searchsorted(known, chunk), len(known) - 1)
            found = known[place] == chunk
            rows[start : start + CHUNK][found] = order[place[found]]
        return rows

    def _read(self, part: int) -> list[npt.NDArray[Any]]:
        names = (work_file(part, f"{name}.npy") for name in ("keys", "order"))
        return [np.load(self._folder / name) for name in names]


def _hashed(batches: Iterable[Batch], done: int) -> Iterator[tuple[Records, Records]]:
    """Records of links, and the rows that have no id; the first `done` rows are left out."""
    for row, sources, targets in batches:
        skip = max(0, done + 1 - row)
        if skip >= len(sources):
            continue
        ends = [text.slice(skip) for text in (sources, targets)]
        there = as_mask(pc.and_(ends[0].is_valid(), ends[1].is_valid()))
        rows = np.arange(row + skip, row + len(sources), dtype=np.uint64)
        keys = [hash64(text.filter(pa.array(there))) for text in ends]
        yield np.stack([*keys, rows[there]], axis=1), rows[~there]


def _write_run(journal: Journal, records: Records, P: int) -> None:
    """Write links sorted by bucket, and the positions at which each bucket starts."""
    first, second = (part_of(records[:, end], P).astype(np.int64) for end in (0, 1))
    swap = first > second
    records[swap, :2] = records[swap, 1::-1]
    place = bucket_index(np.minimum(first, second), np.maximum(first, second), P)
    number = P * (P + 1) // 2
    # NumPy sorts 16-bit integers by radix sort.
    order = np.argsort(place.astype(np.uint16) if number <= 1 << 16 else place, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=number))])
    starts += journal.length(RUNS) // RECORD
    journal.append(INDEX, starts.astype(np.int64).data)
    journal.append(RUNS, records[order].data)


def _read_bucket(journal: Journal, P: int, a: int, b: int) -> Records:
    """Collect the records of a bucket, in the order of the rows of the table."""
    path, place = journal.folder / RUNS, bucket_index(a, b, P)
    starts = np.memmap(journal.folder / INDEX, np.int64, "r").reshape(-1, P * (P + 1) // 2 + 1)
    bounds = np.array(starts[:, place : place + 2])
    records = np.empty((int(np.diff(bounds).sum()), 3), dtype=np.uint64)
    filled = 0
    with path.open("rb") as file:
        for start, end in bounds.tolist():
            file.seek(start * RECORD)
            run = records[filled : filled + end - start]
            if file.readinto(run.data) != run.nbytes:
                raise StoreError(f"{path} is truncated. Remove it and build again.")
            filled += end - start
    return records


def _keep_first(state: dict[str, Any], name: str, rows: npt.NDArray[np.uint64]) -> None:
    first = [*state.get(f"first_{name}", []), *np.sort(rows)[:SHOWN].tolist()]
    state[f"first_{name}"] = sorted(first)[:SHOWN]


def _count(state: dict[str, Any], name: str, rows: npt.NDArray[np.uint64]) -> None:
    state[name] += len(rows)
    _keep_first(state, name, rows)


def _keep_examples(
    state: dict[str, Any], keys: Keys, rows: npt.NDArray[np.uint64], within: bool
) -> None:
    """Keep the first rows of duplicate links and of self-loops."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)]
    _keep_first(state, "duplicates", rows[order[~first]])
    if within:
        _keep_first(state, "loops", rows[order[first & is_loop(ordered)]])


def _texts(path: Path, ends: tuple[str, str], rows: set[int]) -> dict[int, list[str | None]]:
    """The ids in some rows of a link table."""
    found: dict[int, list[str | None]] = {}
    for row, *texts in link_batches(open_table(path), ends) if rows else ():
        for wanted in rows:
            if row <= wanted < row + len(texts[0]):
                found[wanted] = [text[wanted - row].as_py() for text in texts]
        if len(found) == len(rows):
            break
    return found


def _unknown_id(index: HashIndex, texts: list[str | None], P: int) -> str | None:
    """The first of the two ids of a row that is not the id of a node."""
    for text in texts:
        if text is None:
            return None
        keys = hash64(pa.array([text], pa.large_string()))
        if index.find(int(part_of(keys, P)[0]), keys)[0] < 0:
            return text
    raise AssertionError("the row was counted as a link to an unknown node")
