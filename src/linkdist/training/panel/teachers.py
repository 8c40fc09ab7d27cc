"""The teachers of the panel.

Each teacher learns from the labels of a view and predicts every node, over the links that it is
given:

    Linear          logistic regression on features averaged over 0, 1, 2 or many hops
    LabelSpreading  labels that spread along links
    Classifier      a scikit-learn classifier: gradient boosting on the features and their
                    neighbours' means, if there are few features; or the user's own, on the features

Only labelled nodes have a loss, so all teachers together take seconds. A teacher has one set of
parameters for each view; `log_p` applies them, over the links of the view to make targets, or over
more links to predict nodes that are not in the view.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn import functional as F

from linkdist.data.graph import UNKNOWN, FeatureMatrix, Graph, IntArray
from linkdist.data.splits import View
from linkdist.nn.aggregation import Neighbours, VisibleNeighbours
from linkdist.nn.inputs import Inputs, csr_tensor
from linkdist.training.loop import padded
from linkdist.training.panel.likelihood import logistic_regression

HOPS = (0, 1, 2, 8)
"""Numbers of hops that the linear teachers average over; the last uses personalised PageRank."""
RESTART = 0.1
"""The share of a node's own features in each step of personalised PageRank."""
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)
"""The values of scikit-learn's C, of which validation nodes choose one; rows have unit length."""
FEW_COLUMNS = 64
"""Maximum number of dense features for gradient boosting."""
SPREADING, STEPS = 0.9, 30
"""The share of a label that spreads in a step of label spreading, and the number of steps."""
STORED = {"cpu": 1 << 27, "cuda": 1 << 30}
"""Maximum number of values in averaged rows that are stored on a device."""
SMALLEST = 1e-4
"""The smallest probability of a classifier, which may predict 0."""


class TeachingContext:
    """The training data of all teachers: one graph and T views of it.

    Parameters
    ----------
    graph : Graph
        The graph; only the nodes of a view are used to train on it.
    views : sequence of View
        T views, each with its own parameters of the teachers.
    inputs : Inputs
        The graph's features on a device.
    """

    def __init__(self, graph: Graph, views: Sequence[View], inputs: Inputs) -> None:
        self.graph, self.views, self.inputs = graph, views, inputs
        self.device = inputs.device
        self.neighbours = Neighbours([graph.edges], graph.n, self.device)
        self.visible = masks([view.nodes for view in views], graph.n).to(self.device)
        self.rows = padded([view.train for view in views], self.device)  # (T, m)
        labels = [view.labels[view.train] for view in views]
        self.labels = padded(labels, self.device, UNKNOWN)  # (T, m)
        weights = graph.label_weights
        self.weights = None  # (T, m)
        if weights is not None:
            self.weights = padded([weights[view.train] for view in views], self.device, 0)

    def among(self, nodes: Sequence[IntArray]) -> VisibleNeighbours:
        """The links among some nodes: one set of nodes for each of T' predictions."""
        return VisibleNeighbours(self.neighbours, masks(nodes, self.graph.n).to(self.device))

    @cached_property
    def seen(self) -> VisibleNeighbours:
        """The links of each view."""
        return VisibleNeighbours(self.neighbours, self.visible)

    @cached_property
    def scale(self) -> Tensor:
        """Factors (n, 1) that scale sparse rows to unit length; 1 for dense rows."""
        x = self.graph.features
        if isinstance(x, np.ndarray):
            return torch.ones(1, 1, device=self.device)
        length = np.sqrt(np.asarray(x.multiply(x).sum(1)))
        inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
        return torch.from_numpy(inverse.astype(np.float32)).to(self.device)

    @cached_property
    def centre(self) -> tuple[Tensor, Tensor]:
        """Mean and scale (T, 1, d) of each view's dense columns, so that rows have unit length."""
        x, d = self.graph.features, self.graph.d
        if not isinstance(x, np.ndarray):
            return torch.zeros(1, 1, 1, device=self.device), torch.ones(1, 1, 1, device=self.device)
        parts = (x[view.nodes] for view in self.views)  # one copy at a time
        moments = [(part.mean(axis=0), part.std(axis=0)) for part in parts]
        means, deviations = map(np.stack, zip(*moments, strict=True))
        spreads = np.where(deviations > 0, deviations, 1) * np.sqrt(d)
        tensors = (torch.from_numpy(a.astype(np.float32)) for a in (means, spreads))
        mean, spread = (a.unsqueeze(1).to(self.device) for a in tensors)
        return mean, spread

    def project(self, weight: Tensor) -> Tensor:
        """X W (T', n, C) for W (T', d, C), with rows scaled by `scale`."""
        T, d, C = weight.shape
        side_by_side = weight.transpose(0, 1).reshape(1, d, T * C)  # one product for all views
        product = self.inputs.project(side_by_side)[0] * self.scale
        return product.view(-1, T, C).transpose(0, 1)


