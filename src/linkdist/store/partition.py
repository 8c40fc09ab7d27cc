"""Nodes of a table go into parts by their ids' hashes, then each part's ids are put in order.

While they come, features and labels are appended to the store's own files, whose headers are
written at the end. Texts, their lengths and the rows they come from grow aside. A part's sorted
hashes are what links are resolved with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from linkdist.data.graph import FeatureMatrix, IntArray, stacked
from linkdist.errors import StoreError, TableError
from linkdist.store.build_log import WORK, Journal
from linkdist.store.hashing import hash64, part_of
from linkdist.store.manifest import CSR, feature_files, part_file
from linkdist.store.npy import HEADER, as_bytes
from linkdist.tables.encoders import Encoders
from linkdist.tables.schema import as_mask
from linkdist.tables.validation import SHOWN

DATA, INDICES, INDPTR = CSR


@dataclass(frozen=True)
class Layout:
    """The form that a store's nodes take.

    Attributes
    ----------
    P, d : int
        Numbers of parts and of a node's features.
    kind : str
        Of the features, as in `Manifest`.
    """

    P: int
    d: int
    kind: str


def work_file(part: int, what: str) -> str:
    """The name of a part's file that is needed only while building.

    Examples
    --------
    >>> work_file(3, "keys.npy")
    'work/0003.keys.npy'
    """
    return f"{WORK}/{part:04}.{what}"


def write_nodes(
    journal: Journal,
    batches: Iterable[tuple[pa.Array, IntArray, FeatureMatrix]],
    layout: Layout,
    budget: int,
    tell: Callable[[int], None],
) -> None:
    """Append batches of nodes to their parts.

    Parameters
    ----------
    journal : Journal
        Its `rows` says how many rows are written.
    batches : iterable of ids, labels and features
        From the first row on that is not written yet; features in the form that is stored.
    layout : Layout
        The form they take.
    budget : int
        Bytes of nodes that are gathered before they are written.
    tell : callable
        Is told how many rows are written.
    """
    if "rows" not in journal.state:
        _begin(journal, layout)
        journal.note(rows=0)
    row: int = journal.state["rows"]
    gathered: list[tuple[pa.Array, IntArray, FeatureMatrix]] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += sum(map(_bytes, batch))
        if size >= budget:
            row += _append(journal, gathered, layout, row)
            journal.note(rows=row)
            gathered, size = [], 0
            tell(row)
    if gathered:
        row += _append(journal, gathered, layout, row)
        journal.note(rows=row)
        tell(row)


def as_float16(
    x: npt.NDArray[np.float32], path: Path, row: int, encoders: Encoders
) -> npt.NDArray[np.float16]:
    """Features in half the bytes, or a sentence about the first that is too large for that.

    Parameters
    ----------
    x : (k, d) float32 array
        Features.
    path, row, encoders
        The table, the number of the first row and the columns, for the sentence.

    Examples
    --------
    >>> x = np.ones((2, 3), np.float32)
    >>> as_float16(x, Path("nodes.csv"), 1, Encoders([])).dtype
    dtype('float16')
    """
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    if not np.isfinite(half).all():
        at, feature = np.argwhere(~np.isfinite(half))[0]
        ends = np.cumsum([column.width for column in encoders.columns])
        name = encoders.names[int(np.searchsorted(ends, feature, side="right"))]
        raise TableError(
            f"{path}: row {row + at} lies {x[at, feature]:.6g} deviations from the mean of column "
            f"{name!r}; float16 ends at {np.finfo(np.float16).max:.0f}. Give --dtype float32, or "
            "correct the table."
        )
    return half


def sort_ids(journal: Journal, layout: Layout, tell: Callable[[int], None]) -> None:
    """Write each part's headers and ids, and its sorted hashes with their rows.

    Ids that stand twice are counted as the journal's `twice`; its `twice_first` has the first rows
    and what they hold.

    Raises
    ------
    StoreError
        If two ids have one hash.
    """
    for part in range(journal.state.setdefault("sorted", 0), layout.P):
        ids = _write_part(journal, part, layout)
        keys = hash64(ids)
        order = np.argsort(keys, kind="stable").astype(np.uint32)
        keys = keys[order]
        again = order[1:][_twice(ids, keys, order)]
        origin = np.fromfile(journal.folder / work_file(part, "origin"), np.int64)[again]
        shown = np.argsort(origin)[:SHOWN]
        found = zip(origin[shown].tolist(), _some(ids, again[shown]), strict=True)
        first = [*map(list, found), *journal.state.get("twice_first", [])]
        journal.save(work_file(part, "keys.npy"), keys)
        journal.save(work_file(part, "order.npy"), order)
        journal.note(
            sorted=part + 1,
            twice=journal.state.get("twice", 0) + len(again),
            twice_first=sorted(first)[:SHOWN],
        )
        tell(part + 1)


def part_sizes(journal: Journal, P: int) -> list[int]:
    """How many nodes each part has."""
    return [(journal.length(part_file(part, "labels.npy")) - HEADER) // 4 for part in range(P)]


def _begin(journal: Journal, layout: Layout) -> None:
    """Make all files that grow, with room for the headers of those that have one."""
    for part in range(layout.P):
        grown = [*feature_files(part, layout.kind), part_file(part, "labels.npy")]
        for name in grown:
            if not name.endswith(f"{INDPTR}.npy"):  # written whole
                journal.append(name, bytes(HEADER))
        for what in ("text", "lengths", "origin", *(["entries"] if layout.kind == "csr" else [])):
            journal.append(work_file(part, what))


def _append(
    journal: Journal,
    batches: list[tuple[pa.Array, IntArray, FeatureMatrix]],
    layout: Layout,
    done: int,
) -> int:
    """Append nodes to their parts; how many there were."""
    ids, labels, features = zip(*batches, strict=True)
    text = pa.concat_arrays(ids)
    part = part_of(hash64(text), layout.P)
    order = np.argsort(part, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=layout.P))]).tolist()
    text = text.take(pa.array(order))
    y = np.concatenate(labels)[order].astype(np.int32)
    x: Any = stacked(features)[order]
    origin = order + done + 1
    for p, (start, end) in enumerate(pairwise(ends)):
        if start == end:
            continue
        here = slice(start, end)
        content, lengths = _text_bytes(text.slice(start, end - start))
        journal.append(work_file(p, "text"), content)
        journal.append(work_file(p, "lengths"), as_bytes(lengths))
        journal.append(work_file(p, "origin"), as_bytes(origin[here]))
        journal.append(part_file(p, "labels.npy"), as_bytes(y[here]))
        if layout.kind == "csr":
            among = slice(x.indptr[start], x.indptr[end])
            data, indices, _ = feature_files(p, "csr")
            journal.append(data, as_bytes(x.data[among]))
            journal.append(indices, as_bytes(x.indices[among].astype(np.int32)))
            entries = np.diff(x.indptr[start : end + 1]).astype(np.uint32)
            journal.append(work_file(p, "entries"), as_bytes(entries))
        else:
            journal.append(part_file(p, "features.npy"), as_bytes(x[here]))
    return len(order)


def _text_bytes(text: pa.Array) -> tuple[memoryview, npt.NDArray[np.uint32]]:
    """Texts one after the other, and their lengths."""
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    return memoryview(data)[ends[0] : ends[-1]], np.diff(ends).astype(np.uint32)


def _write_part(journal: Journal, part: int, layout: Layout) -> pa.Array:
    """Write headers and ids of a part; its ids."""
    lengths = np.fromfile(journal.folder / work_file(part, "lengths"), np.uint32)
    n = len(lengths)
    journal.head(part_file(part, "labels.npy"), (n,), np.int32)
    if layout.kind == "csr":
        entries = np.fromfile(journal.folder / work_file(part, "entries"), np.uint32)
        indptr = _ends(entries)
        data, indices, ends = feature_files(part, "csr")
        journal.head(data, (int(indptr[-1]),), np.float32)
        journal.head(indices, (int(indptr[-1]),), np.int32)
        journal.save(ends, indptr)
    else:
        journal.head(part_file(part, "features.npy"), (n, layout.d), layout.kind)
    content = (journal.folder / work_file(part, "text")).read_bytes()
    buffers = [None, pa.py_buffer(_ends(lengths)), pa.py_buffer(content)]
    ids = pa.Array.from_buffers(pa.large_string(), n, buffers)
    batch = pa.record_batch([ids], ["id"])
    with (
        journal.whole(part_file(part, "ids.arrow")) as file,
        pa.ipc.new_file(file, batch.schema) as writer,
    ):
        writer.write_batch(batch)
    return ids


def _ends(lengths: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _twice(
    ids: pa.Array, keys: npt.NDArray[np.uint64], order: npt.NDArray[np.uint32]
) -> npt.NDArray[np.bool_]:
    """Which of the sorted ids, from the second on, is the same as the one before it."""
    same: npt.NDArray[np.bool_] = keys[1:] == keys[:-1]
    before, after = (ids.take(pa.array(rows[same])) for rows in (order[:-1], order[1:]))
    unlike = np.flatnonzero(as_mask(pc.not_equal(before, after)))
    if len(unlike):
        pair = before[int(unlike[0])].as_py(), after[int(unlike[0])].as_py()
        raise StoreError(
            f"the ids {pair[0]!r} and {pair[1]!r} have one hash of 64 bits, by which a store "
            "finds them; that is a rare mishap. Rename one of them in both tables."
        )
    return same


def _some(ids: pa.Array, rows: npt.NDArray[Any]) -> list[str]:
    texts: list[str] = ids.take(pa.array(rows)).to_pylist()
    return texts


def _bytes(values: Any) -> int:  # noqa: ANN401
    if sparse.issparse(values):
        return int(values.data.nbytes + values.indices.nbytes + values.indptr.nbytes)
    return int(values.nbytes)
