"""Oracles: scikit-learn's metrics, repeated rows, Wilson and McNemar, and how
often an interval covers the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from sklearn import metrics

from linkdist.data.graph import UNKNOWN
from linkdist.errors import OptionError
from linkdist.training import measures
from linkdist.training.measures import F1, MEASURES, mcnemar, measure_for, wilson

ALL = [(task, one.name) for task, found in MEASURES.items() for one in found]


def case(task, seed=0, n=300, C=3, share=None, noise=1.0):
    """Predictions that know the labels a little, and the labels."""
    random = np.random.default_rng(seed)
    if task == "regression":
        y = random.normal(size=n) + 3
        return (y + noise * random.normal(size=n))[:, None], y
    if task == "multilabel":
        y = (random.random((n, C)) < np.linspace(0.1, 0.6, C)).astype(np.int64)
        return special.expit(2 * y - 1.5 + noise * random.normal(size=(n, C))), y
    y = random.choice(C, n, p=share)
    return special.softmax(1.5 * np.eye(C)[y] + noise * random.normal(size=(n, C)), axis=1), y


def expected(task, name, p, y):
    """The score by scikit-learn."""
    if task == "regression":
        by = {"r2": metrics.r2_score, "mae": metrics.mean_absolute_error}[name]
        return by(y, p[:, 0])
    if task == "multilabel":
        if name.endswith("f1"):
            return metrics.f1_score(y, p >= 0.5, average=name[:5], zero_division=0)
        by = metrics.roc_auc_score if name == "roc-auc" else metrics.average_precision_score
        return by(y, p, average="macro")
    if name == "accuracy":
        return metrics.accuracy_score(y, p.argmax(axis=1))
    if name == "macro-f1":
        return metrics.f1_score(y, p.argmax(axis=1), average="macro", labels=np.unique(y))
    by = metrics.roc_auc_score if name == "roc-auc" else metrics.average_precision_score
    if p.shape[1] == 2:
        rare = int((y == 1).sum() <= (y == 0).sum())
        return by(y == rare, p[:, rare])
    return np.mean([by(y == c, p[:, c]) for c in np.unique(y)])


@pytest.mark.parametrize(("task", "name"), ALL)
@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_scikit_learn(task, name, seed):
    p, y = case(task, seed)
    assert measure_for(task, name).value(p, y) == pytest.approx(expected(task, name, p, y))


@pytest.mark.parametrize("name", ["roc-auc", "average-precision"])
@pytest.mark.parametrize("share", [(0.1, 0.9), (0.9, 0.1), (0.5, 0.5)])
def test_the_rarer_of_two_classes_is_ranked(name, share):
    for seed in range(3):
        p, y = case("classification", seed, C=2, share=share)
        found = measure_for("classification", name).value(p, y)
        assert found == pytest.approx(expected("classification", name, p, y))
    even = np.array([0, 1, 0, 1])
    p = np.array([[0.2, 0.8], [0.4, 0.6], [0.6, 0.4], [0.9, 0.1]])
    found = measure_for("classification", "average-precision").value(p, even)
    assert found == pytest.approx(metrics.average_precision_score(even, p[:, 1]))


@given(
    st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=2, max_size=40),
    st.sampled_from(["roc-auc", "average-precision"]),
)
def test_ties_are_ranked_as_by_scikit_learn(rows, name):
    score, y = np.array(rows).T
    p = np.stack([1 - score / 8, score / 8], axis=1)
    found = measure_for("classification", name).value(p, y)
    if len(np.unique(y)) < 2:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(expected("classification", name, p, y))


def test_classes_that_do_not_occur_are_left_out():
    p, y = case("classification", C=5)
    y = np.minimum(y, 2)  # classes 3 and 4 are predicted, but no row has them
    for name in ("macro-f1", "roc-auc", "average-precision"):
        found = measure_for("classification", name).value(p, y)
        assert found == pytest.approx(expected("classification", name, p, y))
    p, y = case("multilabel")
    wide, more = np.hstack([p, p[:, :2]]), np.hstack([y, np.zeros((len(y), 1), int), y[:, :1] | 1])
    for name in ("roc-auc", "average-precision"):  # a label of no row, and one of all rows
        measure = measure_for("multilabel", name)
        assert measure.value(wide, more) == pytest.approx(measure.value(p, y))


def test_thresholds_decide_labels():
    p, y = case("multilabel")
    thresholds = np.array([0.2, 0.5, 0.8])
    for name in ("micro-f1", "macro-f1"):
        found = measure_for("multilabel", name, thresholds).value(p, y)
        assert found == pytest.approx(metrics.f1_score(y, p >= thresholds, average=name[:5]))
    assert measure_for("multilabel", None, thresholds) == measure_for(
        "multilabel", None, thresholds
    )


@pytest.mark.parametrize(("task", "name"), ALL)
def test_weights_are_repeated_rows(task, name):
    """A bootstrap sample has the score of a table in which its rows are repeated."""
    p, y = case(task, n=40)
    weights = np.random.default_rng(1).integers(0, 3, (4, 40)).astype(float)
    measure = measure_for(task, name)
    found = measure.scores(p, y, weights)
    for score, w in zip(found, weights.astype(int), strict=True):
        assert score == pytest.approx(measure.value(p.repeat(w, axis=0), y.repeat(w, axis=0)))


@pytest.mark.parametrize(("task", "name"), ALL)
def test_rows_without_a_label_are_left_out(task, name):
    p, y = case(task)
    measure, hidden = measure_for(task, name), y.copy()
    hidden[::3] = np.nan if task == "regression" else UNKNOWN
    known = np.arange(len(y)) % 3 > 0
    assert measure.value(p, hidden) == measure.value(p[known], y[known])
    assert measure.interval(p, hidden) == measure.interval(p[known], y[known])


def test_accuracy_has_wilsons_interval_and_mcnemars_test():
    p, y = case("classification")
    measure = measure_for("classification")
    for n in (None, 40.5, 300):
        found = measure.interval(p, y, n)
        assert found == wilson(measure.value(p, y), n or len(y))
    signs = set()
    for seed in range(40):
        random = np.random.default_rng(seed)
        other = (
            p + random.normal(size=p.shape) * random.random() - 0.2 * random.random() * y[:, None]
        )
        hits = [q.argmax(axis=1) == y for q in (p, other)]
        assert measure.compare(p, other, y) == mcnemar(*hits)
        signs.add(measure.compare(p, other, y))
    assert len(signs) > 1


@pytest.mark.parametrize(("task", "name"), ALL)
def test_intervals_contain_the_value_and_widen_with_fewer_effective_rows(task, name):
    p, y = case(task)
    measure = measure_for(task, name)
    low, high = measure.interval(p, y)
    assert low < measure.value(p, y) < high
    assert measure.interval(p, y) == (low, high)  # the seed is fixed
    wide = measure.interval(p, y, n=75)
    assert wide[1] - wide[0] == pytest.approx(2 * (high - low), rel=0.1)
    if measure.percent:
        assert 0 <= wide[0] < wide[1] <= 1


@pytest.mark.parametrize(
    ("task", "name", "n"),
    [
        ("classification", "macro-f1", 150),
        ("classification", "roc-auc", 150),
        ("classification", "average-precision", 150),
        ("multilabel", "micro-f1", 100),
        ("multilabel", "macro-f1", 200),
        ("regression", "r2", 100),
        ("regression", "mae", 100),
    ],
)
def test_intervals_cover_the_truth_about_nine_times_in_ten(task, name, n):
    p, y = case(task, seed=7, n=50_000)
    measure, random = measure_for(task, name), np.random.default_rng(0)
    truth, covered = measure.value(p, y), 0
    for _ in range(300):
        rows = random.integers(0, len(y), n)
        low, high = measure.interval(p[rows], y[rows])
        covered += low <= truth <= high
    assert covered / 300 == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(("task", "name"), [one for one in ALL if one[1] != "accuracy"])
def test_comparisons_are_paired(task, name):
    """Noise that both share does not hide a difference; equal models rarely differ."""
    measure, signs = measure_for(task, name), []
    for seed in range(30):
        p, y = case(task, seed, n=150)
        random = np.random.default_rng(seed + 1000)
        one, other = (p + 0.2 * random.normal(size=p.shape) for _ in range(2))
        signs.append(measure.compare(one, other, y))
    assert np.abs(signs).mean() < 0.25
    random = np.random.default_rng(5)
    worse = p + 2 * random.normal(size=p.shape)
    assert measure.compare(p, worse, y) == 1
    assert measure.compare(worse, p, y) == -1
    assert measure.compare(p, p, y) == 0


@pytest.mark.parametrize(("task", "name"), ALL)
def test_undefined_values_are_nan(task, name):
    measure = measure_for(task, name)
    p, y = case(task, n=6)
    assert np.isnan(measure.value(p[:0], y[:0]))
    assert np.isnan(measure.interval(p[:0], y[:0])).all()
    if name in ("roc-auc", "average-precision", "r2"):
        same = np.zeros_like(y) + y[:1]
        assert np.isnan(measure.value(p, same))
        assert np.isnan(measure.interval(p, same)).all()
        assert measure.compare(p, p[::-1], same) == 0
    if name != "accuracy":
        for bad in (np.nan, np.inf, 1e200):
            broken = np.where(np.arange(6)[:, None] == 2, bad, p)
            value, ends = measure.value(broken, y), measure.interval(broken, y)
            assert np.isnan(value) == (bad != 1e200) or name != "mae"
            assert np.isnan(ends).all() or not np.isnan(value)


def test_a_row_of_nan_is_wrong():
    measure = measure_for("classification")
    p, y = np.array([[np.nan, np.nan], [0.9, 0.1]]), np.array([0, 0])
    assert measure.value(p, y) == 0.5
    assert measure.interval(p, y) == wilson(0.5, 2)


def test_perfect_predictions_of_few_rows_are_not_certain():
    """All resamples agree where nothing is wrong; the interval must not be a point."""
    y = np.array([0] * 1000 + [1] * 3)
    p = np.eye(2)[y]
    for name in ("macro-f1", "roc-auc", "average-precision"):
        low, high = measure_for("classification", name).interval(p, y)
        assert low == pytest.approx(wilson(1, 12)[0], abs=0.01)
        assert high == 1
    one = np.arange(1001) == 500
    score = np.linspace(0, 1, 1001)
    low, high = measure_for("classification", "roc-auc").interval(
        np.stack([1 - score, score], axis=1), one.astype(int)
    )
    assert high - low > 0.5  # a single positive row in the middle


def test_few_rows_prove_nothing():
    y = np.array([1.0, 2, 3, 4])
    measure = measure_for("regression")
    assert measure.compare(y + 0.01, y + 5, y) == 0
    y = np.arange(40.0)
    assert measure.compare(y + 0.01, y + 5, y) == 1


def test_a_part_of_many_rows_gives_the_interval_of_all(monkeypatch):
    p, y = case("classification", n=20_000, C=2)
    measure = measure_for("classification", "roc-auc")
    whole = measure.interval(p, y)
    monkeypatch.setattr(measures, "MOST_ROWS", 4000)
    assert measure.interval(p, y) == pytest.approx(whole, abs=0.1 * (whole[1] - whole[0]))


def test_the_measure_of_a_task():
    names = {task: measure_for(task).name for task in MEASURES}
    assert names == {"classification": "accuracy", "regression": "r2", "multilabel": "micro-f1"}
    assert [one.name for one in MEASURES["regression"] if not one.higher_is_better] == ["mae"]
    assert not any(one.percent for one in MEASURES["regression"])
    assert isinstance(measure_for("multilabel", "macro-f1"), F1)
    with pytest.raises(OptionError, match="unknown metric for multilabel 'accuracy'; choose from"):
        measure_for("multilabel", "accuracy")
    with pytest.raises(OptionError, match="unknown task 'ranking'"):
        measure_for("ranking")
