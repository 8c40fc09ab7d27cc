"""The block, the loss and the first layer's product as loops that Numba compiles for the CPU.

A block (`kernels.plain_block`) takes two passes forward (statistics, then rows) and two backward,
and only its input is kept for the latter, as in `triton_ops`. There are G = R · S groups, one for
each replica and side, of `rows` rows with `width` numbers. The terms of a row of the loss
(`nn.losses`) and their derivatives by z and s are computed together. X[rows] W is computed from the
CSR matrix X: a row of the product is a weighted sum of rows of W.

Threads work on pieces of rows. Sums over rows are computed piece by piece in a fixed order, so that
the result does not depend on the number of threads. A loop that sums along a row does not write:
the compiler would make two versions of it, for overlapping and for separate arrays, with different
orders of summation, and the choice between them would depend on memory addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from linkdist.kernels import EPSILON, SLOPE, Context
from linkdist.kernels._openmp import array, compiled, inlined, numbers, thread, threads

PIECE, PRODUCT_PIECE = 64, 32
"""Numbers of rows that a thread processes at a time, in most loops and in the product's."""

f32, i32, i64, u8 = np.float32, np.int32, np.int64, np.uint8
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
        sums[group, piece] = 0
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


@inlined
def _inputs(a):
    """What the forward pass computes with, and the backward pass again."""
    groups, rows, width, sides = a[0], a[1], a[2], a[3]
    size, replicas = (width + 7) // 8, groups // sides
    x, bits = array(a[4], (groups, rows, width), f32), array(a[5], (groups, rows, size), u8)
    factors = array(a[6], (256, 8), f32)
    mean, by = array(a[7], (groups, width), f32), array(a[8], (groups, width), f32)
    batch_shift = array(a[9], (replicas, width), f32)
    layer_scale = array(a[10], (replicas, width), f32)
    layer_shift = array(a[11], (replicas, width), f32)
    return x, bits, factors, mean, by, batch_shift, layer_scale, layer_shift


