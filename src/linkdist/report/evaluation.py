"""Evaluate predictions on labelled nodes, batch by batch, with 90 % intervals.

Everything is computed from sums (the confusion matrix, the log-loss and its squares, and each
confidence bin), so a table may be larger than memory. Only the ranking of two classes needs the
scores of the rows themselves: of more than a million, it takes a random sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist.data.graph import TASKS, UNKNOWN, IntArray
from linkdist.errors import check_names
from linkdist.report.metrics import BINS
from linkdist.report.pair_counts import PairCounts, cells, count_pairs, pair_sums
from linkdist.report.row_sample import RowSample
from linkdist.report.task_evaluation import (
    MultilabelEvaluation,
    MultilabelEvaluator,
    RegressionEvaluation,
    RegressionEvaluator,
    json_values,
    rows_line,
    score_line,
)
from linkdist.training.measures import Interval, Z, measure_for, wilson

BLOCK = 1 << 20
"""Numbers of bootstrap samples that are computed at once."""
RESAMPLED = 1000
"""Number of bootstrap samples for the interval of macro F1."""
RANKED = 1_000_000
"""Number of rows from which the ranking of two classes is computed."""

AnyEvaluation: TypeAlias = "Evaluation | RegressionEvaluation | MultilabelEvaluation"
AnyEvaluator: TypeAlias = "Evaluator | RegressionEvaluator | MultilabelEvaluator"


@dataclass(frozen=True)
class ClassEvaluation:
    """Scores of one class; a score with a denominator of 0 is 0."""

    name: str
    rows: int
    precision: float
    recall: float
    recall_interval: Interval
    f1: float


@dataclass(frozen=True)
class RankingEvaluation:
    """How well the rows of the rarer of two classes come first, if all are ranked by its score.

    Attributes
    ----------
    positive : str
        The rarer class.
    share : float
        Its share of the rows, which is the average precision of a random order.
    roc_auc, average_precision : float
        The scores of the order.
    """

    positive: str
    share: float
    roc_auc: float
    roc_auc_interval: Interval
    average_precision: float
    average_precision_interval: Interval


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on labelled rows. Intervals cover 90 %.

    Attributes
    ----------
    rows, unlabelled : int
        Number of rows with a label, and number of rows that were left out for want of one.
    accuracy, macro_f1, log_loss : float
        Macro F1 is the mean over the classes that have rows.
    calibration_error : float
        Mean difference between confidence and accuracy in ten bins.
    classes : tuple of ClassEvaluation
        Scores of each class.
    confusion : (C, C) nested tuple of int
        Rows are true classes, columns are predicted ones; empty for more than 1,000 classes.
    ranking : RankingEvaluation or None
        For two classes, of which both have rows.
    """

    rows: int
    unlabelled: int
    accuracy: float
    accuracy_interval: Interval
    macro_f1: float
    macro_f1_interval: Interval
    log_loss: float
    log_loss_interval: Interval
    calibration_error: float
    classes: tuple[ClassEvaluation, ...]
    confusion: tuple[tuple[int, ...], ...]
    ranking: RankingEvaluation | None = None

    def as_json(self) -> dict[str, Any]:
        """The scores as JSON values."""
        values: dict[str, Any] = json_values(asdict(self))
        if self.ranking is None:
            del values["ranking"]
        return values

    def __str__(self) -> str:
        """The scores as a table."""
        lines = [
            rows_line(self.rows, self.unlabelled),
            score_line("accuracy", self.accuracy, self.accuracy_interval),
            score_line("macro F1", self.macro_f1, self.macro_f1_interval),
            score_line("log-loss", self.log_loss, self.log_loss_interval),
        ]
        if found := self.ranking:
            of_class = f", of {found.positive!r}, {100 * found.share:.1f} % of the rows"
            average = (found.average_precision, found.average_precision_interval)
            lines += [
                score_line("ROC AUC", found.roc_auc, found.roc_auc_interval),
                score_line("average precision", *average) + of_class,
            ]
        lines.append(f"{'calibration error':18s}{self.calibration_error:.3f}")
        width = max(5, *(len(one.name) for one in self.classes))
        lines.append(f"{'class':{width}s}   rows  precision  recall  (90 % interval)     F1")
        for one in self.classes:
            low, high = one.recall_interval
            lines.append(
                f"{one.name:{width}s} {one.rows:6d}  {one.precision:9.3f}  {one.recall:6.3f}  "
                f"({low:.3f} to {high:.3f})  {one.f1:.3f}"
            )
        return "\n".join(lines)


