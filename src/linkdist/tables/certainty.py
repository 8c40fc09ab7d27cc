"""How certain predictions of classes are: conformal sets, and rows that are left unanswered.

Training predicts labels with networks that have not seen them, as in its estimates for new rows. A
model directory keeps what these predictions say about certainty, for each mode:

- the probabilities of the true classes. A conformal set contains each class whose probability is
  at least the t-th of them, where t leaves a share of 1 - level below it. If new rows are like the
  labelled ones, the set contains the true class with a probability of at least the level;
- the confidences, and the accuracy of the rows that are at least as certain. They say from which
  confidence on to answer, and how often the answers are right.

The score of a set is 1 - p of the true class, because these sets are the smallest on average; see
benchmarks/results/conformal.md. A set always contains the most probable class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from linkdist.errors import ModelError, OptionError

Array: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

MODES = ("features", "links")
MOST = 1000
"""The most quantiles of each kind that a model directory keeps."""
DIGITS = 1e6
"""Probabilities are rounded down to six digits, so that a row at a threshold stays above it."""
LEVELS = (0.8, 0.9, 0.95)
"""The levels of sets that a report shows."""
GAIN = 1e-9
"""A smaller difference is a rounding error."""


class Caution(NamedTuple):
    """How cautious predictions of classes are.

    Attributes
    ----------
    sets : float, optional
        The probability with which the set of a row contains its true class.
    abstain : float, optional
        The share of rows, the least certain ones, that are left unanswered.

    Examples
    --------
    >>> Caution(sets=90).check()
    Traceback (most recent call last):
    linkdist.errors.OptionError: sets must be between 0 and 1, such as 0.9; found 90.
    """

    sets: float | None = None
    abstain: float | None = None

    def check(self) -> None:
        """Raise an OptionError that names all shares that are not between 0 and 1."""
        wrong = [
            f"{name} must be between 0 and 1, such as {such}; found {value:g}."
            for name, value, such in (("sets", self.sets, 0.9), ("abstain", self.abstain, 0.2))
            if value is not None and not 0 < value < 1
        ]
        if wrong:
            raise OptionError(" ".join(wrong))


PLAIN = Caution()
"""Predictions without sets, of all rows."""


class SetScore(NamedTuple):
    """How large sets of a level are on average, and how often they contain the true class."""

    level: float
    size: float
    coverage: float


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What predictions of labels that training had not seen say, in one mode.

    Attributes
    ----------
    n : int
        Number of labels. With more than `MOST`, the arrays are at as many evenly spaced ranks.
    truth : (q,) array
        Probabilities of the true classes, in ascending order.
    confidence : (q,) array
        Probabilities of the predicted classes, in descending order.
    accuracy : (q,) array
        The accuracy of the rows that are at least as certain.
    sets : tuple of SetScore
        Sets of these rows; the threshold of a row comes from the other rows.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    >>> held = HeldOut.of(p, np.array([0, 0, 0, 1]))
    >>> held.threshold(0.7), held.threshold(0.9)
    (0.4, 0.0)
    >>> held.least(0.25), held.accuracy_of(0.25)
    (0.7, 1.0)
    >>> held.sets[0]
    SetScore(level=0.8, size=1.25, coverage=1.0)
    """

    n: int
    truth: Array
    confidence: Array
    accuracy: Array
    sets: tuple[SetScore, ...] = ()

    @classmethod
    def of(cls, p: npt.ArrayLike, labels: IntArray) -> Self:
        """What probabilities (n, C) of rows with these classes (n,) say."""
        p = np.asarray(p, dtype=np.float64)
        n, best = len(p), p.argmax(axis=1)
        p = np.floor(p * DIGITS + GAIN) / DIGITS
        certain = p[np.arange(n), best]
        order, at = np.argsort(-certain, kind="stable"), _ranks(n)
        confidence = certain[order]
        # Rows that are equally certain are answered together.
        together = np.searchsorted(-confidence, -confidence, side="right")
        hits = np.cumsum((best == labels)[order])[together - 1]
        truth = np.sort(p[np.arange(n), labels])
        found = cls(n, truth[at], confidence[at], (hits / together)[at])
        scores = tuple(found._set_score(level, p, labels, best) for level in LEVELS)
        return replace(found, sets=scores)

    def _set_score(self, level: float, p: Array, labels: IntArray, best: IntArray) -> SetScore:
        rows = np.arange(self.n)
        sets = p >= self.threshold(level)
        sets[rows, best] = True
        own = p[rows, labels]
        # With the row itself, it is among the ⌈n level⌉ largest; the others are n - 1.
        rank = int(np.ceil(self.n * level - GAIN))
        larger = self.n - np.searchsorted(np.sort(own), own, side="right")
        covered = (larger < rank) | (rank >= self.n) | (best == labels)
        return SetScore(level, float(sets.sum() / self.n), float(covered.mean()))

    @classmethod
    def read(cls, state: Mapping[str, Any]) -> Self:
        """The inverse of `state`.

        Raises
        ------
        ValueError
            If the values are not those of labels.
        """
        n = state["n"]
        arrays = [np.array(state[name], dtype=np.float64) for name in VALUES]
        count = len(_ranks(n)) if isinstance(n, int) and n > 0 else -1
        for name, values, sign in zip(VALUES, arrays, (1, -1, 0), strict=True):
            inside = values.shape == (count,) and bool(((values >= 0) & (values <= 1)).all())
            if not inside or (sign * np.diff(values) < 0).any():
                raise ValueError(f"{name!r} is not a list of the shares of {n} labels")
        scores = tuple(SetScore(*map(float, score)) for score in state["sets"])
        truth, confidence, accuracy = arrays
        return cls(n, truth, confidence, accuracy, scores)

    def state(self) -> dict[str, Any]:
        """The values as JSON."""
        lists = {name: np.round(getattr(self, name), 6).tolist() for name in VALUES}
        return {"n": self.n, **lists, "sets": np.round(self.sets, 6).tolist()}

    @property
    def shares(self) -> Array:
        """The share (q,) of rows that are answered, for each accuracy."""
        return (_ranks(self.n) + 1) / self.n

    def threshold(self, level: float) -> float:
        """The probability from which on a class is in the set of a row.

        It is the ⌈(n + 1) level⌉-th largest of the true classes: a new one is at least as large
        with a probability of at least `level`. With too few labels it is 0.
        """
        rank = max(int(np.ceil((self.n + 1) * level - GAIN)), 1)
        if rank > self.n:
            return 0.0
        # Of the ranks that are kept, the next lower one: the set is never too small.
        return float(self.truth[np.searchsorted(_ranks(self.n), self.n - rank, "right") - 1])

    def least(self, share: float) -> float:
        """The confidence from which on a row is answered, if a share of them is not."""
        return float(self.confidence[self._last_answered(share)])

    def accuracy_of(self, share: float) -> float:
        """The accuracy of the rows that are answered, if a share of them is not."""
        return float(self.accuracy[self._last_answered(share)])

    def _last_answered(self, share: float) -> int:
        rank = max(int(np.ceil(self.n * (1 - share) - GAIN)), 1)
        return int(np.searchsorted(_ranks(self.n), rank - 1))


