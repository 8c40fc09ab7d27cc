"""Which nodes are suggested: graphs where the answer is known, and averages over links in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from linkdist.training.suggestion import averaged, suggest_nodes, uncertainty

NONE = np.empty((0, 2), dtype=np.int64)


def uncertain(n, C=2):
    return np.full((n, C), 1 / C, dtype=np.float32)


def random_case(seed, n=60):
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.ones(3), n).astype(np.float32)
    x = random.normal(size=(n, 5)).astype(np.float32)
    return p, x, random.integers(0, n, (80, 2)), random.random(n) < 0.5


def test_two_equal_clusters_get_one_node_each():
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 2)).astype(np.float32)
    x[20:] += 100
    for links in (NONE, np.array([(i, (i + 1) % 20) for i in range(20)])):
        chosen = suggest_nodes(uncertain(40), x, links, np.ones(40, dtype=bool), count=2)
        assert sorted(chosen // 20) == [0, 1]


def test_nodes_are_spread_over_the_graph_where_features_are_equal_on_average():
    """Two rings; within a ring, neighbours have different features."""
    x = np.tile([[0.0], [1.0]], (20, 1)).astype(np.float32)
    x[20:] *= 3
    links = np.array([(i, i // 20 * 20 + (i + 1) % 20) for i in range(40)])
    chosen = suggest_nodes(uncertain(40), x, links, np.ones(40, dtype=bool), count=2)
    assert sorted(chosen // 20) == [0, 1]


def test_certain_nodes_are_not_chosen_over_uncertain_ones():
    x = np.repeat([[0.0], [50.0], [100.0]], 10, axis=0).astype(np.float32)
    p = uncertain(30)
    p[20:] = [1.0, 0.0]
    chosen = suggest_nodes(p, x, NONE, np.ones(30, dtype=bool), count=2)
    assert sorted(chosen // 10) == [0, 1]


@given(st.integers(0, 50), st.integers(1, 70))
def test_only_different_candidates_are_suggested(seed, count):
    p, x, links, candidates = random_case(seed)
    chosen = suggest_nodes(p, x, links, candidates, count)
    assert len(set(chosen.tolist())) == len(chosen) == min(count, candidates.sum())
    assert candidates[chosen].all()
    assert (np.diff(uncertainty(p)[chosen]) <= 0).all()


def test_equal_nodes_still_give_as_many_as_asked_for():
    x = np.zeros((9, 3), dtype=np.float32)
    with pytest.warns(match="distinct clusters"):
        chosen = suggest_nodes(uncertain(9), x, NONE, np.ones(9, dtype=bool), count=4)
    assert len(set(chosen.tolist())) == 4


def test_the_same_seed_gives_the_same_nodes():
    p, x, links, candidates = random_case(0)
    a, b = (suggest_nodes(p, x, links, candidates, 7, seed=3) for _ in range(2))
    assert a.tolist() == b.tolist()


def test_csr_features_give_the_nodes_of_dense_ones():
    p, x, links, candidates = random_case(1)
    for features in (x, np.tile(x, 10)):  # more than 32 dimensions are reduced
        dense = suggest_nodes(p, features, links, candidates, 5)
        csr = suggest_nodes(p, sparse.csr_matrix(features), links, candidates, 5)
        assert sorted(dense.tolist()) == sorted(csr.tolist())


def test_features_are_averaged_over_links_twice():
    _, x, links, _ = random_case(2, n=20)
    links = np.unique(np.sort(links % 20, axis=1), axis=0)
    links = links[links[:, 0] != links[:, 1]]
    mean = np.eye(20)
    mean[links[:, 0], links[:, 1]] = mean[links[:, 1], links[:, 0]] = 1
    mean /= mean.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(averaged(x, links, 0), mean @ mean @ x, rtol=1e-6)
