import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse

from linkdist import Graph, Split, fit, observe
from linkdist.data.splits import semi_supervised
from linkdist.errors import DeviceError, GraphError, OptionError
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.nn.optim import Adam, AdamOnCpu, RandomStreams
from linkdist.training.checkpoint import Checkpoint
from linkdist.training.link_task import Tally, coefficients, epochs_for
from linkdist.training.loop import Loop, find_device
from tests.link_training import train_links

CPU = torch.device("cpu")


def trained(graph, views, seeds, method="colinkdist"):
    network = ForkedMLP(graph.d, graph.C, seeds, hidden=16)
    inputs = make_inputs(graph.features, CPU)
    train_links(network, inputs, views, seeds, epochs=3, method=method, batch=32)
    return network.state_dict()


def test_coefficients_worked_by_hand():
    """Path 0-1-2-3 with a self-loop at 3; classes a (nodes 0, 1) and b (node 3) in training.

    Seven edges, 14 endpoints: node 0 is one twice, node 1 four times, node 3 four times.
    So r_e = 10/14, r_n = 3/4, and w ∝ (2 / 6, 1 / 4), scaled to sum to 2.
    """
    graph = Graph.build(np.eye(4), [(0, 1), (1, 2), (2, 3), (3, 3)], [0, 0, 1, 1])
    view = observe(graph, Split(*map(np.array, ([0, 1, 3], [2], [2]))), "transductive")
    by = coefficients([view])
    assert by.alpha.item() == pytest.approx(4 / 14)
    assert by.beta1.item() == pytest.approx(3 / 4)
    assert by.beta2.item() == pytest.approx(10 / 14)
    assert by.weights[0].tolist() == pytest.approx([2 * (1 / 3) / (7 / 12), 2 * (1 / 4) / (7 / 12)])
    capped = coefficients([view], beta=0.1)
    assert capped.beta1.item() + capped.beta2.item() == pytest.approx(0.1)
    assert capped.beta1.item() / capped.beta2.item() == pytest.approx((3 / 4) / (10 / 14))


def test_a_class_without_links_weighs_nothing():
    graph = Graph.build(np.eye(4), [(0, 1)], [0, 0, 1, 1])
    view = observe(graph, Split(*map(np.array, ([0, 2], [1], [3]))), "transductive")
    assert coefficients([view]).weights.tolist() == [[2.0, 0.0]]


def test_labels_that_no_link_touches_are_an_error():
    graph = Graph.build(np.eye(3), [(1, 2)], [0, 1, 0])
    view = observe(graph, Split(*map(np.array, ([0], [1], [2]))), "transductive")
    with pytest.raises(GraphError, match="1 labelled nodes and 2 directed edges"):
        coefficients([view])


def test_the_papers_epochs():
    degrees = [3.90, 2.77, 4.50, 6.41, 31.13, 35.76, 8.93, 14.38]
    assert [epochs_for(d) for d in degrees] == [51, 72, 44, 31, 6, 5, 22, 13]


