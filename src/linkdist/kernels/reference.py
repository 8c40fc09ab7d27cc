"""A block without its Linear layer: BatchNorm, LayerNorm, LeakyReLU, Dropout 0.5.

This is the definition in plain PyTorch. `numba_block` and `triton_ops` compute the same result
faster: a network of narrow layers spends most of its time here.

x is (R, S, B, width): R replicas, S sides of a batch, B rows. BatchNorm takes its statistics over
the rows of one side of one replica and updates its running statistics one side after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

SLOPE = 0.01
EPSILON = 1e-5


class Affine(NamedTuple):
    """The learnt scales and shifts of both normalisations, each (R, 1, 1, width)."""

    batch_scale: Tensor
    batch_shift: Tensor
    layer_scale: Tensor
    layer_shift: Tensor


class Running(NamedTuple):
    """BatchNorm's running statistics, which evaluation uses.

    Attributes
    ----------
    mean, var : (R, 1, width) tensor
        Updated in place.
    momentum : (R, 1, 1) tensor
        How far one batch moves them; 0 leaves a replica's statistics unchanged.
    """

    mean: Tensor
    var: Tensor
    momentum: Tensor


def train_block(x: Tensor, affine: Affine, bits: Tensor, running: Running) -> Tensor:
    """The block in training mode; see `linkdist.kernels.train_block`."""
    var, mean = torch.var_mean(x, dim=-2, keepdim=True, correction=0)
    update_running(mean, var, x.shape[-2], running)
    return activate(x, mean, var, affine) * unpack(bits, x.shape[-1]) * 2


def activate(x: Tensor, mean: Tensor, var: Tensor, affine: Affine) -> Tensor:
    """BatchNorm with the given statistics, LayerNorm, LeakyReLU."""
    x = (x - mean) * (var + EPSILON).rsqrt() * affine.batch_scale + affine.batch_shift
    x = F.layer_norm(x, x.shape[-1:], eps=EPSILON) * affine.layer_scale + affine.layer_shift
    return F.leaky_relu(x, SLOPE)


@torch.no_grad()
def update_running(mean: Tensor, var: Tensor, rows: int, running: Running) -> None:
    """Move the running statistics towards those of a batch, each (R, S, 1, width)."""
    unbiased = var * (rows / max(rows - 1, 1))
    # One side after the other, as if each side were a batch of its own.
    for side in range(mean.shape[1]):
        running.mean.lerp_(mean[:, side], running.momentum)
        running.var.lerp_(unbiased[:, side], running.momentum)


def unpack(bits: Tensor, width: int) -> Tensor:
    """Unpack eight bits from each byte as booleans, the lowest bit first.

    Examples
    --------
    >>> unpack(torch.tensor([5], dtype=torch.uint8), 4)
    tensor([ True, False,  True, False])
    """
    place = torch.arange(8, dtype=torch.uint8, device=bits.device)
    single = bits.unsqueeze(-1).bitwise_right_shift(place).bitwise_and(1)
    return single.flatten(-2)[..., :width].bool()
