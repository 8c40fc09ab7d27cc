"""A block without its Linear layer as compiled loops for the CPU; see `reference.train_block`.

Each of PyTorch's operations passes over all activations. Here BatchNorm, LayerNorm, LeakyReLU and
Dropout together take two passes forward (statistics, then rows) and two backward, and only the
input is kept for the backward pass, as in `triton_ops`.

There are G = R · S groups, one for each replica and side, of `rows` rows with `width` numbers.
Threads work on pieces of rows. Sums over rows are computed piece by piece in a fixed order, so that
the result does not depend on the number of threads. A loop that sums along a row does not write:
the compiler would make two versions of it, for overlapping and for separate arrays, with different
orders of summation, and the choice between them would depend on memory addresses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from linkdist.kernels._openmp import array, compiled, inlined, numbers, thread, threads
from linkdist.kernels.reference import EPSILON, SLOPE

PIECE = 64
"""Number of rows that a thread processes at a time."""

f32, u8 = np.float32, np.uint8
slope, epsilon = f32(SLOPE), f32(EPSILON)

FACTORS = torch.from_numpy(
    np.unpackbits(np.arange(256, dtype=u8)[:, None], axis=1, bitorder="little").astype(f32) * 2
)
"""The eight bits of each byte as Dropout's factors, 0 or 2."""


@compiled
def _moments(address):
    """Sums of each piece's rows and of their squares, relative to the group's first row."""
    a = numbers(address, 5)
    groups, rows, width = a[2], a[3], a[4]
    pieces = (rows + PIECE - 1) // PIECE
    x = array(a[0], (groups, rows, width), f32)
    sums = array(a[1], (groups, pieces, 2, width), f32)
    for at in range(thread(), groups * pieces, threads()):
        group, piece = at // pieces, at % pieces
        total, square = sums[group, piece, 0], sums[group, piece, 1]
        total[:] = 0
        square[:] = 0
        first = x[group, 0]
        for row in range(piece * PIECE, min(rows, (piece + 1) * PIECE)):
            here = x[group, row]
            for c in range(width):
                apart = here[c] - first[c]
                total[c] += apart
                square[c] += apart * apart


@inlined
def _unpack(bits, factors, keep):
    """Dropout's factors of one row, eight from each byte."""
    for byte in range(bits.shape[0]):
        eight = factors[bits[byte]]
        for c in range(8):
            keep[8 * byte + c] = eight[c]


@inlined
def _normalise(x, mean, by, shift, normal):
    """BatchNorm of one row minus its mean, into `normal`; returns LayerNorm's scale."""
    width = x.shape[0]
    for c in range(width):
        normal[c] = (x[c] - mean[c]) * by[c] + shift[c]
    total = f32(0)
    for c in range(width):
        total += normal[c]
    level = total / f32(width)
    for c in range(width):
        normal[c] -= level
    square = f32(0)
    for c in range(width):
        square += normal[c] * normal[c]
    return f32(1) / np.sqrt(square / f32(width) + epsilon)


@compiled
def _forward(address):
    a = numbers(address, 13)
    groups, rows, width, sides = a[9], a[10], a[11], a[12]
    size, pieces, replicas = (width + 7) // 8, (rows + PIECE - 1) // PIECE, groups // sides
    x, y = array(a[0], (groups, rows, width), f32), array(a[1], (groups, rows, width), f32)
    bits, factors = array(a[2], (groups, rows, size), u8), array(a[3], (256, 8), f32)
    mean, by = array(a[4], (groups, width), f32), array(a[5], (groups, width), f32)
    batch_shift = array(a[6], (replicas, width), f32)
    layer_scale, layer_shift = (
        array(a[7], (replicas, width), f32),
        array(a[8], (replicas, width), f32),
    )
    normal, keep = np.empty(width, f32), np.empty(8 * size, f32)
    for at in range(thread(), groups * pieces, threads()):
        group, piece = at // pieces, at % pieces
        r = group // sides
        scale, shift = layer_scale[r], layer_shift[r]
        for row in range(piece * PIECE, min(rows, (piece + 1) * PIECE)):
            _unpack(bits[group, row], factors, keep)
            spread = _normalise(x[group, row], mean[group], by[group], batch_shift[r], normal)
            out = y[group, row]
            for c in range(width):
                t = normal[c] * spread * scale[c] + shift[c]
                out[c] = max(t, slope * t) * keep[c]


