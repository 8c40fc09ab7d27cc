"""A loader that reads the data of rounds one round ahead.

Dense features are in a matrix with room for a few parts. A part is read directly into its slot and
stays there while rounds need it, so nothing is copied and memory does not grow. CSR features have
no slots: the parts of a round are stacked. For dense features on a GPU see `device_parts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, repeat
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.data.links import both_directions
from linkdist.distributed.device_parts import DeviceParts, Loaded, Part
from linkdist.distributed.rounds import Round as Round
from linkdist.distributed.rounds import RoundData as RoundData
from linkdist.distributed.rounds import rounds_of as rounds_of
from linkdist.distributed.rounds import slots_of as slots_of
from linkdist.distributed.rounds import whole_round as whole_round
from linkdist.kernels import HAS_TRITON
from linkdist.nn.inputs import DenseInputs, Inputs, make_inputs
from linkdist.store.reader import Store
from linkdist.training.link_task import Seen

Edges: TypeAlias = npt.NDArray[np.int32]


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
        parts = self._parts(rounds)
        # A round that is repeated at once, such as a whole graph, is read once.
        runs = [(item, len(list(same))) for item, same in groupby(ahead)]
        with ThreadPoolExecutor(1, "read-ahead") as pool:
            reading = pool.submit(parts.load, *runs[0][0])
            for ((round_, slots), times), after in zip(runs, [*runs[1:], None], strict=True):
                data = parts.assemble(round_, slots, reading.result())
                if after is not None:
                    reading = pool.submit(parts.load, *after[0])
                yield from repeat(data, times)
                del data

    def _parts(self, rounds: Sequence[Round]) -> HostParts | DeviceParts:
        if self.store.kind == "csr":
            return SparseParts(self)
        if not is_gpu(self.device):
            return DenseParts(self, rounds)
        out = torch.bfloat16 if HAS_TRITON else torch.float32
        return DeviceParts(self.store, self.labels, rounds, self.device, out)

    def labels(self, part: int) -> IntArray:
        """The labels of a part, without those of validation nodes."""
        y = self.store.labels(part).astype(np.int64)
        if part in self.held:
            y[self.held[part]] = UNKNOWN
        return y


def is_gpu(device: torch.device) -> bool:
    """Whether data must be copied to the device after reading.

    Examples
    --------
    >>> is_gpu(torch.device("cpu"))
    False
    """
    return device.type == "cuda"


class HostParts(ABC):
    """Parts and links that are assembled in the memory of the host, with new edges in each round.

    Parameters
    ----------
    loader : Loader
        Names the store and the device, and hides the labels of validation nodes.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader, self.store, self.device = loader, loader.store, loader.device

    @abstractmethod
    def read(self, slots: Mapping[int, int]) -> dict[int, Part]:
        """Read the parts that are missing."""

    @abstractmethod
    def first(self, slots: Mapping[int, int]) -> dict[int, int]:
        """The first row of each part."""

    @abstractmethod
    def place(self, slots: Mapping[int, int], new: Mapping[int, Part]) -> tuple[Inputs, Tensor]:
        """Put the new parts in their places; returns all features and labels."""

    def load(self, round_: Round, slots: Mapping[int, int]) -> Loaded:
        """Read from disk; a GPU is left to the thread that trains."""
        new, first = self.read(slots), self.first(slots)
        return new, [self._edges(first, *bucket) for bucket in round_.buckets]

    def assemble(self, round_: Round, slots: Mapping[int, int], loaded: Loaded) -> RoundData:
        """The data of a round, on the device."""
        new, edges = loaded
        inputs, labels = self.place(slots, new)
        seen = self._seen(self.first(slots), edges, labels)
        return RoundData(inputs, seen, seen.edges.shape[1], fixed=False)

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


class DenseParts(HostParts):
    """Parts with dense features: a matrix with a few slots."""

    def __init__(self, loader: Loader, rounds: Sequence[Round]) -> None:
        super().__init__(loader)
        store, self.slot_rows = self.store, int(self.store.sizes.max())
        rows = self.slot_rows * (1 + max(max(each.values()) for each in slots_of(rounds)))
        self.matrix = torch.zeros(rows, store.d, dtype=getattr(torch, store.kind))
        self.y = torch.full((rows,), UNKNOWN)
        self.inputs = DenseInputs(self.matrix)
        self.holds: dict[int, int] = {}

    def read(self, slots: Mapping[int, int]) -> dict[int, Part]:
        """Read the parts that are missing directly into their slots."""
        new: dict[int, Part] = {}
        for part, slot in slots.items():
            if self.holds.get(slot) != part:
                row, n = slot * self.slot_rows, int(self.store.sizes[part])
                out = self.matrix[row : row + n].numpy()
                new[part] = (self.store.features(part, out=out), self.loader.labels(part))
                self.holds[slot] = part
        return new

    def first(self, slots: Mapping[int, int]) -> dict[int, int]:
        """The first row of each part."""
        return {part: slot * self.slot_rows for part, slot in slots.items()}

    def place(self, slots: Mapping[int, int], new: Mapping[int, Part]) -> tuple[Inputs, Tensor]:
        """Copy the labels of the new parts; returns all features and labels."""
        first = self.first(slots)
        for part, (_, y) in new.items():
            self.y[first[part] : first[part] + len(y)] = torch.from_numpy(y)
        return self.inputs, self.y


class SparseParts(HostParts):
    """Parts with CSR features, stacked for each round."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
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
        return make_inputs(stacked, self.device), torch.from_numpy(y).to(self.device)
