"""LightGBM: on the columns, on averages over neighbours, and after label spreading.

Early stopping on the validation nodes chooses the number of trees. Averages of bags of words over
neighbours are dense, so graphs with more than `NARROW` columns are reduced to that number by a
truncated SVD of the visible rows, and averages are taken of these. Of the nodes that spreading
labels, a random part of at most `MOST_SPREAD` is used, to save time.
"""

import os

import lightgbm
import numpy as np
from sklearn.decomposition import TruncatedSVD

from rivals.cross_validated import dense, propagated, with_averages
from rivals.propagation import spread
from rivals.protocol import search
from rivals.settings import NUMBER_SPREADING, SPREADING, TREES

MOST_TREES, PATIENCE = 200, 10
NARROW = 128
MOST_SPREAD = 3_000
BINS = 63
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
QUIET = {"verbose": -1, "num_threads": THREADS, "feature_pre_filter": False}


class Trees:
    """A booster on the columns of a row."""

    def __init__(self, booster, C):
        self.booster, self.C = booster, C

    def from_features(self, x):
        """Probabilities (k, C), or numbers (k, 1)."""
        found = self.booster.predict(x, num_threads=THREADS)
        if found.ndim == 2 or self.C == 1:
            return found.reshape(len(found), -1)
        return np.stack([1 - found, found], axis=1)


class AveragedTrees:
    """A booster on the columns of a node beside their averages over one and two hops."""

    def __init__(self, trees, reduce):
        self.trees, self.reduce = trees, reduce

    def with_links(self, features, edges, nodes):
        """Predictions of some nodes in a graph."""
        return self.trees.from_features(with_averages(self.reduce(features), edges)[nodes])


def trees(problem):
    """LightGBM on the columns."""
    features, nodes = problem.graph.features, problem.split.train
    held = features[problem.split.validation]
    data = _Data(problem, features[nodes], problem.train_labels, held)
    return search(problem, lambda _, setting: data.fit(setting), TREES)


def averaged_trees(problem):
    """LightGBM on the columns and their averages; training sees the averages over visible links."""
    graph, view = problem.graph, problem.view
    reduce = reduction(graph.features[view.nodes], problem.seed)
    x = with_averages(reduce(graph.features), view.edges)
    data = _Data(problem, x[problem.split.train], problem.train_labels, x[problem.split.validation])
    return search(problem, lambda _, setting: AveragedTrees(data.fit(setting), reduce), TREES)


def spread_then_trees(problem):
    """LightGBM on the labels that spreading gives to visible nodes."""
    features = problem.graph.features
    numbers = problem.graph.task == "regression"
    held = features[problem.split.validation]
    cache = {}

    def fit(problem, setting):
        kind = ("pull",) if numbers else ("alpha", "share")
        key = tuple(setting[name] for name in kind)
        if key not in cache:
            nodes, labels = (spread_numbers if numbers else spread_classes)(problem, *key)
            cache[key] = _Data(problem, features[nodes], labels, held)
        return cache[key].fit({name: setting[name] for name in setting if name not in kind})

    return search(problem, fit, NUMBER_SPREADING if numbers else SPREADING)


def spread_classes(problem, alpha, share):
    """Training nodes with their labels, and the most certain share of those reached by spreading.

    Validation nodes get no label by spreading: they choose.
    """
    view, split = problem.view, problem.split
    found = spread(view.labels, split.train, problem.graph.C, view.edges, alpha)
    others = np.setdiff1d(view.nodes, np.concatenate([split.train, split.validation]))
    others = others[found[others].sum(axis=1) > 0]
    certainty = found[others].max(axis=1) / found[others].sum(axis=1)
    others = others[np.argsort(-certainty, kind="stable")][: round(share * len(others))]
    others = _thinned(others, problem.seed)
    nodes = np.concatenate([split.train, others])
    return nodes, np.concatenate([problem.train_labels, found[others].argmax(axis=1)])


def spread_numbers(problem, pull):
    """Training nodes with their numbers, and visible nodes with those by propagation."""
    view, split = problem.view, problem.split
    others = np.setdiff1d(view.nodes, np.concatenate([split.train, split.validation]))
    nodes = np.concatenate([split.train, _thinned(others, problem.seed)])
    return nodes, propagated(view.labels, split.train, view.edges, pull)[nodes]


def _thinned(nodes, seed):
    return np.random.default_rng([31, seed]).permutation(nodes)[:MOST_SPREAD]


def reduction(visible, seed):
    """A function that reduces columns, if there are many, to `NARROW` by a truncated SVD."""
    if visible.shape[1] <= NARROW:
        return dense
    return TruncatedSVD(NARROW, n_iter=2, random_state=seed).fit(visible).transform


class _Data:
    """Rows and validation rows in LightGBM's form; bins are computed once for all settings."""

    def __init__(self, problem, x, labels, held):
        self.problem = problem
        common = {**QUIET, "max_bin": BINS}
        self.rows = lightgbm.Dataset(x, labels, params=common)
        held_labels = problem.graph.labels[problem.split.validation]
        self.held = lightgbm.Dataset(held, held_labels, reference=self.rows, params=common)

    def fit(self, setting):
        """The trees of one setting."""
        graph = self.problem.graph
        objective = {1: "regression", 2: "binary"}.get(graph.C, "multiclass")
        given = {
            **QUIET,
            "objective": objective,
            "seed": self.problem.seed,
            **({"num_class": graph.C} if graph.C > 2 else {}),
            **setting,
        }
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        booster = lightgbm.train(
            given, self.rows, MOST_TREES, valid_sets=[self.held], callbacks=[stop]
        )
        return Trees(booster, graph.C)
