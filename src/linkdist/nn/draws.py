"""The random numbers of training, each replica's from streams of its own.

A replica draws the same numbers whether it is trained alone or beside others. Its streams begin
anew with every epoch, from its seed and the epoch's number, so that an epoch does not depend on how
much was drawn before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from linkdist.kernels.backends import HAS_TRITON
from linkdist.nn.network import DROPOUT, generators, kept_of_256


class Draws:
    """The random numbers of R replicas, each from streams of its own, one an epoch.

    On a GPU the numbers of a step are a function of replica, epoch and step, so that a recorded
    step draws new ones at each replay.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self.seeds = seeds
        self.generators = generators(seeds, device)
        self.device = device
        self.keys = torch.zeros(len(seeds), dtype=torch.int64, device=device)
        self.taken = torch.zeros((), dtype=torch.int64, device=device)

    def begin(self, epoch: int) -> None:
        """Turn to an epoch's own streams, however much was drawn in the epochs before it.

        A replica that held still for the others drew numbers that it did not use. And none of
        these streams is the one that the weights came from.
        """
        states = [
            np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
            for seed in self.seeds
        ]
        for generator, state in zip(self.generators, states, strict=True):
            generator.manual_seed(int(state))
        # A key leaves room for the step's number in its lowest bits.
        keys = np.array(states, dtype=np.uint64) & ~np.uint64((1 << 24) - 1)
        self.keys.copy_(torch.from_numpy(keys.view(np.int64)))
        self.taken.zero_()

    def take(
        self,
        rows: Sequence[int],
        width: int,
        blocks: int,
        numbers: int = 0,
        dropout: float = DROPOUT,
    ) -> tuple[list[Tensor], Tensor]:
        """What a step needs, in one draw a replica.

        Parameters
        ----------
        rows : (R, S, B)
            Shape of the rows that go through the network.
        width, blocks : int
            Of the network.
        numbers : int
            How many whole numbers of 64 random bits are wanted beside.
        dropout : float
            Probability that a bit is 0.

        Returns
        -------
        bits : list of (R, S, B, ⌈width / 8⌉) uint8 tensors
            Packed bits for the Dropout of each block.
        numbers : (R, numbers) tensor
            Whole numbers.
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
        if self.device.type == "cuda" and HAS_TRITON:
            from linkdist.kernels import triton_ops

            self.taken += 1
            return triton_ops.random_words(self.keys, self.taken, count)
        out = torch.empty(len(self.generators), count, dtype=torch.int64, device=self.device)
        lowest = torch.iinfo(torch.int64).min
        for row, generator in zip(out, self.generators, strict=True):
            row.random_(lowest, None, generator=generator)
        return out

    def order(self, r: int, length: int) -> Tensor:
        """A permutation of 0 .. length - 1 from replica r's stream."""
        return torch.randperm(length, generator=self.generators[r], device=self.device)

    def integers(self, r: int, count: int) -> list[int]:
        """Whole numbers of 62 random bits from replica r's stream."""
        out = torch.empty(count, dtype=torch.int64, device=self.device)
        drawn: list[int] = out.random_(0, 1 << 62, generator=self.generators[r]).tolist()
        return drawn


def _planes(kept: int) -> int:
    """How many fair random bits make one that is 1 with the probability kept / 256."""
    return 8 - ((kept & -kept).bit_length() - 1) if kept < 256 else 0


def _with_probability(planes: Tensor, kept: int) -> Tensor:
    """Combine words (R, planes, count) of fair bits into words whose bits are 1 for kept / 256.

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
