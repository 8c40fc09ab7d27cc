"""Check sparse matrices whose arrays come from a file or from a caller.

Compiled loops read and write wherever the indices of a matrix point to, without a check of their
own. SciPy's full check is not enough: it skips matrices whose last index pointer is 0, and it
compares differences of pointers, which overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from linkdist.data import sparse

Array: TypeAlias = npt.NDArray[Any]


def checked_csr(
    data: Array, indices: Array, indptr: Array, shape: Sequence[int]
) -> sparse.csr_matrix:
    """Create a CSR matrix from the arrays of a file.

    Parameters
    ----------
    data, indices, indptr : (k,), (k,) and (rows + 1,) arrays
        The values, their columns, and where each row starts and ends.
    shape : pair of int
        Numbers of rows and columns.

    Raises
    ------
    ValueError
        Lists everything that is wrong with the arrays.

    Examples
    --------
    >>> checked_csr(np.ones(1), np.array([1]), np.array([0, 1]), (1, 2)).toarray()
    array([[0., 1.]])
    >>> checked_csr(np.ones(1), np.array([2]), np.array([0, 1]), (1, 2))
    Traceback (most recent call last):
    ValueError: indices must be in 0..1; found 2
    """
    sizes = [int(size) for size in shape]
    if len(sizes) != 2 or min(sizes) < 0:
        raise ValueError(f"a matrix must have two sizes of 0 or more; found {sizes}")
    problems = _problems(data, indices, indptr, *sizes)
    if not problems and len(indices) != indptr[-1]:
        problems.append(f"indptr must end with {len(indices)}; found {indptr[-1]}")
    if not problems and (bad := int((~np.isfinite(data)).sum())):
        problems.append(f"values must be finite; {bad} are NaN or infinite")
    if problems:
        raise ValueError("; ".join(problems))
    return sparse.csr_matrix((data, indices, indptr), shape=sizes)


def check_indices(matrix: Any) -> None:  # noqa: ANN401
    """Check the indices of a sparse matrix of any format of SciPy.

    A matrix of `scipy.sparse.load_npz` has the indices of its file, which SciPy does not check.

    Raises
    ------
    ValueError
        Lists everything that is wrong with the indices.

    Examples
    --------
    >>> from scipy.sparse import csc_matrix, csr_matrix
    >>> check_indices(csr_matrix(np.eye(2)))
    >>> matrix = csc_matrix(np.eye(2))
    >>> matrix.indptr[1] = 7
    >>> check_indices(matrix)
    Traceback (most recent call last):
    ValueError: indptr must not decrease
    """
    if matrix.format == "bsr":  # a CSR matrix of blocks
        height, width = matrix.blocksize
        sizes = [matrix.shape[0] // height, matrix.shape[1] // width]
    elif matrix.format in ("csr", "csc"):
        sizes = list(matrix.shape if matrix.format == "csr" else matrix.shape[::-1])
    else:  # SciPy checks the indices of a COO matrix; the other formats have lists or none
        return
    values = matrix.data[:, 0, 0] if matrix.format == "bsr" else matrix.data
    if problems := _problems(values, matrix.indices, matrix.indptr, *sizes):
        raise ValueError("; ".join(problems))


def _problems(data: Array, indices: Array, indptr: Array, rows: int, columns: int) -> list[str]:
    """What is wrong with arrays, except for entries after the last pointer and infinite values."""
    arrays = {"data": data, "indices": indices, "indptr": indptr}
    problems = [
        f"{name} must be a list of {'integers' if kinds == 'iu' else 'numbers'}; found "
        f"{array.dtype} of shape {array.shape}"
        for (name, array), kinds in zip(arrays.items(), ("biuf", "iu", "iu"), strict=True)
        if array.ndim != 1 or array.dtype.kind not in kinds
    ]
    if problems:
        return problems
    if len(data) != len(indices):
        problems.append(f"there are {len(data)} values and {len(indices)} indices")
    if len(indptr) != rows + 1:
        return [*problems, f"indptr must have {rows + 1} entries; found {len(indptr)}"]
    if indptr[0] != 0:
        problems.append(f"indptr must start with 0; found {indptr[0]}")
    if (indptr[1:] < indptr[:-1]).any():  # their difference might overflow
        problems.append("indptr must not decrease")
    if not 0 <= indptr[-1] <= len(indices):
        problems.append(f"indptr must end with {len(indices)}; found {indptr[-1]}")
    outside = [int(value) for value in _ends(indices) if not 0 <= value < columns]
    if outside:
        problems.append(f"indices must be in 0..{columns - 1}; found {outside[0]}")
    return problems


def _ends(values: Array) -> list[Any]:
    return [values.min(), values.max()] if len(values) else []
