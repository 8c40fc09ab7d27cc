"""The processes that train: one, or several that each compute a share of every batch.

Workers train rounds in parallel: of W workers, worker w trains the rounds w, w + W, w + 2 W and so
on, each with its own parts and links. DistributedDataParallel of PyTorch averages their gradients
after every batch, so all workers have the same weights at any time. A round has as many steps as
the longest of those that are trained at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from linkdist.distributed.schedule import Round
from linkdist.nn.network import ForkedMLP


class SingleProcess:
    """Training by this process alone.

    Attributes
    ----------
    rank, size : int
        The number of this worker, and the number of workers.
    """

    rank, size = 0, 1

    def wrap(self, network: ForkedMLP) -> ForkedMLP:
        """The network with gradients averaged over all workers."""
        return network

    def max_steps(self, steps: int) -> int:
        """The largest number of steps of any worker."""
        return steps

    def own(self, rounds: Sequence[Round], done: int) -> tuple[list[Round], int]:
        """The rounds of this worker, and how many of them are finished if `done` of all are.

        All workers have the same number; the last round may be repeated for that. The point at
        which a training was interrupted and the number of workers before it do not matter.

        Examples
        --------
        >>> from linkdist.distributed.schedule import rounds_of
        >>> own, finished = SingleProcess().own(rounds_of(3, 0), done=2)
        >>> len(own), finished
        (6, 2)
        """
        ahead = rounds[done % self.size :]
        turns = -(-len(ahead) // self.size)
        places = range(self.rank, turns * self.size, self.size)
        return [ahead[min(place, len(ahead) - 1)] for place in places], done // self.size


class ProcessGroup(SingleProcess):
    """Training by all processes of PyTorch's default process group."""

    def __init__(self) -> None:
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def wrap(self, network: ForkedMLP) -> ForkedMLP:
        """The network with gradients averaged over all workers."""
        return cast(ForkedMLP, _Averaged(network))

    def max_steps(self, steps: int) -> int:
        """The largest number of steps of any worker."""
        found = torch.tensor(steps)
        distributed.all_reduce(found, distributed.ReduceOp.MAX)
        return int(found)


class _Averaged(DistributedDataParallel):
    """A network whose backward pass averages its gradients over all workers."""

    def __init__(self, network: ForkedMLP) -> None:
        super().__init__(network)
        self.hidden, self.blocks = network.hidden, network.blocks
        self.dropout = network.dropout
