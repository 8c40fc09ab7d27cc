"""Oracles: scikit-learn, Wilson's interval, and how often an interval covers the truth."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from sklearn import metrics

from linkdist.data.graph import UNKNOWN
from linkdist.errors import OptionError
from linkdist.report import evaluation, task_evaluation
from linkdist.report.evaluation import Evaluator, make_evaluator
from linkdist.report.row_sample import RowSample
from linkdist.report.task_evaluation import MultilabelEvaluator, RegressionEvaluator
from linkdist.training.decisions import class_factors
from linkdist.training.measures import measure_for, wilson

LABELS = ("even", "big", "loop")
THRESHOLDS = np.array([0.3, 0.5, 0.6])


def numbers(seed=0, n=400, at=0.0):
    """True numbers, a tenth of them unknown, and predictions with intervals."""
    random = np.random.default_rng(seed)
    y = at + random.gamma(2.0, 3.0, n)
    p = y + random.standard_t(5, n) + 0.3
    return np.where(random.random(n) < 0.1, np.nan, y), p, p - 2, p + 2


def labels(seed=0, n=400):
    random = np.random.default_rng(seed)
    y = (random.random((n, 3)) < [0.5, 0.3, 0.1]).astype(np.int64)
    p = special.expit(2 * y - 1 + random.normal(size=(n, 3)))
    return np.where(random.random((n, 1)) < 0.1, UNKNOWN, y), p


def two_classes(seed=0, n=400, share=0.1):
    random = np.random.default_rng(seed)
    y = (random.random(n) < share).astype(np.int64)
    p = special.expit(2 * y - 2 + random.normal(size=n))
    return np.where(random.random(n) < 0.1, UNKNOWN, y), np.stack([1 - p, p], axis=1)


def evaluated(evaluator, *parts):
    for part in parts:
        evaluator.add(*part)
    return evaluator.result()


def batches(columns, cuts):
    return zip(*(np.split(column, sorted(cuts)) for column in columns), strict=True)


def assert_same(found, expected):
    """Sums of floats in another order differ in the last digits."""
    assert found.keys() == expected.keys()
    for key, value in found.items():
        if isinstance(value, float | tuple) and key != "labels":
            assert value == pytest.approx(expected[key], rel=1e-6)


# Numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0.0, 1e6])
def test_scores_of_numbers_are_those_of_scikit_learn(at):
    y, p, low, high = numbers(at=at)
    found = evaluated(RegressionEvaluator(), (y, p[:, None], low, high))
    known = ~np.isnan(y)
    y, p = y[known], p[known]
    assert (found.rows, found.unlabelled) == (len(y), int((~known).sum()))
    assert found.r2 == pytest.approx(metrics.r2_score(y, p), rel=1e-6)
    assert found.mae == pytest.approx(metrics.mean_absolute_error(y, p))
    assert found.rmse == pytest.approx(metrics.root_mean_squared_error(y, p))
    assert found.bias == pytest.approx(np.mean(p - y))
    assert found.coverage == np.mean(np.abs(p - y) <= 2)
    assert found.coverage_interval == wilson(found.coverage, len(y))
    assert found.width == pytest.approx(4)


@given(st.lists(st.integers(0, 400), max_size=5))
def test_batches_of_numbers_give_the_scores_of_one_call(cuts):
    rows = numbers()
    found = evaluated(RegressionEvaluator(), *batches(rows, cuts))
    assert_same(found.as_json(), evaluated(RegressionEvaluator(), rows).as_json())


def test_intervals_of_numbers_cover_the_truth_about_nine_times_in_ten():
    y = numbers(n=50_000)[0]
    p = y + np.random.default_rng(1).normal(0.3, 1, len(y))  # light tails, as the sums assume
    truth, random = evaluated(RegressionEvaluator(), (y, p)), np.random.default_rng(0)
    covered = dict.fromkeys(("r2", "mae", "rmse", "bias"), 0)
    for _ in range(300):
        rows = random.integers(0, len(y), 200)
        found = evaluated(RegressionEvaluator(), (y[rows], p[rows]))
        for name in covered:
            low, high = getattr(found, f"{name}_interval")
            covered[name] += low <= getattr(truth, name) <= high
    assert np.array(list(covered.values())) / 300 == pytest.approx(0.9, abs=0.05)


def test_intervals_from_sums_agree_with_the_bootstrap():
    y, p, *_ = numbers(n=2000)
    found = evaluated(RegressionEvaluator(), (y, p))
    for name in ("r2", "mae"):
        ends = getattr(found, f"{name}_interval")
        expected = measure_for("regression", name).interval(p, y)
        assert ends == pytest.approx(expected, abs=0.15 * (expected[1] - expected[0]))


def test_scores_that_are_not_defined_are_none_in_json():
    same = evaluated(RegressionEvaluator(), (np.full(5, 0.1), np.arange(5.0)))
    assert np.isnan(same.r2)
    assert "R²                undefined" in str(same)
    one = evaluated(RegressionEvaluator(), (np.array([0.1]), np.array([0.4])))
    assert "MAE               0.3\n" in str(one)
    perfect = evaluated(RegressionEvaluator(), (np.arange(5.0), np.arange(5.0)))
    assert (perfect.r2, perfect.mae_interval) == (1.0, (0.0, 0.0))
    endless = evaluated(
        RegressionEvaluator(), (np.ones(3), np.ones(3), np.full(3, -np.inf), np.full(3, np.inf))
    )
    assert endless.coverage == 1
    for found in (same, one, perfect, endless):
        json.dumps(found.as_json(), allow_nan=False)


def test_numbers_are_printed_as_a_table():
    y, p, low, high = numbers()
    shown = str(evaluated(RegressionEvaluator(0.8), (1e5 * y, 1e5 * p, 1e5 * low, 1e5 * high)))
    lines = shown.splitlines()
    assert [line[:18].rstrip() for line in lines[1:]] == [
        "R²", "MAE", "RMSE", "bias", "coverage", "mean width",
    ]  # fmt: skip
    assert "for 80 %" in lines[5]
    assert lines[6].endswith("400,000")


# Several labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("thresholds", [None, THRESHOLDS])
def test_scores_of_labels_are_those_of_scikit_learn(thresholds):
    y, p = labels()
    found = evaluated(MultilabelEvaluator(LABELS, thresholds), (y, p))
    known = (y != UNKNOWN).all(axis=1)
    y, predicted = y[known], p[known] >= (0.5 if thresholds is None else thresholds)
    assert (found.rows, found.unlabelled) == (len(y), int((~known).sum()))
    assert found.micro_f1 == pytest.approx(metrics.f1_score(y, predicted, average="micro"))
    assert found.macro_f1 == pytest.approx(metrics.f1_score(y, predicted, average="macro"))
    expected = metrics.precision_recall_fscore_support(y, predicted, zero_division=0)
    rows = [(one.precision, one.recall, one.f1, one.rows) for one in found.labels]
    np.testing.assert_allclose(rows, np.transpose(expected))
    for one in found.labels:
        assert one.recall_interval == wilson(one.recall, one.rows)


def test_intervals_of_labels_are_those_of_the_measures():
    y, p = labels()
    found = evaluated(MultilabelEvaluator(LABELS, THRESHOLDS), (y, p))
    for name in ("micro", "macro"):
        measure = measure_for("multilabel", f"{name}-f1", THRESHOLDS)
        assert getattr(found, f"{name}_f1_interval") == pytest.approx(measure.interval(p, y))


def test_a_sample_gives_the_intervals_of_many_rows(monkeypatch):
    y, p = labels(n=20_000)
    whole = evaluated(MultilabelEvaluator(LABELS), (y, p))
    monkeypatch.setattr(task_evaluation, "SAMPLE", 2000)
    part = evaluated(MultilabelEvaluator(LABELS), *batches((y, p), range(0, 20_000, 700)))
    assert part.micro_f1 == whole.micro_f1
    for name in ("micro_f1_interval", "macro_f1_interval"):
        low, high = getattr(whole, name)
        assert getattr(part, name) == pytest.approx((low, high), abs=0.2 * (high - low))


@given(st.lists(st.integers(0, 400), max_size=5))
def test_batches_of_labels_give_the_scores_of_one_call(cuts):
    rows = labels()
    found = evaluated(MultilabelEvaluator(LABELS), *batches(rows, cuts))
    assert found == evaluated(MultilabelEvaluator(LABELS), rows)


def test_labels_without_rows_are_left_out():
    y, p = np.array([[1, 0], [0, 0]]), np.array([[0.9, 0.8], [0.1, 0.2]])
    found = evaluated(MultilabelEvaluator(["a", "b"]), (y, p))
    assert (found.micro_f1, found.macro_f1) == (pytest.approx(2 / 3), 1.0)
    assert found.labels[1].recall_interval == (0.0, 1.0)
    nothing = evaluated(MultilabelEvaluator(["a", "b"]), (0 * y, 0 * p))
    assert np.isnan([nothing.micro_f1, nothing.macro_f1]).all()
    assert "macro F1          undefined" in str(nothing)
    json.dumps(nothing.as_json(), allow_nan=False)


def test_labels_are_printed_as_a_table():
    y, p = labels()
    lines = str(evaluated(MultilabelEvaluator(LABELS, THRESHOLDS), (y, p))).splitlines()
    assert lines[1].startswith("micro F1          0.")
    assert lines[3].split()[:5] == ["label", "rows", "threshold", "precision", "recall"]
    assert [line.split()[2] for line in lines[4:]] == ["0.300", "0.500", "0.600"]
    assert len({len(line) for line in lines[4:]}) == 1


# Two classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.9, 0.5])
def test_the_ranking_of_two_classes_is_that_of_scikit_learn(share):
    y, p = two_classes(share=share)
    found = evaluated(Evaluator(["no", "yes"]), (y, p)).ranking
    y, p = y[y != UNKNOWN], p[y != UNKNOWN]
    rare = int((y == 1).sum() <= (y == 0).sum())
    assert found.positive == ["no", "yes"][rare]
    assert found.share == np.mean(y == rare)
    assert found.roc_auc == pytest.approx(metrics.roc_auc_score(y, p[:, 1]))
    average = metrics.average_precision_score(y == rare, p[:, rare])
    assert found.average_precision == pytest.approx(average)
    for name in ("roc-auc", "average-precision"):
        expected = measure_for("classification", name).interval(p, y)
        assert getattr(found, f"{name.replace('-', '_')}_interval") == pytest.approx(expected)


def test_only_two_classes_have_added_lines():
    y, p = two_classes()
    two = evaluated(Evaluator(["no", "yes"]), (y, p))
    lines = str(two).splitlines()
    assert lines[4].startswith("ROC AUC           0.")
    assert lines[5].startswith("average precision 0.")
    assert lines[5].endswith(f", of 'yes', {100 * two.ranking.share:.1f} % of the rows")
    assert two.as_json()["ranking"]["roc_auc"] == two.ranking.roc_auc
    three = evaluated(Evaluator(["no", "yes", "?"]), (y, np.hstack([p, 0 * p[:, :1]])))
    kept = [line for line in lines if not line.startswith(("ROC", "average"))]
    assert str(three).splitlines()[:-1] == kept
    assert "ranking" not in three.as_json()
    one = evaluated(Evaluator(["no", "yes"]), (np.zeros_like(y), p))
    assert one.ranking is None


def test_a_sample_ranks_many_rows(monkeypatch):
    y, p = two_classes(n=30_000)
    whole = evaluated(Evaluator(["no", "yes"]), (y, p)).ranking
    monkeypatch.setattr(evaluation, "RANKED", 10_000)
    part = evaluated(Evaluator(["no", "yes"]), *batches((y, p), range(0, 30_000, 999))).ranking
    low, high = part.roc_auc_interval
    assert low < whole.roc_auc < high
    assert high - low == pytest.approx(3**0.5 * np.ptp(whole.roc_auc_interval), rel=0.2)


def test_factors_decide_the_predicted_class():
    y, p = two_classes(n=4000)
    plain = evaluated(Evaluator(["no", "yes"]), (y, p))
    factors = class_factors(p, y)
    found = evaluated(make_evaluator("classification", ["no", "yes"], factors=factors), (y, p))
    known = y != UNKNOWN
    predicted = (p * factors).argmax(axis=1)[known]
    assert found.macro_f1 == pytest.approx(metrics.f1_score(y[known], predicted, average="macro"))
    assert found.macro_f1 > plain.macro_f1
    assert (found.log_loss, found.ranking) == (plain.log_loss, plain.ranking)


def test_each_task_has_its_evaluator():
    assert isinstance(make_evaluator("classification", ["a", "b"]), Evaluator)
    assert isinstance(make_evaluator("regression", ["margin"]), RegressionEvaluator)
    assert isinstance(make_evaluator("multilabel", LABELS), MultilabelEvaluator)
    with pytest.raises(OptionError, match="unknown task 'regresion' \\(near: regression"):
        make_evaluator("regresion", ["margin"])


# Samples of rows ----------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 12), max_size=12), st.integers(1, 20))
def test_a_sample_does_not_depend_on_batches(sizes, most):
    total = sum(sizes) + 1
    whole, parts = RowSample(most), RowSample(most)
    whole.add(np.arange(total))
    for rows in np.split(np.arange(total), np.cumsum(sizes)):
        parts.add(rows)
    assert np.array_equal(whole.columns()[0], parts.columns()[0])
    assert len(parts.columns()[0]) == min(total, most)


def test_a_sample_is_uniform():
    sample = RowSample(10_000)
    for start in range(0, 100_000, 5000):
        sample.add(np.arange(start, start + 5000), np.arange(start, start + 5000) % 7)
    rows, rest = sample.columns()
    assert np.array_equal(rows % 7, rest)
    assert rows.mean() == pytest.approx(50_000, rel=0.02)
    assert np.histogram(rows, 10, (0, 100_000))[0] == pytest.approx(1000, rel=0.12)
