"""Linear models on the columns, and scikit-learn's self-training around them.

Dense columns are standardised. Sparse ones are divided by one number, so that a row has a mean
length of 1, and stay sparse. Both are computed on visible rows.
"""

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.semi_supervised import SelfTrainingClassifier

from rivals.protocol import search
from rivals.settings import LOGISTIC, LOGISTIC_DENSE, RIDGE, SELF_TRAINING

STEPS = 100
"""The most iterations of a logistic regression."""
ROUNDS = 5
"""The most rounds of self-training."""
MOST_UNLABELLED = 5_000
"""Rows without a label for self-training; of more, it gets a random part."""


class Scaler:
    """Columns on a common scale, which visible rows determine."""

    def __init__(self, visible):
        if sparse.issparse(visible):
            self.centre = 0.0
            self.scale = float(np.sqrt(visible.multiply(visible).sum(axis=1)).mean()) or 1.0
        else:
            self.centre, spread = visible.mean(axis=0), visible.std(axis=0)
            self.scale = np.where(spread > 0, spread, 1)

    def __call__(self, x):
        """The rows on the common scale."""
        if sparse.issparse(x):
            return (x / self.scale).tocsr()
        return ((x - self.centre) / self.scale).astype(np.float32)


class Linear:
    """A fitted model of scikit-learn on scaled columns."""

    def __init__(self, scaler, model, C):
        self.scaler, self.model, self.C = scaler, model, C

    def from_features(self, x):
        """Probabilities (k, C), or numbers (k, 1)."""
        x = self.scaler(x)
        if not hasattr(self.model, "predict_proba"):
            return self.model.predict(x)[:, None]
        p = np.zeros((x.shape[0], self.C))
        p[:, self.model.classes_] = self.model.predict_proba(x)
        return p


def linear(problem):
    """Logistic regression, or ridge regression for numbers."""
    graph = problem.graph
    scaler = Scaler(graph.features[problem.view.nodes])
    x = scaler(graph.features[problem.split.train])

    def fit(problem, setting):
        if graph.task == "regression":
            model = Ridge(**setting)
        else:
            model = LogisticRegression(max_iter=STEPS, **setting)
        return Linear(scaler, _fitted(model, x, problem.train_labels), graph.C)

    if graph.task == "regression":
        return search(problem, fit, RIDGE)
    return search(problem, fit, LOGISTIC if sparse.issparse(graph.features) else LOGISTIC_DENSE)


def self_training(problem, base):
    """Self-training of the chosen logistic regression on visible rows without a label."""
    graph, split = problem.graph, problem.split
    random = np.random.default_rng([29, problem.seed])
    unlabelled = np.setdiff1d(problem.view.nodes, split.train)
    unlabelled = random.permutation(unlabelled)[:MOST_UNLABELLED]
    scaler = base.model.scaler
    x = scaler(graph.features[np.concatenate([split.train, unlabelled])])
    labels = np.concatenate([problem.train_labels, np.full(len(unlabelled), -1)])

    def fit(problem, setting):
        start = LogisticRegression(max_iter=STEPS, **base.setting)
        if "k_best" in setting:
            rows = max(1, int(setting["k_best"] * len(unlabelled)))
            rule = {"criterion": "k_best", "k_best": rows}
        else:
            rule = {"threshold": setting["threshold"]}
        model = SelfTrainingClassifier(start, max_iter=ROUNDS, **rule)
        return Linear(scaler, _fitted(model, x, labels), graph.C)

    return search(problem, fit, SELF_TRAINING)


def _fitted(model, x, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x, labels)
