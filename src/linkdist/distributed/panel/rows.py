"""The rows of a part that students learn from: features, targets and the neighbours' targets.

A part whose rows do not fit into memory is divided into slices: every k-th row, from different
starts, so that each slice is a random sample of the part. Slices are read one ahead. Where all of
them fit, they are read once and stay in memory. On a GPU the rows in use have a fixed place, so
that a step that was recorded stays valid (`training.loop.Loop.refill`); the thread that reads ahead
makes no call of CUDA, which could disturb a recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from linkdist.data.graph import IntArray
from linkdist.distributed.memory import release_unused
from linkdist.distributed.panel.columns import Columns
from linkdist.distributed.panel.workshop import Hidden
from linkdist.kernels import HAS_TRITON
from linkdist.nn.inputs import DenseInputs, Inputs, make_inputs
from linkdist.store.reader import Store


@dataclass(frozen=True)
class SliceData:
    """A slice of a part in memory.

    Attributes
    ----------
    features : tensor or CSR matrix
        The features (k, d).
    targets : (R, k, C) tensor
        t, in float16.
    beside : (K, R, k, C) tensor
        t̄ of each head, in float16.
    nodes : list of int arrays
        The rows of the slice that each replica sees.
    """

    features: Any
    targets: Tensor
    beside: Tensor
    nodes: list[IntArray]

    def to(self, device: torch.device) -> SliceData:
        """The slice on a device; CSR features stay where they are."""
        dense = isinstance(self.features, Tensor)
        features = self.features.to(device) if dense else self.features
        return SliceData(features, self.targets.to(device), self.beside.to(device), self.nodes)


@dataclass
class TargetRows:
    """Reads the parts that R students learn from.

    A slice of which a replica sees no row is omitted.

    Attributes
    ----------
    store : Store
        The graph.
    targets : sequence of Columns
        Those of each replica.
    beside : sequence of sequences of Columns
        Those of the neighbours, for each replica and head.
    hidden : sequence of mappings
        The rows that each replica does not see.
    device : torch.device
        Where the students are trained.
    room : int
        Bytes that parts may take.
    """

    store: Store
    targets: Sequence[Columns]
    beside: Sequence[Sequence[Columns]]
    hidden: Sequence[Hidden]
    device: torch.device
    room: int
    _held: dict[int, SliceData] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Divide the parts so that two slices, one in use and one read ahead, fit.

        All pages of a part are in memory while a slice of it is read, so this needs room as well.
        """
        R, K, store = len(self.targets), len(self.beside[0]), self.store
        row = (1 + K) * R * store.C * 2
        each = [
            own + row * n for own, n in zip(store.part_bytes, store.manifest.sizes, strict=True)
        ]
        free = max(self.room - max(each), self.room // 4, 1)
        self.slices = -(-2 * max(each) // free)
        self.whole = sum(each) <= self.room
        every = [(part, start) for part in range(store.P) for start in range(self.slices)]
        counts = {unit: [self._visible(unit, hidden) for hidden in self.hidden] for unit in every}
        # A step needs a row of each replica. A part may be empty, or smaller than others.
        self.units = [unit for unit in every if min(counts[unit])]
        self.nodes = [counts[unit] for unit in self.units]

    def _visible(self, unit: tuple[int, int], hidden: Hidden) -> int:
        """The number of rows of a slice that a replica sees."""
        part, start = unit
        rows = np.asarray(hidden.get(part, []), dtype=np.int64)
        n = len(range(start, self.store.manifest.sizes[part], self.slices))
        return n - int((rows % self.slices == start).sum())

    @property
    def most(self) -> int:
        """The largest number of rows of a slice."""
        return -(-max(self.store.manifest.sizes) // self.slices)

    def read(self, units: Sequence[int]) -> Iterator[SliceData]:
        """The data of some slices, one after the other; the next one is read meanwhile."""
        if not units:
            return
        with ThreadPoolExecutor(1, "read-ahead") as pool:
            reading = pool.submit(self._slice, units[0])
            for unit, after in zip(units, [*units[1:], None], strict=True):
                data = reading.result().to(self.device)
                if self.whole:
                    self._held[unit] = data
                if after is not None:
                    reading = pool.submit(self._slice, after)
                yield data
                del data

    def _slice(self, unit: int) -> SliceData:
        return self._held[unit] if unit in self._held else self._read(*self.units[unit])

    def _read(self, part: int, start: int) -> SliceData:
        rows, x = slice(start, None, self.slices), self.store.features(part)
        own = x[rows]
        place = np.arange(own.shape[0]) * self.slices + start
        heads = zip(*self.beside, strict=True)
        return SliceData(
            own if sparse.issparse(own) else torch.from_numpy(np.ascontiguousarray(own)),
            torch.stack([one.read(part)[rows] for one in self.targets]),
            torch.stack([torch.stack([one.read(part)[rows] for one in head]) for head in heads]),
            [
                np.flatnonzero(~np.isin(place, np.asarray(hidden.get(part, []))))
                for hidden in self.hidden
            ],
        )


class Buffers:
    """The rows in use, at fixed addresses for dense features on a GPU."""

    def __init__(self, rows: TargetRows) -> None:
        self.rows, self.device = rows, rows.device
        self.inputs: Inputs | None = None
        self.fixed = self.device.type == "cuda" and rows.store.kind != "csr"
        self.targets = self.beside = self.nodes = torch.empty(0)

    def clear(self) -> None:
        """Free the memory of the rows."""
        self.inputs = None
        self.targets = self.beside = self.nodes = torch.empty(0)
        release_unused()

    def fill(self, data: SliceData) -> None:
        """Put a slice in place."""
        nodes = torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(one) for one in data.nodes], batch_first=True
        ).to(self.device)
        if not self.fixed:
            self.inputs = (
                make_inputs(data.features, self.device)
                if sparse.issparse(data.features)
                else DenseInputs(data.features)
            )
            self.targets, self.beside, self.nodes = data.targets, data.beside, nodes
            return
        if self.inputs is None:
            self._allocate(data)
        n = data.targets.shape[1]
        self.matrix[:n, : data.features.shape[1]].copy_(data.features)
        self.targets[:, :n].copy_(data.targets)
        self.beside[:, :, :n].copy_(data.beside)
        self.nodes[:, : nodes.shape[1]].copy_(nodes)

    def _allocate(self, data: SliceData) -> None:
        most, d = self.rows.most, data.features.shape[1]
        R, _, C = data.targets.shape
        width = d + -d % 8  # see DenseInputs
        self.matrix = torch.zeros(most, width, dtype=data.features.dtype, device=self.device)
        out = torch.bfloat16 if HAS_TRITON else torch.float32
        self.inputs = DenseInputs(self.matrix, out=out)
        self.targets = data.targets.new_zeros(R, most, C)
        self.beside = data.beside.new_zeros(len(data.beside), R, most, C)
        self.nodes = torch.zeros(R, most, dtype=torch.int64, device=self.device)
