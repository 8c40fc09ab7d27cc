"""Links of ids become links of rows, a bucket at a time.

The two hashes of a link say in which bucket it lies. So the link table is read once: a run of its
rows is put in the order of buckets and written down, with the places where each bucket begins. A
bucket is then gathered from all runs, and its hashes are looked up among the sorted ones of its two
parts alone. Links between parts come first, then those within: by then it is known which nodes have
no link, and these get a self-loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.errors import StoreError
from linkdist.store.build_log import WORK, Journal
from linkdist.store.hashing import hash64, part_of
from linkdist.store.keys import Keys, Seen, count_loops, distinct, packed, unpacked
from linkdist.store.manifest import bucket_file, bucket_place, buckets
from linkdist.store.npy import as_bytes
from linkdist.store.partition import work_file
from linkdist.tables.links import LinkReport, check_links, link_batches
from linkdist.tables.schema import as_mask
from linkdist.tables.validation import SHOWN

RUNS, INDEX = f"{WORK}/runs", f"{WORK}/runs.index"

RECORD = 24
"""Bytes of a link in a run: the hashes of its two ids and its row in the table."""

EVERY = 1 << 20
"""Links after which the journal is told."""

CHUNK = 1 << 20
"""Links that are looked up at once."""


def scatter(
    journal: Journal,
    batches: Iterable[tuple[int, pa.Array, pa.Array]],
    P: int,
    budget: int,
    tell: Callable[[int], None],
) -> None:
    """Write the rows of a link table as runs in the order of buckets.

    Parameters
    ----------
    journal : Journal
        Its `read` says how many rows are written, `nowhere` how many have no id, and
        `nowhere_first` which these are, the first of them.
    batches : iterable
        As `link_batches` gives them, from the first on.
    P : int
        Number of parts.
    budget : int
        Bytes of a run.
    tell : callable
        Is told how many rows are read.
    """
    if "read" not in journal.state:
        journal.append(RUNS)
        journal.append(INDEX)
        journal.note(read=0, nowhere=0, nowhere_first=[])
    read: int = journal.state["read"]
    gathered: list[npt.NDArray[np.uint64]] = []
    for row, sources, targets in _after(batches, read):
        there = as_mask(pc.and_(sources.is_valid(), targets.is_valid()))
        rows = np.arange(row, row + len(there), dtype=np.uint64)
        mask = pa.array(there)
        ends = [hash64(text.filter(mask)) for text in (sources, targets)]
        gathered.append(np.stack([*ends, rows[there]], axis=1))
        _count(journal.state, "nowhere", rows[~there])
        read += len(there)
        if sum(records.nbytes for records in gathered) >= budget:
            _write_run(journal, np.concatenate(gathered), P)
            journal.note(read=read)
            gathered = []
            tell(read)
    if gathered:
        _write_run(journal, np.concatenate(gathered), P)
        journal.note(read=read)
        tell(read)


def resolve(
    journal: Journal, P: int, sizes: list[int], strict: bool, tell: Callable[[int], None]
) -> None:
    """Write the buckets.

    Parameters
    ----------
    journal : Journal
        It counts `kept`, `unknown`, `duplicates`, `loops` and, as `alone`, the self-loops of
        nodes without links.
    P, sizes : int and list of int
        Number of parts, and nodes of each.
    strict : bool
        Whether to keep the first rows of duplicates and self-loops, too.
    tell : callable
        Is told how many buckets are done.
    """
    tally = journal.state
    for name in ("resolved", "kept", "unknown", "duplicates", "loops", "alone"):
        tally.setdefault(name, 0)
    runs, known = _Runs(journal, P), Known(journal.folder)
    seen = Seen(journal, sizes)
    since = 0
    order = sorted(buckets(P), key=lambda pair: (pair[0] == pair[1], pair))
    for done, (a, b) in enumerate(order, start=1):
        if done <= tally["resolved"]:
            continue
        records = runs.bucket(a, b)
        i, j = known.rows(a, b, records)
        there = (i >= 0) & (j >= 0)
        keys = packed(i[there], j[there], within=a == b)
        _count(tally, "unknown", records[~there, 2])
        if strict:
            _keep_examples(tally, keys, records[there, 2], within=a == b)
        del records, i, j
        before = len(keys)
        since += before
        keys = distinct(keys)
        tally["kept"] += len(keys)
        tally["duplicates"] += before - len(keys)
        links = unpacked(keys)
        seen.mark(a, links[:, 0])
        seen.mark(b, links[:, 1])
        if a == b:
            tally["loops"] += count_loops(keys)
            every = seen.with_own_loops(a, keys)
            tally["alone"] += len(every) - len(keys)
            links = unpacked(every)
        journal.save(bucket_file(a, b), links)
        if since >= EVERY or done == len(order):
            journal.note(resolved=done)
            since = 0
        tell(done)


def report_of(
    journal: Journal, path: Path, ends: tuple[str, str], P: int, strict: bool
) -> LinkReport:
    """What became of the rows of the link table.

    Raises
    ------
    TableError
        As `read_links` does: if no link is left, or anything is wrong and `strict`.
    """
    state = journal.state
    lost = sorted([*state.get("nowhere_first", []), *state.get("unknown_first", [])])[:SHOWN]
    again, loops = (state.get(f"{name}_first", []) for name in ("duplicates", "loops"))
    texts = _texts(path, ends, {*lost, *again, *loops})
    known = Known(journal.folder)
    report = LinkReport(
        state["read"],
        state["kept"],
        state["unknown"] + state["nowhere"],
        state["duplicates"],
        state["loops"],
        tuple((row, _unknown_end(known, texts[row], P)) for row in lost),
    )
    pairs = ((rows, [texts[row] for row in rows]) for rows in (again, loops))
    check_links(path, ends, report, strict, *pairs)
    return report


class Known:
    """The rows of hashes in parts; of two parts at a time they are held."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._load = lru_cache(2)(self._read)

    def rows(
        self, a: int, b: int, records: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows of links' two nodes in their parts, -1 where there is none."""
        return self.find(a, records[:, 0]), self.find(b, records[:, 1])

    def find(self, part: int, keys: Keys) -> npt.NDArray[np.int64]:
        """The rows of hashes in a part, -1 where there is none."""
        known, order = self._load(part)
        rows = np.full(len(keys), -1, dtype=np.int64)
        for start in range(0, len(keys) if len(known) else 0, CHUNK):
            asked = keys[start : start + CHUNK]
            place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
            found = known[place] == asked
            rows[start : start + CHUNK][found] = order[place[found]]
        return rows

    def _read(self, part: int) -> tuple[Keys, npt.NDArray[np.uint32]]:
        keys, order = (
            np.load(self._folder / work_file(part, f"{name}.npy")) for name in ("keys", "order")
        )
        return keys, order


def _after(
    batches: Iterable[tuple[int, pa.Array, pa.Array]], last: int
) -> Iterator[tuple[int, pa.Array, pa.Array]]:
    """Batches without the rows up to the last that is done; it may lie within one."""
    for row, sources, targets in batches:
        done = max(0, last + 1 - row)
        if done < len(sources):
            yield row + done, sources.slice(done), targets.slice(done)


def _write_run(journal: Journal, records: npt.NDArray[np.uint64], P: int) -> None:
    """Write links in the order of their buckets, and where each bucket begins."""
    first, second = (part_of(records[:, end], P).astype(np.int64) for end in (0, 1))
    back = first > second
    records[back, :2] = records[back, 1::-1]
    place = bucket_place(np.minimum(first, second), np.maximum(first, second), P)
    number = P * (P + 1) // 2
    # Numbers of 16 bits are sorted by their digits.
    order = np.argsort(place.astype(np.uint16) if number <= 1 << 16 else place, kind="stable")
    begin = journal.length(RUNS) // RECORD
    starts = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=number))]) + begin
    journal.append(INDEX, as_bytes(starts.astype(np.int64)))
    journal.append(RUNS, as_bytes(records[order]))


