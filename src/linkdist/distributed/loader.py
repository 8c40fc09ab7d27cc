"""The rounds of a training from a store: their order, and a loader that reads one round ahead.

A round trains the links of one bucket, for which its two parts must be in memory. With parts
a, b, c, d the rounds of an epoch are

    aa ad ac ab   bb bd bc   cc cd   dd

so consecutive rounds share a part, and at most one part is read in between: P (P - 1) / 2 + 1 reads
in all. The order of the parts differs from epoch to epoch. A store that fits into memory has one
round per epoch, with all its parts and links.

Dense features are in a matrix with room for a few parts. A part is read directly into its slot and
stays there while rounds need it, so nothing is copied and memory does not grow. CSR features have
no slots: the parts of a round are stacked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.data.links import both_directions
from linkdist.kernels import HAS_TRITON
from linkdist.nn.inputs import DenseInputs, Inputs, make_inputs
from linkdist.store.format import buckets
from linkdist.store.reader import Store
from linkdist.training.link_task import Seen

Edges: TypeAlias = npt.NDArray[np.int32]
Part: TypeAlias = "tuple[Any, npt.NDArray[np.int64]]"
"""The features and labels of a part, as read from disk."""


class Round(NamedTuple):
    """Links that are trained together.

    Attributes
    ----------
    parts : tuple of int
        The parts that must be in memory, in ascending order.
    buckets : tuple of pairs
        The buckets of the links.
    """

    parts: tuple[int, ...]
    buckets: tuple[tuple[int, int], ...]


def rounds_of(P: int, epoch: int) -> list[Round]:
    """The rounds of an epoch, one for each bucket.

    Examples
    --------
    >>> [round.buckets[0] for round in rounds_of(3, epoch=0)]
    [(2, 2), (1, 2), (0, 2), (0, 0), (0, 1), (1, 1)]
    """
    parts = np.random.default_rng(epoch).permutation(P).tolist()
    rounds = []
    for first in range(P):
        for second in (first, *range(P - 1, first, -1)):
            a, b = sorted((parts[first], parts[second]))
            rounds.append(Round((a,) if a == b else (a, b), ((a, b),)))
    return rounds


def whole_round(P: int) -> Round:
    """All parts and all buckets at once.

    Examples
    --------
    >>> whole_round(2)
    Round(parts=(0, 1), buckets=((0, 0), (0, 1), (1, 1)))
    """
    return Round(tuple(range(P)), tuple(buckets(P)))


def slots_of(rounds: Sequence[Round]) -> list[dict[int, int]]:
    """The slot in memory of each part of each round.

    A part keeps its slot while it is needed, and a part that is read during a round gets a free
    one. The slots do not depend on the round at which a training continues.

    Examples
    --------
    >>> slots_of(rounds_of(3, epoch=0))
    [{2: 0}, {1: 1, 2: 0}, {0: 2, 2: 0}, {0: 2}, {0: 2, 1: 1}, {1: 1}]
    """
    pairs = zip(rounds, rounds[1:] or rounds, strict=False)
    holds: list[int | None] = [None] * max(len({*now.parts, *after.parts}) for now, after in pairs)
    slots, busy = [], set[int]()
    for round_ in rounds:
        needed = busy.union(round_.parts)
        for part in sorted(set(round_.parts).difference(holds)):
            holds[next(i for i, held in enumerate(holds) if held not in needed)] = part
        slots.append({part: holds.index(part) for part in round_.parts})
        busy = set(round_.parts)
    return slots


class RoundData(NamedTuple):
    """The training data of a round.

    Attributes
    ----------
    inputs : Inputs
        The features of the parts of the round.
    seen : Seen
        Their links, nodes and labels; the first axis has size one, for all replicas.
    """

    inputs: Inputs
    seen: Seen


class Loader:
    """Reads the data of rounds, one round ahead.

    Parameters
    ----------
    store : Store
        The graph.
    held : mapping of int to (h,) int arrays
        The rows of the validation nodes of each part; their labels are hidden.
    device : torch.device
        The device of the training.
    """

    def __init__(self, store: Store, held: Mapping[int, IntArray], device: torch.device) -> None:
        self.store, self.held, self.device = store, held, device

    def read(self, rounds: Sequence[Round], start: int = 0) -> Iterator[RoundData]:
        """The data of each round from number `start` on."""
        ahead = list(zip(rounds, slots_of(rounds), strict=True))[start:]
        if not ahead:
            return
        parts = SparseParts(self) if self.store.kind == "csr" else DenseParts(self, rounds)

        def load(round_: Round, slots: Mapping[int, int]) -> tuple[dict[int, Part], list[Edges]]:
            """Read from disk; a GPU is left to the thread that trains."""
            new, first = parts.read(slots), parts.first(slots)
            return new, [self._edges(first, *bucket) for bucket in round_.buckets]

        # A round that is repeated at once, such as a whole graph, is read once.
        runs = [(item, len(list(same))) for item, same in groupby(ahead)]
        with ThreadPoolExecutor(1, "read-ahead") as pool:
            reading = pool.submit(load, *runs[0][0])
            for ((_, slots), times), after in zip(runs, [*runs[1:], None], strict=True):
                new, edges = reading.result()
                inputs, labels = parts.place(slots, new)
                data = RoundData(inputs, self._seen(parts.first(slots), edges, labels))
                del new, edges, labels
                if after is not None:
                    reading = pool.submit(load, *after[0])
                yield from repeat(data, times)
                del data, inputs

    def _seen(self, first: Mapping[int, int], edges: Sequence[Edges], labels: Tensor) -> Seen:
        sizes = self.store.sizes
        rows = [np.arange(sizes[part]) + start for part, start in first.items()]
        nodes = torch.from_numpy(np.concatenate(rows)).to(self.device)
        pieces = [torch.from_numpy(piece).to(self.device) for piece in edges]
        both = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        counts = torch.tensor([[len(nodes)]], device=self.device)
        return Seen(both.unsqueeze(0), nodes.unsqueeze(0), counts, labels.unsqueeze(0))

    def _edges(self, first: Mapping[int, int], a: int, b: int) -> Edges:
        """The links of a bucket in both directions, a self-loop once."""
        links = self.store.links(a, b).astype(np.int32)
        links += np.array([first[a], first[b]], dtype=np.int32)
        return both_directions(links)

    def labels(self, part: int) -> npt.NDArray[np.int64]:
        """The labels of a part, without those of validation nodes."""
        y = self.store.labels(part).astype(np.int64)
        if part in self.held:
            y[self.held[part]] = UNKNOWN
        return y


class DenseParts:
    """Parts with dense features: a matrix with a few slots."""

    def __init__(self, loader: Loader, rounds: Sequence[Round]) -> None:
        self.loader, self.store, self.device = loader, loader.store, loader.device
        store, self.on_gpu = self.store, is_gpu(self.device)
        self.slot_rows = rows = int(store.sizes.max())
        slots = 1 + max(slot for each in slots_of(rounds) for slot in each.values())
        width = store.d + (-store.d % 8 if self.on_gpu else 0)  # see DenseInputs
        dtype = getattr(torch, store.kind)
        self.matrix = torch.zeros(slots * rows, width, dtype=dtype, device=self.device)
        self.y = torch.full((slots * rows,), UNKNOWN, device=self.device)
        out = torch.bfloat16 if self.on_gpu and HAS_TRITON else torch.float32
        self.inputs = DenseInputs(self.matrix, out=out)
        self.holds: dict[int, int] = {}
        # A GPU copies a part several times faster from pinned memory. One staging buffer is
        # enough: rounds after the first need one new part, which is copied before the next read.
        staged = self.on_gpu and len(rounds[0].parts) < store.P
        pinned = staged and self.device.type == "cuda"
        self.staging = torch.empty((rows * staged, store.d), dtype=dtype, pin_memory=pinned)

    def read(self, slots: Mapping[int, int]) -> dict[int, Part]:
        """Read the parts that are missing; on the CPU directly into their slots."""
        new: dict[int, Part] = {}
        for part, slot in slots.items():
            if self.holds.get(slot) != part:
                row, n = slot * self.slot_rows, int(self.store.sizes[part])
                if self.on_gpu:
                    out = self.staging[:n].numpy() if len(self.staging) and not new else None
                else:
                    out = self.matrix[row : row + n].numpy()
                new[part] = (self.store.features(part, out=out), self.loader.labels(part))
                self.holds[slot] = part
        return new

    def first(self, slots: Mapping[int, int]) -> dict[int, int]:
        """The first row of each part."""
        return {part: slot * self.slot_rows for part, slot in slots.items()}

    def place(self, slots: Mapping[int, int], new: Mapping[int, Part]) -> tuple[Inputs, Tensor]:
        """Copy the new parts to their slots; returns all features and labels."""
        first = self.first(slots)
        for part, (x, y) in new.items():
            rows = slice(first[part], first[part] + len(y))
            if self.on_gpu:
                self.matrix[rows, : self.store.d].copy_(torch.from_numpy(x))
            self.y[rows] = torch.from_numpy(y).to(self.device)
        return self.inputs, self.y


def is_gpu(device: torch.device) -> bool:
    """Whether data must be copied to the device after reading.

    Examples
    --------
    >>> is_gpu(torch.device("cpu"))
    False
    """
    return device.type == "cuda"


class SparseParts:
    """Parts with CSR features, stacked for each round."""

    def __init__(self, loader: Loader) -> None:
        self.loader, self.store = loader, loader.store
        self.holds: dict[int, Part] = {}

    def read(self, slots: Mapping[int, int]) -> dict[int, Part]:
        """Read the parts that are missing, and drop those that are not needed."""
        self.holds = {
            part: self.holds.get(part) or (self.store.features(part), self.loader.labels(part))
            for part in slots
        }
        return dict(self.holds)

    def first(self, slots: Mapping[int, int]) -> dict[int, int]:
        """The first row of each part."""
        ends = np.cumsum([0, *self.store.sizes[list(slots)]]).tolist()
        return dict(zip(slots, ends, strict=False))

    def place(self, slots: Mapping[int, int], new: Mapping[int, Part]) -> tuple[Inputs, Tensor]:
        """Stack the parts; returns their features and labels."""
        x = [new[part][0] for part in slots]
        y = np.concatenate([new[part][1] for part in slots])
        stacked = x[0] if len(x) == 1 else sparse.vstack(x, format="csr")
        device = self.loader.device
        return make_inputs(stacked, device), torch.from_numpy(y).to(device)