VALUES = ("truth", "confidence", "accuracy")


@dataclass(frozen=True, eq=False)
class Certainty:
    """What a model directory keeps about the certainty of its predictions.

    Attributes
    ----------
    features, links : HeldOut
        Predictions from features and with links, of labels that training had not seen.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    >>> certainty = Certainty.of({"features": p, "links": p}, np.array([0, 0, 0, 1]))
    >>> certainty.thresholds(0.7).tolist()
    [0.4, 0.4]
    >>> certainty.answered_text(0.25, np.array([4, 0]), np.array([2, 0]))
    'Answered: 50 % of 4 rows. Estimated accuracy of the answers: 100 %, of all rows: 75 % \
(measured on 4 labels that training had not seen).'
    """

    features: HeldOut
    links: HeldOut

    @classmethod
    def of(cls, p: Mapping[str, npt.ArrayLike], labels: IntArray) -> Self:
        """What probabilities (n, C) of both modes say, of rows with these classes (n,)."""
        return cls(*(HeldOut.of(p[mode], labels) for mode in MODES))

    @classmethod
    def read(cls, state: Mapping[str, Any] | None) -> Self | None:
        """The inverse of `state`; None if there is nothing to read.

        Raises
        ------
        ModelError
            If the values are not those of labels.
        """
        if state is None:
            return None
        try:
            return cls(*(HeldOut.read(state[mode]) for mode in MODES))
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise ModelError(
                f"the scores of validation rows in the model are not valid ({error!r}). Train "
                "again."
            ) from error

    def state(self) -> dict[str, Any]:
        """The values as JSON."""
        return {mode: getattr(self, mode).state() for mode in MODES}

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self.features.n

    def thresholds(self, level: float) -> Array:
        """The probability (2,) from which on a class is in a set, for each mode."""
        return np.array([self.features.threshold(level), self.links.threshold(level)])

    def least(self, share: float) -> Array:
        """The confidence (2,) from which on a row is answered, for each mode."""
        return np.array([self.features.least(share), self.links.least(share)])

    def too_few(self, level: float) -> str:
        """A sentence if there are too few labels for sets of this level, else empty."""
        if int(np.ceil((self.labels + 1) * level - GAIN)) <= self.labels:
            return ""
        needed = int(np.ceil(level / (1 - level) - GAIN))
        return (
            f"sets that contain the true class of {100 * level:g} % of rows need {needed:,} labels "
            f"that training had not seen; found {self.labels:,}. Each set contains all classes. "
            "Train on more labels, or ask for a lower share."
        )

    def answered_text(self, share: float, rows: IntArray, answered: IntArray) -> str:
        """What is answered and how often it is right, in a sentence.

        Parameters
        ----------
        share : float
            The share of rows that were to be left unanswered.
        rows, answered : (2,) arrays of int
            Number of rows, and of those that are answered, for each mode.
        """
        held, total, given = (self.features, self.links), int(rows.sum()), int(answered.sum())
        right = sum(k * one.accuracy_of(share) for k, one in zip(answered, held, strict=True))
        overall = sum(k * one.accuracy[-1] for k, one in zip(rows, held, strict=True)) / total
        answers = f"of the answers: {100 * right / given:.0f} %, " if given else ""
        return (
            f"Answered: {100 * given / total:.0f} % of {total:,} rows. Estimated accuracy "
            f"{answers}of all rows: {100 * overall:.0f} % (measured on {self.labels:,} labels "
            "that training had not seen)."
        )


def _ranks(n: int) -> IntArray:
    """The ranks that are kept of n sorted values: all, or `MOST` from the first to the last."""
    count = min(n, MOST)
    return np.arange(count) * (n - 1) // max(count - 1, 1)
