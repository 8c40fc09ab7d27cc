"""Oracles: the loss on targets in NumPy, and what is hidden."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.special import log_softmax

from linkdist import Graph, LinkDistClassifier, fit
from linkdist.data.splits import observe, semi_supervised
from linkdist.nn.aggregation import RandomNeighbours
from linkdist.nn.inputs import make_inputs
from linkdist.nn.losses import soft_cross_entropy
from linkdist.nn.network import ForkedMLP, Noise, feature_mask
from linkdist.nn.optim import RandomStreams
from linkdist.nn.tasks import Classification
from linkdist.pipeline import Options
from linkdist.training.link_task import MASKED, loss_on_targets

CPU = torch.device("cpu")


@pytest.fixture
def wide():
    """Three groups of nodes, with so many features that half of them are hidden in each step."""
    random = np.random.default_rng(0)
    labels = np.arange(420) % 3
    words = random.random((3, 300)) < 0.1
    features = (random.random((420, 300)) < np.where(words[labels], 0.12, 0.04)) * 1.0
    pairs = random.integers(0, 420, (6000, 2))
    like = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    return Graph.build(
        sparse.csr_matrix(features), pairs[like | (random.random(6000) < 0.1)], labels
    )


def test_soft_cross_entropy_is_the_formula():
    random = np.random.default_rng(0)
    z = random.normal(size=(3, 7, 4))
    p = random.dirichlet(np.ones(4), size=(3, 7))
    expected = -(p * log_softmax(z, axis=-1)).sum(-1).mean(-1)
    found = soft_cross_entropy(torch.from_numpy(z), torch.from_numpy(p))
    np.testing.assert_allclose(found.numpy(), expected)


def test_neighbours_are_drawn_evenly_and_only_along_links(planted):
    views = [observe(planted, semi_supervised(planted, r, 4, 10, 20), "inductive") for r in (0, 1)]
    around = RandomNeighbours([view.all_edges for view in views], planted.n, CPU)
    numbers = torch.from_numpy(np.random.default_rng(0).integers(0, 1 << 62, (2, 4000)))
    for i in range(planted.n):
        drawn = around.pick(torch.full((2, 4000), i), numbers).numpy()
        for r, view in enumerate(views):
            linked = view.edges[view.edges[:, 0] == i, 1]
            who, counts = np.unique(drawn[r], return_counts=True)
            assert set(who) == (set(linked) or {i})
            assert np.abs(counts / 4000 - 1 / len(who)).max() < 0.05


@pytest.mark.parametrize("hide", [0.5, 0.7])
def test_a_share_of_the_features_is_hidden_others_for_each_replica(hide):
    words = torch.from_numpy(
        np.random.default_rng(0).integers(-(1 << 63), (1 << 63) - 1, (2, 625), dtype=np.int64)
    )
    kept = feature_mask(words, 5000, hide)
    assert kept.shape == (2, 5000, 1)
    assert ((kept == 0).float().mean(1) - hide).abs().max() < 0.03
    assert len(kept.unique()) == 2
    assert (kept.mean(1) - 1).abs().max() < 0.1
    assert not torch.equal(kept[0], kept[1])


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_a_hidden_feature_is_one_that_is_zero(planted, form):
    """Against an evaluation of rows whose hidden features are zero and whose others are doubled."""
    x = planted.features if form == "dense" else sparse.csr_matrix(planted.features * 1.0)
    kept = torch.tensor([[2.0, 0.0, 2.0, 0.0, 0.0, 2.0]]).unsqueeze(-1)
    network = ForkedMLP(planted.d, planted.C, [0], hidden=8)
    rows = torch.arange(20).view(1, 1, -1)
    found = network.first(make_inputs(x, CPU), rows, kept)
    masked = (planted.features * kept[0, :, 0].numpy()).astype(np.float32)
    expected = network.first(make_inputs(masked, CPU), rows)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["planted", "wide"])
def test_the_loss_is_the_formula_on_the_networks_own_logits(kind, request):
    graph = request.getfixturevalue(kind)
    words = {"planted": 0, "wide": 38}[kind]
    view = observe(graph, semi_supervised(graph, 0, 4, 10, 20), "inductive")
    inputs = make_inputs(graph.features, CPU)
    network = ForkedMLP(graph.d, graph.C, [0], hidden=8)
    p = np.random.default_rng(0).dirichlet(np.ones(graph.C), size=(1, graph.n))
    loss_of = loss_on_targets(
        network, inputs, [view], torch.from_numpy(p).float(), Classification()
    )
    index, pace = torch.arange(9).view(1, -1), torch.zeros(1, 1, 1)
    found = loss_of(index, begun(), pace).detach()
    bits, numbers = begun().draw((1, 1, 9), network.hidden, network.blocks, 9 + words)
    i = view.nodes[:9]
    noise = Noise(bits, pace, feature_mask(numbers[:, 9:], graph.d, MASKED) if words else None)
    z, s = network(inputs, torch.from_numpy(i).view(1, 1, -1), noise)
    linked = [view.edges[view.edges[:, 0] == a, 1] for a in i]
    at = numbers[0, :9].numpy()
    j = [int(a[k % len(a)]) if len(a) else int(b) for a, b, k in zip(linked, i, at, strict=True)]
    own = -(p[0, i] * log_softmax(z[0, 0].detach().numpy(), axis=1)).sum(1).mean()
    beside = -(p[0, j] * log_softmax(s[0, 0, 0].detach().numpy(), axis=1)).sum(1).mean()
    assert float(found) == pytest.approx(own + beside, rel=1e-5)


def begun():
    draws = RandomStreams([3], CPU)
    draws.begin_epoch(0)
    return draws


OPTIONS = {"method": "selflinkdist", "epochs": 3, "device": "cpu"}


@pytest.mark.parametrize("setting", ["transductive", "inductive", "production"])
def test_hidden_test_nodes_cannot_matter(planted, setting):
    """Scramble test labels and, where they are hidden, test nodes' features and links."""
    random = np.random.default_rng(5)
    split = semi_supervised(planted, 0, 4, 10, 20)
    labels, features, links = planted.labels.copy(), planted.features.copy(), planted.links
    labels[split.test] = 1 - labels[split.test]
    if setting != "transductive":
        features[split.test] = random.normal(size=(len(split.test), planted.d))
        away = ~np.isin(links, split.test).any(axis=1)
        strange = np.stack([random.choice(split.test, 50), random.integers(0, 60, 50)], axis=1)
        links = np.concatenate([links[away], strange])
    scrambled = Graph.build(features, links, labels)
    graphs = (planted, scrambled)
    results = [fit(graph, split, setting, seeds=[0], **OPTIONS) for graph in graphs]
    weights = [result.model.network.state_dict() for result in results]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_everyone_has_the_same_default_method():
    assert signature(fit).parameters["method"].default == "selflinkdist"
    assert LinkDistClassifier().method == Options().method == "selflinkdist"


def test_it_learns_more_from_features_than_colinkdist_does(wide):
    """Unseen nodes from their words alone, the mean of four seeds."""
    seeds = [0, 1, 2, 3]
    splits = [semi_supervised(wide, seed, 10, 60, 120) for seed in seeds]
    score = {}
    for method in ("colinkdist", "selflinkdist"):
        found = fit(wide, splits, "inductive", method=method, seeds=seeds, device="cpu")
        score[method] = found.history.best("features").test.mean()
    assert score["selflinkdist"] > score["colinkdist"] > 0.5
