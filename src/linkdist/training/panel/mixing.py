"""How much to trust each opinion, chosen by likelihood.

Labelled nodes that a training did not see judge its predictions. Likelihood is the measure: unlike
accuracy it does not reward predicting the largest class, and it tells good guesses from lucky ones.

`exponents` calibrates: the λ of p ∝ Π_k p_k^λ_k · π^δ, with π the judges' shares of the classes.
One opinion gives one over the temperature; two say how much a node's own prediction and its
neighbours' count. The factor π^δ corrects for classes that are rarer, or more frequent, among the
labels than among the judges, and for a share that several opinions count more than once.
`mixture_weights` mixes: the shares w of p = Σ_k w_k p_k.
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
"""Newton steps at most; a handful is usual."""


def class_shares(labels: IntArray, C: int) -> Array:
    """Log of the classes' shares (C,), each class counted once more than it is there.

    Examples
    --------
    >>> np.exp(class_shares(np.array([0, 0]), 2))
    array([0.75, 0.25])
    """
    counts = np.bincount(labels, minlength=C) + 1.0
    shares: Array = np.log(counts / counts.sum())
    return shares


def exponents(opinions: Array, shares: Array, labels: IntArray, prior: Sequence[float]) -> Array:
    """The λ and δ that make p ∝ Π_k p_k^λ_k · π^δ most likely, by Newton's method.

    Parameters
    ----------
    opinions : (K, N, C) array
        log p_k of the judges; an additive constant in a row does not matter.
    shares : (C,) array
        log π.
    labels : (N,) int array
        The judges' classes.
    prior : (K,) sequence of float
        Where λ is without any judge; δ is 0 there. It counts as (λ - prior)² / 2 in the
        log-likelihood, which a few dozen judges outweigh.

    Returns
    -------
    (K + 1,) array
        λ, none below 0, and δ.

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
    flat = np.broadcast_to(shares, (1, *opinions.shape[1:]))
    parts = np.concatenate([opinions, flat])  # (K + 1, N, C)
    free = np.ones(len(start), dtype=bool)
    while True:
        found = _newton(parts, labels, start, free)
        lowest = int(found[:-1].argmin())
        if found[lowest] >= 0:
            return found
        free[lowest], start[lowest] = False, 0.0


def _newton(parts: Array, labels: IntArray, prior: Array, free: npt.NDArray[np.bool_]) -> Array:
    """The best exponents, those that are not free left where they are."""
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
    """Shares w that make Σ_k w_k p_k most likely, by expectation maximisation.

    Parameters
    ----------
    p : (K, N) array
        The probability that each of K opinions gives to the true class of each judge.
    prior : float, optional
        Imaginary judges that each opinion alone explains, so that few judges exclude nobody.
    rounds : int, optional
        Of expectation and maximisation.

    Returns
    -------
    (K,) array
        w; sums to 1.

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


def chosen_by_class(labels: IntArray) -> bool:
    """Whether there is the same number of labels of each class that has any.

    Then labels were chosen by class, and their shares say nothing of those of all nodes.

    Examples
    --------
    >>> chosen_by_class(np.array([0, 0, 1, 1, 2, 2])), chosen_by_class(np.array([0, 0, 1]))
    (True, False)
    """
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    return bool(len(counts) > 1 and counts.min() > 1 and np.ptp(counts) <= 1)


def estimated_shares(p: Array, prior: float = 0.1, rounds: int = 100) -> Array:
    """Log of the classes' shares (C,) among nodes that were predicted as if all were equal.

    Expectation maximisation finds the shares π that make predictions p_ic · C π_c most likely
    (Saerens, Latinne and Decaestecker, 2002).

    Parameters
    ----------
    p : (N, C) array
        Probabilities, by labels of which there is the same number of each class.
    prior : float, optional
        Imaginary nodes, as a share of N, of equal shares: where predictions say nothing, all
        classes stay equal.
    rounds : int, optional
        Of expectation and maximisation.

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


def calibrated(opinions: Array, shares: Array, by: Array) -> Array:
    """Log-probabilities (N, C) of Π_k p_k^λ_k · π^δ, from opinions (K, N, C).

    Examples
    --------
    >>> calibrated(np.log([[[0.8, 0.2]]]), np.zeros(2), np.array([0.0, 0.0])).round(2)
    array([[-0.69, -0.69]])
    """
    scores = np.tensordot(by[:-1], opinions, 1) + by[-1] * shares
    log_p: Array = log_softmax(scores, axis=1)
    return log_p
