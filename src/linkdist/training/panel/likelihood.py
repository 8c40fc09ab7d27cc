"""Models that maximise a likelihood: linear models, calibration, mixtures and class priors.

`fit_linear` fits many problems at once:

    minimise over W, b:    c · Σ_i loss(x_i W + b, y_i) + ½ |W|²

where the loss is that of the task and, for logistic regression, c is scikit-learn's `C`; for two
classes, for which scikit-learn has one vector of weights, c is `C` / 2. The R problems share a loop
of L-BFGS, but each has its own search direction and step. The rows x_i are given as a function
W → x W, so that neighbour averages of a sparse matrix need not be stored.

The other functions compare predictions on validation nodes, whose labels were not used to make
them. Unlike accuracy, the likelihood does not reward predicting the largest class, and it depends
on the confidence of a prediction.

`fit_exponents` calibrates: it finds the λ and δ of p ∝ Π_k p_k^λ_k · π^δ, with π the class prior of
the validation nodes. For one prediction, λ is the inverse of the temperature; for two, the λ weight
a node's own prediction and its neighbours'. The factor π^δ corrects for classes that are rarer or
more frequent among the training labels than among the validation nodes, and for shares that several
predictions count more than once. `mixture_weights` finds the weights w of p = Σ_k w_k p_k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import nnls
from scipy.special import log_softmax
from torch import Tensor
from torch.nn import functional as F

from linkdist.data.graph import IntArray

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = Callable[[Tensor], Tensor]
"""From W (R, d, C) to x W (R, m, C)."""
Function: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From points (R, D) to values (R,) and gradients (R, D)."""

ITERATIONS = 60
RIDGE_ITERATIONS = 200
"""Squared errors have no bound, so that weak penalties need more iterations."""
MEMORY = 10
HALVINGS = 8
TOLERANCE = 1e-7
"""A problem is solved when a step would reduce its value by less than this share."""
NEWTON_STEPS = 50
"""Maximum number of Newton steps; usually a few are enough."""


def fit_linear(
    rows: Rows, targets: Tensor, known: Tensor, d: int, strength: Tensor, task: str
) -> Tensor:
    """Fit R linear models: logistic regressions, or ridge regressions for numbers.

    Parameters
    ----------
    rows : callable
        x W of each problem's rows.
    targets : (R, m, C) tensor
        Probabilities of classes or labels, or numbers.
    known : (R, m, 1) tensor
        Factors of the loss of each row; 0 for rows without a label.
    d : int
        Number of features.
    strength : (R,) tensor
        c; the smaller, the smaller the weights.
    task : {'classification', 'regression', 'multilabel'}
        Which loss.

    Returns
    -------
    (R, d + 1, C) tensor
        W, and b as its last row.

    Examples
    --------
    >>> x, y = torch.tensor([[[-1.0], [1.0]]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    >>> known = torch.ones(1, 2, 1)
    >>> fitted = fit_linear(lambda W: x @ W, y, known, 1, torch.ones(1), "classification")
    >>> (x @ fitted[:, :1] + fitted[:, 1:]).argmax(-1)
    tensor([[0, 1]])
    """
    R, _, C = targets.shape
    counted = targets * known

    def loss(point: Tensor) -> tuple[Tensor, Tensor]:
        parameters = point.detach().view(R, d + 1, C).requires_grad_()
        z = rows(parameters[:, :d]) + parameters[:, d:]
        if task == "classification":
            fit = -(counted * z.log_softmax(-1)).sum((1, 2))
        elif task == "multilabel":
            fit = (known * F.softplus(z) - counted * z).sum((1, 2))
        else:
            fit = (known * (z - targets).square()).sum((1, 2)) / 2
        value = strength * fit + parameters[:, :d].square().sum((1, 2)) / 2
        (gradient,) = torch.autograd.grad(value.sum(), parameters)
        return value.detach(), gradient.flatten(1)

    start = torch.zeros(R, (d + 1) * C, device=targets.device)
    iterations = RIDGE_ITERATIONS if task == "regression" else ITERATIONS
    return minimise(loss, start, iterations).view(R, d + 1, C)


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
    pairs: list[tuple[Tensor, Tensor]] = []
    for _ in range(iterations):
        direction = _direction(gradient, pairs)
        slope = (gradient * direction).sum(1)
        solved = solved | (-slope <= TOLERANCE * (1 + value.abs()))
        if bool(solved.all()):
            break
        length = torch.ones_like(value) if pairs else 1 / gradient.abs().sum(1).clamp(min=1)
        new_value, new_gradient = function(point + length.unsqueeze(1) * direction)
        for _ in range(HALVINGS):
            enough = solved | (new_value <= value + 1e-4 * length * slope)
            if bool(enough.all()):
                break
            length = torch.where(enough, length, length / 2)
            new_value, new_gradient = function(point + length.unsqueeze(1) * direction)
        # A solved problem does not change while the others continue.
        solved = solved | ~(new_value < value)
        better = ~solved.unsqueeze(1)
        step = torch.where(better, length.unsqueeze(1) * direction, 0.0)
        # A point that overflowed is NaN, and 0 times NaN is NaN.
        change = torch.where(better, new_gradient - gradient, 0.0)
        pairs = [*pairs, (step, change)][-MEMORY:]
        point = point + step
        value = torch.where(better.squeeze(1), new_value, value)
        gradient = torch.where(better, new_gradient, gradient)
    return point


