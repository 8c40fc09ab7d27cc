"""The processes that train together: one alone, or a process group of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from linkdist.nn.network import ForkedMLP

T = TypeVar("T")


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

    def least(self, value: int) -> int:
        """The smallest value of any worker.

        Examples
        --------
        >>> SingleProcess().least(5)
        5
        """
        return value

    def share(self, compute: Callable[[], T]) -> T:
        """The result of a computation by the first worker.

        Examples
        --------
        >>> SingleProcess().share(lambda: 3)
        3
        """
        return compute()

    def wait(self) -> None:
        """Wait until all workers are here."""

    def own(self, rounds: Sequence[T], done: int) -> tuple[list[T], int]:
        """The rounds of this worker, and how many of them are finished if `done` of all are.

        All workers have the same number; the last round may be repeated for that. The point at
        which a training was interrupted and the number of workers before it do not matter.

        Examples
        --------
        >>> own, finished = SingleProcess().own(["aa", "ab", "bb"], done=2)
        >>> len(own), finished
        (3, 2)
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

    def least(self, value: int) -> int:
        """The smallest value of any worker."""
        return -self.max_steps(-value)

    def share(self, compute: Callable[[], T]) -> T:
        """The result of a computation by the first worker."""
        found = [compute() if self.rank == 0 else None]
        distributed.broadcast_object_list(found)
        return cast(T, found[0])

    def wait(self) -> None:
        """Wait until all workers are here."""
        distributed.barrier()


class _Averaged(DistributedDataParallel):
    """A network whose backward pass averages its gradients over all workers."""

    def __init__(self, network: ForkedMLP) -> None:
        super().__init__(network)
        self.hidden, self.blocks = network.hidden, network.blocks
        self.dropout = network.dropout
