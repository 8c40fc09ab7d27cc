"""The rows of link tables on disk, sorted by bucket: the working files between two passes.

A record has the hashes of the two ids of a link; its row in the tables, with the head of the edge
from the first id to the second in the highest byte; and its weight, if links have weights. The
hashes give the bucket. A group of rows is sorted by bucket and written as a run, with the positions
at which each bucket starts; a bucket is collected from all runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.errors import StoreError
from linkdist.store.format import bucket_index
from linkdist.store.journal import WORK, Journal
from linkdist.store.keys import Keys, hash64, part_of
from linkdist.store.link_counts import count_rows, new_counts
from linkdist.store.link_source import LinkPlan, LinkRows
from linkdist.store.partition import Done, grouped
from linkdist.tables.parsing import as_mask

RUNS, INDEX = f"{WORK}/runs", f"{WORK}/runs.index"

FIELD = 8
"""Bytes of a field of a record."""

HEAD = np.uint64(56)
"""The position of the head in the number of a row."""

Records: TypeAlias = npt.NDArray[np.uint64]
"""(m, 3 or 4): two hashes, row and head, weight."""


class BucketRecords(NamedTuple):
    """The records of a bucket, in the order of the rows of the tables.

    Attributes
    ----------
    ends : (m, 2) uint64 array
        The hashes of the ids in the two parts.
    rows : (m,) uint64 array
        The rows of the tables.
    heads : (m,) uint8 array
        The heads of the edges from the first part to the second.
    weights : (m,) float32 array or None
        The weights.
    """

    ends: Keys
    rows: Keys
    heads: npt.NDArray[np.uint8]
    weights: npt.NDArray[np.float32] | None


def record_bytes(weighted: bool) -> int:
    """Bytes of a record.

    Examples
    --------
    >>> record_bytes(weighted=False), record_bytes(weighted=True)
    (24, 32)
    """
    return FIELD * (3 + weighted)


def write_runs(
    journal: Journal,
    batches: Iterable[LinkRows],
    P: int,
    plan: LinkPlan,
    budget: int,
    progress: Done,
) -> None:
    """Write the rows of link tables as runs, each sorted by bucket.

    Parameters
    ----------
    journal : Journal
        Its `read` is the number of rows that are written, and its `lost` counts those without an
        id as `missing`.
    batches : iterable
        The rows that are not written yet, as `link_rows` gives them.
    P : int
        Number of parts.
    plan : LinkPlan
        What the links are.
    budget : int
        Bytes of a run.
    progress : callable
        Receives the number of rows that are read.
    """
    state = journal.state
    if "read" not in state:
        journal.append(RUNS)
        _write_run(journal, np.empty((0, 3 + plan.weighted), np.uint64), P, plan)
        journal.commit(read=0, lost=new_counts(plan, ["missing"]))
    hashed = (_hashed(batch, plan.directed) for batch in batches)
    for group in grouped(hashed, lambda batch: batch[0].nbytes, budget):
        _write_run(journal, np.concatenate([records for records, _ in group]), P, plan)
        count_rows(state["lost"], "missing", np.concatenate([rows for _, rows in group]), plan)
        read = sum(len(records) + len(rows) for records, rows in group)
        journal.commit(read=state["read"] + read)
        del group  # before the next group is collected
        progress(state["read"])


def read_bucket(journal: Journal, P: int, plan: LinkPlan, a: int, b: int) -> BucketRecords:
    """Collect the records of a bucket from all runs."""
    path, place, width = journal.folder / RUNS, bucket_index(a, b, P), record_bytes(plan.weighted)
    starts = np.memmap(journal.folder / INDEX, np.int64, "r").reshape(-1, P * (P + 1) // 2 + 1)
    bounds = np.array(starts[:, place : place + 2])
    records = np.empty((int(np.diff(bounds).sum()), width // FIELD), dtype=np.uint64)
    filled = 0
    with path.open("rb") as file:
        for start, end in bounds.tolist():
            file.seek(start * width)
            run = records[filled : filled + end - start]
            if file.readinto(run.data) != run.nbytes:
                raise StoreError(f"{path} is truncated. Remove it and build again.")
            filled += end - start
    weights = records[:, 3].astype(np.uint32).view(np.float32) if plan.weighted else None
    heads = (records[:, 2] >> HEAD).astype(np.uint8)
    return BucketRecords(records[:, :2], records[:, 2] & ~(np.uint64(255) << HEAD), heads, weights)


def _hashed(batch: LinkRows, directed: bool) -> tuple[Records, Keys]:
    """Records of links, and the rows that have no id."""
    ends = batch.sources, batch.targets
    there = as_mask(pc.and_(ends[0].is_valid(), ends[1].is_valid()))
    rows = np.arange(batch.row, batch.row + len(there), dtype=np.uint64)
    numbers = rows | (np.asarray(batch.relation, np.uint64) << (HEAD + np.uint64(directed)))
    fields = [hash64(text.filter(pa.array(there))) for text in ends]
    fields.append(numbers[there])
    if batch.weights is not None:
        fields.append(batch.weights.view(np.uint32)[there].astype(np.uint64))
    return np.stack(fields, axis=1), rows[~there]


def _write_run(journal: Journal, records: Records, P: int, plan: LinkPlan) -> None:
    """Write links sorted by bucket, and the positions at which each bucket starts."""
    first, second = (part_of(records[:, end], P).astype(np.int64) for end in (0, 1))
    swap = first > second
    records[swap, :2] = records[swap, 1::-1]
    if plan.directed:
        records[swap, 2] ^= np.uint64(1) << HEAD
    place = bucket_index(np.minimum(first, second), np.maximum(first, second), P)
    number = P * (P + 1) // 2
    # NumPy sorts 16-bit integers by radix sort.
    order = np.argsort(place.astype(np.uint16) if number <= 1 << 16 else place, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=number))])
    starts += journal.length(RUNS) // record_bytes(plan.weighted)
    journal.append(INDEX, starts.astype(np.int64).data)
    journal.append(RUNS, records[order].data)
