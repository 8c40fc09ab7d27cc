"""A network that learns targets: what teachers say of each node, learnt from features.

In each step it sees nodes i, each with a neighbour j drawn at random, and minimises

    CE(z_i, t_i) + CE(s_i, t_j)        CE(z, t) = - mean over rows of Σ_c t_c log p(z)_c

for targets t that are probabilities, so that both of its heads, and both modes of prediction, come
from the same targets. Where features are many, half of them, others in each step, are hidden: the
network has to say the same from the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import UNKNOWN
from linkdist.data.splits import View
from linkdist.nn.aggregation import RandomNeighbours
from linkdist.nn.draws import Draws
from linkdist.nn.inputs import Inputs
from linkdist.nn.losses import soft_cross_entropy
from linkdist.nn.network import ForkedMLP, Noise, hiding_words, kept_features
from linkdist.training.loop import BATCH, Loop, Loss, padded

HIDE = 0.5
"""The share of many features that a step hides."""
RATE = 0.003
"""Adam's learning rate for a student, at first."""


def with_known(p: Tensor, views: Sequence[View]) -> Tensor:
    """Probabilities (R, n, C), the labels that each view knows in their place.

    Examples
    --------
    >>> none = np.empty((0, 2), dtype=np.int64)
    >>> view = View(np.ones((2, 1)), np.arange(2), none, np.array([1, -1]), C=2)
    >>> with_known(torch.full((1, 2, 2), 0.5), [view])[0]
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000]])
    """
    labels = torch.from_numpy(np.stack([view.labels for view in views])).to(p.device)
    known = (labels != UNKNOWN).unsqueeze(-1)  # (R, n, 1)
    eye = torch.eye(p.shape[-1], device=p.device)
    return torch.where(known, eye[labels.clamp(min=0)], p)


def loop_on_targets(
    network: ForkedMLP,
    inputs: Inputs,
    views: Sequence[View],
    seeds: Sequence[int],
    p: Tensor,
    epochs: int,
    batch: int = BATCH,
    rate: float = RATE,
    decays: bool = True,
) -> Loop:
    """The loop that trains a forked MLP on targets p (R, n, C) of the nodes of its views.

    By default the learning rate falls to nothing over `epochs`, so that the last weights are good
    ones even where no validation nodes choose among them.
    """
    loss = loss_on_targets(network, inputs, views, p)
    lengths = [len(view.nodes) for view in views]
    return Loop(network, loss, lengths, seeds, batch, rate, epochs=epochs if decays else None)


def loss_on_targets(network: ForkedMLP, inputs: Inputs, views: Sequence[View], p: Tensor) -> Loss:
    """The loss of a batch of nodes, as `Loop` wants it."""
    device, words = inputs.device, hiding_words(inputs.d, HIDE)
    nodes = padded([view.nodes for view in views], device)  # (R, n')
    around = RandomNeighbours([view.edges for view in views], inputs.n, device)
    replica = torch.arange(len(views), device=device).view(-1, 1)

    def loss(index: Tensor, draws: Draws, pace: Tensor) -> Tensor:
        R, B = index.shape
        shape, dropout = (R, 1, B), network.dropout
        bits, numbers = draws.take(shape, network.hidden, network.blocks, B + words, dropout)
        i = nodes.gather(1, index)  # (R, B)
        j = around.pick(i, numbers[:, :B])
        kept = kept_features(numbers[:, B:], inputs.d, HIDE) if words else None
        noise = Noise(bits, pace, kept)
        z, s = network(inputs, i.unsqueeze(1), noise)  # (R, 1, B, C)
        own = soft_cross_entropy(z.squeeze(1), p[replica, i])
        return own + soft_cross_entropy(s.squeeze(1), p[replica, j])

    return loss
