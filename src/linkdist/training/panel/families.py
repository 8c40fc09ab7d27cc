"""How predictions of each task are calibrated, mixed and compared, in NumPy.

A family works on scores (N, C), the natural parameters of `nn.tasks`: log-probabilities of classes,
log-odds of labels, or numbers. It calibrates K scores of a node by

    Σ_k λ_k · score_k + δ · prior

with λ and δ that fit the labels of validation nodes best, and mixes several predictions. Each label
of a multilabel task is a class of its own, present or absent, so that task becomes N · C nodes with
two classes. Numbers have a constant as their prior, and least squares instead of likelihood.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from scipy.special import expit, logit

from linkdist.data.graph import Labels
from linkdist.training.panel import likelihood
from linkdist.training.panel.likelihood import Array, nonnegative

SMALLEST_VARIANCE = 1e-6
"""The smallest variance of a number, so that a perfect prediction is not infinitely certain."""


class Family(ABC):
    """How the predictions of a task are calibrated, mixed and compared."""

    @abstractmethod
    def prior(self, labels: Labels, C: int) -> Array:
        """The score (C,) of a node of which nothing is known but the labels of other nodes."""

    @abstractmethod
    def fit(self, scores: Array, prior: Array, labels: Labels, default: Sequence[float]) -> Array:
        """λ, which is not negative, and δ (K + 1,) from scores (K, N, C) of validation nodes.

        `default` (K,) are the λ without validation nodes; δ is then 0.
        """

    @abstractmethod
    def calibrated(self, scores: Array, prior: Array, exponents: Array) -> Array:
        """Scores (N, C) from K scores (K, N, C), λ and δ."""

    @abstractmethod
    def quality(self, scores: Array, labels: Labels) -> Array:
        """How well scores (N, C) predict each label (N,); higher is better."""

    def evidence(self, scores: Array, labels: Labels) -> float:
        """The log-likelihood of all labels."""
        return float(self.quality(scores, labels).sum())

    @abstractmethod
    def weights(self, scores: Array, labels: Labels) -> Array:
        """Weights (K,) of the mixture of K predictions (K, N, C) that fits the labels best."""

    @abstractmethod
    def mean(self, scores: Array) -> Array:
        """Probabilities or numbers (N, C)."""

    @abstractmethod
    def targets(self, labels: Labels, C: int) -> Array:
        """Known labels as `mean` would predict them with certainty (N, C)."""


class Classes(Family):
    """One of C classes."""

    def prior(self, labels: Labels, C: int) -> Array:
        """Log of the classes' shares."""
        return likelihood.class_prior(labels, C)

    def fit(self, scores: Array, prior: Array, labels: Labels, default: Sequence[float]) -> Array:
        """The exponents with the highest likelihood."""
        return likelihood.fit_exponents(scores, prior, labels, default)

    def calibrated(self, scores: Array, prior: Array, exponents: Array) -> Array:
        """Log-probabilities."""
        return likelihood.calibrated(scores, prior, exponents)

    def quality(self, scores: Array, labels: Labels) -> Array:
        """The log-probability of the label."""
        chosen: Array = scores[np.arange(len(labels)), labels]
        return chosen

    def weights(self, scores: Array, labels: Labels) -> Array:
        """The weights with the highest likelihood."""
        return likelihood.mixture_weights(np.exp([self.quality(part, labels) for part in scores]))

    def mean(self, scores: Array) -> Array:
        """Probabilities."""
        p: Array = np.exp(scores)
        return p

    def targets(self, labels: Labels, C: int) -> Array:
        """1 for the class, 0 for the others."""
        return np.eye(C)[labels]


