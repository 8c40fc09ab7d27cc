"""Paired comparisons of SelfLinkDist with each rival, seed by seed.

Wilcoxon's signed-rank test by all assignments of signs, which is exact with ties as well; Holm's
correction over the rivals of a cell, which is a graph with a number of labels.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from rivals.names import CLASSES, FOR_CLASSES, LINKED, OURS, class_of

LEVEL = 0.05


def signed_rank(differences):
    """The two-sided p-value of Wilcoxon's signed-rank test; zeros are left out."""
    differences = np.round(np.asarray(differences, dtype=float), 6)
    differences = differences[differences != 0]
    n = len(differences)
    if n == 0:
        return 1.0
    ranks = rankdata(np.abs(differences))
    signs = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    centre = ranks.sum() / 2
    found = abs(ranks[differences > 0].sum() - centre)
    return float((np.abs(signs @ ranks - centre) >= found - 1e-9).mean())


def holm(p_values):
    """Holm's adjusted p-values, in the order given."""
    p_values = np.asarray(p_values, dtype=float)
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1)
    return adjusted


@dataclass(frozen=True)
class Row:
    """A method in a cell.

    Attributes
    ----------
    name, labels, method : str
        The graph, the number of labels and the method.
    mean, deviation : float
        Of the scores.
    difference : float
        The mean of ours minus that of the method; 0 for ours.
    p : float
        Holm's adjusted p-value; 1 for ours.
    """

    name: str
    labels: str
    method: str
    mean: float
    deviation: float
    difference: float = 0.0
    p: float = 1.0

    @property
    def verdict(self):
        """Whether SelfLinkDist is 'better', 'level' or 'worse'."""
        if self.p > LEVEL:
            return "level"
        return "better" if self.difference > 0 else "worse"


def reference(method):
    """Which of our two modes a method is compared with."""
    return LINKED if class_of(method) == 4 else OURS


def compared(records):
    """The rows of all cells, by graph, number of labels and method.

    A rival without ours beside it, or with fewer seeds than ours, has no row.
    """
    cells = defaultdict(dict)
    for record in records:
        cells[record["set"], record["labels"]][record["method"]] = record["by_seed"]
    rows = {}
    for (name, labels), found in cells.items():
        rivals = [
            m
            for m in found
            if m not in (OURS, LINKED)
            and reference(m) in found
            and found[reference(m)].keys() <= found[m].keys()
        ]
        apart = {method: _differences(found[reference(method)], found[method]) for method in rivals}
        adjusted = dict(zip(rivals, holm([signed_rank(apart[m]) for m in rivals]), strict=True))
        for method in [m for m in found if m in (OURS, LINKED) or m in apart]:
            by_seed = found[method]
            scores = np.array(list(by_seed.values()))
            spread = float(scores.std(ddof=1)) if len(scores) > 1 else 0.0
            by = float(apart[method].mean()) if method in apart else 0.0
            row = Row(name, labels, method, float(scores.mean()), spread, by,
                      float(adjusted.get(method, 1.0)))  # fmt: skip
            rows[name, labels, method] = row
    return rows


def _differences(ours, theirs):
    """Ours minus theirs, for the seeds that both have."""
    return np.array([ours[seed] - score for seed, score in theirs.items() if seed in ours])


def best_rival(rows, name, labels, number):
    """The row of the best rival of a class of information in a cell, or None.

    None if a rival is missing, which could be the best.
    """
    rivals = [method for method in CLASSES[number] if method not in (OURS, LINKED)]
    missing = [m for m in rivals if (name, labels, m) not in rows]
    if set(missing) - set(FOR_CLASSES if name == "counties" else ()):
        return None
    found = [rows[name, labels, m] for m in rivals if m not in missing]
    return max(found, key=lambda row: row.mean, default=None)
