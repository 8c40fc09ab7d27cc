"""Oracles: Wilson's closed form, a sign test by binomial sums, sentences read, references."""

from __future__ import annotations

import json
from math import comb

import numpy as np
import pytest

from linkdist import Graph
from linkdist.data.splits import Split, semi_supervised
from linkdist.training.measures import Z, mcnemar, measure_for, wilson
from linkdist.training.panel.ensemble import Predictions
from linkdist.training.panel.estimates import (
    FEW_LABELS,
    LARGEST,
    estimate,
    limits,
)
from linkdist.training.panel.fitting import FEWEST_VISITS, within_budget
from linkdist.training.panel.replicas import (
    fold_replicas,
    held_out_replicas,
    renumbered,
    validation_replicas,
)

NONE = np.array([], dtype=np.int64)


@pytest.mark.parametrize("n", [1, 7, 50, 1000])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.93, 1.0])
def test_an_interval_ends_where_the_share_is_z_errors_away(share, n):
    """Wilson's: (share - p)² = z² p (1 - p) / n, a quadratic equation of p."""
    expected = np.roots([1 + Z**2 / n, -(2 * share + Z**2 / n), share**2]).real
    low, high = wilson(share, n)
    assert [low, high] == pytest.approx(np.sort(expected), abs=1e-6)
    assert 0 <= low < high <= 1
    assert low - 1e-12 <= share <= high + 1e-12


def test_more_judges_make_an_interval_narrower():
    widths = [np.ptp(wilson(0.8, n)) for n in (10, 100, 1000)]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("n", [5, 12, 30, 60])
def test_compare_is_a_sign_test(n):
    """Against sums of binomials, but for shares so near 10 % that the normal form may differ."""
    for won in range(n + 1):
        ends = sum(comb(n, k) for k in range(min(won, n - won) + 1)) / 2**n
        chance = min(1.0, 2 * ends)
        ours, theirs = np.arange(n) < won, np.arange(n) >= won
        # Nodes on which both agree do not count.
        ours, theirs = np.r_[ours, [True] * 9, [False]], np.r_[theirs, [True] * 9, [False]]
        if chance < 0.08:
            assert mcnemar(ours, theirs) == np.sign(2 * won - n)
        if chance > 0.12:
            assert mcnemar(ours, theirs) == 0
        assert mcnemar(ours, theirs) == -mcnemar(theirs, ours)


def test_nothing_can_be_told_where_both_always_agree():
    assert mcnemar(np.ones(50, dtype=bool), np.ones(50, dtype=bool)) == 0


def right_for(share, N=200, C=2, shift=0):
    """Predictions that are correct for a share of the nodes, from some node on."""
    right = np.roll(np.arange(N) < share * N, shift)
    labels = np.arange(N) % C
    predicted = np.where(right, labels, (labels + 1) % C)
    return Predictions(np.log(np.where(np.eye(C)[predicted] > 0, 0.9, 0.1)), labels)


def scored(features, links, **others):
    names = {
        "plain": "logistic regression on features",
        "hops": "logistic regression on 1-hop averages",
    }
    found = {"features": features, "links": links}
    return found | {names.get(name, name): predictions for name, predictions in others.items()}


def estimates_of(new, known=None, kind="new row", nodes=200):
    both = {kind: new} | ({"known row": known} if known else {})
    return estimate(both, {"a": 0.75, "b": 0.25}, ["a warning"], nodes)


def test_scores_are_shares_of_hits_with_their_intervals():
    found = estimates_of(
        scored(right_for(0.8), right_for(0.9), plain=right_for(0.7), hops=right_for(0.75)),
        {"features": right_for(0.85), "links": right_for(0.95)},
    )
    assert (found.labels, found.by) == (200, "folds")
    assert [score.value for score in found.new_rows] == [0.8, 0.9]
    assert [score.links for score in found.new_rows] == [False, True]
    assert [score.value for score in found.known_rows] == [0.85, 0.95]
    assert [score.value for score in found.baselines] == [0.75, 0.7]
    assert [score.links for score in found.baselines] == [True, False]
    assert (found.new_rows[0].low, found.new_rows[0].high) == wilson(0.8, 160)
    assert found.warnings == ["a warning"]
    assert found.teachers == {"a": 0.75, "b": 0.25}


def test_intervals_rest_on_different_judges():
    """Two replicas with the same validation nodes give no more information than one."""
    twice = scored(right_for(0.8), right_for(0.9))
    found = estimates_of(twice, kind="validation", nodes=100)
    assert found.by == "validation nodes"
    assert (found.new_rows[0].low, found.new_rows[0].high) == wilson(0.8, 100)


