"""Measures of predictions: accuracy, F1, ROC AUC, average precision, R² and mean absolute error.

A measure gives a value, a 90 % interval, and a paired comparison of two models on the same rows.
Each measure is one function of predictions, labels and weights of the rows. With equal weights it
gives the value; with random weights, the numbers of times that a bootstrap draws each row, it gives
the standard error. Accuracy needs no bootstrap: it has Wilson's interval and McNemar's test.

Predictions are an (N, C) array: class probabilities, label probabilities (multilabel) or numbers
(N, 1). Labels are those of `linkdist.data.graph`; rows without a known label are left out. A value
that is not defined, such as the ROC AUC of one class, is NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import Labels, known_labels
from linkdist.errors import check_names

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Interval: TypeAlias = tuple[float, float]

Z = 1.645
"""The quantile of a 90 % interval, and of a one-sided test at 5 %."""
RESAMPLES = (200, 1000)
"""The least and the most resamples of a bootstrap; large tables have fewer."""
WORK = 20_000_000
"""Rows times resamples above which the number of resamples is reduced."""
MOST_ROWS = 100_000
"""Of more rows, a bootstrap draws from a random part; its error is scaled to all rows."""
BLOCK = 1_000_000
"""Rows times resamples that are computed at once."""
FEW = 20
"""Below this number of rows per class, a bootstrap alone is too certain."""
SIGN_TEST = 5
"""With fewer rows than this no test is significant: 0.5 ** 4 > 5 %."""
UNDEFINED = (float("nan"), float("nan"))
TITLES = {
    "accuracy": "accuracy",
    "macro-f1": "macro F1",
    "micro-f1": "micro F1",
    "roc-auc": "ROC AUC",
    "average-precision": "average precision",
    "r2": "R²",
    "mae": "mean absolute error",
}
"""The names of measures in sentences and tables."""


def wilson(share: float, n: float, z: float = Z) -> Interval:
    """Wilson's interval for a share of n rows; by default for 90 %.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(0.9, 10, z=1.96)]
    [0.596, 0.982]
    """
    middle = share + z**2 / (2 * n)
    half = z * float(np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)))
    scale = 1 + z**2 / n
    return max((middle - half) / scale, 0.0), min((middle + half) / scale, 1.0)


def mcnemar(ours: Mask, theirs: Mask) -> int:
    """1 if ours is right significantly more often, -1 if less often, 0 otherwise.

    Only the rows on which the two differ are relevant.

    Examples
    --------
    >>> mcnemar(np.ones(20, dtype=bool), np.arange(20) % 2 == 0)
    1
    """
    won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    if won == lost:
        return 0
    significant = (abs(won - lost) - 1) / np.sqrt(won + lost) > Z
    return int(np.sign(won - lost)) if significant else 0


@dataclass(frozen=True)
class Measure(ABC):
    """A score of predictions on labelled rows.

    Attributes
    ----------
    name : str
        The name, as in `measure_for`.
    percent : bool
        Whether it is printed as a percentage; it then lies between 0 and 1.
    higher_is_better : bool
        Whether a higher value is better.
    """

    name: str
    percent: bool = True
    higher_is_better: bool = True

    @property
    def title(self) -> str:
        """The name in sentences."""
        return TITLES[self.name]

    def text(self, value: float) -> str:
        """A value in sentences.

        Examples
        --------
        >>> measure_for("classification").text(0.825), measure_for("regression").text(0.825)
        ('82.5 %', '0.825')
        """
        if self.percent:
            return f"{100 * value:.1f} %"
        large = 99.95 <= abs(value) < 1e12
        return format(value, "z.3f" if self.higher_is_better else ",.0f" if large else "#.3g")

    def points(self, difference: float) -> str:
        """A difference of values in sentences."""
        return f"{100 * difference:.1f} points" if self.percent else self.text(difference)

    def value(self, values: npt.ArrayLike, labels: Labels) -> float:
        """The score of predictions (N, C); NaN if it is not defined."""
        p, y = _known(values, labels)
        return self._value(p, y)

    def interval(self, values: npt.ArrayLike, labels: Labels, n: float | None = None) -> Interval:
        """The 90 % interval of the score.

        Parameters
        ----------
        values : (N, C) array
            Predictions.
        labels : array
            Labels of the rows.
        n : float, optional
            The effective number of rows, by default N. The standard error is multiplied by
            sqrt(N / n).
        """
        p, y = _known(values, labels)
        value = self._value(p, y)
        if np.isnan(value) or len(y) < 2:
            return UNDEFINED
        ratio = len(y) / (n or len(y))
        error = _spread(self._resampled(p, y), len(y)) * float(np.sqrt(ratio))
        return self._around(value, error, _support(y) / ratio) if np.isfinite(error) else UNDEFINED

    def compare(self, ours: npt.ArrayLike, theirs: npt.ArrayLike, labels: Labels) -> int:
        """1 if ours is significantly better, -1 if it is significantly worse, 0 otherwise.

        The bootstrap is paired: both scores are computed from the same resampled rows.
        """
        a, y = _known(ours, labels)
        b, _ = _known(theirs, labels)
        gap = self._value(a, y) - self._value(b, y)
        if np.isnan(gap) or gap == 0 or _support(y) < SIGN_TEST:
            return 0
        with np.errstate(invalid="ignore"):
            error = _spread(self._resampled(a, y) - self._resampled(b, y), len(y))
        sign = int(np.sign(gap)) if abs(gap) > Z * error else 0
        return sign if self.higher_is_better else -sign

    def _value(self, p: Array, y: Labels) -> float:
        if not len(y) or not np.isfinite(p).all():
            return float("nan")
        with np.errstate(all="ignore"):
            value = float(self.scores(p, y, np.ones((1, len(y))))[0])
        return value if np.isfinite(value) else float("nan")

    def _resampled(self, p: Array, y: Labels) -> Array:
        """The scores of bootstrap samples."""
        if len(y) > MOST_ROWS:
            rows = np.random.default_rng(1).choice(len(y), MOST_ROWS, replace=False)
            p, y = p[rows], y[rows]
        count = np.clip(WORK // (len(y) * self._columns(p)), *RESAMPLES)
        with np.errstate(all="ignore"):
            return np.concatenate([self.scores(p, y, w) for w in _draws(len(y), int(count))])

    def _columns(self, p: Array) -> int:
        """The number of columns that are computed one after the other."""
        return 1

    @abstractmethod
    def scores(self, p: Array, y: Labels, weights: Array) -> Array:
        """The scores (B,) where row i counts weights[b, i] times; NaN where they are undefined."""

    def _around(self, value: float, error: float, support: float) -> Interval:
        """The interval around a share: normal on the scale of log odds.

        All resamples agree if no row is wrong, and a bootstrap hardly varies rows of which there
        are few; Wilson's interval is the least then.
        """
        if error == 0 or not 0 < value < 1:
            return wilson(value, support)
        odds, half = np.log(value / (1 - value)), Z * error / (value * (1 - value))
        low, high = (float(1 / (1 + np.exp(-end))) for end in (odds - half, odds + half))
        if support < FEW:
            least = wilson(value, support)
            low, high = min(low, least[0]), max(high, least[1])
        return low, high


class Accuracy(Measure):
    """The share of rows whose most probable class is right."""

    def interval(self, values: npt.ArrayLike, labels: Labels, n: float | None = None) -> Interval:
        """Wilson's interval, for n rows."""
        share, rows = self.value(values, labels), int(known_labels(labels).sum())
        return wilson(share, n or rows) if rows else UNDEFINED

    def compare(self, ours: npt.ArrayLike, theirs: npt.ArrayLike, labels: Labels) -> int:
        """McNemar's test."""
        return mcnemar(_hits(*_known(ours, labels)), _hits(*_known(theirs, labels)))

    def scores(self, p: Array, y: Labels, weights: Array) -> Array:
        """The weighted share of right rows."""
        shares: Array = weights @ _hits(p, y) / weights.sum(axis=1)
        return shares

    def _value(self, p: Array, y: Labels) -> float:
        return float(_hits(p, y).mean()) if len(y) else float("nan")


