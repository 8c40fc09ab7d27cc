"""The network for deployment: a plain MLP from features to own-label logits.

In evaluation, BatchNorm is a fixed scale and shift of each hidden feature, so it can be folded into
the preceding Linear layer:

    γ (x W - μ) / √(σ² + ε) + β  =  x W' + b'    with    W' = W γ / √(σ² + ε)
                                                         b' = β - μ γ / √(σ² + ε)

The result is Linear, LayerNorm, LeakyReLU, Linear, LayerNorm, LeakyReLU, Linear. Prediction from
features does not need the neighbour head; for prediction with links it is folded in the same way,
after the same first Linear layer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from linkdist.kernels import EPSILON, SLOPE
from linkdist.nn.network import Block, ForkedMLP


class Folded(nn.Module):
    """One head of a forked MLP with its BatchNorms folded away, for R replicas.

    Parameters
    ----------
    network : ForkedMLP
        A trained network; it is not changed.
    head : Block, optional
        By default `network.own`; `network.neighbour` for the other head.

    Examples
    --------
    >>> Folded(ForkedMLP(d=4, C=3, seeds=[0, 1]))(torch.eye(4)).shape
    torch.Size([2, 4, 3])
    """

    def __init__(self, network: ForkedMLP, head: Block | None = None) -> None:
        super().__init__()
        trunk, head = network.trunk, head or network.own
        self.first = nn.ParameterList(_fold(network.first.weight, trunk))
        self.second = nn.ParameterList(_fold(trunk.linear.weight.transpose(1, 2), head))
        assert head.linear.bias is not None
        self.third = nn.ParameterList(
            [head.linear.weight.detach().transpose(1, 2), head.linear.bias.detach()]
        )
        self.norms = nn.ParameterList(
            part.detach().squeeze(1)
            for b in (trunk, head)
            for part in (b.layer_scale, b.layer_shift)
        )
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (R, n, C) of dense features (n, d)."""
        scale1, shift1, scale2, shift2 = self.norms
        h = _activate(x @ self.first[0] + self.first[1], scale1, shift1)  # (R, n, hidden)
        h = _activate(torch.baddbmm(self.second[1], h, self.second[0]), scale2, shift2)
        return torch.baddbmm(self.third[1], h, self.third[0])


def _activate(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return F.leaky_relu(F.layer_norm(x, x.shape[-1:], eps=EPSILON) * scale + shift, SLOPE)


def _fold(weight: Tensor, block: Block) -> tuple[Tensor, Tensor]:
    """W' and b' for the Linear layer without bias before a block, and the block's BatchNorm."""
    by = block.batch_scale.detach().squeeze(1) * (block.running_var + EPSILON).rsqrt()  # (R, 1, h)
    return weight.detach() * by, block.batch_shift.detach().squeeze(1) - block.running_mean * by
