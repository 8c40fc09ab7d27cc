"""A moving average of a network's weights.

The weights of the last steps scatter around a good place; their mean is nearer to it and costs
nothing at prediction. With θ_t the weights after step t and γ the decay,

    θ̄_t = θ̄_{t-1} + max(1 - γ, 9 / (8 + t)) (θ_t - θ̄_{t-1}),

so that the first steps, far from anywhere good, are soon forgotten. BatchNorm's running statistics
are averaged with the weights that they belong to.
"""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

DECAY = 0.99
WARM_UP = 9.0

Network = TypeVar("Network", bound=nn.Module)


class Average(Generic[Network]):
    """The moving average of R replicas' weights and statistics.

    Parameters
    ----------
    network : module
        Its parameters and buffers have a leading replica axis.
    decay : float, optional
        γ: the average is over about 1 / (1 - γ) steps.

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
    >>> average.take(torch.ones(1))
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
    def take(self, active: Tensor) -> None:
        """Take in a step of the replicas where `active` (R,) is 1; the others hold still."""
        # t steps before this one: the first is taken over whole.
        pace = WARM_UP / (WARM_UP + self.count)
        self.count += active
        pace = pace.clamp(min=1 - self.decay) * active
        for mean, live in zip(self.mean, self.live, strict=True):
            mean.lerp_(live, pace.view(-1, *[1] * (live.ndim - 1)))
