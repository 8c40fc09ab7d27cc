"""Training on links: the coefficients of the paper's loss, its evaluation, and the loss on targets.

A step of LinkDist takes a batch of directed edges (i, j), CoLinkDist also one random node k for
each. The loss needs α, β1, β2 and class weights. They are ratios of counts, and counts add up: the
counts of a graph that grows are the sum of those of its parts, so the old part is not read again.

A step of SelfLinkDist takes nodes i, each with a random neighbour j, and minimises

    CE(z_i, t_i) + CE(s_i, t_j)        CE(z, t) = - mean over rows of Σ_c t_c log p(z)_c

for targets t that are probabilities, so that both heads, and both modes of prediction, learn from
the same targets. With K relations there is a neighbour j_k of each, and the second term is the mean
over k of CE(s_ki, t_jk), over the rows with such a neighbour. Other tasks have other losses
(`nn.tasks`). If there are many features, each step masks a random half of them: the network has
to predict the same from the other half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.graph import Graph, IntArray
from linkdist.data.links import reverse_head
from linkdist.data.splits import Split, View, observe
from linkdist.errors import GraphError, check_names
from linkdist.model import FORMS, logits, message_passing
from linkdist.nn.aggregation import RandomNeighbours, relations_of
from linkdist.nn.inputs import Inputs
from linkdist.nn.losses import Coefficients, LinkLoss
from linkdist.nn.network import ForkedMLP, Noise, feature_mask, mask_words
from linkdist.nn.optim import RATE, Adam, Average, RandomStreams
from linkdist.nn.tasks import Classification, Task
from linkdist.training.history import History, Snapshot
from linkdist.training.loop import BATCH, STUDENT_RATE, Loop, Loss, padded

METHODS = ("linkdist", "colinkdist")
VISITS = 200
"""How often training visits a node: epochs = floor(200 / average degree)."""
BETA = {"inductive": None, "transductive": None, "full-supervised": 0.1, "production": None}
"""β1 + β2 in each setting; with None, β1 = r_n and β2 = r_e."""
MASKED = 0.5
"""The share of the features that a step on targets masks, if there are many features."""


@dataclass(frozen=True)
class Tally:
    """The counts of a view that the coefficients depend on.

    Attributes
    ----------
    nodes, ends : int
        Number of nodes, and of endpoints of directed edges.
    of_nodes, of_ends : (C,) int arrays
        Number of training nodes of each class, and of edge endpoints at them.
    """

    nodes: int
    ends: int
    of_nodes: IntArray
    of_ends: IntArray

    @classmethod
    def of(cls, view: View) -> Tally:
        """Count a view.

        Examples
        --------
        >>> graph = Graph.build([[1.0], [2.0], [3.0]], [(0, 1), (1, 2)], [0, 1, 0])
        >>> view = observe(graph, Split(*map(np.array, ([0], [1], [2]))), "transductive")
        >>> Tally.of(view)
        Tally(nodes=3, ends=8, of_nodes=array([1, 0]), of_ends=array([2, 0]))
        """
        ends = view.labels[view.edges]  # (e', 2)
        of_nodes = np.bincount(view.labels[view.train], minlength=view.C)
        of_ends = np.bincount(ends[ends >= 0], minlength=view.C)
        return cls(len(view.nodes), ends.size, of_nodes, of_ends)

    def __add__(self, other: Tally) -> Tally:
        """The counts of two parts together."""
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def coefficients(
    views: Sequence[View | Tally], beta: float | None = None, device: torch.device | None = None
) -> Coefficients:
    """The coefficients of the loss for each view.

    With r_n the share of nodes that are training nodes and r_e the share of edge endpoints that
    are: α = 1 - r_e; β1 = r_n and β2 = r_e, or β1 + β2 = `beta` in that ratio. Class weights
    w_c ∝ (training nodes of class c) / (their endpoints in the edges), scaled to sum to C.

    Examples
    --------
    >>> coefficients([Tally(3, 8, np.array([1, 0]), np.array([2, 0]))]).alpha
    tensor([0.7500])
    """
    tallies = [view if isinstance(view, Tally) else Tally.of(view) for view in views]
    rows = [_coefficients(tally, beta) for tally in tallies]
    alpha, beta1, beta2, weights = (
        torch.tensor(np.array(part), dtype=torch.float32, device=device)
        for part in zip(*rows, strict=True)
    )
    return Coefficients(alpha, beta1, beta2, weights)


def _coefficients(
    tally: Tally, beta: float | None
) -> tuple[float, float, float, npt.NDArray[np.float64]]:
    known, labelled = int(tally.of_ends.sum()), int(tally.of_nodes.sum())
    if known == 0:
        raise GraphError(
            f"training needs a link that touches a labelled node; found {labelled} "
            f"labelled nodes and {tally.ends // 2} directed edges that touch none of them. "
            "Add labels or links."
        )
    r_n, r_e = labelled / tally.nodes, known / tally.ends
    beta1, beta2 = (r_n, r_e) if beta is None else beta * np.array([r_n, r_e]) / (r_n + r_e)
    present = tally.of_ends > 0
    weights = np.divide(tally.of_nodes, tally.of_ends, out=np.zeros(len(present)), where=present)
    return 1 - r_e, beta1, beta2, weights * len(present) / weights.sum()


class Seen(NamedTuple):
    """The part of the graph that R replicas may see, on a device.

    Attributes
    ----------
    edges : (R, e, 2) tensor of int
        Directed edges.
    nodes : (R, n') tensor
        The visible nodes, from which k is drawn.
    counts : (R, 1) tensor
        Number of visible nodes of each replica.
    labels : (R, n) tensor
        y, or `UNKNOWN`.
    heads : (2, R, e) tensor, optional
        The neighbour head by which each node of an edge predicts the other: first that of i.
    """

    edges: Tensor
    nodes: Tensor
    counts: Tensor
    labels: Tensor
    heads: Tensor | None = None


def seen_by(views: Sequence[View], device: torch.device) -> Seen:
    """The views of R replicas as tensors on a device."""
    heads = None
    if any(view.heads is not None for view in views):
        of_j = padded([view.heads for view in views if view.heads is not None], device)
        heads = torch.stack([of_j ^ 1 if views[0].directed else of_j, of_j])
    return Seen(
        edges=padded([view.edges for view in views], device),
        nodes=padded([view.nodes for view in views], device),
        counts=torch.tensor([[len(view.nodes)] for view in views], device=device),
        labels=torch.from_numpy(np.stack([view.labels for view in views])).to(device),
        heads=heads,
    )


def loss_on_links(
    network: ForkedMLP, inputs: Inputs, seen: Seen, weights: Coefficients, method: str
) -> Loss:
    """The loss of a batch of edges, for `Loop`."""
    check_names("method", [method], METHODS)
    edges, nodes, counts, labels, heads = seen
    replica = torch.arange(len(labels), device=labels.device).view(-1, 1)  # (R, 1)
    sides = 3 if method == "colinkdist" else 2
    link_loss = LinkLoss(weights, sides)

    def loss(index: Tensor, streams: RandomStreams, momentum: Tensor) -> Tensor:
        R, B = index.shape
        shape, dropout = (R, sides, B), network.dropout
        bits, numbers = streams.draw(shape, network.hidden, network.blocks, B, dropout)
        rows = edges[replica, index].transpose(1, 2).long()  # (R, 2, B)
        if sides == 3:
            k = nodes.gather(1, numbers.remainder(counts))  # (R, B)
            rows = torch.cat([rows, k.unsqueeze(1)], dim=1)  # (R, 3, B)
        z, s = network(inputs, rows, Noise(bits, momentum))
        y = labels.gather(1, rows.flatten(1)).view(rows.shape)
        if heads is None:
            return link_loss(z, s[0], y)
        of_i, of_j = (head.gather(1, index) for head in heads)  # (R, B)
        chosen = torch.stack([of_i, of_j, of_j][:sides], dim=1)  # (R, S, B)
        return link_loss(z, s.gather(0, chosen[None, ..., None].expand(1, *z.shape))[0], y)

    return loss


def loop_on_links(
    network: ForkedMLP,
    inputs: Inputs,
    views: Sequence[View],
    seeds: Sequence[int],
    weights: Coefficients,
    method: str,
    batch: int = BATCH,
    rate: float = RATE,
    average: Average[ForkedMLP] | None = None,
    epochs: float | None = None,
) -> Loop:
    """The loop that trains a forked MLP on the links of its views; see `Loop`."""
    loss = loss_on_links(network, inputs, seen_by(views, inputs.device), weights, method)
    lengths = [len(view.edges) for view in views]
    drawn = [view.weights for view in views if view.weights is not None]
    return Loop(network, loss, lengths, seeds, batch, rate, average, epochs, weights=drawn)


def loop_on_targets(
    network: ForkedMLP,
    inputs: Inputs,
    views: Sequence[View],
    seeds: Sequence[int],
    p: Tensor,
    epochs: int,
    batch: int = BATCH,
    rate: float = STUDENT_RATE,
    decays: bool = True,
    task: Task | None = None,
) -> Loop:
    """The loop that trains a forked MLP on targets p (R, n, C) for the nodes of its views.

    By default the learning rate decays to 0 over `epochs`, so that the last weights are good even
    without validation nodes that select an evaluation.
    """
    loss = loss_on_targets(network, inputs, views, p, task or Classification())
    lengths = [len(view.nodes) for view in views]
    return Loop(network, loss, lengths, seeds, batch, rate, epochs=epochs if decays else None)


def loss_on_targets(
    network: ForkedMLP, inputs: Inputs, views: Sequence[View], p: Tensor, task: Task
) -> Loss:
    """The loss of a batch of nodes, for `Loop`."""
    # A number needs all features at once: it is a sum of small parts of each.
    masked = 0.0 if task.name == "regression" else MASKED
    device, words = inputs.device, mask_words(inputs.d, masked)
    nodes = padded([view.nodes for view in views], device)  # (R, n')
    K = len(network.neighbours)
    around = []
    for k in range(K):
        # What head k of a node predicts are the nodes on the other side of its edges.
        other = [view.all_edges.of_head(reverse_head(k, view.directed)) for view in views]
        around.append(RandomNeighbours(other, inputs.n, device))
    replica = torch.arange(len(views), device=device).view(-1, 1)

    def loss(index: Tensor, streams: RandomStreams, momentum: Tensor) -> Tensor:
        R, B = index.shape
        shape, dropout = (R, 1, B), network.dropout
        drawn = streams.draw(shape, network.hidden, network.blocks, K * B + words, dropout)
        bits, (*numbers, for_mask) = drawn[0], drawn[1].split([*[B] * K, words], dim=1)
        i = nodes.gather(1, index)  # (R, B)
        mask = feature_mask(for_mask, inputs.d, masked) if words else None
        z, s = network(inputs, i.unsqueeze(1), Noise(bits, momentum, mask))
        own = task.loss(z.squeeze(1), p[replica, i])
        if K == 1:
            j = around[0].pick(i, numbers[0])
            return own + task.loss(s[0].squeeze(1), p[replica, j])
        beside = torch.zeros_like(own)
        for head, part, number in zip(around, s, numbers, strict=True):
            j, linked = head.pick(i, number), head.degree.gather(1, i) > 0
            beside = beside + task.loss(part.squeeze(1), p[replica, j], linked.float())
        return own + beside / K

    return loss


def epochs_for(degree: float) -> int:
    """The paper's number of epochs, floor(200 / average degree), at least one.

    Examples
    --------
    >>> epochs_for(3.9), epochs_for(35.76), epochs_for(1000.0)
    (51, 5, 1)
    """
    return max(1, int(VISITS / degree)) if degree > 0 else 1


class LinkTask:
    """The data of a training on links: the graph, the views, the coefficients.

    Parameters
    ----------
    graph : Graph
        The graph with all labels.
    splits : sequence of Split
        One for each replica.
    setting : str
        What training may see; see `observe`.
    seeds : sequence of int
        One for each replica.
    inputs : Inputs
        The graph's features on a device.
    known : Coefficients, optional
        The coefficients of the loss, if the graph is a sample of a larger one; by default those of
        the views.
    """

    def __init__(
        self,
        graph: Graph,
        splits: Sequence[Split],
        setting: str,
        seeds: Sequence[int],
        inputs: Inputs,
        known: Coefficients | None = None,
    ) -> None:
        self.graph, self.splits, self.seeds, self.inputs = graph, splits, seeds, inputs
        self.device = inputs.device
        self.views = [observe(graph, split, setting) for split in splits]
        self.neighbours = relations_of(graph, graph.n, self.device)
        self.coefficients = known or coefficients(self.views, BETA[setting], self.device)


class LinkTraining:
    """A network that is trained on links: its evaluation, and its best weights.

    Attributes
    ----------
    network : ForkedMLP
        The network in training.
    alpha : (R, K) tensor
        α, the weights of the neighbours' predictions.
    history : History
        The scores of every evaluation, from features and in both forms of message passing.
    """

    def __init__(self, task: LinkTask, network: ForkedMLP, adam: Adam) -> None:
        self.task, self.network, self.adam = task, network, adam
        self.history = History(task.graph, task.splits, task.device)
        K = len(network.neighbours)
        self.alpha = task.coefficients.alpha.unsqueeze(1).repeat(1, K) / K  # (R, K)
        self.best = Snapshot(network)

    def evaluate(self) -> None:
        """Score the current weights, and keep them if they are the best from features."""
        z, s = logits(self.network, self.task.inputs)
        self.best.keep(self.history.record("features", z))
        for form in FORMS:
            scores = message_passing(z, s, self.task.neighbours, self.alpha, form)
            self.history.record(form, scores)

    def restore_best(self) -> None:
        """Put the best weights into the network, if validation nodes chose any."""
        if self.history.chooses:
            self.best.restore()

    def state(self) -> dict[str, Tensor]:
        """The live tensors that the rest of the training depends on, except the history."""
        adam = {f"adam.{name}": tensor for name, tensor in self.adam.state().items()}
        network = self.network.state_dict(prefix="network.")
        return {**network, **adam, "alpha": self.alpha, **self.best.state()}
