"""How well a rare class is found: its order by probability, and what each threshold gives.

The rarest class is ranked if it is one of two classes, or far rarer than other classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linkdist.data.graph import IntArray
from linkdist.training.decisions import OperatingPoint, operating_point, operating_points
from linkdist.training.measures import Array, Interval, measure_for

RARE = 1 / 3
"""The largest share of a rare class, times the number of classes, if there are more than two."""
FEWEST = 3
"""A class with fewer nodes is not ranked: its curve would be a few steps."""
TABLE = 8
"""Number of rows of the table of operating points."""
DECISION = 0.5
"""The probability from which the model predicts one of two classes."""


class RankingMetrics(NamedTuple):
    """The ranking of nodes by the probability of a rare class.

    Attributes
    ----------
    positive : int
        The class.
    rows : int
        Number of nodes of the class.
    share : float
        Their share, which is the average precision of a random order.
    roc_auc, average_precision : float
        The scores of the order.
    roc_auc_interval, average_precision_interval : tuple of float
        Their 90 % intervals.
    curve, table : list of OperatingPoint
        Thresholds for a curve, and a few of them for a table.
    chosen : OperatingPoint or None
        The threshold of the model. Of more than two classes, no threshold decides.
    """

    positive: int
    rows: int
    share: float
    roc_auc: float
    roc_auc_interval: Interval
    average_precision: float
    average_precision_interval: Interval
    curve: list[OperatingPoint]
    table: list[OperatingPoint]
    chosen: OperatingPoint | None


def rank_rare_class(
    p: Array, truth: IntArray, decided: Array | None = None
) -> RankingMetrics | None:
    """Rank nodes by the probability of the rarest class.

    Parameters
    ----------
    p : (N, C) array
        Class probabilities.
    truth : (N,) array of int
        Classes.
    decided : (N, C) array, optional
        Probabilities for the operating point in use, if they differ from those of the order.

    Returns
    -------
    RankingMetrics or None
        None if no class is rare, or if it has too few nodes.

    Examples
    --------
    >>> p = np.array([0.9, 0.8, 0.7, 0.4, 0.3, 0.2, 0.1])
    >>> found = rank_rare_class(np.stack([1 - p, p], 1), np.array([1, 1, 0, 1, 0, 0, 0]))
    >>> found.positive, round(found.roc_auc, 3), round(found.average_precision, 3)
    (1, 0.917, 0.917)
    >>> found.chosen.threshold, round(found.chosen.precision, 3), round(found.chosen.recall, 3)
    (0.5, 0.667, 0.667)
    """
    C, counts = p.shape[1], np.bincount(truth, minlength=p.shape[1])
    present = np.flatnonzero(counts)
    if len(present) < 2:
        return None
    # Of two equally frequent classes the second one, as in `training.measures`.
    rare = int(present[::-1][counts[present[::-1]].argmin()])
    rows, total = int(counts[rare]), len(truth)
    if rows < FEWEST or (C > 2 and rows * C > RARE * total):
        return None
    score, y = p[:, rare], (truth == rare).astype(np.int64)
    in_use = score if decided is None else decided[:, rare]
    both = np.stack([-score, score], axis=1)
    auc, average = (measure_for("classification", m) for m in ("roc-auc", "average-precision"))
    return RankingMetrics(
        rare,
        rows,
        rows / total,
        auc.value(both, y),
        auc.interval(both, y),
        average.value(both, y),
        average.interval(both, y),
        operating_points(score, y),
        operating_points(score, y, TABLE),
        operating_point(in_use, y, DECISION) if C == 2 else None,
    )
