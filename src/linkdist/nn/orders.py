"""In which order an epoch takes its items.

As a rule a permutation is drawn and kept, eight bytes an item. Where there are so many items that
it would not fit beside them, a stride goes through them: with a and n coprime,

    i -> (a i + b) mod n

meets every item once, in an order that has nothing to do with theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from linkdist.nn.draws import Draws

STRIDDEN = 1 << 28
"""Items from which a stride goes through them."""


class Order:
    """The items of R replicas, in batches of one size.

    Parameters
    ----------
    lengths : sequence of int
        How many items each replica has.
    steps, batch : int
        Batches of an epoch, and items in each; a replica that is through begins again.
    device : torch.device
        Where the batches are wanted.

    Examples
    --------
    >>> order = Order([5], steps=2, batch=3, device=torch.device("cpu"))
    >>> order.shuffle(Draws([0], torch.device("cpu")))
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

    def shuffle(self, draws: Draws) -> None:
        """Draw an order for the epoch that begins."""
        place = torch.arange(self.whole.shape[1], device=self.device)
        for r, length in enumerate(self.lengths):
            self.whole[r] = draws.order(r, length)[place % length]

    def batch(self, step: Tensor) -> Tensor:
        """The items (R, B) of a step, whose number lies on the device."""
        return self.whole.index_select(1, step * len(self.column) + self.column)


class Stride(Order):
    """The same for very many items, without a table."""

    def __init__(
        self, lengths: Sequence[int], steps: int, batch: int, device: torch.device
    ) -> None:
        self.lengths, self.device = lengths, device
        self.column = torch.arange(batch, device=device)
        self.count = torch.tensor(lengths, device=device).view(-1, 1)
        self.by, self.first = (torch.zeros_like(self.count) for _ in range(2))

    def shuffle(self, draws: Draws) -> None:
        """Draw a stride and a beginning."""
        drawn = [draws.integers(r, 2) for r in range(len(self.lengths))]
        pairs = [
            (stride_near(a % length, length), b % length)
            for (a, b), length in zip(drawn, self.lengths, strict=True)
        ]
        self.by.copy_(torch.tensor([[a] for a, _ in pairs]))
        self.first.copy_(torch.tensor([[b] for _, b in pairs]))

    def batch(self, step: Tensor) -> Tensor:
        """The items (R, B) of a step, whose number lies on the device."""
        place = (step * len(self.column) + self.column).unsqueeze(0) % self.count
        return (place * self.by + self.first) % self.count


def stride_near(a: int, length: int) -> int:
    """The next number from a on that is coprime to a length and leaves room for the product.

    Examples
    --------
    >>> stride_near(4, 10), stride_near(10**12, 3 * 10**9) * 3 * 10**9 < 2**62
    (7, True)
    """
    a = max(1, a % min(length, (1 << 62) // length))
    while math.gcd(a, length) != 1:
        a += 1
    return a


def make_order(lengths: Sequence[int], steps: int, batch: int, device: torch.device) -> Order:
    """An order for so many items.

    Examples
    --------
    >>> type(make_order([1 << 30], 1, 8, torch.device("cpu"))).__name__
    'Stride'
    """
    kind = Stride if sum(lengths) >= STRIDDEN else Order
    return kind(lengths, steps, batch, device)
