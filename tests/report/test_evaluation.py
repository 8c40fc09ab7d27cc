"""Oracles: scikit-learn's metrics, Wilson's interval, how often an interval covers the truth."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

import linkdist
from linkdist.data.graph import UNKNOWN
from linkdist.report.evaluation import Evaluator, macro_f1
from linkdist.training.measures import wilson as interval

NAMES = ("art", "math", "law")


def case(seed, n=200):
    """Labels, a tenth of them unknown, and probabilities that know them a little."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    p = random.dirichlet(np.full(3, 0.7), n) + 0.4 * np.eye(3)[y]
    return np.where(random.random(n) < 0.1, UNKNOWN, y), p / p.sum(axis=1, keepdims=True)


def evaluate(*parts, names=NAMES):
    evaluator = Evaluator(names)
    for y, p in parts:
        evaluator.add(y, p)
    return evaluator.result()


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_scikit_learn(seed):
    y, p = case(seed)
    found, known = evaluate((y, p)), y != UNKNOWN
    y, p = y[known], p[known]
    best = p.argmax(axis=1)
    assert (found.rows, found.unlabelled) == (len(y), int((~known).sum()))
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y, best))
    assert found.macro_f1 == pytest.approx(metrics.f1_score(y, best, average="macro"))
    assert found.log_loss == pytest.approx(metrics.log_loss(y, p), rel=1e-6)
    assert np.array_equal(found.confusion, metrics.confusion_matrix(y, best))
    expected = metrics.precision_recall_fscore_support(y, best)
    rows = [(one.precision, one.recall, one.f1, one.rows) for one in found.classes]
    np.testing.assert_allclose(rows, np.transpose(expected))


def test_the_calibration_error_is_the_mean_gap_in_ten_bins():
    y, p = case(3)
    known = y != UNKNOWN
    right, sure = (p.argmax(1) == y)[known], p.max(1)[known]
    bins = np.minimum(np.floor(sure * 10), 9)
    gaps = [np.mean(bins == i) * abs(np.mean((right - sure)[bins == i])) for i in set(bins)]
    assert evaluate((y, p)).calibration_error == pytest.approx(sum(gaps))


@given(st.lists(st.integers(0, 200), max_size=5))
def test_batches_give_the_scores_of_one_call(cuts):
    y, p = case(0)
    parts = zip(np.split(y, sorted(cuts)), np.split(p, sorted(cuts)), strict=True)
    found, whole = evaluate(*parts).as_json(), evaluate((y, p)).as_json()
    for name in ("log_loss", "log_loss_interval", "calibration_error"):  # sums of floats
        assert found.pop(name) == pytest.approx(whole.pop(name))
    assert found == whole


def test_classes_without_rows_are_left_out_of_macro_f1():
    y, p = np.array([0, 0, 1, 1]), np.eye(3)[[0, 0, 1, 2]]
    found = evaluate((y, p))
    expected = metrics.f1_score(y, p.argmax(1), average="macro", labels=[0, 1], zero_division=0)
    assert found.macro_f1 == pytest.approx(expected)
    assert found.classes[2].recall_interval == (0.0, 1.0)
    assert macro_f1(np.zeros((3, 3), dtype=int)) == 0.0


def test_a_confident_mistake_has_a_finite_loss():
    found = evaluate((np.array([0]), np.array([[0.0, 1.0, 0.0]])))
    assert np.isfinite([found.log_loss, *found.log_loss_interval]).all()
    assert json.loads(json.dumps(found.as_json()))["accuracy"] == 0.0


def test_accuracy_and_recall_have_wilsons_interval():
    found = evaluate(case(1))
    assert found.accuracy_interval == interval(found.accuracy, found.rows)
    for one in found.classes:
        assert one.recall_interval == interval(one.recall, one.rows)
        assert one.recall_interval[0] <= one.recall <= one.recall_interval[1]


def test_intervals_cover_the_truth_about_nine_times_in_ten():
    """Samples of a large population; 300 of them are 0.9 up to 0.04 with a high probability."""
    y, p = case(4, n=50_000)
    truth, random = evaluate((y, p)), np.random.default_rng(0)
    covered = np.zeros(3)
    for _ in range(300):
        rows = random.integers(0, len(y), 250)
        found = evaluate((y[rows], p[rows]))
        for i, name in enumerate(("accuracy", "macro_f1", "log_loss")):
            low, high = getattr(found, f"{name}_interval")
            covered[i] += low <= getattr(truth, name) <= high
    assert covered / 300 == pytest.approx(0.9, abs=0.05)


def test_a_large_table_is_evaluated_in_the_memory_of_a_small_one(tmp_path):
    nodes = {"id": range(8), "x": np.arange(8.0), "y": ["a", "b"] * 4}
    links = {"from": [0, 1], "to": [2, 3]}
    options = {"method": "linkdist", "epochs": 1, "held_out": 0, "device": "cpu"}
    model = linkdist.train(nodes, links, id="id", label="y", **options)
    peaks = {}
    for n in (10_000, 10_000, 80_000):  # the first time, modules are loaded
        table = pa.table({"x": np.arange(n) % 8.0, "y": ["a", "b"] * (n // 2)})
        path = tmp_path / f"{n}.parquet"
        pyarrow.parquet.write_table(table, path, row_group_size=10_000)
        del table
        tracemalloc.start()
        assert model.evaluate(path).rows == n
        peaks[n] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks[80_000] < 1.2 * peaks[10_000]
