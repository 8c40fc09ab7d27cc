"""The training loop, for R replicas at once, and its hyperparameters.

    run -> epochs: shuffle, take the steps, evaluate
        -> a step: a batch of each replica's items, the loss, its gradient, Adam.

An item is a directed edge for LinkDist; SelfLinkDist and the baselines use nodes. Each replica has
its own view, weights and random streams, so it ends with the same weights whether it is trained
alone or beside others. Views may differ in size: an epoch has as many steps as the largest view
needs, and a replica that has seen all of its items waits for the others. The last batch of an epoch
is filled with items from the start of the epoch, so that all batches have the same shape.

On a GPU the first steps run normally, the next one is recorded as a CUDA graph, and every later
step is one replay of it. A loop can be filled with other items (`Loop.refill`). If these are copied
to the tensors that the loss reads already, the recorded step stays valid.
"""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn

from linkdist.data.graph import FloatArray, IntArray
from linkdist.errors import DeviceError, check_names
from linkdist.kernels import uses_triton
from linkdist.nn.network import DROPOUT, HIDDEN, MOMENTUM, ForkedMLP
from linkdist.nn.optim import RATE, Adam, Average, RandomStreams, make_adam
from linkdist.nn.order import ShuffledOrder, make_order

BATCH = 1024
STUDENT_RATE = 0.003
"""The learning rate of Adam for SelfLinkDist; `RATE` is that of the paper's methods."""
NUMBER_DROPOUT = 0.1
"""The dropout for regression: a number needs more precise hidden units than a class."""
SCHEDULES = ("constant", "cosine")

AfterEpoch: TypeAlias = Callable[[int], None]
"""Called with the number of an epoch, from 0, when it ends."""
Loss: TypeAlias = Callable[[Tensor, RandomStreams, Tensor], Tensor]
"""From item indices (R, B), random streams and BatchNorm's momentum (R, 1, 1) to losses (R,)."""


@dataclass(frozen=True)
class Hyperparameters:
    """Size of the network and how it is optimised.

    Attributes
    ----------
    hidden_size : int
        Width of the hidden layers.
    batch_size : int, optional
        Links per step, or nodes for SelfLinkDist; by default 1024, and more for a store on a GPU.
    learning_rate : float, optional
        Learning rate of Adam; by default 0.003 for SelfLinkDist and 0.01 for the paper's methods.
    dropout : float, optional
        Probability of dropping a hidden unit, rounded to a multiple of 1/256; by default 0.5, and
        0.1 for regression.
    schedule : {'constant', 'cosine'}, optional
        How the learning rate changes; 'cosine' decreases it to 0. By default 'cosine' for
        SelfLinkDist and 'constant' for the paper's methods.

    Examples
    --------
    >>> Hyperparameters(hidden_size=0, dropout=1.5).problems()
    ['hidden_size must be a whole number from 1; found 0.', 'dropout must be from 0 to below 1; \
found 1.5.']
    """

    hidden_size: int = HIDDEN
    batch_size: int | None = None
    learning_rate: float | None = None
    dropout: float | None = None
    schedule: str | None = None

    @property
    def batch(self) -> int:
        """The batch size, or its default."""
        return BATCH if self.batch_size is None else self.batch_size

    def of_task(self, task: str) -> Hyperparameters:
        """The same with the default dropout of a task."""
        if self.dropout is not None:
            return self
        return replace(self, dropout=NUMBER_DROPOUT if task == "regression" else DROPOUT)

    def rate(self, method: str) -> float:
        """The learning rate of a method."""
        if self.learning_rate is not None:
            return self.learning_rate
        return STUDENT_RATE if method == "selflinkdist" else RATE

    def decays(self, method: str) -> bool:
        """Whether the learning rate of a method decreases."""
        return (self.schedule or ("cosine" if method == "selflinkdist" else "constant")) == "cosine"

    def network(
        self, d: int, C: int, seeds: Sequence[int], device: torch.device, K: int = 1
    ) -> ForkedMLP:
        """New networks for d features, C classes and K neighbour heads, one for each seed."""
        dropout = DROPOUT if self.dropout is None else self.dropout
        return ForkedMLP(d, C, seeds, self.hidden_size, dropout, K).to(device)

    def problems(self) -> list[str]:
        """One sentence for each value that is out of range."""
        problems = []
        for name, size in (("hidden_size", self.hidden_size), ("batch_size", self.batch)):
            if not (isinstance(cast(object, size), numbers.Integral) and int(size) >= 1):
                problems.append(f"{name} must be a whole number from 1; found {size!r}.")
        rate = cast(object, 1.0 if self.learning_rate is None else self.learning_rate)
        if not (isinstance(rate, numbers.Real) and 0 < float(rate) < math.inf):
            problems.append(f"learning_rate must be a number above 0; found {rate!r}.")
        dropout = cast(object, DROPOUT if self.dropout is None else self.dropout)
        if not (isinstance(dropout, numbers.Real) and 0 <= float(dropout) < 1):
            problems.append(f"dropout must be from 0 to below 1; found {dropout!r}.")
        if self.schedule not in (None, *SCHEDULES):
            names = " or ".join(map(repr, SCHEDULES))
            problems.append(f"schedule must be {names}; found {self.schedule!r}.")
        return problems