class _Runs:
    """The runs, from which a bucket is gathered."""

    def __init__(self, journal: Journal, P: int) -> None:
        self._path, self._P = journal.folder / RUNS, P
        shape = (-1, P * (P + 1) // 2 + 1)
        empty = not journal.length(INDEX)
        self._starts: npt.NDArray[np.int64] = (
            np.empty((0, shape[1]), np.int64)
            if empty
            else np.memmap(journal.folder / INDEX, np.int64, "r").reshape(shape)
        )

    def bucket(self, a: int, b: int) -> npt.NDArray[np.uint64]:
        """The (m, 3) records of a bucket, in the order of the table's rows."""
        place = bucket_place(a, b, self._P)
        bounds = np.array(self._starts[:, place : place + 2])
        records = np.empty((int(np.diff(bounds).sum()), 3), dtype=np.uint64)
        filled = 0
        with self._path.open("rb") as file:
            for start, end in bounds.tolist():
                file.seek(start * RECORD)
                into = as_bytes(records[filled : filled + end - start])
                if file.readinto(into) != len(into):
                    raise StoreError(f"{self._path} was cut off. Take it away and build again.")
                filled += end - start
        return records


def _count(state: dict[str, Any], name: str, rows: npt.NDArray[np.uint64]) -> None:
    """Count rows, and keep the first of all."""
    first = [*state.get(f"{name}_first", []), *np.sort(rows)[:SHOWN].tolist()]
    state[name] += len(rows)
    state[f"{name}_first"] = sorted(first)[:SHOWN]


def _keep_examples(
    state: dict[str, Any], keys: Keys, rows: npt.NDArray[np.uint64], within: bool
) -> None:
    """Keep the first rows of links that stand again and of self-loops."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)]
    found = {"duplicates": rows[order[~first]]}
    if within:
        once = order[first]
        links = unpacked(keys[once])
        found["loops"] = rows[once[links[:, 0] == links[:, 1]]]
    for name, new in found.items():
        kept = [*state.get(f"{name}_first", []), *np.sort(new)[:SHOWN].tolist()]
        state[f"{name}_first"] = sorted(kept)[:SHOWN]


def _texts(path: Path, ends: tuple[str, str], rows: set[int]) -> dict[int, list[str | None]]:
    """The ids in some rows of a link table."""
    found: dict[int, list[str | None]] = {}
    for row, *texts in _until(link_batches(path, ends), max(rows, default=0)):
        for asked in rows:
            if row <= asked < row + len(texts[0]):
                found[asked] = [text[asked - row].as_py() for text in texts]
    return found


def _until(
    batches: Iterator[tuple[int, pa.Array, pa.Array]], last: int
) -> Iterator[tuple[int, pa.Array, pa.Array]]:
    for batch in batches if last else ():
        if batch[0] > last:
            return
        yield batch


def _unknown_end(known: Known, texts: list[str | None], P: int) -> str | None:
    """The first of a row's two ids that names no node."""
    for text in texts:
        if text is None:
            return None
        keys = hash64(pa.array([text], pa.large_string()))
        if known.find(int(part_of(keys, P)[0]), keys)[0] < 0:
            return text
    raise AssertionError("the row was counted as one of an unknown node")
