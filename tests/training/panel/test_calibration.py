"""Oracles: the formulas in NumPy for random weights and exponents, likelihoods by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from linkdist import Graph
from linkdist.model import from_features, logits, with_links
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.training.panel.learning import LOWEST, Calibration, calibrate
from linkdist.training.panel.likelihood import class_prior

CPU = torch.device("cpu")
R, C = 3, 4


@pytest.fixture
def graph():
    """Thirty nodes, the last three without links but for one to itself."""
    random = np.random.default_rng(0)
    pairs = np.concatenate([random.integers(0, 27, (60, 2)), [[29, 29]]])
    return Graph.build(random.normal(size=(30, 5)), pairs, random.integers(0, C, 30))


@pytest.fixture
def network():
    """Three replicas whose weights, biases and statistics are all random."""
    found = ForkedMLP(5, C, seeds=range(R), hidden=16)
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in found.state_dict().values():
            tensor.add_(torch.rand(tensor.shape, generator=random))
    return found


def some_exponents(alpha=None):
    random = np.random.default_rng(1)
    alone = np.stack([random.uniform(0.3, 2, R), random.normal(size=R)], axis=1)
    linked = np.stack(
        [random.uniform(0, 2, R), random.uniform(0.1, 2, R), random.normal(size=R)], axis=1
    )
    if alpha is not None:
        linked[1] = alone[1, 0], 0.0, alone[1, 1]  # as where links are worth nothing
    shares = np.log(random.dirichlet(np.ones(C), size=R))
    return Calibration(alone, linked, shares, np.zeros(R))


def predictions(network, graph):
    """log p(z), and the neighbours' mean of log p(s), by NumPy."""
    z, s = (part.numpy() for part in logits(network, make_inputs(graph.features, CPU)))
    A = np.zeros((graph.n, graph.n))
    A[tuple(graph.edges.T)] = 1
    np.fill_diagonal(A, 0)
    P = A / np.maximum(A.sum(axis=1, keepdims=True), 1)
    return log_softmax(z.astype(float), axis=-1), P @ log_softmax(s.astype(float), axis=-1)


def by_hand(found, r, own, neighbour):
    """Probabilities from features and with links, as the module's head writes them."""
    (sharp, delta), (kappa, alpha, epsilon) = found.alone[r], found.linked[r]
    pi = found.log_prior[r]
    features = softmax(sharp * own + delta * pi, axis=1)
    links = softmax(kappa * own + alpha * neighbour + epsilon * pi, axis=1)
    return features, np.where(neighbour.any(axis=1, keepdims=True), links, features)


