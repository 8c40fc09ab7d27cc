"""Nothing of a test node reaches a training: all of it can be replaced without any difference."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rivals import networks
from rivals import trees as boosting
from rivals.linear import linear, self_training
from rivals.networks import Trainer
from rivals.propagation import correct_and_smooth, propagation
from rivals.protocol import Problem, draw, predictions_of
from rivals.trees import averaged_trees, spread_then_trees, trees

from linkdist.data.graph import with_links
from linkdist.data.links import Links


def scrambled(graph, split):
    """The graph with other features, labels and links of its test nodes."""
    random = np.random.default_rng(1)
    features, labels = graph.features.copy(), graph.labels.copy()
    features[split.test] = 100 * random.normal(size=(len(split.test), graph.d))
    labels[split.test] = random.permutation(labels[split.test])
    links = graph.links[~np.isin(graph.links, split.test).any(axis=1)]
    others = np.stack([split.test, random.permutation(split.test)], axis=1)
    pairs = np.unique(np.sort(np.concatenate([links, others]), axis=1), axis=0)
    return with_links(replace(graph, features=features, labels=labels), Links(pairs))


def by_networks(problem):
    trainer = Trainer(problem, torch.device("cpu"))
    mlp = trainer.supervised("MLP")
    yield mlp
    if problem.graph.task != "regression":
        yield correct_and_smooth(problem, mlp, torch.device("cpu"))
    for name in ("GraphSAGE", "GCN"):
        teacher = trainer.supervised(name)
        yield teacher
        yield trainer.student(teacher)


def by_linear(problem):
    base = linear(problem)
    yield base
    if problem.graph.task != "regression":
        yield self_training(problem, base)


def alone(method):
    def fit(problem):
        yield method(problem)

    return fit


ALL = [by_linear, by_networks, *map(alone, (trees, averaged_trees, spread_then_trees, propagation))]


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("fit", ALL)
def test_scrambled_test_nodes_change_no_training(made, monkeypatch, fit, numbers):
    monkeypatch.setattr(networks, "EPOCHS", 10)
    graph = made(numbers=numbers)
    split = draw(graph, "60%", 0)
    plain = Problem(graph, split, 0)
    other = Problem(scrambled(graph, split), split, 0)
    for one, two in zip(fit(plain), fit(other), strict=True):
        assert (one.setting, one.quality) == (two.setting, pytest.approx(two.quality, abs=1e-3))
        nodes = plain.view.nodes  # predicted over the visible links of the plain graph
        found = [predictions_of(c.model, plain, nodes, plain.view.edges) for c in (one, two)]
        assert np.allclose(*found, atol=1e-5)


@pytest.mark.parametrize("fit", ALL)
def test_every_method_learns_the_made_classes(made, monkeypatch, fit):
    monkeypatch.setattr(networks, "EPOCHS", 40)
    graph = made()
    problem = Problem(graph, draw(graph, "60%", 1), 1)
    for chosen in fit(problem):
        assert problem.test_score(chosen.test_predictions(problem)) > 60  # by chance 33


@pytest.mark.parametrize("narrow", [20, 128])
def test_every_method_reads_sparse_words(made, monkeypatch, narrow):
    monkeypatch.setattr(boosting, "NARROW", narrow)
    monkeypatch.setattr(networks, "EPOCHS", 5)
    graph = made(words=True)
    problem = Problem(graph, draw(graph, "20", 1), 1)
    for fit in ALL:
        for chosen in fit(problem):
            p = chosen.test_predictions(problem)
            assert p.shape == (30, 3)
            assert np.allclose(p.sum(axis=1), 1, atol=1e-5)
