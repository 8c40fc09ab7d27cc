"""The losses with several neighbour heads. Oracles: the formulas edge by edge in NumPy, and the
same training of one relation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from linkdist import Graph, fit
from linkdist.data.links import Links
from linkdist.data.splits import observe, semi_supervised
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP, Noise
from linkdist.nn.optim import RandomStreams
from linkdist.nn.order import make_order
from linkdist.nn.tasks import task_named
from linkdist.training.link_task import (
    coefficients,
    loss_on_links,
    loss_on_targets,
    seen_by,
)

CPU = torch.device("cpu")
PACE = torch.zeros(1, 1, 1)


def begun(seed=3):
    streams = RandomStreams([seed], CPU)
    streams.begin_epoch(0)
    return streams


@pytest.fixture(params=[False, True], ids=["undirected", "directed"])
def graph(planted, request):
    """The planted graph with three relations and weights."""
    random = np.random.default_rng(0)
    m = len(planted.links)
    links = Links(
        planted.links,
        random.integers(0, 3, m),
        random.uniform(0.5, 2, m),
        ("a", "b", "c"),
        request.param,
    )
    return Graph.build(planted.features, links, planted.labels)


@pytest.fixture
def view(graph):
    return observe(graph, semi_supervised(graph, 0, 4, 10, 20), "transductive")


def head_of_i(view, edge):
    """The head by which i predicts the label of j, from the edge in the other direction."""
    i, j = view.edges[edge]
    back = np.flatnonzero((view.edges == [j, i]).all(axis=1))
    heads = view.heads[back]
    if view.directed:  # out and in of the same relation
        heads = heads[heads == (view.heads[edge] ^ 1)]
    return int(heads[0]) if len(heads) else int(view.heads[edge])


def test_an_edge_trains_the_heads_of_its_relation(graph, view):
    """Against the paper's loss of each edge: cross-entropies to labels, and squared distances."""
    K = len(graph.heads)
    network, inputs = ForkedMLP(graph.d, graph.C, [0], 8, K=K), make_inputs(graph.features, CPU)
    weights = coefficients([view])
    loss = loss_on_links(network, inputs, seen_by([view], CPU), weights, "linkdist")
    proper = np.flatnonzero(view.edges[:, 0] != view.edges[:, 1])[:12]
    found = float(loss(torch.from_numpy(proper)[None], begun(), PACE).detach())
    bits, _ = begun().draw((1, 2, 12), network.hidden, network.blocks, 12)
    rows = torch.from_numpy(view.edges[proper].T.copy())[None].long()
    z, s = (part.detach() for part in network(inputs, rows, Noise(bits, PACE)))
    single = Graph.build(graph.features, graph.links, graph.labels)
    one = ForkedMLP(graph.d, graph.C, [0], 8)
    alone = observe(single, semi_supervised(graph, 0, 4, 10, 20), "transductive")
    # The loss of one head, on outputs that are those of each edge's own heads.
    chosen = torch.stack(
        [
            torch.stack(
                [
                    s[head_of_i(view, e), 0, 0, place],
                    s[int(view.heads[e]), 0, 1, place],
                ]
            )
            for place, e in enumerate(proper)
        ],
        dim=1,
    )[None, None]  # (1, 1, 2, B, C)

    class Fixed:
        hidden, blocks, dropout = one.hidden, one.blocks, one.dropout

        def __call__(self, inputs, rows, noise):
            return z, chosen

    same = seen_by([alone], CPU)._replace(
        edges=torch.from_numpy(view.edges)[None], labels=seen_by([view], CPU).labels
    )
    by_one = loss_on_links(Fixed(), inputs, same, weights, "linkdist")
    assert found == pytest.approx(float(by_one(torch.from_numpy(proper)[None], begun(), PACE)))


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_the_loss_on_targets_is_a_mean_over_heads_of_their_linked_rows(graph, view, task):
    K, B = len(graph.heads), 16
    C = 1 if task == "regression" else graph.C
    network, inputs = ForkedMLP(graph.d, C, [0], 8, K=K), make_inputs(graph.features, CPU)
    random = np.random.default_rng(0)
    p = {
        "classification": softmax(random.normal(size=(graph.n, C)), axis=1),
        "multilabel": random.random((graph.n, C)),
        "regression": random.normal(size=(graph.n, C)),
    }[task]
    loss = loss_on_targets(
        network, inputs, [view], torch.from_numpy(p).float()[None], task_named(task)
    )
    found = float(loss(torch.arange(B)[None], begun(), PACE).detach())
    bits, numbers = begun().draw((1, 1, B), network.hidden, network.blocks, K * B)
    i = view.nodes[:B]
    z, s = network(inputs, torch.from_numpy(i).view(1, 1, -1), Noise(bits, PACE))
    z, s = z[0, 0].detach().numpy(), s[:, 0, 0].detach().numpy()

    def rows(out, t):
        if task == "classification":
            return -(t * log_softmax(out, axis=1)).sum(1)
        if task == "multilabel":
            return (np.logaddexp(0, out) - t * out).mean(1)
        return ((out - t) ** 2 / 2).mean(1)

    expected = rows(z, p[i]).mean()
    for k in range(K):
        # Head k of i predicts the nodes whose edge to i has this head.
        into = [
            [e for e in range(len(view.edges)) if view.edges[e, 1] == a and view.heads[e] == k]
            for a in i
        ]
        linked = [place for place, edges in enumerate(into) if edges]
        picked = []
        for place in linked:
            others = sorted(into[place], key=lambda e: view.edges[e, 0])
            sums = np.cumsum([0.0, *(view.weights[e] for e in others)])
            number = int(numbers[0, k * B + place]) % (1 << 53) / (1 << 53)
            at = np.searchsorted(sums, number * sums[-1], side="right") - 1
            picked.append(int(view.edges[others[at], 0]))
        if linked:
            expected += rows(s[k][linked], p[picked]).mean() / K
    assert found == pytest.approx(expected, rel=1e-4)


