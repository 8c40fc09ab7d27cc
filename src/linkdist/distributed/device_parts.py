"""The data of rounds on a GPU, in the same tensors for all rounds.

A recorded step reads its data from the addresses at which they were when it was recorded (see
`training.loop`). All tensors of a round are therefore allocated once, for the largest round:

    disk -> pinned memory                 by the thread that reads ahead
         -> free slot, incoming edges     on a copy stream, during the steps of the previous round
         -> edges, visible nodes          on the training stream, after these steps

The parts of a round are in slots that the previous round does not use. Edges have no slots: both
directions of the links are made in a second buffer, which is then copied within the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.distributed.rounds import Round, RoundData, largest_round, slots_of
from linkdist.nn.inputs import DenseInputs
from linkdist.store.reader import Store
from linkdist.training.link_task import Seen

Part: TypeAlias = "tuple[Any, IntArray]"
"""The features and labels of a part, as read from disk."""
Loaded: TypeAlias = "tuple[dict[int, Part], list[npt.NDArray[Any]]]"
"""The parts of a round that are new, and the links or edges of its buckets."""


class CopyStream:
    """A stream for copies to a GPU during training; other devices copy at once.

    Examples
    --------
    >>> copies, x = CopyStream(torch.device("cpu")), torch.zeros(2)
    >>> with copies.active():
    ...     _ = x.copy_(torch.ones(2), non_blocking=True)
    >>> copies.mark()
    >>> x
    tensor([1., 1.])
    """

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        if self.on_gpu:
            self.stream, self.marked = torch.cuda.Stream(device), torch.cuda.Event()
            self.mark()

    def mark(self) -> None:
        """Let later copies wait for all work that the current stream has now."""
        if self.on_gpu:
            self.marked.record()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Copy after the marked work; at the end the host waits for the copies alone."""
        if not self.on_gpu:
            yield
            return
        self.stream.wait_event(self.marked)
        with torch.cuda.stream(self.stream):
            yield
        self.stream.synchronize()


class DeviceParts:
    """Parts with dense features on a GPU: a matrix with a few slots, and buffers for the links.

    Parameters
    ----------
    store : Store
        The graph.
    labels : callable
        Maps a part to the labels (n_p,) of its nodes that training may see.
    rounds : sequence of Round
        The rounds whose data will be loaded.
    device : torch.device
        The device of the training.
    out : torch.dtype
        The type of the products with the features; see `DenseInputs`.
    """

    def __init__(
        self,
        store: Store,
        labels: Callable[[int], IntArray],
        rounds: Sequence[Round],
        device: torch.device,
        out: torch.dtype,
    ) -> None:
        self.store, self.labels, self.slot_rows = store, labels, int(store.sizes.max())
        self.holds: dict[int, int] = {}
        rows = self.slot_rows * (1 + max(max(each.values()) for each in slots_of(rounds)))
        kind, padded = getattr(torch, store.kind), store.d + -store.d % 8  # see DenseInputs
        self.inputs = DenseInputs(torch.zeros(rows, padded, dtype=kind, device=device), out=out)
        self.y = torch.full((rows,), UNKNOWN, device=device)
        size = (largest_round(store, rounds), 2)
        self.edges = torch.zeros(size, dtype=torch.int32, device=device)
        nodes = max(int(store.sizes[list(round_.parts)].sum()) for round_ in set(rounds))
        self.nodes = torch.zeros(nodes, dtype=torch.int64, device=device)
        self.counts = torch.zeros(1, 1, dtype=torch.int64, device=device)
        # A single round, such as a whole graph, is copied once, before any step.
        several = len(set(rounds)) > 1
        self.incoming = torch.empty_like(self.edges) if several else self.edges
        self.staging, self.staged_links = self._staging(several, kind, device.type == "cuda")
        self.copies = CopyStream(device)

    def _staging(self, several: bool, kind: torch.dtype, pin: bool) -> tuple[Tensor, Tensor]:
        """Memory for a part and a bucket, from which a GPU copies several times faster.

        One part is enough: rounds after the first need one new part, which is copied before the
        next read.
        """
        rows, links = (self.slot_rows, int(self.store.counts.max())) if several else (0, 0)
        part = torch.empty(rows, self.store.d, dtype=kind, pin_memory=pin and several)
        return part, torch.empty(links, 2, dtype=torch.int32, pin_memory=pin and several)

    def load(self, round_: Round, slots: Mapping[int, int]) -> Loaded:
        """Read what is missing from disk; a GPU is left to the thread that trains."""
        new: dict[int, Part] = {}
        for part, slot in slots.items():
            if self.holds.get(slot) != part:
                staged = self.staging.numpy() if len(self.staging) and not new else None
                new[part] = (self.store.features(part, out=staged), self.labels(part))
                self.holds[slot] = part
        staged = self.staged_links.numpy().view(np.uint32)
        single = len(staged) > 0 and len(round_.buckets) == 1
        return new, [self.store.links(*b, out=staged if single else None) for b in round_.buckets]

    def assemble(self, round_: Round, slots: Mapping[int, int], loaded: Loaded) -> RoundData:
        """Copy the data of a round to its place, on the GPU without waiting for training."""
        first = {part: slot * self.slot_rows for part, slot in slots.items()}
        new, links = loaded
        with self.copies.active():
            for part, (x, y) in new.items():
                rows = slice(first[part], first[part] + len(y))
                features = self.inputs.matrix[rows, : self.store.d]
                features.copy_(torch.from_numpy(x), non_blocking=True)
                self.y[rows].copy_(torch.from_numpy(y), non_blocking=True)
            length = 0
            for (a, b), pairs in zip(round_.buckets, links, strict=True):
                length = self._add_edges(length, pairs, first[a], first[b])
        if self.incoming is not self.edges:
            self.edges[:length].copy_(self.incoming[:length])
        self._see_nodes(first)
        self.copies.mark()
        tensors = (self.edges, self.nodes, self.counts[0], self.y)
        return RoundData(self.inputs, Seen(*(t.unsqueeze(0) for t in tensors)), length, fixed=True)

    def _add_edges(self, at: int, links: npt.NDArray[np.uint32], first: int, second: int) -> int:
        """Put both directions of links at a row, a self-loop once; returns the next row."""
        ahead = self.incoming[at : at + len(links)]
        ahead.copy_(torch.from_numpy(links.view(np.int32)), non_blocking=True)
        ahead[:, 0].add_(first)
        ahead[:, 1].add_(second)
        back = ahead.flip(1)
        if first == second:
            back = back[back[:, 0] != back[:, 1]]  # the host waits for the copy stream alone
        at += len(links)
        self.incoming[at : at + len(back)].copy_(back)
        return at + len(back)

    def _see_nodes(self, first: Mapping[int, int]) -> None:
        at = 0
        for part, start in first.items():
            n = int(self.store.sizes[part])
            torch.arange(start, start + n, out=self.nodes[at : at + n])
            at += n
        self.counts.fill_(at)
