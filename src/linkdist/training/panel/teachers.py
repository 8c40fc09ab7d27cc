"""The teachers of the panel.

Each teacher learns from the labels of a view and predicts every node, over whatever links it is
given:

    Linear          logistic regression on features averaged over 0, 1, 2 or many hops
    LabelSpreading  labels that flow along links
    Classifier      a scikit-learn classifier: gradient boosting on the columns and their
                    neighbours' means, where columns are few; or the user's own, on the features

Only labelled nodes have a loss, so that all of them cost seconds. A teacher holds one
set of parameters for each view; `log_p` applies them, under a view's own links to make targets, or
under more links to predict nodes that the view does not have.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn import functional as F

from linkdist.data.graph import FeatureMatrix, Graph, IntArray
from linkdist.data.splits import View
from linkdist.nn.aggregation import Neighbours, VisibleNeighbours
from linkdist.nn.inputs import Inputs, csr_tensor
from linkdist.training.panel.logistic import logistic_regression

HOPS = (0, 1, 2, 8)
"""Over how many hops the linear teachers average; the last as personalised PageRank does."""
RESTART = 0.1
"""The share of a node's own features in each step of personalised PageRank."""
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)
"""The values of scikit-learn's C among which the judges choose, for rows of unit length."""
FEW_COLUMNS = 64
"""Up to so many dense features, gradient boosting is a teacher."""
SPREADING, STEPS = 0.9, 30
"""How much of a label flows on in a step of label spreading, and the number of steps."""
WRITTEN = {"cpu": 1 << 27, "cuda": 1 << 30}
"""Numbers that averaged rows may take on a device; above that they are not written down."""
SMALLEST = 1e-4
"""The smallest probability of a teacher that may say 0."""


class Lesson:
    """What all teachers learn from: one graph, T views of it.

    Parameters
    ----------
    graph : Graph
        Whose features are read where a view has the node.
    views : sequence of View
        What each of T trainings may see.
    inputs : Inputs
        The graph's features on a device.
    """

    def __init__(self, graph: Graph, views: Sequence[View], inputs: Inputs) -> None:
        self.graph, self.views, self.inputs = graph, views, inputs
        self.device = inputs.device
        self.neighbours = Neighbours([graph.edges], graph.n, self.device)
        self.visible = masks([view.nodes for view in views], graph.n).to(self.device)
        width = max(len(view.train) for view in views)
        rows = [np.pad(view.train, (0, width - len(view.train))) for view in views]
        self.rows = torch.from_numpy(np.stack(rows)).to(self.device)  # (T, m)
        labels = [
            np.pad(view.labels[view.train], (0, width - len(view.train)), constant_values=-1)
            for view in views
        ]
        self.labels = torch.from_numpy(np.stack(labels)).to(self.device)  # (T, m)

    def around(self, visible: Tensor) -> VisibleNeighbours:
        """The links among the nodes that are visible, (T', n)."""
        return VisibleNeighbours(self.neighbours, visible)

    @cached_property
    def seen(self) -> VisibleNeighbours:
        """The links of each view."""
        return self.around(self.visible)

    @cached_property
    def scale(self) -> Tensor:
        """Factors (n, 1) that give sparse rows unit length; 1 for dense ones."""
        x = self.graph.features
        if isinstance(x, np.ndarray):
            return torch.ones(1, 1, device=self.device)
        length = np.sqrt(np.asarray(x.multiply(x).sum(1)))
        inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
        return torch.from_numpy(inverse.astype(np.float32)).to(self.device)

    @cached_property
    def centre(self) -> tuple[Tensor, Tensor]:
        """Mean and spread (T, 1, d) of each view's dense columns, so that rows have unit length."""
        x, d = self.graph.features, self.graph.d
        if not isinstance(x, np.ndarray):
            return torch.zeros(1, 1, 1, device=self.device), torch.ones(1, 1, 1, device=self.device)
        means, spreads = [], []
        for view in self.views:
            part = x[view.nodes]
            means.append(part.mean(axis=0))
            spreads.append(np.where(part.std(axis=0) > 0, part.std(axis=0), 1) * np.sqrt(d))
        both = (torch.from_numpy(np.stack(a).astype(np.float32)) for a in (means, spreads))
        mean, spread = (a.unsqueeze(1).to(self.device) for a in both)
        return mean, spread

    def project(self, weight: Tensor) -> Tensor:
        """X W (T', n, C) of rows of unit length, for W (T', d, C)."""
        T, d, C = weight.shape
        beside = weight.transpose(0, 1).reshape(1, d, T * C)  # X is read once for all of them
        product = self.inputs.project(beside)[0] * self.scale
        return product.view(-1, T, C).transpose(0, 1)


