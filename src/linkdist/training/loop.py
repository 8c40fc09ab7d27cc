"""The loop over links, R replicas at once.

`train_links` makes a forked MLP from views: it computes the loss's coefficients from each view,
then descends

    run -> an epoch: shuffle, its steps, a look at the result
        -> a step: a batch of each replica's items, its loss, its gradient, Adam.

An item is a directed edge for LinkDist; the baselines hand the same loop nodes. A replica has its
own view, its own weights and its own random streams, so it ends up the same whether it is trained
alone or beside others. Views may differ in size: an epoch has as many steps as the largest view
needs, and a replica that is through with its items holds still until the others are. The last
batch of an epoch is filled up from the epoch's beginning, so that every batch has the same shape.

On a GPU the first steps run as they are, the next one is recorded as a CUDA graph, and from then
on a step is one replay, without a word from Python.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from linkdist.data.graph import IntArray
from linkdist.data.splits import View
from linkdist.errors import DeviceError, check_names
from linkdist.kernels._malloc import kept_memory
from linkdist.kernels.backends import HAS_TRITON
from linkdist.kernels.objective import Objective
from linkdist.nn.adam import RATE, Adam, AdamOnCpu
from linkdist.nn.averaging import Average
from linkdist.nn.draws import Draws
from linkdist.nn.inputs import Inputs
from linkdist.nn.losses import Coefficients
from linkdist.nn.network import MOMENTUM, ForkedMLP, Noise, hiding_words, kept_features
from linkdist.nn.orders import make_order
from linkdist.training.coefficients import coefficients

METHODS = ("linkdist", "colinkdist")
BATCH = 1024
VISITS = 200
"""How often training visits a node: epochs = floor(200 / average degree)."""

AfterEpoch: TypeAlias = Callable[[int], None]


def train_links(
    network: ForkedMLP,
    inputs: Inputs,
    views: Sequence[View],
    seeds: Sequence[int],
    epochs: int,
    *,
    method: str = "colinkdist",
    beta: float | None = None,
    batch: int = BATCH,
    after_epoch: AfterEpoch | None = None,
) -> Coefficients:
    """Train a forked MLP on the links of its views.

    Parameters
    ----------
    network : ForkedMLP
        R replicas, on the device where training is to run; trained in place.
    inputs : Inputs
        The features that all views refer to, on that device.
    views : sequence of View
        What each replica may see.
    seeds : sequence of int
        Of each replica's draws.
    epochs : int
        Passes over the links; `epochs_for` has the paper's rule.
    method : {'linkdist', 'colinkdist'}
        Without or with random node pairs to be pushed apart.
    beta : float, optional
        β1 + β2; by default β1 = r_n and β2 = r_e.
    batch : int, optional
        How many edges a step takes.
    after_epoch : callable, optional
        Called with the epoch's number, from 0, after each epoch.

    Returns
    -------
    Coefficients
        α, β1, β2 and w of each replica.

    Examples
    --------
    >>> from linkdist.data.datasets import load_dataset
    >>> from linkdist.data.splits import named_split, observe
    >>> from linkdist.nn.inputs import make_inputs
    >>> graph, cpu = load_dataset("digits"), torch.device("cpu")
    >>> view = observe(graph, named_split(graph, "inductive", seed=0), "inductive")
    >>> network = ForkedMLP(graph.d, graph.C, seeds=[0])
    >>> by = train_links(network, make_inputs(graph.features, cpu), [view], [0], epochs=1)
    >>> by.alpha.shape
    torch.Size([1])
    """
    by = coefficients(views, beta, inputs.device)
    loop_on_links(network, inputs, views, seeds, by, method, batch).run(epochs, after_epoch)
    return by


def loop_on_links(
    network: ForkedMLP,
    inputs: Inputs,
    views: Sequence[View],
    seeds: Sequence[int],
    by: Coefficients,
    method: str,
    batch: int = BATCH,
    rate: float = RATE,
    average: Average[ForkedMLP] | None = None,
    hide: float = 0.0,
    epochs: float | None = None,
) -> Loop:
    """The loop that trains a forked MLP on the links of its views."""
    loss = loss_on_links(network, inputs, seen_by(views, inputs.device), by, method, hide)
    lengths = [len(view.edges) for view in views]
    return Loop(network, loss, lengths, seeds, batch, rate, average, epochs)


class Seen(NamedTuple):
    """What R replicas may see, on a device.

    Attributes
    ----------
    edges : (R, e, 2) tensor of int
        Directed edges.
    nodes : (R, n') tensor
        The nodes that are there, from which others are drawn.
    counts : (R, 1) tensor
        How many of these are a replica's own.
    labels : (R, n) tensor
        y, or `UNKNOWN`.
    """

    edges: Tensor
    nodes: Tensor
    counts: Tensor
    labels: Tensor


def seen_by(views: Sequence[View], device: torch.device) -> Seen:
    """Views side by side on a device."""
    return Seen(
        edges=padded([view.edges for view in views], device),
        nodes=padded([view.nodes for view in views], device),
        counts=torch.tensor([[len(view.nodes)] for view in views], device=device),
        labels=torch.from_numpy(np.stack([view.labels for view in views])).to(device),
    )


def loss_on_links(
    network: ForkedMLP,
    inputs: Inputs,
    seen: Seen,
    by: Coefficients,
    method: str,
    hide: float = 0.0,
) -> Loss:
    """The loss of a batch of edges, as `Loop` wants it; hides a share of many features."""
    check_names("method", [method], METHODS)
    edges, nodes, counts, labels = seen
    replica = torch.arange(len(labels), device=labels.device).view(-1, 1)  # (R, 1)
    sides = 3 if method == "colinkdist" else 2
    objective = Objective(by, sides)

    def loss(index: Tensor, draws: Draws, pace: Tensor) -> Tensor:
        R, B = index.shape
        words = hiding_words(inputs.d, hide)
        shape, dropout = (R, sides, B), network.dropout
        bits, numbers = draws.take(shape, network.hidden, network.blocks, B + words, dropout)
        kept = kept_features(numbers[:, B:], inputs.d, hide) if words else None
        rows = edges[replica, index].transpose(1, 2).long()  # (R, 2, B)
        if sides == 3:
            k = nodes.gather(1, numbers[:, :B].remainder(counts))  # (R, B)
            rows = torch.cat([rows, k.unsqueeze(1)], dim=1)  # (R, 3, B)
        z, s = network(inputs, rows, Noise(bits, pace, kept))
        y = labels.gather(1, rows.flatten(1)).view(rows.shape)
        return objective(z, s, y)

    return loss


def epochs_for(degree: float) -> int:
    """The paper's number of epochs, floor(200 / average degree), at least one.

    Examples
    --------
    >>> epochs_for(3.9), epochs_for(35.76), epochs_for(1000.0)
    (51, 5, 1)
    """
    return max(1, int(VISITS / degree)) if degree > 0 else 1


Loss: TypeAlias = Callable[[Tensor, Draws, Tensor], Tensor]


class Loop:
    """Epochs of steps over each replica's items.

    Parameters
    ----------
    network : module
        Its parameters and statistics have a leading replica axis.
    loss : callable
        Takes (R, B) indices of items, the draws and the pace of running statistics; gives (R,).
    lengths : sequence of int
        How many items each replica has.
    seeds : sequence of int
        Of each replica's draws.
    batch : int, optional
        How many items a step takes.
    rate : float, optional
        Adam's learning rate.
    average : Average, optional
        Takes in the weights after every step.
    epochs : float, optional
        Over which the rate falls to nothing; without it the rate stays.
    adam : Adam, optional
        Of a loop over other items, whose training this one goes on with.
    steps : callable, optional
        Says how many steps to take at least, from how many the items need: more where others train
        beside this loop. The items then come again.
    """

    WARM_UP = 3
    """Steps run as they are before one is recorded: libraries settle, buffers are made."""

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
    ) -> None:
        self.device = next(network.parameters()).device
        self.loss = loss
        self.average = average
        self.lengths = lengths
        self.batch = min(batch, max(lengths))
        own = [-(-length // self.batch) for length in lengths]
        self.steps = steps(max(own))
        self.draws = Draws(seeds, self.device)
        more = self.steps - max(own)
        self.own_steps = torch.tensor([count + more for count in own], device=self.device)
        whole = None if epochs is None else epochs * self.own_steps
        self.adam = adam or make_adam(network, rate, whole)
        self.done = torch.zeros((), dtype=torch.int64, device=self.device)
        self.order = make_order(lengths, self.steps, self.batch, self.device)
        self.taken = 0
        self.recorded: torch.cuda.CUDAGraph | None = None

    def run(
        self,
        epochs: float,
        after_epoch: AfterEpoch | None = None,
        start: int = 0,
        look: Callable[[], None] | None = None,
        looks: int = 1,
    ) -> None:
        """Train up to `epochs` epochs, from `start`, with `looks` looks at the result in each.

        The last epoch may be a part of one.
        """
        at = {-(-self.steps * part // looks) for part in range(1, looks + 1)}
        total = max(1, round(epochs * self.steps))
        with manners(self.device):
            for epoch in range(start, math.ceil(epochs)):
                for step in self.epoch(epoch):
                    if look is not None and step + 1 in at:
                        look()
                    if epoch * self.steps + step + 1 == total:
                        break
                if after_epoch is not None:
                    after_epoch(epoch)

    def epoch(self, epoch: int) -> Iterator[int]:
        """Take an epoch's steps one by one, inside `manners`; gives each step's number."""
        self.draws.begin(epoch)
        self.order.shuffle(self.draws)
        self.done.zero_()
        for step in range(self.steps):
            self._advance()
            yield step

    def _advance(self) -> None:
        if self.device.type != "cuda" or not HAS_TRITON:
            self._step()
        elif self.recorded is not None:
            self.recorded.replay()
        elif self.taken < self.WARM_UP:
            self._step()
            self.taken += 1
        else:
            self.recorded = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.recorded, stream=torch.cuda.current_stream()):
                self._step()
            self.recorded.replay()

    def _step(self) -> None:
        active = (self.done < self.own_steps).float()  # (R,)
        index = self.order.batch(self.done)  # (R, B)
        pace = (MOMENTUM * active).view(-1, 1, 1)
        self.adam.clear()
        self.loss(index, self.draws, pace).sum().backward()
        self.adam.step(active)
        if self.average is not None:
            self.average.take(active)
        self.done += 1


def make_adam(network: nn.Module, rate: float = RATE, steps: Tensor | None = None) -> Adam:
    """Adam as it is quickest on the network's device."""
    parameters = list(network.parameters())
    kind = AdamOnCpu if parameters[0].device.type == "cpu" else Adam
    return kind(parameters, rate, steps)


def padded(rows: Sequence[IntArray], device: torch.device) -> Tensor:
    """Arrays of different lengths as one tensor, the shorter ones filled up with zeros.

    Examples
    --------
    >>> padded([np.array([1, 2]), np.array([3])], torch.device("cpu"))
    tensor([[1, 2],
            [3, 0]])
    """
    tensors = [torch.from_numpy(np.ascontiguousarray(row)) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True).to(device)


def find_device(name: str) -> torch.device:
    """The device that 'auto', 'cpu' or 'cuda' names.

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
            "no CUDA device was found; use --device cpu, or auto to take one where there is one."
        )
    return torch.device(name)


@contextlib.contextmanager
def manners(device: torch.device) -> Iterator[None]:
    """What training wants of the process, for as long as it lasts.

    On a GPU: a stream of one's own, which recording needs, and products in TF32. On the CPU:
    memory that is freed is kept, since each step asks for the same again.
    """
    if device.type == "cpu":
        with kept_memory():
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