def _direction(gradient: Tensor, pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """-H g by the two-loop recursion over the last steps and the changes of the gradient.

    Steps of length 0 are ignored.
    """
    q, factors = gradient.clone(), []
    for step, change in reversed(pairs):
        curvature = (step * change).sum(1)
        rho = torch.where(curvature > 1e-12, 1 / curvature.clamp(min=1e-12), 0.0)
        alpha = rho * (step * q).sum(1)
        q = q - alpha.unsqueeze(1) * change
        factors.append((rho, alpha))
    if pairs:
        step, change = pairs[-1]
        curvature, size = (step * change).sum(1), change.square().sum(1)
        scale = torch.where(curvature > 1e-12, curvature / size.clamp(min=1e-30), 1.0)
        q = q * scale.unsqueeze(1)
    for (step, change), (rho, alpha) in zip(pairs, reversed(factors), strict=True):
        q = q + step * (alpha - rho * (change * q).sum(1)).unsqueeze(1)
    return -q


def class_prior(labels: IntArray, C: int) -> Array:
    """Log of the classes' shares (C,), with one added to the count of each class.

    Examples
    --------
    >>> np.exp(class_prior(np.array([0, 0]), 2))
    array([0.75, 0.25])
    """
    counts = np.bincount(labels, minlength=C) + 1.0
    log_prior: Array = np.log(counts / counts.sum())
    return log_prior


def fit_exponents(
    predictions: Array, log_prior: Array, labels: IntArray, default: Sequence[float]
) -> Array:
    """The λ and δ that maximise the likelihood of p ∝ Π_k p_k^λ_k · π^δ, by Newton's method.

    Parameters
    ----------
    predictions : (K, N, C) array
        log p_k of the validation nodes; an additive constant in a row does not matter.
    log_prior : (C,) array
        log π.
    labels : (N,) int array
        The classes of the validation nodes.
    default : (K,) sequence of float
        The λ without validation nodes; δ is then 0. It adds (λ - default)² / 2 to the negative
        log-likelihood, which a few dozen nodes outweigh.

    Returns
    -------
    (K + 1,) array
        λ, which is not negative, and δ.

    Examples
    --------
    >>> log_p = np.log([[[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]]])
    >>> labels = np.array([0, 1, 0, 1])
    >>> bool(fit_exponents(log_p, class_prior(labels, 2), labels, [1.0])[0] < 0.5)
    True
    """
    if not len(labels):
        return np.array([*default, 0.0])
    prior_rows = np.broadcast_to(log_prior, (1, *predictions.shape[1:]))
    return fit_rows(np.concatenate([predictions, prior_rows]), labels, default)


def fit_rows(parts: Array, labels: IntArray, default: Sequence[float]) -> Array:
    """`fit_exponents` with a prior of each node: the last of the parts (K + 1, N, C)."""
    start = np.array([*default, 0.0])
    return nonnegative(lambda start, free: _newton(parts, labels, start, free), start)


def nonnegative(solve: Callable[[Array, Mask], Array], start: Array) -> Array:
    """Solve for exponents (K + 1,) of which all but the last are not negative.

    Parameters
    ----------
    solve : callable
        From a start and a mask of the exponents that may change to the best exponents.
    start : (K + 1,) array
        The default; an exponent that would be negative becomes 0.

    Examples
    --------
    >>> nonnegative(lambda start, free: np.where(free, [-1.0, 2.0, -3.0], start), np.ones(3))
    array([ 0.,  2., -3.])
    """
    start, free = start.copy(), np.ones(len(start), dtype=bool)
    while True:
        exponents = solve(start, free)
        lowest = int(exponents[:-1].argmin())
        if exponents[lowest] >= 0:
            return exponents
        free[lowest], start[lowest] = False, 0.0


def _newton(parts: Array, labels: IntArray, start: Array, free: npt.NDArray[np.bool_]) -> Array:
    """The best exponents near `start`; those that are not free stay unchanged."""
    rows = np.arange(len(labels))
    truth = parts[:, rows, labels].sum(1)  # (K,)

    def loss(exponents: Array) -> tuple[float, Array]:
        log_p = log_softmax(np.tensordot(exponents, parts, 1), axis=1)
        penalty = ((exponents - start) ** 2).sum() / 2
        return -log_p[rows, labels].sum() + penalty, np.exp(log_p)

    exponents = start.copy()
    value, p = loss(exponents)
    for _ in range(NEWTON_STEPS):
        mean = (parts * p).sum(2)  # (K, N)
        gradient = (mean.sum(1) - truth + exponents - start)[free]
        hessian = np.einsum("anc,nc,bnc->ab", parts, p, parts) - mean @ mean.T + np.eye(len(start))
        step = np.zeros_like(start)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient)
        new_value, p = loss(exponents - step)
        while new_value > value + 1e-9 and np.abs(step).max() > 1e-9:
            step = step / 2
            new_value, p = loss(exponents - step)
        exponents, value = exponents - step, new_value
        if np.abs(step).max() < 1e-4:
            break
    return exponents


