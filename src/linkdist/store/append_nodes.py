"""New nodes of a store: they fill parts after those that were built, in order of arrival.

An appended part has as many rows as the largest part of the build, so training needs no more memory
than before. If the last appended part has room, it is written again with more rows; the rows that
it had keep their numbers, so its links stay as they are. No other part is touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.data.graph import IntArray, Labels
from linkdist.errors import OptionError, StoreError
from linkdist.progress import Callback
from linkdist.store.format import (
    HEADER,
    LABELS,
    MAX_PARTS,
    Columns,
    Manifest,
    feature_files,
    npy_header,
    part_file,
)
from linkdist.store.generation import Generation
from linkdist.store.keys import Keys, hash64
from linkdist.store.partition import Batch, as_float16
from linkdist.store.plan import format_memory
from linkdist.store.reader import Store
from linkdist.tables.io import BATCH, TableLike, open_table
from linkdist.tables.label_warnings import named
from linkdist.tables.node_table import NodeTable, check_ids
from linkdist.tables.parsing import single_values, text_of
from linkdist.tables.targets import LabelFormat, count_labels, label_values
from linkdist.tables.validation import SHOWN, Problems, show_value

NODE_BYTES = 128
"""Bytes that a new node needs in memory: its id, its hash, and their sorted order."""


@dataclass(frozen=True)
class Room:
    """The rows that new nodes get.

    Attributes
    ----------
    first, filled : int
        The part of the first new node, and the number of rows that this part has already.
    capacity : int
        Number of rows of a part.
    """

    first: int
    filled: int
    capacity: int

    @classmethod
    def of(cls, manifest: Manifest) -> Room:
        """The free rows of a store: those of its last part, if that was appended, or a new part."""
        hashed, sizes = manifest.hashed, manifest.sizes
        capacity = max(1, *sizes[:hashed])
        if hashed < manifest.P and sizes[-1] < capacity:
            return cls(manifest.P - 1, sizes[-1], capacity)
        return cls(manifest.P, 0, capacity)

    def places(self, arrival: IntArray) -> tuple[IntArray, IntArray]:
        """The parts and rows of new nodes, given by their order of arrival.

        Examples
        --------
        >>> Room(first=4, filled=2, capacity=3).places(np.arange(5))
        (array([4, 5, 5, 5, 6]), array([2, 0, 1, 2, 0]))
        """
        part, row = np.divmod(self.filled + arrival, self.capacity)
        return self.first + part, row

    def sizes(self, count: int) -> list[int]:
        """The number of rows of each part from `first` on, after `count` new nodes.

        Examples
        --------
        >>> Room(first=4, filled=2, capacity=3).sizes(5)
        [3, 3, 1]
        """
        total = self.filled + count
        full, rest = divmod(total, self.capacity)
        return [self.capacity] * full + [rest] * (rest > 0)


@dataclass(frozen=True)
class NewNodes:
    """The nodes of a table whose features and labels are written.

    Attributes
    ----------
    ids : (n,) array of large_string
        Ids in order of arrival.
    keys : (n,) uint64 array
        Their hashes.
    labelled : (C,) array
        Number of known labels of each class.
    problems : Problems
        The problems of the table.
    name : str
        What messages call the table.
    """

    ids: pa.Array
    keys: Keys
    labelled: IntArray
    problems: Problems
    name: str


def no_nodes(C: int) -> NewNodes:
    """No new nodes of C classes, for an append that has links only.

    Examples
    --------
    >>> len(no_nodes(3).ids), no_nodes(3).labelled.tolist()
    (0, [0, 0, 0])
    """
    ids = pa.array([], pa.large_string())
    return NewNodes(ids, hash64(ids), np.zeros(C, np.int64), Problems(), "")


def write_new_nodes(
    generation: Generation, table: TableLike, room: Room, memory: int, callback: Callback
) -> NewNodes:
    r"""Write the parts of new nodes; missing and duplicate ids are among the `problems`.

    Parameters
    ----------
    generation : Generation
        Receives the files.
    table : path or table
        The node table, with the columns of the store.
    room : Room
        The rows that the nodes get.
    memory : int
        Bytes that the ids may use.
    callback : Callback
        Receives the progress.

    Raises
    ------
    TableError, OptionError
        If the table cannot be read, or if it has too many rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.build import build
    >>> from linkdist.store.generation import open_generation
    >>> from linkdist.tables.source import Tables
    >>> with TemporaryDirectory() as folder:
    ...     nodes, links = Path(folder, "nodes.csv"), Path(folder, "links.csv")
    ...     _ = nodes.write_text("id,class,age\n7,a,1\n8,b,2\n")
    ...     _ = links.write_text("a,b\n7,8\n")
    ...     store = build(Tables(nodes, links, "id", "class"), Path(folder, "store"))
    ...     with open_generation(store.directory) as generation:
    ...         table = {"id": [9, 10], "class": ["b", None], "age": [1, 2]}
    ...         room = Room.of(store.manifest)
    ...         new = write_new_nodes(generation, table, room, 1 << 20, Callback())
    ...         labels = np.load(generation.path("parts/0001.labels.npy"))
    >>> new.ids.to_pylist(), new.labelled.tolist(), labels.tolist()
    (['9', '10'], [0, 1], [1, -1])
    """
    store = generation.store
    reader = _Reader(store, _columns(store), table, callback)
    writer = _PartsWriter(generation, room)
    most, ids, labelled = memory // NODE_BYTES, list[pa.Array](), np.zeros(store.C, np.int64)
    for text, y, x in reader.batches():
        ids.append(text)
        labelled += np.array(list(count_labels(y, store.classes).values()), dtype=np.int64)
        if writer.count + len(text) > most:
            raise OptionError(
                f"{reader.name} has more than {most} rows, the most that a memory of "
                f"{format_memory(memory)} can append. Give more --memory, append a part of the "
                "table at a time, or build the store again."
            )
        writer.add(text, y, x)
    writer.finish()
    texts = pa.concat_arrays(ids) if ids else pa.array([], pa.large_string())
    problems = reader.found(texts)
    return NewNodes(texts, hash64(texts.fill_null("")), labelled, problems, reader.name)


def check_new(nodes: NewNodes, store: Store, part: IntArray, row: IntArray) -> None:
    r"""Raise an error with all problems of a node table, also ids that the store has already.

    Parameters
    ----------
    nodes : NewNodes
        The new nodes.
    store : Store
        The store as it was.
    part, row : (n,) int64 array
        Where the store has the ids of the new nodes; -1 where it does not.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.build import build
    >>> from linkdist.tables.source import Tables
    >>> ids = pa.array(["9", "8"], pa.large_string())
    >>> new = NewNodes(ids, hash64(ids), np.zeros(2, np.int64), Problems(), "new.csv")
    >>> with TemporaryDirectory() as folder:
    ...     nodes, links = Path(folder, "nodes.csv"), Path(folder, "links.csv")
    ...     _ = nodes.write_text("id,class,age\n7,a,1\n8,b,2\n")
    ...     _ = links.write_text("a,b\n7,8\n")
    ...     store = build(Tables(nodes, links, "id", "class"), Path(folder, "store"))
    ...     check_new(new, store, np.array([-1, 0]), np.array([-1, 1]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    linkdist.errors.TableError: new.csv: column 'id' contains ids that the store has already; ...
    """
    if not len(nodes.ids):
        return
    known = np.flatnonzero(part >= 0)
    examples = []
    for new in known[:SHOWN].tolist():
        old, text = store.ids(int(part[new]))[int(row[new])].as_py(), nodes.ids[new].as_py()
        if old != text and text is not None:
            raise _same_hash(old, text)
        examples.append(f"{show_value(text)} in {nodes.problems.place(new + 1)}")
    rule = f"column {_columns(store).id!r} contains ids that the store has already"
    nodes.problems.examples(f"{rule}; leave out these rows:", examples, len(known))
    nodes.problems.check(nodes.name)
    _, first, counts = np.unique(nodes.keys, return_index=True, return_counts=True)
    for key in nodes.keys[first[counts > 1]]:
        both = pa.array(np.flatnonzero(nodes.keys == key)[:2])
        raise _same_hash(*nodes.ids.take(both).to_pylist())


def _columns(store: Store) -> Columns:
    if store.manifest.columns is None:
        raise ValueError("a synthetic graph has no columns")
    return store.manifest.columns


def _same_hash(one: str, other: str) -> StoreError:
    return StoreError(
        f"the ids {one!r} and {other!r} have the same 64-bit hash, by which a store finds nodes; "
        "this is very rare. Rename one of them in both tables."
    )


class _Reader:
    """Reads a node table as the table of the store was read, and collects its problems."""

    def __init__(
        self, store: Store, columns: Columns, table: TableLike, callback: Callback
    ) -> None:
        opened = open_table(table, "the node table")
        self.name, self._store, self._id, self._callback = opened.name, store, columns.id, callback
        self._nodes = NodeTable(opened, columns.id, columns.label, store.encoders)
        self._format = LabelFormat.of(store.about, store.classes)
        self._new_classes: Counter[str] = Counter()

    def batches(self) -> Iterator[Batch]:
        """Batches of ids, labels and features, which are as the store has them."""
        nodes, problems = self._nodes, self._nodes.problems
        for first_row, batch in nodes.batches(BATCH, self._callback.progress):
            ids = text_of(single_values(batch, self._id, problems))
            y, new = self._format.encode(self._labels(batch), first_row, problems)
            self._new_classes.update(new)
            x = nodes.present.transform(batch, first_row, problems)
            if not problems and not self._new_classes:  # else nothing will be appended
                yield ids, y, self._stored(x, first_row)
            else:
                yield ids, y[:0], x[:0]

    def _labels(self, batch: pa.RecordBatch) -> pa.Array:
        """Labels as they are written; a column that is missing is a problem already."""
        if not self._nodes.has_labels:
            return pa.nulls(batch.num_rows, pa.large_string())
        return label_values(batch, self._nodes.labels, self._nodes.problems)

    def found(self, ids: pa.Array) -> Problems:
        """All problems of the table; values that are not used as they are become notes."""
        nodes, problems = self._nodes, self._nodes.problems
        nodes.check_rows(len(ids))
        if self._id in nodes.columns:
            check_ids(ids, self._id, problems)
        rule = f"{named(nodes.labels)} contains classes that the store does not have"
        advice = "leave these labels empty, or build the store again"
        new = sorted(self._new_classes.items())
        names = [f"{name!r} ({rows} rows)" for name, rows in new]
        problems.examples(f"{rule}; {advice}:", names, len(new))
        if not problems:
            for sentence in problems.notices():
                self._callback.note(sentence)
        return problems

    def _stored(self, x: Any, row: int) -> Any:  # noqa: ANN401
        """Features in the type of the store."""
        if self._store.kind == "csr":
            x.sum_duplicates()
        elif self._store.kind == "float16":
            advice = "Correct the table, or build the store again with --dtype float32."
            return as_float16(x, self.name, row, self._nodes.encoder, advice)
        return x


class _PartsWriter:
    """Writes new nodes to one part after the other."""

    def __init__(self, generation: Generation, room: Room) -> None:
        self._generation, self._room = generation, room
        self._part: _PartWriter | None = None
        self.count = 0

    def add(self, ids: pa.Array, y: Labels, x: Any) -> None:  # noqa: ANN401
        """Add nodes; without labels, they are only counted."""
        start, room = 0, self._room
        while start < len(y):
            place = room.filled + self.count + start
            number = room.first + place // room.capacity
            if self._part is None or self._part.number != number:
                self.finish()
                self._part = _open_part(self._generation, number)
            end = min(len(y), start + room.capacity - place % room.capacity)
            self._part.add(ids[start:end], y[start:end], x[start:end])
            start = end
        self.count += len(ids)

    def finish(self) -> None:
        """Complete the part."""
        if self._part is not None:
            self._part.finish()
        self._part = None


def _open_part(generation: Generation, number: int) -> _PartWriter:
    """Start a part, with the rows that it has already."""
    store = generation.store
    if number >= MAX_PARTS:
        raise StoreError(
            f"{store.directory} would have more than {MAX_PARTS} parts, the most that a store can "
            "have. Build it again with larger parts."
        )
    part = _PartWriter(generation, number)
    if number < store.P:
        part.add(store.ids(number), store.labels(number), store.features(number))
    return part


class _PartWriter:
    """Writes a part: features at once, labels and ids at the end."""

    def __init__(self, generation: Generation, number: int) -> None:
        self.number, self._generation = number, generation
        self._ids, self._labels = list[pa.Array](), list[npt.NDArray[Any]]()
        self._entries = [np.zeros(1, np.int64)]
        names = feature_files(number, generation.store.kind)
        self._names = names[:2]  # indptr is written at the end
        for name in self._names:
            generation.path(name).write_bytes(bytes(HEADER))

    def add(self, ids: pa.Array, y: npt.NDArray[Any], x: Any) -> None:  # noqa: ANN401
        self._ids.append(ids)
        self._labels.append(y.astype(LABELS[self._generation.store.task]))
        if self._generation.store.kind == "csr":
            self._entries.append(np.diff(x.indptr).astype(np.int64))
            arrays = [x.data, x.indices.astype(np.int32)]
        else:
            arrays = [x]
        for name, array in zip(self._names, arrays, strict=True):
            with self._generation.path(name).open("ab") as file:
                file.write(np.ascontiguousarray(array).data)

    def finish(self) -> None:
        generation, store = self._generation, self._generation.store
        labels = np.concatenate(self._labels)
        shapes: list[tuple[tuple[int, ...], str]] = [((len(labels), store.d), store.kind)]
        if store.kind == "csr":
            indptr = np.cumsum(np.concatenate(self._entries))
            shapes = [((int(indptr[-1]),), "float32"), ((int(indptr[-1]),), "int32")]
            generation.save(feature_files(self.number, "csr")[2], indptr)
        for name, (shape, kind) in zip(self._names, shapes, strict=True):
            with generation.path(name).open("r+b") as file:
                file.write(npy_header(shape, kind))
            generation.add(name)
        generation.save(part_file(self.number, "labels.npy"), labels)
        ids = part_file(self.number, "ids.arrow")
        batch = pa.record_batch([pa.concat_arrays(self._ids)], ["id"])
        with generation.path(ids).open("wb") as out, pa.ipc.new_file(out, batch.schema) as writer:
            writer.write_batch(batch)
        generation.add(ids)