@dataclass(frozen=True)
class F1(Measure):
    """The harmonic mean of precision and recall.

    Macro F1 is the mean over classes that occur; micro F1 is that of all labels together. A label
    (multilabel) is predicted if its probability reaches its threshold, by default 0.5.
    """

    thresholds: tuple[float, ...] | None = None

    def scores(self, p: Array, y: Labels, weights: Array) -> Array:
        """F1 from the weighted numbers of labels, predictions and hits of each class."""
        truth, predicted = self._decided(p, y)
        hits, rows, columns = (
            weights @ part.astype(np.float64) for part in (truth & predicted, truth, predicted)
        )
        if self.name == "micro-f1":
            return _ratio(2 * hits.sum(axis=1), (rows + columns).sum(axis=1))
        return _mean_of_defined(np.where(rows > 0, _ratio(2 * hits, rows + columns), np.nan))

    def _decided(self, p: Array, y: Labels) -> tuple[Mask, Mask]:
        """The true and the predicted classes as (N, C) masks."""
        if y.ndim == 2:
            return y == 1, p >= (0.5 if self.thresholds is None else np.array(self.thresholds))
        classes = np.arange(p.shape[1])
        return y[:, None] == classes, p.argmax(axis=1)[:, None] == classes


class Ranking(Measure):
    """ROC AUC or average precision: how well the rows of a class come before others.

    Of two classes the rarer one is ranked, the second if they are equal. Of more classes, and of
    labels, it is the mean over those that some rows have and others have not.
    """

    def scores(self, p: Array, y: Labels, weights: Array) -> Array:
        """The mean over the ranked classes."""
        found = []
        for score, positive in _rankings(p, y):
            there, rest = _descending(score, positive), _descending(score, ~positive)
            if len(there) and len(rest):
                found.append(self._of_class(score, there, rest, weights))
        return _mean_of_defined(np.stack(found, 1)) if found else np.full(len(weights), np.nan)

    def _of_class(
        self, score: Array, there: npt.NDArray[Any], rest: npt.NDArray[Any], weights: Array
    ) -> Array:
        """The score of one class from its rows and the others, both in descending order."""
        w, key = weights[:, there], -score[there]
        others = _running_sums(weights[:, rest])
        ahead = others[:, np.searchsorted(-score[rest], key, "right")]
        if self.name == "roc-auc":
            # A tie is half right: the mean of the others strictly ahead and of those not behind.
            ahead = (ahead + others[:, np.searchsorted(-score[rest], key, "left")]) / 2
            return 1 - _ratio((w * ahead).sum(axis=1), w.sum(axis=1) * others[:, -1])
        hits = _running_sums(w)[:, np.searchsorted(key, key, "right")]
        precision = hits / np.maximum(hits + ahead, np.finfo(np.float64).tiny)
        average = _ratio((w * precision).sum(axis=1), w.sum(axis=1))
        return np.where(others[:, -1] > 0, average, np.nan)

    def _columns(self, p: Array) -> int:
        return 1 if p.shape[1] == 2 else p.shape[1]