def test_without_judges_there_is_no_estimate():
    assert estimate({}, {}, [], 0) is None


def test_estimates_become_plain_json():
    found = estimates_of(scored(right_for(2 / 3, 300), right_for(2 / 3, 300))).as_json()
    assert json.loads(json.dumps(found)) == found
    assert found["new_rows"][0]["value"] == 0.666667


def test_a_better_baseline_is_named_as_what_to_use_instead():
    found = estimates_of(scored(right_for(0.7), right_for(0.72), plain=right_for(0.85)))
    sentences = " ".join(found.verdict)
    assert "logistic regression on features is better than this model, by 15.0 points" in sentences
    assert "use it instead" in sentences
    assert "Links in training do not improve the accuracy" in sentences


def test_a_better_baseline_with_links_is_compared_with_the_model_with_links():
    found = estimates_of(scored(right_for(0.9), right_for(0.7), hops=right_for(0.85)))
    sentences = " ".join(found.verdict)
    assert "With links, logistic regression on 1-hop averages is better" in sentences
    assert "Links at prediction time do not improve the accuracy" in sentences


def test_a_model_that_wins_is_said_to_beat_every_baseline():
    found = estimates_of(
        scored(right_for(0.9), right_for(0.97), plain=right_for(0.7), hops=right_for(0.8))
    )
    sentences = " ".join(found.verdict)
    lead = "Links in training improve the accuracy: from features this model is right for 90.0 % of"
    assert lead in sentences
    assert "Links at prediction time improve the accuracy: 97.0 % with links" in sentences
    assert (
        "From features, it beats every baseline; the best of them is logistic regression"
        in sentences
    )
    assert "With links, it beats every baseline" in sentences
    assert "instead" not in sentences


def test_what_chance_may_have_done_is_called_so():
    """A baseline that is ahead, on other nodes, by too few to be significant."""
    ours, theirs = right_for(0.80), right_for(0.82, shift=40)
    found = estimates_of(scored(ours, ours, plain=theirs))
    sentences = " ".join(found.verdict)
    assert "These labels cannot show whether links in training improve the accuracy" in sentences
    assert "cannot show whether links at prediction time improve the accuracy" in sentences
    lead = "logistic regression on features is ahead of this model by 2.0 points, which is not"
    assert lead in sentences
    assert "instead" not in sentences


def test_a_model_that_is_as_good_is_called_level():
    found = estimates_of(scored(right_for(0.8), right_for(0.8), plain=right_for(0.8)))
    assert "From features, it is level with the best baseline" in " ".join(found.verdict)


def test_the_largest_class_may_be_better_but_says_nothing_of_links():
    new = scored(right_for(0.5), right_for(0.5)) | {LARGEST: right_for(0.9)}
    sentences = estimates_of(new).verdict
    assert any("largest class is better than this model" in sentence for sentence in sentences)
    assert not any("pay in training" in sentence for sentence in sentences)


def test_accuracy_is_the_share_of_nodes_of_the_right_class():
    log_p = np.log([[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]])
    assert measure_for("classification").value(np.exp(log_p), np.array([0, 0, 0])) == 2 / 3


def graph_of(labels, links, n=None, classes=None):
    labels = np.array([*labels, *[-1] * ((n or len(labels)) - len(labels))])
    return Graph.build(np.eye(len(labels)), links, labels, classes)


def test_enough_of_everything_is_not_warned_of():
    graph = graph_of([0, 1] * 8, [(i, i + 1) for i in range(15)])
    assert limits(graph, np.arange(16)) == []


@pytest.mark.parametrize(("size", "warned"), [(FEW_LABELS - 1, True), (FEW_LABELS, False)])
def test_few_labels_are_warned_of(size, warned):
    graph = graph_of([0, 1] * 8, [(i, i + 1) for i in range(15)])
    sentences = limits(graph, np.arange(size))
    assert any(f"only {size} labelled rows" in sentence for sentence in sentences) == warned


def test_classes_of_no_label_and_of_one_are_warned_of():
    links = [(i, i + 1) for i in range(12)]
    graph = graph_of([0] * 6 + [1] * 5 + [2] + [0], links, classes=("a", "b", "c", "d"))
    sentences = limits(graph, np.arange(13))
    assert [sentence.split(":")[0] for sentence in sentences] == [
        "No row is labelled 'd'",
        "Only one row is labelled 'c'",
    ]


