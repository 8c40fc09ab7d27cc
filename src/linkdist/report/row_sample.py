"""A random sample of rows that arrive in batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class RowSample:
    """Keeps all rows while they are few, and a uniform random sample of them later.

    Each row has a random key, and the rows with the smallest keys are kept. The sample does not
    depend on how the rows are divided into batches.

    Parameters
    ----------
    most : int
        The size of the sample.

    Examples
    --------
    >>> sample = RowSample(most=3)
    >>> for start in range(0, 100, 10):
    ...     sample.add(np.arange(start, start + 10))
    >>> [len(column) for column in sample.columns()]
    [3]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._random = np.random.default_rng(0)
        self._batches: list[list[npt.NDArray[Any]]] = []
        self._kept = 0

    def add(self, *columns: npt.NDArray[Any]) -> None:
        """Add rows, given by arrays of equal length."""
        self._batches.append([self._random.random(len(columns[0])), *columns])
        self._kept += len(columns[0])
        if self._kept > 2 * self._most:
            self._prune()

    def columns(self) -> list[npt.NDArray[Any]]:
        """The rows of the sample, in the order in which they arrived."""
        self._prune()
        return self._batches[0][1:]

    def _prune(self) -> None:
        parts = [np.concatenate(column) for column in zip(*self._batches, strict=True)]
        if len(parts[0]) > self._most:
            rows = np.sort(np.argpartition(parts[0], self._most)[: self._most])
            parts = [part[rows] for part in parts]
        self._batches, self._kept = [parts], len(parts[0])