class R2(Measure):
    """The share of the variance that the predictions explain; not defined for equal numbers."""

    def scores(self, p: Array, y: Labels, weights: Array) -> Array:
        """1 - squared errors / squared differences to the mean."""
        if np.ptp(y) == 0:
            return np.full(len(weights), np.nan)
        u, total = y - y.mean(), weights.sum(axis=1)
        squares = weights @ u**2
        around = squares - (weights @ u) ** 2 / total
        # Rounding errors must not look like a variance where a resample has equal numbers.
        around = np.where(around > 1e-12 * squares, around, 0)
        return 1 - _ratio(weights @ (y - p[:, 0]) ** 2, around)

    def _around(self, value: float, error: float, support: float) -> Interval:
        return float(value - Z * error), float(min(value + Z * error, 1))


class MeanAbsoluteError(Measure):
    """The mean difference between a prediction and the true number, in the unit of the labels."""

    def scores(self, p: Array, y: Labels, weights: Array) -> Array:
        """The weighted mean of absolute differences."""
        means: Array = weights @ np.abs(y - p[:, 0]) / weights.sum(axis=1)
        return means

    def _around(self, value: float, error: float, support: float) -> Interval:
        factor = np.exp(Z * error / value) if value else 1.0
        return float(value / factor), float(value * factor)


_RANKINGS = (Ranking("roc-auc"), Ranking("average-precision"))
MEASURES: dict[str, tuple[Measure, ...]] = {
    "classification": (Accuracy("accuracy"), F1("macro-f1"), *_RANKINGS),
    "regression": (R2("r2", False), MeanAbsoluteError("mae", False, False)),
    "multilabel": (F1("micro-f1"), F1("macro-f1"), *_RANKINGS),
}
"""The measures of each task; the first is the main one."""


