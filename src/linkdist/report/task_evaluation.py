"""Evaluate predictions of numbers and of several labels, batch by batch, with 90 % intervals.

Scores are computed from sums, so a table may be larger than memory. The intervals of numbers come
from the sums, too (the delta method); those of F1 from a bootstrap of a sample of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import Labels, known_labels
from linkdist.report.row_sample import RowSample
from linkdist.training.measures import UNDEFINED, Array, Interval, Z, measure_for, wilson

SAMPLE = 10_000
"""Number of rows from which the intervals of F1 are computed."""


def rows_line(rows: int, unlabelled: int) -> str:
    """The first line of a printed evaluation.

    Examples
    --------
    >>> rows_line(3, 1)
    '3 labelled rows (1 rows without a label are left out)'
    """
    return f"{rows} labelled rows ({unlabelled} rows without a label are left out)"


def number(value: float) -> str:
    """A number with about four digits, in any unit.

    Examples
    --------
    >>> number(0.123456), number(1234567.8), number(1e-9)
    ('0.1235', '1,234,568', '1e-09')
    """
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"


def score_line(
    name: str, value: float, interval: Interval, shown: Callable[[float], str] = "{:.3f}".format
) -> str:
    """A printed score with its interval.

    Examples
    --------
    >>> score_line("accuracy", 0.5, (0.25, 0.75))
    'accuracy          0.500  (90 % interval 0.250 to 0.750)'
    >>> score_line("R²", float("nan"), UNDEFINED)
    'R²                undefined'
    """
    if np.isnan(value):
        return f"{name:18s}undefined"
    if np.isnan(interval).any():
        return f"{name:18s}{shown(value)}"
    low, high = map(shown, interval)
    return f"{name:18s}{shown(value)}  (90 % interval {low} to {high})"


def json_values(value: Any) -> Any:  # noqa: ANN401
    """The same value with None in place of NaN and infinities, which JSON does not have.

    Examples
    --------
    >>> json_values({"r2": float("nan"), "ends": (0.5, float("inf"))})
    {'r2': None, 'ends': (0.5, None)}
    """
    if isinstance(value, dict):
        return {key: json_values(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(json_values, value))
    return None if isinstance(value, float) and not np.isfinite(value) else value


# Numbers ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RegressionEvaluation:
    """Scores of predicted numbers on labelled rows. Intervals cover 90 %.

    Attributes
    ----------
    rows, unlabelled : int
        Number of rows with a label, and number of rows that were left out for want of one.
    r2 : float
        The share of the variance that the predictions explain; NaN if all numbers are equal.
    mae, rmse : float
        The mean absolute error and the root of the mean squared error, in the unit of the labels.
    bias : float
        The mean of prediction - truth.
    coverage : float or None
        The share of prediction intervals that contain the truth; None without them.
    level : float
        The share that they should contain.
    width : float or None
        Their mean width.
    """

    rows: int
    unlabelled: int
    r2: float
    r2_interval: Interval
    mae: float
    mae_interval: Interval
    rmse: float
    rmse_interval: Interval
    bias: float
    bias_interval: Interval
    coverage: float | None = None
    coverage_interval: Interval | None = None
    level: float = 0.9
    width: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The scores as JSON values; None for those that are not defined."""
        values: dict[str, Any] = json_values(asdict(self))
        return values

    def __str__(self) -> str:
        """The scores as a table."""
        lines = [
            rows_line(self.rows, self.unlabelled),
            score_line("R²", self.r2, self.r2_interval),
            score_line("MAE", self.mae, self.mae_interval, number),
            score_line("RMSE", self.rmse, self.rmse_interval, number),
            score_line("bias", self.bias, self.bias_interval, number),
        ]
        if self.coverage is not None and self.coverage_interval and self.width is not None:
            lines += [
                score_line("coverage", self.coverage, self.coverage_interval)
                + f", of prediction intervals for {100 * self.level:.0f} %",
                f"{'mean width':18s}{number(self.width)}",
            ]
        return "\n".join(lines)


