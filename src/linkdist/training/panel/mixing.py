"""Calibration and mixture weights by maximum likelihood.

Predictions are compared on validation nodes, whose labels were not used to make them. The measure
is the likelihood: unlike accuracy, it does not reward predicting the largest class, and it depends
on the confidence of a prediction.

`exponents` calibrates: it finds the λ and δ of p ∝ Π_k p_k^λ_k · π^δ, with π the class shares of
the validation nodes. For one prediction, λ is the inverse of the temperature; for two, the λ weight
a node's own prediction and its neighbours'. The factor π^δ corrects for classes that are rarer or
more frequent among the training labels than among the validation nodes, and for shares that several
predictions count more than once. `mixture_weights` finds the weights w of p = Σ_k w_k p_k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from linkdist.data.graph import IntArray

Array: TypeAlias = npt.NDArray[np.float64]

STEPS = 50
"""Maximum number of Newton steps; usually a few are enough."""


def class_shares(labels: IntArray, C: int) -> Array:
    """Log of the classes' shares (C,), with one added to the count of each class.

    Examples
    --------
    >>> np.exp(class_shares(np.array([0, 0]), 2))
    array([0.75, 0.25])
    """
    counts = np.bincount(labels, minlength=C) + 1.0
    shares: Array = np.log(counts / counts.sum())
    return shares


def exponents(predictions: Array, shares: Array, labels: IntArray, prior: Sequence[float]) -> Array:
    """The λ and δ that maximise the likelihood of p ∝ Π_k p_k^λ_k · π^δ, by Newton's method.

    Parameters
    ----------
    predictions : (K, N, C) array
        log p_k of the validation nodes; an additive constant in a row does not matter.
    shares : (C,) array
        log π.
    labels : (N,) int array
        The classes of the validation nodes.
    prior : (K,) sequence of float
        The λ without validation nodes; δ is then 0. It adds (λ - prior)² / 2 to the negative
        log-likelihood, which a few dozen nodes outweigh.

    Returns
    -------
    (K + 1,) array
        λ, which is not negative, and δ.

    Examples
    --------
    >>> log_p = np.log([[[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]]])
    >>> labels = np.array([0, 1, 0, 1])
    >>> bool(exponents(log_p, class_shares(labels, 2), labels, prior=[1.0])[0] < 0.5)
    True
    """
    start = np.array([*prior, 0.0])
    if not len(labels):
        return start
    flat = np.broadcast_to(shares, (1, *predictions.shape[1:]))
    parts = np.concatenate([predictions, flat])  # (K + 1, N, C)
    free = np.ones(len(start), dtype=bool)
    while True:
        found = _newton(parts, labels, start, free)
        lowest = int(found[:-1].argmin())
        if found[lowest] >= 0:
            return found
        free[lowest], start[lowest] = False, 0.0


def _newton(parts: Array, labels: IntArray, prior: Array, free: npt.NDArray[np.bool_]) -> Array:
    """The best exponents; those that are not free stay unchanged."""
    rows = np.arange(len(labels))
    truth = parts[:, rows, labels].sum(1)  # (K,)

    def loss(at: Array) -> tuple[float, Array]:
        log_p = log_softmax(np.tensordot(at, parts, 1), axis=1)
        return -log_p[rows, labels].sum() + ((at - prior) ** 2).sum() / 2, np.exp(log_p)

    at = prior.copy()
    value, p = loss(at)
    for _ in range(STEPS):
        mean = (parts * p).sum(2)  # (K, N)
        gradient = (mean.sum(1) - truth + at - prior)[free]
        spread = np.einsum("anc,nc,bnc->ab", parts, p, parts) - mean @ mean.T
        step = np.zeros_like(at)
        step[free] = np.linalg.solve((spread + np.eye(len(at)))[np.ix_(free, free)], gradient)
        new, there = loss(at - step)
        while new > value + 1e-9 and np.abs(step).max() > 1e-9:
            step = step / 2
            new, there = loss(at - step)
        at, value, p = at - step, new, there
        if np.abs(step).max() < 1e-4:
            break
    return at


def mixture_weights(p: Array, prior: float = 1.0, rounds: int = 200) -> Array:
    """Weights w that maximise the likelihood of Σ_k w_k p_k, by expectation maximisation.

    Parameters
    ----------
    p : (K, N) array
        The probability of each validation node's true class in each of K predictions.
    prior : float, optional
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
    >>> mixture_weights(np.array([[0.9, 0.9], [0.1, 0.1]]), prior=0.0).round(2)
    array([1., 0.])
    """
    weights = np.full(len(p), 1 / len(p))
    for _ in range(rounds):
        each = weights[:, None] * np.maximum(p, 1e-12)
        each = each / each.sum(0)
        weights = each.sum(1) + prior
        weights = weights / weights.sum()
    return weights


def is_balanced(labels: IntArray) -> bool:
    """Whether all classes that occur have the same number of labels, up to one.

    The labels were then selected by class, and their shares are not those of all nodes.

    Examples
    --------
    >>> is_balanced(np.array([0, 0, 1, 1, 2, 2])), is_balanced(np.array([0, 0, 1]))
    (True, False)
    """
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    return bool(len(counts) > 1 and counts.min() > 1 and np.ptp(counts) <= 1)


def estimated_shares(p: Array, prior: float = 0.1, rounds: int = 100) -> Array:
    """Log of the classes' shares (C,) among nodes, from predictions that assume equal shares.

    Expectation maximisation finds the shares π that maximise the likelihood of predictions
    p_ic · C π_c (Saerens, Latinne and Decaestecker, 2002).

    Parameters
    ----------
    p : (N, C) array
        Probabilities of a classifier that was trained on balanced labels.
    prior : float, optional
        Number of pseudo-nodes with equal shares, as a share of N: uninformative predictions leave
        the shares equal.
    rounds : int, optional
        Number of iterations.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1]] * 80 + [[0.1, 0.9]] * 20)
    >>> np.exp(estimated_shares(p, prior=0.0)).round(1)
    array([0.9, 0.1])
    """
    N, C = p.shape
    shares = np.full(C, 1 / C)
    for _ in range(rounds):
        each = p * shares
        each = each / np.maximum(each.sum(axis=1, keepdims=True), 1e-300)
        shares = (each.sum(axis=0) + prior * N / C) / (N * (1 + prior))
    log: Array = np.log(np.maximum(shares, 1e-12))
    return log


def calibrated(predictions: Array, shares: Array, by: Array) -> Array:
    """Log-probabilities (N, C) of Π_k p_k^λ_k · π^δ, from predictions (K, N, C).

    Examples
    --------
    >>> calibrated(np.log([[[0.8, 0.2]]]), np.zeros(2), np.array([0.0, 0.0])).round(2)
    array([[-0.69, -0.69]])
    """
    scores = np.tensordot(by[:-1], predictions, 1) + by[-1] * shares
    log_p: Array = log_softmax(scores, axis=1)
    return log_p
