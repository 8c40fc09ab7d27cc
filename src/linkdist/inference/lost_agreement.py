"""Which columns no longer agree with those that they agreed with in the training.

If one column has lost its agreement with several others, each of them has lost some of its own. The
column that has lost most is therefore named first, and the others are then judged without it. A
column that has drifted in itself is not compared with others at all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkdist.inference.chance import above
from linkdist.inference.drift_report import Change
from linkdist.tables.agreement import mean_and_error
from linkdist.tables.column_summary import Counts

LOST = 0.5
"""The share of its agreement with other columns that a column must lose for an alarm."""


class Agreement(NamedTuple):
    """The agreement of a column with its partners.

    Attributes
    ----------
    change : Change
        The mean over the partners; `psi` is the share that is lost.
    loss : float
        The sum of the losses, in standard errors.
    partners : list of int
        The columns that it is compared with.
    """

    change: Change
    loss: float
    partners: list[int]


def lost_agreement(
    counts: Counts, drifted: Collection[int], chance: float
) -> dict[int, dict[str, Any]]:
    """The agreement of each column, and alarms where it is lost.

    Parameters
    ----------
    counts : Counts
        Counts of the rows of a table.
    drifted : collection of int
        Columns with an alarm.
    chance : float
        The largest probability of a loss by chance for which there is an alarm.

    Returns
    -------
    dict of int to dict
        Fields of `linkdist.inference.drift_report.Drift` for columns with related ones.
    """
    left_out, found = set(drifted), dict[int, dict[str, Any]]()
    names = [one.name for one in counts.summary.columns]
    while True:
        agreements = _agreements(counts, left_out)
        for k, one in agreements.items():
            found[k] = {"agreement": one.change}
        lost = {
            k: one
            for k, one in agreements.items()
            if one.change.psi > LOST and one.change.chance < chance
        }
        if not lost:
            return found
        worst = max(one.loss for one in lost.values())
        for k, one in lost.items():
            if np.isclose(one.loss, worst):  # of two columns, either may be the one that changed
                partners = " and ".join(repr(names[other]) for other in one.partners)
                values = f"{one.change.before:.2f} before and {one.change.now:.2f} now"
                found[k]["alarms"] = (f"agreement with {partners} {values}",)
                left_out.add(k)


def _agreements(counts: Counts, left_out: Collection[int]) -> dict[int, Agreement]:
    """The agreement of each column with partners that are not left out."""
    by_column = dict[int, list[tuple[int, float, float, float]]]()
    for (pair, reference), sums in zip(counts.summary.pairs, counts.pairs, strict=True):
        (before, error), (now, own) = mean_and_error(reference), mean_and_error(sums)
        if pair.first in left_out or pair.second in left_out or sums[0] < 2:
            continue
        # A small table may lack the few rows that agree most, and its error is then too small.
        own = max(own, error * float(np.sqrt(reference[0] / sums[0])))
        for k, other in ((pair.first, pair.second), (pair.second, pair.first)):
            by_column.setdefault(k, []).append((other, before, now, float(np.hypot(error, own))))
    return {k: _mean_over_partners(parts) for k, parts in by_column.items()}


def _mean_over_partners(parts: Sequence[tuple[int, float, float, float]]) -> Agreement:
    others = [int(part[0]) for part in parts]
    before, now, error = np.array(parts)[:, 1:].T
    # The losses are not independent, so the error of their mean is the mean of their errors.
    z = (before.mean() - now.mean()) / error.mean()
    lost = 1 - now.mean() / before.mean()
    change = Change(float(before.mean()), float(now.mean()), float(lost), above(z))
    return Agreement(change, float(np.maximum((before - now) / error, 0).sum()), others)
