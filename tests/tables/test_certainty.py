"""Oracles: the closed form of split conformal prediction, and searches over all rows."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from linkdist.errors import ModelError, OptionError
from linkdist.tables.certainty import LEVELS, MOST, Caution, Certainty, HeldOut

LABELS = {level: int(np.ceil(level / (1 - level) - 1e-9)) for level in (0.5, 0.8, 0.9, 0.95)}
"""The fewest labels for sets of each level."""


def made(n, C=3, seed=0, digits=None):
    """Probabilities (n, C), and classes that are drawn from them."""
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.full(C, 0.7), n)
    p = p if digits is None else np.round(p, digits)
    labels = np.array([random.choice(C, p=row / row.sum()) for row in p])
    return p, labels


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n", [1, 7, 30, 100])
def test_coverage_of_exchangeable_rows_is_exact(n, level):
    """If each of n + 1 rows is the new one in turn, ⌈(n + 1) level⌉ of them are covered."""
    p, labels = made(n + 1)
    covered = 0
    for new in range(n + 1):
        others = np.arange(n + 1) != new
        threshold = HeldOut.of(p[others], labels[others]).threshold(level)
        covered += p[new, labels[new]] >= threshold
    expected = int(np.ceil((n + 1) * level - 1e-9))
    assert covered == (expected if n >= LABELS[level] else n + 1)
    assert level <= covered / (n + 1)
    if n >= LABELS[level]:
        assert covered / (n + 1) <= level + 1 / (n + 1)


def test_coverage_of_drawn_rows_is_between_the_bounds():
    """The mean over many draws of 50 labels and a new row, within four standard errors."""
    n, level, draws = 50, 0.9, 4000
    random = np.random.default_rng(1)
    scores = np.floor(random.random((draws, n + 1)) * 1e6) / 1e6
    p = np.stack([scores, 1 - scores], axis=2)
    zeros = np.zeros(n, dtype=int)
    covered = [row[n, 0] >= HeldOut.of(row[:n], zeros).threshold(level) for row in p]
    expected = np.ceil((n + 1) * level) / (n + 1)
    assert level <= expected <= level + 1 / (n + 1)
    assert abs(np.mean(covered) - expected) < 4 * np.sqrt(expected * (1 - expected) / draws)


@pytest.mark.parametrize("n", [9, 200, 3000])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_a_threshold_is_the_rank_that_the_rule_says(n, level):
    p, labels = made(n)
    found, truth = HeldOut.of(p, labels), np.sort(p[np.arange(n), labels])[::-1]
    rank = int(np.ceil((n + 1) * level - 1e-9))
    if rank > n:
        assert found.threshold(level) == 0
    elif n <= MOST:
        assert found.threshold(level) == pytest.approx(truth[rank - 1], abs=1e-6)
        assert found.threshold(level) <= truth[rank - 1]
    else:
        # A thinned list never makes a set too small, and is off by one of its steps at most.
        step = -(-n // MOST)
        assert truth[min(rank + step, n) - 1] - 1e-6 <= found.threshold(level) <= truth[rank - 1]
        assert len(found.truth) == MOST


@pytest.mark.parametrize("digits", [None, 1])
@pytest.mark.parametrize("n", [1, 40, 2500])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_the_least_certain_rows_are_left_unanswered(n, share, digits):
    p, labels = made(n, digits=digits)
    held = HeldOut.of(p, labels)
    answered = p.max(axis=1) >= held.least(share)
    assert answered.mean() >= 1 - share - 1e-9
    right = p.argmax(axis=1) == labels
    assert held.accuracy_of(share) == pytest.approx(right[answered].mean(), abs=0.01)
    if n <= MOST:
        assert held.accuracy_of(share) == pytest.approx(right[answered].mean(), abs=1e-9)
        # One row fewer would be too few: equally certain rows are answered together.
        fewer = p.max(axis=1) > held.least(share) + 1e-6
        assert fewer.sum() < np.ceil(n * (1 - share) - 1e-9)
    assert held.accuracy[-1] == pytest.approx(right.mean())


def test_scores_of_sets_leave_each_row_out():
    p, labels = made(60)
    rows, best = np.arange(60), p.argmax(axis=1)
    held = HeldOut.of(p, labels)
    assert tuple(score.level for score in held.sets) == LEVELS
    for score in held.sets:
        covered = []
        for row in rows:
            others = rows != row
            threshold = HeldOut.of(p[others], labels[others]).threshold(score.level)
            covered.append(p[row, labels[row]] >= threshold or best[row] == labels[row])
        assert score.coverage == pytest.approx(np.mean(covered))
        sets = p >= held.threshold(score.level)
        sets[rows, best] = True
        assert score.size == pytest.approx(sets.sum(axis=1).mean())


@pytest.mark.parametrize("n", [1, 25, 1500])
def test_what_is_saved_is_read_again(n):
    (p, labels), (q, _) = made(n), made(n, seed=1)
    certainty = Certainty.of({"features": p, "links": q}, labels)
    back = Certainty.read(json.loads(json.dumps(certainty.state())))
    for level in (0.3, 0.9):
        assert back.thresholds(level).tolist() == certainty.thresholds(level).tolist()
        assert back.least(level).tolist() == certainty.least(level).tolist()
    np.testing.assert_allclose(back.features.accuracy, certainty.features.accuracy, atol=1e-6)
    np.testing.assert_allclose(back.links.sets, certainty.links.sets, atol=1e-6)
    assert Certainty.read(None) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("n", 3), ("n", 0), ("n", "4"), ("n", 10**30), ("truth", [0.1, 0.2]), ("truth", "text"),
     ("truth", [0.4, 0.3, 0.2, 0.1]), ("truth", [0.1, 0.2, 0.3, 7.0]), ("confidence", None),
     ("accuracy", [0.1, 0.2, float("nan"), 0.3]), ("sets", [[0.8]]), ("sets", 5)],
)  # fmt: skip
def test_damaged_values_are_refused(name, value):
    p, labels = made(4)
    state = copy.deepcopy(Certainty.of({"features": p, "links": p}, labels).state())
    state["links"][name] = value
    with pytest.raises(ModelError, match="Train again"):
        Certainty.read(state)
    with pytest.raises(ModelError, match="Train again"):
        Certainty.read({"features": state["features"]})


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_too_few_labels_are_reported(level):
    for n in (LABELS[level] - 1, LABELS[level]):
        p, labels = made(max(n, 1))
        certainty = Certainty.of({"features": p, "links": p}, labels)
        text = certainty.too_few(level)
        if n and n < LABELS[level]:
            assert f"need {LABELS[level]} labels" in text
            assert f"found {n}." in text
            assert certainty.thresholds(level).tolist() == [0, 0]
        elif n:
            assert text == ""


def test_answers_of_both_modes_are_weighed_by_their_rows():
    (p, labels), (q, _) = made(200), made(200, seed=1)
    certainty = Certainty.of({"features": p, "links": q}, labels)
    rows, answered = np.array([300, 100]), np.array([150, 90])
    features, links = (one.accuracy_of(0.2) for one in (certainty.features, certainty.links))
    of_answers = (150 * features + 90 * links) / 240
    overall = (300 * certainty.features.accuracy[-1] + 100 * certainty.links.accuracy[-1]) / 400
    assert certainty.answered_text(0.2, rows, answered) == (
        f"Answered: 60 % of 400 rows. Estimated accuracy of the answers: {100 * of_answers:.0f} %, "
        f"of all rows: {100 * overall:.0f} % (measured on 200 labels that training had not seen)."
    )
    nothing = certainty.answered_text(0.2, rows, np.zeros(2, dtype=int))
    assert nothing.startswith("Answered: 0 % of 400 rows. Estimated accuracy of all rows:")


@pytest.mark.parametrize("value", [0, 1, -0.5, 90, float("nan")])
def test_shares_are_checked_all_at_once(value):
    with pytest.raises(OptionError, match=r"sets must .* abstain must be between 0 and 1"):
        Caution(value, value).check()
    Caution(0.5, 0.5).check()
