import numpy as np
import pytest
import torch

from linkdist import observe, semi_supervised
from linkdist.errors import GraphError
from linkdist.kernels import EPSILON, SLOPE
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import make_inputs
from linkdist.paper.baselines import GCN, ViewGraph, label_loss, teacher_loss, train_gcn

CPU = torch.device("cpu")


def numpy_block(block, x, r):
    """A block in evaluation, from its formula."""
    part = {name: p[r].detach().numpy().reshape(-1) for name, p in block.state_dict().items()}
    x = (x - part["running_mean"]) / np.sqrt(part["running_var"] + EPSILON)
    x = x * part["batch_scale"] + part["batch_shift"]
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + EPSILON)
    x = x * part["layer_scale"] + part["layer_shift"]
    x = np.where(x > 0, x, SLOPE * x)
    return x @ block.linear.weight[r].detach().numpy().T + part.get("linear.bias", 0)


def test_a_gcn_against_dense_matrices(planted):
    network = GCN(planted.d, planted.C, [0, 1], hidden=8)
    views = [observe(planted, semi_supervised(planted, 0, 4, 10, 20), "transductive")] * 2
    inputs = make_inputs(planted.features, CPU)
    train_gcn(network, inputs, ViewGraph(views, CPU), [0, 1], epochs=3)
    got = network.whole(inputs, Neighbours([planted.edges], planted.n, CPU)).detach()
    a = np.eye(planted.n)
    for i, j in planted.edges:
        a[i, j] = 1  # a link to itself adds nothing
    hat = a / a.sum(1, keepdims=True)
    for r in range(2):
        x = hat @ planted.features @ network.first.weight[r].detach().numpy()
        x = numpy_block(network.second, hat @ x, r)
        expected = numpy_block(network.third, hat @ x, r)
        np.testing.assert_allclose(got[r], expected, rtol=1e-4, atol=1e-4)


def test_a_gcn_sees_its_view_only(planted):
    split = semi_supervised(planted, 0, 4, 10, 20)
    hidden = np.r_[split.validation, split.test]
    weights = []
    for features in (planted.features, planted.features.copy()):
        if weights:
            features[hidden] = 100
        network = GCN(planted.d, planted.C, [0], hidden=8)
        view = observe(planted, split, "inductive")
        train_gcn(network, make_inputs(features, CPU), ViewGraph([view], CPU), [0], epochs=3)
        weights.append(network.first.weight.detach().clone())
    assert torch.equal(*weights)


def test_views_of_different_sizes_are_refused(planted):
    views = [
        observe(planted, semi_supervised(planted, 0, 4, size, 20), "inductive") for size in (5, 10)
    ]
    with pytest.raises(GraphError, match=r"views of the same size; found \[30, 35\]"):
        ViewGraph(views, CPU)


def test_the_teachers_loss_is_the_kullback_leibler_divergence():
    torch.manual_seed(0)
    taught = torch.randn(2, 6, 3).softmax(-1)
    taught[0, 1] = torch.tensor([1.0, 0.0, 0.0])
    z, nodes = torch.randn(2, 4, 3), torch.tensor([[1, 1, 5, 0], [2, 3, 4, 0]])
    for r in range(2):
        p, q = taught[r, nodes[r]], z[r].softmax(-1)
        terms = torch.where(p > 0, p * (p / q).log(), 0)
        expected = terms.sum(-1).mean()
        torch.testing.assert_close(teacher_loss(taught)(z, nodes)[r], expected)


def test_the_label_loss_is_cross_entropy(planted):
    view = observe(planted, semi_supervised(planted, 0, 4, 10, 20), "transductive")
    nodes = torch.from_numpy(view.train[:5]).unsqueeze(0)
    z = torch.randn(1, 5, 2)
    expected = torch.nn.functional.cross_entropy(z[0], torch.from_numpy(planted.labels)[nodes[0]])
    torch.testing.assert_close(label_loss([view], CPU)(z, nodes)[0], expected)
