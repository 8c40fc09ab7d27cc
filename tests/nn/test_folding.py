import numpy as np
import pytest
import torch

from linkdist import observe, semi_supervised
from linkdist.kernels.numba_predict import Single
from linkdist.model import logits
from linkdist.nn.folding import Folded
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.training.loop import train_links


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


@pytest.mark.parametrize("d", [3, 4, 131])
def test_one_node_at_a_time_is_the_same(d):
    network = ForkedMLP(d, 5, [0, 1], hidden=24)
    with torch.no_grad():
        for part in network.state_dict().values():
            part.add_(0.1 * torch.rand(part.shape, generator=torch.manual_seed(0)))
    folded = Folded(network)
    one = Single(folded)
    rows = np.random.default_rng(0).normal(size=(20, d)).astype(np.float32)
    rows *= np.random.default_rng(1).random((20, d)) < 0.3
    expected = folded(torch.from_numpy(rows)).numpy()
    for i, row in enumerate(rows):
        np.testing.assert_allclose(one(row), expected[:, i], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=f"must have {d} features; found shape"):
        one(rows[:, 1:][0])