class Evaluator:
    """Collects predictions of labelled nodes.

    Parameters
    ----------
    classes : sequence of str
        Names of the C classes.
    factors : (C,) array, optional
        Factors of the class probabilities that decide which class is predicted; by default 1.

    Examples
    --------
    >>> evaluator = Evaluator(["art", "math"])
    >>> evaluator.add(np.array([0, 1, 1, -1]), np.array([[0.9, 0.1]] * 2 + [[0.2, 0.8]] * 2))
    >>> found = evaluator.result()
    >>> found.rows, found.unlabelled, round(found.accuracy, 3), round(found.log_loss, 3)
    (3, 1, 0.667, 0.877)
    """

    def __init__(self, classes: Sequence[str], factors: npt.ArrayLike | None = None) -> None:
        self._names = tuple(classes)
        self._factors = np.ones(len(classes)) if factors is None else np.asarray(factors)
        self._scores = RowSample(RANKED) if len(classes) == 2 else None
        nothing = np.empty(0, dtype=np.int64)
        self._confusion = count_pairs(nothing, nothing, len(classes))
        self._loss = np.zeros(2)
        self._bins = np.zeros((3, BINS))
        self._unlabelled = 0

    def add(self, labels: IntArray, probabilities: npt.ArrayLike) -> None:
        """Add nodes.

        Parameters
        ----------
        labels : (n,) array of int
            Classes, or `UNKNOWN`, which is left out.
        probabilities : (n, C) array
            Class probabilities.
        """
        known = labels != UNKNOWN
        y, p = labels[known], np.asarray(probabilities, dtype=np.float64)[known]
        predicted = (p * self._factors).argmax(axis=1)
        confidence = p[np.arange(len(y)), predicted]
        if self._scores is not None:
            self._scores.add(p[:, 1] - p[:, 0], y == 1)
        self._confusion = self._confusion + count_pairs(y, predicted, len(self._names))
        losses = -np.log(np.maximum(p[np.arange(len(y)), y], np.finfo(np.float32).tiny))
        self._loss += [losses.sum(), (losses**2).sum()]
        place = np.minimum((confidence * BINS).astype(int), BINS - 1)
        for sums, values in zip(self._bins, (y == predicted, confidence, y == y), strict=True):
            sums += np.bincount(place, values, minlength=BINS)
        self._unlabelled += int((~known).sum())

    @property
    def rows(self) -> int:
        """Number of labelled nodes so far."""
        return int(self._confusion.sum())

    def result(self) -> Evaluation:
        """The scores of all nodes so far, of which one or more must have a label."""
        n, confusion = self.rows, self._confusion
        accuracy = float(confusion.diagonal().sum() / n)
        loss = self._loss[0] / n
        error = np.sqrt(max(0.0, self._loss[1] / n - loss**2) / n)
        f1 = macro_f1(confusion)
        hits, confidence, _ = self._bins
        return Evaluation(
            n,
            self._unlabelled,
            accuracy,
            wilson(accuracy, n),
            f1,
            _bootstrap(confusion),
            float(loss),
            (float(max(0.0, loss - Z * error)), float(loss + Z * error)),
            float(np.abs(hits - confidence).sum() / n),
            tuple(_class_scores(self._names, confusion)),
            tuple(map(tuple, confusion.tolist())) if isinstance(confusion, np.ndarray) else (),
            self._ranking(),
        )

    def _ranking(self) -> RankingEvaluation | None:
        if self._scores is None:
            return None
        score, second = self._scores.columns()
        p, y = np.stack([-score, score], axis=1), second.astype(np.int64)
        rare = int(2 * y.sum() <= len(y))
        auc, average = (measure_for("classification", m) for m in ("roc-auc", "average-precision"))
        if np.isnan(auc.value(p, y)):
            return None
        return RankingEvaluation(
            self._names[rare],
            float((y == rare).mean()),
            auc.value(p, y),
            auc.interval(p, y),
            average.value(p, y),
            average.interval(p, y),
        )