@compiled
def _forward(address):
    a = numbers(address, 13)
    groups, rows, width, sides = a[0], a[1], a[2], a[3]
    size, pieces = (width + 7) // 8, (rows + PIECE - 1) // PIECE
    x, bits, factors, mean, by, batch_shift, layer_scale, layer_shift = _inputs(a)
    y = array(a[12], (groups, rows, width), f32)
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
    groups, rows, width, sides = a[0], a[1], a[2], a[3]
    size, pieces = (width + 7) // 8, (rows + PIECE - 1) // PIECE
    x, bits, factors, mean, by, batch_shift, layer_scale, layer_shift = _inputs(a)
    dy, dx = array(a[12], (groups, rows, width), f32), array(a[13], (groups, rows, width), f32)
    sums = array(a[14], (groups, pieces, 4, width), f32)
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
        ctx: Context, x: Tensor, bits: Tensor, *affine: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        R, S, B, width = x.shape
        x, bits = x.contiguous(), bits.contiguous()
        sums = x.new_empty(R * S, -(-B // PIECE), 2, width)
        _moments(x, sums, R * S, B, width)
        apart, square = sums.sum(1).div_(B).view(R, S, 1, 2, width).unbind(3)
        mean, var = x[:, :, :1] + apart, (square - apart * apart).clamp_(min=0)
        batch_scale, *rest = affine
        deviation = (var + EPSILON).rsqrt()
        by, y = deviation * batch_scale, torch.empty_like(x)
        _forward(R * S, B, width, S, x, bits, FACTORS, mean, by, *rest, y)
        ctx.save_for_backward(x, bits, mean, deviation, by, *rest)
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var

    @staticmethod
    def backward(ctx: Context, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, bits, mean, deviation, by, *rest = ctx.saved_tensors
        R, S, B, width = x.shape
        dx = torch.empty_like(x)
        sums = x.new_empty(R * S, -(-B // PIECE), 4, width)
        _backward(R * S, B, width, S, x, bits, FACTORS, mean, by, *rest, dy.contiguous(), dx, sums)
        sums = sums.sum(1).view(R, S, 1, 4, width)
        layer_scale, layer_shift, batch_scale, batch_shift = sums.unbind(3)
        batch_scale = batch_scale * deviation
        level, along = by * batch_shift / B, by * deviation * batch_scale / B
        _through_batch(x, dx, mean, by, level, along, R * S, B, width)
        grads = (batch_scale, batch_shift, layer_scale, layer_shift)
        return dx, None, *(grad.sum(1, keepdim=True) for grad in grads)


@inlined
def _softmax(x, p):
    """The softmax of x, into p; returns log Σ exp x."""
    top = x[0]
    for c in range(1, len(x)):
        top = max(top, x[c])
    total = f32(0)
    for c in range(len(x)):
        p[c] = np.exp(x[c] - top)
    for c in range(len(x)):
        total += p[c]
    for c in range(len(x)):
        p[c] /= total
    return top + np.log(total)


@inlined
def _squared_distance(p, q, by, dp, dq):
    """The term by · Σ (p - q)²; adds its derivatives by p and q to dp and dq."""
    total = f32(0)
    for c in range(len(p)):
        total += (p[c] - q[c]) * (p[c] - q[c])
    for c in range(len(p)):
        d = f32(2) * by * (p[c] - q[c])
        dp[c] += d
        dq[c] -= d
    return by * total


@inlined
def _through_softmax(p, dp, dx):
    """Add the derivative by x to dx, given dp, the derivative by p = softmax(x)."""
    along = f32(0)
    for c in range(len(p)):
        along += p[c] * dp[c]
    for c in range(len(p)):
        dx[c] += p[c] * (dp[c] - along)


@inlined
def _cross_entropy(x, total, p, label, by, dx):
    """The term -by · log p(label); adds its derivative by x to dx."""
    for c in range(len(p)):
        dx[c] += by * p[c]
    dx[label] -= by
    return by * (total - x[label])


@compiled
def _loss(address):
    a = numbers(address, 14)
    R, S, B, C = a[10], a[11], a[12], a[13]
    z, s = array(a[0], (R, S, B, C), f32), array(a[1], (R, S, B, C), f32)
    dz, ds = array(a[2], (R, S, B, C), f32), array(a[3], (R, S, B, C), f32)
    y, share = array(a[4], (R, S, B), i64), array(a[5], (R, S, B), f32)
    of_own, of_said = array(a[6], (R, S), f32), array(a[7], (R, S, S), f32)
    alpha = array(a[8], R, f32)
    pieces = (B + PIECE - 1) // PIECE
    loss = array(a[9], (R, pieces), f32)
    p, q = np.empty((S, C), f32), np.empty((S, C), f32)
    dp, dq = np.empty((S, C), f32), np.empty((S, C), f32)
    for at in range(thread(), R * pieces, threads()):
        r, piece = at // pieces, at % pieces
        x, v, dx, dv = z[r], s[r], dz[r], ds[r]
        pull, total = alpha[r] / f32(B * C), f32(0)
        for row in range(piece * PIECE, min(B, (piece + 1) * PIECE)):
            for side in range(S):
                dx[side, row] = 0
                dv[side, row] = 0
                log_x, log_v = _softmax(x[side, row], p[side]), _softmax(v[side, row], q[side])
                label, by = max(y[r, side, row], 0), of_own[r, side] * share[r, side, row]
                total += _cross_entropy(x[side, row], log_x, p[side], label, by, dx[side, row])
                for other in range(S):
                    label = max(y[r, other, row], 0)
                    by = of_said[r, side, other] * share[r, other, row]
                    total += _cross_entropy(v[side, row], log_v, q[side], label, by, dv[side, row])
            for i, j in ((0, 1), (1, 0)):
                total += _squared_distance(x[i, row], v[j, row], pull, dx[i, row], dv[j, row])
            if S == 3:
                dp[:] = 0
                dq[:] = 0
                push = f32(-0.5) * pull
                for side in range(2):
                    total += _squared_distance(p[side], q[2], push, dp[side], dq[2])
                    total += _squared_distance(p[2], q[side], push, dp[2], dq[side])
                for side in range(S):
                    _through_softmax(p[side], dp[side], dx[side, row])
                    _through_softmax(q[side], dq[side], dv[side, row])
        loss[r, piece] = total


def loss_and_gradient(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The loss (R,) and its derivatives by z and s; see `linkdist.kernels.LossKernel`."""
    z, s, *rest = parts
    R, S, B, C = z.shape
    dz, ds, loss = torch.empty_like(z), torch.empty_like(s), z.new_empty(R, -(-B // PIECE))
    _loss(z, s, dz, ds, *rest, loss, R, S, B, C)
    return loss.sum(1), dz, ds


class Csr(NamedTuple):
    """X (n, d): row starts (n + 1,) as int64, sorted columns as int32, values as float32."""

    starts: Tensor
    columns: Tensor
    values: Tensor


@inlined
def _weighted_sum(into, matrix, which, values, begin, end):
    """Σ values[p] · matrix[which[p]] into `into`, over begin ≤ p < end, four rows at a time."""
    width = into.shape[0]
    into[:] = 0
    p = begin
    while p + 4 <= end:
        a, b, c, d = values[p], values[p + 1], values[p + 2], values[p + 3]
        x, y = matrix[which[p]], matrix[which[p + 1]]
        z, w = matrix[which[p + 2]], matrix[which[p + 3]]
        for i in range(width):
            into[i] += (a * x[i] + b * y[i]) + (c * z[i] + d * w[i])
        p += 4
    while p < end:
        a, x = values[p], matrix[which[p]]
        for i in range(width):
            into[i] += a * x[i]
        p += 1


@compiled
def _product(address):
    """out[r, i] = X[rows[r, i]] W[r]."""
    a = numbers(address, 12)
    n, stored, R, m, d, h = a[6], a[7], a[8], a[9], a[10], a[11]
    starts, columns = array(a[0], n + 1, i64), array(a[1], stored, i32)
    values, rows = array(a[2], stored, f32), array(a[3], (R, m), i64)
    weight, out = array(a[4], (R, d, h), f32), array(a[5], (R, m, h), f32)
    pieces = (m + PRODUCT_PIECE - 1) // PRODUCT_PIECE
    for at in range(thread(), R * pieces, threads()):
        r, piece = at // pieces, at % pieces
        for i in range(piece * PRODUCT_PIECE, min(m, (piece + 1) * PRODUCT_PIECE)):
            begin, end = starts[rows[r, i]], starts[rows[r, i] + 1]
            _weighted_sum(out[r, i], weight[r], columns, values, begin, end)


@compiled
def _sort(address):
    """Sort the entries of each replica's rows by column: row, value, and the start of each column.

    This is a counting sort. Each thread has its own range of columns; the columns of a row are
    sorted, so that those outside the range are skipped quickly.
    """
    a = numbers(address, 13)
    n, stored, most, R, m, d = a[7], a[8], a[9], a[10], a[11], a[12]
    starts, columns = array(a[0], n + 1, i64), array(a[1], stored, i32)
    values, rows = array(a[2], stored, f32), array(a[3], (R, m), i64)
    first = array(a[4], (R, d + 1), i64)
    which, sorted_values = array(a[5], (R, most), i32), array(a[6], (R, most), f32)
    ranges = threads()
    for at in range(thread(), R * ranges, threads()):
        r, low, high = at // ranges, d * (at % ranges) // ranges, d * (at % ranges + 1) // ranges
        # next_[c]: first the number of entries in column c, then the place of the next one.
        next_ = first[r, 1:]
        next_[low:high] = 0
        before = 0
        for i in range(m):
            p, end = starts[rows[r, i]], starts[rows[r, i] + 1]
            begin = p
            while p < end and columns[p] < low:
                p += 1
            before += p - begin
            while p < end and columns[p] < high:
                next_[columns[p]] += 1
                p += 1
        if low == 0:
            first[r, 0] = 0
        for column in range(low, high):
            count = next_[column]
            next_[column] = before
            before += count
        for i in range(m):
            p, end = starts[rows[r, i]], starts[rows[r, i] + 1]
            while p < end and columns[p] < low:
                p += 1
            while p < end and columns[p] < high:
                to = next_[columns[p]]
                next_[columns[p]] = to + 1
                which[r, to] = i
                sorted_values[r, to] = values[p]
                p += 1


@compiled
def _product_gradient(address):
    """out[r] = X[rows[r]]ᵀ grad[r]."""
    a = numbers(address, 10)
    most, R, m, d, h = a[5], a[6], a[7], a[8], a[9]
    first, which = array(a[0], (R, d + 1), i64), array(a[1], (R, most), i32)
    values, grad = array(a[2], (R, most), f32), array(a[3], (R, m, h), f32)
    out = array(a[4], (R, d, h), f32)
    pieces = (d + PRODUCT_PIECE - 1) // PRODUCT_PIECE
    for at in range(thread(), R * pieces, threads()):
        r, piece = at // pieces, at % pieces
        for column in range(piece * PRODUCT_PIECE, min(d, (piece + 1) * PRODUCT_PIECE)):
            begin, end = first[r, column], first[r, column + 1]
            _weighted_sum(out[r, column], grad[r], which[r], values[r], begin, end)


class Product(torch.autograd.Function):
    """X[rows] W (R, m, h) for W (R, d, h) and rows (R, m)."""

    @staticmethod
    def forward(ctx: Context, weight: Tensor, csr: Csr, rows: Tensor) -> Tensor:
        R, d, h = weight.shape
        ctx.csr, ctx.rows, ctx.d = csr, rows.contiguous(), d
        out = weight.new_empty(R, rows.shape[1], h)
        sizes = (len(csr.starts) - 1, len(csr.columns), *rows.shape, d, h)
        _product(*csr, ctx.rows, weight.contiguous(), out, *sizes)
        return out

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None, None]:
        csr, rows, d = ctx.csr, ctx.rows, ctx.d
        R, m, h = grad.shape
        most = int((csr.starts[rows + 1] - csr.starts[rows]).sum(1).max())
        first = rows.new_empty(R, d + 1)
        which, values = csr.columns.new_empty(R, most), csr.values.new_empty(R, most)
        sizes = (len(csr.starts) - 1, len(csr.columns), most, R, m, d)
        _sort(*csr, rows, first, which, values, *sizes)
        out = grad.new_empty(R, d, h)
        _product_gradient(first, which, values, grad.contiguous(), out, most, R, m, d, h)
        return out, None, None