@pytest.mark.parametrize("alpha", [None, 0.0])
def test_calibration_is_the_formula(network, graph, alpha):
    found = some_exponents(alpha)
    own, neighbour = predictions(network, graph)
    scores = found.scores(torch.from_numpy(own), torch.from_numpy(neighbour))
    for r in range(R):
        features, links = by_hand(found, r, own[r], neighbour[r])
        np.testing.assert_allclose(np.exp(found.features(r, own[r])), features, atol=1e-9)
        np.testing.assert_allclose(np.exp(found.links(r, own[r], neighbour[r])), links, atol=1e-9)
        for score, expected in zip(scores, (features, links), strict=True):
            np.testing.assert_allclose(score[r].softmax(-1).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("alpha", [None, 0.0])
@pytest.mark.parametrize("kept", [[0, 1, 2], [1], [2, 1]])
def test_the_model_predicts_what_calibration_says(network, graph, kept, alpha):
    """Nodes without neighbours, and replicas whose links are worth nothing, included."""
    found = some_exponents(alpha)
    own, neighbour = predictions(network, graph)
    model = calibrate(network, kept, found, graph)
    z, s = logits(model.network, make_inputs(graph.features, CPU))
    linked = model.with_neighbours(z, s, Neighbours([graph.edges], graph.n, CPU))
    for place, r in enumerate(kept):
        features = np.exp(found.features(r, own[r]))
        links = np.exp(found.links(r, own[r], neighbour[r]))
        np.testing.assert_allclose(z[place].softmax(-1).numpy(), features, atol=1e-4)
        np.testing.assert_allclose(linked[place].softmax(-1).numpy(), links, atol=1e-4)
        np.testing.assert_allclose(links[27:], features[27:])


def test_who_runs_the_model_predicts_calibrated_probabilities(network, graph):
    found = some_exponents()
    own, neighbour = predictions(network, graph)
    model = calibrate(network, [1], found, graph)
    features, links = by_hand(found, 1, own[1], neighbour[1])
    np.testing.assert_allclose(from_features(model, graph.features), features, atol=1e-4)
    np.testing.assert_allclose(with_links(model, graph.features, graph.links), links, atol=1e-4)


def test_calibrating_leaves_the_network_itself_as_it_was(network, graph):
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    calibrate(network, [0, 2], some_exponents(), graph)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


class Labels:
    """The part of an ensemble that calibration uses; some labels calibrate each replica."""

    def __init__(self, labels, calibrated_by, prior=None):
        self.each, self.graph = labels, SimpleNamespace(C=C)
        self.replicas = [SimpleNamespace(calibrated_by=places) for places in calibrated_by]
        self.estimated_prior = prior or [None] * len(calibrated_by)

    def labels(self, places):
        none = np.array([], dtype=np.int64)
        return np.concatenate([none, *(self.each[place] for place in places)])

    def calibrating(self, places):
        return np.ones(len(self.labels(places)), dtype=bool)

    def class_prior(self, replica):
        return class_prior(self.labels(replica.calibrated_by), C)


def overconfident(N=200, seed=0):
    """Overconfident log p of validation nodes, their neighbours' mean, and their classes."""
    random = np.random.default_rng(seed)
    z = random.normal(size=(N, C))
    labels = (softmax(z, axis=1).cumsum(axis=1) < random.random((N, 1))).sum(axis=1)
    neighbour = log_softmax(2 * np.eye(C)[labels] + random.normal(size=(N, C)), axis=1)
    return log_softmax(3 * z, axis=1), neighbour, labels


def loss_of(log_p, labels):
    return -log_p[np.arange(len(labels)), labels].mean()


def test_calibration_lowers_the_judges_loss():
    own, neighbour, labels = overconfident()
    found = Calibration.of(Labels([labels], [(0,)]), [own], [neighbour])
    as_it_was = loss_of(own, labels)
    alone = loss_of(found.features(0, own), labels)
    linked = loss_of(found.links(0, own, neighbour), labels)
    assert alone < as_it_was - 0.1
    assert linked < alone - 0.1
    assert found.loss[0] == pytest.approx(alone)
    assert found.alone[0, 0] == pytest.approx(1 / 3, abs=0.08)


def test_what_was_calibrated_stays_nearly_as_it_is():
    own, neighbour, labels = overconfident()
    own = log_softmax(own / 3, axis=1)
    found = Calibration.of(Labels([labels], [(0,)]), [own], [neighbour])
    assert found.alone[0, 0] == pytest.approx(1, abs=0.25)
    assert found.loss[0] <= loss_of(own, labels)


def test_a_replica_is_calibrated_by_the_judges_whom_it_trusts():
    """And not by its own."""
    first, second = overconfident(seed=0), overconfident(seed=1)
    (a, v, y), (b, w, x) = first, second
    both = Calibration.of(Labels([y, x], [(1,), (0,)]), [a, b], [v, w])
    for r, (own, neighbour, labels) in enumerate((second, first)):
        alone = Calibration.of(Labels([labels], [(0,)]), [own], [neighbour])
        assert both.alone[r] == pytest.approx(alone.alone[0])
        assert both.linked[r] == pytest.approx(alone.linked[0])


def test_where_nobody_judges_predictions_stay_as_they_are():
    none = np.empty((0, C))
    found = Calibration.of(Labels([], [()]), [none], [none])
    own, neighbour, _ = overconfident(N=5)
    np.testing.assert_allclose(found.features(0, own), own)
    expected = log_softmax((own + neighbour) / 2, axis=1)
    np.testing.assert_allclose(found.links(0, own, neighbour), expected)
    assert found.loss[0] == 0


def test_links_that_mislead_are_left_out():
    own, neighbour, labels = overconfident()
    found = Calibration.of(Labels([labels], [(0,)]), [own], [-neighbour])
    assert found.linked[0].tolist() == [found.alone[0, 0], 0.0, found.alone[0, 1]]
    np.testing.assert_allclose(found.links(0, own, -neighbour), found.features(0, own))


def test_a_network_that_is_mostly_wrong_still_says_something():
    own, neighbour, labels = overconfident()
    found = Calibration.of(Labels([labels], [(0,)]), [-own], [neighbour])
    assert found.alone[0, 0] == LOWEST


def test_judges_that_were_chosen_by_class_hear_predictions_without_the_nodes_shares():
    """Those shares come back for all who are predicted afterwards."""
    own, neighbour, labels = overconfident(N=2000)
    own = log_softmax(own / 3, axis=1)
    pi = np.log([0.7, 0.1, 0.1, 0.1])
    taught = log_softmax(own + pi, axis=1)  # a student of targets that know the shares
    found = Calibration.of(Labels([labels], [(0,)], [pi]), [taught], [neighbour])
    assert found.alone[0] == pytest.approx([1.0, 0.0], abs=0.15)
    np.testing.assert_allclose(found.log_prior[0], pi)
    assert found.loss[0] <= loss_of(own, labels) + 0.01
