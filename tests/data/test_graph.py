import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from linkdist import Graph
from linkdist.errors import GraphError


def test_links_stand_once_and_edges_twice_but_for_self_loops():
    graph = Graph.build(np.eye(4), [(2, 1), (1, 2), (0, 3), (3, 3), (3, 3)], [0, 1, 0, -1])
    assert graph.links.tolist() == [[0, 3], [1, 2], [3, 3]]
    assert graph.edges.tolist() == [[0, 3], [1, 2], [2, 1], [3, 0], [3, 3]]
    assert graph.degree == 5 / 4
    assert graph.classes == ("0", "1")


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40))
def test_edges_are_those_of_the_symmetric_adjacency_matrix(pairs):
    graph = Graph.build(np.eye(7), pairs, np.zeros(7, dtype=int))
    adjacency = np.zeros((7, 7), dtype=bool)
    for i, j in pairs:
        adjacency[i, j] = adjacency[j, i] = True
    assert graph.edges.tolist() == np.argwhere(adjacency).tolist()


def test_csr_stays_csr():
    graph = Graph.build(sparse.coo_array(np.eye(3)), [(0, 1)], [0, 0, 0])
    assert isinstance(graph.features, sparse.csr_matrix)
    assert graph.features.dtype == np.float32


def test_all_problems_at_once():
    with pytest.raises(GraphError) as caught:
        Graph.build(
            [[1.0], [np.nan], [2.0]], [(0, 1), (1, 7), (9, 0)], [0, 1, 5], classes=("a", "b")
        )
    message = str(caught.value)
    assert "1 are NaN or infinite" in message
    assert "links must name nodes 0..2; link 1 names [1, 7], 2 such in all" in message
    assert "node 2 has 5" in message


@pytest.mark.parametrize(
    ("features", "edges", "labels", "words"),
    [
        ([1.0, 2.0], [], [0, 0], "must be a table"),
        (np.empty((0, 3)), [], [], "must have rows and columns"),
        (np.eye(2), [(0, 1, 1)], [0, 0], "must be pairs"),
        (np.eye(2), [(0.5, 1.0)], [0, 0], "whole numbers"),
        (np.eye(2), [(0, 1)], [0], "one a node"),
        (np.eye(2), [(0, 1)], [0.5, 1.0], "whole numbers"),
        (np.eye(2), [(0, 1)], [0, -2], "node 1 has -2"),
    ],
)
def test_a_problem_is_named(features, edges, labels, words):
    with pytest.raises(GraphError, match=words):
        Graph.build(features, edges, labels)
