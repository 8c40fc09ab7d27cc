"""Prediction in the paper's two modes.

From features: the class with the highest own-label logit z, the prediction of a plain MLP. With
links: the node's own prediction combined with the predictions of its neighbours j,

    κ · log p(z_i) + α · mean_j log p(s_j)    'mean', the form behind the published numbers
    z_i + α · Σ_j s_j                         'sum', the form that the paper writes

The paper has κ = 1; calibration may choose another value (`training.panel.learning`). A node
without neighbours is predicted from its features. A self-loop does not make a node its own
neighbour.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.graph import UNKNOWN, FeatureMatrix, FloatArray, Graph, IntArray, as_features
from linkdist.errors import check_names
from linkdist.nn.aggregation import Neighbours, VisibleNeighbours
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.nn.network import ForkedMLP

FORMS = ("mean", "sum")

CHUNK = {"cpu": 1 << 21, "cuda": 1 << 28}
"""Number of hidden values that an evaluation computes at once: on a CPU they fit into the cache."""


@dataclass(frozen=True)
class Model:
    """R trained replicas and the constants of their predictions.

    Attributes
    ----------
    network : ForkedMLP
        The weights.
    alpha : (R,) tensor
        α, the weight of the neighbours' predictions.
    classes : tuple of str
        The names of the classes.
    kappa : (R,) tensor, optional
        κ, the weight of a node's own prediction next to its neighbours'; by default 1.
    """

    network: ForkedMLP
    alpha: Tensor
    classes: tuple[str, ...]
    kappa: Tensor = field(default_factory=lambda: torch.ones(1))

    def __post_init__(self) -> None:
        """Give each replica its κ, on the device of α."""
        kappa = self.kappa.to(self.alpha).expand_as(self.alpha).contiguous()
        object.__setattr__(self, "kappa", kappa)

    def to(self, device: torch.device) -> Model:
        """The model on a device: a copy, or the model itself if it is there already.

        Examples
        --------
        >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
        >>> model.to(torch.device("cpu")) is model
        True
        """
        if self.network.first.weight.device == self.alpha.device == device:
            return self
        network = copy.deepcopy(self.network).to(device)
        return Model(network, self.alpha.to(device), self.classes, self.kappa.to(device))

    def predict_proba(self, features: FeatureMatrix, links: IntArray | None = None) -> FloatArray:
        """Class probabilities (n, C), averaged over replicas.

        Parameters
        ----------
        features : (n, d) array or CSR matrix
            One row for each node.
        links : (m, 2) array of int, optional
            Pairs of linked nodes, for prediction with links.

        Examples
        --------
        >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
        >>> model.predict_proba(np.zeros((5, 2), dtype=np.float32)).shape
        (5, 3)
        """
        return _mean_probability(_logits_of(self, features, links))

    def with_neighbours(self, z: Tensor, s: Tensor, neighbours: Neighbours) -> Tensor:
        """Logits (R, n, C) with links, from the logits of both heads."""
        return message_passing(z, s, neighbours, self.alpha, kappa=self.kappa)

    @property
    def d(self) -> int:
        """Number of features."""
        return self.network.first.weight.shape[1]


def from_features(model: Model, features: FeatureMatrix) -> FloatArray:
    """Class probabilities from features alone, averaged over replicas.

    Parameters
    ----------
    model : Model
        A trained model, such as `linkdist.fit(...).model`.
    features : (n, d) array or CSR matrix
        One row for each node.

    Returns
    -------
    (n, C) array
        Each row sums to 1.

    Examples
    --------
    >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
    >>> from_features(model, np.zeros((5, 2), dtype=np.float32)).shape
    (5, 3)
    """
    return model.predict_proba(features)


def reweighted(model: Model, weights: npt.NDArray[np.float64] | None) -> Model:
    """The model with class probabilities multiplied by weights (C,) and normalised.

    From features this is exact; with links, the weights count to the power of κ.

    Examples
    --------
    >>> model = Model(ForkedMLP(d=2, C=2, seeds=[0]), torch.ones(1), ("a", "b"))
    >>> before = model.predict_proba(np.zeros((1, 2), dtype=np.float32))[0]
    >>> after = reweighted(model, np.array([3.0, 1.0])).predict_proba(np.zeros((1, 2)))[0]
    >>> bool(np.isclose(after[0] / after[1], 3 * before[0] / before[1], rtol=1e-4))
    True
    """
    if weights is None:
        return model
    network = copy.deepcopy(model.network)
    bias = network.own.linear.bias
    assert bias is not None
    with torch.no_grad():
        bias.add_(torch.from_numpy(np.log(weights)).to(bias))
    return Model(network, model.alpha, model.classes, model.kappa)


def disagreement(
    model: Model, features: FeatureMatrix, links: IntArray | None = None
) -> FloatArray:
    """Share of the replicas that predict another class than the average of all replicas.

    Parameters
    ----------
    model : Model
        A trained model, such as `linkdist.fit(...).model`.
    features : (n, d) array or CSR matrix
        One row for each node.
    links : (m, 2) array of int, optional
        Pairs of linked nodes, for prediction with links.

    Returns
    -------
    (n,) array
        0 where all replicas agree; always below 1.

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
    """Logits (R, n, C) from features or, if links are given, with links."""
    x, device = as_features(features, model.d), model.alpha.device
    if links is None:
        return logits(model.network, make_inputs(x, device))[0]
    graph = Graph.build(x, links, np.full(x.shape[0], UNKNOWN), model.classes)
    z, s = logits(model.network, make_inputs(graph.features, device))
    return model.with_neighbours(z, s, Neighbours([graph.edges], graph.n, device))


