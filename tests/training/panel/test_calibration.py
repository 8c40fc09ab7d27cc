"""Oracles: the formulas in NumPy for random weights and exponents, likelihoods by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax, softmax

from linkdist import Graph
from linkdist.data.links import Links
from linkdist.model import from_features, logits, with_links
from linkdist.nn.aggregation import relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.nn.tasks import task_named
from linkdist.training.panel.calibration import (
    LOWEST,
    Calibration,
    Rows,
    calibrate,
    fit_heads,
)
from linkdist.training.panel.families import Classes, Numbers, family_of

CPU = torch.device("cpu")
R, C = 3, 4
MEAN = {
    "classification": lambda x: softmax(x, axis=-1),
    "multilabel": expit,
    "regression": lambda x: x,
}
RELATIONS = {1: ("links",), 3: ("a", "b", "c")}


def graph_of(K=1, task="classification", directed=False):
    """Thirty nodes, the last three without links but for one self-loop; weighted relations."""
    random = np.random.default_rng(0)
    pairs = np.concatenate([random.integers(0, 27, (60, 2)), [[29, 29]]])
    relation = random.integers(0, K, 61) if K > 1 else None
    weights = random.uniform(0.5, 2, 61).astype(np.float32) if K > 1 else None
    links = Links(pairs, relation, weights, RELATIONS[K], directed)
    labels = {
        "classification": random.integers(0, C, 30),
        "multilabel": random.integers(0, 2, (30, C)),
        "regression": random.normal(size=30),
    }[task]
    return Graph.build(random.normal(size=(30, 5)), links, labels, task=task)


CASES = [
    graph_of(),
    graph_of(3),
    graph_of(3, directed=True),
    graph_of(3, "multilabel"),
    graph_of(1, "regression"),
    graph_of(3, "regression"),
]
NAMES = ["one head", "three", "directed", "labels", "number", "number of three"]


@pytest.fixture(params=CASES, ids=NAMES)
def graph(request):
    return request.param


@pytest.fixture
def network(graph):
    """Three replicas whose weights, biases and statistics are all random."""
    found = ForkedMLP(5, graph.C, seeds=range(R), hidden=16, K=len(graph.heads))
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in found.state_dict().values():
            tensor.add_(torch.rand(tensor.shape, generator=random))
    return found


def some_exponents(graph, nothing=False):
    """Random exponents; with `nothing`, links are worth nothing for the second replica."""
    random, K = np.random.default_rng(1), len(graph.heads)
    alone = np.stack([random.uniform(0.3, 2, R), random.normal(size=R)], axis=1)
    linked = random.uniform(0.1, 2, (R, K + 2))
    linked[:, -1] = random.normal(size=R)
    if K > 1:
        linked[:, 1] = 0.0  # a relation that says nothing
    if nothing:
        linked[1] = [alone[1, 0], *[0.0] * K, alone[1, 1]]
    prior = np.log(random.dirichlet(np.ones(graph.C), size=R))
    if graph.task == "regression":
        prior = np.ones((R, 1))
    return Calibration(family_of(graph.task), alone, linked, prior, np.zeros(R))


def rows_of(network, graph):
    """Natural parameters, and their weighted means over the neighbours of each head, by NumPy."""
    natural = task_named(graph.task).natural
    z, s = (natural(part).double().numpy() for part in logits(network, _inputs(graph)))
    means, linked = [], []
    for k in range(len(graph.heads)):
        A = np.zeros((graph.n, graph.n))
        edges = graph.all_edges.of_head(k)
        A[tuple(edges.pairs.T)] = 1 if edges.weights is None else edges.weights
        np.fill_diagonal(A, 0)
        degree = A.sum(axis=1, keepdims=True)
        means.append(A / np.where(degree > 0, degree, 1) @ s[k])
        linked.append(degree > 0)
    return [Rows(z[r], np.stack([part[r] for part in means]), np.stack(linked)) for r in range(R)]


def _inputs(graph):
    return make_inputs(graph.features, CPU)


def by_hand(found, r, rows, task):
    """Predictions from features and with links, as the module's docstring writes them."""
    (lam, delta), (kappa, *alpha, epsilon) = found.alone[r], found.linked[r]
    pi, total = found.prior[r], max(sum(alpha), 1e-12)
    own, beside = MEAN[task](lam * rows.own + delta * pi), []
    for i in range(len(rows.own)):
        S = sum(a for a, there in zip(alpha, rows.linked[:, i, 0], strict=True) if there) / total
        score = (S * kappa + (1 - S) * lam) * rows.own[i] + (S * epsilon + (1 - S) * delta) * pi
        score = score + sum(a * part[i] for a, part in zip(alpha, rows.beside, strict=True))
        beside.append(MEAN[task](score))
    return own, np.array(beside)


