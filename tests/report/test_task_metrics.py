"""Oracles: scikit-learn's metrics, NumPy's correlation and quantiles, graphs worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    mean_absolute_error,
    precision_score,
    r2_score,
    recall_score,
    roc_auc_score,
)

from linkdist.data.graph import UNKNOWN, Graph
from linkdist.data.links import Links
from linkdist.data.splits import Split
from linkdist.report.held_out import held_out_predictions
from linkdist.report.link_correlation import link_correlation
from linkdist.report.map_groups import label_groups, number_groups
from linkdist.report.metrics import compute_metrics, evaluate_validation
from linkdist.report.ranking import rank_rare_class
from linkdist.report.task_metrics import evaluate_labels, evaluate_numbers
from linkdist.training.decisions import conformal_width
from linkdist.training.fit import fit

NONE = np.array([], dtype=np.int64)


def split_of(graph, known):
    return Split(np.flatnonzero(known), NONE, NONE)


@pytest.fixture(scope="module")
def numbers():
    """A smooth function on a path with a second relation of random links, in a large unit."""
    random = np.random.default_rng(0)
    x = np.sort(random.random(80))
    y = 1e5 + 3e4 * np.sin(5 * x) + random.normal(0, 1000, 80)
    y[::4] = np.nan
    path = np.stack([np.arange(79), np.arange(1, 80)], axis=1)
    pairs = np.concatenate([path, random.integers(0, 80, (60, 2))])
    features = np.stack([x, random.normal(size=80)], axis=1)
    links = Links(pairs, np.repeat([0, 1], [79, 60]), None, ("next", "noise"))
    graph = Graph.build(features, links, y, ("price",), task="regression")
    splits = [split_of(graph, ~np.isnan(y))]
    return graph, splits, fit(graph, splits, epochs=5, device="cpu")


@pytest.fixture(scope="module")
def sets():
    """Three labels that depend on the features, one of them rare."""
    random = np.random.default_rng(1)
    x = random.normal(size=(90, 4))
    labels = (x[:, :3] + random.normal(0, 0.3, (90, 3)) > [0, 0.3, 1.2]).astype(np.int64)
    labels[::5] = UNKNOWN
    pairs = random.integers(0, 90, (200, 2))
    graph = Graph.build(x, pairs, labels, ("a", "b", "c"), task="multilabel")
    splits = [split_of(graph, labels[:, 0] != UNKNOWN)]
    return graph, splits, fit(graph, splits, epochs=5, device="cpu")


# Numbers ------------------------------------------------------------------------------------------


def test_numbers_are_scored_as_scikit_learn_does_and_as_the_estimates_are(numbers):
    graph, splits, result = numbers
    found = compute_metrics(graph, splits, result, range(graph.n), map=False)
    held = found.validation
    for score, mode in zip(result.estimates.new_rows, ("features", "links"), strict=True):
        one, raw = held.numbers[mode], result.predictions["new row"][mode]
        np.testing.assert_array_equal(one.predicted, raw.scores[:, 0])
        assert one.scores.r2 == pytest.approx(r2_score(raw.labels, raw.scores[:, 0]))
        assert one.scores.mae == pytest.approx(mean_absolute_error(raw.labels, raw.scores[:, 0]))
        # The page has one interval of a score.
        assert (one.scores.r2, *one.scores.r2_interval) == pytest.approx(
            (score.value, score.low, score.high)
        )
        assert one.width == result.decision.widths[mode]
    assert found.labelled == held.nodes == 60
    assert found.links == int((graph.links[:, 0] != graph.links[:, 1]).sum())
    assert [one.name for one in found.relations] == ["next", "noise"]


def test_stored_scores_of_numbers(numbers):
    graph, splits, result = numbers
    scores = evaluate_validation(graph, splits, result).stored()["scores"]
    raw = result.predictions["new row"]["links"]
    assert scores["validation nodes"] == 60
    r2 = r2_score(raw.labels, raw.scores[:, 0])
    assert scores["R² with links"] == pytest.approx(r2, rel=1e-3)
    mae = mean_absolute_error(raw.labels, raw.scores[:, 0])
    assert scores["mean absolute error with links"] == pytest.approx(mae, rel=1e-3)
    assert set(scores) == {"validation nodes"} | {
        f"{what} {mode}"
        for what in ("R²", "mean absolute error")
        for mode in ("from features", "with links")
    }


def test_coverage_is_measured_on_other_nodes_than_the_width():
    random = np.random.default_rng(0)
    truth = random.normal(size=400)
    predicted = truth + random.normal(size=400)
    width = conformal_width(truth - predicted)
    found = evaluate_numbers(predicted, truth, width).scores
    part = np.random.default_rng(0).permutation(400) % 5
    errors = np.abs(truth - predicted)
    inside = [
        errors[part == k] <= conformal_width((truth - predicted)[part != k]) for k in range(5)
    ]
    assert found.coverage == pytest.approx(np.concatenate(inside).mean())
    assert found.coverage == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("width", [None, np.inf])
def test_without_a_width_there_is_no_coverage(width):
    found = evaluate_numbers(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.5, 3.0]), width)
    assert found.width is None
    assert found.scores.coverage is None


def test_intervals_widen_with_fewer_independent_nodes():
    random = np.random.default_rng(0)
    truth = random.normal(size=100)
    predicted = truth + random.normal(size=100)
    all_of_them, quarter = (
        evaluate_numbers(predicted, truth, None, n).scores.bias_interval for n in (100, 25)
    )
    assert np.ptp(quarter) == pytest.approx(2 * np.ptp(all_of_them))


# Several labels -----------------------------------------------------------------------------------


def test_labels_are_scored_as_scikit_learn_does_and_as_the_estimates_are(sets):
    graph, splits, result = sets
    held = compute_metrics(graph, splits, result, range(graph.n), map=False).validation
    for score, mode in zip(result.estimates.new_rows, ("features", "links"), strict=True):
        found = held.labels[mode]
        values, truth, _ = held_out_predictions(result, "multilabel")[mode]
        guess = values >= 0.5
        assert found.micro_f1 == pytest.approx(score.value)
        assert found.micro_f1 == pytest.approx(f1_score(truth, guess, average="micro"))
        assert found.macro_f1 == pytest.approx(f1_score(truth, guess, average="macro"))
        kept = {"average": None, "zero_division": 0}
        for name, by in (("precision", precision_score), ("recall", recall_score)):
            ours = [getattr(one, name) for one in found.labels]
            np.testing.assert_allclose(ours, by(truth, guess, **kept))
        assert [one.threshold for one in found.labels] == result.decision.thresholds[mode]
        assert [one.rows for one in found.labels] == truth.sum(axis=0).tolist()
    stored = held.stored()["scores"]
    assert stored["micro F1 from features"] == pytest.approx(
        held.labels["features"].micro_f1, rel=1e-3
    )
    assert "confusion" not in held.stored()


def test_thresholds_may_be_missing():
    found = evaluate_labels(np.array([[0.9], [0.1]]), np.array([[1], [0]]), ["a"], None)
    assert found.labels[0].threshold == 0.5


@pytest.mark.parametrize("task", ["numbers", "sets"])
def test_the_map_groups_known_and_predicted_labels(task, request):
    graph, splits, result = request.getfixturevalue(task)
    found = compute_metrics(graph, splits, result, [f"n{i}" for i in range(graph.n)])
    assert len(found.map.ids) == graph.n
    assert found.map.ordered == (task == "numbers")
    assert found.map.classes.max() < len(found.groups)
    known = ~np.isnan(graph.labels) if task == "numbers" else graph.labels[:, 0] != UNKNOWN
    np.testing.assert_array_equal(found.map.known, known)
    if task == "sets":
        for i in np.flatnonzero(known):
            own = ", ".join(np.array(graph.classes)[graph.labels[i] == 1]) or "no label"
            assert found.groups[found.map.classes[i]] == own


def test_numbers_are_grouped_by_quantiles():
    values = np.random.default_rng(0).normal(size=1000)
    assert np.bincount(number_groups(values).of_node).tolist() == [200] * 5
    same = number_groups(np.full(7, 3.0))
    assert same.names == ("all",)
    assert not same.of_node.any()
    two = number_groups(np.array([0.0] * 90 + [1.0] * 10))
    assert len(two.names) > two.of_node.max()


def test_sets_of_labels_are_grouped_by_frequency():
    present = np.array([[0, 0], [1, 1], [1, 1], [0, 1]], dtype=bool)
    found = label_groups(present, ["a", "b"])
    assert found.names[0] == "a, b"
    assert [found.names[k] for k in found.of_node] == ["no label", "a, b", "a, b", "b"]


# Links --------------------------------------------------------------------------------------------


def test_the_correlation_over_links_is_that_of_numpy():
    random = np.random.default_rng(0)
    links = random.integers(0, 50, (200, 2))
    numbers = np.where(random.random(50) < 0.2, np.nan, 1e6 + random.normal(size=50))
    count, (found,) = link_correlation(links, numbers)
    pairs = links[links[:, 0] != links[:, 1]]
    ends = numbers[pairs]
    ends = ends[~np.isnan(ends).any(axis=1)]
    both = np.concatenate([ends, ends[:, ::-1]])
    assert count == len(ends)
    assert found == pytest.approx(np.corrcoef(both.T)[0, 1], abs=1e-6)


def test_the_correlation_of_labels_that_do_not_differ_is_not_defined():
    labels = np.array([[1, 0], [1, 1], [UNKNOWN, UNKNOWN]])
    count, found = link_correlation(np.array([[0, 1], [1, 2], [2, 2]]), labels)
    assert count == 1
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(-1)
    assert link_correlation(np.zeros((0, 2), dtype=np.int64), labels)[0] == 0


# A rare class -------------------------------------------------------------------------------------


def test_a_rare_class_is_ranked_as_scikit_learn_does():
    random = np.random.default_rng(0)
    truth = (random.random(300) < 0.1).astype(np.int64)
    score = np.clip(0.2 + 0.4 * truth + random.normal(0, 0.2, 300), 0.01, 0.99)
    p = np.stack([1 - score, score], axis=1)
    found = rank_rare_class(p, truth)
    assert (found.positive, found.rows) == (1, truth.sum())
    assert found.roc_auc == pytest.approx(roc_auc_score(truth, score))
    assert found.average_precision == pytest.approx(average_precision_score(truth, score))
    assert found.chosen.precision == pytest.approx(precision_score(truth, score >= 0.5))
    assert found.chosen.recall == pytest.approx(recall_score(truth, score >= 0.5))
    assert len(found.table) <= 8
    for point in found.table:
        guess = score >= point.threshold
        assert point.precision == pytest.approx(precision_score(truth, guess))
        assert point.recall == pytest.approx(recall_score(truth, guess))
        assert point.share == pytest.approx(guess.mean())


def test_which_classes_are_rare():
    p = np.full((100, 3), 1 / 3)
    assert rank_rare_class(p, np.repeat([0, 1, 2], [40, 30, 30])) is None
    found = rank_rare_class(p, np.repeat([0, 1, 2], [50, 45, 5]))
    assert (found.positive, found.chosen) == (2, None)  # of three classes no threshold decides
    assert rank_rare_class(p[:, :2], np.repeat([0, 1], [98, 2])) is None  # too few nodes
    assert rank_rare_class(p[:, :2], np.zeros(100, dtype=int)) is None
    assert rank_rare_class(p[:, :2], np.repeat([0, 1], 50)).positive == 1


def test_macro_f1_ranks_by_the_model_and_decides_without_the_node():
    """Factors of classes change the decision and the probabilities, not the order of two."""
    random = np.random.default_rng(0)
    labels = (random.random(120) < 0.15).astype(np.int64)
    x = random.normal(size=(120, 3)) + labels[:, None]
    graph = Graph.build(x, random.integers(0, 120, (200, 2)), labels, ("no", "yes"))
    splits = [split_of(graph, labels >= 0)]
    result = fit(graph, splits, epochs=3, device="cpu", metric="macro-f1")
    held = evaluate_validation(graph, splits, result)
    raw = result.predictions["new row"]["features"]
    p = np.exp(raw.scores) * result.decision.factors
    found = held_out_predictions(result, "classification")["features"]
    np.testing.assert_allclose(found.ranked, p / p.sum(axis=1, keepdims=True))
    assert held.modes["features"].ranking.roc_auc == pytest.approx(
        roc_auc_score(raw.labels, raw.scores[:, 1] - raw.scores[:, 0])
    )
    macro = f1_score(raw.labels, found.values.argmax(axis=1), average="macro")
    assert result.estimates.new_rows[0].value == pytest.approx(macro)
    stored = held.stored()["scores"]
    assert stored["macro F1 from features"] == pytest.approx(macro, rel=1e-3)
    assert "accuracy from features" in stored
