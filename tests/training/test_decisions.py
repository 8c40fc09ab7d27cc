"""Oracles: brute force over thresholds and factors, the quantile of split conformal prediction and
its coverage, scikit-learn's precision-recall curve."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from sklearn import metrics

from linkdist.data.graph import UNKNOWN
from linkdist.training.decisions import (
    LOG_FACTORS,
    PRIOR,
    class_factors,
    conformal_width,
    label_thresholds,
    operating_point,
    operating_points,
)
from linkdist.training.measures import measure_for


def soft_f1(p, truth, predicted):
    """F1 of labels that are mixed with the probabilities, which count as PRIOR labels."""
    share = PRIOR / (PRIOR + truth.sum())
    soft = (1 - share) * truth + share * p
    return 2 * soft[predicted].sum() / (soft.sum() + predicted.sum())


@given(
    st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=30),
    st.booleans(),
)
def test_thresholds_are_those_of_brute_force(rows, fine):
    score, truth = np.array(rows).T
    p = score / 20 if not fine else special.expit(score - 10 + 0.1)
    found = float(label_thresholds(p[:, None], truth[:, None])[0])
    if not truth.any():
        assert found == 0.5
        return
    tried = {t: soft_f1(p, truth, p >= t) for t in (*np.linspace(0, 1, 501), *p)}
    best = max(tried.values())
    assert soft_f1(p, truth, p >= found) == pytest.approx(best)
    if soft_f1(p, truth, p >= 0.5) == pytest.approx(best):
        assert found == 0.5


def test_many_rows_give_the_threshold_of_their_labels_and_few_that_of_the_model():
    random = np.random.default_rng(0)
    p = random.random(5000)
    labels = (random.random(5000) < p**3).astype(int)  # the model is too sure
    found = label_thresholds(p[:, None], labels[:, None])
    hard = [metrics.f1_score(labels, p >= t) for t in np.linspace(0.02, 0.98, 97)]
    assert metrics.f1_score(labels, p >= found[0]) >= max(hard) - 0.003
    few = label_thresholds(np.linspace(0.05, 0.5, 10)[:, None], np.eye(10, dtype=int)[:1].T)
    assert 0.1 < few[0] < 0.5  # the hard optimum is to predict the label of every row


def test_unknown_rows_change_no_rule():
    random = np.random.default_rng(1)
    p = random.random((60, 3))
    labels = (random.random((60, 3)) < p).astype(int)
    classes = labels.argmax(axis=1)
    more = np.concatenate([p, random.random((5, 3))])
    hidden = np.concatenate([labels, np.full((5, 3), UNKNOWN)])
    assert np.array_equal(label_thresholds(more, hidden), label_thresholds(p, labels))
    hidden = np.concatenate([classes, np.full(5, UNKNOWN)])
    assert np.array_equal(class_factors(more, hidden), class_factors(p, classes))


def soft_macro_f1(p, y, factors):
    predicted = (p * factors).argmax(axis=1)
    return np.mean([soft_f1(p[:, c], y == c, predicted == c) for c in np.unique(y)])


def classes_case(seed, share, n=200):
    random = np.random.default_rng(seed)
    y, C = random.choice(len(share), n, p=share), len(share)
    scores = random.normal(size=(n, C)) + 1.2 * np.eye(C)[y] + 0.7 * np.log(share)
    return special.softmax(scores, axis=1), y


@pytest.mark.parametrize("seed", range(5))
def test_factors_of_two_classes_are_those_of_brute_force(seed):
    p, y = classes_case(seed, (0.9, 0.1))
    factors = class_factors(p, y)
    pairs = itertools.product(np.exp(LOG_FACTORS), repeat=2)
    best = max(soft_macro_f1(p, y, np.array(pair)) for pair in pairs)
    assert soft_macro_f1(p, y, factors) == pytest.approx(best, abs=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_no_single_factor_improves_further(seed):
    p, y = classes_case(seed, (0.7, 0.15, 0.1, 0.05))
    factors = class_factors(p, y)
    found = soft_macro_f1(p, y, factors)
    assert found >= soft_macro_f1(p, y, np.ones(4))
    for c, factor in itertools.product(range(4), np.exp(LOG_FACTORS)):
        other = factors.copy()
        other[c] = factor
        assert soft_macro_f1(p, y, other) <= found + 1e-8


def test_factors_improve_macro_f1_of_other_rows():
    p, y = classes_case(0, (0.93, 0.04, 0.03), n=2000)
    q, z = classes_case(1, (0.93, 0.04, 0.03), n=5000)
    measure = measure_for("classification", "macro-f1")
    assert measure.value(q * class_factors(p, y), z) > measure.value(q, z) + 0.02


def test_classes_with_few_rows_keep_the_factor_one():
    p, y = classes_case(2, (0.6, 0.3, 0.1))
    y[y == 2] = 0
    y[:2] = 2
    assert class_factors(p, y)[2] == 1
    assert class_factors(p, np.zeros(len(y), dtype=int)).tolist() == [1, 1, 1]
    assert class_factors(p[:0], y[:0]).tolist() == [1, 1, 1]


@given(
    st.lists(st.floats(-1e6, 1e6), max_size=60), st.sampled_from([0.5, 0.7, 0.8, 0.9, 0.95, 0.99])
)
def test_the_width_is_the_conformal_quantile(residuals, coverage):
    found = conformal_width(np.array(residuals), coverage)
    N = len(residuals)
    inside = (np.abs(residuals) <= found).sum() if residuals else 0
    if np.isinf(found):
        assert (N + 1) * coverage > N
    else:
        assert inside >= (N + 1) * coverage - 1e-6
        assert (np.abs(residuals) < found).sum() < (N + 1) * coverage
    assert conformal_width(np.array([*residuals, np.nan]), coverage) == found


def test_intervals_of_new_rows_contain_the_truth():
    random, inside = np.random.default_rng(0), []
    for _ in range(500):
        errors = random.standard_t(3, 40)
        inside.append((np.abs(random.standard_t(3, 50)) <= conformal_width(errors, 0.9)).mean())
    assert 0.9 <= np.mean(inside) < 0.92  # 37 / 41 is 0.902


def points_case(n=3000, share=0.05):
    random = np.random.default_rng(0)
    y = (random.random(n) < share).astype(int)
    return special.expit(2 * y - 3 + random.normal(size=n)), y


def test_operating_points_lie_on_the_precision_recall_curve():
    p, y = points_case()
    precision, recall, thresholds = metrics.precision_recall_curve(y, p)
    curve = {t: (a, b) for t, a, b in zip(thresholds, precision, recall, strict=False)}
    points = operating_points(p, y)
    assert len(points) <= 50
    for point in points:
        assert curve[point.threshold] == pytest.approx((point.precision, point.recall))
        assert point.share == pytest.approx(np.mean(p >= point.threshold))
        assert operating_point(p, y, point.threshold) == pytest.approx(point)
    recalls = [point.recall for point in points]
    assert recalls == sorted(recalls)
    assert recalls[-1] == 1
    assert np.diff(recalls).max() < 0.04


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30))
def test_all_thresholds_are_kept_if_they_are_few(rows):
    score, y = np.array(rows, dtype=int).reshape(-1, 2).T
    points = operating_points(score / 9, y)
    assert [point.threshold for point in points] == sorted(set(score[y == 1] / 9), reverse=True)
    assert not points or points[-1].recall == 1


def test_points_are_thinned_to_any_number():
    p, y = points_case(n=60_000)
    assert [len(operating_points(p, y, most)) for most in (2, 10, 50)] == [2, 10, 50]
    assert operating_points(p, np.zeros_like(y)) == []
    assert operating_point(p, y, 2.0)[1:] == (1.0, 0.0, 0.0)
