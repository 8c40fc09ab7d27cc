"""Read what scikit-learn users pass: labels with gaps, names of rows, masks and links."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from linkdist.data.graph import UNKNOWN, FloatArray, IntArray
from linkdist.data.links import as_links, with_own_loops
from linkdist.errors import OptionError


def row_names(X: Any, nodes: Sequence[Hashable] | None) -> Sequence[Hashable] | None:  # noqa: ANN401
    """The names of the rows: as given, or the index of a pandas table unless it is 0, 1, 2, ..."""
    if nodes is not None or not (hasattr(X, "index") and hasattr(X, "columns")):
        return nodes
    index = X.index.tolist()
    return None if index == list(range(len(index))) else index


def mask_of(data: Any, name: str) -> npt.NDArray[np.bool_] | None:  # noqa: ANN401
    """A mask of nodes in a PyTorch Geometric object, if it has one."""
    mask = getattr(data, name, None)
    if mask is None:
        return None
    array = np.asarray(mask, dtype=bool)
    if array.ndim != 1:
        raise OptionError(f"{name} must be one mask; found shape {array.shape}. Choose a column.")
    return array


def links_of(edges: Any, n: int, nodes: Sequence[Hashable] | None) -> IntArray:  # noqa: ANN401
    """Sorted links between n nodes, with a self-loop for every node without one."""
    none = np.empty((0, 2), dtype=np.int64)
    links = none if edges is None else as_links(edges, n, nodes)
    if links.size and (links.min() < 0 or links.max() >= n):
        return links  # Graph.build raises the error
    return with_own_loops(links, n)


def known_labels(y: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:  # noqa: ANN401
    """Labels as an array of one type, and a mask of the known ones."""
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


def _missing(value: Any) -> bool:  # noqa: ANN401
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, numbers.Real) and (math.isnan(value) or float(value) == UNKNOWN)


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
