"""The loss of a batch of links, by the fastest way there is on its device.

`nn.losses` says what is computed; `numba_loss` has it compiled for the CPU, `triton_loss` for a
GPU, each with its gradient in the same pass. Tests hold the three together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from linkdist.kernels.backends import HAS_NUMBA, HAS_TRITON
from linkdist.nn.losses import Coefficients, factors, link_loss, row_shares

Compiled: TypeAlias = Callable[[Sequence[Tensor]], tuple[Tensor, Tensor, Tensor]]


class Objective:
    """`nn.losses.link_loss` for one training.

    Parameters
    ----------
    by : Coefficients
        α, β1, β2, w, on the device of the logits to come.
    sides : {2, 3}
        LinkDist's two or CoLinkDist's three.

    Examples
    --------
    >>> loss = Objective(Coefficients(*torch.ones(3, 1), torch.ones(1, 2)), sides=2)
    >>> z, y = torch.zeros(1, 2, 1, 2), torch.tensor([[[0], [-1]]])
    >>> loss(z, z, y)
    tensor([1.3863])
    """

    def __init__(self, by: Coefficients, sides: int) -> None:
        self.by = by
        self.factors = tuple(part.contiguous() for part in factors(by, sides))
        self.compiled = _compiled(by.alpha.device)

    def __call__(self, z: Tensor, s: Tensor, y: Tensor) -> Tensor:
        """The loss (R,) of logits z and s (R, S, B, C) and labels y (R, S, B)."""
        if self.compiled is None:
            return link_loss(z, s, y, self.by)
        share = row_shares(y, y.clamp(min=0), self.by.weights)
        rest = (y.contiguous(), share.contiguous(), *self.factors, self.by.alpha)
        loss: Tensor = _WithGradient.apply(z, s, rest, self.compiled)  # type: ignore[no-untyped-call]
        return loss


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        z: Tensor,
        s: Tensor,
        rest: Sequence[Tensor],
        compiled: Compiled,
    ) -> Tensor:
        loss, *gradient = compiled((z.contiguous(), s.contiguous(), *rest))
        ctx.save_for_backward(*gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        dz, ds = ctx.saved_tensors
        grad = grad.view(-1, 1, 1, 1)
        return dz * grad, ds * grad, None, None


def _compiled(device: torch.device) -> Compiled | None:
    if device.type == "cpu" and HAS_NUMBA:
        from linkdist.kernels import numba_loss

        return numba_loss.loss_and_gradient
    if device.type == "cuda" and HAS_TRITON:
        from linkdist.kernels import triton_loss

        return triton_loss.loss_and_gradient
    return None