class Teacher(ABC):
    """A classifier that is trained on each view and predicts nodes over links."""

    name: str
    links = True
    """Whether its predictions depend on links."""

    @abstractmethod
    def log_p(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Log-probabilities (T', n, C) with the parameters of some views.

        Parameters
        ----------
        views : sequence of int
            The indices of the T' views whose parameters are used.
        links : VisibleNeighbours
            The links to predict with, one set of visible nodes for each view.
        """


class Linear(Teacher):
    """Logistic regression on features averaged over some hops."""

    def __init__(
        self, hops: int, strength: float, weight: Tensor, bias: Tensor, context: TeachingContext
    ) -> None:
        self.hops, self.weight, self.bias, self.context = hops, weight, bias, context
        self.links = hops > 0
        self.strength = strength
        names = {0: "features", 1: "1-hop averages", 2: "2-hop averages"}
        self.name = f"logistic regression on {names.get(hops, 'many-hop averages')}"

    def log_p(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Log-probabilities (T', n, C)."""
        index = torch.as_tensor(views, device=self.weight.device)
        z = averaged(self.context.project(self.weight[index]).contiguous(), self.hops, links)
        return (z + self.bias[index]).log_softmax(-1)


def linear_teachers(context: TeachingContext, hops: Sequence[int] = HOPS) -> list[list[Linear]]:
    """Logistic regressions: for each number of hops, one for each value of C."""
    stored = [rows for hop in hops if (rows := averaged_rows(context, hop)) is not None]
    if len(stored) == len(hops):
        fitted = _fit_stored(context, stored)
    else:
        fitted = [_fit_averaged(context, hop) for hop in hops]
    mean, spread = context.centre
    T, A, d = len(context.views), len(STRENGTHS), context.graph.d
    groups = []
    for hop, parameters in zip(hops, fitted, strict=True):
        # The fit used centred and scaled columns; predictions use the original ones.
        weight = parameters[:, :-1] / _repeated(spread, A).transpose(1, 2)
        bias = parameters[:, -1:]
        if mean.shape[2] == d:
            bias = bias - _repeated(mean, A) @ weight
        parts = zip(STRENGTHS, weight.split(T), bias.split(T), strict=True)
        groups.append([Linear(hop, c, w.contiguous(), b, context) for c, w, b in parts])
    return groups


def _fit_stored(context: TeachingContext, rows: Sequence[Tensor]) -> list[Tensor]:
    """W and b (A T, d + 1, C) for each number of hops, fitted together."""
    mean, spread = context.centre
    T, A, H = len(context.views), len(STRENGTHS), len(rows)
    x, basis = _rotated(torch.cat([(part - mean) / spread for part in rows]))  # (H T, m, k)
    strength = torch.tensor(STRENGTHS, device=x.device).repeat_interleave(H * T)
    labels, C = context.labels.repeat(A * H, 1), context.graph.C
    weights = None if context.weights is None else context.weights.repeat(A * H, 1)
    parameters = logistic_regression(_Product(x, A), labels, x.shape[2], C, strength, weights)
    parts = parameters.view(A, H, T, *parameters.shape[1:]).unbind(1)
    if basis is None:
        return [part.flatten(0, 1) for part in parts]
    return [
        torch.cat([rotation @ part[..., :-1, :], part[..., -1:, :]], dim=-2).flatten(0, 1)
        for rotation, part in zip(basis.split(T), parts, strict=True)
    ]


def _fit_averaged(context: TeachingContext, hop: int) -> Tensor:
    """W and b (A T, d + 1, C) for one number of hops, without storing averaged rows."""
    T, A = len(context.views), len(STRENGTHS)
    strength = torch.tensor(STRENGTHS, device=context.device).repeat_interleave(T)
    rows, labels = _Averaged(context, hop, A), context.labels.repeat(A, 1)
    weights = None if context.weights is None else context.weights.repeat(A, 1)
    return logistic_regression(rows, labels, context.graph.d, context.graph.C, strength, weights)


def _repeated(part: Tensor, times: int) -> Tensor:
    return part.repeat(times, 1, 1) if len(part) > 1 else part


class _Product:
    """Rows x (T, m, d) times W (A T, d, C), with one product for all A."""

    def __init__(self, x: Tensor, A: int) -> None:
        self.x, self.A = x, A

    def __call__(self, weight: Tensor) -> Tensor:
        _, d, C = weight.shape
        T, A = len(self.x), self.A
        side_by_side = weight.view(A, T, d, C).permute(1, 2, 0, 3).reshape(T, d, A * C)
        z = (self.x @ side_by_side).view(T, -1, A, C)
        return z.permute(2, 0, 1, 3).reshape(A * T, -1, C)


class _Averaged:
    """Averaged rows times W (A T, d, C), without storing the rows of each view."""

    def __init__(self, context: TeachingContext, hop: int, A: int) -> None:
        mean, spread = context.centre
        self.context, self.hop = context, hop
        self.mean, self.spread = _repeated(mean, A), _repeated(spread, A).transpose(1, 2)
        self.rows = context.rows.repeat(A, 1).unsqueeze(-1)
        self.whole = whole_averaged(context, hop)
        if self.whole is None:
            self.links = VisibleNeighbours(context.neighbours, context.visible.repeat(A, 1))

    def __call__(self, weight: Tensor) -> Tensor:
        T, d, C = weight.shape
        raw = weight / self.spread
        if self.whole is not None:
            side_by_side = raw.transpose(0, 1).reshape(d, T * C)
            z = (self.whole @ side_by_side).view(-1, T, C).transpose(0, 1)
        else:
            z = averaged(self.context.project(raw).contiguous(), self.hop, self.links)
        if self.mean.shape[2] == d:
            z = z - self.mean @ raw
        return z.gather(1, self.rows.expand(-1, -1, C))


def whole_averaged(context: TeachingContext, hop: int) -> Tensor | None:
    """X averaged over hops (n, d), on a GPU if all views see the same nodes; otherwise None."""
    n, d = context.inputs.n, context.inputs.d
    shared = bool((context.visible == context.visible[:1]).all())
    if context.device.type != "cuda" or not shared or n * d > STORED["cuda"]:
        return None
    whole = _dense(context.graph.features, context.device) * context.scale
    links = VisibleNeighbours(context.neighbours, context.visible[:1])
    return averaged(whole.unsqueeze(0), hop, links).squeeze(0)


def averaged(x: Tensor, hops: int, links: VisibleNeighbours) -> Tensor:
    """Features (T, n, f) averaged over hops; over many hops by personalised PageRank.

    Examples
    --------
    >>> pair = Neighbours([np.array([[0, 1], [1, 0]])], 2, torch.device("cpu"))
    >>> both = VisibleNeighbours(pair, torch.ones(1, 2, dtype=torch.bool))
    >>> averaged(torch.tensor([[[0.0], [2.0]]]), 1, both).flatten()
    tensor([1., 1.])
    """
    return _propagated(x, hops, links.smooth)


def _propagated(x: Tensor, hops: int, smooth: Callable[[Tensor], Tensor]) -> Tensor:
    y = x
    for _ in range(hops):
        y = smooth(y) if hops <= 2 else (1 - RESTART) * smooth(y) + RESTART * x
    return y


def averaged_rows(context: TeachingContext, hop: int) -> Tensor | None:
    """The labelled rows (T, m, d) averaged over hops; None if they are too large."""
    T, m = context.rows.shape
    x, n = context.graph.features, context.graph.n
    if isinstance(x, np.ndarray) and x.shape[1] <= m:
        if T * n * x.shape[1] > STORED[context.device.type]:
            return None
        columns = torch.from_numpy(x).to(context.device).expand(T, -1, -1).contiguous()
        index = context.rows.unsqueeze(-1).expand(-1, -1, x.shape[1])
        return averaged(columns, hop, context.seen).gather(1, index)
    if T * n * m > STORED[context.device.type]:
        return None
    # With fewer rows than columns it is faster to average the selection of rows.
    reads = torch.zeros(T, n, m, device=context.device)
    reads.scatter_(1, context.rows.unsqueeze(1), 1.0)
    reads = _propagated(reads, hop, context.seen.smooth_transposed) * context.scale
    flat = reads.transpose(1, 2).reshape(T * m, n)
    if context.device.type != "cpu" or isinstance(x, np.ndarray):
        return flat.matmul(_dense(x, context.device)).view(T, m, -1)
    rows = np.ascontiguousarray((x.T @ flat.numpy().T).T)
    return torch.from_numpy(rows).view(T, m, -1)


def _dense(x: FeatureMatrix, device: torch.device) -> Tensor:
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x).to(device)
    return csr_tensor(x, device).to_dense()


def _rotated(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Rows (T, m, d) rotated into m columns, and the inverse rotation (T, d, m).

    A rotation changes neither products nor lengths, so the regression is the same. A GPU is faster
    without it.
    """
    if x.is_cuda or x.shape[1] >= x.shape[2]:
        return x, None
    basis, rest = torch.linalg.qr(x.transpose(1, 2))
    return rest.transpose(1, 2).contiguous(), basis


class LabelSpreading(Teacher):
    """Labels that spread along links: f ← a · (neighbours' mean of f) + (1 - a) · y."""

    name = "label spreading"

    def __init__(self, context: TeachingContext) -> None:
        labels = torch.from_numpy(np.stack([view.labels for view in context.views]))
        one_hot = F.one_hot(labels.clamp(min=0), context.graph.C) * (labels >= 0).unsqueeze(-1)
        self.known = one_hot.float().to(context.device)  # (T, n, C)
        if context.graph.label_weights is not None:
            weights = torch.from_numpy(context.graph.label_weights).to(context.device)
            self.known = self.known * weights.unsqueeze(-1)
        counts = self.known.sum(1, keepdim=True)
        self.prior = counts / counts.sum(-1, keepdim=True)

    def log_p(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Log-probabilities (T', n, C); the classes' shares for nodes that no label reaches."""
        known = flow = self.known[list(views)]
        for _ in range(STEPS):
            flow = SPREADING * links.mean(flow) + (1 - SPREADING) * known
        flow = flow + 1e-3 * self.prior[list(views)]
        return (flow / flow.sum(-1, keepdim=True)).log()


class Classifier(Teacher):
    """A scikit-learn classifier on features and, optionally, their means over one and two hops."""

    def __init__(self, context: TeachingContext, template: Any, name: str, hops: int = 0) -> None:  # noqa: ANN401
        self.context, self.hops, self.name, self.links = context, hops, name, hops > 0
        self.fitted = []
        for columns, view in zip(self._columns(context.seen), context.views, strict=True):
            labels = view.labels[view.train]
            # Most classifiers need two classes, and some return two columns for one class.
            classifier = clone(template) if len(np.unique(labels)) > 1 else DummyClassifier()
            weights = context.graph.label_weights
            options = {}
            if weights is not None and has_fit_parameter(classifier, "sample_weight"):
                options["sample_weight"] = weights[view.train]
            with threadpool_limits(1):  # threads do not pay off on few rows
                self.fitted.append(classifier.fit(columns[view.train], labels, **options))

    def _columns(self, links: VisibleNeighbours) -> Sequence[FeatureMatrix]:
        x, T = self.context.graph.features, len(links.visible)
        if not self.hops:
            return [x] * T
        device = self.context.device
        parts = [torch.from_numpy(np.asarray(x)).to(device).expand(T, -1, -1).contiguous()]
        for _ in range(self.hops):
            parts.append(links.mean(parts[-1]))
        return list(torch.cat(parts, dim=-1).cpu().numpy())

    def log_p(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Log-probabilities (T', n, C)."""
        log_p = []
        for view, columns in zip(views, self._columns(links), strict=True):
            p = np.full((columns.shape[0], self.context.graph.C), SMALLEST)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the user's own classifier
                p[:, self.fitted[view].classes_] += self.fitted[view].predict_proba(columns)
            log_p.append(np.log(p / p.sum(axis=1, keepdims=True)))
        return torch.from_numpy(np.stack(log_p).astype(np.float32)).to(self.context.device)


def boosting_teachers(context: TeachingContext, linked: bool = True) -> list[Classifier]:
    """Gradient boosting on the features, and on the features with their neighbours' means."""
    template = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_leaf_nodes=15,
        min_samples_leaf=5,
        early_stopping=False,
        random_state=0,
    )
    alone = Classifier(context, template, "gradient boosting on features")
    if not linked:
        return [alone]
    return [alone, Classifier(context, template, "gradient boosting on 2-hop averages", hops=2)]


def masks(nodes: Sequence[IntArray], n: int) -> Tensor:
    """Sets of nodes as an (R, n) tensor of bool.

    Examples
    --------
    >>> masks([np.array([0, 2])], 3)
    tensor([[ True, False,  True]])
    """
    mask = np.zeros((len(nodes), n), dtype=bool)
    for row, indices in zip(mask, nodes, strict=True):
        row[indices] = True
    return torch.from_numpy(mask)


def has_few_columns(x: FeatureMatrix) -> bool:
    """Whether gradient boosting can use the features: they are few and dense.

    Examples
    --------
    >>> has_few_columns(np.ones((3, 2))), has_few_columns(np.ones((3, 100)))
    (True, False)
    """
    return isinstance(x, np.ndarray) and x.shape[1] <= FEW_COLUMNS
