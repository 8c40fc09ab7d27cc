import numpy as np
import pytest
import torch
from scipy import sparse

from linkdist import Graph, from_features, with_links
from linkdist import model as model_module
from linkdist.errors import GraphError
from linkdist.model import Model, logits, message_passing
from linkdist.nn.aggregation import Neighbours, relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP

CPU = torch.device("cpu")


@pytest.fixture
def graph():
    random = np.random.default_rng(0)
    pairs = random.integers(0, 9, (14, 2))  # node 9 stays alone; there are self-loops
    return Graph.build(random.normal(size=(10, 5)), [*pairs, (3, 3)], random.integers(0, 3, 10))


def adjacency(graph):
    a = np.zeros((graph.n, graph.n))
    a[tuple(graph.edges.T)] = 1
    np.fill_diagonal(a, 0)  # a node is not its own neighbour
    return a


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_both_forms_against_dense_matrices(graph):
    z, s = np.random.default_rng(1).normal(size=(2, 2, graph.n, 3))
    alpha = np.array([0.3, 0.9])
    a = adjacency(graph)
    mean = a / np.maximum(a.sum(1, keepdims=True), 1)
    neighbours = relations_of(graph, graph.n, CPU)
    zt, st, at = (torch.tensor(x, dtype=torch.float32) for x in (z, s[None], alpha[:, None]))
    for r in range(2):
        expected = log_softmax(z[r]) + alpha[r] * mean @ log_softmax(s[r])
        np.testing.assert_allclose(message_passing(zt, st, neighbours, at)[r], expected, atol=1e-5)
        expected = z[r] + alpha[r] * a @ s[r]
        got = message_passing(zt, st, neighbours, at, form="sum")[r]
        np.testing.assert_allclose(got, expected, atol=1e-5)
    np.testing.assert_allclose(
        message_passing(zt, st, neighbours, at)[:, 9], log_softmax(z)[:, 9], atol=1e-5
    )


def test_sums_over_each_replicas_own_links_and_their_gradient(graph):
    other = Graph.build(graph.features, [(0, 9), (1, 2)], graph.labels)
    x = torch.randn(2, graph.n, 4, requires_grad=True)
    grad = torch.randn(2, graph.n, 4)
    out = Neighbours([graph.edges, other.edges], graph.n, CPU).smooth(x)
    out.backward(grad)
    for r, a in enumerate(map(adjacency, (graph, other))):
        hat = (a + np.eye(graph.n)) / (a.sum(1, keepdims=True) + 1)
        np.testing.assert_allclose(out[r].detach(), hat @ x[r].detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(x.grad[r], hat.T @ grad[r].numpy(), atol=1e-5)


@pytest.mark.parametrize("dense", [True, False])
def test_logits_in_pieces_are_logits_at_once(graph, dense, monkeypatch):
    features = graph.features if dense else sparse.csr_matrix(graph.features * (graph.features > 1))
    inputs = make_inputs(features, CPU)
    network = ForkedMLP(graph.d, graph.C, [0, 1], hidden=8)
    z, s = logits(network, inputs)
    monkeypatch.setitem(model_module.CHUNK, "cpu", 3 * 2 * 8)
    for whole, pieces in zip((z, s), logits(network, inputs), strict=True):
        torch.testing.assert_close(whole, pieces)


def test_probabilities_are_the_replicas_mean(graph):
    network = ForkedMLP(graph.d, graph.C, [0, 1], hidden=8)
    model = Model(network, torch.tensor([0.5, 0.7]), graph.classes)
    z, s = logits(network, make_inputs(graph.features, CPU))
    np.testing.assert_allclose(
        from_features(model, graph.features), z.softmax(-1).mean(0), atol=1e-6
    )
    neighbours = relations_of(graph, graph.n, CPU)
    expected = message_passing(z, s, neighbours, model.alpha).softmax(-1).mean(0)
    np.testing.assert_allclose(with_links(model, graph.features, graph.links), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (np.ones((10, 4)), "must have 5 columns, as in training; found 4"),
        (np.full((10, 5), np.nan), "50 are NaN or infinite"),
        (np.ones(5), "must be a table"),
    ],
)
def test_features_that_do_not_fit_the_model_are_refused(graph, features, words):
    model = Model(ForkedMLP(graph.d, graph.C, [0], hidden=8), torch.ones(1), graph.classes)
    with pytest.raises(GraphError, match=words):
        from_features(model, features)
    with pytest.raises(GraphError, match=words):
        with_links(model, features, graph.links)


def test_any_numbers_will_do_for_features(graph):
    model = Model(ForkedMLP(graph.d, graph.C, [0], hidden=8), torch.ones(1), graph.classes)
    whole = np.arange(50).reshape(10, 5)
    expected = from_features(model, whole.astype(np.float32))
    for features in (whole, whole.tolist(), sparse.coo_array(whole)):
        np.testing.assert_allclose(from_features(model, features), expected, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("form", ["sum", "mean", "smooth"])
def test_sums_over_neighbours_on_a_gpu_are_the_cpus(own, form):
    random = np.random.default_rng(0)
    edges = [random.integers(0, 300, (2000, 2)) for _ in range(3 if own else 1)]
    edges = [np.unique(np.r_[e, e[:, ::-1]], axis=0) for e in edges]
    x = torch.randn(3, 300, 70, generator=torch.manual_seed(0))
    results = []
    for device in ("cpu", "cuda"):
        here = x.to(device).requires_grad_()
        y = getattr(Neighbours(edges, 300, torch.device(device)), form)(here)
        (grad,) = torch.autograd.grad(y.square().sum(), here)
        results.append((y.detach().cpu(), grad.cpu()))
    for fast, slow in zip(*results[::-1], strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4)


def test_a_node_without_links_is_predicted_from_its_features_by_everyone():
    """A self-loop made a node its own neighbour in training's scores, but not in predictions."""
    random = np.random.default_rng(0)
    x = random.normal(size=(4, 3)).astype(np.float32)
    model = Model(ForkedMLP(3, 2, [0]), torch.tensor([2.0]), ("a", "b"), torch.tensor([0.25]))
    alone = from_features(model, x)
    for links in ([(0, 1)], [(0, 1), (2, 2), (3, 3)]):
        linked = with_links(model, x, np.array(links))
        np.testing.assert_allclose(linked[2:], alone[2:], atol=1e-6)
        assert np.abs(linked[:2] - alone[:2]).max() > 1e-3


def test_moving_a_model_leaves_the_original_where_it_is(graph):
    """`Model.to` moved the network of the original, which other threads may use."""
    model = Model(ForkedMLP(graph.d, graph.C, [0], hidden=8), torch.ones(1), graph.classes)
    moved = model.to(torch.device("meta"))
    assert {part.device.type for part in moved.network.state_dict().values()} == {"meta"}
    assert moved.alpha.device.type == moved.kappa.device.type == "meta"
    assert {part.device.type for part in model.network.state_dict().values()} == {"cpu"}
    assert from_features(model, graph.features).shape == (graph.n, graph.C)
    assert model.to(CPU) is model
