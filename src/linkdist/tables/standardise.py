"""Standardise numbers with means and deviations that are computed batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkdist.data.graph import FloatArray
from linkdist.tables.parsing import Doubles

LIMIT = 1e6
"""Standardised numbers are clipped to this absolute value."""


class Moments:
    """Mean and deviation of batches of rows, combined by the algorithm of Chan et al.

    Numbers are computed relative to the first row, so the deviation of a constant is exactly 0.

    Examples
    --------
    >>> moments = Moments()
    >>> moments.add(np.array([[1.0], [3.0]]))
    >>> moments.mean, moments.deviation
    (array([2.]), array([1.]))
    """

    def __init__(self) -> None:
        self.count = 0

    def add(self, x: Doubles) -> None:
        """Add the rows of x, (k, width)."""
        if not x.size:
            return
        if not self.count:
            self._first = x[0]
            self._mean, self._squares = np.zeros((2, x.shape[1]))
        x = x - self._first
        mean = x.mean(axis=0)
        total, apart = self.count + len(x), mean - self._mean
        x -= mean
        x *= x
        self._squares += x.sum(axis=0) + apart**2 * self.count * len(x) / total
        self._mean += apart * len(x) / total
        self.count = total

    @property
    def mean(self) -> Doubles:
        """Mean of each column."""
        mean: Doubles = self._first + self._mean
        return mean

    @property
    def deviation(self) -> Doubles:
        """Standard deviation of each column."""
        deviation: Doubles = np.sqrt(self._squares / self.count)
        return deviation


def standardise(x: Doubles, mean: Doubles, deviation: Doubles) -> FloatArray:
    """(x - mean) / deviation; 0 where x is missing or the column is constant, never infinite.

    Examples
    --------
    >>> standardise(np.array([[3.0], [np.nan]]), np.array([1.0]), np.array([2.0])).tolist()
    [[1.0], [0.0]]
    """
    varies, z = deviation > 0, x - mean
    with np.errstate(over="ignore"):
        if varies.all():  # a division with a mask takes several times as long
            z /= deviation
        else:
            z = np.divide(z, deviation, out=np.zeros_like(z), where=varies)
    np.nan_to_num(z, copy=False)
    features: FloatArray = np.clip(z, -LIMIT, LIMIT, out=z).astype(np.float32)
    return features


def parse_statistics(mean: Any, deviation: Any) -> tuple[Doubles, Doubles]:  # noqa: ANN401
    """Convert means and deviations from JSON; raises a ValueError if they are invalid.

    Examples
    --------
    >>> parse_statistics([1], [0.5])
    (array([1.]), array([0.5]))
    """
    both = np.array([mean, deviation], dtype=np.float64)
    if both.ndim != 2 or not np.isfinite(both).all() or (both[1] < 0).any():
        raise ValueError("mean and deviation must be finite numbers")
    return both[0], both[1]
