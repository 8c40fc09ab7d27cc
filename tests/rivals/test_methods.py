"""Layers and propagation beside PyTorch Geometric and closed forms."""

import numpy as np
import torch
from rivals.layers import GraphConvolution, Inputs, Links, Sage
from rivals.linear import Scaler
from rivals.propagation import Smoothed, spread
from rivals.protocol import Problem, draw
from rivals.trees import spread_classes
from scipy import sparse
from torch_geometric.nn import GCNConv, SAGEConv


def test_layers_are_those_of_pytorch_geometric(made):
    for graph in (made(), made(words=True)):
        dense = graph.features.toarray() if sparse.issparse(graph.features) else graph.features
        links = Links(graph.edges, graph.n, torch.device("cpu"))
        edges = graph.edges[graph.edges[:, 0] != graph.edges[:, 1]]
        index = torch.from_numpy(np.ascontiguousarray(edges.T))
        for ours, theirs in ((Sage, SAGEConv), (GraphConvolution, GCNConv)):
            torch.manual_seed(0)
            layer, plain = ours(graph.d, 4), theirs(graph.d, 4)
            plain.load_state_dict(layer.state_dict())
            found = layer(Inputs.of_rows(graph.features, torch.device("cpu")), links)
            expected = plain(torch.from_numpy(dense), index)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
            weights = torch.randn(found.shape)
            for result in (found, expected):
                (result * weights).sum().backward()
            for one, two in zip(layer.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(one.grad, two.grad, atol=1e-4, rtol=1e-4)


def test_spreading_is_the_solution_of_its_linear_system(graph):
    train = np.arange(0, graph.n, 10)
    found = spread(graph.labels, train, 3, graph.edges, alpha=0.5)
    a = np.zeros((graph.n, graph.n))
    edges = graph.edges[graph.edges[:, 0] != graph.edges[:, 1]]
    a[tuple(edges.T)] = 1
    half = 1 / np.sqrt(np.maximum(a.sum(axis=1), 1))
    y = np.zeros((graph.n, 3))
    y[train, graph.labels[train]] = 1
    system = np.eye(graph.n) - 0.5 * half[:, None] * a * half
    assert np.allclose(found, np.linalg.solve(system, 0.5 * y), atol=1e-5)


class Uniform:
    """Knows nothing."""

    def from_features(self, x):
        """The same probability for every class."""
        return np.full((x.shape[0], 3), 1 / 3)


def test_correct_and_smooth_of_ignorance_spreads_the_labels(graph):
    problem = Problem(graph, draw(graph, "60%", 0), 0)
    for autoscale in (True, False):
        setting = {"correction_alpha": 0.9, "smoothing_alpha": 0.8, "autoscale": autoscale}
        p = Smoothed(problem, setting, Uniform(), torch.device("cpu")).with_links(
            graph.features, graph.edges, problem.split.test
        )
        assert problem.test_score(p) > 80


def test_spread_labels_leave_validation_and_test_nodes_alone(graph):
    problem = Problem(graph, draw(graph, "20", 0), 0)
    nodes, labels = spread_classes(problem, alpha=0.9, share=1.0)
    train = problem.split.train
    assert np.array_equal(labels[: len(train)], graph.labels[train])
    assert np.isin(nodes, problem.view.nodes).all()
    assert not np.isin(nodes, problem.split.validation).any()
    assert len(np.unique(nodes)) == len(nodes)
    half, _ = spread_classes(problem, alpha=0.9, share=0.5)
    assert len(half) - len(train) == round((len(nodes) - len(train)) / 2)


def test_dense_columns_are_standardised_and_sparse_rows_have_length_one(made):
    x = made().features
    assert np.allclose(Scaler(x)(x).std(axis=0), 1, atol=1e-5)
    words = made(words=True).features
    scaled = Scaler(words)(words)
    assert np.isclose(np.linalg.norm(scaled.toarray(), axis=1).mean(), 1)


def test_rows_with_many_numbers_become_dense_in_single_precision():
    x = sparse.csr_matrix(np.arange(12.0).reshape(3, 4))
    rows = Inputs.of_rows(x, torch.device("cpu")).rows
    assert rows.dtype == torch.float32
    assert rows.tolist() == x.toarray().tolist()
