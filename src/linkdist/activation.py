"""A block without its Linear: BatchNorm, LayerNorm, LeakyReLU, Dropout 0.5.

Written three times, since this is where a network of narrow layers spends its time: `plain` says
what is computed; on the CPU, `native` gets it from PyTorch's own normalisation layers, one side of
one replica at a time; on a GPU, `kernels` has it in Triton. Tests hold the three together.

x is (R, S, B, width): R replicas, S sides of a batch, B rows. BatchNorm takes its statistics over
the rows of one side of one replica, and its running statistics move one side after the other.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

SLOPE = 0.01
EPSILON = 1e-5

HAS_TRITON = importlib.util.find_spec("triton") is not None


class Affine(NamedTuple):
    """The learnt scales and shifts of both normalisations, each (R, 1, 1, width)."""

    batch_scale: Tensor
    batch_shift: Tensor
    layer_scale: Tensor
    layer_shift: Tensor


class Running(NamedTuple):
    """BatchNorm's statistics for evaluation, each (R, 1, width), and how far a batch moves them.

    Attributes
    ----------
    mean, var : (R, 1, width) tensor
        Moved in place.
    pace : (R, 1, 1) tensor
        0 holds a replica still.
    """

    mean: Tensor
    var: Tensor
    pace: Tensor


def train(x: Tensor, affine: Affine, bits: Tensor, running: Running) -> Tensor:
    """In training, by the fastest way there is on x's device.

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
    """
    if x.is_cuda and HAS_TRITON:
        return _kernels(x, affine, bits, running)
    return (
        native(x, affine, bits, running)
        if x.device.type == "cpu"
        else plain(x, affine, bits, running)
    )


def evaluate(x: Tensor, affine: Affine, mean: Tensor, var: Tensor) -> Tensor:
    """In evaluation, with running statistics (R, 1, width)."""
    mean, var = mean.unsqueeze(1), var.unsqueeze(1)
    if x.is_cuda and HAS_TRITON and not torch.is_grad_enabled():
        from linkdist import kernels

        return kernels.activate(x, mean, var, affine, None, SLOPE, EPSILON)
    return _activate(x, mean, var, affine)


def plain(x: Tensor, affine: Affine, bits: Tensor, running: Running) -> Tensor:
    """What is computed, in so many words."""
    var, mean = torch.var_mean(x, dim=-2, keepdim=True, correction=0)
    _remember(mean, var, x.shape[-2], running)
    return _activate(x, mean, var, affine) * unpack(bits, x.shape[-1]) * 2


def native(x: Tensor, affine: Affine, bits: Tensor, running: Running) -> Tensor:
    """By PyTorch's own layers, which read and write memory least on the CPU."""
    out: Tensor = _Native.apply(x, bits, running, *affine)  # type: ignore[no-untyped-call]
    return out


class _Native(torch.autograd.Function):
    """native_batch_norm on each side of a replica, native_layer_norm on its sides together.

    By hand rather than by autograd, so that the sides share one output and one gradient: putting
    them together afterwards took a tenth of a step.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: Tensor, running: Running, *parts: Tensor) -> Tensor:  # noqa: ANN401
        ctx.x, ctx.keep = x, _keep(bits, x.shape[-1])
        ctx.affine = [part.flatten(1) for part in parts]  # each (R, width)
        ctx.replicas = []
        out = torch.empty_like(x)
        for r, (bs, bb, ls, lb) in enumerate(zip(*ctx.affine, strict=True)):
            y = torch.empty_like(x[r])
            moments = [torch.empty_like(x[r, :, 0]) for _ in range(2)]  # (S, width)
            settings = (
                running.mean[r, 0],
                running.var[r, 0],
                True,
                float(running.pace[r]),
                EPSILON,
            )
            for s, side in enumerate(x[r]):
                into = {"out": y[s], "save_mean": moments[0][s], "save_invstd": moments[1][s]}
                torch.ops.aten.native_batch_norm.out(side, bs, bb, *settings, **into)
            t, *layer = torch.native_layer_norm(y, y.shape[-1:], ls, lb, EPSILON)
            torch.mul(F.leaky_relu(t, SLOPE), ctx.keep[r], out=out[r])
            ctx.replicas.append((y, moments, t, layer))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        back = torch.ops.aten
        dx = torch.empty_like(ctx.x)
        d_affine = [torch.zeros_like(part) for part in ctx.affine]  # of bs, bb, ls, lb
        for r, (y, moments, t, layer) in enumerate(ctx.replicas):
            bs, _, ls, lb = (part[r] for part in ctx.affine)
            dt = back.leaky_relu_backward(grad[r] * ctx.keep[r], t, SLOPE, False)
            dy, d_affine[2][r], d_affine[3][r] = back.native_layer_norm_backward(
                dt, y, y.shape[-1:], *layer, ls, lb, [True] * 3
            )
            for s, d in enumerate(dy):
                saved = (moment[s] for moment in moments)
                dx[r, s], d_bs, d_bb = back.native_batch_norm_backward(
                    d, ctx.x[r, s], bs, None, None, *saved, True, EPSILON, [True] * 3
                )
                d_affine[0][r] += d_bs
                d_affine[1][r] += d_bb
        return dx, None, None, *(part[:, None, None] for part in d_affine)


@functools.cache
def _table() -> Tensor:
    """Each byte's eight bits as Dropout's factors, 0 or 2: (256, 8)."""
    every = torch.arange(256, dtype=torch.uint8).unsqueeze(1)
    return unpack(every, 8).float().mul_(2)


def _keep(bits: Tensor, width: int) -> Tensor:
    """Dropout's factors (..., width); looking bytes up is quicker than shifting them."""
    return F.embedding(bits.int(), _table()).flatten(-2)[..., :width]


def _kernels(x: Tensor, affine: Affine, bits: Tensor, running: Running) -> Tensor:
    from linkdist import kernels

    y, mean, var = kernels.Normalise.apply(x, bits, SLOPE, EPSILON, *affine)  # type: ignore[no-untyped-call]
    _remember(mean, var, x.shape[-2], running)
    out: Tensor = y
    return out


def _activate(x: Tensor, mean: Tensor, var: Tensor, affine: Affine) -> Tensor:
    """BatchNorm with the given statistics, LayerNorm, LeakyReLU."""
    x = (x - mean) * (var + EPSILON).rsqrt() * affine.batch_scale + affine.batch_shift
    x = F.layer_norm(x, x.shape[-1:], eps=EPSILON) * affine.layer_scale + affine.layer_shift
    return F.leaky_relu(x, SLOPE)


@torch.no_grad()
def _remember(mean: Tensor, var: Tensor, rows: int, running: Running) -> None:
    unbiased = var * (rows / max(rows - 1, 1))
    # One side after the other, as if each had been a batch of its own.
    for side in range(mean.shape[1]):
        running.mean.lerp_(mean[:, side], running.pace)
        running.var.lerp_(unbiased[:, side], running.pace)


def unpack(bits: Tensor, width: int) -> Tensor:
    """Eight packed bits a byte, as booleans, lowest bit first.

    Examples
    --------
    >>> unpack(torch.tensor([5], dtype=torch.uint8), 4)
    tensor([ True, False,  True, False])
    """
    place = torch.arange(8, dtype=torch.uint8, device=bits.device)
    single = bits.unsqueeze(-1).bitwise_right_shift(place).bitwise_and(1)
    return single.flatten(-2)[..., :width].bool()
