"""Fast mathematics: one dispatch to Triton, Numba or plain PyTorch.

Each function runs the fastest implementation for the device of its tensors: a Triton kernel on a
GPU, a loop compiled by Numba on the CPU, and plain PyTorch everywhere else. The plain PyTorch
version defines the result; tests compare the others with it. Triton and Numba are imported on
first use, so that an installation without them works.

A block without its Linear layer is BatchNorm, LayerNorm, LeakyReLU, Dropout 0.5; a network of
narrow layers spends most of its time there. x is (R, S, B, width): R replicas, S sides of a batch,
B rows. BatchNorm takes its statistics over the rows of one side of one replica and updates its
running statistics one side after the other.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

HAS_TRITON = importlib.util.find_spec("triton") is not None
HAS_NUMBA = importlib.util.find_spec("numba") is not None

SLOPE = 0.01
EPSILON = 1e-5

Context: TypeAlias = Any
"""The first argument of an autograd function, to which PyTorch gives no type."""
LossKernel: TypeAlias = Callable[[Sequence[Tensor]], tuple[Tensor, Tensor, Tensor]]
"""From z, s, labels, row weights, both factors and α to the loss and its two gradients."""


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


def uses_triton(device: torch.device) -> bool:
    """Whether Triton kernels run on a device.

    Examples
    --------
    >>> uses_triton(torch.device("cpu"))
    False
    """
    return device.type == "cuda" and HAS_TRITON


def apply(function: type[torch.autograd.Function], *arguments: object) -> Tensor:
    """The result of an autograd function; PyTorch's own `apply` has no type."""
    result: Tensor = function.apply(*arguments)
    return result


def train_block(x: Tensor, affine: Affine, bits: Tensor, running: Running) -> Tensor:
    """A block without its Linear layer, in training mode.

    Parameters
    ----------
    x : (R, S, B, width) tensor
        The output of the previous layer.
    affine : Affine
        The learnt scales and shifts.
    bits : (R, S, B, ⌈width / 8⌉) uint8 tensor
        The elements that Dropout keeps, eight to a byte.
    running : Running
        Updated in place.

    Examples
    --------
    >>> x, bits = torch.ones(1, 1, 2, 8), torch.full((1, 1, 2, 1), 255, dtype=torch.uint8)
    >>> affine = Affine(*torch.ones(4, 1, 1, 1, 8))
    >>> train_block(x, affine, bits, Running(*torch.zeros(2, 1, 1, 8), torch.ones(1, 1, 1))).shape
    torch.Size([1, 1, 2, 8])
    """
    if uses_triton(x.device):
        from linkdist.kernels import triton_ops

        y, mean, var = triton_ops.Normalise.apply(x, bits, *affine)  # type: ignore[no-untyped-call]
    elif x.device.type == "cpu" and HAS_NUMBA:
        from linkdist.kernels import numba_ops

        y, mean, var = numba_ops.Normalise.apply(x, bits, *affine)  # type: ignore[no-untyped-call]
    else:
        return plain_block(x, affine, bits, running)
    update_running(mean, var, x.shape[-2], running)
    out: Tensor = y
    return out


def plain_block(x: Tensor, affine: Affine, bits: Tensor, running: Running) -> Tensor:
    """The definition of `train_block`."""
    var, mean = torch.var_mean(x, dim=-2, keepdim=True, correction=0)
    update_running(mean, var, x.shape[-2], running)
    return activate(x, mean, var, affine) * unpack(bits, x.shape[-1]) * 2


def evaluate_block(x: Tensor, affine: Affine, mean: Tensor, var: Tensor) -> Tensor:
    """A block without its Linear layer, in evaluation mode, with running statistics (R, 1, width).

    Examples
    --------
    >>> affine = Affine(*torch.ones(4, 1, 1, 1, 8))
    >>> evaluate_block(torch.ones(1, 1, 2, 8), affine, *torch.ones(2, 1, 1, 8)).shape
    torch.Size([1, 1, 2, 8])
    """
    mean, var = mean.unsqueeze(1), var.unsqueeze(1)
    if uses_triton(x.device) and not torch.is_grad_enabled():
        from linkdist.kernels import triton_ops

        return triton_ops.activate(x, mean, var, affine, None)
    return activate(x, mean, var, affine)


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


def link_loss_kernel(device: torch.device) -> LossKernel | None:
    """The compiled loss and gradient of a batch of links; None where only PyTorch is available.

    Examples
    --------
    >>> link_loss_kernel(torch.device("meta")) is None
    True
    """
    if device.type == "cpu" and HAS_NUMBA:
        from linkdist.kernels import numba_ops

        return numba_ops.loss_and_gradient
    if uses_triton(device):
        from linkdist.kernels import triton_loss

        return triton_loss.loss_and_gradient
    return None


def adam_update(
    parameter: Sequence[Tensor],
    active: Tensor,
    rate: Tensor,
    shrink: Tensor,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """One step of Adam for one parameter, in place.

    Parameters
    ----------
    parameter : sequence of four (R, size) tensors
        The parameter, its gradient, and its first and second moments.
    active, rate, shrink : (R, 1) tensors
        1 for replicas that take the step; their bias-corrected learning rates; 1 / √(1 - β2^t).
    betas, epsilon
        As in `torch.optim.Adam`.

    Examples
    --------
    >>> p, one = torch.zeros(1, 2), torch.ones(1, 1)
    >>> moments = torch.zeros(2, 1, 2)
    >>> adam_update((p, torch.ones(1, 2), *moments), one, one, one, (0.0, 0.0), 0.0)
    >>> p
    tensor([[-1., -1.]])
    """
    p, g, m, v = parameter
    if uses_triton(p.device):
        from linkdist.kernels import triton_ops

        triton_ops.adam_update(p, g, m, v, active, rate, shrink, betas, epsilon)
        return
    m.lerp_(g, (1 - betas[0]) * active)
    v.lerp_(g * g, (1 - betas[1]) * active)
    p.sub_(rate * m / (v.sqrt() * shrink + epsilon))


def sparse_product(matrix: Tensor, x: Tensor) -> Tensor:
    """P x for a CSR matrix P; Triton also takes the P of one graph and an x of several replicas.

    Examples
    --------
    >>> sparse_product(torch.eye(2).to_sparse_csr(), torch.tensor([[1.0], [2.0]])).flatten()
    tensor([1., 2.])
    """
    if uses_triton(x.device):
        from linkdist.kernels import triton_ops

        return triton_ops.neighbours(matrix, x)
    return matrix @ x


def add_sums(total: Tensor, matrix: Tensor, x: Tensor) -> None:
    """Add P x to a total (m, f) in place, for a CSR matrix P (m, n) and x (n, f) in float16.

    Examples
    --------
    >>> total = torch.ones(2, 1)
    >>> add_sums(total, torch.eye(2).to_sparse_csr(), torch.tensor([[1.0], [2.0]]).half())
    >>> total.flatten()
    tensor([2., 3.])
    """
    starts, columns, values = matrix.crow_indices(), matrix.col_indices(), matrix.values()
    if uses_triton(x.device):
        from linkdist.kernels import triton_ops

        triton_ops.add_sums(total, starts, columns, values, x)
    elif HAS_NUMBA and x.device.type == "cpu" and x.dtype == torch.float16:
        from linkdist.kernels import numba_sums

        arrays = (starts.to(torch.int32), columns.to(torch.int32), values, x, total)
        numba_sums.add_half_sums(*arrays, *total.shape, len(x), len(values))
    else:
        total += matrix @ x.float()