def make_evaluator(
    task: str,
    classes: Sequence[str],
    *,
    factors: npt.ArrayLike | None = None,
    thresholds: npt.ArrayLike | None = None,
    level: float = 0.9,
) -> AnyEvaluator:
    """The evaluator of a task.

    Parameters
    ----------
    task : {'classification', 'regression', 'multilabel'}
        What the labels are.
    classes : sequence of str
        Names of the classes or labels.
    factors, thresholds : (C,) arrays, optional
        The factors of class probabilities, and the thresholds of labels.
    level : float, optional
        The share of rows that prediction intervals of numbers should contain.

    Examples
    --------
    >>> evaluator = make_evaluator("regression", ["margin"])
    >>> evaluator.add(np.array([1.0, 2.0, 4.0, 5.0]), np.array([1.5, 2.0, 3.5, 5.0]))
    >>> print(evaluator.result())
    4 labelled rows (0 rows without a label are left out)
    R²                0.950  (90 % interval 0.902 to 0.998)
    MAE               0.25  (90 % interval 0.1098 to 0.569)
    RMSE              0.3536  (90 % interval 0.2343 to 0.5334)
    bias              0  (90 % interval -0.2908 to 0.2908)
    """
    check_names("task", [task], TASKS)
    if task == "regression":
        return RegressionEvaluator(level)
    if task == "multilabel":
        return MultilabelEvaluator(classes, thresholds)
    return Evaluator(classes, factors)


def macro_f1(confusion: PairCounts) -> float:
    """Mean F1 over the classes that have rows.

    Examples
    --------
    >>> round(macro_f1(np.array([[1, 0], [1, 1]])), 3)
    0.667
    """
    sides = (confusion.diagonal(), pair_sums(confusion, 1), pair_sums(confusion, 0))
    return float(_mean_f1(*(side[None] for side in sides))[0])


def _mean_f1(hits: IntArray, rows: IntArray, columns: IntArray) -> npt.NDArray[np.float64]:
    """Macro F1 of several samples, from their counts (k, C) of each class."""
    there = rows > 0
    f1 = 2 * hits / np.maximum(rows + columns, 1)
    means: npt.NDArray[np.float64] = (f1 * there).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return means


def _bootstrap(confusion: PairCounts) -> Interval:
    """The interval of macro F1; drawing rows again is drawing cells of the confusion matrix."""
    row, column, count = cells(confusion)
    n, C = int(count.sum()), confusion.shape[0]
    places, ones = np.arange(len(count)), np.ones(len(count), dtype=np.int64)
    shape = (C, len(count))
    sides = [
        sparse.csr_matrix((values, (side, places)), shape)
        for side, values in ((row, ones * (row == column)), (row, ones), (column, ones))
    ]
    random, scores, most = np.random.default_rng(0), [], max(1, BLOCK // max(shape))
    for start in range(0, RESAMPLED, most):
        size = min(most, RESAMPLED - start)
        drawn = random.multinomial(n, count / n, size=size).T  # (cells, size)
        scores.append(_mean_f1(*((side @ drawn).T for side in sides)))
    low, high = np.quantile(np.concatenate(scores), [0.05, 0.95])
    return float(low), float(high)


def _class_scores(names: Sequence[str], confusion: PairCounts) -> Sequence[ClassEvaluation]:
    hits, rows, predicted = confusion.diagonal(), pair_sums(confusion, 1), pair_sums(confusion, 0)
    scores = []
    for name, hit, row, column in zip(names, hits, rows, predicted, strict=True):
        recall = float(hit / max(row, 1))
        scores.append(
            ClassEvaluation(
                name,
                int(row),
                float(hit / max(column, 1)),
                recall,
                wilson(recall, row) if row else (0.0, 1.0),
                float(2 * hit / max(row + column, 1)),
            )
        )
    return scores
