"""A store's parts and links as training wants them, the next ones read while these are trained.

Dense features lie in a matrix with room for a few parts. A part is read straight into its place and
stays there for as long as the rounds need it, so that nothing is copied and memory does not grow.
CSR features have no such places: the parts of a round are put below each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from linkdist.backends import HAS_TRITON
from linkdist.graph import UNKNOWN, IntArray
from linkdist.inputs import DenseInputs, Inputs, make_inputs
from linkdist.scale.rounds import Round, places_of
from linkdist.scale.store import Store
from linkdist.training import Seen


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
        with ThreadPoolExecutor(1, "read-ahead") as pool:
            reading = pool.submit(self._fed, room, *ahead[0])
            for after in [*ahead[1:], None]:
                fed = reading.result()
                if after is not None:
                    reading = pool.submit(self._fed, room, *after)
                yield fed
                # Let go of it before the next one comes.
                del fed

    def _fed(self, room: Room, round_: Round, places: Mapping[int, int]) -> Fed:
        placed = room.place(places)
        sizes = self.store.sizes
        nodes = [np.arange(sizes[p]) + placed.first[p] for p in round_.parts]
        edges = np.concatenate([self._edges(placed.first, *bucket) for bucket in round_.buckets])
        there = torch.from_numpy(np.concatenate(nodes)).to(self.device)
        seen = Seen(
            edges=torch.from_numpy(edges).to(self.device).unsqueeze(0),
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
    def place(self, places: Mapping[int, int]) -> Placed:
        """See to it that some parts are there, each in its place."""


class DenseRoom(Room):
    """A matrix with a place for a few parts."""

    def __init__(self, feed: Feed, rounds: Sequence[Round]) -> None:
        super().__init__(feed)
        store, on_gpu = self.store, self.device.type == "cuda"
        parts = 1 + max(place for places in places_of(rounds) for place in places.values())
        self.most = int(store.sizes.max())
        width = store.d + (-store.d % 8 if on_gpu else 0)  # see DenseInputs
        kind = getattr(torch, store.kind)
        self.matrix = torch.zeros(parts * self.most, width, dtype=kind, device=self.device)
        self.y = torch.full((parts * self.most,), UNKNOWN, device=self.device)
        out = torch.bfloat16 if on_gpu and HAS_TRITON else torch.float32
        self.inputs = DenseInputs(self.matrix, out=out)
        self.holds: dict[int, int] = {}
        self.aside = np.empty((self.most, store.d), store.kind) if on_gpu else None

    def place(self, places: Mapping[int, int]) -> Placed:
        """Read what is missing into its place."""
        for part, place in places.items():
            if self.holds.get(place) != part:
                self._read(part, place * self.most)
                self.holds[place] = part
        first = {part: place * self.most for part, place in places.items()}
        return Placed(self.inputs, self.y, first)

    def _read(self, part: int, row: int) -> None:
        n = int(self.store.sizes[part])
        if self.aside is None:
            self.store.features(part, out=self.matrix[row : row + n].numpy())
        else:
            x: Any = self.store.features(part, out=self.aside)
            self.matrix[row : row + n, : self.store.d] = torch.from_numpy(x)
        self.y[row : row + n] = torch.from_numpy(self.feed.labels(part))


class SparseRoom(Room):
    """CSR matrices, put below each other for each round."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed)
        self.holds: dict[int, tuple[sparse.csr_matrix, npt.NDArray[np.int64]]] = {}

    def place(self, places: Mapping[int, int]) -> Placed:
        """Read what is missing, and forget what is not needed."""
        self.holds = {
            part: self.holds.get(part) or (self.store.features(part), self.feed.labels(part))
            for part in places
        }
        x = [x for x, _ in self.holds.values()]
        y = np.concatenate([y for _, y in self.holds.values()])
        inputs = make_inputs(x[0] if len(x) == 1 else sparse.vstack(x, format="csr"), self.device)
        ends = np.cumsum([0, *(len(y) for _, y in self.holds.values())]).tolist()
        first = dict(zip(places, ends, strict=False))
        return Placed(inputs, torch.from_numpy(y).to(self.device), first)
