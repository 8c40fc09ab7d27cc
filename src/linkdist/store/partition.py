"""The nodes of a table go to parts by the hashes of their ids; then the ids of a part are sorted.

Features and labels are appended to the files of the store, whose headers are written at the end.
Ids, their lengths and their rows in the table go to working files. Links are later looked up in
the sorted hashes of a part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from linkdist.data.graph import FeatureMatrix, Labels, stacked
from linkdist.errors import StoreError, TableError
from linkdist.store.format import HEADER, LABELS, feature_files, label_shape, part_file
from linkdist.store.journal import WORK, Journal
from linkdist.store.keys import hash64, part_of, text_buffers
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.parsing import as_mask
from linkdist.tables.validation import SHOWN

Batch: TypeAlias = "tuple[pa.Array, Labels, FeatureMatrix]"
"""Ids, labels and features of some nodes."""
Done: TypeAlias = Callable[[int], None]
"""Receives the number of steps that are done."""
T = TypeVar("T")


@dataclass(frozen=True)
class Layout:
    """How the nodes of a store are stored.

    Attributes
    ----------
    P, d : int
        Number of parts, and of features of a node.
    kind : str
        The kind of features, as in `Manifest`.
    task : str
        What the labels are, as in `Manifest`.
    C : int
        Number of classes.
    """

    P: int
    d: int
    kind: str
    task: str
    C: int

    @property
    def label_width(self) -> int:
        """Bytes of the label of a node."""
        shape = label_shape(1, self.task, self.C)
        return math.prod(shape) * np.dtype(LABELS[self.task]).itemsize


def work_file(part: int, what: str) -> str:
    """The name of a working file of a part.

    Examples
    --------
    >>> work_file(3, "keys.npy")
    'work/0003.keys.npy'
    """
    return f"{WORK}/{part:04}.{what}"


def grouped(batches: Iterable[T], nbytes: Callable[[T], int], budget: int) -> Iterator[list[T]]:
    """Collect batches until they have `budget` bytes; the last group may have fewer.

    Examples
    --------
    >>> list(grouped([2, 3, 1, 4, 1], lambda size: size, budget=4))
    [[2, 3], [1, 4], [1]]
    """
    group: list[T] = []
    for batch in batches:
        group.append(batch)
        if sum(map(nbytes, group)) >= budget:
            yield group
            group = []
    if group:
        yield group


def write_nodes(
    journal: Journal, batches: Iterable[Batch], layout: Layout, budget: int, progress: Done
) -> None:
    """Append batches of nodes to their parts.

    Parameters
    ----------
    journal : Journal
        Its `rows` is the number of rows that are written.
    batches : iterable of ids, labels and features
        The rows that are not written yet, with features as they are stored.
    layout : Layout
        How they are stored.
    budget : int
        Bytes of nodes that are collected before they are written.
    progress : callable
        Receives the number of rows that are written.
    """
    if "rows" not in journal.state:
        for part in range(layout.P):
            features = feature_files(part, layout.kind)[:2]  # indptr is written at once
            for name in (*features, part_file(part, "labels.npy")):
                journal.append(name, bytes(HEADER))
            for what in ("text", "lengths", "origin", "entries"):
                journal.append(work_file(part, what))
        journal.commit(rows=0)
    for group in grouped(batches, lambda batch: sum(map(_nbytes, batch)), budget):
        row = journal.state["rows"]
        journal.commit(rows=row + _append(journal, group, layout, row))
        del group  # before the next group is collected
        progress(journal.state["rows"])


def as_float16(
    x: npt.NDArray[np.float32],
    path: Path | str,
    row: int,
    encoders: FeatureEncoder,
    advice: str = "Give --dtype float32, or correct the table.",
) -> npt.NDArray[np.float16]:
    """Convert features to float16, or raise an error for the first one that is too large.

    Parameters
    ----------
    x : (k, d) float32 array
        Features.
    path, row, encoders, advice
        The table, the number of the first row, the columns and what to do, for the message.

    Examples
    --------
    >>> x = np.ones((2, 3), np.float32)
    >>> as_float16(x, Path("nodes.csv"), 1, FeatureEncoder([])).dtype
    dtype('float16')
    """
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    if not np.isfinite(half).all():
        at, feature = np.argwhere(~np.isfinite(half))[0]
        owners = np.repeat(encoders.names, [column.width for column in encoders.columns])
        name = str(owners[feature])
        raise TableError(
            f"{path}: row {row + at} is {x[at, feature]:.6g} standard deviations from the mean of "
            f"column {name!r}; the largest float16 is {np.finfo(np.float16).max:.0f}. {advice}"
        )
    return half


def sort_ids(journal: Journal, layout: Layout, progress: Done) -> None:
    """Write the headers and ids of each part, and its sorted hashes with their rows.

    The journal counts duplicate ids as `duplicate_ids`, and has the first of them with their rows
    as `first_duplicate_ids`.

    Raises
    ------
    StoreError
        If two ids have the same hash.
    """
    for part in range(journal.state.setdefault("sorted", 0), layout.P):
        ids = _write_part(journal, part, layout)
        keys = hash64(ids)
        order = np.argsort(keys, kind="stable").astype(np.uint32)
        keys = keys[order]
        same = _same_as_previous(ids, keys, order)
        again, before = order[1:][same], order[:-1][same]
        origin = np.fromfile(journal.folder / work_file(part, "origin"), np.int64)
        shown = np.argsort(origin[again])[:SHOWN]
        later, earlier = (origin[nodes[shown]].tolist() for nodes in (again, before))
        texts = ids.take(pa.array(again[shown])).to_pylist()
        found = map(list, zip(later, texts, earlier, strict=True))
        journal.save(work_file(part, "keys.npy"), keys)
        journal.save(work_file(part, "order.npy"), order)
        state = journal.state
        journal.commit(
            sorted=part + 1,
            duplicate_ids=state.get("duplicate_ids", 0) + len(again),
            first_duplicate_ids=sorted([*found, *state.get("first_duplicate_ids", [])])[:SHOWN],
        )
        progress(part + 1)


def part_sizes(journal: Journal, layout: Layout) -> list[int]:
    """The number of nodes of each part."""
    lengths = (journal.length(part_file(part, "labels.npy")) for part in range(layout.P))
    return [(length - HEADER) // layout.label_width for length in lengths]


def _append(journal: Journal, batches: list[Batch], layout: Layout, done: int) -> int:
    """Append nodes to their parts; the number of nodes."""
    ids, labels, features = zip(*batches, strict=True)
    text = pa.concat_arrays(ids)
    part = part_of(hash64(text), layout.P)
    order = np.argsort(part, kind="stable")
    text = text.take(pa.array(order))
    y = np.concatenate(labels)[order].astype(LABELS[layout.task])
    x: Any = stacked(features)[order]
    origin = order + done + 1
    bounds = pairwise(_offsets(np.bincount(part, minlength=layout.P)).tolist())
    for p, (start, end) in enumerate(bounds):
        if start == end:
            continue
        here = slice(start, end)
        content, ends = text_buffers(text.slice(start, end - start))
        arrays: dict[str, npt.NDArray[Any]] = {
            work_file(p, "lengths"): np.diff(ends).astype(np.uint32),
            work_file(p, "origin"): origin[here],
            part_file(p, "labels.npy"): y[here],
        }
        if layout.kind == "csr":
            data, indices, _ = feature_files(p, "csr")
            rows = x[here]
            arrays[data], arrays[indices] = rows.data, rows.indices.astype(np.int32)
            arrays[work_file(p, "entries")] = np.diff(rows.indptr).astype(np.uint32)
        else:
            arrays[part_file(p, "features.npy")] = x[here]
        journal.append(work_file(p, "text"), content)
        for name, array in arrays.items():
            journal.append(name, array.data)
    return len(order)


def _write_part(journal: Journal, part: int, layout: Layout) -> pa.Array:
    """Write the headers and the ids of a part; returns the ids."""
    lengths = np.fromfile(journal.folder / work_file(part, "lengths"), np.uint32)
    n = len(lengths)
    shape = label_shape(n, layout.task, layout.C)
    journal.write_header(part_file(part, "labels.npy"), shape, LABELS[layout.task])
    if layout.kind == "csr":
        indptr = _offsets(np.fromfile(journal.folder / work_file(part, "entries"), np.uint32))
        data, indices, ends = feature_files(part, "csr")
        journal.write_header(data, (int(indptr[-1]),), np.float32)
        journal.write_header(indices, (int(indptr[-1]),), np.int32)
        journal.save(ends, indptr)
    else:
        journal.write_header(part_file(part, "features.npy"), (n, layout.d), layout.kind)
    content = (journal.folder / work_file(part, "text")).read_bytes()
    buffers = [None, pa.py_buffer(_offsets(lengths)), pa.py_buffer(content)]
    ids = pa.Array.from_buffers(pa.large_string(), n, buffers)
    batch = pa.record_batch([ids], ["id"])
    with (
        journal.replace(part_file(part, "ids.arrow")) as file,
        pa.ipc.new_file(file, batch.schema) as writer,
    ):
        writer.write_batch(batch)
    return ids


def _offsets(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _same_as_previous(
    ids: pa.Array, keys: npt.NDArray[np.uint64], order: npt.NDArray[np.uint32]
) -> npt.NDArray[np.bool_]:
    """For each sorted id except the first, whether it equals the one before it."""
    same: npt.NDArray[np.bool_] = keys[1:] == keys[:-1]
    before, after = (ids.take(pa.array(rows[same])) for rows in (order[:-1], order[1:]))
    different = np.flatnonzero(as_mask(pc.not_equal(before, after)))
    if len(different):
        one, other = (texts[int(different[0])].as_py() for texts in (before, after))
        raise StoreError(
            f"the ids {one!r} and {other!r} have the same 64-bit hash, by which a store finds "
            "nodes; this is very rare. Rename one of them in both tables."
        )
    return same


def _nbytes(values: Any) -> int:  # noqa: ANN401
    if sparse.issparse(values):
        return int(values.data.nbytes + values.indices.nbytes + values.indptr.nbytes)
    return int(values.nbytes)
