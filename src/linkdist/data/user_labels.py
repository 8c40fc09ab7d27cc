"""Labels as scikit-learn users pass them: classes, numbers, or 0 and 1 for each of several classes.

A class is unknown where it is -1, None or NaN; a number where it is None or NaN; several classes
where a whole row is -1, None or NaN.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.errors import GraphError

Mask = npt.NDArray[np.bool_]


def has_several_columns(y: Any) -> bool:  # noqa: ANN401
    """Whether labels are a table with a column for each of several classes.

    Examples
    --------
    >>> has_several_columns([[0, 1], [1, 1]]), has_several_columns([[0], [1]])
    (True, False)
    """
    shape: tuple[int, ...] = y.shape if hasattr(y, "shape") else np.shape(np.asarray(y))
    return len(shape) == 2 and shape[1] != 1


def task_of(y: Any) -> str:  # noqa: ANN401
    """The task of labels: what scikit-learn calls continuous is a regression.

    Examples
    --------
    >>> task_of([0, 1, -1]), task_of([0.5, np.nan]), task_of([[0, 1], [1, 1]])
    ('classification', 'regression', 'multilabel')
    """
    if has_several_columns(y):
        return "multilabel"
    values, known = known_labels(y)
    continuous = known.any() and type_of_target(values[known]).startswith("continuous")
    return "regression" if continuous else "classification"


def known_labels(y: Any) -> tuple[npt.NDArray[Any], Mask]:  # noqa: ANN401
    """Classes as an array of one type, and a mask of the known ones."""
    values = column_or_1d(y, warn=True)
    if values.dtype.kind != "O":
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        return values, ~missing & (values != UNKNOWN if values.dtype.kind in "iuf" else True)
    known = np.array([not _missing(value) for value in values], dtype=bool)
    if not known.any():
        return values, known
    present = np.array(values[known].tolist())
    whole = np.full(len(values), present[0], dtype=present.dtype)
    whole[known] = present
    return whole, known


def class_numbers(y: Any, classes: npt.NDArray[Any], n: int) -> IntArray:  # noqa: ANN401
    """The position of each label in the sorted classes; UNKNOWN for missing labels.

    Examples
    --------
    >>> class_numbers(["b", None, "a"], np.array(["a", "b"]), 3)
    array([ 1, -1,  0])
    """
    values, known = known_labels(y)
    check_length(values, n)
    new = np.setdiff1d(values[known], classes)
    if len(new):
        named = ", ".join(map(repr, new.tolist()[:5]))
        raise GraphError(
            f"y contains classes that the model does not know: {named}. Name all classes in "
            "the first call of partial_fit, or call fit again."
        )
    labels = np.full(n, UNKNOWN)
    labels[known] = np.searchsorted(classes, values[known])
    return labels


def numbers_of(y: Any, n: int) -> npt.NDArray[np.float64]:  # noqa: ANN401
    """Numbers (n,) of a regression, NaN where they are unknown.

    Examples
    --------
    >>> numbers_of([1, None, -1], 3)
    array([ 1., nan, -1.])
    >>> numbers_of([1.5, "high", "low"], 3)
    Traceback (most recent call last):
    linkdist.errors.GraphError: y must contain numbers for a regression; row 1 has 'high', 2 in \
total. Use None or NaN where a number is unknown.
    """
    given = y if hasattr(y, "dtype") or hasattr(y, "iloc") else np.asarray(y, dtype=object)
    values: npt.NDArray[Any] = column_or_1d(given, warn=True)
    check_length(values, n)
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    found = [math.nan if is_absent(value) else _number(value) for value in values.tolist()]
    wrong = [row for row, value in enumerate(found) if value is None]
    if wrong:
        raise GraphError(
            f"y must contain numbers for a regression; row {wrong[0]} has "
            f"{values.tolist()[wrong[0]]!r}, {len(wrong)} in total. Use None or NaN where a number "
            "is unknown."
        )
    return np.array(found, dtype=np.float64)


def sets_of(y: Any, n: int) -> IntArray:  # noqa: ANN401
    """0 and 1 for each class (n, C), -1 in the rows of unknown labels.

    Examples
    --------
    >>> sets_of([[True, False], [None, None]], 2).tolist()
    [[1, 0], [-1, -1]]
    """
    table = y.toarray() if sparse.issparse(y) else np.asarray(y)
    check_length(table, n)
    if table.dtype.kind == "O":
        cells = [
            UNKNOWN if is_absent(value) else _number(value) for value in table.ravel().tolist()
        ]
        table = np.array(cells, dtype=np.float64).reshape(table.shape)
    if table.dtype.kind == "f":
        table = np.where(np.isnan(table), UNKNOWN, table)
    valid = np.isin(table, (UNKNOWN, 0, 1)).all() if table.dtype.kind in "iufb" else False
    if not valid:
        raise GraphError(
            "y with a column for each class must contain 0 and 1, or -1 in rows whose labels are "
            f"unknown; found {table.dtype} with other values."
        )
    return table.astype(np.int64)


def hidden_labels(y: npt.NDArray[Any], known: Mask, task: str) -> npt.NDArray[Any]:
    """Labels that are unknown where a mask (n,) is False.

    Examples
    --------
    >>> hidden_labels(np.array([3, 4]), np.array([True, False]), "classification")
    array([ 3, -1])
    """
    if task == "regression":
        return np.where(known, numbers_of(y, len(known)), np.nan)
    rows = known if y.ndim == 1 else known[:, None]
    if y.dtype.kind in "iub":
        return np.where(rows, y.astype(np.int64), UNKNOWN)
    return np.where(rows, y.astype(object), np.array(None))


def check_length(y: npt.NDArray[Any], n: int) -> None:
    """Raise a GraphError if there is not one label for each node."""
    if len(y) != n:
        raise GraphError(f"y must have one entry for each node, {n}; found {len(y)}.")


def _number(value: Any) -> float | None:  # noqa: ANN401
    """A number; None for text, also if it reads like a number."""
    real = isinstance(value, numbers.Real) or type(value).__name__ == "Decimal"
    return float(value) if real else None


def is_absent(value: Any) -> bool:  # noqa: ANN401
    """Whether a value is None, NaN or the missing value of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Real) and math.isnan(value)


def _missing(value: Any) -> bool:  # noqa: ANN401
    return is_absent(value) or (isinstance(value, numbers.Real) and float(value) == UNKNOWN)
