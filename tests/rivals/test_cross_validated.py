"""The rivals of benchmarks/rivals/cross_validated.py beside plain computations of the same."""

import numpy as np
import pytest
from rivals import cross_validated as rivals
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from linkdist.data.graph import Graph


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    x = random.standard_normal((120, 6)).astype(np.float32)
    y = x[:, 0] - 2 * x[:, 1] + 0.1 * random.standard_normal(120)
    links = random.integers(120, size=(300, 2))
    return x, y, np.unique(np.sort(links, axis=1), axis=0)


def test_averages_are_the_means_of_neighbours(table):
    x, _, links = table
    dense = np.zeros((len(x), len(x)))
    for a, b in links[links[:, 0] != links[:, 1]]:
        dense[a, b] = dense[b, a] = 1
    one = np.stack([x[row > 0].mean(axis=0) if row.any() else own
                    for row, own in zip(dense, x, strict=True)])  # fmt: skip
    two = np.stack([one[row > 0].mean(axis=0) if row.any() else own
                    for row, own in zip(dense, one, strict=True)])  # fmt: skip
    found = rivals.with_averages(x, links)
    assert np.allclose(found, np.hstack([x, one, two]), atol=1e-5)
    assert np.allclose(found, rivals.with_averages(sparse.csr_matrix(x), links), atol=1e-6)


def test_a_node_without_neighbours_is_its_own():
    found = rivals.with_averages(np.array([[1.0], [2.0], [7.0]]), np.array([[0, 1], [2, 2]]))
    assert found.tolist() == [[1, 2, 1], [2, 1, 2], [7, 7, 7]]


def test_numbers_are_propagated_linearly_along_a_path():
    path = np.stack([np.arange(10), np.arange(1, 11)], axis=1)
    y = np.zeros(11)
    y[10] = 5.0
    found = rivals.propagated(y, np.array([0, 10]), path, pull=1e-10)
    assert np.allclose(found, np.linspace(0, 5, 11), atol=1e-5)


def test_propagation_is_the_solution_of_its_linear_system(table):
    _, y, links = table
    train, pull = np.arange(0, 120, 4), 0.3
    found = rivals.propagated(y, train, links, pull)
    centre, f = y[train].mean(), found.copy()
    a = rivals.adjacency(links, 120).toarray()
    gradient = a.sum(axis=1) * f - a @ f + pull * (f - centre)
    rest = np.setdiff1d(np.arange(120), train)
    assert np.abs(gradient[rest]).max() < 1e-6
    assert (found[train] == y[train]).all()


def test_propagation_far_from_labels_gives_their_mean():
    y = np.array([1.0, 3.0, 50.0, 60.0])
    found = rivals.propagated(y, np.array([0, 1]), np.array([[2, 3]]), pull=0.01)
    assert np.allclose(found, [1, 3, 2, 2])


def test_label_propagation_finds_smooth_numbers():
    ring = np.stack([np.arange(200), (np.arange(200) + 1) % 200], axis=1)
    y = np.sin(2 * np.pi * np.arange(200) / 200)
    train = np.random.default_rng(0).permutation(200)[:60]
    assert np.abs(rivals.label_propagation(y, np.sort(train), ring, seed=0) - y).max() < 0.2


def test_ridge_is_the_best_of_its_penalties_by_leaving_one_out(table):
    x, y, _ = table
    train = np.arange(40)
    candidates = []
    for columns in (x, rivals.scaled(x)):
        for penalty in rivals.PENALTIES:
            left = [
                Ridge(penalty).fit(columns[train[train != i]], y[train[train != i]])
                .predict(columns[[i]])[0] - y[i] for i in train
            ]  # fmt: skip
            whole = Ridge(penalty).fit(columns[train], y[train]).predict(columns)
            candidates.append((np.mean(np.square(left)), whole))
    best = min(candidates, key=lambda pair: pair[0])[1]
    assert np.allclose(rivals.ridge(x, y, train), best, atol=0.01)


def test_columns_that_boosting_leaves_out_do_not_change_its_trees(table):
    x, y, _ = table
    train = np.arange(0, 120, 2)
    few = np.zeros((120, 3), dtype=np.float32)
    few[train[: rivals.LEAF - 1], 0] = 1  # too few rows for a leaf
    few[:, 2] = 3
    wide = np.hstack([x, few])
    assert rivals._may_split(wide[train]).tolist() == [True] * 6 + [False] * 3
    found = rivals.boosting(wide, y, train, seed=0)
    plain = [
        HistGradientBoostingRegressor(random_state=0, **settings).fit(wide[train], y[train])
        for settings in rivals.BOOSTING
    ]
    assert any(np.array_equal(found, model.predict(wide)) for model in plain)


def test_logistic_regression_ranks_by_the_direction_between_two_normal_classes():
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 300)
    x = random.standard_normal((600, 4))
    x[:, 0] += 2 * y
    train = random.permutation(600)[:400]
    found = rivals.logistic(x, y, train)
    assert roc_auc_score(y, found) == pytest.approx(roc_auc_score(y, x[:, 0]), abs=0.01)
    again = rivals.logistic(x, y, train, whole=x[5:9])
    assert np.allclose(again, found[5:9])


def test_the_gcn_learns_a_class_that_only_neighbours_show(monkeypatch):
    monkeypatch.setattr(rivals, "GCN_WIDTHS", (16,))
    monkeypatch.setattr(rivals, "GCN_RATES", (0.01,))
    random = np.random.default_rng(0)
    n = 200
    y = random.integers(2, size=n)
    x = random.standard_normal((n, 3)).astype(np.float32)
    x[:, 0] += y  # weak for a node, strong for the mean of its neighbours
    pairs = random.integers(n, size=(4000, 2))
    pairs = pairs[y[pairs[:, 0]] == y[pairs[:, 1]]]
    graph = Graph.build(x, pairs, y)
    train = np.sort(random.permutation(n)[:80])
    test = np.setdiff1d(np.arange(n), train)
    found = rivals.gcn(graph, train, 0, "cpu", epochs=20)
    assert roc_auc_score(y[test], x[test, 0]) < 0.9
    assert roc_auc_score(y[test], found[test]) > 0.95
