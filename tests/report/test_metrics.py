"""Oracles: scikit-learn's metrics, tables and graphs worked by hand, NumPy's SVD, brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from linkdist import from_features
from linkdist.data.graph import UNKNOWN, Graph
from linkdist.data.splits import held_out
from linkdist.model import logits, message_passing
from linkdist.nn.aggregation import relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.report import metrics
from linkdist.report.hidden_map import MAP_NODES, TSNE_NODES, _hidden, project
from linkdist.report.metrics import (
    BINS,
    UNCERTAIN,
    compute_metrics,
    evaluate,
    homophily,
    least_certain,
    reliability,
    row_shares,
)
from linkdist.training.fit import fit
from linkdist.training.measures import wilson as interval


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def trained(planted):
    """A graph with some labels unknown, two splits, what training them gave, and ids."""
    labels = np.where(np.arange(60) % 5 == 0, UNKNOWN, planted.labels)
    graph = Graph.build(planted.features, planted.links, labels, ("even", "odd"))
    splits = [held_out(labels, 0.3, seed) for seed in (0, 1)]
    return graph, splits, fit(graph, splits, seeds=(0, 1), epochs=3, device="cpu")


def metrics_of(trained, map=None):
    graph, splits, result = trained
    ids = [f"n{i}" for i in range(graph.n)]
    return compute_metrics(graph, splits, result, ids, map)


def random_case(seed, n=200, C=5):
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.full(C, 0.5), n)
    return p, random.integers(0, C, n)


def test_scores_are_scikit_learns():
    p, truth = random_case(0)
    p[:, 3] = 0  # a class that nothing is taken for
    truth[truth == 4] = 0  # a class that nothing is
    found = evaluate(p, truth)
    named = p.argmax(axis=1)
    np.testing.assert_array_equal(found.confusion, confusion_matrix(truth, named, labels=range(5)))
    assert found.accuracy == accuracy_score(truth, named)
    expected = precision_recall_fscore_support(truth, named, labels=range(5), zero_division=0)
    scores = found.scores
    np.testing.assert_allclose(np.stack(scores[:3]), np.stack(expected[:3]))
    np.testing.assert_array_equal(scores.support, expected[3])
    np.testing.assert_array_equal(scores.predicted, np.bincount(named, minlength=5))


def test_reliability_by_hand():
    p = np.array([[1, 0], [0.95, 0.05], [0.08, 0.92], [0.7, 0.3], [0.28, 0.72], [0.5, 0.5]])
    truth = np.array([0, 1, 1, 0, 0, 1])  # right: yes, no, yes, yes, no, no (a tie is the first)
    found = reliability(p, truth)
    assert found.counts.tolist() == [0, 0, 0, 0, 0, 1, 0, 2, 0, 3]
    np.testing.assert_allclose(found.confidence[[5, 7, 9]], [0.5, 0.71, (1 + 0.95 + 0.92) / 3])
    np.testing.assert_allclose(found.accuracy[[5, 7, 9]], [0, 0.5, 2 / 3])
    assert not found.confidence[[0, 1, 2, 3, 4, 6, 8]].any()
    gaps = [0.5 * 1, 0.21 * 2, (2.87 / 3 - 2 / 3) * 3]
    assert found.error == pytest.approx(sum(gaps) / 6)


def test_homophily_on_a_graph_made_by_hand():
    #   a a b b ?  and links  a-a, a-b, b-b, b-?, ?-?, a-a with itself
    classes = np.array([0, 0, 1, 1, UNKNOWN, UNKNOWN])
    links = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [0, 0]])
    found = homophily(links, classes, C=3)
    assert (found.links, found.share, found.chance) == (3, pytest.approx(2 / 3), 0.5)
    assert found.counts.tolist() == [[2, 1, 0], [1, 2, 0], [0, 0, 0]]
    np.testing.assert_allclose(
        row_shares(found.counts), [[2 / 3, 1 / 3, 0], [1 / 3, 2 / 3, 0], [0, 0, 0]]
    )


def test_homophily_without_links_is_nothing():
    found = homophily(np.empty((0, 2), dtype=np.int64), np.array([0, 1]), C=2)
    assert (found.links, found.share, found.chance) == (0, 0.0, 0.5)


def test_the_interval_holds_the_shares_that_are_not_too_far():
    for share, n in [(0.0, 5), (0.9, 10), (1.0, 40), (0.5, 1000)]:
        for end in interval(share, n, z=1.96):
            # Wilson: the ends are the truths of which the share found is 1.96 deviations away.
            assert abs(share - end) == pytest.approx(1.96 * np.sqrt(end * (1 - end) / n), abs=1e-6)


def test_the_least_certain_nodes_by_brute_force():
    p, labels = random_case(1)
    found = least_certain(p, labels, range(200))
    margins = [(sorted(row)[-1] - sorted(row)[-2], i) for i, row in enumerate(p)]
    assert [int(node.id) for node in found] == [i for _, i in sorted(margins)[:UNCERTAIN]]
    for node in found:
        row = p[int(node.id)]
        assert node.label == labels[int(node.id)]
        assert node.first == (row.argmax(), row.max())
        assert node.second == (row.argsort()[-2], np.sort(row)[-2])


def test_one_class_has_no_uncertain_nodes():
    assert least_certain(np.ones((3, 1)), np.zeros(3, dtype=int), range(3)) == []


# The map.


def test_few_nodes_are_mapped_by_their_principal_components():
    h = np.random.default_rng(0).normal(size=(TSNE_NODES - 1, 8)) * np.arange(1, 9)
    centred = h - h.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(project(h)), np.abs(u[:, :2] * s[:2]))


def test_the_map_is_the_same_each_time_and_keeps_groups_together():
    random = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 40)
    h = 8 * np.eye(3, 60)[group] + random.normal(size=(120, 60))
    places = project(h)
    np.testing.assert_array_equal(places, project(h))
    middles = np.stack([places[group == g].mean(axis=0) for g in range(3)])
    nearest = ((places[:, None] - middles) ** 2).sum(axis=-1).argmin(axis=1)
    np.testing.assert_array_equal(nearest, group)


@pytest.mark.parametrize("n", [1, 2, TSNE_NODES, 50])
def test_nodes_that_are_all_alike_lie_in_one_place(n):
    np.testing.assert_array_equal(project(np.ones((n, 4))), np.zeros((n, 2)))


@pytest.mark.parametrize(
    ("n", "width"), [(2, 5), (5, 1), (TSNE_NODES, 1), (TSNE_NODES, 100), (90, 3)]
)
def test_every_size_has_a_map(n, width):
    places = project(np.random.default_rng(0).normal(size=(n, width)))
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()


def test_the_hidden_layer_is_what_the_first_replicas_head_reads(trained):
    graph, _, result = trained
    inputs, network = make_inputs(graph.features, torch.device("cpu")), result.model.network
    h = _hidden(network, inputs, np.array([3, 50]))
    both = torch.from_numpy(np.stack([h, h])).float().unsqueeze(1)  # (R, 1, 2, hidden)
    with torch.no_grad():
        z = network.own(both)[0, 0]
    np.testing.assert_allclose(z, logits(network, inputs)[0][0, [3, 50]], rtol=1e-4, atol=1e-5)


# All of it.


def test_a_replica_is_evaluated_on_its_own_validation_nodes(trained):
    graph, splits, result = trained
    held = metrics_of(trained, map=False).validation
    inputs = make_inputs(graph.features, torch.device("cpu"))
    z, s = logits(result.model.network, inputs)
    around = relations_of(graph, graph.n, torch.device("cpu"))
    modes = {"features": z, "links": message_passing(z, s, around, result.model.alpha)}
    for mode, scores in modes.items():
        named = [scores[r, split.validation].argmax(-1) for r, split in enumerate(splits)]
        truth = np.concatenate([graph.labels[split.validation] for split in splits])
        expected = confusion_matrix(truth, np.concatenate(named))
        np.testing.assert_array_equal(held.modes[mode].confusion, expected)
    best = result.history.best("features")
    assert held.modes["features"].accuracy == pytest.approx(best.validation.mean())
    np.testing.assert_array_equal(held.best, best.epochs - 1)
    np.testing.assert_array_equal(held.curves["links"], result.history.curve("mean")[:, 0])
    assert held.nodes == len(set(splits[0].validation) | set(splits[1].validation))


def test_all_nodes_have_the_replicas_mean_probabilities(trained):
    graph, _, result = trained
    found = metrics_of(trained)
    p = from_features(result.model, graph.features)
    expected = least_certain(p, graph.labels, [f"n{i}" for i in range(graph.n)])
    assert [node.id for node in found.uncertain] == [node.id for node in expected]
    classes = np.where(graph.labels == UNKNOWN, p.argmax(axis=1), graph.labels)
    np.testing.assert_array_equal(found.map.classes, classes)
    np.testing.assert_array_equal(found.map.known, graph.labels != UNKNOWN)
    links = homophily(graph.links, p.argmax(axis=1), 2)
    assert found.predicted_links.share == links.share
    assert found.labelled.tolist() == np.bincount(graph.labels[graph.labels != UNKNOWN]).tolist()


def test_metrics_are_deterministic(trained):
    one, other = metrics_of(trained), metrics_of(trained)
    np.testing.assert_array_equal(one.map.places, other.map.places)
    assert one.uncertain == other.uncertain


def test_without_validation_nodes_there_are_no_validation_metrics(planted):
    splits = [held_out(planted.labels, 0, 0)]
    result = fit(planted, splits, epochs=1, device="cpu", held_out=0)
    found = compute_metrics(planted, splits, result, range(60), map=False)
    assert found.validation is None
    assert len(found.uncertain) == UNCERTAIN


def test_the_map_can_be_switched_off_and_is_off_for_large_graphs(trained, monkeypatch):
    graph, splits, result = trained
    monkeypatch.setattr(metrics, "map_hidden_layer", lambda *_: pytest.fail("a map was drawn"))
    assert compute_metrics(graph, splits, result, range(graph.n), map=False).map is None
    monkeypatch.setattr(metrics, "MAP_LIMIT", graph.n - 1)
    assert compute_metrics(graph, splits, result, range(graph.n)).map is None
    monkeypatch.setattr(metrics, "map_hidden_layer", lambda *_: "a map")
    assert compute_metrics(graph, splits, result, range(graph.n), map=True).map == "a map"
    monkeypatch.setattr(metrics, "MAP_LIMIT", graph.n)
    assert compute_metrics(graph, splits, result, range(graph.n)).map == "a map"


def test_a_large_graph_is_mapped_in_part():
    random = np.random.default_rng(0)
    n = MAP_NODES + 200
    graph = Graph.build(random.normal(size=(n, 3)), random.integers(0, n, (n, 2)), np.arange(n) % 2)
    splits = [held_out(graph.labels, 0.1, 0)]
    result = fit(graph, splits, epochs=1, device="cpu")
    found = compute_metrics(graph, splits, result, range(n)).map
    assert len(set(found.ids)) == len(found.places) == MAP_NODES
    classes = [graph.labels[int(id)] for id in found.ids]
    np.testing.assert_array_equal(found.classes, classes)


def test_metrics_of_weights_that_overflowed(trained):
    model = trained[2].model
    with torch.no_grad():
        model.network.first.weight.fill_(torch.inf)
    found = metrics_of(trained)
    assert np.isfinite(found.map.places).all()
    assert found.uncertain[0].first == (0, 0.5)
    assert np.isfinite(found.validation.modes["links"].reliability.error)


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 6))
def test_metrics_of_random_probabilities_are_finite_and_sum(seed, n, C):
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.full(C, 0.3), n)
    truth = random.integers(0, C, n)
    links = random.integers(0, n, (2 * n, 2))
    found = evaluate(p, truth)
    assert found.confusion.sum() == found.reliability.counts.sum() == n
    assert found.accuracy == pytest.approx(found.confusion.trace() / n)
    by_bins = found.reliability.accuracy * found.reliability.counts
    assert by_bins.sum() == pytest.approx(found.confusion.trace())
    assert 0 <= found.reliability.error <= 1
    assert len(found.reliability.counts) == BINS
    scores = np.stack(found.scores[:3])
    assert ((scores >= 0) & (scores <= 1)).all()
    labels = np.where(random.random(n) < 0.3, UNKNOWN, truth)
    joined = homophily(links, labels, C)
    assert joined.counts.sum() == 2 * joined.links
    assert joined.counts.trace() == pytest.approx(2 * joined.links * joined.share)
    sums = row_shares(joined.counts).sum(axis=1)
    np.testing.assert_allclose(sums[joined.counts.any(axis=1)], 1)
    assert not sums[~joined.counts.any(axis=1)].any()
    assert 0 <= joined.chance <= 1 + 1e-12
    assert len(least_certain(p, truth, range(n))) == (min(n, UNCERTAIN) if C > 1 else 0)
