"""Ridge regressions in closed form: the linear teachers of numbers.

For rows x and numbers y, both centred,

    W = (XᵀX + I/c)⁻¹ Xᵀy  =  Xᵀ (XXᵀ + I/c)⁻¹ y

and the smaller of the two systems is solved. Iterations are no alternative here: with weak
penalties they need thousands of steps for columns that occur in few rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def fit_ridge(rows: Tensor, targets: Tensor, known: Tensor, strengths: Sequence[float]) -> Tensor:
    """Fit a ridge regression for each of R sets of rows and each of A strengths.

    Parameters
    ----------
    rows : (R, m, d) tensor
        x.
    targets : (R, m, C) tensor
        y; each of C columns of numbers is a regression of its own.
    known : (R, m, 1) tensor
        Factors of the loss of each row; 0 for rows without a number.
    strengths : (A,) sequence of float
        c; the smaller, the smaller the weights.

    Returns
    -------
    (A R, d + 1, C) tensor
        W, and b as its last row.

    Examples
    --------
    >>> x, y = torch.tensor([[[-1.0], [1.0]]]), torch.tensor([[[0.0], [2.0]]])
    >>> fit_ridge(x, y, torch.ones(1, 2, 1), [0.5]).flatten()
    tensor([0.5000, 1.0000])
    """
    problems = zip(rows, targets, known, strict=True)  # one at a time: a system is as large as x
    fitted = [_fit(x.double(), y.double(), w.double(), strengths) for x, y, w in problems]
    return torch.stack(fitted, dim=1).flatten(0, 1).to(rows.dtype)


def _fit(x: Tensor, y: Tensor, known: Tensor, strengths: Sequence[float]) -> Tensor:
    """W and b (A, d + 1, C)."""
    total = known.sum().clamp(min=1e-300)
    x_mean, y_mean = (known * x).sum(0) / total, (known * y).sum(0) / total
    root = known.sqrt()
    x, y = root * (x - x_mean), root * (y - y_mean)
    wide = len(x) < x.shape[1]
    gram, right = (x @ x.T, y) if wide else (x.T @ x, x.T @ y)
    found = []
    for strength in strengths:
        system = gram.clone()
        system.diagonal().add_(1 / strength)
        weight = torch.cholesky_solve(right, torch.linalg.cholesky(system))
        weight = x.T @ weight if wide else weight
        found.append(torch.cat([weight, y_mean.unsqueeze(0) - x_mean.unsqueeze(0) @ weight]))
    return torch.stack(found)
