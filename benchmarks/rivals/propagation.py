"""Methods that spread labels along links: label propagation, and Correct & Smooth.

For classes they are those of PyTorch Geometric, for numbers the harmonic function of
`cross_validated.propagated`.
"""

import numpy as np
import torch
from torch_geometric.nn.models import CorrectAndSmooth, LabelPropagation

from rivals.cross_validated import propagated
from rivals.protocol import search
from rivals.settings import CORRECT_AND_SMOOTH, NUMBER_PROPAGATION, PROPAGATION

STEPS = 30
"""Products with the matrix of links."""
SMALLEST = 1e-9
"""The least score of a class, as a correction may be negative."""


def spread(labels, train, C, edges, alpha):
    """Scores (n, C) of all nodes: α D^-½ A D^-½ F + (1 - α) Y, repeated."""
    y = torch.zeros(len(labels), C)
    y[train, labels[train]] = 1.0
    return LabelPropagation(STEPS, alpha)(y, _index(edges)).numpy()


class Propagation:
    """The labels of the training nodes, spread along the links of a graph."""

    def __init__(self, problem, setting):
        self.labels, self.train = problem.view.labels, problem.split.train
        self.C, self.setting = problem.graph.C, setting

    def with_links(self, features, edges, nodes):
        """Probabilities (k, C), or numbers (k, 1); a node that no label reaches gets the mean."""
        if "pull" in self.setting:
            return propagated(self.labels, self.train, edges, **self.setting)[nodes, None]
        found = spread(self.labels, self.train, self.C, edges, **self.setting)[nodes]
        total = found.sum(axis=1, keepdims=True)
        mean = np.bincount(self.labels[self.train], minlength=self.C) / len(self.train)
        return np.where(total > 0, found / np.where(total > 0, total, 1), mean)


def propagation(problem):
    """Label propagation; α, or for numbers the pull to the mean, by the validation nodes."""
    numbers = problem.graph.task == "regression"
    return search(problem, Propagation, NUMBER_PROPAGATION if numbers else PROPAGATION)


class Smoothed:
    """Predictions from features, corrected and smoothed along the links of a graph."""

    def __init__(self, problem, setting, base, device):
        self.labels = torch.from_numpy(problem.train_labels).to(device)
        self.train = torch.from_numpy(problem.split.train).to(device)
        self.setting, self.base, self.device = setting, base, device

    def with_links(self, features, edges, nodes):
        """Probabilities (k, C) of some nodes."""
        p = torch.from_numpy(self.base.from_features(features)).float().to(self.device)
        known = (self.labels, self.train, _index(edges).to(self.device))
        method = CorrectAndSmooth(STEPS, num_smoothing_layers=STEPS, **self.setting)
        p = method.smooth(method.correct(p, *known), *known)[nodes].clamp(min=SMALLEST)
        return (p / p.sum(dim=1, keepdim=True)).cpu().numpy()


def correct_and_smooth(problem, base, device):
    """Correct & Smooth on the predictions of a fitted model from features."""

    def fit(problem, setting):
        return Smoothed(problem, setting, base.model, device)

    return search(problem, fit, CORRECT_AND_SMOOTH)


def _index(edges):
    """PyTorch Geometric's form of edges (e, 2), without self-loops."""
    edges = edges[edges[:, 0] != edges[:, 1]]
    return torch.from_numpy(np.ascontiguousarray(edges.T))