class RegressionEvaluator:
    """Collects predicted numbers of labelled nodes.

    Parameters
    ----------
    level : float, optional
        The share of rows that prediction intervals should contain.

    Examples
    --------
    >>> evaluator = RegressionEvaluator()
    >>> evaluator.add(np.array([1.0, 2.0, 4.0, np.nan]), np.array([1.5, 2.0, 3.5, 9.0]))
    >>> found = evaluator.result()
    >>> found.rows, round(found.r2, 3), round(found.mae, 3), found.bias
    (3, 0.893, 0.333, 0.0)
    """

    def __init__(self, level: float = 0.9) -> None:
        self._level = level
        self._unlabelled = 0
        self._effective = 0.0
        self._origin: float | None = None
        self._products = np.zeros((6, 6))
        self._intervals = np.zeros(3)  # how many, how many contain the truth, their widths

    def add(
        self,
        labels: Labels,
        values: npt.ArrayLike,
        low: npt.ArrayLike | None = None,
        high: npt.ArrayLike | None = None,
    ) -> None:
        """Add nodes.

        Parameters
        ----------
        labels : (n,) array
            The true numbers, or NaN, which is left out.
        values : (n,) or (n, 1) array
            The predicted numbers.
        low, high : (n,) arrays, optional
            The ends of the prediction intervals.
        """
        known = known_labels(labels)
        y, p = labels[known], np.asarray(values, dtype=np.float64).reshape(len(labels))[known]
        self._unlabelled += int((~known).sum())
        if not len(y):
            return
        if self._origin is None:  # the variance of large numbers needs small ones
            self._origin = float(y.mean())
        u, e = y - self._origin, p - y
        columns = np.stack([np.ones(len(y)), u, u**2, e, np.abs(e), e**2], axis=1)
        self._products += columns.T @ columns
        if low is not None and high is not None:
            first, last = (np.asarray(end, dtype=np.float64)[known] for end in (low, high))
            inside = (first <= y) & (y <= last)
            self._intervals += [len(y), inside.sum(), (last - first).sum()]

    @property
    def rows(self) -> int:
        """Number of labelled nodes so far."""
        return int(self._products[0, 0])

    def result(self, effective: float | None = None) -> RegressionEvaluation:
        """The scores of all nodes so far, of which one or more must have a label.

        Parameters
        ----------
        effective : float, optional
            The effective number of nodes for the intervals, if predictions are correlated.
        """
        n = self.rows
        self._effective = effective or n
        mean = self._products[0] / n
        _, shift, square, bias, mae, mse = mean.tolist()
        variance = square - shift**2
        # Sums of equal numbers leave a variance of rounding errors.
        varies = variance > 1e-12 * max(square, 1e-300) and n > 1
        slope = np.zeros(6)
        if varies:
            slope[[1, 2, 5]] = -2 * shift * mse / variance**2, mse / variance**2, -1 / variance
        r2, r2_error = 1 - mse / variance if varies else np.nan, self._error(slope)
        bias_error = Z * self._error(np.eye(6)[3])
        count, inside, width = self._intervals.tolist()
        covered = inside / count if count else None
        return RegressionEvaluation(
            n,
            self._unlabelled,
            float(r2),
            (r2 - Z * r2_error, min(r2 + Z * r2_error, 1.0)) if varies else UNDEFINED,
            mae,
            _positive_interval(mae, self._error(np.eye(6)[4])),
            float(np.sqrt(mse)),
            _positive_interval(float(np.sqrt(mse)), self._error(np.eye(6)[5]), squared=True),
            bias,
            (bias - bias_error, bias + bias_error),
            covered,
            None if covered is None else wilson(covered, min(count, self._effective)),
            self._level,
            width / count if count else None,
        )

    def _error(self, slope: Array) -> float:
        """The standard error of a function of the means, from its derivatives (delta method)."""
        n = self.rows
        if n < 2:
            return float("nan")
        mean = self._products[0] / n
        covariance = self._products / n - np.outer(mean, mean)
        return float(np.sqrt(np.maximum(slope @ covariance @ slope, 0.0) / self._effective))


def _positive_interval(value: float, error: float, squared: bool = False) -> Interval:
    """An interval on the scale of logarithms; the error may be that of the squared value."""
    if value == 0:
        return 0.0, 0.0
    factor = float(np.exp(Z * (error / (2 * value**2) if squared else error / value)))
    return value / factor, value * factor


# Several labels -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelEvaluation:
    """Scores of one label; a score with a denominator of 0 is 0."""

    name: str
    rows: int
    threshold: float
    precision: float
    recall: float
    recall_interval: Interval
    f1: float


