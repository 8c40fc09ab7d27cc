"""Triton kernels for a GPU: blocks, sums over neighbours, Adam and random numbers.

Each of PyTorch's operations reads and writes all activations. Here BatchNorm, LayerNorm, LeakyReLU
and Dropout of a block take two passes forward (statistics, then rows) and two backward. Only the
input is kept for the backward pass: the rest is cheaper to recompute than to store. Sums are
computed in a fixed order, never by atomic additions, so that runs are reproducible.

This module is imported only where a GPU and Triton are available. There are G = R · S groups, one
for each replica and side, of `rows` rows with `width` numbers in float32 or bfloat16; sums are
float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from linkdist.kernels import EPSILON, SLOPE, Context

MANY = 4096
"""Number of rows from which a group is split into more parts (measured on an H200)."""

TILE, WIDE, PROGRAMS = 2, 1, 4096
"""Rows per tile, warps and programs per sum for such a group (measured on an H200)."""


NEAR, WARPS = 8, 1
"""Neighbours that a row reads at once, and warps (measured on an H200)."""


@triton.jit
def _statistics(x, mean, var, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Mean and variance of a few columns of one group, in two passes for accuracy."""
    group = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    base = x + group * rows * width + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside[None, :]
        total += tl.load(base + row[:, None] * width, mask=mask, other=0.0)
    centre = tl.sum(total, axis=0) / rows
    square = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside[None, :]
        apart = tl.load(base + row[:, None] * width, mask=mask, other=0.0) - centre[None, :]
        square += tl.where(mask, apart * apart, 0.0)
    tl.store(mean + group * width + column, centre, mask=inside)
    tl.store(var + group * width + column, tl.sum(square, axis=0) / rows, mask=inside)


