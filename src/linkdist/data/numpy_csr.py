"""CSR matrices in NumPy, with the operations of `scipy.sparse` that predictions need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


class csr_matrix:  # noqa: N801
    """A matrix of float32 numbers that stores its non-zero entries, row by row.

    Parameters
    ----------
    content : matrix, array or tuple
        A CSR matrix, an (n, d) array, the shape of a matrix of zeros, or the arrays `data`,
        `indices` and `indptr`.
    shape : (int, int), optional
        n and d, if `content` is three arrays.
    dtype : data type, optional
        Ignored: entries are float32.

    Attributes
    ----------
    data : (nnz,) float32 array
        The entries.
    indices : (nnz,) int array
        Their columns.
    indptr : (n + 1,) int array
        Where each row starts, and the end of the last one.
    shape : (int, int)
        n and d.

    Examples
    --------
    >>> matrix = csr_matrix(([1.0, 2.0], [2, 0], [0, 1, 2]), shape=(2, 3))
    >>> matrix.toarray().tolist()
    [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
    >>> (matrix @ np.eye(3, dtype=np.float32))[1].tolist()
    [2.0, 0.0, 0.0]
    """

    ndim, format = 2, "csr"
    data: npt.NDArray[np.float32]
    indices: npt.NDArray[np.int64]
    indptr: npt.NDArray[np.int64]
    shape: tuple[int, int]

    def __init__(
        self,
        content: Any,  # noqa: ANN401
        shape: tuple[int, int] | None = None,
        dtype: object = None,
    ) -> None:
        arrays: tuple[Array, Array, Array]
        if isinstance(content, csr_matrix):
            arrays, shape = (content.data, content.indices, content.indptr), content.shape
        elif isinstance(content, tuple) and len(content) == 3:
            arrays = content
        elif isinstance(content, tuple):
            empty = np.empty(0)
            arrays, shape = (empty, empty, np.zeros(content[0] + 1)), content
        else:
            arrays, shape = _of_dense(np.asarray(content))
        assert shape is not None
        data, indices, indptr = arrays
        self.data = np.asarray(data, dtype=np.float32)
        self.indices, self.indptr = (np.asarray(part, dtype=np.int64) for part in (indices, indptr))
        self.shape = (int(shape[0]), int(shape[1]))

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    def sum_duplicates(self) -> None:
        """Add up entries at the same place, and sort the entries of each row by column."""
        n, d = self.shape
        keys, places = np.unique(self.rows * d + self.indices, return_inverse=True)
        self.data = np.bincount(places, self.data, len(keys)).astype(np.float32)
        rows, self.indices = np.divmod(keys, max(d, 1))
        self.indptr = _starts(np.bincount(rows, minlength=n))

    def sort_indices(self) -> None:
        """Sort the entries of each row by column."""
        order = np.lexsort((self.indices, self.rows))
        self.data, self.indices = self.data[order], self.indices[order]

    def toarray(self) -> npt.NDArray[np.float32]:
        """The matrix as an array, (n, d)."""
        array = np.zeros(self.shape, dtype=np.float32)
        np.add.at(array, (self.rows, self.indices), self.data)  # adds up duplicates
        return array

    def __getitem__(self, rows: slice) -> csr_matrix:
        """Consecutive rows."""
        start, stop, _ = rows.indices(self.shape[0])
        stop = max(start, stop)
        first, last = self.indptr[[start, stop]]
        parts = (self.data[first:last], self.indices[first:last])
        own = self.indptr[start : stop + 1] - first
        return csr_matrix((*parts, own), (stop - start, self.shape[1]))

    def __matmul__(self, dense: Array) -> npt.NDArray[np.float32]:
        """The product with an array (d, k), (n, k)."""
        n, rows = self.shape[0], self.rows
        columns = [
            np.bincount(rows, self.data * column[self.indices], minlength=n)
            for column in np.ascontiguousarray(dense.T)
        ]
        return np.array(columns, dtype=np.float32).reshape(len(columns), n).T


def issparse(matrix: object) -> bool:
    """Whether an object is a CSR matrix.

    Examples
    --------
    >>> issparse(csr_matrix(np.eye(2))), issparse(np.eye(2))
    (True, False)
    """
    return isinstance(matrix, csr_matrix)


def vstack(parts: Sequence[Any], format: str = "csr", dtype: object = None) -> csr_matrix:
    """Concatenate matrices with the same columns.

    Examples
    --------
    >>> vstack([csr_matrix(np.eye(2)), csr_matrix([[0, 3]])]).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]]
    """
    blocks = [csr_matrix(part) for part in parts]
    counts = np.concatenate([np.diff(block.indptr) for block in blocks])
    data = np.concatenate([block.data for block in blocks])
    indices = np.concatenate([block.indices for block in blocks])
    return csr_matrix((data, indices, _starts(counts)), (len(counts), blocks[0].shape[1]))


def hstack(parts: Sequence[Any], format: str = "csr", dtype: object = None) -> csr_matrix:
    """Concatenate matrices with the same rows.

    Examples
    --------
    >>> hstack([csr_matrix(np.eye(2)), csr_matrix([[0], [3]])]).toarray().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 3.0]]
    """
    blocks = [csr_matrix(part) for part in parts]
    n = blocks[0].shape[0]
    shifts = _starts(np.array([block.shape[1] for block in blocks]))
    rows = np.concatenate([block.rows for block in blocks])
    order = np.argsort(rows, kind="stable")
    data = np.concatenate([block.data for block in blocks])[order]
    pairs = zip(blocks, shifts[:-1], strict=True)
    indices = np.concatenate([block.indices + shift for block, shift in pairs])[order]
    starts = _starts(np.bincount(rows, minlength=n))
    return csr_matrix((data, indices, starts), (n, int(shifts[-1])))


def _of_dense(array: Array) -> tuple[tuple[Array, Array, Array], tuple[int, int]]:
    rows, columns = np.nonzero(array)
    starts = _starts(np.bincount(rows, minlength=len(array)))
    return (array[rows, columns], columns, starts), (array.shape[0], array.shape[1])


def _starts(counts: Array) -> npt.NDArray[np.int64]:
    """Where groups of so many entries start, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
