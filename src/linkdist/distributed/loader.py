"""A store's parts and links as training wants them, the next ones read while these are trained.

Dense features lie in a matrix with room for a few parts. A part is read straight into its place and
stays there for as long as the rounds need it, so that nothing is copied and memory does not grow.
CSR features have no such places: the parts of a round are put below each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from linkdist.distributed.schedule import Round, places_of
from linkdist.kernels.backends import HAS_TRITON
from linkdist.nn.inputs import DenseInputs, Inputs, make_inputs
from linkdist.store.reader import Store
from linkdist.training.loop import Seen


class Fed(NamedTuple):
    """What a round trains on.

    Attributes
    ----------
    inputs : Inputs
        With the features of the round's parts.
    seen : Seen
        Their links, nodes and labels; its first axis has one entry, the same for all replicas.
    """

    inputs: Inputs
    seen: Seen


class Feed:
    """Reads what rounds need, one round ahead.

    Parameters
    ----------
    store : Store
        Where it lies.
    held : mapping of int to (h,) int arrays
        The rows of each part whose labels are held out.
    device : torch.device
        Where training runs.
    """

    def __init__(self, store: Store, held: Mapping[int, IntArray], device: torch.device) -> None:
        self.store, self.held, self.device = store, held, device

    def read(self, rounds: Sequence[Round], start: int = 0) -> Iterator[Fed]:
        """Everything that each of the rounds from `start` on needs, in their order."""
        ahead = list(zip(rounds, places_of(rounds), strict=True))[start:]
        if not ahead:
            return
        room = SparseRoom(self) if self.store.kind == "csr" else DenseRoom(self, rounds)
        # A round that comes again at once, as a whole graph does, is read once.
        runs = [(item, len(list(again))) for item, again in groupby(ahead)]
        with ThreadPoolExecutor(1, "read-ahead") as pool:
            reading = pool.submit(self._read, room, *runs[0][0])
            for ((_, places), times), after in zip(runs, [*runs[1:], None], strict=True):
                new, edges = reading.result()
                fed = self._fed(room.place(places, new), edges)
                del new, edges
                if after is not None:
                    reading = pool.submit(self._read, room, *after[0])
                yield from repeat(fed, times)
                del fed

    def _read(self, room: Room, round_: Round, places: Mapping[int, int]) -> Read:
        """What must come from the disk; the GPU, if any, is left to the thread that trains."""
        new = room.read(places)
        first = room.first(places)
        return Read(new, [self._edges(first, *bucket) for bucket in round_.buckets])

    def _fed(self, placed: Placed, edges: Sequence[npt.NDArray[np.int32]]) -> Fed:
        sizes = self.store.sizes
        nodes = [np.arange(sizes[part]) + first for part, first in placed.first.items()]
        there = torch.from_numpy(np.concatenate(nodes)).to(self.device)
        pieces = [torch.from_numpy(piece).to(self.device) for piece in edges]
        seen = Seen(
            edges=(pieces[0] if len(pieces) == 1 else torch.cat(pieces)).unsqueeze(0),
            nodes=there.unsqueeze(0),
            counts=torch.tensor([[len(there)]], device=self.device),
            labels=placed.labels.unsqueeze(0),
        )
        return Fed(placed.inputs, seen)

    def _edges(self, first: Mapping[int, int], a: int, b: int) -> npt.NDArray[np.int32]:
        """A bucket's links in both directions, a self-loop once."""
        links = self.store.links(a, b).astype(np.int32)
        links += np.array([first[a], first[b]], dtype=np.int32)
        back = links if a != b else links[links[:, 0] != links[:, 1]]
        return np.concatenate([links, back[:, ::-1]])

    def labels(self, part: int) -> npt.NDArray[np.int64]:
        """A part's labels, those that are held out left out."""
        y = self.store.labels(part).astype(np.int64)
        if part in self.held:
            y[self.held[part]] = UNKNOWN
        return y


Part: TypeAlias = "tuple[Any, npt.NDArray[np.int64]]"
"""A part's features and labels, as they come from the disk."""


class Read(NamedTuple):
    """What was read for a round: the parts that were missing, and the edges of each bucket."""

    new: Mapping[int, Part]
    edges: Sequence[npt.NDArray[np.int32]]


class Placed(NamedTuple):
    """The features and labels of some parts, and the row at which each part begins."""

    inputs: Inputs
    labels: Tensor
    first: Mapping[int, int]


