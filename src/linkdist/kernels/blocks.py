"""The fastest way through a block, without its Linear, on the device where x is.

`reference` says what is computed; `numba_block` has it compiled for the CPU, `triton_ops` for a
GPU. Tests hold the three together.
"""

from __future__ import annotations

import torch
from torch import Tensor

from linkdist.kernels import reference
from linkdist.kernels.backends import HAS_NUMBA, HAS_TRITON
from linkdist.kernels.reference import EPSILON, SLOPE, Affine, Running


def train(x: Tensor, affine: Affine, bits: Tensor, running: Running) -> Tensor:
    """In training.

    Parameters
    ----------
    x : (R, S, B, width) tensor
        What the layer before gave.
    affine : Affine
        Learnt.
    bits : (R, S, B, ⌈width / 8⌉) uint8 tensor
        Which elements Dropout keeps, eight to a byte.
    running : Running
        Moved by the way.

    Examples
    --------
    >>> x, bits = torch.ones(1, 1, 2, 8), torch.full((1, 1, 2, 1), 255, dtype=torch.uint8)
    >>> affine = Affine(*torch.ones(4, 1, 1, 1, 8))
    >>> train(x, affine, bits, Running(*torch.zeros(2, 1, 1, 8), torch.ones(1, 1, 1))).shape
    torch.Size([1, 1, 2, 8])
    """
    if x.is_cuda and HAS_TRITON:
        from linkdist.kernels import triton_ops

        y, mean, var = triton_ops.Normalise.apply(x, bits, SLOPE, EPSILON, *affine)  # type: ignore[no-untyped-call]
    elif x.device.type == "cpu" and HAS_NUMBA:
        from linkdist.kernels import numba_block

        y, mean, var = numba_block.Normalise.apply(x, bits, *affine)  # type: ignore[no-untyped-call]
    else:
        return reference.plain(x, affine, bits, running)
    reference.remember(mean, var, x.shape[-2], running)
    out: Tensor = y
    return out


def evaluate(x: Tensor, affine: Affine, mean: Tensor, var: Tensor) -> Tensor:
    """In evaluation, with running statistics (R, 1, width).

    Examples
    --------
    >>> affine = Affine(*torch.ones(4, 1, 1, 1, 8))
    >>> evaluate(torch.ones(1, 1, 2, 8), affine, *torch.ones(2, 1, 1, 8)).shape
    torch.Size([1, 1, 2, 8])
    """
    mean, var = mean.unsqueeze(1), var.unsqueeze(1)
    if x.is_cuda and HAS_TRITON and not torch.is_grad_enabled():
        from linkdist.kernels import triton_ops

        return triton_ops.activate(x, mean, var, affine, None, SLOPE, EPSILON)
    return reference.activate(x, mean, var, affine)
