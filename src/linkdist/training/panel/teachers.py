"""The teachers of the panel.

Each teacher learns from the labels of a view and predicts every node, over the links that it is
given:

    Linear          logistic regression on features averaged over 0, 1, 2 or many hops; for numbers,
                    ridge regression
    Relational      the same on the features beside their means over the neighbours of each head
    LabelSpreading  labels that spread along links
    Estimator       a scikit-learn estimator: gradient boosting on the features and their
                    neighbours' means, if there are few features; or the user's own, on the features

Only labelled nodes have a loss, so all teachers together take seconds. A teacher has one set of
parameters for each view; `scores` applies them, over the links of the view to make targets, or over
more links to predict nodes that are not in the view.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import FeatureMatrix, FloatArray, Graph, IntArray, Labels
from linkdist.data.splits import View
from linkdist.nn.aggregation import VisibleNeighbours, relations_of
from linkdist.nn.inputs import Inputs, csr_tensor
from linkdist.nn.tasks import task_named
from linkdist.training.loop import padded
from linkdist.training.panel.families import family_of
from linkdist.training.panel.likelihood import fit_linear
from linkdist.training.panel.ridge import fit_ridge

HOPS = (0, 1, 2, 8)
"""Numbers of hops that the linear teachers average over; the last uses personalised PageRank."""
RESTART = 0.1
"""The share of a node's own features in each step of personalised PageRank."""
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)
"""The values of scikit-learn's C, of which validation nodes choose one; rows have unit length."""
RIDGE_STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""The same for ridge regressions, which are cheap: a closed form solves them."""
LINEAR = {
    "classification": "logistic regression",
    "multilabel": "logistic regression",
    "regression": "ridge regression",
}
STORED = {"cpu": 1 << 27, "cuda": 1 << 30}
"""Maximum number of values in averaged rows that are stored on a device."""


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
    loss : {'squared', 'absolute'}, optional
        The error that a regression minimises.
    """

    def __init__(
        self, graph: Graph, views: Sequence[View], inputs: Inputs, loss: str = "squared"
    ) -> None:
        self.graph, self.views, self.inputs, self.error = graph, views, inputs, loss
        self.device = inputs.device
        self.task, self.family = task_named(graph.task, loss), family_of(graph.task, loss)
        self.neighbours = relations_of(_scaled(graph), graph.n, self.device)
        self.visible = masks([view.nodes for view in views], graph.n).to(self.device)
        self.rows = padded([view.train for view in views], self.device)  # (T, m)
        targets = [self.targets(view.labels[view.train]) for view in views]
        self.values = padded(targets, self.device)  # (T, m, C)
        weights = np.ones(graph.n, np.float32)
        if graph.label_weights is not None:
            weights = graph.label_weights
        known = padded([weights[view.train] for view in views], self.device)
        self.known = known.unsqueeze(-1)  # (T, m, 1): 0 in the padding
        self.strengths: Tensor | None = None  # (T, K), if there are several relations
        self.penalties = RIDGE_STRENGTHS if graph.task == "regression" else STRENGTHS

    def targets(self, labels: Labels) -> FloatArray:
        """Known labels as targets (N, C)."""
        return self.family.targets(labels, self.graph.C).astype(np.float32)

    def among(self, nodes: Sequence[IntArray], views: Sequence[int]) -> VisibleNeighbours:
        """The links among some nodes: one set of nodes for each of T' predictions by a view."""
        strengths = None if self.strengths is None else self.strengths[list(views)]
        visible = masks(nodes, self.graph.n).to(self.device)
        return VisibleNeighbours(self.neighbours, visible, strengths)

    @property
    def seen(self) -> VisibleNeighbours:
        """The links of each view."""
        return VisibleNeighbours(self.neighbours, self.visible, self.strengths)

    @cached_property
    def scale(self) -> Tensor:
        """Factors (n, 1) that scale sparse rows to unit length; 1 for dense rows.

        Numbers can depend on how much a row has, so that a regression only scales the mean length.
        """
        x = self.graph.features
        if isinstance(x, np.ndarray):
            return torch.ones(1, 1, device=self.device)
        length = np.sqrt(np.asarray(x.multiply(x).sum(1)))
        if self.graph.task == "regression":
            length = np.full_like(length, length.mean())
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


def _scaled(graph: Graph) -> Graph:
    """The same graph with link weights of mean 1: a node weighs 1 in its own average."""
    if graph.link_weights is None or not len(graph.links):
        return graph
    return replace(graph, link_weights=graph.link_weights / graph.link_weights.mean())