class Sets(Family):
    """Any number of C labels."""

    classes = Classes()

    def prior(self, labels: Labels, C: int) -> Array:
        """Log-odds of the labels' shares, with one node added that has half of each label."""
        odds: Array = logit((labels.sum(axis=0) + 0.5) / (len(labels) + 1.0))
        return odds

    def fit(self, scores: Array, prior: Array, labels: Labels, default: Sequence[float]) -> Array:
        """The exponents with the highest likelihood, the same for all labels."""
        if not labels.size:
            return np.array([*default, 0.0])
        rows = np.broadcast_to(prior, scores.shape[1:])
        parts = [_pairs(part) for part in (*scores, rows)]
        return likelihood.fit_rows(np.stack(parts), labels.ravel(), default)

    def calibrated(self, scores: Array, prior: Array, exponents: Array) -> Array:
        """Log-odds."""
        linear: Array = np.tensordot(exponents[:-1], scores, 1) + exponents[-1] * prior
        return linear

    def quality(self, scores: Array, labels: Labels) -> Array:
        """The mean log-probability of the node's labels."""
        quality: Array = -np.logaddexp(0, np.where(labels == 1, -scores, scores)).mean(axis=1)
        return quality

    def evidence(self, scores: Array, labels: Labels) -> float:
        """The log-likelihood of all labels."""
        return float(self.quality(scores, labels).sum() * scores.shape[1])

    def weights(self, scores: Array, labels: Labels) -> Array:
        """The weights with the highest likelihood of all labels."""
        right = expit(np.where(labels == 1, scores, -scores))  # (K, N, C)
        return likelihood.mixture_weights(right.reshape(len(scores), -1))

    def mean(self, scores: Array) -> Array:
        """The probability of each label."""
        p: Array = expit(scores)
        return p

    def targets(self, labels: Labels, C: int) -> Array:
        """1 for the labels of a node, 0 for the others."""
        return labels.astype(np.float64)


def _pairs(odds: Array) -> Array:
    """Log-odds (N, C) as log-probabilities of 'absent' and 'present' (N · C, 2)."""
    flat = odds.ravel()
    return np.stack([-np.logaddexp(0, flat), -np.logaddexp(0, -flat)], axis=1)


class Numbers(Family):
    """A number, in units of its standard deviation.

    Parameters
    ----------
    absolute : bool
        Whether predictions are compared by their absolute error instead of the squared error.
    """

    def __init__(self, absolute: bool = False) -> None:
        self.absolute = absolute

    def prior(self, labels: Labels, C: int) -> Array:
        """A constant, so that δ is an offset."""
        return np.ones(C)

    def fit(self, scores: Array, prior: Array, labels: Labels, default: Sequence[float]) -> Array:
        """The least-squares coefficients, with the penalty that `fit_exponents` has."""
        start = np.array([*default, 0.0])
        if not len(labels):
            return start
        rows = np.concatenate([scores[..., 0], np.ones((1, len(labels)))])  # (K + 1, N)
        variance = max(float(np.mean((labels - start @ rows) ** 2)), SMALLEST_VARIANCE)

        def solve(start: Array, free: likelihood.Mask) -> Array:
            solution = start.copy()
            design = rows[free]
            rest = labels - start[~free] @ rows[~free]
            matrix = design @ design.T / variance + np.eye(len(design))
            solution[free] = np.linalg.solve(matrix, design @ rest / variance + start[free])
            return solution

        return nonnegative(solve, start)

    def calibrated(self, scores: Array, prior: Array, exponents: Array) -> Array:
        """Numbers."""
        linear: Array = np.tensordot(exponents[:-1], scores, 1) + exponents[-1] * prior
        return linear

    def quality(self, scores: Array, labels: Labels) -> Array:
        """Minus half of the squared error, or minus the absolute error."""
        error = np.abs(scores[:, 0] - labels)
        quality: Array = -error if self.absolute else -(error**2) / 2
        return quality

    def evidence(self, scores: Array, labels: Labels) -> float:
        """The log-likelihood of all numbers, with the variance that maximises it."""
        variance = float(np.mean((scores[:, 0] - labels) ** 2))
        return -len(labels) / 2 * float(np.log(max(variance, SMALLEST_VARIANCE)))

    def weights(self, scores: Array, labels: Labels) -> Array:
        """The weights of the weighted mean with the smallest squared error."""
        return likelihood.mean_weights(scores[..., 0], labels)

    def mean(self, scores: Array) -> Array:
        """The number."""
        return scores

    def targets(self, labels: Labels, C: int) -> Array:
        """The number as a column."""
        return labels[:, None].astype(np.float64)


def family_of(task: str, loss: str = "squared") -> Family:
    """The family of a task; `loss` is the error of a regression, 'squared' or 'absolute'.

    Examples
    --------
    >>> numbers, scores = np.array([2.0, 4.0] * 50), np.array([[[1.0], [2.0]] * 50])
    >>> family_of("regression").fit(scores, np.ones(1), numbers, [1.0]).round(1)
    array([1.9, 0.1])
    """
    if task == "classification":
        return Classes()
    return Sets() if task == "multilabel" else Numbers(loss == "absolute")
