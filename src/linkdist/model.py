"""Prediction in the paper's two modes.

From features: the class of highest own-label logit z, a plain MLP's prediction. With links: the
node's own prediction combined with what its neighbours j say of it,

    κ · log p(z_i) + α · mean_j log p(s_j)    'mean', the form behind the published numbers
    z_i + α · Σ_j s_j                         'sum', the form that the paper writes

with the paper's κ = 1; calibration may choose another (`training.panel.calibration`). A node
without neighbours is predicted from its features; a link to itself does not make it its own
neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import UNKNOWN, FeatureMatrix, FloatArray, Graph, IntArray, as_features
from linkdist.errors import check_names
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.nn.network import ForkedMLP

FORMS = ("mean", "sum")

CHUNK = {"cpu": 1 << 21, "cuda": 1 << 28}
"""How many hidden numbers an evaluation holds at once: small enough for the CPU's cache."""


@dataclass(frozen=True)
class Model:
    """R trained replicas and what prediction needs beside them.

    Attributes
    ----------
    network : ForkedMLP
        The weights.
    alpha : (R,) tensor
        α, how much the neighbours' word counts.
    classes : tuple of str
        The classes' names.
    kappa : (R,) tensor, optional
        κ, how much the node's own prediction counts beside its neighbours'; by default 1.
    """

    network: ForkedMLP
    alpha: Tensor
    classes: tuple[str, ...]
    kappa: Tensor | None = None

    @property
    def own(self) -> Tensor:
        """κ, 1 where none was chosen."""
        return torch.ones_like(self.alpha) if self.kappa is None else self.kappa

    def to(self, device: torch.device) -> Model:
        """The same on another device."""
        own = self.own.to(device)
        return Model(self.network.to(device), self.alpha.to(device), self.classes, own)

    def with_neighbours(self, z: Tensor, s: Tensor, neighbours: Neighbours) -> Tensor:
        """Scores (R, n, C) with links, for the logits of both heads."""
        return message_passing(z, s, neighbours, self.alpha, own=self.own)

    @property
    def d(self) -> int:
        """Number of features of a node."""
        return self.network.first.weight.shape[1]


def from_features(model: Model, features: FeatureMatrix) -> FloatArray:
    """Class probabilities from features alone, the mean over replicas.

    Parameters
    ----------
    model : Model
        As `linkdist.fit` gives it.
    features : (n, d) array or CSR matrix
        A row a node.

    Returns
    -------
    (n, C) array
        Rows sum to 1.

    Examples
    --------
    >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
    >>> from_features(model, np.zeros((5, 2), dtype=np.float32)).shape
    (5, 3)
    """
    return _mean_probability(_logits_of(model, features, None))


def disagreement(
    model: Model, features: FeatureMatrix, links: IntArray | None = None
) -> FloatArray:
    """Share of the replicas that would give a node another class than they do together.

    Parameters
    ----------
    model : Model
        As `linkdist.fit` gives it.
    features : (n, d) array or CSR matrix
        A row a node.
    links : (m, 2) array of int, optional
        Pairs of linked nodes, for message passing.

    Returns
    -------
    (n,) array
        From 0, where all replicas agree, to below 1.

    Examples
    --------
    >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
    >>> disagreement(model, np.eye(2, dtype=np.float32)).tolist()
    [0.0, 0.0]
    """
    p = _logits_of(model, features, links).softmax(-1)  # (R, n, C)
    apart = p.argmax(-1) != p.mean(0).argmax(-1)
    share: FloatArray = apart.float().mean(0).cpu().numpy()
    return share


def _logits_of(model: Model, features: FeatureMatrix, links: IntArray | None) -> Tensor:
    """Logits (R, n, C) from features or, where links are given, with them."""
    x, device = as_features(features, model.d), model.alpha.device
    if links is None:
        return logits(model.network, make_inputs(x, device))[0]
    graph = Graph.build(x, links, np.full(x.shape[0], UNKNOWN), model.classes)
    z, s = logits(model.network, make_inputs(graph.features, device))
    return model.with_neighbours(z, s, Neighbours([graph.edges], graph.n, device))


