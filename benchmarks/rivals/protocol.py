"""How SelfLinkDist is measured beside what a practitioner would use instead.

**Nodes.** For each graph and seed, a fifth of the nodes are test nodes. Training sees neither their
features nor their labels nor their links (the setting 'production' of `linkdist.data.splits`).
Labels are drawn from the other nodes: 5 or 20 of each class, or 1, 10 or 60 % of all rows, then
with at least two of each class. A class gives at most half of its visible nodes. The graph with a
number to predict has the shares only.

**Validation.** Every fifth label, in the order of classes or numbers, belongs to a validation node.
These nodes are the same for every method. A method is fitted on the other labels, chooses its
setting and its epoch or number of trees on the validation nodes, and is not fitted again. The
choice is by the measure that is reported, then by the log-loss or the squared error.

**Search.** A rival has at most three settings (`settings.py`), SelfLinkDist and CoLinkDist one:
their defaults.

**Test.** The chosen setting predicts the test nodes of a seed once: from their features (classes of
information 1 to 3), or over the whole graph without the labels of test nodes (class 4).

**Measure.** Accuracy for several classes, ROC AUC for two, R² for numbers, each times 100.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from graphs import OTHERS, PAPER, load, load_numbers
from scipy.stats import rankdata

from linkdist.data.graph import Graph
from linkdist.data.splits import Split, View, observe

SETS = [*PAPER, *OTHERS]
LABELS = ("5", "20", "1%", "10%", "60%")
SHARE_OF_TEST = 0.2
EVERY = 5
"""Every so many labels, one belongs to a validation node."""
LEAST = 2
"""Labels of each class in a random draw."""
FLOOR = 1e-7
"""The smallest probability in a log-loss: one confident mistake is not infinitely bad."""


@cache
def load_set(name):
    """A graph by its name; counties with a number to predict."""
    return load_numbers(name) if name == "counties" else load(name)


def label_counts(name):
    """The numbers of labels that a graph is measured with."""
    return [labels for labels in LABELS if name != "counties" or labels.endswith("%")]


def draw(graph, labels, seed):
    """The split of a graph for a number of labels and a seed."""
    random = np.random.default_rng([23, seed])
    order = random.permutation(graph.n)
    size = round(SHARE_OF_TEST * graph.n)
    test, visible = order[:size], order[size:]
    known = _labelled(graph, labels, visible)
    ordered = known[np.lexsort((random.random(len(known)), graph.labels[known]))]
    validation = ordered[random.integers(min(EVERY, len(ordered))) :: EVERY]
    return Split(np.setdiff1d(known, validation), np.sort(validation), np.sort(test))


def _labelled(graph, labels, visible):
    """The nodes with a label, from the visible ones in random order."""
    share = float(labels[:-1]) / 100 if labels.endswith("%") else None
    if graph.task == "regression":
        return visible[: round(share * graph.n)]
    of_class = [visible[graph.labels[visible] == c] for c in range(graph.C)]
    least = LEAST if share else int(labels)
    first = np.concatenate([nodes[: min(least, len(nodes) // 2)] for nodes in of_class])
    if share is None:
        return first
    others = visible[~np.isin(visible, first)]
    return np.concatenate([first, others[: max(0, round(share * graph.n) - len(first))]])


def measure_of(graph):
    """The name of the measure that is reported for a graph."""
    if graph.task == "regression":
        return "r2"
    return "roc-auc" if graph.C == 2 else "accuracy"


def score(measure, labels, predictions):
    """The measure, times 100, of probabilities (k, C) or numbers (k, 1); NaN if undefined."""
    if measure == "accuracy":
        return 100 * float((predictions.argmax(axis=1) == labels).mean())
    if measure == "r2":
        variance = np.square(labels - labels.mean()).sum()
        error = np.square(labels - predictions[:, 0]).sum()
        return 100 * float(1 - error / variance) if variance > 0 else float("nan")
    positive = labels == 1
    pairs = positive.sum() * (~positive).sum()
    if pairs == 0:
        return float("nan")
    ranks = rankdata(predictions[:, 1] - predictions[:, 0])[positive].sum()
    return 100 * float((ranks - positive.sum() * (positive.sum() + 1) / 2) / pairs)


def loss(measure, labels, predictions):
    """The mean log-loss or squared error."""
    if measure == "r2":
        return float(np.square(labels - predictions[:, 0]).mean())
    p = np.clip(predictions, FLOOR, None)
    p = p / p.sum(axis=1, keepdims=True)
    return float(-np.log(p[np.arange(len(labels)), labels]).mean())


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph with the nodes that one seed draws.

    Attributes
    ----------
    graph : Graph
        The whole graph, for the prediction of test nodes.
    split : Split
        Training, validation and test nodes.
    seed : int
        For the nodes and for the methods.
    """

    graph: Graph
    split: Split
    seed: int

    @cached_property
    def view(self) -> View:
        """What training may use; the features of test nodes must not be read from it."""
        return observe(self.graph, self.split, "production")

    @property
    def measure(self) -> str:
        """The measure that is reported."""
        return measure_of(self.graph)

    @property
    def train_labels(self) -> np.ndarray:
        """The labels of the training nodes."""
        return self.graph.labels[self.split.train]

    def quality(self, predictions):
        """What a choice maximises, of predictions for the validation nodes."""
        labels = self.graph.labels[self.split.validation]
        value = score(self.measure, labels, predictions)
        return (0.0 if np.isnan(value) else value, -loss(self.measure, labels, predictions))

    def test_score(self, predictions):
        """The reported score, of predictions for the test nodes."""
        return score(self.measure, self.graph.labels[self.split.test], predictions)


@dataclass(frozen=True)
class Chosen:
    """The model of the best setting.

    Attributes
    ----------
    model : object
        Has `from_features(x)` for rows of features, or `with_links(features, edges, nodes)`.
    setting : dict
        The setting that the validation nodes chose.
    quality : tuple
        Its score and its negative loss on the validation nodes.
    """

    model: Any
    setting: dict
    quality: tuple

    def test_predictions(self, problem):
        """Predictions (k, C) of the test nodes."""
        return predictions_of(self.model, problem, problem.split.test, problem.graph.edges)


def predictions_of(model, problem, nodes, edges):
    """Predictions of some nodes: with these edges if the model uses links."""
    features = problem.graph.features
    if hasattr(model, "with_links"):
        return model.with_links(features, edges, nodes)
    return model.from_features(features[nodes])


def search(problem, fit, settings):
    """Fit each setting and keep the one with the best predictions of the validation nodes."""
    best = None
    for setting in settings:
        model = fit(problem, setting)
        found = predictions_of(model, problem, problem.split.validation, problem.view.edges)
        quality = problem.quality(found)
        if best is None or quality > best.quality:
            best = Chosen(model, setting, quality)
    return best
