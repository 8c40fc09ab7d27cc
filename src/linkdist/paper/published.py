"""The published results, and the tolerance for their reproduction.

The paper has a table of test accuracies in percent for each of three settings, with seven methods
on eight data sets. Methods form two groups: prediction from the features of the node only, and
prediction with message passing along links. The best method of each group is bold.

A result reproduces a published mean if it is below it by at most the published standard deviation
or one point, whichever is larger.
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
"""The methods by what prediction uses."""

METHODS: tuple[str, ...] = tuple(method for group in GROUPS.values() for method in group)
"""The methods in the paper's order."""

TRAININGS: dict[str, tuple[str, ...]] = {
    "MLP": ("MLP",),
    "GCN": ("GCN", "GCN2MLP"),
    "LinkDist": ("LinkDistMLP", "LinkDist"),
    "CoLinkDist": ("CoLinkDistMLP", "CoLinkDist"),
}
"""The methods that come from the same training."""

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
        """The largest difference from the published mean that is within tolerance."""
        return max(self.std, 1.0)

    def deviation(self, mean: float) -> float:
        """Return the difference between our mean and the published one, rounded as printed."""
        # Readers can check every verdict, because it depends on printed digits only.
        return round(mean - self.mean, 2) + 0.0  # + 0.0: no minus sign on a zero

    def verdict(self, mean: float) -> Verdict:
        """Return whether our mean is within, above or below tolerance."""
        deviation = self.deviation(mean)
        if abs(deviation) <= self.tolerance:
            return "within"
        return "above" if deviation > 0 else "below"


def published(dataset: str, setting: str, method: str) -> Published | None:
    """Return a cell of the paper's tables.

    Parameters
    ----------
    dataset, setting, method : str
        Column, table and row of the cell.

    Returns
    -------
    Published or None
        None if the paper has no such cell; `digits`, for example, is not in the paper.

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
    """Return the methods of the group that a method belongs to.

    Examples
    --------
    >>> group_of("LinkDist")
    ('GCN', 'LinkDist', 'CoLinkDist')
    """
    return next(group for group in GROUPS.values() if method in group)


def is_published_best(dataset: str, setting: str, method: str) -> bool:
    """Return whether a cell is bold in the paper.

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