class Teacher(ABC):
    """Learns from a lesson's views, and predicts nodes over links."""

    name: str
    links = True
    """Whether its predictions depend on links."""

    @abstractmethod
    def log_p(self, of: Sequence[int], around: VisibleNeighbours) -> Tensor:
        """Log-probabilities (T', n, C) by the parameters of some views over some links.

        Parameters
        ----------
        of : sequence of int
            The T' views whose parameters are used.
        around : VisibleNeighbours
            The links to predict with, one set of visible nodes for each.
        """


class Linear(Teacher):
    """Logistic regression on features averaged over some hops."""

    def __init__(
        self, hops: int, strength: float, weight: Tensor, bias: Tensor, of: Lesson
    ) -> None:
        self.hops, self.weight, self.bias, self.lesson = hops, weight, bias, of
        self.links = hops > 0
        self.strength = strength
        self.name = f"logistic regression on {_hops(hops)}"

    def log_p(self, of: Sequence[int], around: VisibleNeighbours) -> Tensor:
        """Log-probabilities (T', n, C)."""
        at = torch.as_tensor(of, device=self.weight.device)
        z = averaged(self.lesson.project(self.weight[at]).contiguous(), self.hops, around)
        return (z + self.bias[at]).log_softmax(-1)


def linear_teachers(lesson: Lesson, hops: Sequence[int] = HOPS) -> list[list[Linear]]:
    """Logistic regressions, for each number of hops one of each strength."""
    rows = [averaged_rows(lesson, hop) for hop in hops]
    written = [part for part in rows if part is not None]
    if len(written) == len(hops):
        fitted = _fit_written(lesson, written)
    else:
        fitted = [_fit_averaged(lesson, hop) for hop in hops]
    mean, spread = lesson.centre
    T, A, d = len(lesson.views), len(STRENGTHS), lesson.graph.d
    found = []
    for hop, both in zip(hops, fitted, strict=True):
        # What was centred and scaled for the fit is read as it is afterwards.
        raw = both[:, :-1] / _each(spread, A).transpose(1, 2)
        bias = both[:, -1:] - _each(mean, A) @ raw if mean.shape[2] == d else both[:, -1:]
        pairs = zip(STRENGTHS, raw.split(T), bias.split(T), strict=True)
        found.append([Linear(hop, c, w.contiguous(), b, lesson) for c, w, b in pairs])
    return found


def _fit_written(lesson: Lesson, rows: Sequence[Tensor]) -> list[Tensor]:
    """W and b (A T, d + 1, C) for each number of hops, all of them at once."""
    mean, spread = lesson.centre
    T, A, H = len(lesson.views), len(STRENGTHS), len(rows)
    x, back = _shorter(torch.cat([(part - mean) / spread for part in rows]))  # (H T, m, k)
    strength = torch.tensor(STRENGTHS, device=x.device).repeat_interleave(H * T)
    labels = lesson.labels.repeat(A * H, 1)
    both = logistic_regression(_Times(x, A), labels, x.shape[2], lesson.graph.C, strength)
    parts = both.view(A, H, T, *both.shape[1:]).unbind(1)
    if back is None:
        return [part.flatten(0, 1) for part in parts]
    return [
        torch.cat([way @ part[..., :-1, :], part[..., -1:, :]], dim=-2).flatten(0, 1)
        for way, part in zip(back.split(T), parts, strict=True)
    ]


def _fit_averaged(lesson: Lesson, hop: int) -> Tensor:
    """W and b (A T, d + 1, C) for one number of hops, without writing rows down."""
    T, A = len(lesson.views), len(STRENGTHS)
    strength = torch.tensor(STRENGTHS, device=lesson.device).repeat_interleave(T)
    rows, labels = _Averaged(lesson, hop, A), lesson.labels.repeat(A, 1)
    return logistic_regression(rows, labels, lesson.graph.d, lesson.graph.C, strength)


def _each(part: Tensor, times: int) -> Tensor:
    return part.repeat(times, 1, 1) if len(part) > 1 else part


class _Times:
    """Rows x (T, m, d) times W (A T, d, C), each row read once for all A."""

    def __init__(self, x: Tensor, A: int) -> None:
        self.x, self.A = x, A

    def __call__(self, weight: Tensor) -> Tensor:
        _, d, C = weight.shape
        T, A = len(self.x), self.A
        beside = weight.view(A, T, d, C).permute(1, 2, 0, 3).reshape(T, d, A * C)
        z = (self.x @ beside).view(T, -1, A, C)
        return z.permute(2, 0, 1, 3).reshape(A * T, -1, C)


