"""The random numbers of training, and the order in which an epoch visits its items.

Each replica has its own random streams, so it draws the same numbers whether it is trained alone or
beside others. The streams restart with every epoch from the replica's seed and the epoch's number:
an epoch does not depend on how much was drawn before it.

An epoch visits its items in a random permutation, which takes eight bytes per item. With so many
items that this would not fit into memory, a stride visits them instead: with a and n coprime,

    i -> (a i + b) mod n

visits every item once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from linkdist.kernels import uses_triton
from linkdist.nn.network import DROPOUT, generators, kept_of_256

STRIDE_FROM = 1 << 28
"""Number of items from which a stride replaces the permutation."""


class RandomStreams:
    """The random numbers of R replicas, each from its own stream for every epoch.

    On a GPU the numbers of a step are a function of replica, epoch and step, so that a CUDA graph
    of a step draws new numbers at each replay.

    Parameters
    ----------
    seeds : sequence of int
        One for each replica.
    device : torch.device
        Where the numbers are needed.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self.seeds = seeds
        self.generators = generators(seeds, device)
        self.device = device
        self.keys = torch.zeros(len(seeds), dtype=torch.int64, device=device)
        self.drawn = torch.zeros((), dtype=torch.int64, device=device)

    def begin_epoch(self, epoch: int) -> None:
        """Start the streams of an epoch, independent of earlier epochs and of the weights' stream.

        A replica that waits for the others draws numbers that it does not use; this restart makes
        them irrelevant.
        """
        states = [
            np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
            for seed in self.seeds
        ]
        for generator, state in zip(self.generators, states, strict=True):
            generator.manual_seed(int(state))
        # The lowest bits of a key are reserved for the number of the step.
        keys = np.array(states, dtype=np.uint64) & ~np.uint64((1 << 24) - 1)
        self.keys.copy_(torch.from_numpy(keys.view(np.int64)))
        self.drawn.zero_()

    def draw(
        self,
        rows: Sequence[int],
        width: int,
        blocks: int,
        numbers: int = 0,
        dropout: float = DROPOUT,
    ) -> tuple[list[Tensor], Tensor]:
        """Draw the random numbers of a step, in one call per replica.

        Parameters
        ----------
        rows : (R, S, B)
            Shape of the rows that pass through the network.
        width, blocks : int
            Width and number of blocks of the network.
        numbers : int
            Number of additional 64-bit integers.
        dropout : float
            Probability that a bit is 0.

        Returns
        -------
        bits : list of (R, S, B, ⌈width / 8⌉) uint8 tensors
            Packed bits for the Dropout of each block.
        numbers : (R, numbers) tensor
            Integers.
        """
        R, S, B = rows
        size = -(-width // 8)
        kept = kept_of_256(dropout)
        planes = _planes(kept)
        count = -(-blocks * S * B * size // 8)
        words = self._words(numbers + planes * count)
        bits = words[:, numbers:]
        if kept != 128:
            bits = _with_probability(bits.view(R, planes, count), kept)
        flat = bits.view(torch.uint8)[:, : blocks * S * B * size]
        return list(flat.view(R, blocks, S, B, size).unbind(1)), words[:, :numbers]

    def _words(self, count: int) -> Tensor:
        if uses_triton(self.device):
            from linkdist.kernels import triton_ops

            self.drawn += 1
            return triton_ops.random_words(self.keys, self.drawn, count)
        out = torch.empty(len(self.generators), count, dtype=torch.int64, device=self.device)
        lowest = torch.iinfo(torch.int64).min
        for row, generator in zip(out, self.generators, strict=True):
            row.random_(lowest, None, generator=generator)
        return out

    def permutation(self, r: int, length: int) -> Tensor:
        """A permutation of 0 .. length - 1 from the stream of replica r."""
        return torch.randperm(length, generator=self.generators[r], device=self.device)

    def integers(self, r: int, count: int) -> list[int]:
        """Random integers of 62 bits from the stream of replica r."""
        out = torch.empty(count, dtype=torch.int64, device=self.device)
        drawn: list[int] = out.random_(0, 1 << 62, generator=self.generators[r]).tolist()
        return drawn


def _planes(kept: int) -> int:
    """The number of fair random bits that make one bit which is 1 with probability kept / 256."""
    return 8 - ((kept & -kept).bit_length() - 1) if kept < 256 else 0


def _with_probability(planes: Tensor, kept: int) -> Tensor:
    """Combine words (R, planes, count) of fair bits into words with P(bit = 1) = kept / 256.

    The binary digits of the probability are read from the lowest 1 on: a digit 1 joins the next
    plane by 'or', a digit 0 by 'and', which halves the distance to 1 or to 0.
    """
    R, P, count = planes.shape
    if not P:
        return torch.full((R, count), -1, dtype=torch.int64, device=planes.device)
    out = planes[:, 0].clone()
    for p in range(1, P):
        digit = kept >> (8 - P + p) & 1
        out = out | planes[:, p] if digit else out & planes[:, p]
    return out


class ShuffledOrder:
    """The items of R replicas in random order, in batches of one size.

    Parameters
    ----------
    lengths : sequence of int
        Number of items of each replica.
    steps, batch : int
        Number of batches in an epoch, and of items in a batch. A replica with fewer items repeats
        them from the start.
    device : torch.device
        Where the batches are needed.

    Examples
    --------
    >>> order = ShuffledOrder([5], steps=2, batch=3, device=torch.device("cpu"))
    >>> order.shuffle(RandomStreams([0], torch.device("cpu")))
    >>> batches = [order.batch(torch.tensor(step)).flatten() for step in range(2)]
    >>> sorted(torch.cat(batches)[:5].tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(
        self, lengths: Sequence[int], steps: int, batch: int, device: torch.device
    ) -> None:
        self.lengths, self.device = lengths, device
        self.column = torch.arange(batch, device=device)
        shape = (len(lengths), steps * batch)
        self.whole = torch.empty(shape, dtype=torch.int64, device=device)

    def shuffle(self, streams: RandomStreams) -> None:
        """Draw the order of a new epoch."""
        place = torch.arange(self.whole.shape[1], device=self.device)
        for r, length in enumerate(self.lengths):
            self.whole[r] = streams.permutation(r, length)[place % length]

    def batch(self, step: Tensor) -> Tensor:
        """The items (R, B) of a step; `step` is a tensor on the device."""
        return self.whole.index_select(1, step * len(self.column) + self.column)


class StridedOrder(ShuffledOrder):
    """The same for very many items, without storing a permutation."""

    def __init__(
        self, lengths: Sequence[int], steps: int, batch: int, device: torch.device
    ) -> None:
        self.lengths, self.device = lengths, device
        self.column = torch.arange(batch, device=device)
        self.count = torch.tensor(lengths, device=device).view(-1, 1)
        self.by, self.first = (torch.zeros_like(self.count) for _ in range(2))

    def shuffle(self, streams: RandomStreams) -> None:
        """Draw the stride and the first item of a new epoch."""
        drawn = [streams.integers(r, 2) for r in range(len(self.lengths))]
        pairs = [
            (coprime_stride(a % length, length), b % length)
            for (a, b), length in zip(drawn, self.lengths, strict=True)
        ]
        self.by.copy_(torch.tensor([[a] for a, _ in pairs]))
        self.first.copy_(torch.tensor([[b] for _, b in pairs]))

    def batch(self, step: Tensor) -> Tensor:
        """The items (R, B) of a step; `step` is a tensor on the device."""
        place = (step * len(self.column) + self.column).unsqueeze(0) % self.count
        return (place * self.by + self.first) % self.count


def coprime_stride(a: int, length: int) -> int:
    """The next number from a that is coprime to `length`, and whose product with it fits 62 bits.

    Examples
    --------
    >>> coprime_stride(4, 10), coprime_stride(10**12, 3 * 10**9) * 3 * 10**9 < 2**62
    (7, True)
    """
    a = max(1, a % min(length, (1 << 62) // length))
    while math.gcd(a, length) != 1:
        a += 1
    return a


def make_order(
    lengths: Sequence[int], steps: int, batch: int, device: torch.device
) -> ShuffledOrder:
    """A permutation, or a stride where there are very many items.

    Examples
    --------
    >>> type(make_order([1 << 30], 1, 8, torch.device("cpu"))).__name__
    'StridedOrder'
    """
    kind = StridedOrder if sum(lengths) >= STRIDE_FROM else ShuffledOrder
    return kind(lengths, steps, batch, device)