def with_links(model: Model, features: FeatureMatrix, links: IntArray) -> FloatArray:
    """Class probabilities from features and links, the mean over replicas.

    Parameters
    ----------
    model : Model
        As `linkdist.fit` gives it.
    features : (n, d) array or CSR matrix
        A row a node.
    links : (m, 2) array of int
        Pairs of linked nodes.

    Returns
    -------
    (n, C) array
        Rows sum to 1.

    Examples
    --------
    >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
    >>> with_links(model, np.eye(2, dtype=np.float32), np.array([[0, 1]])).shape
    (2, 3)
    """
    return _mean_probability(_logits_of(model, features, links))


@torch.no_grad()
def logits(network: ForkedMLP, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Own and neighbour logits of all nodes, each (R, n, C), in pieces that fit the device."""
    weight = network.first.weight
    R = weight.shape[0]
    piece = max(1, CHUNK[weight.device.type] // (R * network.hidden))
    if piece >= inputs.n:
        z, s = network(inputs)
        return z.squeeze(1), s.squeeze(1)
    nodes = torch.arange(inputs.n, device=weight.device).split(piece)
    pieces = [network(inputs, rows.expand(R, 1, -1)) for rows in nodes]
    z, s = (torch.cat(part, dim=2).squeeze(1) for part in zip(*pieces, strict=True))
    return z, s


@torch.no_grad()
def message_passing(
    z: Tensor,
    s: Tensor,
    neighbours: Neighbours,
    alpha: Tensor,
    form: str = "mean",
    own: Tensor | None = None,
) -> Tensor:
    """Combine a node's own logits with its neighbours' word.

    Parameters
    ----------
    z, s : (R, n, C) tensors
        Own-label and neighbour-label logits.
    neighbours : Neighbours
        Whose word counts.
    alpha : (R,) tensor
        How much it counts.
    form : {'mean', 'sum'}
        See the head of this module.
    own : (R,) tensor, optional
        κ of the form 'mean'; by default 1.

    Returns
    -------
    (R, n, C) tensor
        Logits.

    Examples
    --------
    >>> pair = Neighbours([np.array([[0, 1], [1, 0]])], 2, torch.device("cpu"))
    >>> z, s = torch.zeros(1, 2, 2), torch.tensor([[[1.0, 0.0], [0.0, 3.0]]])
    >>> message_passing(z, s, pair, torch.ones(1), form="sum")[0]
    tensor([[0., 3.],
            [1., 0.]])
    """
    check_names("form of message passing", [form], FORMS)
    by = alpha.view(-1, 1, 1)
    if form == "sum":
        return z + by * neighbours.sum(s)
    alone, word = parts_of(z, s, neighbours)
    if own is None:
        return alone + by * word
    linked = torch.from_numpy(neighbours.degree > 0).to(z.device).view(-1, z.shape[1], 1)
    return torch.where(linked, own.view(-1, 1, 1) * alone + by * word, alone)


@torch.no_grad()
def parts_of(z: Tensor, s: Tensor, neighbours: Neighbours) -> tuple[Tensor, Tensor]:
    """What a node says of itself, log p(z_i), and its neighbours' word, mean_j log p(s_j).

    Message passing adds α times the second, each (R, n, C), to the first.

    Examples
    --------
    >>> pair = Neighbours([np.array([[0, 1], [1, 0]])], 2, torch.device("cpu"))
    >>> own, word = parts_of(torch.zeros(1, 2, 2), torch.zeros(1, 2, 2), pair)
    >>> word[0]
    tensor([[-0.6931, -0.6931],
            [-0.6931, -0.6931]])
    """
    return z.log_softmax(-1), neighbours.mean(s.log_softmax(-1))


def _mean_probability(scores: Tensor) -> FloatArray:
    mean: FloatArray = scores.softmax(-1).mean(0).cpu().numpy()
    return mean