@dataclass(frozen=True)
class MultilabelEvaluation:
    """Scores of several labels on labelled rows. Intervals cover 90 %.

    Attributes
    ----------
    rows, unlabelled : int
        Number of rows with known labels, and number of rows that were left out for want of them.
    micro_f1, macro_f1 : float
        F1 of all labels together, and the mean over the labels that have rows; NaN if no row has
        any label.
    labels : tuple of LabelEvaluation
        Scores of each label.
    """

    rows: int
    unlabelled: int
    micro_f1: float
    micro_f1_interval: Interval
    macro_f1: float
    macro_f1_interval: Interval
    labels: tuple[LabelEvaluation, ...]

    def as_json(self) -> dict[str, Any]:
        """The scores as JSON values; None for those that are not defined."""
        values: dict[str, Any] = json_values(asdict(self))
        return values

    def __str__(self) -> str:
        """The scores as a table."""
        width = max(5, *(len(one.name) for one in self.labels))
        lines = [
            rows_line(self.rows, self.unlabelled),
            score_line("micro F1", self.micro_f1, self.micro_f1_interval),
            score_line("macro F1", self.macro_f1, self.macro_f1_interval),
            f"{'label':{width}s}   rows  threshold  precision  recall  (90 % interval)     F1",
        ]
        for one in self.labels:
            low, high = one.recall_interval
            lines.append(
                f"{one.name:{width}s} {one.rows:6d}  {one.threshold:9.3f}  {one.precision:9.3f}  "
                f"{one.recall:6.3f}  ({low:.3f} to {high:.3f})  {one.f1:.3f}"
            )
        return "\n".join(lines)


class MultilabelEvaluator:
    """Collects label probabilities of labelled nodes.

    Parameters
    ----------
    labels : sequence of str
        Names of the C labels.
    thresholds : (C,) array, optional
        The probabilities from which on each label is predicted; by default 0.5.

    Examples
    --------
    >>> evaluator = MultilabelEvaluator(["even", "loop"])
    >>> evaluator.add(np.array([[1, 0], [0, 1]]), np.array([[0.9, 0.7], [0.2, 0.6]]))
    >>> found = evaluator.result()
    >>> found.micro_f1, [round(one.f1, 3) for one in found.labels]
    (0.8, [1.0, 0.667])
    """

    def __init__(self, labels: Sequence[str], thresholds: npt.ArrayLike | None = None) -> None:
        self._names = tuple(labels)
        given = 0.5 if thresholds is None else np.asarray(thresholds, dtype=np.float64)
        self._thresholds = np.broadcast_to(given, (len(labels),))
        self._counts = np.zeros((3, len(labels)), dtype=np.int64)  # hits, labels, predictions
        self._sample = RowSample(SAMPLE)
        self._rows = self._unlabelled = 0

    def add(self, labels: Labels, probabilities: npt.ArrayLike) -> None:
        """Add nodes.

        Parameters
        ----------
        labels : (n, C) array of int
            1 for each label of a node, 0 for others, or `UNKNOWN` in a row, which is left out.
        probabilities : (n, C) array
            Label probabilities.
        """
        known = known_labels(labels)
        truth = labels[known] == 1
        predicted = np.asarray(probabilities, dtype=np.float64)[known] >= self._thresholds
        self._counts += [part.sum(axis=0) for part in (truth & predicted, truth, predicted)]
        self._sample.add(truth, predicted)
        self._rows += len(truth)
        self._unlabelled += int((~known).sum())

    @property
    def rows(self) -> int:
        """Number of labelled nodes so far."""
        return self._rows

    def result(self) -> MultilabelEvaluation:
        """The scores of all nodes so far, of which one or more must have labels."""
        hits, rows, predicted = self._counts
        f1 = 2 * hits / np.maximum(rows + predicted, 1)
        total = int((rows + predicted).sum())
        micro = float(2 * hits.sum() / total) if total else float("nan")
        macro = float(f1[rows > 0].mean()) if rows.any() else float("nan")
        recall = hits / np.maximum(rows, 1)
        scores = zip(
            self._names,
            rows.tolist(),
            self._thresholds.tolist(),
            (hits / np.maximum(predicted, 1)).tolist(),
            recall.tolist(),
            [wilson(*one) if one[1] else (0.0, 1.0) for one in zip(recall, rows, strict=True)],
            f1.tolist(),
            strict=True,
        )
        return MultilabelEvaluation(
            self._rows,
            self._unlabelled,
            micro,
            self._interval("micro-f1", micro),
            macro,
            self._interval("macro-f1", macro),
            tuple(LabelEvaluation(*one) for one in scores),
        )

    def _interval(self, name: str, value: float) -> Interval:
        """The interval around the value of all rows, as wide as the sample tells."""
        truth, predicted = self._sample.columns()
        y, measure = truth.astype(np.int64), measure_for("multilabel", name)
        shift = value - measure.value(predicted, y)
        low, high = measure.interval(predicted, y, n=self._rows)
        return float(np.clip(low + shift, 0, 1)), float(np.clip(high + shift, 0, 1))
