"""What training measures of the certainty of classes. Oracle: its held-out predictions."""

from __future__ import annotations

import numpy as np
import pytest

from linkdist import Graph, fit
from linkdist.data.splits import Split, semi_supervised
from linkdist.tables.certainty import MODES, Certainty

NONE = np.array([], dtype=np.int64)
QUICK = {"epochs": 1, "device": "cpu"}


def quick(graph, train, **options):
    return fit(graph, Split(train, NONE, NONE), **{"seeds": [0], **QUICK, **options})


def check(found, p, labels):
    """Compare what was kept with probabilities (n, C) of both modes and true classes (n,)."""
    expected = Certainty.of(p, labels)
    assert found.labels == len(labels)
    for mode in MODES:
        mine, theirs = getattr(found, mode), getattr(expected, mode)
        np.testing.assert_allclose(mine.truth, theirs.truth, atol=2e-6)
        np.testing.assert_allclose(mine.confidence, theirs.confidence, atol=2e-6)
        assert mine.accuracy[-1] == pytest.approx(theirs.accuracy[-1])


def test_folds_predict_each_label_once_as_a_new_row(wordy):
    result = quick(wordy, np.arange(30))
    new = result.predictions["new row"]
    p = {mode: np.exp(new[mode].scores) for mode in MODES}
    check(result.decision.certainty, p, new["features"].labels)
    scores = result.estimates.new_rows
    for mode, score in zip(MODES, scores, strict=True):
        held = getattr(result.decision.certainty, mode)
        assert held.n == 30
        assert held.accuracy[-1] == pytest.approx(score.value)


def test_networks_with_the_same_validation_nodes_predict_their_mean(wordy):
    """A model of three networks predicts the mean, so the scores are those of the mean."""
    result = quick(wordy, np.arange(80), seeds=[0, 1, 2], held_out=0.3)
    found = result.predictions["validation"]
    labels = found["features"].labels
    n = len(labels) // 3
    assert (labels.reshape(3, n) == labels[:n]).all()
    p = {mode: np.exp(found[mode].scores).reshape(3, n, -1).mean(axis=0) for mode in MODES}
    check(result.decision.certainty, p, labels[:n])


def test_networks_with_other_validation_nodes_count_each_prediction(wordy):
    splits = [semi_supervised(wordy, seed, 8, 20, 20) for seed in (0, 1)]
    result = fit(wordy, splits, seeds=[0, 1], **QUICK)
    found = result.predictions["validation"]
    p = {mode: np.exp(found[mode].scores) for mode in MODES}
    check(result.decision.certainty, p, found["features"].labels)
    assert result.decision.certainty.labels == 40


@pytest.mark.parametrize("given", [True, False])
def test_factors_of_classes_are_in_the_probabilities(wordy, given):
    """They are in the weights of the model, whether they are given or chosen for macro F1."""
    rare = np.flatnonzero((wordy.labels != 2) | (np.arange(wordy.n) < 24))
    factors = np.array([1.0, 1.0, 4.0])
    options = {"class_weight": factors} if given else {"metric": "macro-f1"}
    result = quick(wordy, rare, held_out=None, **options)
    used = np.array(result.decision.factors)
    # Given factors are applied to the predictions already; chosen ones are not, for estimates.
    plain = quick(wordy, rare).predictions["new row"] if given else result.predictions["new row"]
    p = {mode: np.exp(plain[mode].scores) * used for mode in MODES}
    p = {mode: part / part.sum(axis=1, keepdims=True) for mode, part in p.items()}
    check(result.decision.certainty, p, plain["features"].labels)


def test_a_label_whose_class_no_other_row_has_is_hardly_ever_in_a_set():
    random = np.random.default_rng(0)
    labels = np.array([0] * 15 + [1] * 14 + [2])
    features = random.normal(size=(30, 4)) + labels[:, None]
    links = random.integers(0, 30, (60, 2))
    graph = Graph.build(features, links, labels, ("a", "b", "c", "never"))
    certainty = quick(graph, np.arange(30)).decision.certainty
    assert certainty.labels == 30
    # Its only label is predicted by a network that does not know the class.
    assert certainty.features.truth[0] == pytest.approx(0, abs=0.05)
    assert certainty.features.threshold(0.99) == 0


def test_other_tasks_methods_and_trainings_without_validation_have_none(wordy):
    assert quick(wordy, np.arange(30), held_out=0).decision.certainty is None
    assert quick(wordy, np.arange(30), method="colinkdist").decision.certainty is None
    numbers = wordy.labels + 0.5
    graph = Graph.build(wordy.features, wordy.links, numbers, ("y",), task="regression")
    decision = quick(graph, np.arange(30)).decision
    assert decision.certainty is None
    assert set(decision.as_json()) == {"widths", "coverage"}
