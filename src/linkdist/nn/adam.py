"""Adam for R replicas, of which a step moves only the active ones.

A replica whose epoch is over holds still while the others go on: its weights, its moments and its
count of steps stay as they are. Where a replica's number of steps T is known, its learning rate may
fall on the way, at step t to ½ (1 + cos(π t / T)) of what it was: the last steps are small ones,
and where they end is where they were heading.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from linkdist.kernels.backends import HAS_TRITON

RATE = 0.01
BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


class Adam:
    """Adam for R replicas, of which a step moves only the active ones.

    Parameters
    ----------
    parameters : list of parameters
        Each with a leading replica axis.
    rate : float, optional
        The learning rate.
    steps : (R,) tensor, optional
        T, over which the rate falls; without it the rate stays.
    """

    def __init__(
        self, parameters: list[nn.Parameter], rate: float = RATE, steps: Tensor | None = None
    ) -> None:
        self.parameters, self.rate, self.steps = parameters, rate, steps
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]
        self.count = self._no_steps(len(parameters[0]), parameters[0].device)

    def _no_steps(self, R: int, device: torch.device) -> Tensor:
        return torch.zeros(R, 1, device=device)

    def state(self) -> dict[str, Tensor]:
        """The live tensors that the next step depends on, by name."""
        moments = {"first": self.first, "second": self.second}
        named = {f"{name}.{i}": t for name, all_ in moments.items() for i, t in enumerate(all_)}
        return {**named, "count": self.count}

    def pace(self) -> Tensor | float:
        """What is left of the rate before a step, (R, 1)."""
        if self.steps is None:
            return 1.0
        done = (self.count[:, :1] / self.steps.view(-1, 1)).clamp(max=1)
        return (1 + (math.pi * done).cos()) / 2

    def clear(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self, active: Tensor) -> None:
        """Move the replicas where `active` (R,) is 1, and leave the others as they are."""
        active = active.view(-1, 1)
        pace = self.pace()
        self.count += active
        t = self.count.clamp(min=1)
        rate = self.rate * pace * active / (1 - BETAS[0] ** t)
        shrink = (1 - BETAS[1] ** t).rsqrt()
        for p, m, v in zip(self.parameters, self.first, self.second, strict=True):
            if p.grad is not None:
                flat = [x.reshape(x.shape[0], -1) for x in (p, p.grad, m, v)]
                adam_update(flat, active, rate, shrink)


class AdamOnCpu(Adam):
    """The same by PyTorch's fused optimiser, which on the CPU takes replicas one by one."""

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
                # Views of our own tensors, so that `state` is all there is.
                moments = {"exp_avg": self.first[i][r], "exp_avg_sq": self.second[i][r]}
                adam.state[view] = {"step": self.count[r, i], **moments}

    def _no_steps(self, R: int, device: torch.device) -> Tensor:
        return torch.zeros(R, len(self.parameters), device=device)

    def step(self, active: Tensor) -> None:
        """Move the replicas where `active` (R,) is 1, and leave the others as they are."""
        pace = self.pace()
        for r in active.nonzero().flatten().tolist():
            if isinstance(pace, Tensor):
                self.own[r].param_groups[0]["lr"] = self.rate * float(pace[r])
            for p, view in zip(self.parameters, self.replicas[r], strict=True):
                view.grad = None if p.grad is None else p.grad[r]
            self.own[r].step()


def adam_update(flat: list[Tensor], active: Tensor, rate: Tensor, shrink: Tensor) -> None:
    """Adam on one parameter, its gradient and its two moments, each (R, size), in place."""
    p, g, m, v = flat
    if p.is_cuda and HAS_TRITON:
        from linkdist.kernels import triton_ops

        triton_ops.adam_update(p, g, m, v, active, rate, shrink, BETAS, ADAM_EPSILON)
        return
    m.lerp_(g, (1 - BETAS[0]) * active)
    v.lerp_(g * g, (1 - BETAS[1]) * active)
    p.sub_(rate * m / (v.sqrt() * shrink + ADAM_EPSILON))
