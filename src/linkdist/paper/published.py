"""The numbers that the paper published, and what it means to meet one.

The paper has three tables of test accuracies in percent, one a setting, each with seven methods on
eight data sets. Methods fall into two groups by what prediction reads: the node's own features
only, or messages along its links too. The best of each group is bold, data set by data set.

A mean of ours meets a published one when it is no further below it than the published standard
deviation or one point, whichever is larger. To be above is never a fault.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple, TypeAlias, cast

GROUPS: dict[str, tuple[str, ...]] = {
    "features only": ("MLP", "GCN2MLP", "LinkDistMLP", "CoLinkDistMLP"),
    "message passing": ("GCN", "LinkDist", "CoLinkDist"),
}
"""The methods, by what prediction reads."""

METHODS: tuple[str, ...] = tuple(method for group in GROUPS.values() for method in group)
"""The methods in the paper's order."""

TRAININGS: dict[str, tuple[str, ...]] = {
    "MLP": ("MLP",),
    "GCN": ("GCN", "GCN2MLP"),
    "LinkDist": ("LinkDistMLP", "LinkDist"),
    "CoLinkDist": ("CoLinkDistMLP", "CoLinkDist"),
}
"""Which of the paper's methods come from one training."""

Verdict: TypeAlias = Literal["above", "within", "below"]


class Published(NamedTuple):
    """A published mean and standard deviation, in percent.

    Examples
    --------
    >>> cell = Published(mean=81.19, std=0.61)
    >>> cell.deviation(80.4), cell.verdict(80.4)
    (-0.79, 'within')
    >>> cell.verdict(80.0)
    'below'
    """

    mean: float
    std: float

    @property
    def tolerance(self) -> float:
        """How far a mean may lie from the published one."""
        return max(self.std, 1.0)

    def deviation(self, mean: float) -> float:
        """Return ours less theirs, to the two decimals that the paper prints."""
        # What is judged is what is printed: a reader can check every verdict by eye.
        return round(mean - self.mean, 2) + 0.0  # + 0.0: no minus sign on a zero

    def verdict(self, mean: float) -> Verdict:
        """Say whether a mean of ours is within the tolerance, above or below it."""
        deviation = self.deviation(mean)
        if abs(deviation) <= self.tolerance:
            return "within"
        return "above" if deviation > 0 else "below"


def published(dataset: str, setting: str, method: str) -> Published | None:
    """Look up a cell of the paper's tables.

    Parameters
    ----------
    dataset, setting, method : str
        The cell's column, table and row.

    Returns
    -------
    Published or None
        None where the paper has no such cell: `digits` is not in it.

    Examples
    --------
    >>> published("cora", "transductive", "CoLinkDistMLP")
    Published(mean=81.19, std=0.61)
    >>> published("digits", "transductive", "CoLinkDistMLP") is None
    True
    """
    cell = _tables().get(setting, {}).get(method, {}).get(dataset)
    return None if cell is None else Published(**cell)


def group_of(method: str) -> tuple[str, ...]:
    """Return the methods of a method's group, itself among them.

    Examples
    --------
    >>> group_of("LinkDist")
    ('GCN', 'LinkDist', 'CoLinkDist')
    """
    return next(group for group in GROUPS.values() if method in group)


def is_published_best(dataset: str, setting: str, method: str) -> bool:
    """Tell whether the paper prints a cell bold.

    Examples
    --------
    >>> is_published_best("pubmed", "inductive", "GCN2MLP")
    True
    >>> is_published_best("pubmed", "inductive", "CoLinkDistMLP")
    False
    """
    rivals = [published(dataset, setting, rival) for rival in group_of(method)]
    best = max((rival.mean for rival in rivals if rival), default=None)
    cell = published(dataset, setting, method)
    return cell is not None and cell.mean == best


@cache
def _tables() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("published.json").read_text("utf-8")
    return cast("dict[str, Any]", json.loads(text)["tables"])
