"""The order in which R replicas visit their items.

An epoch visits its items in a random permutation, which takes eight bytes per item. With so many
items that this would not fit into memory, a stride visits them instead: with a and n coprime,

    i -> (a i + b) mod n

visits every item once.

A recorded step reads the tensors of an order at fixed addresses. `refill` therefore changes the
numbers of items without new tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.nn.optim import RandomStreams

STRIDE_FROM = 1 << 28
"""Number of items from which a stride replaces the permutation."""


class ShuffledOrder:
    """The items of R replicas in random order, in batches of one size.

    All tensors keep their addresses, so that a recorded step can read them; see `refill`.

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
        self.used = steps * batch

    def refill(self, lengths: Sequence[int], steps: int) -> None:
        """Change the numbers of items and of batches; both at most those at construction."""
        self.lengths, self.used = lengths, steps * len(self.column)
        if self.used > self.whole.shape[1]:
            most = self.whole.shape[1] // len(self.column)
            raise ValueError(f"the order has memory for {most} batches; found {steps} to fill.")

    def shuffle(self, streams: RandomStreams) -> None:
        """Draw the order of a new epoch."""
        place = torch.arange(self.used, device=self.device)
        for r, length in enumerate(self.lengths):
            self.whole[r, : self.used] = streams.permutation(r, length)[place % length]

    def batch(self, step: Tensor) -> Tensor:
        """The items (R, B) of a step; `step` is a tensor on the device."""
        return self.whole.index_select(1, step * len(self.column) + self.column)


class WeightedOrder(ShuffledOrder):
    """Items that are drawn with probabilities in proportion to their weights, with replacement.

    Examples
    --------
    >>> order = WeightedOrder([2], 1, 1000, torch.device("cpu"), [np.array([3.0, 1.0])])
    >>> order.shuffle(RandomStreams([0], torch.device("cpu")))
    >>> 700 < int((order.batch(torch.tensor(0)) == 0).sum()) < 800
    True
    """

    def __init__(
        self,
        lengths: Sequence[int],
        steps: int,
        batch: int,
        device: torch.device,
        weights: Sequence[npt.NDArray[np.floating[Any]]],
    ) -> None:
        super().__init__(lengths, steps, batch, device)
        sums = [np.cumsum(part, dtype=np.float64) for part in weights]
        self.sums = [torch.from_numpy(part / part[-1]).to(device) for part in sums]

    def shuffle(self, streams: RandomStreams) -> None:
        """Draw the items of a new epoch."""
        for r, (length, sums) in enumerate(zip(self.lengths, self.sums, strict=True)):
            drawn = torch.searchsorted(sums, streams.uniform(r, self.whole.shape[1]), right=True)
            self.whole[r] = drawn.clamp(max=length - 1)


class StridedOrder(ShuffledOrder):
    """The same for very many items, without storing a permutation."""

    def __init__(
        self, lengths: Sequence[int], steps: int, batch: int, device: torch.device
    ) -> None:
        super().__init__(lengths, 0, batch, device)
        self.count = torch.tensor(lengths, device=device).view(-1, 1)
        self.by, self.first = (torch.zeros_like(self.count) for _ in range(2))

    def refill(self, lengths: Sequence[int], steps: int) -> None:
        """Change the numbers of items; a stride needs no memory for them."""
        self.lengths = lengths
        self.count.copy_(torch.tensor(lengths).view(-1, 1))

    def shuffle(self, streams: RandomStreams) -> None:
        """Draw the stride and the first item of a new epoch."""
        for r, length in enumerate(self.lengths):
            a, b = streams.integers(r, 2)
            self.by[r], self.first[r] = coprime_stride(a % length, length), b % length

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
    lengths: Sequence[int],
    steps: int,
    batch: int,
    device: torch.device,
    weights: Sequence[npt.NDArray[np.floating[Any]]] = (),
) -> ShuffledOrder:
    """A permutation, a stride where there are very many items, or draws in proportion to weights.

    Examples
    --------
    >>> type(make_order([1 << 30], 1, 8, torch.device("cpu"))).__name__
    'StridedOrder'
    """
    if weights:
        return WeightedOrder(lengths, steps, batch, device, weights)
    kind = StridedOrder if sum(lengths) >= STRIDE_FROM else ShuffledOrder
    return kind(lengths, steps, batch, device)
