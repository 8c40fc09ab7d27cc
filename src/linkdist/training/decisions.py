"""Decisions from probabilities: thresholds of labels, factors of classes, widths of intervals.

Each rule is chosen on validation rows. So that a few rows do not give an extreme rule, F1 is
computed from labels that are mixed with the probabilities themselves: the model's own expectation
counts as `PRIOR` labels of each class. With one label of a class the rule is almost that of a
calibrated model, with hundreds it is that of the labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linkdist.data.graph import IntArray, Labels, known_labels
from linkdist.training.measures import Array

PRIOR = 5
"""Number of labels of a class that the model's own probabilities count for."""
LOG_FACTORS = np.arange(-16, 17) / 4
"""The grid of the logarithms of class factors."""
FEW_ROWS = 3
"""A class with fewer rows keeps the factor 1."""
ROUNDS = 10
"""The most rounds over all classes."""
GAIN = 1e-9
"""A smaller gain is a rounding error."""
POINTS = 50
"""The most rows of a table of operating points."""


def label_thresholds(p: Array, labels: Labels) -> Array:
    """The threshold of each label that gives the best F1.

    A label is predicted if its probability is at least its threshold. Thresholds lie in the middle
    between two probabilities, and at 0.5 if it is between them. Of equally good thresholds it is
    the one nearest to 0.5, which is also the threshold of a label that no row has.

    Parameters
    ----------
    p : (N, C) array
        Label probabilities of validation rows.
    labels : (N, C) array of 0 and 1
        Their labels; rows with unknown labels are left out.

    Returns
    -------
    (C,) array
        The thresholds.

    Examples
    --------
    >>> p = np.array([[0.1, 0.1], [0.2, 0.7], [0.3, 0.8], [0.4, 0.9]]).repeat(50, axis=0)
    >>> labels = np.array([[0, 0], [0, 0], [1, 0], [1, 0]]).repeat(50, axis=0)
    >>> label_thresholds(p, labels)
    array([0.25, 0.5 ])
    """
    known = known_labels(labels)
    p, truth = np.asarray(p, dtype=np.float64)[known], labels[known] == 1
    return np.array([_threshold(p[:, c], truth[:, c]) for c in range(p.shape[1])])


def _threshold(p: Array, truth: Labels) -> float:
    if not truth.any():
        return 0.5
    scores, places = np.unique(p, return_inverse=True)
    soft, rows = (
        np.bincount(places, values, minlength=len(scores)) for values in (_mixed(truth, p), None)
    )
    # Of each threshold: what it predicts is this score and those above it.
    hits, predicted = (np.cumsum(part[::-1])[::-1] for part in (soft, rows))
    f1 = 2 * hits / (hits[0] + predicted)
    below = np.concatenate([[0.0], scores[:-1]])
    between = np.maximum((below + scores) / 2, np.nextafter(below, scores))
    thresholds = np.where((below < 0.5) & (scores >= 0.5), 0.5, between)
    best = np.flatnonzero(f1 > f1.max() - GAIN)
    return float(thresholds[best[np.abs(thresholds[best] - 0.5).argmin()]])


def _mixed(truth: Labels, p: Array) -> Array:
    """Labels (N,) of a class mixed with its probabilities (N,), which count as `PRIOR` labels."""
    share = PRIOR / (PRIOR + truth.sum())
    mixed: Array = (1 - share) * truth + share * p
    return mixed


def class_factors(p: Array, labels: Labels) -> Array:
    """Factors of class probabilities that give the best macro F1.

    The predicted class is the one with the largest product of probability and factor. One factor
    at a time takes the best value of a grid from exp(-4) to exp(4), the nearest to 1 of equally
    good ones, until no factor changes.

    Parameters
    ----------
    p : (N, C) array
        Class probabilities of validation rows.
    labels : (N,) array of int
        Their classes; rows with an unknown class are left out.

    Returns
    -------
    (C,) array
        The factors; 1 for classes with fewer than three rows.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4]]).repeat([900, 30, 30], axis=0)
    >>> labels = np.array([0, 1, 1]).repeat([900, 30, 30])
    >>> factors = class_factors(p, labels)
    >>> (p * factors).argmax(axis=1)[[0, 900, 930]]
    array([0, 1, 1])
    """
    known = known_labels(labels)
    p, y = np.asarray(p, dtype=np.float64)[known], labels[known]
    C = p.shape[1]
    counts = np.bincount(y, minlength=C)
    soft = np.stack([_mixed(y == c, p[:, c]) for c in range(C)], axis=1)
    logs = np.zeros(C)
    several = (counts > 0).sum() > 1
    free = np.flatnonzero((counts >= FEW_ROWS) & several).tolist()
    for _ in range(ROUNDS):
        before = logs.copy()
        for c in free:
            logs[c] = _best_factor(c, p, soft, counts > 0, logs)
        if (logs == before).all():
            break
    return np.exp(logs)


