"""Groups of nodes for the map of the hidden layer, where there are no classes.

Numbers are divided into five groups of about the same size; nodes with several labels are grouped
by their set of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import IntArray
from linkdist.report.task_evaluation import number

GROUPS = 5
"""Number of groups of numbers."""


class Groups(NamedTuple):
    """Names of the groups, the group (n,) of each node, and whether the groups have an order."""

    names: tuple[str, ...]
    of_node: IntArray
    ordered: bool


def number_groups(values: npt.NDArray[np.float64]) -> Groups:
    """Divide numbers (n,) by their quantiles.

    Examples
    --------
    >>> groups = number_groups(np.arange(10.0))
    >>> groups.names[0], groups.names[1], groups.of_node.tolist()
    ('below 1.8', '1.8 to 3.6', [0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    """
    values = np.where(np.isfinite(values), values, 0.0)
    ends = np.unique(np.quantile(values, np.arange(1, GROUPS) / GROUPS))
    ends = ends[ends > values.min()]
    names = ["all"]
    if len(ends):
        texts = [number(end) for end in ends.tolist()]
        between = [f"{low} to {high}" for low, high in pairwise(texts)]
        names = [f"below {texts[0]}", *between, f"from {texts[-1]}"]
    return Groups(tuple(names), np.searchsorted(ends, values, side="right"), True)


def label_groups(present: npt.NDArray[np.bool_], labels: Sequence[str]) -> Groups:
    """Group nodes by their labels (n, C), the most frequent set first.

    Examples
    --------
    >>> label_groups(np.array([[True, False], [True, True], [True, False]]), ["even", "loop"])[:2]
    (('even', 'even, loop'), array([0, 1, 0]))
    """
    sets, place, counts = np.unique(present, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    names = [
        ", ".join(name for name, there in zip(labels, row, strict=True) if there) or "no label"
        for row in sets[order].tolist()
    ]
    return Groups(tuple(names), rank[place.reshape(-1)], False)
