import torch

from linkdist import observe, semi_supervised
from linkdist.model import logits
from linkdist.nn.folding import Folded
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from tests.link_training import train_links


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
