"""Choose the nodes whose labels would help a model most.

A good batch of nodes is uncertain and diverse. So the unlabelled nodes are grouped by k-means, each
node weighted by the uncertainty of its prediction, and of each group the node nearest to its centre
is chosen. The groups are found in features averaged over the links, so that the nodes are spread
over the graph, too. The prediction intervals of a regression have one width, so its nodes are all
equally uncertain and only spread.

Reference: F. Zhdanov, Diverse mini-batch Active Learning, 2019, has the clustering by uncertainty.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD

from linkdist.data.graph import FeatureMatrix, IntArray
from linkdist.data.links import both_directions

HOPS = 2
"""Number of times that features are averaged over a node and its neighbours."""

DIMENSIONS = 32
"""Number of dimensions in which nodes are grouped."""

MOST = 20_000
"""Number of most uncertain nodes among which the choice is made."""


def suggest_nodes(
    probabilities: npt.NDArray[np.float32],
    features: FeatureMatrix,
    links: IntArray,
    candidates: npt.NDArray[np.bool_],
    count: int,
    seed: int = 0,
    task: str = "classification",
) -> IntArray:
    """Choose nodes to label, the most uncertain first.

    Parameters
    ----------
    probabilities : (n, C) array
        Probabilities of all nodes; for regression, numbers (n, 1).
    features : (n, d) array or CSR matrix
        Features of all nodes.
    links : (m, 2) array of int
        Pairs of linked nodes.
    candidates : (n,) array of bool
        The nodes without a label.
    count : int
        How many nodes to choose.
    seed : int
        Random seed of the grouping.
    task : {'classification', 'regression', 'multilabel'}
        What is predicted.

    Returns
    -------
    (count,) array of int
        Row numbers; fewer if there are fewer candidates.

    Examples
    --------
    >>> p = np.array([[0.5, 0.5], [0.5, 0.5], [0.6, 0.4], [1.0, 0.0]], dtype=np.float32)
    >>> x = np.array([[0.0], [0.1], [5.0], [9.0]], dtype=np.float32)
    >>> chosen = suggest_nodes(p, x, np.empty((0, 2), dtype=int), np.array([True] * 4), count=2)
    >>> sorted(chosen.tolist())
    [0, 2]
    """
    doubt = uncertainty(probabilities, task)
    rows = np.flatnonzero(candidates)
    if task == "regression":  # of equally uncertain nodes, the first would come from one place
        rows = np.random.default_rng(seed).permutation(rows)
    rows = rows[np.argsort(-doubt[rows], kind="stable")[:MOST]]
    if len(rows) <= count:
        return rows
    points = averaged(features, links, seed)[rows]
    weights = np.maximum(doubt[rows], 1e-6)
    groups = KMeans(count, n_init=1, random_state=seed).fit(points, sample_weight=weights)
    distance = np.linalg.norm(points - groups.cluster_centers_[groups.labels_], axis=1)
    chosen = []
    for group in range(count):
        inside = np.flatnonzero(groups.labels_ == group)
        if len(inside):
            chosen.append(rows[inside[distance[inside].argmin()]])
    found = np.array(chosen, dtype=np.int64)
    rest = rows[~np.isin(rows, found)][: count - len(found)]  # equal nodes leave groups empty
    found = np.concatenate([found, rest])
    return found[np.argsort(-doubt[found], kind="stable")]


def uncertainty(
    probabilities: npt.NDArray[np.float32], task: str = "classification"
) -> npt.NDArray[np.float64]:
    """How uncertain predictions are, (n,): from 0 to 1.

    It is one minus the difference between the two highest probabilities. For several labels, it is
    the mean over labels of one minus the difference between having the label and not having it; for
    numbers, it is 1.

    Examples
    --------
    >>> uncertainty(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [1.0, 0.0]
    >>> uncertainty(np.array([[0.5, 0.5], [1.0, 0.5]]), "multilabel").tolist()
    [1.0, 0.5]
    """
    p = probabilities.astype(np.float64)
    doubt: npt.NDArray[np.float64]
    if task == "regression":
        return np.ones(len(p))
    if task == "multilabel":
        doubt = (1 - np.abs(2 * p - 1)).mean(axis=1)
        return doubt
    second, first = np.sort(p, axis=1)[:, -2:].T
    doubt = 1 - (first - second)
    return doubt


def averaged(features: FeatureMatrix, links: IntArray, seed: int) -> npt.NDArray[np.float64]:
    """Features averaged over the links, reduced to a few dimensions, (n, k)."""
    n, d = features.shape
    edges = both_directions(links)
    ones = np.ones(len(edges) + n)
    row, column = (np.concatenate([end, np.arange(n)]) for end in edges.T)
    mean = sparse.csr_matrix((ones, (row, column)), shape=(n, n))
    mean = sparse.diags(1 / np.asarray(mean.sum(axis=1)).ravel()) @ mean
    if d > DIMENSIONS:
        reduced = TruncatedSVD(min(DIMENSIONS, n - 1), random_state=seed).fit_transform(features)
    else:
        reduced = sparse.csr_matrix(features).toarray()
    x: npt.NDArray[np.float64] = np.asarray(reduced, dtype=np.float64)
    for _ in range(HOPS):
        x = mean @ x
    return x