@triton.jit
def _moments(x, sums, rows, width, per_part, TILE: tl.constexpr, WIDTH: tl.constexpr):
    """Sums over a part of one group's rows, relative to its first row, and of their squares."""
    group = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    column = tl.arange(0, WIDTH)
    inside = column < width
    first = tl.load(x + group * rows * width + column, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros((WIDTH,), dtype=tl.float32)
    square = tl.zeros((WIDTH,), dtype=tl.float32)
    for start in range(part * per_part, (part + 1) * per_part, TILE):
        row = start + tl.arange(0, TILE)
        mask = (row < rows)[:, None] & inside[None, :]
        place = (group * rows + row)[:, None] * width + column[None, :]
        apart = tl.load(x + place, mask=mask, other=0.0).to(tl.float32) - first[None, :]
        apart = tl.where(mask, apart, 0.0)
        total += tl.sum(apart, axis=0)
        square += tl.sum(apart * apart, axis=0)
    out = sums + ((group * tl.num_programs(1) + part) * 2) * width + column
    tl.store(out, total, mask=inside)
    tl.store(out + width, square, mask=inside)


@triton.jit
def _normal(x, mean, var, batch_scale, batch_shift, inside, width, epsilon):
    """BatchNorm, and LayerNorm without its affine part: x̂, the row's scale, the result."""
    hat = (x - mean[None, :]) * tl.rsqrt(var + epsilon)[None, :]
    y = tl.where(inside[None, :], hat * batch_scale[None, :] + batch_shift[None, :], 0.0)
    apart = tl.where(inside[None, :], y - (tl.sum(y, axis=1) / width)[:, None], 0.0)
    spread = tl.rsqrt(tl.sum(apart * apart, axis=1) / width + epsilon)
    return hat, spread, apart * spread[:, None]


@triton.jit
def _kept(bits, row, column, mask, size):
    """Dropout's factor, 2 or 0, from the packed bits of one group."""
    byte = tl.load(bits + row[:, None] * size + (column // 8)[None, :], mask=mask, other=0)
    return ((byte.to(tl.int32) >> (column % 8)[None, :]) & 1).to(tl.float32) * 2


@triton.jit
def _forward(
    x, y, bits, mean, var, batch_scale, batch_shift, layer_scale, layer_shift,
    rows, width, sides, stat_sides, size, bits_stride, slope, epsilon,
    DROP: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(1).to(tl.int64)
    replica = group // sides
    column = tl.arange(0, WIDTH)
    inside = column < width
    at = replica * width + column
    own_bits = bits + replica * bits_stride + (group % sides) * rows * size
    stat = (replica * stat_sides + group % stat_sides) * width + column
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    mask = (row < rows)[:, None] & inside[None, :]
    place = (group * rows + row)[:, None] * width + column[None, :]
    _, _, normal = _normal(
        tl.load(x + place, mask=mask, other=0.0),
        tl.load(mean + stat, mask=inside, other=0.0),
        tl.load(var + stat, mask=inside, other=1.0),
        tl.load(batch_scale + at, mask=inside, other=0.0),
        tl.load(batch_shift + at, mask=inside, other=0.0),
        inside, width, epsilon,
    )  # fmt: skip
    scale = tl.load(layer_scale + at, mask=inside, other=0.0)
    shift = tl.load(layer_shift + at, mask=inside, other=0.0)
    out = normal * scale[None, :] + shift[None, :]
    out = tl.where(out > 0, out, slope * out)
    if DROP:
        out *= _kept(own_bits, row, column, mask, size)
    tl.store(y + place, out, mask=mask)


@triton.jit
def _backward_rows(
    x, dy, g, sums, bits, mean, var, batch_scale, batch_shift, layer_scale, layer_shift,
    rows, width, sides, size, bits_stride, per_part, slope, epsilon,
    TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradient g of BatchNorm's output, and four sums over a part of the rows."""
    group = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    column = tl.arange(0, WIDTH)
    inside = column < width
    at = (group // sides) * width + column
    own_bits = bits + (group // sides) * bits_stride + (group % sides) * rows * size
    stat = group * width + column
    m = tl.load(mean + stat, mask=inside, other=0.0)
    v = tl.load(var + stat, mask=inside, other=1.0)
    bs = tl.load(batch_scale + at, mask=inside, other=0.0)
    bb = tl.load(batch_shift + at, mask=inside, other=0.0)
    ls = tl.load(layer_scale + at, mask=inside, other=0.0)
    lb = tl.load(layer_shift + at, mask=inside, other=0.0)
    d_ls = tl.zeros((WIDTH,), dtype=tl.float32)
    d_lb = tl.zeros((WIDTH,), dtype=tl.float32)
    d_bs = tl.zeros((WIDTH,), dtype=tl.float32)
    d_bb = tl.zeros((WIDTH,), dtype=tl.float32)
    for start in range(part * per_part, (part + 1) * per_part, TILE):
        row = start + tl.arange(0, TILE)
        mask = (row < rows)[:, None] & inside[None, :]
        place = (group * rows + row)[:, None] * width + column[None, :]
        values = tl.load(x + place, mask=mask, other=0.0)
        hat, spread, normal = _normal(values, m, v, bs, bb, inside, width, epsilon)
        d = tl.load(dy + place, mask=mask, other=0.0)
        d *= _kept(own_bits, row, column, mask, size)
        d = tl.where(normal * ls[None, :] + lb[None, :] > 0, d, slope * d)
        d_ls += tl.sum(d * normal, axis=0)
        d_lb += tl.sum(d, axis=0)
        d *= ls[None, :]
        along = tl.sum(d * normal, axis=1) / width
        d = (d - (tl.sum(d, axis=1) / width)[:, None] - normal * along[:, None]) * spread[:, None]
        d = tl.where(mask, d, 0.0)
        d_bs += tl.sum(d * hat, axis=0)
        d_bb += tl.sum(d, axis=0)
        tl.store(g + place, d, mask=mask)
    out = sums + ((group * tl.num_programs(1) + part) * 4) * width + column
    tl.store(out, d_ls, mask=inside)
    tl.store(out + width, d_lb, mask=inside)
    tl.store(out + 2 * width, d_bs, mask=inside)
    tl.store(out + 3 * width, d_bb, mask=inside)


@triton.jit
def _backward_batch(
    x, g, sums, mean, var, batch_scale, rows, width, sides, epsilon,
    TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """From the gradient of BatchNorm's output to that of its input, in place of g."""
    group = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, WIDTH)
    inside = column < width
    stat = group * width + column
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    mask = (row < rows)[:, None] & inside[None, :]
    place = (group * rows + row)[:, None] * width + column[None, :]
    spread = tl.rsqrt(tl.load(var + stat, mask=inside, other=1.0) + epsilon)
    centre = tl.load(mean + stat, mask=inside, other=0.0)
    hat = (tl.load(x + place, mask=mask, other=0.0) - centre[None, :]) * spread[None, :]
    along = tl.load(sums + (group * 4 + 2) * width + column, mask=inside, other=0.0) / rows
    level = tl.load(sums + (group * 4 + 3) * width + column, mask=inside, other=0.0) / rows
    by = spread * tl.load(batch_scale + (group // sides) * width + column, mask=inside, other=0.0)
    d = tl.load(g + place, mask=mask, other=0.0) - level[None, :] - hat * along[None, :]
    tl.store(g + place, d * by[None, :], mask=mask)


@triton.jit
def _neighbours(
    starts, columns, values, x, y, size, width, NEAR: tl.constexpr, WIDTH: tl.constexpr
):
    """One row of P x: a weighted sum of the rows of x that P's row names, a few at a time."""
    row = tl.program_id(0).to(tl.int64)
    own = row % size
    column = tl.arange(0, WIDTH)
    inside = column < width
    base = x + (row - own) * width + column[None, :]
    total = tl.zeros((WIDTH,), dtype=tl.float32)
    end = tl.load(starts + own + 1)
    for begin in range(tl.load(starts + own), end, NEAR):
        near = begin + tl.arange(0, NEAR)
        there = near < end
        at = tl.load(columns + near, mask=there, other=0).to(tl.int64)
        by = tl.load(values + near, mask=there, other=0.0)
        mask = there[:, None] & inside[None, :]
        total += tl.sum(tl.load(base + at[:, None] * width, mask=mask, other=0.0) * by[:, None], 0)
    tl.store(y + row * width + column, total, mask=inside)


@triton.jit
def _add_sums(starts, columns, values, x, y, width, NEAR: tl.constexpr, WIDTH: tl.constexpr):
    """Add one row of P x to a row of y; x may have half precision."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH)
    inside = column < width
    total = tl.load(y + row * width + column, mask=inside, other=0.0)
    end = tl.load(starts + row + 1)
    for begin in range(tl.load(starts + row), end, NEAR):
        near = begin + tl.arange(0, NEAR)
        there = near < end
        at = tl.load(columns + near, mask=there, other=0).to(tl.int64)
        by = tl.load(values + near, mask=there, other=0.0)
        mask = there[:, None] & inside[None, :]
        rows = tl.load(x + at[:, None] * width + column[None, :], mask=mask, other=0.0)
        total += tl.sum(rows.to(tl.float32) * by[:, None], 0)
    tl.store(y + row * width + column, total, mask=inside)


@triton.jit
def _random(words, keys, step, count, BLOCK: tl.constexpr):
    """Four 32-bit words per position from Philox, keyed by replica, epoch and step."""
    replica = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(tl.load(keys + replica) + tl.load(step), at)
    base = words + (replica * count + at) * 4
    mask = at < count
    tl.store(base, a.to(tl.int32, bitcast=True), mask=mask)
    tl.store(base + 1, b.to(tl.int32, bitcast=True), mask=mask)
    tl.store(base + 2, c.to(tl.int32, bitcast=True), mask=mask)
    tl.store(base + 3, d.to(tl.int32, bitcast=True), mask=mask)


@triton.jit
def _adam(
    p, g, m, v, active, rate, shrink, size, stride, beta1, beta2, epsilon, BLOCK: tl.constexpr
):
    replica = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < size
    place = replica * size + at
    on = tl.load(active + replica)
    gradient = tl.load(g + replica * stride + at, mask=mask)
    first, second = tl.load(m + place, mask=mask), tl.load(v + place, mask=mask)
    first += on * (1 - beta1) * (gradient - first)
    second += on * (1 - beta2) * (gradient * gradient - second)
    step = tl.load(rate + replica) * first
    step /= tl.sqrt(second) * tl.load(shrink + replica) + epsilon
    tl.store(m + place, first, mask=mask)
    tl.store(v + place, second, mask=mask)
    tl.store(p + place, tl.load(p + place, mask=mask) - step, mask=mask)


def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance over the rows of x (R, S, B, width), each (R, S, 1, width)."""
    R, S, rows, width = x.shape
    if rows > MANY:
        per_part, parts = _parts(rows, R * S)
        sums = torch.empty(R, S, parts, 2, width, device=x.device)
        _moments[(R * S, parts)](
            x, sums, rows, width, per_part,
            TILE=TILE, WIDTH=triton.next_power_of_2(width), num_warps=WIDE,
        )  # fmt: skip
        apart, square = (sums.sum(2, keepdim=True) / rows).unbind(3)  # (R, S, 1, width)
        return x[:, :, :1].float() + apart, (square - apart * apart).clamp(min=0)
    mean, var = (torch.empty(R, S, 1, width, device=x.device) for _ in range(2))
    grid = (R * S, triton.cdiv(width, 16))
    _statistics[grid](x, mean, var, rows, width, ROWS=32, COLUMNS=16, num_warps=8)
    return mean, var


def _parts(rows: int, groups: int) -> tuple[int, int]:
    """How the rows of a group are split for sums: rows per part, and number of parts."""
    if rows > MANY:
        per_part = TILE * triton.cdiv(rows, TILE * max(1, PROGRAMS // groups))
    else:
        per_part = 2 * triton.cdiv(rows, 2 * 32)
    return per_part, triton.cdiv(rows, per_part)


def activate(
    x: Tensor, mean: Tensor, var: Tensor, affine: tuple[Tensor, ...], bits: Tensor | None
) -> Tensor:
    """BatchNorm with statistics (R, S or 1, 1, width), LayerNorm, LeakyReLU, optional Dropout."""
    x = x.contiguous()
    R, S, rows, width = x.shape
    y = torch.empty_like(x)
    packed = x if bits is None else bits
    _forward[(triton.cdiv(rows, 2), R * S)](
        x, y, packed, mean, var, *affine,
        rows, width, S, mean.shape[1], packed.shape[-1], packed.stride(0), SLOPE, EPSILON,
        DROP=bits is not None, TILE=2, WIDTH=triton.next_power_of_2(width), num_warps=1,
    )  # fmt: skip
    return y


class Normalise(torch.autograd.Function):
    """`kernels.plain_block`, forward and backward."""

    @staticmethod
    def forward(
        ctx: Context, x: Tensor, bits: Tensor, *affine: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return y and the statistics of the batch."""
        x = x.contiguous()
        mean, var = statistics(x)
        ctx.save_for_backward(x, bits, mean, var, *affine)
        ctx.mark_non_differentiable(mean, var)
        return activate(x, mean, var, affine, bits), mean, var

    @staticmethod
    def backward(ctx: Context, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of x and of the four affine parameters."""
        x, bits, mean, var, *affine = ctx.saved_tensors
        R, S, rows, width = x.shape
        tile, warps = (TILE, WIDE) if rows > MANY else (2, 1)
        per_part, parts = _parts(rows, R * S)
        g = torch.empty_like(x)
        sums = torch.empty(R * S, parts, 4, width, device=x.device)
        whole = triton.next_power_of_2(width)
        _backward_rows[(R * S, parts)](
            x, dy.contiguous(), g, sums, bits, mean, var, *affine,
            rows, width, S, bits.shape[-1], bits.stride(0), per_part, SLOPE, EPSILON,
            TILE=tile, WIDTH=whole, num_warps=warps,
        )  # fmt: skip
        sums = sums.sum(1)  # (R · S, 4, width)
        _backward_batch[(triton.cdiv(rows, 4), R * S)](
            x, g, sums, mean, var, affine[0], rows, width, S, EPSILON,
            TILE=4, WIDTH=whole, num_warps=4,
        )  # fmt: skip
        d_ls, d_lb, d_bs, d_bb = sums.view(R, S, 4, width).sum(1).view(R, 4, 1, 1, width).unbind(1)
        return g, None, d_bs, d_bb, d_ls, d_lb


def neighbours(matrix: Tensor, x: Tensor) -> Tensor:
    """P x for x (rows, width); P has as many rows as x, or as many as each replica of x."""
    x = x.contiguous()
    width, y = x.shape[1], torch.empty_like(x)
    parts = (matrix.crow_indices(), matrix.col_indices(), matrix.values())
    _neighbours[(x.shape[0],)](
        *parts, x, y, matrix.shape[0], width,
        NEAR=NEAR, WIDTH=triton.next_power_of_2(width), num_warps=WARPS,
    )  # fmt: skip
    return y


def adam_update(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, active: Tensor, rate: Tensor, shrink: Tensor,
    betas: tuple[float, float], epsilon: float,
) -> None:  # fmt: skip
    """One step of Adam for one parameter (R, size), in place."""
    R, size = p.shape
    _adam[(R, triton.cdiv(size, 512))](
        p, g, m, v, active, rate, shrink, size, g.stride(0), *betas, epsilon, BLOCK=512
    )


def random_words(keys: Tensor, step: Tensor, count: int) -> Tensor:
    """Random 64-bit integers (R, count), a function of `keys` (R,) and `step` alone."""
    R, places = keys.shape[0], -(-count // 2)
    words = torch.empty(R, 4 * places, dtype=torch.int32, device=keys.device)
    _random[(R, triton.cdiv(places, 1024))](words, keys, step, places, BLOCK=1024)
    return words.view(torch.int64)[:, :count]


def add_sums(total: Tensor, starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> None:
    """Add P x to a total (m, width), for a CSR matrix P (m, n) and x (n, width)."""
    width = x.shape[1]
    _add_sums[(len(total),)](
        starts, columns, values, x, total, width,
        NEAR=NEAR, WIDTH=triton.next_power_of_2(width), num_warps=WARPS,
    )  # fmt: skip
