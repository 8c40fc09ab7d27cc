"""The paper's loss and its gradient in one Triton kernel for a GPU; see `nn.losses`.

A batch has few classes, so a training step would spend a third of its time on about eighty small
operations. This module is imported only where a GPU and Triton are available.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

WARPS, HELD = 1, 4
"""Warps per program, and numbers of each array per thread (measured on an H200)."""


@triton.jit
def _softmax(x, inside):
    """The softmax of each row, and log Σ exp x."""
    x = tl.where(inside, x, float("-inf"))
    top = tl.max(x, axis=1)
    e = tl.exp(x - top[:, None])
    total = tl.sum(e, axis=1)
    return e / total[:, None], top + tl.log(total)


@triton.jit
def _cross_entropy(x, p, log_total, label, by, column):
    """-by · log p(label) and its derivative by x."""
    here = column[None, :] == label[:, None]
    loss = by * (log_total - tl.sum(tl.where(here, x, 0.0), axis=1))
    return loss, by[:, None] * (p - tl.where(here, 1.0, 0.0))


@triton.jit
def _through_softmax(p, dp):
    return p * (dp - tl.sum(p * dp, axis=1)[:, None])


@triton.jit
def _side(
    z, s, y, share, of_own, of_said, side, at, row, column, there, mask, rows, C,
    SIDES: tl.constexpr,
):  # fmt: skip
    """A side's logits, probabilities, and the cross-entropies of both heads."""
    place = ((at * SIDES + side) * rows + row)[:, None] * C + column[None, :]
    x, v = tl.load(z + place, mask=mask, other=0.0), tl.load(s + place, mask=mask, other=0.0)
    p, log_p = _softmax(x, mask)
    q, log_q = _softmax(v, mask)
    near = (at * SIDES + side) * rows + row
    label = tl.load(y + near, mask=there, other=0)
    weight = tl.load(share + near, mask=there, other=0.0)
    by = tl.load(of_own + at * SIDES + side) * weight
    loss, dx = _cross_entropy(x, p, log_p, label, by, column)
    dv = tl.zeros_like(v)
    for other in tl.static_range(SIDES):
        near = (at * SIDES + other) * rows + row
        label = tl.load(y + near, mask=there, other=0)
        weight = tl.load(share + near, mask=there, other=0.0)
        by = tl.load(of_said + (at * SIDES + side) * SIDES + other) * weight
        more, d = _cross_entropy(v, q, log_q, label, by, column)
        loss += more
        dv += d
    return x, v, p, q, dx, dv, loss, place


@triton.jit
def _loss(
    z, s, dz, ds, y, share, of_own, of_said, alpha, losses, rows, C,
    SIDES: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The loss of a few rows of one replica, and its derivatives by z and s."""
    at = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.arange(0, WIDTH)
    there = row < rows
    mask = there[:, None] & (column < C)[None, :]
    pull = tl.load(alpha + at) / (rows * C)
    push = -0.5 * pull
    zi, si, pi, qi, dzi, dsi, loss, i = _side(
        z, s, y, share, of_own, of_said, 0, at, row, column, there, mask, rows, C, SIDES
    )
    zj, sj, pj, qj, dzj, dsj, more, j = _side(
        z, s, y, share, of_own, of_said, 1, at, row, column, there, mask, rows, C, SIDES
    )
    loss += more
    a, b = tl.where(mask, zi - sj, 0.0), tl.where(mask, zj - si, 0.0)
    loss += pull * tl.sum(a * a + b * b, axis=1)
    dzi += 2 * pull * a
    dsj -= 2 * pull * a
    dzj += 2 * pull * b
    dsi -= 2 * pull * b
    if SIDES == 3:
        _, _, pk, qk, dzk, dsk, more, k = _side(
            z, s, y, share, of_own, of_said, 2, at, row, column, there, mask, rows, C, SIDES
        )
        loss += more
        ik, jk, ki, kj = pi - qk, pj - qk, pk - qi, pk - qj
        loss += push * tl.sum(ik * ik + jk * jk + ki * ki + kj * kj, axis=1)
        dzi += 2 * push * _through_softmax(pi, ik)
        dzj += 2 * push * _through_softmax(pj, jk)
        dzk += 2 * push * _through_softmax(pk, ki + kj)
        dsi -= 2 * push * _through_softmax(qi, ki)
        dsj -= 2 * push * _through_softmax(qj, kj)
        dsk -= 2 * push * _through_softmax(qk, ik + jk)
        tl.store(dz + k, dzk, mask=mask)
        tl.store(ds + k, dsk, mask=mask)
    tl.store(dz + i, dzi, mask=mask)
    tl.store(ds + i, dsi, mask=mask)
    tl.store(dz + j, dzj, mask=mask)
    tl.store(ds + j, dsj, mask=mask)
    total = tl.sum(tl.where(there, loss, 0.0), axis=0)
    tl.store(losses + at * tl.num_programs(0) + tl.program_id(0), total)


def loss_and_gradient(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The loss (R,) and its derivatives by z and s; see `linkdist.kernels.LossKernel`."""
    z, s, *rest = parts
    R, S, B, C = z.shape
    dz, ds = torch.empty_like(z), torch.empty_like(s)
    width = triton.next_power_of_2(C)
    # About twenty arrays of tile · width numbers are live; more than four numbers of each per
    # thread do not fit into registers.
    tile = max(1, HELD * 32 * WARPS // width)
    losses = z.new_empty(R, triton.cdiv(B, tile))
    _loss[(losses.shape[1], R)](
        z, s, dz, ds, *rest, losses, B, C,
        SIDES=S, TILE=tile, WIDTH=width, num_warps=WARPS,
    )  # fmt: skip
    return losses.sum(1), dz, ds
