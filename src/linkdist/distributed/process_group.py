"""Who trains: one process, or several that each take a batch of every step.

Workers go through the rounds side by side: with W of them, worker w takes rounds w, w + W, w + 2 W
and so on, each with parts and links of its own. Their gradients are averaged after every batch by
PyTorch's DistributedDataParallel, so that all have the same weights at any time. A round has as
many steps as the longest one beside it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from linkdist.distributed.schedule import Round
from linkdist.nn.network import ForkedMLP


class Alone:
    """One process.

    Attributes
    ----------
    rank, size : int
        Which of how many workers this is.
    """

    rank, size = 0, 1

    def shared(self, network: ForkedMLP) -> ForkedMLP:
        """The network whose gradients are those of all."""
        return network

    def most(self, steps: int) -> int:
        """The most steps that any worker has."""
        return steps

    def own(self, rounds: Sequence[Round], done: int) -> tuple[list[Round], int]:
        """The rounds of this worker, and how many of them are behind it once `done` are done.

        All workers have as many; at the very end a round may come twice. It does not matter where
        a training was interrupted, nor how many workers there were before.

        Examples
        --------
        >>> from linkdist.distributed.schedule import rounds_of
        >>> own, behind = Alone().own(rounds_of(3, 0), done=2)
        >>> len(own), behind
        (6, 2)
        """
        ahead = rounds[done % self.size :]
        turns = -(-len(ahead) // self.size)
        places = range(self.rank, turns * self.size, self.size)
        return [ahead[min(place, len(ahead) - 1)] for place in places], done // self.size


class Crew(Alone):
    """One of several processes of a group that PyTorch's distributed package knows."""

    def __init__(self) -> None:
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def shared(self, network: ForkedMLP) -> ForkedMLP:
        """The network whose gradients are those of all."""
        return cast(ForkedMLP, _Shared(network))

    def most(self, steps: int) -> int:
        """The most steps that any worker has."""
        found = torch.tensor(steps)
        distributed.all_reduce(found, distributed.ReduceOp.MAX)
        return int(found)


class _Shared(DistributedDataParallel):
    """A network whose backward pass averages its gradients over all workers."""

    def __init__(self, network: ForkedMLP) -> None:
        super().__init__(network)
        self.hidden, self.blocks = network.hidden, network.blocks
