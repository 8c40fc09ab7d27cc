"""Read arrays from pickles without running any code that the pickles name.

A pickle can name any function for Python to call. Here, only those names are allowed that a NumPy
array, a SciPy CSR matrix or a dictionary of lists needs, and most of them are replaced by a record
that stores its arguments. The arrays are created from these records afterwards, and contain plain
numbers only.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

AnyArray: TypeAlias = npt.NDArray[Any]


def unpickle(content: bytes) -> Any:  # noqa: ANN401
    """Read an array, a CSR matrix or a dictionary of lists from a pickle.

    Raises
    ------
    pickle.UnpicklingError
        If the pickle names anything else; a damaged pickle may raise any exception.

    Examples
    --------
    >>> unpickle(pickle.dumps(np.arange(3)))
    array([0, 1, 2])
    """
    thing = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    return thing.revive() if isinstance(thing, (_Array, _Csr)) else thing


def checked_csr(
    data: AnyArray, indices: AnyArray, indptr: AnyArray, shape: Sequence[int]
) -> sparse.csr_matrix:
    """Create a CSR matrix from untrusted arrays, without duplicates and stored zeros.

    Examples
    --------
    >>> checked_csr(np.ones(1), np.array([1]), np.array([0, 1]), (1, 2)).toarray()
    array([[0., 1.]])
    """
    rows, columns = (int(size) for size in shape)
    matrix = sparse.csr_matrix((data, indices, indptr), shape=(rows, columns), copy=True)
    matrix.check_format(full_check=True)  # otherwise SciPy may read beyond the arrays
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


class _Record:
    """Replaces an object that a pickle names; it stores its arguments and does nothing else."""

    parts: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *parts: object) -> None:
        self.parts = parts

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Dtype(_Record):
    def revive(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(f"{self.state[1]}{self.parts[0]}")
        if dtype.kind not in "biuf":
            raise ValueError(f"arrays must contain plain numbers; found {dtype}")
        return dtype


class _Array(_Record):
    def revive(self) -> AnyArray:
        _, shape, dtype, fortran, values = self.state
        # Python 2 wrote bytes as text, which latin1 decodes unchanged.
        raw = values.encode("latin1") if isinstance(values, str) else values
        return np.frombuffer(raw, dtype.revive()).reshape(shape, order="F" if fortran else "C")


class _Csr(_Record):
    def revive(self) -> sparse.csr_matrix:
        data, indices, indptr = (self.state[key].revive() for key in ("data", "indices", "indptr"))
        return checked_csr(data, indices, indptr, self.state["_shape"])


ADMITTED: dict[tuple[str, str], type] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it names {f'{module}.{name}'!r}, which is not allowed")
        return ADMITTED[module, name]
