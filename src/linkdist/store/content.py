"""What the arrays of a store may contain; a digest shows only that a file was not changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import UNKNOWN

PIECE = 1 << 20
"""Numbers that are checked at once."""


def count_infinite(array: npt.NDArray[Any]) -> int:
    """How many numbers are NaN or infinite; in pieces, because a part may fill the memory.

    Examples
    --------
    >>> count_infinite(np.array([1, np.nan, np.inf])), count_infinite(np.array([1, 2]))
    (2, 0)
    """
    flat = array.reshape(-1)
    if flat.dtype.kind != "f":
        return 0
    pieces = (flat[i : i + PIECE] for i in range(0, len(flat), PIECE))
    return sum(int((~np.isfinite(piece)).sum()) for piece in pieces)


def label_problem(y: npt.NDArray[Any], task: str) -> str | None:
    """What is wrong with labels of several classes, (n_p, C), or with numbers, (n_p,).

    Examples
    --------
    >>> label_problem(np.array([[0, 1], [-1, 1]]), "multilabel")
    'must contain rows of 0 and 1, or of -1; 1 are others'
    """
    if task == "regression":
        bad, rule = int(np.isinf(y).sum()), "finite numbers, or NaN"
    else:
        unknown = (y == UNKNOWN).sum(axis=1)
        wrong = ((y < UNKNOWN) | (y > 1)).any(axis=1)
        bad = int((wrong | ((unknown > 0) & (unknown < y.shape[1]))).sum())
        rule = f"rows of 0 and 1, or of {UNKNOWN}"
    return f"must contain {rule}; {bad} are others" if bad else None


def class_problem(y: npt.NDArray[Any], least: int, C: int) -> str | None:
    """What is wrong with classes from `least` to C - 1.

    Examples
    --------
    >>> class_problem(np.array([0, 3, -1]), least=-1, C=3)
    'must contain -1..2; 1 are outside'
    """
    bad = int(((y < least) | (y >= C)).sum())
    return f"must contain {least}..{C - 1}; {bad} are outside" if bad else None


def head_problem(heads: npt.NDArray[np.uint8], K: int) -> str | None:
    """What is wrong with the heads of links, if there are K heads.

    Examples
    --------
    >>> head_problem(np.array([0, 2], np.uint8), K=2)
    'must contain heads 0..1; 1 are outside'
    """
    if int(heads.max(initial=0)) < K:
        return None
    return f"must contain heads 0..{K - 1}; {int((heads >= K).sum())} are outside"


def weight_problem(weights: npt.NDArray[np.float32]) -> str | None:
    """What is wrong with the weights of links.

    Examples
    --------
    >>> weight_problem(np.array([1, 0, np.nan], np.float32))
    'must contain positive and finite numbers; 2 are not'
    """
    bad = int((~((weights > 0) & (weights < np.inf))).sum())
    return f"must contain positive and finite numbers; {bad} are not" if bad else None


def row_problem(rows: npt.NDArray[np.uint32], part: int, n: int) -> str | None:
    """What is wrong with the ends of links in a part of n nodes.

    Examples
    --------
    >>> row_problem(np.array([0, 7], np.uint32), part=3, n=5)
    'must contain rows 0..4 of part 3; 1 are outside'
    """
    if int(rows.max(initial=0)) < max(n, 1):
        return None
    return f"must contain rows 0..{n - 1} of part {part}; {int((rows >= n).sum())} are outside"
