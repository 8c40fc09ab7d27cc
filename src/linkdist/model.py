"""Prediction in the paper's two modes.

From features: the class with the highest own-label logit z, the prediction of a plain MLP. With
links: the node's own prediction combined with the predictions of its neighbours j,

    κ · log p(z_i) + Σ_k α_k · mean_j log p(s_kj)    'mean', the form behind the published numbers
    z_i + Σ_k α_k · Σ_j s_kj                         'sum', the form that the paper writes

where k is a relation of links; with weights, the mean is weighted. The paper has one relation and
κ = 1; calibration may choose other values (`training.panel.learning`). A node without neighbours is
predicted from its features; with neighbours of some relations only, κ is between 1 and its value in
proportion to their α. A self-loop does not make a node its own neighbour.

For numbers and for several labels, the outputs take the place of log p (`nn.tasks`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.graph import UNKNOWN, FeatureMatrix, FloatArray, Graph, IntArray, as_features
from linkdist.data.links import LINKS, Links
from linkdist.errors import GraphError, check_names
from linkdist.nn.aggregation import Relations, VisibleNeighbours, relations_of
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.nn.tasks import Classification, Task, task_named

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
    alpha : (R, K) tensor
        α, the weight of the neighbours' predictions for each neighbour head. For one head, (R,) is
        accepted.
    classes : tuple of str
        The names of the classes; for regression, the name of the number.
    kappa : (R,) tensor, optional
        κ, the weight of a node's own prediction next to its neighbours'; by default 1.
    task : {'classification', 'regression', 'multilabel'}
        What is predicted.
    relations : tuple of str
        Names of the relations of links.
    directed : bool
        Whether links have a direction, so that each relation has two heads.
    """

    network: ForkedMLP
    alpha: Tensor
    classes: tuple[str, ...]
    kappa: Tensor = field(default_factory=lambda: torch.ones(1))
    task: str = "classification"
    relations: tuple[str, ...] = LINKS
    directed: bool = False

    def __post_init__(self) -> None:
        """Give each replica its κ, and each head its α, on one device."""
        alpha = self.alpha.view(len(self.alpha), -1)
        object.__setattr__(self, "alpha", alpha)
        kappa = self.kappa.to(alpha).expand(len(alpha)).contiguous()
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
        alpha, kappa = self.alpha.to(device), self.kappa.to(device)
        return replace(self, network=network, alpha=alpha, kappa=kappa)

    def predict_proba(
        self, features: FeatureMatrix, links: IntArray | Links | None = None
    ) -> FloatArray:
        """Class probabilities (n, C), averaged over replicas; for regression, numbers (n, 1).

        Parameters
        ----------
        features : (n, d) array or CSR matrix
            One row for each node.
        links : (m, 2) array of int or Links, optional
            Pairs of linked nodes, for prediction with links; with relations or directions as in
            training.

        Examples
        --------
        >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
        >>> model.predict_proba(np.zeros((5, 2), dtype=np.float32)).shape
        (5, 3)
        """
        return self.mean_prediction(_logits_of(self, features, links))

    def head_outputs(self, features: FeatureMatrix) -> tuple[FloatArray, FloatArray]:
        """Outputs of the own head (n, R, C) and of the neighbour heads (n, R, K, C).

        They are log-probabilities, log-odds or numbers; see `linkdist.nn.tasks`.
        """
        z, s = logits(self.network, make_inputs(features, self.alpha.device))
        own = self.output.natural(z).transpose(0, 1)
        beside = self.output.natural(s).permute(2, 1, 0, 3)
        return own.cpu().numpy(), beside.cpu().numpy()

    def with_neighbours(self, z: Tensor, s: Tensor, neighbours: Relations) -> Tensor:
        """Outputs (R, n, C) with links, from the outputs of all heads."""
        return message_passing(z, s, neighbours, self.alpha, kappa=self.kappa, task=self.output)

    def mean_prediction(self, outputs: Tensor) -> FloatArray:
        """Probabilities or numbers (n, C), averaged over replicas, from outputs (R, n, C).

        Raises
        ------
        GraphError
            If features are so large that a prediction is not a finite number.
        """
        mean: FloatArray = self.output.mean(outputs).mean(0).cpu().numpy()
        if bad := int((~np.isfinite(mean)).any(axis=1).sum()):
            found = f"the model gives no finite prediction for {bad} of {len(mean)} rows"
            raise GraphError(f"{found}: their features are too large. Scale or correct them.")
        return mean

    @property
    def output(self) -> Task:
        """How the outputs of the network are read."""
        return task_named(self.task)

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
    return shifted(model, torch.from_numpy(np.log(weights)).float())


@torch.no_grad()
def shifted(model: Model, by: Tensor, scale: float = 1.0) -> Model:
    """A model whose outputs are multiplied by `scale` and shifted `by` (C,), in both modes.

    The neighbour heads add the part of the shift that κ takes from the own head.
    """
    network = copy.deepcopy(model.network)
    total = model.alpha.sum(1)  # (R,)
    rest = torch.where(total > 0, (1 - model.kappa) / total.clamp(min=1e-9), 0.0)
    shares = [torch.ones_like(total), *[rest] * len(network.neighbours)]
    for head, share in zip([network.own, *network.neighbours], shares, strict=True):
        assert head.linear.bias is not None
        head.linear.weight.mul_(scale)
        head.linear.bias.mul_(scale).add_(share.view(-1, 1, 1) * by.to(share))
    return replace(model, network=network)