@compiled
def _backward(address):
    """The gradient of BatchNorm's output, into dx, and four sums over each piece's rows."""
    a = numbers(address, 15)
    groups, rows, width, sides = a[11], a[12], a[13], a[14]
    size, pieces, replicas = (width + 7) // 8, (rows + PIECE - 1) // PIECE, groups // sides
    x, dy = array(a[0], (groups, rows, width), f32), array(a[1], (groups, rows, width), f32)
    dx = array(a[2], (groups, rows, width), f32)
    bits, factors = array(a[3], (groups, rows, size), u8), array(a[4], (256, 8), f32)
    mean, by = array(a[5], (groups, width), f32), array(a[6], (groups, width), f32)
    batch_shift = array(a[7], (replicas, width), f32)
    layer_scale, layer_shift = (
        array(a[8], (replicas, width), f32),
        array(a[9], (replicas, width), f32),
    )
    sums = array(a[10], (groups, pieces, 4, width), f32)
    normal, keep, d = np.empty(width, f32), np.empty(8 * size, f32), np.empty(width, f32)
    for at in range(thread(), groups * pieces, threads()):
        group, piece = at // pieces, at % pieces
        r = group // sides
        scale, shift, center = layer_scale[r], layer_shift[r], mean[group]
        sums[group, piece] = 0
        of_layer_scale, of_layer_shift = sums[group, piece, 0], sums[group, piece, 1]
        of_batch_scale, of_batch_shift = sums[group, piece, 2], sums[group, piece, 3]
        for row in range(piece * PIECE, min(rows, (piece + 1) * PIECE)):
            _unpack(bits[group, row], factors, keep)
            here, given, out = x[group, row], dy[group, row], dx[group, row]
            spread = _normalise(here, center, by[group], batch_shift[r], normal)
            for c in range(width):
                t = normal[c] * spread
                normal[c] = t
                g = given[c] * keep[c]
                g = g if t * scale[c] + shift[c] > 0 else slope * g
                of_layer_scale[c] += g * t
                of_layer_shift[c] += g
                d[c] = g * scale[c]
            level, along = f32(0), f32(0)
            for c in range(width):
                level += d[c]
                along += d[c] * normal[c]
            level /= f32(width)
            along /= f32(width)
            for c in range(width):
                g = (d[c] - level - normal[c] * along) * spread
                of_batch_scale[c] += g * (here[c] - center[c])
                of_batch_shift[c] += g
                out[c] = g


@compiled
def _through_batch(address):
    """From the gradient of BatchNorm's output to that of its input, in place."""
    a = numbers(address, 9)
    groups, rows, width = a[6], a[7], a[8]
    pieces = (rows + PIECE - 1) // PIECE
    x, dx = array(a[0], (groups, rows, width), f32), array(a[1], (groups, rows, width), f32)
    mean, by = array(a[2], (groups, width), f32), array(a[3], (groups, width), f32)
    level, along = array(a[4], (groups, width), f32), array(a[5], (groups, width), f32)
    for at in range(thread(), groups * pieces, threads()):
        group, piece = at // pieces, at % pieces
        center, scale, less, slant = mean[group], by[group], level[group], along[group]
        for row in range(piece * PIECE, min(rows, (piece + 1) * PIECE)):
            here, out = x[group, row], dx[group, row]
            for c in range(width):
                out[c] = out[c] * scale[c] - less[c] - (here[c] - center[c]) * slant[c]


class Normalise(torch.autograd.Function):
    """From x, bits and affine to y and the batch's mean and variance, each (R, S, 1, width)."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        bits: Tensor,
        *affine: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        R, S, B, width = x.shape
        x, bits = x.contiguous(), bits.contiguous()
        sums = x.new_empty(R * S, -(-B // PIECE), 2, width)
        _moments(x, sums, R * S, B, width)
        apart, square = sums.sum(1).div_(B).view(R, S, 1, 2, width).unbind(3)
        mean = x[:, :, :1] + apart
        var = (square - apart * apart).clamp_(min=0)
        batch_scale, *rest = affine
        deviation = (var + EPSILON).rsqrt()
        by = deviation * batch_scale
        y = torch.empty_like(x)
        _forward(x, y, bits, FACTORS, mean, by, *rest, R * S, B, width, S)
        ctx.save_for_backward(x, bits, mean, deviation, by, *rest)
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, bits, mean, deviation, by, *rest = ctx.saved_tensors
        R, S, B, width = x.shape
        dx = torch.empty_like(x)
        sums = x.new_empty(R * S, -(-B // PIECE), 4, width)
        _backward(x, dy.contiguous(), dx, bits, FACTORS, mean, by, *rest, sums, R * S, B, width, S)
        layer_scale, layer_shift, batch_scale, batch_shift = (
            sums.sum(1).view(R, S, 1, 4, width).unbind(3)
        )
        batch_scale = batch_scale * deviation
        level, along = by * batch_shift / B, by * deviation * batch_scale / B
        _through_batch(x, dx, mean, by, level, along, R * S, B, width)
        grads = (batch_scale, batch_shift, layer_scale, layer_shift)
        return dx, None, *(grad.sum(1, keepdim=True) for grad in grads)