class _Averaged:
    """Averaged rows times W (A T, d, C), without writing the rows of each view down."""

    def __init__(self, lesson: Lesson, hop: int, A: int) -> None:
        mean, spread = lesson.centre
        self.lesson, self.hop = lesson, hop
        self.mean, self.spread = _each(mean, A), _each(spread, A).transpose(1, 2)
        self.rows = lesson.rows.repeat(A, 1).unsqueeze(-1)
        self.whole = whole_averaged(lesson, hop)
        if self.whole is None:
            self.around = lesson.around(lesson.visible.repeat(A, 1))

    def __call__(self, weight: Tensor) -> Tensor:
        T, d, C = weight.shape
        raw = weight / self.spread
        if self.whole is not None:
            beside = raw.transpose(0, 1).reshape(d, T * C)
            z = (self.whole @ beside).view(-1, T, C).transpose(0, 1)
        else:
            z = averaged(self.lesson.project(raw).contiguous(), self.hop, self.around)
        if self.mean.shape[2] == d:
            z = z - self.mean @ raw
        return z.gather(1, self.rows.expand(-1, -1, C))


def whole_averaged(lesson: Lesson, hop: int) -> Tensor | None:
    """X averaged over hops (n, d), on a GPU where all views see the same nodes; else None."""
    n, d = lesson.inputs.n, lesson.inputs.d
    shared = bool((lesson.visible == lesson.visible[:1]).all())
    if lesson.device.type != "cuda" or not shared or n * d > WRITTEN["cuda"]:
        return None
    whole = _dense(lesson.graph.features, lesson.device) * lesson.scale
    return averaged(whole.unsqueeze(0), hop, lesson.around(lesson.visible[:1])).squeeze(0)


def averaged(x: Tensor, hops: int, around: VisibleNeighbours) -> Tensor:
    """Features (T, n, f) averaged over hops; over many as personalised PageRank does.

    Examples
    --------
    >>> pair = Neighbours([np.array([[0, 1], [1, 0]])], 2, torch.device("cpu"))
    >>> both = VisibleNeighbours(pair, torch.ones(1, 2, dtype=torch.bool))
    >>> averaged(torch.tensor([[[0.0], [2.0]]]), 1, both).flatten()
    tensor([1., 1.])
    """
    y = x
    for _ in range(hops):
        y = around.smooth(y) if hops <= 2 else (1 - RESTART) * around.smooth(y) + RESTART * x
    return y


def averaged_rows(lesson: Lesson, hop: int) -> Tensor | None:
    """The labelled rows (T, m, d) averaged over hops; None where they would be too large."""
    T, m = lesson.rows.shape
    x, n = lesson.graph.features, lesson.graph.n
    if isinstance(x, np.ndarray) and x.shape[1] <= m:
        if T * n * x.shape[1] > WRITTEN[lesson.device.type]:
            return None
        columns = torch.from_numpy(x).to(lesson.device).expand(T, -1, -1).contiguous()
        at = lesson.rows.unsqueeze(-1).expand(-1, -1, x.shape[1])
        return averaged(columns, hop, lesson.seen).gather(1, at)
    if T * n * m > WRITTEN[lesson.device.type]:
        return None
    # Fewer rows than columns: average who is read, not what is read.
    reads = torch.zeros(T, n, m, device=lesson.device)
    reads.scatter_(1, lesson.rows.unsqueeze(1), 1.0)
    return _read(lesson, _averaged_reads(reads, hop, lesson.seen))


def _averaged_reads(reads: Tensor, hops: int, around: VisibleNeighbours) -> Tensor:
    y = reads
    for _ in range(hops):
        step = around.smooth_transposed(y)
        y = step if hops <= 2 else (1 - RESTART) * step + RESTART * reads
    return y


def _read(lesson: Lesson, reads: Tensor) -> Tensor:
    """Rows (T, m, d) that reads (T, n, m) take from X."""
    reads = reads * lesson.scale
    T, n, m = reads.shape
    x = lesson.graph.features
    if lesson.device.type != "cpu" or isinstance(x, np.ndarray):
        whole = _dense(x, lesson.device)
        return reads.transpose(1, 2).reshape(T * m, n).matmul(whole).view(T, m, -1)
    beside = reads.transpose(1, 2).reshape(T * m, n).numpy()
    return torch.from_numpy(np.ascontiguousarray((x.T @ beside.T).T)).view(T, m, -1)


def _dense(x: FeatureMatrix, device: torch.device) -> Tensor:
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x).to(device)
    return csr_tensor(x, device).to_dense()


