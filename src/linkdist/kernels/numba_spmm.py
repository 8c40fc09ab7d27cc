"""Rows of a CSR matrix times the first layer's weights, as compiled loops for the CPU.

These loops compute X[rows] W and its gradient directly from the CSR matrix. In the forward pass, a
row of the result is a weighted sum of rows of W. In the backward pass, a row of W's gradient is a
weighted sum of the result's gradients, after the entries of the batch are sorted by column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from linkdist.kernels._openmp import array, compiled, inlined, numbers, thread, threads

PIECE = 32
"""Number of result rows that a thread processes at a time."""

f32, i32, i64 = np.float32, np.int32, np.int64


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
def _forward(address):
    """out[r, i] = X[rows[r, i]] W[r]."""
    a = numbers(address, 12)
    n, stored, R, m, d, h = a[6], a[7], a[8], a[9], a[10], a[11]
    starts, columns = array(a[0], n + 1, i64), array(a[1], stored, i32)
    values, rows = array(a[2], stored, f32), array(a[3], (R, m), i64)
    weight, out = array(a[4], (R, d, h), f32), array(a[5], (R, m, h), f32)
    pieces = (m + PIECE - 1) // PIECE
    for at in range(thread(), R * pieces, threads()):
        r, piece = at // pieces, at % pieces
        for i in range(piece * PIECE, min(m, (piece + 1) * PIECE)):
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
def _backward(address):
    """out[r] = X[rows[r]]ᵀ grad[r]."""
    a = numbers(address, 10)
    most, R, m, d, h = a[5], a[6], a[7], a[8], a[9]
    first, which = array(a[0], (R, d + 1), i64), array(a[1], (R, most), i32)
    values, grad = array(a[2], (R, most), f32), array(a[3], (R, m, h), f32)
    out = array(a[4], (R, d, h), f32)
    pieces = (d + PIECE - 1) // PIECE
    for at in range(thread(), R * pieces, threads()):
        r, piece = at // pieces, at % pieces
        for column in range(piece * PIECE, min(d, (piece + 1) * PIECE)):
            begin, end = first[r, column], first[r, column + 1]
            _weighted_sum(out[r, column], grad[r], which[r], values[r], begin, end)


class Product(torch.autograd.Function):
    """X[rows] W (R, m, h) for W (R, d, h) and rows (R, m)."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, csr: Csr, rows: Tensor) -> Tensor:  # noqa: ANN401
        R, d, h = weight.shape
        ctx.csr, ctx.rows, ctx.d = csr, rows.contiguous(), d
        out = weight.new_empty(R, rows.shape[1], h)
        sizes = (len(csr.starts) - 1, len(csr.columns), *rows.shape, d, h)
        _forward(*csr, ctx.rows, weight.contiguous(), out, *sizes)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        csr, rows, d = ctx.csr, ctx.rows, ctx.d
        R, m, h = grad.shape
        most = int((csr.starts[rows + 1] - csr.starts[rows]).sum(1).max())
        first = rows.new_empty(R, d + 1)
        which, values = csr.columns.new_empty(R, most), csr.values.new_empty(R, most)
        sizes = (len(csr.starts) - 1, len(csr.columns), most, R, m, d)
        _sort(*csr, rows, first, which, values, *sizes)
        out = grad.new_empty(R, d, h)
        _backward(first, which, values, grad.contiguous(), out, most, R, m, d, h)
        return out, None, None