class Teacher(ABC):
    """A model that is trained on each view and predicts nodes over links."""

    name: str

    @abstractmethod
    def scores(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Scores (T', n, C) with the parameters of some views: log-probabilities, odds or numbers.

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
        self.strength = strength
        names = {0: "features", 1: "1-hop averages", 2: "2-hop averages"}
        kind = LINEAR[context.graph.task]
        self.name = f"{kind} on {names.get(hops, 'many-hop averages')}"

    def scores(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Scores (T', n, C)."""
        index = torch.as_tensor(views, device=self.weight.device)
        z = averaged(self.context.project(self.weight[index]).contiguous(), self.hops, links)
        return self.context.task.natural(z + self.bias[index])


def linear_teachers(context: TeachingContext, hops: Sequence[int] = HOPS) -> list[list[Linear]]:
    """Linear models: for each number of hops, one for each value of C."""
    stored = [rows for hop in hops if (rows := averaged_rows(context, hop)) is not None]
    if len(stored) == len(hops):
        fitted = _fit_stored(context, stored)
    else:
        fitted = [_fit_averaged(context, hop) for hop in hops]
    groups = []
    for hop, parameters in zip(hops, fitted, strict=True):
        parts = unscaled(context, parameters)
        groups.append([Linear(hop, c, w, b, context) for c, w, b in zip(*parts, strict=True)])
    return groups


def unscaled(
    context: TeachingContext,
    parameters: Tensor,
    centre: tuple[Tensor, Tensor] | None = None,
) -> tuple[Sequence[float], Sequence[Tensor], Sequence[Tensor]]:
    """Each C with its W and b for the original columns, from those of a fit (A T, d + 1, C).

    The fit used centred and scaled columns, by `context.centre` or another mean and scale.
    """
    mean, spread = context.centre if centre is None else centre
    T, A = len(context.views), len(context.penalties)
    weight = parameters[:, :-1] / _repeated(spread, A).transpose(1, 2)
    bias = parameters[:, -1:]
    if mean.shape[2] == weight.shape[1]:
        bias = bias - _repeated(mean, A) @ weight
    return context.penalties, [part.contiguous() for part in weight.split(T)], bias.split(T)


def _fit_stored(context: TeachingContext, rows: Sequence[Tensor]) -> list[Tensor]:
    """W and b (A T, d + 1, C) for each number of hops, fitted together."""
    mean, spread = context.centre
    T, A, H = len(context.views), len(context.penalties), len(rows)
    x = torch.cat([(part - mean) / spread for part in rows])  # (H T, m, d)
    parameters = fit_rows(context, x, H).view(A, H, T, x.shape[2] + 1, -1)
    return [part.flatten(0, 1) for part in parameters.unbind(1)]


def fit_rows(context: TeachingContext, rows: Tensor, H: int) -> Tensor:
    """W and b (A H T, d + 1, C) for rows (H T, m, d), fitted together."""
    A = len(context.penalties)
    if context.graph.task == "regression":
        values, known = (part.repeat(H, 1, 1) for part in (context.values, context.known))
        return fit_ridge(rows, values, known, context.penalties)
    x, basis = _rotated(rows)  # (H T, m, k)
    strength = torch.tensor(context.penalties, device=x.device).repeat_interleave(len(rows))
    values, known = (part.repeat(A * H, 1, 1) for part in (context.values, context.known))
    task = context.graph.task
    parameters = fit_linear(_Product(x, A), values, known, x.shape[2], strength, task)
    if basis is None:
        return parameters
    parts = parameters.view(A, H, -1, *parameters.shape[1:]).unbind(1)  # each (A, T, k + 1, C)
    back = [
        torch.cat([rotation @ part[..., :-1, :], part[..., -1:, :]], dim=-2)
        for rotation, part in zip(basis.chunk(H), parts, strict=True)
    ]
    return torch.stack(back, dim=1).flatten(0, 2)


def _fit_averaged(context: TeachingContext, hop: int) -> Tensor:
    """W and b (A T, d + 1, C) for one number of hops, without storing averaged rows."""
    T, A = len(context.views), len(context.penalties)
    strength = torch.tensor(context.penalties, device=context.device).repeat_interleave(T)
    values, known = (part.repeat(A, 1, 1) for part in (context.values, context.known))
    rows, graph = _Averaged(context, hop, A), context.graph
    return fit_linear(rows, values, known, graph.d, strength, graph.task)


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
            strengths = None if context.strengths is None else context.strengths.repeat(A, 1)
            visible = context.visible.repeat(A, 1)
            self.links = VisibleNeighbours(context.neighbours, visible, strengths)

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
    shared = bool((context.visible == context.visible[:1]).all()) and context.strengths is None
    if context.device.type != "cuda" or not shared or n * d > STORED["cuda"]:
        return None
    whole = _dense(context.graph.features, context.device) * context.scale
    links = VisibleNeighbours(context.neighbours, context.visible[:1])
    return averaged(whole.unsqueeze(0), hop, links).squeeze(0)


def averaged(x: Tensor, hops: int, links: VisibleNeighbours) -> Tensor:
    """Features (T, n, f) averaged over hops; over many hops by personalised PageRank.

    Examples
    --------
    >>> from linkdist.data.links import Links
    >>> pair = relations_of(Links(np.array([[0, 1]])), 2, torch.device("cpu"))
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
    links = context.seen
    return linear_map_of_rows(
        context,
        lambda x: averaged(x, hop, links),
        lambda x: _propagated(x, hop, links.smooth_transposed),
    )


def linear_map_of_rows(
    context: TeachingContext,
    forth: Callable[[Tensor], Tensor],
    back: Callable[[Tensor], Tensor],
) -> Tensor | None:
    """The labelled rows (T, m, d) of P x, from P and its transpose; None if they are too large."""
    T, m = context.rows.shape
    x, n = context.graph.features, context.graph.n
    if isinstance(x, np.ndarray) and x.shape[1] <= m:
        if T * n * x.shape[1] > STORED[context.device.type]:
            return None
        columns = torch.from_numpy(x).to(context.device).expand(T, -1, -1).contiguous()
        index = context.rows.unsqueeze(-1).expand(-1, -1, x.shape[1])
        return forth(columns).gather(1, index)
    if T * n * m > STORED[context.device.type]:
        return None
    # With fewer rows than columns it is faster to average the selection of rows.
    reads = torch.zeros(T, n, m, device=context.device)
    reads.scatter_(1, context.rows.unsqueeze(1), 1.0)
    reads = back(reads) * context.scale
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
