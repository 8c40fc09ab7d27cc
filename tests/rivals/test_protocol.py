"""Splits, measures and the search of settings."""

import numpy as np
import pytest
from rivals.protocol import Problem, draw, label_counts, loss, measure_of, score, search
from sklearn import metrics


@pytest.mark.parametrize("labels", ["5", "20", "1%", "10%", "60%"])
def test_nodes_are_disjoint_and_as_many_as_the_protocol_says(graph, labels):
    split = draw(graph, labels, 3)
    parts = (split.train, split.validation, split.test)
    every = np.concatenate(parts)
    assert len(np.unique(every)) == len(every)
    assert len(split.test) == 30
    known = np.concatenate(parts[:2])
    counts = np.bincount(graph.labels[known], minlength=3)
    expected = {"5": 15, "20": 60, "1%": 6, "10%": 15, "60%": 90}[labels]
    assert len(known) == expected
    assert counts.min() >= (2 if labels.endswith("%") else int(labels))
    assert (np.bincount(graph.labels[split.train], minlength=3) > 0).all()


def test_validation_nodes_are_a_fifth_of_the_labels_of_each_class(made):
    graph = made(n=300)
    for seed in range(5):
        split = draw(graph, "20", seed)
        assert np.bincount(graph.labels[split.validation]).tolist() == [4, 4, 4]


def test_a_class_gives_at_most_half_of_its_visible_nodes(made):
    graph = made(n=30)
    split = draw(graph, "20", 0)
    known = np.concatenate([split.train, split.validation])
    visible = np.setdiff1d(np.arange(30), split.test)
    counts = np.bincount(graph.labels[visible], minlength=3)
    assert np.bincount(graph.labels[known], minlength=3).tolist() == (counts // 2).tolist()


def test_numbers_have_shares_of_the_rows_only(made):
    graph = made(numbers=True)
    split = draw(graph, "10%", 0)
    assert (len(split.train), len(split.validation), len(split.test)) == (12, 3, 30)
    assert label_counts("counties") == ["1%", "10%", "60%"]


def test_measures_are_those_of_scikit_learn(made):
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(2), 80).round(1)  # with ties
    labels = random.integers(2, size=80)
    assert score("roc-auc", labels, p) == pytest.approx(
        100 * metrics.roc_auc_score(labels, p[:, 1])
    )
    assert score("accuracy", labels, p) == pytest.approx(100 * (p.argmax(1) == labels).mean())
    p = p * 0.9 + 0.05
    assert loss("accuracy", labels, p) == pytest.approx(metrics.log_loss(labels, p))
    y, found = random.normal(size=(2, 30))
    assert score("r2", y, found[:, None]) == pytest.approx(100 * metrics.r2_score(y, found))
    assert loss("r2", y, found[:, None]) == pytest.approx(metrics.mean_squared_error(y, found))
    assert np.isnan(score("roc-auc", np.zeros(3, dtype=int), p[:3]))
    assert [measure_of(made(C)) for C in (2, 3)] == ["roc-auc", "accuracy"]


class Constant:
    """Predicts the same for every row."""

    def __init__(self, p):
        self.p = np.array(p)

    def from_features(self, x):
        """One line for each row."""
        return np.tile(self.p, (x.shape[0], 1))


def test_the_search_takes_the_best_score_and_then_the_lowest_loss(graph):
    problem = Problem(graph, draw(graph, "20", 0), 0)
    settings = [[0.6, 0.2, 0.2], [0.4, 0.3, 0.3], [0.5, 0.3, 0.2]]
    found = search(problem, lambda _, p: Constant(p), settings)
    assert found.setting == [0.4, 0.3, 0.3]  # all are right on a third of the nodes
    assert found.quality[0] == pytest.approx(100 / 3)