def measure_for(
    task: str, metric: str | None = None, thresholds: npt.ArrayLike | None = None
) -> Measure:
    """The measure of a task.

    Parameters
    ----------
    task : {'classification', 'regression', 'multilabel'}
        What the labels are.
    metric : str, optional
        The name of the measure; by default 'accuracy', 'r2' or 'micro-f1'.
    thresholds : (C,) array, optional
        The probabilities from which on each label is predicted, for F1 of several labels.

    Raises
    ------
    OptionError
        If the metric does not suit the task.

    Examples
    --------
    >>> measure_for("classification", "roc-auc").value([[0.9, 0.1], [0.2, 0.8]], np.array([0, 1]))
    1.0
    >>> measure_for("regression", "accuracy")
    Traceback (most recent call last):
    linkdist.errors.OptionError: unknown metric for regression 'accuracy'; choose from r2, mae.
    """
    check_names("task", [task], MEASURES)
    known = {measure.name: measure for measure in MEASURES[task]}
    chosen = metric or next(iter(known))
    check_names(f"metric for {task}", [chosen], known)
    measure = known[chosen]
    if isinstance(measure, F1) and thresholds is not None:
        return replace(measure, thresholds=tuple(np.asarray(thresholds, dtype=float).tolist()))
    return measure


def _known(values: npt.ArrayLike, labels: Labels) -> tuple[Array, Labels]:
    """The predictions (N, C) and labels of rows with a known label."""
    p = np.asarray(values, dtype=np.float64)
    known = known_labels(labels)
    return (p if p.ndim == 2 else p[:, None])[known], labels[known]


def _hits(p: Array, y: Labels) -> Mask:
    """Which rows have the true class as their most probable one; no row with NaN."""
    hits: Mask = (p.argmax(axis=1) == y) & ~np.isnan(p).any(axis=1)
    return hits


def _draws(n: int, count: int) -> Iterator[Array]:
    """How often each of n rows is drawn in each resample, in blocks; the same at each call."""
    random, most = np.random.default_rng(0), max(1, BLOCK // n)
    for start in range(0, count, most):
        size = min(most, count - start)
        rows = random.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(rows.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)


def _spread(scores: Array, n: int) -> float:
    """The standard error of a score of n rows, from its bootstrap samples.

    A sample without any row of a class may have no score.
    """
    found = scores[np.isfinite(scores)]
    with np.errstate(all="ignore"):
        return float(np.std(found) * np.sqrt(min(n, MOST_ROWS) / n)) if len(found) else 0.0


def _support(y: Labels) -> float:
    """The effective number of rows of a mean over classes: C² / Σ 1 / n_c, at most N.

    It is N for classes of equal size, and about 4 for two classes of which one has a single row.
    """
    if y.dtype.kind == "f":
        return len(y)
    positive = y.sum(axis=0) if y.ndim == 2 else np.bincount(y)
    counts = np.minimum(positive, len(y) - positive) if y.ndim == 2 else positive
    counts = counts[counts > 0]
    return float(min(len(counts) ** 2 / (1 / counts).sum(), len(y))) if len(counts) else len(y)


def _rankings(p: Array, y: Labels) -> Iterator[tuple[Array, Mask]]:
    """The score (N,) of each ranked class, and which rows have it."""
    if y.ndim == 2:
        yield from ((p[:, c], y[:, c] == 1) for c in range(p.shape[1]))
    elif p.shape[1] == 2:
        rare = int((y == 1).sum() <= (y == 0).sum())
        # The difference has the order of a probability, and tells apart those that round to 1.
        yield p[:, rare] - p[:, 1 - rare], y == rare
    else:
        yield from ((p[:, c], y == c) for c in range(p.shape[1]))


def _descending(score: Array, rows: Mask) -> npt.NDArray[Any]:
    """The positions of some rows, the highest score first."""
    found = np.flatnonzero(rows)
    return found[np.argsort(-score[found], kind="stable")]


def _running_sums(weights: Array) -> Array:
    """Sums of the first 0, 1, ... columns, (B, n + 1)."""
    sums = np.zeros((len(weights), weights.shape[1] + 1))
    np.cumsum(weights, axis=1, out=sums[:, 1:])
    return sums


def _ratio(part: Array, whole: Array) -> Array:
    """Part / whole, and NaN where the whole is 0."""
    ratio: Array = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
    return ratio


def _mean_of_defined(scores: Array) -> Array:
    """The mean over the columns (B, C) that are not NaN."""
    defined = ~np.isnan(scores)
    return _ratio(np.where(defined, scores, 0).sum(axis=1), defined.sum(axis=1).astype(float))