def _shorter(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Rows (T, m, d) in as few columns as there are rows, and the way back (T, d, m).

    A rotation changes neither products nor lengths, so the regression stays the same. A GPU is
    faster with the rows as they are.
    """
    if x.is_cuda or x.shape[1] >= x.shape[2]:
        return x, None
    basis, rest = torch.linalg.qr(x.transpose(1, 2))
    return rest.transpose(1, 2).contiguous(), basis


def _hops(hops: int) -> str:
    names = {0: "features", 1: "1-hop averages", 2: "2-hop averages"}
    return names.get(hops, "many-hop averages")


class LabelSpreading(Teacher):
    """Labels that flow along links: f ← a · (neighbours' mean of f) + (1 - a) · y."""

    name = "label spreading"

    def __init__(self, lesson: Lesson) -> None:
        labels = torch.from_numpy(np.stack([view.labels for view in lesson.views]))
        one_hot = F.one_hot(labels.clamp(min=0), lesson.graph.C) * (labels >= 0).unsqueeze(-1)
        self.known = one_hot.float().to(lesson.device)  # (T, n, C)
        shares = self.known.sum(1, keepdim=True)
        self.prior = shares / shares.sum(-1, keepdim=True)

    def log_p(self, of: Sequence[int], around: VisibleNeighbours) -> Tensor:
        """Log-probabilities (T', n, C); the classes' shares where no label arrives."""
        at = list(of)
        known = self.known[at]
        flow = known
        for _ in range(STEPS):
            flow = SPREADING * around.mean(flow) + (1 - SPREADING) * known
        flow = flow + 1e-3 * self.prior[at]
        return (flow / flow.sum(-1, keepdim=True)).log()


class Classifier(Teacher):
    """A scikit-learn classifier on features and, where asked, the means of one and two hops."""

    def __init__(self, lesson: Lesson, template: Any, name: str, hops: int = 0) -> None:  # noqa: ANN401
        self.lesson, self.hops, self.name, self.links = lesson, hops, name, hops > 0
        columns = self._columns(lesson.seen)
        self.fitted = []
        for columns_of, view in zip(columns, lesson.views, strict=True):
            labels = view.labels[view.train]
            # Most classifiers refuse labels of one class, and some answer with two columns.
            fresh = clone(template) if len(np.unique(labels)) > 1 else DummyClassifier()
            with threadpool_limits(1):  # on so few rows threads wait for each other
                self.fitted.append(fresh.fit(columns_of[view.train], labels))

    def _columns(self, around: VisibleNeighbours) -> Sequence[FeatureMatrix]:
        x, T = self.lesson.graph.features, len(around.visible)
        if not self.hops:
            return [x] * T
        device = self.lesson.device
        parts = [torch.from_numpy(np.asarray(x)).to(device).expand(T, -1, -1).contiguous()]
        for _ in range(self.hops):
            parts.append(around.mean(parts[-1]))
        return list(torch.cat(parts, dim=-1).cpu().numpy())

    def log_p(self, of: Sequence[int], around: VisibleNeighbours) -> Tensor:
        """Log-probabilities (T', n, C)."""
        C = self.lesson.graph.C
        found = []
        for view, columns in zip(of, self._columns(around), strict=True):
            p = np.full((columns.shape[0], C), SMALLEST)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a user's classifier speaks to its owner
                p[:, self.fitted[view].classes_] += self.fitted[view].predict_proba(columns)
            found.append(np.log(p / p.sum(axis=1, keepdims=True)))
        return torch.from_numpy(np.stack(found).astype(np.float32)).to(self.lesson.device)


def boosting_teachers(lesson: Lesson, linked: bool = True) -> list[Classifier]:
    """Gradient boosting on the columns, and on them beside their neighbours' means."""
    template = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_leaf_nodes=15,
        min_samples_leaf=5,
        early_stopping=False,
        random_state=0,
    )
    alone = Classifier(lesson, template, "gradient boosting on features")
    if not linked:
        return [alone]
    return [alone, Classifier(lesson, template, "gradient boosting on 2-hop averages", hops=2)]


def masks(nodes: Sequence[IntArray], n: int) -> Tensor:
    """Sets of nodes as an (R, n) tensor of bool.

    Examples
    --------
    >>> masks([np.array([0, 2])], 3)
    tensor([[ True, False,  True]])
    """
    found = np.zeros((len(nodes), n), dtype=bool)
    for row, some in zip(found, nodes, strict=True):
        row[some] = True
    return torch.from_numpy(found)


def has_few_columns(x: FeatureMatrix) -> bool:
    """Whether trees can read the features: few, and dense.

    Examples
    --------
    >>> has_few_columns(np.ones((3, 2))), has_few_columns(np.ones((3, 100)))
    (True, False)
    """
    return isinstance(x, np.ndarray) and x.shape[1] <= FEW_COLUMNS
