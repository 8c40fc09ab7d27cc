"""Oracles: dense adjacency matrices in NumPy, and `nn.aggregation` on the graph in memory."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist import Graph
from linkdist.distributed.panel.adjacency import Adjacency, Cache, Visible
from linkdist.distributed.panel.averages import degrees
from linkdist.distributed.panel.columns import Columns
from linkdist.errors import StoreError
from linkdist.nn.aggregation import VisibleNeighbours, relations_of
from linkdist.store.reader import Store
from linkdist.training.panel.teachers import masks
from tests.distributed.panel.graphs import CPU, in_parts, random_graph, random_parts


def dense(graph):
    """A, without self-loops."""
    found = np.zeros((graph.n, graph.n))
    found[tuple(graph.edges.T)] = 1
    np.fill_diagonal(found, 0)
    return found


def summed(placed, x, room=10**8):
    """A x, gathered from the parts."""
    adjacency = Adjacency(placed.store, CPU, room)
    read = placed.scatter(torch.from_numpy(x).half())
    parts = [adjacency.sums(a, read) for a in range(placed.store.P)]
    found = torch.empty(placed.graph.n, x.shape[1])
    found[torch.from_numpy(np.argsort(placed.numbers, kind="stable"))] = torch.cat(parts)
    return found.numpy()


@pytest.mark.parametrize("P", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_the_graph(tmp_path, P, seed):
    graph = random_graph(seed=seed)
    placed = in_parts(graph, random_parts(graph.n, P, seed), tmp_path / "store")
    x = np.random.default_rng(seed).integers(-9, 9, (graph.n, 4)).astype(np.float32)
    assert placed.store.loops == len(np.unique(graph.links[np.equal(*graph.links.T)]))
    assert np.array_equal(summed(placed, x), dense(graph) @ x)


@settings(max_examples=25)
@given(st.data())
def test_sums_of_any_links_in_any_parts(tmp_path_factory, data):
    n = data.draw(st.integers(2, 8))
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=15))
    part = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    graph = Graph.build(np.ones((n, 1)), pairs, np.arange(n) % 2)
    placed = in_parts(graph, part, tmp_path_factory.mktemp("store") / "store")
    x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    assert np.array_equal(summed(placed, x), dense(graph) @ x)


@pytest.mark.parametrize("room", [0, 300, 10**8])
def test_matrices_that_do_not_stay_are_made_again(tmp_path, room):
    graph = random_graph()
    placed = in_parts(graph, random_parts(graph.n, 3), tmp_path / "store")
    x = np.ones((graph.n, 1), np.float32)
    adjacency = Adjacency(placed.store, CPU, room)
    read = placed.scatter(torch.from_numpy(x).half())
    for _ in range(2):
        total = sum(float(adjacency.sums(a, read).sum()) for a in range(3))
        assert total == dense(graph).sum()
    held = sum(
        t.values().nbytes + t.col_indices().nbytes + t.crow_indices().nbytes
        for t in adjacency.cache.held.values()
    )
    assert held <= room
    assert (len(adjacency.cache.held) == 9) == (room == 10**8)


def test_links_that_are_not_sorted_are_refused(tmp_path):
    graph = random_graph()
    placed = in_parts(graph, random_parts(graph.n, 2), tmp_path / "store")
    bucket = placed.store.bucket(0, 1)
    turned = bucket._replace(pairs=np.ascontiguousarray(bucket.pairs[::-1]))
    with mock.patch.object(Store, "bucket", return_value=turned):
        adjacency = Adjacency(placed.store, CPU, 0)
        with pytest.raises(StoreError, match="must contain sorted links"):
            adjacency.matrix(0, 1)


def test_a_cache_keeps_what_fits():
    cache, made = Cache(room=20), []

    def make(key, size):
        made.append(key)
        return torch.zeros(size)

    for _ in range(2):
        for key, size in (("a", 3), ("b", 9), ("c", 2), ("d", 1)):
            assert len(cache.get(key, lambda key=key, size=size: make(key, size))) == size
    assert made == ["a", "b", "c", "d", "b", "d"]
    assert sorted(cache.held) == ["a", "c"]


def test_hidden_rows_are_read_as_zeros_and_stay_on_disk(tmp_path):
    columns = Columns(tmp_path / "x", [3, 2], 1)
    for part, n in enumerate([3, 2]):
        columns.write(part, torch.ones(n, 1))
    read = Visible(columns, {0: np.array([0, 2])}, CPU, 100)
    assert read(0).flatten().tolist() == [0, 1, 0]
    assert read(1).flatten().tolist() == [1, 1]
    assert columns.read(0).flatten().tolist() == [1, 1, 1]


@pytest.mark.parametrize("P", [1, 3])
def test_degrees_count_visible_neighbours(tmp_path, P):
    graph = random_graph(seed=5)
    placed = in_parts(graph, random_parts(graph.n, P), tmp_path / "store")
    hidden = np.array([2, 3, 11, 30, 39])
    found = degrees(placed.workshop(tmp_path / "arrays"), "degree", placed.rows(hidden))
    visible = masks([np.setdiff1d(np.arange(graph.n), hidden)], graph.n)
    seen = VisibleNeighbours(relations_of(graph, graph.n, CPU), visible)
    assert torch.equal(placed.gather(found), seen.degrees[0][0])
    assert np.array_equal(seen.degree[0, :, 0].numpy(), dense(graph) @ visible[0].numpy())
