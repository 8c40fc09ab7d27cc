"""The baselines MLP, GCN and GCN2MLP, with the same layers and training loop as LinkDist.

    MLP       Linear(d, 256), block(256, 256), block(256, C)
    GCN       the MLP with x ← Â x before each of its three layers
    GCN2MLP   an MLP that is trained on the GCN's softmax output, without validation and test nodes

MLP and GCN2MLP are trained on batches of nodes, the GCN on its whole graph at once. The first layer
of the GCN is computed as Â (X W) rather than (Â X) W, because it is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from linkdist.data.graph import IntArray
from linkdist.data.splits import View
from linkdist.errors import GraphError
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import Inputs
from linkdist.nn.losses import cross_entropy
from linkdist.nn.network import HIDDEN, Block, First, Noise, generators
from linkdist.nn.optim import RATE, RandomStreams
from linkdist.training.loop import AfterEpoch, Loop, padded

EPOCHS = 200


class MLP(nn.Module):
    """An MLP with three layers and R replicas.

    Examples
    --------
    >>> from linkdist.nn.inputs import make_inputs
    >>> x = make_inputs(np.eye(4, dtype=np.float32), torch.device("cpu"))
    >>> MLP(d=4, C=3, seeds=[0, 1])(x).shape
    torch.Size([2, 1, 4, 3])
    """

    blocks = 2

    def __init__(self, d: int, C: int, seeds: Sequence[int], hidden: int = HIDDEN) -> None:
        super().__init__()
        random = generators(seeds)
        self.hidden = hidden
        self.first = First(d, hidden, random)
        self.second = Block(hidden, hidden, random, bias=False)
        self.third = Block(hidden, C, random)

    def forward(
        self, inputs: Inputs, rows: Tensor | None = None, noise: Noise | None = None
    ) -> Tensor:
        """Return the logits (R, S, B, C) of the nodes `rows` (R, S, B), by default of all nodes."""
        bits, momentum, _ = noise if noise is not None else ((None,) * self.blocks, None, None)
        x = self.second(self.first(inputs, rows), bits[0], momentum)
        z: Tensor = self.third(x, bits[1], momentum)
        return z


class GCN(MLP):
    """A GCN: the MLP with the mean of a node and its neighbours as the input of each layer.

    Examples
    --------
    >>> from linkdist.nn.inputs import make_inputs
    >>> x = make_inputs(np.eye(4, dtype=np.float32), torch.device("cpu"))
    >>> link = Neighbours([np.array([[0, 1], [1, 0]])], 4, torch.device("cpu"))
    >>> GCN(d=4, C=3, seeds=[0]).whole(x, link).shape
    torch.Size([1, 4, 3])
    """

    def whole(
        self,
        inputs: Inputs,
        neighbours: Neighbours,
        rows: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """Return the logits (R, n, C) of a graph with the feature rows `rows` (R, n)."""
        bits, momentum, _ = noise if noise is not None else ((None,) * self.blocks, None, None)
        x = neighbours.smooth(inputs.project(self.first.weight, rows))
        x = self.second(neighbours.smooth(x).unsqueeze(1), bits[0], momentum).squeeze(1)
        z: Tensor = self.third(neighbours.smooth(x).unsqueeze(1), bits[1], momentum)
        return z.squeeze(1)


NodeLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""A loss (R,) of logits (R, B, C) and their nodes (R, B)."""


def label_loss(views: Sequence[View], device: torch.device) -> NodeLoss:
    """Return the cross-entropy with the visible labels of each replica."""
    labels = torch.from_numpy(np.stack([view.labels for view in views])).to(device)
    return lambda z, nodes: cross_entropy(z, labels.gather(1, nodes))


def teacher_loss(taught: Tensor) -> NodeLoss:
    """Return the Kullback-Leibler divergence from the probabilities (R, n, C) of a teacher."""
    replica = torch.arange(taught.shape[0], device=taught.device).view(-1, 1)

    def loss(z: Tensor, nodes: Tensor) -> Tensor:
        p = taught[replica, nodes]  # (R, B, C)
        divergence: Tensor = (torch.special.xlogy(p, p) - p * z.log_softmax(-1)).sum(-1).mean(-1)
        return divergence

    return loss


def train_on_nodes(
    network: MLP,
    inputs: Inputs,
    nodes: Sequence[IntArray],
    node_loss: NodeLoss,
    seeds: Sequence[int],
    after_epoch: AfterEpoch | None = None,
    epochs: int = EPOCHS,
) -> None:
    """Train an MLP on batches of the nodes of each replica."""
    at = padded(nodes, network.first.weight.device)  # (R, items)

    def loss(index: Tensor, streams: RandomStreams, momentum: Tensor) -> Tensor:
        batch = at.gather(1, index)  # (R, B)
        rows = batch.unsqueeze(1)  # (R, 1, B)
        bits, _ = streams.draw(rows.shape, network.hidden, network.blocks)
        return node_loss(network(inputs, rows, Noise(bits, momentum)).squeeze(1), batch)

    Loop(network, loss, [len(part) for part in nodes], seeds).run(epochs, after_epoch)


class ViewGraph:
    """The visible graph of each replica: feature rows, neighbours and labels.

    Parameters
    ----------
    views : sequence of View
        The views of the replicas; all of them must have the same number of nodes.
    device : torch.device
        The device of the GCN.
    """

    def __init__(self, views: Sequence[View], device: torch.device) -> None:
        sizes = {len(view.nodes) for view in views}
        if len(sizes) != 1:
            raise GraphError(
                f"the replicas of a GCN need views of the same size; found {sorted(sizes)} nodes. "
                "Train them separately."
            )
        edges = [np.searchsorted(view.nodes, view.edges) for view in views]
        self.n = sizes.pop()
        rows = torch.from_numpy(np.stack([view.nodes for view in views])).to(device)
        self.rows = rows if self.n < views[0].features.shape[0] else None
        self.neighbours = Neighbours(edges, self.n, device)
        labels = np.stack([view.labels[view.nodes] for view in views])
        self.labels = torch.from_numpy(labels).to(device)


def train_gcn(
    network: GCN,
    inputs: Inputs,
    seen: ViewGraph,
    seeds: Sequence[int],
    after_epoch: AfterEpoch | None = None,
    epochs: int = EPOCHS,
    rate: float = RATE,
) -> None:
    """Train a GCN on the labels of its views, each view in one batch."""
    R = len(seeds)

    def loss(_: Tensor, streams: RandomStreams, momentum: Tensor) -> Tensor:
        bits, _ = streams.draw((R, 1, seen.n), network.hidden, network.blocks)
        z = network.whole(inputs, seen.neighbours, seen.rows, Noise(bits, momentum))
        return cross_entropy(z, seen.labels)

    Loop(network, loss, [1] * R, seeds, batch=1, rate=rate).run(epochs, after_epoch)