def test_edges_are_drawn_in_proportion_to_their_weights():
    weights = np.random.default_rng(0).uniform(0, 1, 50)
    order = make_order([50], 40, 500, CPU, [weights])
    order.shuffle(begun())
    items = torch.cat([order.batch(torch.tensor(step)).flatten() for step in range(40)])
    shares = np.bincount(items.numpy(), minlength=50) / len(items)
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.004)


def test_weights_of_zero_length_intervals_are_never_drawn():
    weights = np.array([1.0, 1e-30, 1.0])
    order = make_order([3], 1, 2000, CPU, [weights])
    order.shuffle(begun())
    assert set(order.batch(torch.tensor(0)).flatten().tolist()) == {0, 2}


def test_more_heads_begin_with_the_weights_of_fewer():
    """The first head does not depend on the number of heads."""
    one, four = (ForkedMLP(5, 3, [0, 1], 8, K=K).state_dict() for K in (1, 4))
    assert all(torch.equal(one[name], four[name]) for name in one)


@pytest.mark.parametrize("method", ["linkdist", "colinkdist", "selflinkdist"])
def test_links_of_equal_weight_and_one_named_relation_are_plain_links(planted, method):
    split = semi_supervised(planted, 0, 4, 10, 20)
    named = Links(planted.links, np.zeros(len(planted.links), dtype=int), relations=("cites",))
    plain, other = (
        fit(graph, split, method=method, epochs=2, device="cpu").model
        for graph in (planted, Graph.build(planted.features, named, planted.labels))
    )
    a, b = plain.network.state_dict(), other.network.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert torch.equal(plain.alpha, other.alpha)
    assert other.relations == ("cites",)


def test_large_weights_are_shares():
    """Weights of any unit give the same model: their ratios count."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(60, 4)), np.arange(60) % 2
    pairs, weights = random.integers(0, 60, (150, 2)), random.uniform(1, 9, 150)
    split = semi_supervised(Graph.build(x, pairs, y), 0, 8, 10, 20)
    models = [
        fit(
            Graph.build(x, Links(pairs, weights=(unit * weights).astype(np.float32)), y),
            split,
            epochs=2,
            device="cpu",
        ).model
        for unit in (1.0, 1024.0)
    ]
    a, b = (model.network.state_dict() for model in models)
    assert all(torch.allclose(a[name], b[name], atol=1e-4) for name in a)