def disagreement(
    model: Model, features: FeatureMatrix, links: IntArray | Links | None = None
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
    p = model.output.mean(_logits_of(model, features, links))  # (R, n, C)
    apart = p.argmax(-1) != p.mean(0).argmax(-1)
    share: FloatArray = apart.float().mean(0).cpu().numpy()
    return share


def _logits_of(model: Model, features: FeatureMatrix, links: IntArray | Links | None) -> Tensor:
    """Outputs (R, n, C) from features or, if links are given, with links."""
    x, device = as_features(features, model.d), model.alpha.device
    if links is None:
        return logits(model.network, make_inputs(x, device))[0]
    links = links if isinstance(links, Links) else Links(links)
    check_relations(model, links)
    n = x.shape[0]
    unknown = np.full(n, UNKNOWN)
    graph = Graph.build(x, links, unknown, model.classes if model.classes else None)
    z, s = logits(model.network, make_inputs(graph.features, device))
    return model.with_neighbours(z, s, relations_of(graph, n, device))


def check_relations(model: Model, links: Links) -> None:
    """Raise a GraphError if links do not have the relations and directions of the training.

    Examples
    --------
    >>> model = Model(ForkedMLP(d=2, C=2, seeds=[0]), torch.ones(1), ("a", "b"))
    >>> check_relations(model, Links(np.array([[0, 1]]), directed=True))
    Traceback (most recent call last):
    linkdist.errors.GraphError: the links must be as in training: undirected, of the relation \
links; found directed links of links.
    """
    if (links.relations, links.directed) == (model.relations, model.directed):
        return
    ways = {True: "directed", False: "undirected"}
    names = ", ".join(model.relations)
    relations = f"relation{'s' * (len(model.relations) > 1)} {names}"
    raise GraphError(
        f"the links must be as in training: {ways[model.directed]}, of the {relations}; found "
        f"{ways[links.directed]} links of {', '.join(links.relations)}."
    )


def with_links(model: Model, features: FeatureMatrix, links: IntArray | Links) -> FloatArray:
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
    """Outputs z (R, n, C) and s (K, R, n, C) of all nodes, computed in pieces."""
    weight = network.first.weight
    R = weight.shape[0]
    piece = max(1, CHUNK[weight.device.type] // (R * network.hidden))
    if piece >= inputs.n:
        z, s = network(inputs)
        return z.squeeze(1), s.squeeze(2)
    nodes = torch.arange(inputs.n, device=weight.device).split(piece)
    pieces = [network(inputs, rows.expand(R, 1, -1)) for rows in nodes]
    z, s = (torch.cat(part, dim=-2).squeeze(-3) for part in zip(*pieces, strict=True))
    return z, s


@torch.no_grad()
def message_passing(
    z: Tensor,
    s: Tensor,
    neighbours: Relations | VisibleNeighbours,
    alpha: Tensor,
    form: str = "mean",
    kappa: Tensor | None = None,
    task: Task | None = None,
) -> Tensor:
    """Combine a node's own outputs with those of its neighbours.

    Parameters
    ----------
    z : (R, n, C) tensor
        Outputs of the own head.
    s : (K, R, n, C) tensor
        Outputs of the neighbour heads.
    neighbours : Relations
        The links; the form 'mean' also takes `VisibleNeighbours`.
    alpha : (R, K) tensor
        α, the weights of the neighbours.
    form : {'mean', 'sum'}
        See the start of this module.
    kappa : (R,) tensor, optional
        κ of the form 'mean'; by default 1.
    task : Task, optional
        How outputs are read; by default as classes.

    Returns
    -------
    (R, n, C) tensor
        Outputs.

    Examples
    --------
    >>> pair = relations_of(Links(np.array([[0, 1]])), 2, torch.device("cpu"))
    >>> z, s = torch.zeros(1, 2, 2), torch.tensor([[[[1.0, 0.0], [0.0, 3.0]]]])
    >>> message_passing(z, s, pair, torch.ones(1, 1), form="sum")[0]
    tensor([[0., 3.],
            [1., 0.]])
    """
    check_names("form of message passing", [form], FORMS)
    if form == "sum":
        assert isinstance(neighbours, Relations)
        return combine(z, neighbours.sums(s), alpha)
    task = task or Classification()
    return combine(
        task.natural(z), neighbours.means(task.natural(s)), alpha, kappa, neighbours.linked
    )


def combine(
    own: Tensor,
    beside: Tensor,
    alpha: Tensor,
    kappa: Tensor | None = None,
    linked: Tensor | None = None,
) -> Tensor:
    """κ · own + Σ_k α_k · beside_k, with a κ nearer to 1 for nodes that some heads do not link.

    Parameters
    ----------
    own : (R, n, C) tensor
        What a node says about itself.
    beside : (K, R, n, C) tensor
        What its neighbours say; 0 without neighbours.
    alpha : (R, K) tensor
        α.
    kappa : (R,) tensor, optional
        κ; by default 1.
    linked : (K, R, n, 1) tensor of bool, optional
        Which nodes have neighbours; by default all.

    Examples
    --------
    >>> one = torch.ones(1, 1, 2)
    >>> combine(one, one.unsqueeze(0), torch.tensor([[0.5]]), torch.tensor([2.0]))
    tensor([[[2.5000, 2.5000]]])
    """
    by = alpha.T.reshape(-1, len(alpha), 1, 1)  # (K, R, 1, 1)
    if kappa is not None:
        factor = kappa.view(-1, 1, 1)
        if linked is not None:
            share = (by * linked).sum(0) / torch.where((total := by.sum(0)) > 0, total, 1.0)
            factor = share * factor + (1 - share)
        own = factor * own
    for weight, part in zip(by, beside, strict=True):
        own = own + weight * part
    return own
