"""Training on soft targets: a network learns the predictions of teachers from features.

Each step takes nodes i, each with a random neighbour j, and minimises

    CE(z_i, t_i) + CE(s_i, t_j)        CE(z, t) = - mean over rows of Σ_c t_c log p(z)_c

for targets t that are probabilities, so that both heads, and both modes of prediction, learn from
the same targets. If there are many features, each step masks a random half of them: the network has
to predict the same from the other half.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import UNKNOWN
from linkdist.data.splits import View
from linkdist.nn.aggregation import RandomNeighbours
from linkdist.nn.inputs import Inputs
from linkdist.nn.losses import soft_cross_entropy
from linkdist.nn.network import ForkedMLP, Noise, feature_mask, mask_words
from linkdist.nn.optim import RandomStreams
from linkdist.training.loop import BATCH, Loop, Loss, padded

MASKED = 0.5
"""The share of the features that a step masks, if there are many features."""
RATE = 0.003
"""Adam's initial learning rate for a student."""


def with_known(p: Tensor, views: Sequence[View]) -> Tensor:
    """Replace probabilities (R, n, C) by the known labels of each view.

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
    """The loop that trains a forked MLP on targets p (R, n, C) for the nodes of its views.

    By default the learning rate decays to 0 over `epochs`, so that the last weights are good even
    without validation nodes that select an evaluation.
    """
    loss = loss_on_targets(network, inputs, views, p)
    lengths = [len(view.nodes) for view in views]
    return Loop(network, loss, lengths, seeds, batch, rate, epochs=epochs if decays else None)


def loss_on_targets(network: ForkedMLP, inputs: Inputs, views: Sequence[View], p: Tensor) -> Loss:
    """The loss of a batch of nodes, for `Loop`."""
    device, words = inputs.device, mask_words(inputs.d, MASKED)
    nodes = padded([view.nodes for view in views], device)  # (R, n')
    around = RandomNeighbours([view.edges for view in views], inputs.n, device)
    replica = torch.arange(len(views), device=device).view(-1, 1)

    def loss(index: Tensor, streams: RandomStreams, momentum: Tensor) -> Tensor:
        R, B = index.shape
        shape, dropout = (R, 1, B), network.dropout
        bits, numbers = streams.draw(shape, network.hidden, network.blocks, B + words, dropout)
        i = nodes.gather(1, index)  # (R, B)
        j = around.pick(i, numbers[:, :B])
        mask = feature_mask(numbers[:, B:], inputs.d, MASKED) if words else None
        z, s = network(inputs, i.unsqueeze(1), Noise(bits, momentum, mask))  # (R, 1, B, C)
        own = soft_cross_entropy(z.squeeze(1), p[replica, i])
        return own + soft_cross_entropy(s.squeeze(1), p[replica, j])

    return loss
