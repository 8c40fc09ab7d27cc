"""Oracles: the recurrence in NumPy, and replicas that hold still."""

from __future__ import annotations

import numpy as np
import torch

from linkdist.nn.network import ForkedMLP
from linkdist.nn.optim import Average


def walked(steps, active, decay=0.9):
    """Average a network whose weights are set anew at each step; gives it and what was set."""
    network = ForkedMLP(d=3, C=2, seeds=[0, 1], hidden=4)
    average = Average(network, decay)
    random, path = torch.Generator().manual_seed(0), []
    for step in range(steps):
        with torch.no_grad():
            for live in network.state_dict().values():
                live.copy_(torch.rand(live.shape, generator=random))
        path.append([live.clone() for live in network.state_dict().values()])
        average.update(active[step])
    return average, path


def test_the_average_follows_its_recurrence():
    decay, steps = 0.9, 120
    average, path = walked(steps, torch.ones(steps, 2), decay)
    for i, mean in enumerate(average.network.state_dict().values()):
        expected = np.zeros(mean.shape)
        for t, state in enumerate(path, 1):
            expected += max(1 - decay, 9 / (8 + t)) * (state[i].numpy() - expected)
        np.testing.assert_allclose(mean.numpy(), expected, atol=1e-6)


def test_the_first_step_is_taken_over_whole():
    average, path = walked(1, torch.ones(1, 2))
    for mean, live in zip(average.network.state_dict().values(), path[0], strict=True):
        assert torch.equal(mean, live)


def test_a_replica_that_holds_still_keeps_its_average():
    active = torch.ones(6, 2)
    active[3:, 1] = 0
    short, _ = walked(3, active)
    long, _ = walked(6, active)
    for before, after in zip(short.mean, long.mean, strict=True):
        assert torch.equal(before[1], after[1])
        assert not torch.equal(before[0], after[0])


def test_the_network_itself_is_not_touched():
    network = ForkedMLP(d=3, C=2, seeds=[0], hidden=4)
    before = [live.clone() for live in network.state_dict().values()]
    Average(network).update(torch.ones(1))
    for live, was in zip(network.state_dict().values(), before, strict=True):
        assert torch.equal(live, was)
