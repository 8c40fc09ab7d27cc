"""Multinomial logistic regression, many problems at once.

    minimise over W, b:    c · Σ_i CE(x_i W + b, y_i) + ½ |W|²

where c is scikit-learn's `C`; for two classes, for which scikit-learn has one vector of weights, c
is `C` / 2. The R problems share a loop of L-BFGS, but each has its own search direction and step.
The rows x_i are given as a function W → x W, so that neighbour averages of a sparse matrix need not
be stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

Rows: TypeAlias = Callable[[Tensor], Tensor]
"""From W (R, d, C) to x W (R, m, C)."""
Function: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From points (R, D) to values (R,) and gradients (R, D)."""

ITERATIONS = 60
MEMORY = 10
HALVINGS = 8
TOLERANCE = 1e-7
"""A problem is solved when a step would reduce its value by less than this share."""


def logistic_regression(rows: Rows, labels: Tensor, d: int, C: int, strength: Tensor) -> Tensor:
    """Fit R logistic regressions.

    Parameters
    ----------
    rows : callable
        x W of each problem's rows.
    labels : (R, m) tensor of int
        Classes; rows with -1 are ignored.
    d, C : int
        Numbers of features and classes.
    strength : (R,) tensor
        c; the smaller, the smaller the weights.

    Returns
    -------
    (R, d + 1, C) tensor
        W, and b as its last row.

    Examples
    --------
    >>> x = torch.tensor([[[-1.0], [1.0]]])
    >>> both = logistic_regression(lambda W: x @ W, torch.tensor([[0, 1]]), 1, 2, torch.ones(1))
    >>> (x @ both[:, :1] + both[:, 1:]).argmax(-1)
    tensor([[0, 1]])
    """
    R = len(labels)
    known = (labels >= 0).float().unsqueeze(-1)
    target = F.one_hot(labels.clamp(min=0), C) * known  # (R, m, C)

    def loss(point: Tensor) -> tuple[Tensor, Tensor]:
        both = point.detach().view(R, d + 1, C).requires_grad_()
        log_p = (rows(both[:, :d]) + both[:, d:]).log_softmax(-1)
        fit = -(target * log_p).sum((1, 2))
        value = strength * fit + both[:, :d].square().sum((1, 2)) / 2
        (gradient,) = torch.autograd.grad(value.sum(), both)
        return value.detach(), gradient.flatten(1)

    start = torch.zeros(R, (d + 1) * C, device=labels.device)
    return minimise(loss, start).view(R, d + 1, C)


def minimise(function: Function, start: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """L-BFGS on R functions at once, from points (R, D).

    Examples
    --------
    >>> minimise(lambda x: ((x - 3).square().sum(1), 2 * (x - 3)), torch.zeros(1, 2))
    tensor([[3., 3.]])
    """
    point = start
    value, gradient = function(point)
    solved = torch.zeros_like(value, dtype=torch.bool)
    steps: list[Tensor] = []
    changes: list[Tensor] = []
    for _ in range(iterations):
        direction = _direction(gradient, steps, changes)
        slope = (gradient * direction).sum(1)
        solved = solved | (-slope <= TOLERANCE * (1 + value.abs()))
        if bool(solved.all()):
            break
        length = torch.ones_like(value) if steps else 1 / gradient.abs().sum(1).clamp(min=1)
        found, there = function(point + length.unsqueeze(1) * direction)
        for _ in range(HALVINGS):
            enough = solved | (found <= value + 1e-4 * length * slope)
            if bool(enough.all()):
                break
            length = torch.where(enough, length, length / 2)
            found, there = function(point + length.unsqueeze(1) * direction)
        # A solved problem does not change while the others continue.
        solved = solved | ~(found < value)
        better = ~solved.unsqueeze(1)
        step = torch.where(better, length.unsqueeze(1) * direction, 0.0)
        # A point that overflowed is NaN, and 0 times NaN is NaN.
        change = torch.where(better, there - gradient, 0.0)
        steps, changes = [*steps, step][-MEMORY:], [*changes, change][-MEMORY:]
        point = point + step
        value = torch.where(better.squeeze(1), found, value)
        gradient = torch.where(better, there, gradient)
    return point


def _direction(gradient: Tensor, steps: list[Tensor], changes: list[Tensor]) -> Tensor:
    """-H g by the two-loop recursion over the last steps; steps of length 0 are ignored."""
    q, kept = gradient.clone(), []
    for step, change in zip(reversed(steps), reversed(changes), strict=True):
        curvature = (step * change).sum(1)
        share = torch.where(curvature > 1e-12, 1 / curvature.clamp(min=1e-12), 0.0)
        by = share * (step * q).sum(1)
        q = q - by.unsqueeze(1) * change
        kept.append((share, by))
    if steps:
        curvature = (steps[-1] * changes[-1]).sum(1)
        size = changes[-1].square().sum(1)
        scale = torch.where(curvature > 1e-12, curvature / size.clamp(min=1e-30), 1.0)
        q = q * scale.unsqueeze(1)
    for (step, change), (share, by) in zip(
        zip(steps, changes, strict=True), reversed(kept), strict=True
    ):
        q = q + step * (by - share * (change * q).sum(1)).unsqueeze(1)
    return -q