def test_many_classes_of_one_label_are_counted():
    links = [(i, i + 1) for i in range(12)]
    (sentence,) = limits(graph_of(range(13), links), np.arange(13))
    assert "'0', '1', '2', '3', '4' and 8 more" in sentence


@pytest.mark.parametrize("links", [[], [(3, 3)]])
def test_a_graph_without_links_is_warned_of(links):
    (sentence,) = limits(graph_of([0, 1] * 8, links), np.arange(16))
    assert "There are no links" in sentence


def test_links_that_touch_no_label_are_warned_of():
    graph = graph_of([0, 1] * 8, [(16, 17), (17, 18)], n=20)
    (sentence,) = limits(graph, np.arange(16))
    assert "No link touches a labelled row" in sentence


def test_labels_in_one_component_are_warned_of_where_others_are_large():
    inside = [(i, i + 1) for i in range(15)]
    far = [(i, i + 1) for i in range(16, 39)]
    (sentence,) = limits(graph_of([0, 1] * 8, inside + far, n=40), np.arange(16))
    assert "in one component" in sentence
    assert "24 linked rows" in sentence
    assert limits(graph_of([0, 1] * 8, [*inside, *far, (0, 39)], n=40), np.arange(16)) == []


@pytest.fixture
def folds(wordy):
    split = semi_supervised(wordy, 0, per_class=10, validation=0, test=30)
    return fold_replicas(wordy, Split(split.train, NONE, NONE), "transductive", [0, 1])


def check_references(replicas):
    """References exist, no teacher knows a validation label, and other folds calibrate."""
    for place, replica in enumerate(replicas):
        taught = replicas[replica.taught_by]
        assert taught.taught_by == replica.taught_by
        assert not np.isin(replica.validation, taught.view.train).any()
        if replica.kind == "kept":
            assert taught.kind == "kept"
            assert taught.view.labels.tolist() == replica.view.labels.tolist()
        for other in replica.calibrated_by:
            assert len(replicas[other].validation)
            assert place != other or replica.kind == "kept"


def test_all_folds_stay_where_there_is_time(folds):
    replicas, cycles = within_budget(1e6, 0.1, folds, (30, 60))
    assert [replica.kind for replica in replicas] == [replica.kind for replica in folds]
    assert tuple(cycles) == (30,)
    check_references(replicas)


def test_the_schedule_is_shortened_first(folds):
    visit, visits = 0.1, 12
    replicas, cycles = within_budget(1.001 * visit * visits * len(folds), visit, folds, (30, 60))
    assert len(replicas) == len(folds)
    assert tuple(cycles) == (visits,)


def test_then_rows_of_the_table_go_without_a_score(folds):
    visit = 0.1
    fewer = [replica for replica in folds if replica.kind != "known row"]
    seconds = 1.001 * visit * FEWEST_VISITS * len(fewer)
    replicas, cycles = within_budget(seconds, visit, folds, (30, 60))
    assert [replica.kind for replica in replicas] == ["new row"] * 5 + ["kept"] * 2
    assert tuple(cycles) == (FEWEST_VISITS,)
    check_references(replicas)


@pytest.mark.parametrize("visits", [0, 1, 3])
def test_at_last_all_folds_are_left_out(folds, visits):
    replicas, cycles = within_budget(1.001 * 0.1 * visits * 2, 0.1, folds, (30, 60))
    assert [replica.kind for replica in replicas] == ["kept"] * 2
    assert tuple(cycles) == (max(1, visits),)
    assert all(replica.calibrated_by == () for replica in replicas)
    check_references(replicas)


@pytest.mark.parametrize("visits", [2, 50, 90])
def test_validated_replicas_all_stay_and_train_as_long_as_they_may(wordy, visits):
    splits = [semi_supervised(wordy, seed, 4, 15, 20) for seed in (0, 1)]
    given = validation_replicas(wordy, splits, "inductive", [0, 1])
    replicas, cycles = within_budget(1.001 * 0.1 * visits * 2, 0.1, given, (30, 60))
    assert len(replicas) == 2
    assert [replica.calibrated_by for replica in replicas] == [(0,), (1,)]
    assert tuple(cycles) == ((30, 60) if visits >= 90 else (min(visits, 30),))
    check_references(replicas)


def test_replicas_that_hold_labels_out_keep_their_references(wordy):
    split = Split(np.arange(80), NONE, NONE)
    given = held_out_replicas(wordy, split, "transductive", [0, 1])
    found = renumbered(given)
    assert [replica.calibrated_by for replica in found] == [(0,), (1,)]
    check_references(found)
