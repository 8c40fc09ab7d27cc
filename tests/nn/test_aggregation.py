"""Oracles: dense matrices in NumPy, and shares of many draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from linkdist.data.links import Edges, Links
from linkdist.nn.aggregation import RandomNeighbours, VisibleNeighbours, relations_of

CPU = torch.device("cpu")
N, K, F = 12, 3, 2


def random_links(directed, weighted=True, seed=0):
    random = np.random.default_rng(seed)
    pairs = random.integers(0, N - 1, (40, 2))  # the last node has no links
    relation = random.integers(0, K, 40)
    weights = random.uniform(0.2, 3, 40) if weighted else None
    return Links(pairs, relation, weights, ("a", "b", "c"), directed).merged(N)


def matrices(links):
    """The adjacency matrix of each head, link by link."""
    found = np.zeros((len(links.heads), N, N))
    weights = np.ones(len(links.pairs)) if links.weights is None else links.weights
    for (i, j), r, w in zip(links.pairs, links.relation, weights, strict=True):
        if i == j:
            continue
        if links.directed:
            found[2 * r, i, j] = w
            found[2 * r + 1, j, i] = w
        else:
            found[r, i, j] = found[r, j, i] = w
    return found


def means(matrix, x):
    degree = matrix.sum(axis=1, keepdims=True)
    return matrix / np.where(degree > 0, degree, 1) @ x


@pytest.fixture(params=[False, True], ids=["undirected", "directed"])
def links(request):
    return random_links(request.param)


def values(links, replicas=2):
    return np.random.default_rng(1).normal(size=(len(links.heads), replicas, N, F))


def test_means_and_sums_are_those_of_each_heads_matrix(links):
    x, relations = values(links), relations_of(links, N, CPU)
    found = relations.means(torch.from_numpy(x).float()), relations.sums(torch.tensor(x).float())
    for k, matrix in enumerate(matrices(links)):
        np.testing.assert_allclose(found[0][k], means(matrix, x[k]), atol=1e-5)
        np.testing.assert_allclose(found[1][k], matrix @ x[k], atol=1e-5)
        assert (relations.linked[k, 0, :, 0].numpy() == (matrix.sum(axis=1) > 0)).all()


def test_gradients_pass_the_transposed_matrices(links):
    x = torch.from_numpy(values(links)).float().requires_grad_()
    g = torch.from_numpy(values(links)[::-1].copy()).float()
    (gradient,) = torch.autograd.grad(relations_of(links, N, CPU).means(x), x, g)
    for k, matrix in enumerate(matrices(links)):
        degree = matrix.sum(axis=1, keepdims=True)
        P = matrix / np.where(degree > 0, degree, 1)
        np.testing.assert_allclose(gradient[k], P.T @ g[k].numpy(), atol=1e-5)


def test_hidden_nodes_and_strengths_of_relations(links):
    visible = np.random.default_rng(2).random((2, N)) < 0.7
    H = len(links.heads)
    strengths = np.random.default_rng(3).random((2, H))
    around = VisibleNeighbours(
        relations_of(links, N, CPU), torch.from_numpy(visible), torch.from_numpy(strengths).float()
    )
    x = values(links)
    t = torch.from_numpy(x).float()
    heads, mean, smooth = around.means(t), around.mean(t[0]), around.smooth(t[0])
    for r in range(2):
        seen = matrices(links) * visible[r]
        total = np.tensordot(strengths[r], seen, 1)
        for k in range(H):
            np.testing.assert_allclose(heads[k, r], means(seen[k], x[k, r]), atol=1e-5)
            back = around.head_mean_transposed(k, t[0])[r]
            degree = seen[k].sum(axis=1, keepdims=True)
            P = seen[k] / np.where(degree > 0, degree, 1)
            np.testing.assert_allclose(back, P.T @ x[0, r], atol=1e-5)
        np.testing.assert_allclose(mean[r], means(total, x[0, r]), atol=1e-5)
        P = (total + np.eye(N)) / (total + np.eye(N)).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(smooth[r], P @ x[0, r], atol=1e-5)
        back = around.smooth_transposed(t[0])[r]
        np.testing.assert_allclose(back, P.T @ x[0, r], atol=1e-5)


def test_neighbours_are_drawn_in_proportion_to_their_weights():
    pairs = np.array([[0, 1], [0, 2], [0, 3], [1, 0], [4, 0]])
    weights = np.array([1.0, 2.0, 7.0, 5.0, 1e-6], dtype=np.float32)
    around = RandomNeighbours([Edges(pairs, weights=weights)], 6, CPU)
    numbers = torch.from_numpy(np.random.default_rng(0).integers(0, 1 << 62, (1, 20_000)))
    drawn = around.pick(torch.zeros_like(numbers), numbers).numpy()
    shares = np.bincount(drawn[0], minlength=6) / 20_000
    np.testing.assert_allclose(shares, [0, 0.1, 0.2, 0.7, 0, 0], atol=0.015)
    for node, only in ((1, 0), (4, 0), (5, 5)):  # one neighbour, a tiny weight, none
        found = around.pick(torch.full_like(numbers, node), numbers)
        assert (found == only).all()


@pytest.mark.gpu
@pytest.mark.parametrize("directed", [False, True])
def test_relations_on_a_gpu_are_the_cpus(directed):
    links = random_links(directed)
    x = torch.from_numpy(values(links)).float()
    here, there = (
        relations_of(links, N, torch.device(device)).means(x.to(device)).cpu()
        for device in ("cpu", "cuda")
    )
    torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-4)