class Recorded(Protocol):
    """A step that was recorded, such as a CUDA graph."""

    def replay(self) -> None:
        """Take the step with the present contents of its tensors."""


def _released(index: Tensor, streams: RandomStreams, momentum: Tensor) -> Tensor:
    raise RuntimeError("the items of this loop were released; call `refill` with a loss first.")


class Loop:
    """Epochs of steps over the items of each replica.

    Parameters
    ----------
    network : module
        Its parameters and buffers have a leading replica axis.
    loss : callable
        The loss of a batch; see `Loss`.
    lengths : sequence of int
        Number of items of each replica.
    seeds : sequence of int
        Seeds of each replica's random streams.
    batch : int, optional
        Number of items in a step.
    rate : float, optional
        Adam's learning rate.
    average : Average, optional
        A moving average of the weights, updated after every step.
    epochs : float, optional
        The number of epochs over which the rate decays to 0; by default the rate is constant.
    adam : Adam, optional
        The optimiser of an earlier loop, to continue with.
    steps : callable, optional
        Maps the number of steps that the items need to the number of steps in an epoch. It may
        be larger, to keep pace with other workers; the items then repeat.
    weights : sequence of arrays, optional
        The weights of each replica's items: items are then drawn with probabilities in proportion,
        instead of once in each epoch.
    capacity : int, optional
        The largest number of items of a replica in any later `refill`; by default the largest of
        `lengths`. Where steps are recorded, batches have the size `min(batch, capacity)`, and a
        replica with fewer items repeats them.
    alone : bool, optional
        Whether no other process takes part in a step: only then it can be recorded.

    Examples
    --------
    Train on the rows of one buffer, whose contents change from round to round:

    >>> from torch.nn import Linear
    >>> layer, x, seen = Linear(2, 1, bias=False), torch.zeros(5, 2), []
    >>> def loss(index, streams, momentum):
    ...     seen.extend(x[index[0], 0].tolist())
    ...     return (x[index] @ layer.weight.T).mean((1, 2))
    >>> loop = Loop(layer, loss, lengths=[5], seeds=[0], batch=2, capacity=5)
    >>> for number, rows in enumerate([[3.0, 4.0], [5.0, 6.0, 7.0]]):
    ...     _ = x[: len(rows)].copy_(torch.tensor(rows).unsqueeze(1))
    ...     loop.refill([len(rows)])
    ...     for step in loop.epoch(number):
    ...         pass
    >>> sorted(set(seen))
    [3.0, 4.0, 5.0, 6.0, 7.0]
    """

    WARM_UP = 3
    """Steps before one is recorded: libraries initialise and allocate buffers in the first ones."""

    def __init__(
        self,
        network: nn.Module,
        loss: Loss,
        lengths: Sequence[int],
        seeds: Sequence[int],
        batch: int = BATCH,
        rate: float = RATE,
        average: Average[Any] | None = None,
        epochs: float | None = None,
        adam: Adam | None = None,
        steps: Callable[[int], int] = lambda own: own,
        weights: Sequence[FloatArray] = (),
        capacity: int | None = None,
        alone: bool = True,
    ) -> None:
        self.device = next(network.parameters()).device
        self.records = uses_triton(self.device) and alone
        self.loss, self.average, self.weights = loss, average, weights
        self.room = list(lengths) if capacity is None else [capacity] * len(lengths)
        self.batch_size, self.steps_of = batch, steps
        self.streams = RandomStreams(seeds, self.device)
        self.own_steps = torch.zeros(len(lengths), dtype=torch.int64, device=self.device)
        self.done = torch.zeros((), dtype=torch.int64, device=self.device)
        self._count_steps(lengths)
        self.order = self._new_order(lengths)
        decay = None if epochs is None else epochs * self.own_steps
        self.adam = adam or make_adam(network, rate, decay)
        self.warm_up = 0
        self.recorded: Recorded | None = None

    def refill(self, lengths: Sequence[int], loss: Loss | None = None) -> None:
        """Continue with other items: the network, Adam and the random streams stay.

        Without `loss`, copy the new items to the tensors that the present loss reads, on the
        current stream, before the next epoch; a recorded step stays valid. The tensors may have
        more rows than `lengths` say. A new `loss` reads new tensors, so the step is recorded again.

        Parameters
        ----------
        lengths : sequence of int
            Number of items of each replica, at most `capacity`.
        loss : callable, optional
            The loss of a batch of the new items; by default the present one.

        Raises
        ------
        ValueError
            If there are more items than `capacity`, or if items have weights.
        """
        if self.weights:
            raise ValueError("items with weights cannot be replaced; make a new loop for them.")
        if loss is not None:
            self.loss, self.recorded, self.warm_up = loss, None, 0
        self._count_steps(lengths)
        if self.records:
            self.order.refill(lengths, self.steps)
        else:
            self.order = self._new_order(lengths)

    def release(self) -> None:
        """Free the memory of the items: the loss, the recorded step and, on a CPU, the order.

        Call it before the next items are read, if these have a loss of their own; then `refill`.
        """
        self.loss, self.recorded, self.warm_up = _released, None, 0
        if not self.records:
            self.order = make_order([], 0, 0, self.device)

    def _count_steps(self, lengths: Sequence[int]) -> None:
        """Set the batch size, the number of steps, and that of each replica."""
        if any(length > room for length, room in zip(lengths, self.room, strict=True)):
            found = f"found {list(lengths)} items for a capacity of {self.room}"
            raise ValueError(f"{found}; give the largest number as `capacity`.")
        # A recorded step needs batches of one shape; otherwise few items are one small batch.
        self.batch = min(self.batch_size, max(self.room if self.records else lengths))
        own = [-(-length // self.batch) for length in lengths]
        self.steps = self.steps_of(max(own))
        more = self.steps - max(own)
        self.own_steps.copy_(torch.tensor([count + more for count in own]))

    def _new_order(self, lengths: Sequence[int]) -> ShuffledOrder:
        """An order of the items; where steps are recorded, with memory for the largest refill."""
        if not self.records or self.weights:
            return make_order(lengths, self.steps, self.batch, self.device, self.weights)
        most = max(self.steps, -(-max(self.room) // self.batch))
        order = make_order(self.room, most, self.batch, self.device)
        order.refill(lengths, self.steps)
        return order

    def run(
        self,
        epochs: float,
        after_epoch: AfterEpoch | None = None,
        start: int = 0,
        evaluate: Callable[[], None] | None = None,
        evaluations: int = 1,
    ) -> None:
        """Train from epoch `start` up to `epochs`; the last epoch may be incomplete.

        `evaluate` is called `evaluations` times in each epoch, at equal distances.
        """
        scored = {-(-self.steps * part // evaluations) for part in range(1, evaluations + 1)}
        total = max(1, round(epochs * self.steps))
        with training_context(self.device):
            for epoch in range(start, math.ceil(epochs)):
                for step in self.epoch(epoch):
                    if evaluate is not None and step + 1 in scored:
                        evaluate()
                    if epoch * self.steps + step + 1 == total:
                        break
                if after_epoch is not None:
                    after_epoch(epoch)

    def epoch(self, epoch: int) -> Iterator[int]:
        """Take the steps of an epoch, inside `training_context`; yields the number of each."""
        self.streams.begin_epoch(epoch)
        self.order.shuffle(self.streams)
        self.done.zero_()
        for step in range(self.steps):
            self._advance()
            yield step

    def _advance(self) -> None:
        if not self.records:
            self._step()
        elif self.recorded is not None:
            self.recorded.replay()
        elif self.warm_up < self.WARM_UP:
            self._step()
            self.warm_up += 1
        else:
            self.recorded = self._record()
            self.recorded.replay()

    def _record(self) -> Recorded:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            self._step()
        return graph

    def _step(self) -> None:
        active = (self.done < self.own_steps).float()  # (R,)
        index = self.order.batch(self.done)  # (R, B)
        momentum = (MOMENTUM * active).view(-1, 1, 1)
        self.adam.zero_grad()
        self.loss(index, self.streams, momentum).sum().backward()
        self.adam.step(active)
        if self.average is not None:
            self.average.update(active)
        self.done += 1


def padded(rows: Sequence[IntArray | FloatArray], device: torch.device, value: int = 0) -> Tensor:
    """Arrays of different lengths as one tensor, padded with a value.

    Examples
    --------
    >>> padded([np.array([1, 2]), np.array([3])], torch.device("cpu"))
    tensor([[1, 2],
            [3, 0]])
    """
    if not rows:
        return torch.empty(0, 0, dtype=torch.int64, device=device)
    tensors = [torch.from_numpy(np.ascontiguousarray(row)) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value).to(device)


def find_device(name: str) -> torch.device:
    """The device for 'auto', 'cpu' or 'cuda'.

    Examples
    --------
    >>> find_device("cpu")
    device(type='cpu')
    """
    check_names("device", [name], ("auto", "cpu", "cuda"))
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            "no CUDA device was found; use --device cpu, or auto to use a GPU if there is one."
        )
    return torch.device(name)


@contextlib.contextmanager
def training_context(device: torch.device) -> Iterator[None]:
    """Settings of PyTorch for training on a GPU: its own stream, for recording, and TF32."""
    if device.type == "cpu":
        yield
        return
    precision = torch.get_float32_matmul_precision()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    torch.set_float32_matmul_precision("high")
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
    torch.cuda.current_stream().wait_stream(stream)
