"""Compare a table with the summary of a model's training, and raise an alarm.

The population stability index (PSI) of two distributions over the same bins is Σ (q - p) ln(q / p).
A small table has a large PSI by chance, about (bins - 1) (1/n + 1/m) for n and m rows. A column
therefore has an alarm only if its PSI is above a threshold *and* chi-square tests rule out
chance. The share of unseen values and the agreement of related columns are tested likewise, in one
direction: a table may have fewer unseen values than the training, and related columns may agree
more. Chance causes an alarm in about one of a thousand tables, however many columns there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from linkdist.data.graph import IntArray
from linkdist.errors import OptionError
from linkdist.inference.chance import above, chi_square
from linkdist.inference.drift_report import Change, Drift, DriftReport, Word
from linkdist.inference.lost_agreement import lost_agreement
from linkdist.tables.agreement import Array, mean_and_error
from linkdist.tables.bins import Bins
from linkdist.tables.column_summary import ColumnSummary, Counts

THRESHOLD = 0.2
"""The PSI above which a distribution is usually called changed."""

CHANCE = 0.001
"""The probability of an alarm if nothing has changed, for all columns together."""

FEW = 5
"""Bins with fewer expected rows are tested together."""


def psi(reference: IntArray, counts: IntArray) -> float:
    """The population stability index of counts (B,) against a reference.

    Half a row is added to each bin, so that an empty one has a finite share.

    Examples
    --------
    >>> round(psi(np.array([50, 50]), np.array([90, 10])), 2)
    0.85
    """
    p, q = ((part + 0.5) / (part.sum() + 0.5 * len(part)) for part in (np.array(reference), counts))
    return float(((q - p) * np.log(q / p)).sum())


def chance_of(reference: IntArray, counts: IntArray) -> float:
    """The probability that two samples of one distribution differ as much: chi-square tests.

    Examples
    --------
    >>> chance_of(np.array([50, 50]), np.array([50, 50]))
    1.0
    >>> chance_of(np.array([50, 50]), np.array([90, 10])) < 1e-8
    True
    """
    table = np.stack([reference, counts]).astype(np.float64)
    n, both = table.sum(axis=1), table.sum(axis=0)
    if not n.all():
        return 1.0
    is_rare = both * n.min() / n.sum() < FEW
    table = np.concatenate([table[:, ~is_rare], table[:, is_rare].sum(axis=1)[:, None]], axis=1)
    table = table[:, table.sum(axis=0) > 0]
    expected = np.outer(n, table.sum(axis=0)) / n.sum()
    # A single row in a bin that was empty is extreme for the sum of squares, an empty bin for the
    # likelihood ratio; a real change is extreme for both.
    squares = (np.square(table - expected) / expected).sum()
    ratio = 2 * (table * np.log(np.maximum(table, 1) / expected)).sum()
    return chi_square(table.shape[1] - 1, float(min(squares, ratio)))


def compare(counts: Counts, threshold: float = THRESHOLD) -> DriftReport:
    """Compare counts of rows with the summary of the training.

    Parameters
    ----------
    counts : Counts
        Counts of the rows of a table.
    threshold : float
        The PSI above which there may be an alarm.

    Raises
    ------
    OptionError
        If the threshold is not a number above 0.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from linkdist.tables.column_summary import summarise_columns
    >>> from linkdist.tables.feature_encoder import make_feature_encoder
    >>> encoders, rows = make_feature_encoder({"age": "numeric"}), {"age": pa.array(range(500))}
    >>> counts = Counts(summarise_columns(encoders, pa.table(rows)), encoders.columns)
    >>> counts.add({"age": pa.array([None] * 50 + list(range(0, 500, 10)))})
    >>> print(compare(counts))
    1 alarm in 100 rows
    age: PSI 3.25, missing 0 % before and 50 % now
    """
    if not 0 < threshold < np.inf:
        raise OptionError(f"the threshold must be a number above 0; found {threshold:g}.")
    summary, notes = counts.summary, list[str]()
    # Each column is tested for its bins, missing values, unseen values and agreement.
    tests = 4 * (len(summary.columns) + len(counts.predictions))
    rule = _Rule(threshold, CHANCE / tests)
    found = [rule.column(one, k, counts) for k, one in enumerate(summary.columns)]
    drifted = {k for k, one in enumerate(found) if one.alarms}
    lost = lost_agreement(counts, drifted, rule.chance)
    found = [replace(one, **lost.get(k, {})) for k, one in enumerate(found)]
    predictions = summary.predictions.get(counts.mode, ())
    for one, now in zip(predictions, counts.predictions, strict=True):
        found.append(rule.drift(one.name, "prediction", one.bins, one.references, now))
    found = [one for one in found if sum(one.now)]  # a table may have no labels
    if not predictions:
        notes.append("The model has no summary of its predictions, so they are not compared.")
    found.sort(key=lambda one: (not one.alarms, -one.psi))
    return DriftReport(counts.rows, counts.mode, threshold, found, tuple(notes))


@dataclass(frozen=True)
class _Rule:
    """When a change is an alarm."""

    threshold: float
    chance: float

    def is_alarm(self, change: Change) -> bool:
        """Whether a change is large, and not by chance."""
        return change.psi > self.threshold and change.chance < self.chance

    def column(self, one: ColumnSummary, k: int, counts: Counts) -> Drift:
        """Compare column k with the training."""
        unseen = None if one.unseen is None else _unseen(one.unseen, counts.unseen[k])
        word = _word(one, counts.columns[k], counts.words[k])
        return self.drift(
            one.name, one.kind, one.bins, [one.counts], counts.columns[k], unseen, word
        )

    def drift(
        self,
        name: str,
        kind: str,
        bins: Bins,
        references: Sequence[IntArray],
        counts: IntArray,
        unseen: Change | None = None,
        word: Word | None = None,
    ) -> Drift:
        """Compare bins with one of several references, the nearest."""
        reference = min(references, key=lambda one: psi(one, counts))
        whole = Change(0, 0, psi(reference, counts), chance_of(reference, counts))
        before, now = (part / max(part.sum(), 1) for part in (reference, counts))
        missing = _of_two(*(np.array([part[:-1].sum(), part[-1]]) for part in (reference, counts)))
        alarms = [f"PSI {whole.psi:.2f}"] * self.is_alarm(whole)
        for what, change in (("missing", missing), ("unseen", unseen)):
            if change is not None and self.is_alarm(change):
                alarms.append(f"{what} {_shares(change)}")
        largest = whole.psi
        if word is not None:
            largest = max(largest, word.change.psi)
            if self.is_alarm(word.change):
                what = "tag" if kind.startswith("tags") else "word"
                alarms.append(f"{what} {word.name!r} {_shares(word.change)}")
        return Drift(
            name, kind, largest, missing, unseen, None, word, tuple(alarms), bins.labels,
            before.round(6).tolist(), now.round(6).tolist(),
        )  # fmt: skip


def _word(one: ColumnSummary, bins: IntArray, counts: IntArray) -> Word | None:
    """The word whose share of the rows with a value has changed most."""
    if not one.words or not bins.sum():
        return None
    both = ((one.word_counts, one.counts[:-1].sum()), (counts, bins[:-1].sum()))
    p, q = ((k + 0.5) / (n + 1) for k, n in both)
    largest = ((q - p) * (np.log(q / p) - np.log((1 - q) / (1 - p)))).argmax()  # PSI of two bins
    change = _of_two(*(np.array([n - k[largest], k[largest]]) for k, n in both))
    # There are many words, so that one of them changes by chance.
    chance = min(1.0, change.chance * len(one.words))
    return Word(one.words[largest], replace(change, chance=chance))


def _shares(change: Change) -> str:
    return f"{_percent(change.before)} before and {_percent(change.now)} now"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else f"{100 * share:.2g} %"


def _of_two(reference: IntArray, counts: IntArray) -> Change:
    """The change of the share of the second of two bins."""
    before, now = (float(part[1] / max(part.sum(), 1)) for part in (reference, counts))
    return Change(before, now, psi(reference, counts), chance_of(reference, counts))


def _unseen(reference: Array, sums: Array) -> Change:
    """The growth of the share of unseen values."""
    (before, error), (now, own) = mean_and_error(reference), mean_and_error(sums)
    if not (reference[0] > 1 and sums[0] > 1) or now <= before:
        return Change(_known(before), _known(now), 0.0, 1.0)
    parts = (
        np.array([1 - share, share]) * n for share, n in ((before, reference[0]), (now, sums[0]))
    )
    # If all rows have the same share, its estimated error is 0: it cannot be that small.
    least = np.sqrt(max(now * (1 - now), 1 / sums[0]) / sums[0])
    z = (now - before) / np.hypot(error, max(own, least))
    return Change(before, now, psi(*parts), above(z))


def _known(share: float) -> float:
    return 0.0 if np.isnan(share) else share
