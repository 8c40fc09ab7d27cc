"""Counts of pairs of classes: confusion matrices, and classes that links join."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist.data.graph import IntArray

DENSE = 1000
"""Largest number of classes whose counts are an array; those of 10,000 would take 800 MB."""

PairCounts: TypeAlias = "IntArray | sparse.csr_matrix"
"""(C, C) counts: an array, or a CSR matrix if there are more than `DENSE` classes."""


def count_pairs(rows: IntArray, columns: IntArray, C: int) -> PairCounts:
    """How often each pair of classes occurs.

    Examples
    --------
    >>> count_pairs(np.array([0, 1, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 0], [0, 2]]
    """
    if C <= DENSE:
        return np.bincount(rows * C + columns, minlength=C * C).reshape(C, C)
    ones = np.ones(len(rows), dtype=np.int64)
    return sparse.csr_matrix((ones, (rows, columns)), shape=(C, C))  # adds up duplicates


def pair_sums(counts: PairCounts, axis: int) -> IntArray:
    """The sums (C,) of the columns (axis 0) or rows (axis 1).

    Examples
    --------
    >>> pair_sums(np.array([[1, 2], [0, 4]]), axis=1).tolist()
    [3, 4]
    """
    return np.asarray(counts.sum(axis=axis)).ravel()


def cells(counts: PairCounts) -> tuple[IntArray, IntArray, IntArray]:
    """The row, column and count of each pair that occurs, row by row.

    Examples
    --------
    >>> [part.tolist() for part in cells(np.array([[1, 2], [0, 4]]))]
    [[0, 0, 1], [0, 1, 1], [1, 2, 4]]
    """
    found = sparse.csr_matrix(counts)
    found.sum_duplicates()
    found.eliminate_zeros()
    listed = found.tocoo()
    parts: list[npt.NDArray[np.int64]] = [
        part.astype(np.int64) for part in (listed.row, listed.col, listed.data)
    ]
    return parts[0], parts[1], parts[2]