def with_links(model: Model, features: FeatureMatrix, links: IntArray) -> FloatArray:
    """Class probabilities from features and links, averaged over replicas.

    Parameters
    ----------
    model : Model
        A trained model, such as `linkdist.fit(...).model`.
    features : (n, d) array or CSR matrix
        One row for each node.
    links : (m, 2) array of int
        Pairs of linked nodes.

    Returns
    -------
    (n, C) array
        Each row sums to 1.

    Examples
    --------
    >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
    >>> with_links(model, np.eye(2, dtype=np.float32), np.array([[0, 1]])).shape
    (2, 3)
    """
    return model.predict_proba(features, links)


@torch.no_grad()
def logits(network: ForkedMLP, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Own and neighbour logits of all nodes, each (R, n, C), computed in pieces."""
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
    neighbours: Neighbours | VisibleNeighbours,
    alpha: Tensor,
    form: str = "mean",
    kappa: Tensor | None = None,
) -> Tensor:
    """Combine a node's own logits with the predictions of its neighbours.

    Parameters
    ----------
    z, s : (R, n, C) tensors
        Own-label and neighbour-label logits.
    neighbours : Neighbours
        The links; the form 'mean' also takes `VisibleNeighbours`.
    alpha : (R,) tensor
        α, the weight of the neighbours.
    form : {'mean', 'sum'}
        See the start of this module.
    kappa : (R,) tensor, optional
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
    if form == "sum":
        assert isinstance(neighbours, Neighbours)
        return combine(z, neighbours.sum(s), alpha)
    own, mean = z.log_softmax(-1), neighbours.mean(s.log_softmax(-1))
    return torch.where(neighbours.linked, combine(own, mean, alpha, kappa), own)


def combine(own: Tensor, beside: Tensor, alpha: Tensor, kappa: Tensor | None = None) -> Tensor:
    """κ · own + α · beside, for tensors (R, n, C) and one κ and α for each replica.

    Examples
    --------
    >>> one = torch.ones(1, 1, 2)
    >>> combine(one, one, torch.tensor([0.5]), torch.tensor([2.0]))
    tensor([[[2.5000, 2.5000]]])
    """
    own = own if kappa is None else kappa.view(-1, 1, 1) * own
    return own + alpha.view(-1, 1, 1) * beside


def _mean_probability(scores: Tensor) -> FloatArray:
    mean: FloatArray = scores.softmax(-1).mean(0).cpu().numpy()
    return mean
