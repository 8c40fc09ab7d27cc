"""The steps of training for R replicas: random numbers, Adam, an average.

Each replica has its own random streams, so it draws the same numbers whether it is trained alone or
beside others. The streams restart with every epoch from the replica's seed and the epoch's number:
an epoch does not depend on how much was drawn before it.

A replica that has finished its epoch waits for the others: its weights, its moments and its step
count stay as they are. With a known number of steps T, the learning rate of a replica decays along
a cosine: at step t it is ½ (1 + cos(π t / T)) of its initial value.

The average smooths the noise of the last steps and costs nothing at prediction time. With θ_t the
weights after step t and γ the decay,

    θ̄_t = θ̄_{t-1} + max(1 - γ, 9 / (8 + t)) (θ_t - θ̄_{t-1}),

so that the first steps lose their influence quickly. BatchNorm's running statistics are averaged
together with the weights.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from linkdist.kernels import adam_update, uses_triton
from linkdist.nn.network import DROPOUT, generators, kept_of_256

RATE = 0.01
BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8
DECAY = 0.99
WARM_UP = 9.0

Network = TypeVar("Network", bound=nn.Module)


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

    def uniform(self, r: int, count: int) -> Tensor:
        """Random numbers from 0 to below 1 from the stream of replica r."""
        out = torch.empty(count, dtype=torch.float64, device=self.device)
        return out.uniform_(generator=self.generators[r])

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


class Adam:
    """Adam for R replicas; a step changes only the active ones.

    Parameters
    ----------
    parameters : list of parameters
        Each with a leading replica axis.
    rate : float, optional
        The learning rate.
    steps : (R,) tensor, optional
        T, the number of steps over which the rate decays to 0; by default the rate is constant.
    """

    def __init__(
        self, parameters: list[nn.Parameter], rate: float = RATE, steps: Tensor | None = None
    ) -> None:
        self.parameters, self.rate, self.steps = parameters, rate, steps
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]
        self.count = torch.zeros(len(parameters[0]), 1, device=parameters[0].device)

    def state(self) -> dict[str, Tensor]:
        """The live tensors that the next step depends on, by name."""
        moments = {"first": self.first, "second": self.second}
        named = {f"{name}.{i}": t for name, all_ in moments.items() for i, t in enumerate(all_)}
        return {**named, "count": self.count}

    def decay(self) -> Tensor | float:
        """The factor (R, 1) of the learning rate for the next step."""
        if self.steps is None:
            return 1.0
        done = (self.count[:, :1] / self.steps.view(-1, 1)).clamp(max=1)
        return (1 + (math.pi * done).cos()) / 2

    def zero_grad(self) -> None:
        """Remove the gradients."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self, active: Tensor) -> None:
        """Update the replicas for which `active` (R,) is 1; leave the others as they are."""
        active = active.view(-1, 1)
        decay = self.decay()
        self.count += active
        t = self.count.clamp(min=1)
        rate = self.rate * decay * active / (1 - BETAS[0] ** t)
        shrink = (1 - BETAS[1] ** t).rsqrt()
        for p, m, v in zip(self.parameters, self.first, self.second, strict=True):
            if p.grad is not None:
                flat = [x.reshape(x.shape[0], -1) for x in (p, p.grad, m, v)]
                adam_update(flat, active, rate, shrink, BETAS, ADAM_EPSILON)


class AdamOnCpu(Adam):
    """The same with PyTorch's fused optimiser, one replica after the other."""

    def __init__(
        self, parameters: list[nn.Parameter], rate: float = RATE, steps: Tensor | None = None
    ) -> None:
        super().__init__(parameters, rate, steps)
        self.count = self.count.repeat(1, len(parameters))  # PyTorch counts for each parameter
        self.replicas = [[p.detach()[r] for p in parameters] for r in range(len(parameters[0]))]
        self.own = [
            torch.optim.Adam(views, lr=rate, betas=BETAS, eps=ADAM_EPSILON, fused=True)
            for views in self.replicas
        ]
        for r, (views, adam) in enumerate(zip(self.replicas, self.own, strict=True)):
            for i, view in enumerate(views):
                # These are views of our own tensors, so that `state` is complete.
                moments = {"exp_avg": self.first[i][r], "exp_avg_sq": self.second[i][r]}
                adam.state[view] = {"step": self.count[r, i], **moments}

    def step(self, active: Tensor) -> None:
        """Update the replicas for which `active` (R,) is 1; leave the others as they are."""
        decay = self.decay()
        for r in active.nonzero().flatten().tolist():
            if isinstance(decay, Tensor):
                self.own[r].param_groups[0]["lr"] = self.rate * float(decay[r])
            for p, view in zip(self.parameters, self.replicas[r], strict=True):
                view.grad = None if p.grad is None else p.grad[r]
            self.own[r].step()


def make_adam(network: nn.Module, rate: float = RATE, steps: Tensor | None = None) -> Adam:
    """The fastest Adam for the network's device.

    Examples
    --------
    >>> type(make_adam(nn.Linear(1, 1))).__name__
    'AdamOnCpu'
    """
    parameters = list(network.parameters())
    kind = AdamOnCpu if parameters[0].device.type == "cpu" else Adam
    return kind(parameters, rate, steps)


class Average(Generic[Network]):
    """The moving average of the weights and statistics of R replicas.

    Parameters
    ----------
    network : module
        Its parameters and buffers have a leading replica axis.
    decay : float, optional
        γ: the average covers about 1 / (1 - γ) steps.

    Attributes
    ----------
    network : module
        A copy that holds the average.

    Examples
    --------
    >>> layer = nn.Linear(1, 1, bias=False)
    >>> average = Average(layer, decay=0.5)
    >>> with torch.no_grad():
    ...     _ = layer.weight.fill_(4.0)
    >>> average.update(torch.ones(1))
    >>> average.network.weight.item()
    4.0
    """

    def __init__(self, network: Network, decay: float = DECAY) -> None:
        self.network = copy.deepcopy(network)
        self.decay = decay
        self.live = list(network.state_dict().values())
        self.mean = list(self.network.state_dict().values())
        self.count = torch.zeros(len(self.live[0]), device=self.live[0].device)

    @torch.no_grad()
    def update(self, active: Tensor) -> None:
        """Add one step of the replicas for which `active` (R,) is 1."""
        # `count` is the number of earlier steps: the first step replaces the average.
        rate = WARM_UP / (WARM_UP + self.count)
        self.count += active
        rate = rate.clamp(min=1 - self.decay) * active
        for mean, live in zip(self.mean, self.live, strict=True):
            mean.lerp_(live, rate.view(-1, *[1] * (live.ndim - 1)))