class Room(ABC):
    """Where parts lie in memory."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.store, self.device = feed, feed.store, feed.device

    @abstractmethod
    def read(self, places: Mapping[int, int]) -> dict[int, Part]:
        """Read the parts that are missing, while others are at work."""

    @abstractmethod
    def first(self, places: Mapping[int, int]) -> dict[int, int]:
        """The row at which each part begins."""

    @abstractmethod
    def place(self, places: Mapping[int, int], new: Mapping[int, Part]) -> Placed:
        """Put what was read where it belongs."""


class DenseRoom(Room):
    """A matrix with a place for a few parts."""

    def __init__(self, feed: Feed, rounds: Sequence[Round]) -> None:
        super().__init__(feed)
        store, self.on_gpu = self.store, is_gpu(self.device)
        parts = 1 + max(place for places in places_of(rounds) for place in places.values())
        self.most = int(store.sizes.max())
        width = store.d + (-store.d % 8 if self.on_gpu else 0)  # see DenseInputs
        kind = getattr(torch, store.kind)
        self.matrix = torch.zeros(parts * self.most, width, dtype=kind, device=self.device)
        self.y = torch.full((parts * self.most,), UNKNOWN, device=self.device)
        out = torch.bfloat16 if self.on_gpu and HAS_TRITON else torch.float32
        self.inputs = DenseInputs(self.matrix, out=out)
        self.holds: dict[int, int] = {}
        # A GPU fetches a part several times as fast from memory that stays where it is. One is
        # enough: rounds after the first need one new part, and it is there before more is read.
        staged = self.on_gpu and len(rounds[0].parts) < store.P
        shape = (self.most if staged else 0, store.d)
        pinned = staged and self.device.type == "cuda"
        self.staging = torch.empty(shape, dtype=kind, pin_memory=pinned)

    def read(self, places: Mapping[int, int]) -> dict[int, Part]:
        """Read the parts that are missing; without a GPU, straight into their places."""
        new: dict[int, Part] = {}
        for part, place in places.items():
            if self.holds.get(place) != part:
                row, n = place * self.most, int(self.store.sizes[part])
                if self.on_gpu:
                    out = self.staging[:n].numpy() if len(self.staging) and not new else None
                else:
                    out = self.matrix[row : row + n].numpy()
                new[part] = (self.store.features(part, out=out), self.feed.labels(part))
                self.holds[place] = part
        return new

    def first(self, places: Mapping[int, int]) -> dict[int, int]:
        """The row at which each part begins."""
        return {part: place * self.most for part, place in places.items()}

    def place(self, places: Mapping[int, int], new: Mapping[int, Part]) -> Placed:
        """Put what was read where it belongs."""
        first = self.first(places)
        for part, (x, y) in new.items():
            rows = slice(first[part], first[part] + len(y))
            if self.on_gpu:
                self.matrix[rows, : self.store.d].copy_(torch.from_numpy(x))
            self.y[rows] = torch.from_numpy(y).to(self.device)
        return Placed(self.inputs, self.y, first)


def is_gpu(device: torch.device) -> bool:
    """Whether what is read must be copied to get there.

    Examples
    --------
    >>> is_gpu(torch.device("cpu"))
    False
    """
    return device.type == "cuda"


class SparseRoom(Room):
    """CSR matrices, put below each other for each round."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed)
        self.holds: dict[int, Part] = {}

    def read(self, places: Mapping[int, int]) -> dict[int, Part]:
        """Read the parts that are missing, and forget those that are not needed."""
        self.holds = {
            part: self.holds.get(part) or (self.store.features(part), self.feed.labels(part))
            for part in places
        }
        return dict(self.holds)

    def first(self, places: Mapping[int, int]) -> dict[int, int]:
        """The row at which each part begins."""
        ends = np.cumsum([0, *self.store.sizes[list(places)]]).tolist()
        return dict(zip(places, ends, strict=False))

    def place(self, places: Mapping[int, int], new: Mapping[int, Part]) -> Placed:
        """Put what was read below each other."""
        x = [new[part][0] for part in places]
        y = np.concatenate([new[part][1] for part in places])
        inputs = make_inputs(x[0] if len(x) == 1 else sparse.vstack(x, format="csr"), self.device)
        return Placed(inputs, torch.from_numpy(y).to(self.device), self.first(places))