def _best_factor(c: int, p: Array, soft: Array, occurs: Labels, logs: Array) -> float:
    """The best logarithm of the factor of class c, given the others."""
    scaled = p * np.exp(logs)
    scaled[:, c] = -np.inf
    other = scaled.argmax(axis=1)
    rival, own = scaled.max(axis=1), soft[:, c]
    beside = soft[np.arange(len(p)), other]
    totals, scores = soft.sum(axis=0), []
    for log in LOG_FACTORS:
        product = p[:, c] * np.exp(log)
        # As in argmax, the first of equal products is predicted.
        taken = (product > rival) | ((product == rival) & (c < other))
        hits, predicted = (
            np.bincount(other[~taken], values, minlength=len(totals))
            for values in (beside[~taken], None)
        )
        hits[c], predicted[c] = own[taken].sum(), taken.sum()
        scores.append((2 * hits / np.maximum(totals + predicted, GAIN))[occurs].mean())
    best = LOG_FACTORS[np.array(scores) > max(scores) - GAIN]
    return float(best[np.abs(best).argmin()])


def conformal_width(residuals: Array, coverage: float = 0.9) -> float:
    """Half the width of prediction intervals that contain the truth with a given probability.

    It is the ceil((N + 1) coverage)-th smallest absolute residual: an interval of this width around
    a new prediction contains the truth with at least that probability, if new rows are like these
    (split conformal prediction).

    Parameters
    ----------
    residuals : (N,) array
        Differences between true and predicted numbers of rows that training has not seen; NaN is
        left out.
    coverage : float, optional
        The probability.

    Returns
    -------
    float
        The width; infinite if there are too few rows for this coverage.

    Examples
    --------
    >>> conformal_width(np.arange(1, 20), coverage=0.9), conformal_width(np.arange(8))
    (18.0, inf)
    """
    errors = np.sort(np.abs(np.asarray(residuals, dtype=np.float64)))
    errors = errors[~np.isnan(errors)]
    rank = int(np.ceil((len(errors) + 1) * coverage - GAIN))
    return float(errors[max(rank, 1) - 1]) if rank <= len(errors) else float("inf")


class OperatingPoint(NamedTuple):
    """What a threshold of a score gives.

    Attributes
    ----------
    threshold : float
        Rows with at least this score are selected.
    precision : float
        The share of selected rows that are positive.
    recall : float
        The share of positive rows that are selected.
    share : float
        The share of all rows that are selected.
    """

    threshold: float
    precision: float
    recall: float
    share: float


def operating_point(p: Array, labels: IntArray, threshold: float) -> OperatingPoint:
    """Precision, recall and share of rows of one threshold; precision is 1 if none is selected.

    Examples
    --------
    >>> operating_point(np.array([0.9, 0.7, 0.2]), np.array([1, 0, 1]), 0.5)[1:3]
    (0.5, 0.5)
    """
    known = known_labels(labels)
    chosen, positive = np.asarray(p)[known] >= threshold, labels[known] == 1
    hits, selected = int((chosen & positive).sum()), int(chosen.sum())
    precision = hits / selected if selected else 1.0
    recall = hits / max(int(positive.sum()), 1)
    return OperatingPoint(float(threshold), precision, recall, selected / max(len(chosen), 1))


def operating_points(p: Array, labels: IntArray, most: int = POINTS) -> list[OperatingPoint]:
    """The thresholds of a score that are worth choosing from, the highest first.

    These are the scores of positive rows: another threshold selects more rows, but no more positive
    ones. If there are too many, they are thinned evenly by their recall.

    Parameters
    ----------
    p : (N,) array
        A score, such as the probability of the positive class.
    labels : (N,) array of int
        1 for positive rows, 0 for others; unknown ones are left out.
    most : int, optional
        The largest number of points.

    Returns
    -------
    list of OperatingPoint
        Empty without positive rows.

    Examples
    --------
    >>> points = operating_points(np.array([0.9, 0.8, 0.7, 0.2]), np.array([1, 0, 1, 0]))
    >>> [(point.threshold, round(point.precision, 2), point.recall) for point in points]
    [(0.9, 1.0, 0.5), (0.7, 0.67, 1.0)]
    """
    known = known_labels(labels)
    scores, positive = np.asarray(p, dtype=np.float64)[known], labels[known] == 1
    ordered, ranked = np.sort(scores), np.sort(scores[positive])
    thresholds = np.unique(ranked)[::-1]
    selected = len(ordered) - np.searchsorted(ordered, thresholds)
    hits = len(ranked) - np.searchsorted(ranked, thresholds)
    if len(thresholds) > most:
        levels = np.linspace(hits[0], hits[-1], most)
        kept = np.unique(np.searchsorted(hits, levels - GAIN))
        thresholds, selected, hits = thresholds[kept], selected[kept], hits[kept]
    parts = (thresholds, hits / selected, hits / len(ranked), selected / len(ordered))
    return (
        [OperatingPoint(*point) for point in np.stack(parts, axis=1).tolist()] if len(hits) else []
    )