def mixture_weights(p: Array, pseudo_nodes: float = 1.0, rounds: int = 200) -> Array:
    """Weights w that maximise the likelihood of Σ_k w_k p_k, by expectation maximisation.

    Parameters
    ----------
    p : (K, N) array
        The probability of each validation node's true class in each of K predictions.
    pseudo_nodes : float, optional
        Number of pseudo-nodes that each prediction alone explains, so that a few nodes do not
        reduce a weight to 0.
    rounds : int, optional
        Number of iterations.

    Returns
    -------
    (K,) array
        w, which sums to 1.

    Examples
    --------
    >>> mixture_weights(np.array([[0.9, 0.9], [0.1, 0.1]]), pseudo_nodes=0.0).round(2)
    array([1., 0.])
    """
    weights = np.full(len(p), 1 / len(p))
    for _ in range(rounds):
        responsibilities = weights[:, None] * np.maximum(p, 1e-12)
        responsibilities /= responsibilities.sum(0)
        weights = responsibilities.sum(1) + pseudo_nodes
        weights = weights / weights.sum()
    return weights


def mean_weights(predictions: Array, numbers: Array, pseudo_nodes: float = 1.0) -> Array:
    """Weights w, from 0 and with sum 1, that minimise the squared error of Σ_k w_k m_k.

    Parameters
    ----------
    predictions : (K, N) array
        m_k, K predictions of N numbers.
    numbers : (N,) array
        The true numbers.
    pseudo_nodes : float, optional
        Strength of the pull towards equal weights, in units of nodes with the error of the best
        prediction, so that a few nodes do not reduce a weight to 0.

    Returns
    -------
    (K,) array
        w.

    Examples
    --------
    >>> mean_weights(np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]), np.arange(3.0)).round(1)
    array([1., 0.])
    """
    K = len(predictions)
    residuals = predictions - numbers  # (K, N): errors add up like weights that sum to 1
    gram = residuals @ residuals.T
    pull = pseudo_nodes * max(float(gram.diagonal().min()) / max(len(numbers), 1), 1e-12) * K
    # The sum is a heavily weighted equation; the pull towards 1 / K is K more.
    heavy = 1e3 * np.sqrt(max(float(gram.trace()), 1e-12))
    rows = np.vstack([residuals.T, np.sqrt(pull) * np.eye(K), np.full(K, heavy)])
    right = np.concatenate([np.zeros(len(numbers)), np.full(K, np.sqrt(pull) / K), [heavy]])
    weights: Array = nnls(rows, right)[0]
    weights /= weights.sum()
    return weights


def is_balanced(labels: IntArray) -> bool:
    """Whether all classes that occur have the same number of labels, up to one.

    The labels were then selected by class, and their prior is not that of all nodes.

    Examples
    --------
    >>> is_balanced(np.array([0, 0, 1, 1, 2, 2])), is_balanced(np.array([0, 0, 1]))
    (True, False)
    """
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    return bool(len(counts) > 1 and counts.min() > 1 and np.ptp(counts) <= 1)


def estimated_class_prior(p: Array, pseudo_nodes: float = 0.1, rounds: int = 100) -> Array:
    """Log of the classes' shares (C,) among nodes, from predictions that assume equal shares.

    Expectation maximisation finds the shares π that maximise the likelihood of predictions
    p_ic · C π_c (Saerens, Latinne and Decaestecker, 2002).

    Parameters
    ----------
    p : (N, C) array
        Probabilities of a classifier that was trained on balanced labels.
    pseudo_nodes : float, optional
        Number of pseudo-nodes with equal shares, as a share of N: uninformative predictions leave
        the shares equal.
    rounds : int, optional
        Number of iterations.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1]] * 80 + [[0.1, 0.9]] * 20)
    >>> np.exp(estimated_class_prior(p, pseudo_nodes=0.0)).round(1)
    array([0.9, 0.1])
    """
    N, C = p.shape
    prior = np.full(C, 1 / C)
    for _ in range(rounds):
        posterior = p * prior
        posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), 1e-300)
        prior = (posterior.sum(axis=0) + pseudo_nodes * N / C) / (N * (1 + pseudo_nodes))
    log_prior: Array = np.log(np.maximum(prior, 1e-12))
    return log_prior


def calibrated(predictions: Array, log_prior: Array, exponents: Array) -> Array:
    """Log-probabilities (N, C) of Π_k p_k^λ_k · π^δ, from predictions (K, N, C).

    Examples
    --------
    >>> calibrated(np.log([[[0.8, 0.2]]]), np.zeros(2), np.array([0.0, 0.0])).round(2)
    array([[-0.69, -0.69]])
    """
    scores = np.tensordot(exponents[:-1], predictions, 1) + exponents[-1] * log_prior
    log_p: Array = log_softmax(scores, axis=1)
    return log_p
