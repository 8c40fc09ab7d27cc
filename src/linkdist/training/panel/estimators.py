"""Teachers that do not fit weights by gradients: label spreading and scikit-learn estimators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits
from torch import Tensor

from linkdist.data.graph import FeatureMatrix, FloatArray, Labels, known_labels
from linkdist.nn.aggregation import VisibleNeighbours
from linkdist.training.panel.teachers import Teacher, TeachingContext

FEW_COLUMNS = 64
"""Maximum number of dense features for gradient boosting."""
MOST_OUTPUTS = 20_000_000
"""Maximum number of outputs n · C that gradient boosting predicts, which takes minutes."""
FEW_MEANS = 512
"""Maximum number of columns that are means over the neighbours of each head."""
SPREADING, STEPS = 0.9, 30
"""The share of a label that spreads in a step of label spreading, and the number of steps."""
FAINT = 1e-3
"""The weight of the mean label next to the labels that reach a node."""
SMALLEST = 1e-4
"""The smallest probability of a classifier, which may predict 0."""


class LabelSpreading(Teacher):
    """Labels that spread along links: f ← a · (neighbours' mean of f) + (1 - a) · y."""

    name = "label spreading"

    def __init__(self, context: TeachingContext) -> None:
        self.task = context.graph.task
        self.known = torch.from_numpy(
            np.stack([_known(context, view.labels) for view in context.views])
        ).to(context.device)  # (T, n, C + 1)
        if self.task == "classification":  # the classes of a known label sum to 1
            self.known = self.known[..., :-1].contiguous()
            counts = self.known.sum(1, keepdim=True)
            self.prior = counts / counts.sum(-1, keepdim=True)
        else:
            sums = self.known.sum(1, keepdim=True)
            self.prior = sums / sums[..., -1:]

    def scores(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Scores (T', n, C); those of the mean label for nodes that no label reaches."""
        known = flow = self.known[list(views)]
        for _ in range(STEPS):
            flow = SPREADING * links.mean(flow) + (1 - SPREADING) * known
        return spread_scores(flow, self.prior[list(views)], self.task)


def spread_scores(flow: Tensor, prior: Tensor, task: str) -> Tensor:
    """Scores (..., C) from labels that have spread, and the mean label.

    Other tasks than classification have a last column, the weight of the labels.

    Examples
    --------
    >>> flow, prior = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.8, 0.2]])
    >>> spread_scores(flow, prior, "classification").exp()
    tensor([[0.8000, 0.2000]])
    """
    flow = flow + FAINT * prior
    if task == "classification":
        return (flow / flow.sum(-1, keepdim=True)).log()
    mean = flow[..., :-1] / flow[..., -1:]
    return mean.logit(SMALLEST) if task == "multilabel" else mean


def _known(context: TeachingContext, labels: Labels) -> FloatArray:
    """Targets (n, C) of the known labels and their weights (n, 1); 0 where unknown."""
    graph = context.graph
    known = known_labels(labels)
    found = np.zeros((graph.n, graph.C + 1), dtype=np.float32)
    found[known, :-1] = context.targets(labels[known])
    found[known, -1] = 1
    if graph.label_weights is not None:
        found *= graph.label_weights[:, None]
    return found


class Estimator(Teacher):
    """A scikit-learn estimator on features and, optionally, their means over neighbours."""

    def __init__(self, context: TeachingContext, template: Any, name: str, hops: int = 0) -> None:  # noqa: ANN401
        self.context, self.hops, self.name = context, hops, name
        self.fitted = []
        for columns, view in zip(self._columns(context.seen), context.views, strict=True):
            labels, rows = view.labels[view.train], columns[view.train]
            several = labels.T if labels.ndim == 2 else [labels]
            weights = context.graph.label_weights
            chosen = None if weights is None else weights[view.train]
            self.fitted.append([_fit(template, rows, column, chosen) for column in several])

    def _columns(self, links: VisibleNeighbours) -> Sequence[FeatureMatrix]:
        x, T = self.context.graph.features, len(links.visible)
        if not self.hops:
            return [x] * T
        device = self.context.device
        parts = [torch.from_numpy(np.asarray(x)).to(device).expand(T, -1, -1).contiguous()]
        K = len(links.degrees)
        if 1 < K <= FEW_MEANS // parts[0].shape[2]:
            heads = [links.head_mean(k, parts[0]) for k in range(K)]
            second = links.mean(links.mean(parts[0]))
            return list(torch.cat([*parts, *heads, second], dim=-1).cpu().numpy())
        for _ in range(self.hops):
            parts.append(links.mean(parts[-1]))
        return list(torch.cat(parts, dim=-1).cpu().numpy())

    def scores(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Scores (T', n, C)."""
        return self.predict(views, self._columns(links))

    def predict(self, views: Sequence[int], each: Sequence[FeatureMatrix]) -> Tensor:
        """Scores (T', n, C) for the columns of each view."""
        graph, found = self.context.graph, []
        for view, columns in zip(views, each, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the user's own estimator
                if graph.task == "regression":
                    found.append(self.fitted[view][0].predict(columns).reshape(-1, 1))
                    continue
                C = graph.C if graph.task == "classification" else 2
                log_p = [_log_p(one, columns, C) for one in self.fitted[view]]
            if graph.task == "multilabel":
                log_p = [np.stack([part[:, 1] - part[:, 0] for part in log_p], axis=1)]
            found.append(log_p[0])
        return torch.from_numpy(np.stack(found).astype(np.float32)).to(self.context.device)


def _fit(template: Any, rows: FeatureMatrix, labels: Labels, weights: FloatArray | None) -> Any:  # noqa: ANN401
    # Most classifiers need two classes, and some return two columns for one class.
    single = labels.dtype.kind != "f" and len(np.unique(labels)) == 1
    estimator = DummyClassifier() if single else clone(template)
    options = {}
    if weights is not None and has_fit_parameter(estimator, "sample_weight"):
        options["sample_weight"] = weights
    with threadpool_limits(1):  # threads do not pay off on few rows
        return estimator.fit(rows, labels, **options)


def _log_p(classifier: Any, columns: FeatureMatrix, C: int) -> Any:  # noqa: ANN401
    """Log-probabilities (n, C) of a classifier that may not know all classes."""
    p = np.full((columns.shape[0], C), SMALLEST)
    p[:, classifier.classes_] += classifier.predict_proba(columns)
    return np.log(p / p.sum(axis=1, keepdims=True))


def boosting_teachers(context: TeachingContext, linked: bool = True) -> list[Estimator]:
    """Gradient boosting on the features, and on the features with their neighbours' means."""
    template = boosting_template(context)
    alone = Estimator(context, template, "gradient boosting on features")
    if not linked:
        return [alone]
    return [alone, Estimator(context, template, "gradient boosting on 2-hop averages", hops=2)]


def boosting_template(context: TeachingContext) -> Any:  # noqa: ANN401
    """The estimator that is fitted to each view."""
    options = {
        "learning_rate": 0.05,
        "max_leaf_nodes": 15,
        "min_samples_leaf": 5,
        "early_stopping": False,
        "random_state": 0,
    }
    if context.graph.task == "regression":
        return HistGradientBoostingRegressor(loss=f"{context.error}_error", **options)
    return HistGradientBoostingClassifier(**options)


def can_boost(dense: bool, d: int, n: int, C: int) -> bool:
    """Whether gradient boosting can be a teacher: there are few dense features.

    It has a tree for each class in each of its steps, so that it takes hours to predict very many
    nodes of many classes.

    Examples
    --------
    >>> can_boost(True, 2, 3, 2), can_boost(True, 100, 3, 2), can_boost(True, 2, 10**7, 40)
    (True, False, False)
    """
    return dense and d <= FEW_COLUMNS and n * C <= MOST_OUTPUTS