@pytest.mark.parametrize("method", ["linkdist", "colinkdist"])
@pytest.mark.parametrize("features", ["dense", "csr"])
def test_a_replica_alone_is_the_same_replica_beside_others(planted, method, features):
    """Views of different sizes, so that one replica waits for the others at an epoch's end."""
    if features == "csr":
        few = planted.features * (planted.features > 1.8)
        planted = Graph.build(sparse.csr_matrix(few), planted.links, planted.labels)
    splits = [semi_supervised(planted, seed, 4, 10, 20) for seed in range(3)]
    views = [observe(planted, split, "inductive") for split in splits]
    steps = {-(-len(view.edges) // 32) for view in views}
    assert len(steps) > 1
    together = trained(planted, views, [7, 8, 9], method)
    for r in range(3):
        alone = trained(planted, [views[r]], [7 + r], method)
        for name, value in alone.items():
            torch.testing.assert_close(together[name][r], value[0], rtol=1e-4, atol=1e-5)


def test_the_same_seed_gives_the_same_weights_bit_for_bit(planted):
    view = observe(planted, semi_supervised(planted, 0, 4, 10, 20), "transductive")
    first, again, other = (trained(planted, [view], [seed]) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["first.weight"], other["first.weight"])


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
@pytest.mark.parametrize("method", ["linkdist", "colinkdist"])
def test_what_is_hidden_cannot_matter(planted, setting, method):
    """Scramble hidden labels and, inductive, hidden features and links: the same weights."""
    random = np.random.default_rng(5)
    split = semi_supervised(planted, 0, 4, 10, 20)
    hidden = np.r_[split.validation, split.test]
    labels = planted.labels.copy()
    labels[hidden] = random.integers(0, 2, len(hidden))
    features, links = planted.features.copy(), planted.links
    if setting == "inductive":
        features[hidden] = random.normal(size=(len(hidden), planted.d))
        seen = ~np.isin(links, hidden).any(axis=1)
        strange = np.stack([random.choice(hidden, 50), random.integers(0, planted.n, 50)], axis=1)
        links = np.concatenate([links[seen], strange])
    scrambled = Graph.build(features, links, labels)
    assert (scrambled.labels != planted.labels).any()
    weights = [
        trained(graph, [observe(graph, split, setting)], [0], method)
        for graph in (planted, scrambled)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize("kind", [Adam, AdamOnCpu])
def test_adam_is_pytorchs_and_moves_active_replicas_only(kind):
    torch.manual_seed(0)
    start = torch.randn(2, 3, 4)
    ours = torch.nn.Parameter(start.clone())
    theirs = torch.nn.Parameter(start[0].clone())
    adam, reference = kind([ours]), torch.optim.Adam([theirs], lr=0.01)
    for step in range(5):
        gradient = torch.randn(2, 3, 4)
        ours.grad = gradient
        adam.step(torch.tensor([float(step != 2), 0.0]))
        if step != 2:
            theirs.grad = gradient[0]
            reference.step()
    torch.testing.assert_close(ours[0], theirs)
    assert torch.equal(ours[1], start[1])


@pytest.mark.parametrize("kind", [Adam, AdamOnCpu])
def test_a_falling_rate_is_pytorchs_cosine(kind):
    """Each replica's falls over steps of its own, and only as it moves."""
    torch.manual_seed(0)
    start = torch.randn(2, 3, 4)
    ours = torch.nn.Parameter(start.clone())
    theirs = [torch.nn.Parameter(row.clone()) for row in start]
    lengths = torch.tensor([6, 4])
    adam = kind([ours], 0.01, lengths)
    references = [torch.optim.Adam([p], lr=0.01) for p in theirs]
    schedules = [
        torch.optim.lr_scheduler.CosineAnnealingLR(reference, T_max=int(T))
        for reference, T in zip(references, lengths, strict=True)
    ]
    for step in range(6):
        gradient = torch.randn(2, 3, 4)
        ours.grad = gradient
        active = [1.0, float(step < 4)]
        adam.step(torch.tensor(active))
        for r in range(2):
            if active[r]:
                theirs[r].grad = gradient[r]
                references[r].step()
                schedules[r].step()
    torch.testing.assert_close(ours.detach(), torch.stack([p.detach() for p in theirs]))


@pytest.mark.parametrize(("looks", "expected"), [(1, [10]), (3, [4, 7, 10]), (30, range(1, 11))])
def test_looks_are_evenly_spaced_and_end_with_the_epoch(looks, expected):
    network = ForkedMLP(2, 2, [0], hidden=4)
    steps, seen = [], []

    def loss(index, draws, pace):
        steps.append(0)
        return network.first.weight.sum((1, 2))

    loop = Loop(network, loss, [50], [0], batch=5)
    loop.run(1, evaluate=lambda: seen.append(len(steps)), evaluations=looks)
    assert seen == list(expected)


def test_an_epoch_visits_every_item_of_each_replica(planted):
    seen = [set(), set()]

    def loss(index, draws, pace):
        for r in range(2):
            if pace[r] > 0:
                seen[r] |= set(index[r].tolist())
        return network.first.weight.sum((1, 2))

    network = ForkedMLP(2, 2, [0, 1], hidden=4)
    Loop(network, loss, [23, 9], [0, 1], batch=5).run(1)
    assert seen == [set(range(23)), set(range(9))]


def test_half_of_the_dropout_bits_are_set_in_every_place():
    (bits,), _ = RandomStreams([0, 1], CPU).draw((2, 1, 4000), width=16, blocks=1)
    places = np.unpackbits(bits.numpy(), axis=-1).mean(axis=(1, 2))
    assert np.abs(places - 0.5).max() < 0.05


def test_every_epoch_draws_anew_and_not_from_the_weights_stream():
    """PyTorch's CPU generator reads the lower half of its seed only."""
    draws = RandomStreams([7], CPU)
    orders = []
    for epoch in range(5):
        draws.begin_epoch(epoch)
        orders.append(tuple(draws.permutation(0, 50).tolist()))
    weights = torch.Generator().manual_seed(7)
    orders.append(tuple(torch.randperm(50, generator=weights).tolist()))
    assert len(set(orders)) == 6


def test_both_modes_learn_what_was_planted(planted):
    split = semi_supervised(planted, 0, 4, 20, 30)
    result = fit(planted, split, "transductive", seeds=(0, 1, 2), epochs=30, device="cpu")
    assert result.history.best("features").validation.mean() > 0.7
    assert result.history.best("mean").validation.mean() > 0.9


def test_the_model_is_that_of_the_best_epoch(planted):
    split = semi_supervised(planted, 0, 4, 20, 30)
    result = fit(planted, split, "transductive", seeds=(0, 1), epochs=12, device="cpu")
    inputs = make_inputs(planted.features, CPU)
    with torch.no_grad():
        z, _ = result.model.network(inputs)
    predicted = z.squeeze(1).argmax(-1)[:, split.validation].numpy()
    accuracy = (predicted == planted.labels[split.validation]).mean(axis=1)
    assert accuracy.tolist() == result.history.best("features").validation.tolist()


def test_wrong_options_are_said(planted):
    split = semi_supervised(planted, 0, 4, 20, 30)
    with pytest.raises(OptionError, match="at least one seed"):
        fit(planted, split, seeds=())
    with pytest.raises(OptionError, match="2 splits for 1 seeds"):
        fit(planted, [split, split], seeds=(0,))
    with pytest.raises(OptionError, match="epochs must be 1"):
        fit(planted, split, epochs=0)
    with pytest.raises(OptionError, match=r"near: linkdist"):
        fit(planted, split, method="linkdst", device="cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_gpu_is_said():
    with pytest.raises(DeviceError, match="no CUDA device was found; use --device cpu"):
        find_device("cuda")


def test_the_tally_of_two_parts_is_the_sum(planted):
    """Links between the parts belong to the second."""
    whole = observe(planted, semi_supervised(planted, 0, 4, 10, 20), "transductive")
    old = set(range(40))
    inner = np.array([set(edge) <= old for edge in whole.edges.tolist()])
    labels = np.where(np.arange(60) < 40, whole.labels, -1)
    first = dataclasses.replace(whole, nodes=np.arange(40), edges=whole.edges[inner], labels=labels)
    a, b = Tally.of(first), Tally.of(whole)
    rest = Tally(20, 2 * int((~inner).sum()), b.of_nodes - a.of_nodes, b.of_ends - a.of_ends)
    for one, other in zip(coefficients([a + rest]), coefficients([whole]), strict=True):
        assert torch.equal(one, other)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("after", [1, 3])
def test_a_killed_training_goes_on_to_the_same_weights(planted, tmp_path, after):
    splits = [semi_supervised(planted, seed, 4, 10, 20) for seed in (0, 1)]
    options = {"method": "colinkdist", "seeds": [3, 4], "epochs": 5, "device": "cpu"}
    undisturbed = fit(planted, splits, "inductive", **options)
    checkpoint = Checkpoint(tmp_path / "state", "this one")
    epochs = []

    def kill(done, total):
        epochs.append(done)
        if done == after:
            raise KilledError

    with pytest.raises(KilledError):
        fit(planted, splits, "inductive", progress=kill, checkpoint=checkpoint, **options)
    result = fit(
        planted,
        splits,
        "inductive",
        progress=lambda done, total: epochs.append(done),
        checkpoint=checkpoint,
        **options,
    )
    assert epochs == [1, 2, 3, 4, 5]
    expected = undisturbed.model.network.state_dict()
    for name, value in result.model.network.state_dict().items():
        assert torch.equal(value, expected[name]), name
    for mode in ("features", "mean", "sum"):
        assert (result.history.curve(mode) == undisturbed.history.curve(mode)).all()


def test_without_validation_nodes_the_last_epoch_counts(planted):
    nothing = np.array([], dtype=int)
    split = Split(np.arange(20), nothing, nothing)
    options = {"method": "colinkdist", "seeds": [0], "epochs": 3, "device": "cpu"}
    network = fit(planted, split, **options).model.network
    fresh = ForkedMLP(planted.d, planted.C, [0])
    view = observe(planted, split, "transductive")
    train_links(fresh, make_inputs(planted.features, CPU), [view], [0], epochs=3)
    for name, value in network.state_dict().items():
        assert torch.equal(value, fresh.state_dict()[name])
