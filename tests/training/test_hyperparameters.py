"""Oracles: the defaults, bit for bit; the frequencies of bits; a block without Dropout."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

from linkdist import Graph, LinkDistClassifier, fit
from linkdist.artifacts.model_dir import Saved, load_model, save_model
from linkdist.data.splits import Split
from linkdist.errors import OptionError
from linkdist.kernels import Affine, activate, unpack
from linkdist.nn.network import Block, generators
from linkdist.nn.optim import RandomStreams
from linkdist.pipeline import Options
from linkdist.training.panel.learning import cycles_for

METHODS = ("selflinkdist", "colinkdist", "linkdist")
DEFAULTS = {
    "selflinkdist": {"learning_rate": 0.003, "schedule": "cosine"},
    "colinkdist": {"learning_rate": 0.01, "schedule": "constant"},
    "linkdist": {"learning_rate": 0.01, "schedule": "constant"},
}
OTHERS = {
    "hidden_size": 20,
    "batch_size": 7,
    "learning_rate": 0.02,
    "dropout": 0.25,
    "epochs": 3,
}
WRONG = {
    "hidden_size": (0, 1.5, "wide", None),
    "batch_size": (0, -1, 2.5),
    "learning_rate": (0, -0.1, np.nan, np.inf, "fast"),
    "dropout": (-0.1, 1, np.nan, "half"),
    "schedule": ("linear", ""),
    "epochs": (0, -3),
}


@pytest.fixture(scope="module")
def graph():
    random = np.random.default_rng(0)
    labels = np.arange(40) % 2
    features = random.normal(size=(40, 6)).astype(np.float32) + labels[:, None]
    links = random.integers(0, 40, (80, 2))
    return Graph.build(features, links[links[:, 0] != links[:, 1]], labels)


def trained(graph, **options):
    rows = np.arange(graph.n)
    split = Split(rows[:20], rows[20:30], rows[30:])
    return fit(graph, split, device="cpu", **{"epochs": 2, **options})


def weights(result):
    return [tensor.numpy() for tensor in result.model.network.state_dict().values()]


def same(one, other):
    pairs = zip(weights(one), weights(other), strict=True)
    return all(a.shape == b.shape and np.array_equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module")
def default(graph):
    return {method: trained(graph, method=method) for method in METHODS}


@pytest.mark.parametrize("method", METHODS)
def test_the_documented_defaults_are_the_defaults(graph, default, method):
    explicit = {"hidden_size": 256, "batch_size": 1024, "dropout": 0.5, **DEFAULTS[method]}
    assert same(trained(graph, method=method, **explicit), default[method])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [*OTHERS, "schedule"])
def test_each_hyperparameter_has_an_effect(graph, default, method, name):
    if name == "schedule":  # the first step of both is the same, so there must be several
        few = {"method": method, "batch_size": 7}
        results = [trained(graph, schedule=value, **few) for value in ("constant", "cosine")]
        assert not same(*results)
        return
    result = trained(graph, method=method, **{name: OTHERS[name]})
    if name == "epochs":  # validation nodes may prefer an earlier epoch
        assert (result.epochs, default[method].epochs) == (3, 2)
    else:
        assert not same(result, default[method])
    if name == "hidden_size":
        assert result.model.network.first.weight.shape == (1, 6, 20)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_by_name(graph, name):
    for value in WRONG[name]:
        with pytest.raises(OptionError, match=f"{name} must"):
            trained(graph, **{name: value})
        model = LinkDistClassifier(**{name: value})
        with pytest.raises(OptionError, match=f"{name} must"):
            model.fit(graph.features, graph.labels, edges=graph.links)


def test_all_wrong_values_are_reported_together(graph):
    wrong = {name: values[0] for name, values in WRONG.items()}
    with pytest.raises(OptionError) as found:
        trained(graph, method="linkdits", **wrong)
    for name in wrong:
        assert f"{name} must" in str(found.value)
    assert "unknown method 'linkdits' (near: linkdist" in str(found.value)
    with pytest.raises(OptionError) as found:
        LinkDistClassifier(replicas=0, held_out=2, **wrong).fit(graph.features, graph.labels)
    for name in (*wrong, "replicas", "held_out"):
        assert f"{name} must" in str(found.value)


def test_the_classifier_passes_its_hyperparameters_on(graph):
    model = LinkDistClassifier(random_state=0, device="cpu", **OTHERS)
    model.fit(graph.features, graph.labels, edges=graph.links)
    assert model.model_.network.hidden == 20
    assert model.model_.network.dropout == 0.25
    assert model.model_.network.first.weight.shape == (1, 6, 20)


def test_everyone_has_the_same_default_method():
    defaults = {
        inspect.signature(callable_).parameters["method"].default
        for callable_ in (fit, LinkDistClassifier, Options)
    }
    assert defaults == {"selflinkdist"}


def test_a_saved_model_remembers_its_network(graph, tmp_path):
    result = trained(graph, method="colinkdist", hidden_size=20, dropout=0.25)
    save_model(tmp_path / "model", Saved(result.model))
    network = load_model(tmp_path / "model").model.network
    assert (network.hidden, network.dropout, network.own.rescale) == (20, 0.25, 128 / 192)
    state = result.model.network.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in network.state_dict().items())


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.25, 0.5, 0.9])
def test_bits_are_kept_with_their_probability(dropout):
    draws = RandomStreams([0, 1], torch.device("cpu"))
    draws.begin_epoch(0)
    bits, numbers = draws.draw((2, 1, 500), 100, 3, 5, dropout)
    assert numbers.shape == (2, 5)
    assert [part.shape for part in bits] == [(2, 1, 500, 13)] * 3
    kept = torch.stack([unpack(part, 100) for part in bits]).double()
    expected = round(256 * (1 - dropout)) / 256
    assert kept.mean().item() == pytest.approx(expected, abs=0.004)
    assert kept.mean(dim=(0, 1, 2, 3)).std().item() < 0.02  # at every place of a byte


def test_fair_bits_are_drawn_as_before():
    draws = [RandomStreams([3], torch.device("cpu")) for _ in range(2)]
    for each in draws:
        each.begin_epoch(1)
    plain, half = draws[0].draw((1, 2, 9), 20, 3, 4), draws[1].draw((1, 2, 9), 20, 3, 4, 0.5)
    assert all(torch.equal(a, b) for a, b in zip(plain[0], half[0], strict=True))
    assert torch.equal(plain[1], half[1])


def test_without_dropout_a_block_only_normalises():
    block = Block(8, 3, generators([0]), dropout=0.0)
    x = torch.randn(1, 1, 50, 8)
    bits = torch.full((1, 1, 50, 1), 255, dtype=torch.uint8)
    affine = Affine(block.batch_scale, block.batch_shift, block.layer_scale, block.layer_shift)
    mean, var = x.mean(2, keepdim=True), x.var(2, keepdim=True, correction=0)
    expected = block.linear(activate(x, mean, var, affine))
    torch.testing.assert_close(block(x, bits, torch.zeros(1, 1, 1)), expected)


def test_smaller_batches_need_fewer_visits():
    assert cycles_for(1000, batch=100) == (30, 60)
    assert cycles_for(1000) == (90, 180)
