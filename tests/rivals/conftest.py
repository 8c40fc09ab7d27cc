"""benchmarks/ on the path, and small graphs."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from linkdist.data.graph import Graph

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
with warnings.catch_warnings():
    # PyTorch Geometric uses what PyTorch calls deprecated when it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric.nn  # noqa: F401


def made_graph(C=3, n=150, numbers=False, words=False):
    """Classes that differ in features and are mostly linked within."""
    random = np.random.default_rng(0)
    labels = np.arange(n) % C
    x = random.normal(size=(n, 6)) + 1.5 * (labels[:, None] == np.arange(6) % C)
    pairs = random.integers(0, n, (6 * n, 2))
    like = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    pairs = pairs[like | (random.random(len(pairs)) < 0.1)]
    if words:
        x = sparse.csr_matrix(x * (random.random(x.shape) < 0.3) @ (np.eye(6, 90)))
    if numbers:
        y = labels + 0.1 * random.normal(size=n)
        return Graph.build(x, pairs, y, ("number",), "made", task="regression")
    return Graph.build(x, pairs, labels, name="made")


@pytest.fixture
def graph():
    return made_graph()


@pytest.fixture
def made():
    return made_graph
