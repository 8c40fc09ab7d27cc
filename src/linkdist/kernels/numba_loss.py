"""The paper's loss and its gradient in one compiled loop for the CPU; see `nn.losses`.

A batch has few classes, so PyTorch would spend most of the time on launching about eighty small
operations. Here the terms of a row and their derivatives by z and s are computed together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from linkdist.kernels._openmp import array, compiled, inlined, numbers, thread, threads

PIECE = 64
"""Number of rows that a thread processes at a time."""

f32, i64 = np.float32, np.int64


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
        pull = alpha[r] / f32(B * C)
        total = f32(0)
        for row in range(piece * PIECE, min(B, (piece + 1) * PIECE)):
            for side in range(S):
                dz[r, side, row] = 0
                ds[r, side, row] = 0
            for side in range(S):
                log_z = _softmax(z[r, side, row], p[side])
                log_s = _softmax(s[r, side, row], q[side])
                label, by = max(y[r, side, row], 0), of_own[r, side] * share[r, side, row]
                total += _cross_entropy(
                    z[r, side, row], log_z, p[side], label, by, dz[r, side, row]
                )
                for other in range(S):
                    label = max(y[r, other, row], 0)
                    by = of_said[r, side, other] * share[r, other, row]
                    total += _cross_entropy(
                        s[r, side, row], log_s, q[side], label, by, ds[r, side, row]
                    )
            for side in range(2):
                other = 1 - side
                total += _squared_distance(
                    z[r, side, row], s[r, other, row], pull, dz[r, side, row], ds[r, other, row]
                )
            if S == 3:
                dp[:] = 0
                dq[:] = 0
                push = f32(-0.5) * pull
                for side in range(2):
                    total += _squared_distance(p[side], q[2], push, dp[side], dq[2])
                    total += _squared_distance(p[2], q[side], push, dp[2], dq[side])
                for side in range(S):
                    _through_softmax(p[side], dp[side], dz[r, side, row])
                    _through_softmax(q[side], dq[side], ds[r, side, row])
        loss[r, piece] = total


def loss_and_gradient(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The loss (R,) and its derivatives by z and s; see `linkdist.kernels.LossKernel`."""
    z, s, *rest = parts
    R, S, B, C = z.shape
    dz, ds, loss = torch.empty_like(z), torch.empty_like(s), z.new_empty(R, -(-B // PIECE))
    _loss(z, s, dz, ds, *rest, loss, R, S, B, C)
    return loss.sum(1), dz, ds
