"""Adam for R replicas, and a moving average of their weights.

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
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from linkdist.kernels import adam_update

RATE = 0.01
BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8
DECAY = 0.99
WARM_UP = 9.0

Network = TypeVar("Network", bound=nn.Module)


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
        self.count = self._zero_count(len(parameters[0]), parameters[0].device)

    def _zero_count(self, R: int, device: torch.device) -> Tensor:
        return torch.zeros(R, 1, device=device)

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

    def _zero_count(self, R: int, device: torch.device) -> Tensor:
        return torch.zeros(R, len(self.parameters), device=device)

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
