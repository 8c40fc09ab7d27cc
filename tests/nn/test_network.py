"""The blocks against PyTorch's own layers, one replica and one side at a time."""

import numpy as np
import pytest
import torch
from torch import nn

from linkdist import observe, semi_supervised
from linkdist.kernels import unpack
from linkdist.model import logits
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import MOMENTUM, Block, Folded, ForkedMLP, Noise, generators
from tests.link_training import train_links

R, S, B, WIDTH, OUT = 2, 3, 16, 8, 5


class FixedDropout(nn.Module):
    def forward(self, x):
        return x * self.keep * 2


def pytorch_block(block, r):
    """PyTorch's layers with replica r's parameters."""
    layers = nn.Sequential(
        nn.BatchNorm1d(WIDTH),
        nn.LayerNorm(WIDTH),
        nn.LeakyReLU(0.01),
        FixedDropout(),
        nn.Linear(WIDTH, OUT),
    )
    with torch.no_grad():
        layers[0].weight.copy_(block.batch_scale[r].flatten())
        layers[0].bias.copy_(block.batch_shift[r].flatten())
        layers[1].weight.copy_(block.layer_scale[r].flatten())
        layers[1].bias.copy_(block.layer_shift[r].flatten())
        layers[4].weight.copy_(block.linear.weight[r])
        layers[4].bias.copy_(block.linear.bias[r].flatten())
    return layers


@pytest.fixture
def block():
    block = Block(WIDTH, OUT, generators([3, 4]))
    torch.manual_seed(0)
    with torch.no_grad():
        for p in (block.batch_scale, block.batch_shift, block.layer_scale, block.layer_shift):
            p.add_(torch.randn_like(p) * 0.3)
    return block


def test_a_block_in_training_is_pytorchs_on_each_side_in_turn(block):
    torch.manual_seed(1)
    x = torch.randn(R, S, B, WIDTH, requires_grad=True)
    bits = torch.randint(0, 256, (R, S, B, 1), dtype=torch.uint8)
    out = block(x, bits, torch.full((R, 1, 1), MOMENTUM))
    grad = torch.randn_like(out)
    (dx,) = torch.autograd.grad(out, x, grad)
    for r in range(R):
        layers = pytorch_block(block, r)
        for side in range(S):
            layers[3].keep = unpack(bits[r, side], WIDTH)
            one = x[r, side].detach().requires_grad_()
            expected = layers(one)
            torch.testing.assert_close(out[r, side], expected)
            (expected_dx,) = torch.autograd.grad(expected, one, grad[r, side])
            torch.testing.assert_close(dx[r, side], expected_dx, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(block.running_mean[r, 0], layers[0].running_mean)
        torch.testing.assert_close(block.running_var[r, 0], layers[0].running_var)


def test_a_block_in_evaluation_is_pytorchs(block):
    x = torch.randn(R, 1, B, WIDTH)
    block(
        torch.randn(R, S, B, WIDTH),
        torch.zeros(R, S, B, 1, dtype=torch.uint8),
        torch.full((R, 1, 1), 0.5),
    )
    for r in range(R):
        layers = pytorch_block(block, r).eval()
        layers[0].running_mean.copy_(block.running_mean[r, 0])
        layers[0].running_var.copy_(block.running_var[r, 0])
        layers[3].keep = 0.5
        torch.testing.assert_close(block(x)[r, 0], layers(x[r, 0]))


def test_a_pace_of_zero_holds_a_replicas_statistics_still(block):
    pace = torch.tensor([0.0, MOMENTUM]).view(R, 1, 1)
    block(torch.randn(R, S, B, WIDTH), torch.zeros(R, S, B, 1, dtype=torch.uint8), pace)
    assert (block.running_mean[0] == 0).all()
    assert (block.running_var[0] == 1).all()
    assert (block.running_mean[1] != 0).any()


def test_weights_have_pytorchs_spread_and_depend_on_the_replicas_own_seed():
    both, alone = ForkedMLP(100, 3, [5, 6]), ForkedMLP(100, 3, [6])
    for together, single in zip(both.parameters(), alone.parameters(), strict=True):
        assert torch.equal(together[1], single[0])
    weight = both.first.weight
    assert weight.abs().max() <= 0.1
    assert abs(weight.std().item() - 0.1 / np.sqrt(3)) < 1e-3


def test_the_heads_fork_from_one_hidden_layer():
    inputs = make_inputs(
        np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32), torch.device("cpu")
    )
    network = ForkedMLP(4, 3, [0], hidden=8)
    rows = torch.tensor([[[0, 1], [2, 2]]])
    bits = [torch.full((1, 2, 2, 1), 255, dtype=torch.uint8)] * 3
    z, s = network(inputs, rows, Noise(bits, torch.zeros(1, 1, 1)))
    assert z.shape == s[0].shape == (1, 2, 2, 3)
    z.sum().backward()
    assert network.trunk.linear.weight.grad is not None
    assert network.neighbour.linear.weight.grad is None


def test_the_folded_network_gives_the_same_logits(planted):
    inputs = make_inputs(planted.features, torch.device("cpu"))
    network = ForkedMLP(planted.d, planted.C, [0, 1, 2], hidden=24)
    view = observe(planted, semi_supervised(planted, 0, 4, 10, 20), "transductive")
    train_links(network, inputs, [view] * 3, [0, 1, 2], epochs=8)
    z, _ = logits(network, inputs)
    folded = Folded(network)
    torch.testing.assert_close(folded(torch.from_numpy(planted.features)), z, atol=1e-4, rtol=1e-4)
    assert not any(p.requires_grad for p in folded.parameters())
    assert all(p.requires_grad for p in network.parameters())