@pytest.mark.parametrize("nothing", [False, True])
def test_calibration_is_the_formula(network, graph, nothing):
    found, rows = some_exponents(graph, nothing), rows_of(network, graph)
    z = torch.from_numpy(np.stack([part.own for part in rows]))
    beside = torch.from_numpy(np.stack([part.beside for part in rows], axis=1))
    linked = torch.from_numpy(rows[0].linked).unsqueeze(1)
    scores = found.scores(z, beside, linked, range(R))
    last = found.scores(z[1:], beside[:, 1:], linked, range(1, R))
    for part, whole in zip(last, scores, strict=True):
        assert torch.equal(part, whole[1:])
    mean = task_named(graph.task).mean
    for r in range(R):
        features, links = by_hand(found, r, rows[r], graph.task)
        for value, expected in (
            (found.features(r, rows[r]), features),
            (found.links(r, rows[r]), links),
        ):
            np.testing.assert_allclose(found.family.mean(value), expected, atol=1e-9)
        for score, expected in zip(scores, (features, links), strict=True):
            np.testing.assert_allclose(mean(score[r]).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("nothing", [False, True])
@pytest.mark.parametrize("kept", [[0, 1, 2], [1], [2, 1]])
def test_the_model_predicts_what_calibration_says(network, graph, kept, nothing):
    """Nodes without neighbours of some or all heads, and worthless links, included."""
    found, rows = some_exponents(graph, nothing), rows_of(network, graph)
    model = calibrate(network, kept, found, graph)
    z, s = logits(model.network, _inputs(graph))
    linked = model.with_neighbours(z, s, relations_of(graph, graph.n, CPU))
    mean = task_named(graph.task).mean
    for place, r in enumerate(kept):
        features, links = by_hand(found, r, rows[r], graph.task)
        np.testing.assert_allclose(mean(z[place]).numpy(), features, atol=1e-4)
        np.testing.assert_allclose(mean(linked[place]).numpy(), links, atol=1e-4)
        np.testing.assert_allclose(links[27:], features[27:])


def test_who_runs_the_model_predicts_calibrated_values(network, graph):
    found, rows = some_exponents(graph), rows_of(network, graph)
    model = calibrate(network, [1], found, graph)
    features, links = by_hand(found, 1, rows[1], graph.task)
    np.testing.assert_allclose(from_features(model, graph.features), features, atol=1e-4)
    np.testing.assert_allclose(with_links(model, graph.features, graph.all_links), links, atol=1e-4)


def test_calibrating_leaves_the_network_itself_as_it_was(network, graph):
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    calibrate(network, [0, 2], some_exponents(graph), graph)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


class Labels:
    """The part of an ensemble that calibration uses; some labels calibrate each replica."""

    def __init__(self, labels, calibrated_by, prior=None, family=None):
        self.each, self.graph = labels, SimpleNamespace(C=C)
        self.replicas = [SimpleNamespace(calibrated_by=places) for places in calibrated_by]
        self.estimated_prior = prior or [None] * len(calibrated_by)
        self.family = family or Classes()

    def labels(self, places):
        none = np.array([], dtype=np.int64)
        return np.concatenate([none, *(self.each[place] for place in places)])

    def calibrating(self, places):
        return np.ones(len(self.labels(places)), dtype=bool)

    def prior(self, replica):
        return self.family.prior(self.labels(replica.calibrated_by), C)


def rows(own, *beside):
    return Rows(own, np.stack(beside), np.ones((len(beside), len(own), 1), dtype=bool))


def overconfident(N=200, seed=0):
    """Overconfident log p of validation nodes, their neighbours' mean, and their classes."""
    random = np.random.default_rng(seed)
    z = random.normal(size=(N, C))
    labels = (softmax(z, axis=1).cumsum(axis=1) < random.random((N, 1))).sum(axis=1)
    neighbour = log_softmax(2 * np.eye(C)[labels] + random.normal(size=(N, C)), axis=1)
    return log_softmax(3 * z, axis=1), neighbour, labels


def loss_of(log_p, labels):
    return -log_p[np.arange(len(labels)), labels].mean()


def test_calibration_lowers_the_validation_loss():
    own, neighbour, labels = overconfident()
    found = Calibration.of(Labels([labels], [(0,)]), [rows(own, neighbour)])
    alone = loss_of(found.features(0, rows(own, neighbour)), labels)
    linked = loss_of(found.links(0, rows(own, neighbour)), labels)
    assert alone < loss_of(own, labels) - 0.1
    assert linked < alone - 0.1
    assert found.loss[0] == pytest.approx(alone)
    assert found.alone[0, 0] == pytest.approx(1 / 3, abs=0.08)


def test_calibrated_predictions_stay_nearly_as_they_are():
    own, neighbour, labels = overconfident()
    own = log_softmax(own / 3, axis=1)
    found = Calibration.of(Labels([labels], [(0,)]), [rows(own, neighbour)])
    assert found.alone[0, 0] == pytest.approx(1, abs=0.25)
    assert found.loss[0] <= loss_of(own, labels)


def test_a_replica_is_calibrated_by_the_validation_nodes_it_refers_to():
    """And not by its own."""
    first, second = overconfident(seed=0), overconfident(seed=1)
    (a, v, y), (b, w, x) = first, second
    both = Calibration.of(Labels([y, x], [(1,), (0,)]), [rows(a, v), rows(b, w)])
    for r, (own, neighbour, labels) in enumerate((second, first)):
        alone = Calibration.of(Labels([labels], [(0,)]), [rows(own, neighbour)])
        assert both.alone[r] == pytest.approx(alone.alone[0])
        assert both.linked[r] == pytest.approx(alone.linked[0])


def test_without_validation_nodes_predictions_stay_as_they_are():
    none = np.empty((0, C))
    found = Calibration.of(Labels([], [()]), [rows(none, none)])
    own, neighbour, _ = overconfident(N=5)
    np.testing.assert_allclose(found.features(0, rows(own, neighbour)), own)
    expected = log_softmax((own + neighbour) / 2, axis=1)
    np.testing.assert_allclose(found.links(0, rows(own, neighbour)), expected)
    assert found.loss[0] == 0


def test_without_validation_nodes_all_heads_count_alike():
    own, neighbour, _ = overconfident(N=5)
    none = np.empty((0, C))
    found = Calibration.of(Labels([], [()]), [rows(none, none, none)])
    expected = log_softmax(own / 2 + neighbour / 4 + neighbour[::-1] / 4, axis=1)
    np.testing.assert_allclose(found.links(0, rows(own, neighbour, neighbour[::-1])), expected)


def test_links_that_mislead_are_left_out():
    own, neighbour, labels = overconfident()
    found = Calibration.of(Labels([labels], [(0,)]), [rows(own, -neighbour)])
    assert found.linked[0].tolist() == [found.alone[0, 0], 0.0, found.alone[0, 1]]
    mistaken = rows(own, -neighbour)
    np.testing.assert_allclose(found.links(0, mistaken), found.features(0, mistaken))


@pytest.mark.parametrize("seed", range(5))
def test_only_the_informative_of_three_relations_counts(seed):
    own, neighbour, labels = overconfident(seed=seed)
    noise = log_softmax(np.random.default_rng(seed).normal(size=own.shape), axis=1)
    found = fit_heads(Classes(), own, np.stack([noise, neighbour, -neighbour]), np.zeros(C), labels)
    assert found[1] == found[3] == 0
    alone = fit_heads(Classes(), own, neighbour[None], np.zeros(C), labels)
    assert found[[0, 2, 4]] == pytest.approx(alone)


def test_a_head_can_be_left_out_to_measure_its_worth():
    own, neighbour, labels = overconfident()
    both = rows(own, neighbour, neighbour[::-1])
    found = Calibration.of(Labels([labels], [(0,)]), [both], without=0)
    assert found.linked[0, 1] == 0


def test_numbers_of_neighbours_are_added_by_least_squares():
    random = np.random.default_rng(0)
    own, beside = random.normal(size=(2, 5000, 1))
    y = (0.7 * own + 0.2 * beside)[:, 0] + 0.1 * random.normal(size=5000) + 3
    found = fit_heads(Numbers(), own, beside[None], np.ones(1), y)
    assert found == pytest.approx([0.7, 0.2, 3], abs=0.02)


def test_a_network_that_is_mostly_wrong_still_says_something():
    own, neighbour, labels = overconfident()
    found = Calibration.of(Labels([labels], [(0,)]), [rows(-own, neighbour)])
    assert found.alone[0, 0] == LOWEST


def test_labels_that_were_chosen_by_class_calibrate_without_the_nodes_shares():
    """Those shares come back for all predictions afterwards."""
    own, neighbour, labels = overconfident(N=2000)
    own = log_softmax(own / 3, axis=1)
    pi = np.log([0.7, 0.1, 0.1, 0.1])
    taught = log_softmax(own + pi, axis=1)  # a student of targets that know the shares
    found = Calibration.of(Labels([labels], [(0,)], [pi]), [rows(taught, neighbour)])
    assert found.alone[0] == pytest.approx([1.0, 0.0], abs=0.15)
    np.testing.assert_allclose(found.prior[0], pi)
    assert found.loss[0] <= loss_of(own, labels) + 0.01
