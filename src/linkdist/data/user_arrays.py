"""Read what scikit-learn users pass: names of rows, graphs, masks and weights."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

from linkdist.data.graph import UNKNOWN, FloatArray, IntArray
from linkdist.data.user_labels import is_absent
from linkdist.errors import GraphError, OptionError


def row_names(X: Any, nodes: Sequence[Hashable] | None) -> Sequence[Hashable] | None:  # noqa: ANN401
    """The names of the rows: as given, or the index of a pandas table unless it is 0, 1, 2, ..."""
    if nodes is not None or not (hasattr(X, "index") and hasattr(X, "columns")):
        return nodes
    index = X.index.tolist()
    return None if index == list(range(len(index))) else index


def group_numbers(groups: Any, n: int) -> IntArray | None:  # noqa: ANN401
    """The number of the graph that each of n rows belongs to, from the names of the graphs.

    Examples
    --------
    >>> group_numbers(["fr", "de", "fr"], 3)
    array([1, 0, 1])
    >>> group_numbers(["fr", None], 3)
    Traceback (most recent call last):
    linkdist.errors.GraphError: groups must name the graph of each row, shape (3,); found (2,). \
groups must not be missing; row 1 has none, 1 in total.
    """
    if groups is None:
        return None
    names = np.asarray(groups, dtype=object)
    problems = []
    if names.shape != (n,):
        rule = f"groups must name the graph of each row, shape ({n},)"
        problems.append(f"{rule}; found {names.shape}.")
    missing = [row for row, name in enumerate(names.ravel().tolist()) if is_absent(name)]
    if missing:
        found = f"row {missing[0]} has none, {len(missing)} in total"
        problems.append(f"groups must not be missing; {found}.")
    if problems:
        raise GraphError(" ".join(problems))
    numbers: IntArray = np.unique(names.astype(str), return_inverse=True)[1].astype(np.int64)
    return numbers


def results_of(*calls: Callable[[], Any]) -> list[Any]:
    """The results of all calls, or one GraphError with the messages of all that fail.

    Examples
    --------
    >>> results_of(lambda: 1, lambda: group_numbers(["a"], 2), lambda: group_numbers([None], 1))
    Traceback (most recent call last):
    linkdist.errors.GraphError: groups must name the graph of each row, shape (2,); found (1,). \
groups must not be missing; row 0 has none, 1 in total.
    """
    results, problems = [], []
    for call in calls:
        try:
            results.append(call())
        except GraphError as error:
            problems.append(str(error))
    if problems:
        raise GraphError(" ".join(problems))
    return results


def row_numbers(validation: npt.ArrayLike, n: int) -> IntArray:
    """Row numbers from row numbers or a mask of n rows."""
    rows = np.asarray(validation)
    if rows.dtype == bool:
        if rows.shape != (n,):
            raise OptionError(f"a validation mask must have shape ({n},); found {rows.shape}.")
        return np.flatnonzero(rows)
    if rows.size == 0:
        return np.array([], dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n:
        raise OptionError(f"validation must hold row numbers from 0 to {n - 1}, or be a mask.")
    return np.unique(rows)


def class_weights(
    given: str | Mapping[Any, float] | None, classes: npt.NDArray[Any], labels: IntArray
) -> npt.NDArray[np.float64] | None:
    """The weight of each class, as scikit-learn's `class_weight` describes them.

    Examples
    --------
    >>> class_weights("balanced", np.array(["a", "b"]), np.array([0, 0, 0, 1, -1]))
    array([0.66666667, 2.        ])
    """
    if given is None:
        return None
    try:
        known = classes[labels[labels != UNKNOWN]]
        weights = np.asarray(compute_class_weight(given, classes=classes, y=known))
    except ValueError as error:
        raise OptionError(f"class_weight is not valid: {error}") from error
    if not (weights > 0).all() or not np.isfinite(weights).all():
        raise OptionError(f"class_weight must contain positive numbers; found {weights}.")
    return weights


def label_weights(given: npt.ArrayLike | None, X: Any, method: str) -> FloatArray | None:  # noqa: ANN401
    """The weight of the label of each row of X, as scikit-learn's `sample_weight`."""
    if given is None:
        return None
    if method != "selflinkdist":
        raise OptionError(f"sample_weight is for selflinkdist; the method is {method}.")
    weights: FloatArray = _check_sample_weight(given, X, dtype=np.float32)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise OptionError("sample_weight must contain numbers from 0.")
    return weights
