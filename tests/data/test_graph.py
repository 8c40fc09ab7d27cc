import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from linkdist import Graph
from linkdist.errors import GraphError


def test_links_are_unique_and_edges_have_both_directions():
    graph = Graph.build(np.eye(4), [(2, 1), (1, 2), (0, 3), (3, 3), (3, 3)], [0, 1, 0, -1])
    assert graph.links.tolist() == [[0, 3], [1, 2], [3, 3]]
    assert graph.edges.tolist() == [[0, 3], [1, 2], [2, 1], [3, 0], [3, 3]]
    assert graph.degree == 5 / 4
    assert graph.classes == ("0", "1")


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40))
def test_edges_equal_those_of_the_symmetric_adjacency_matrix(pairs):
    graph = Graph.build(np.eye(7), pairs, np.zeros(7, dtype=int))
    adjacency = np.zeros((7, 7), dtype=bool)
    for i, j in pairs:
        adjacency[i, j] = adjacency[j, i] = True
    assert graph.edges.tolist() == np.argwhere(adjacency).tolist()


def test_csr_stays_csr():
    graph = Graph.build(sparse.coo_array(np.eye(3)), [(0, 1)], [0, 0, 0])
    assert isinstance(graph.features, sparse.csr_matrix)
    assert graph.features.dtype == np.float32


def test_all_problems_are_in_one_message():
    with pytest.raises(GraphError) as caught:
        Graph.build(
            [[1.0], [np.nan], [2.0]], [(0, 1), (1, 7), (9, 0)], [0, 1, 5], classes=("a", "b")
        )
    message = str(caught.value)
    assert "1 are NaN or infinite" in message
    assert "links must be pairs of nodes 0..2; link 1 is [1, 7], 2 in total" in message
    assert "node 2 has 5" in message


@pytest.mark.parametrize(
    ("features", "edges", "labels", "words"),
    [
        ([1.0, 2.0], [], [0, 0], "must be a table"),
        (np.empty((0, 3)), [], [], "must have rows and columns"),
        (np.eye(2), [(0, 1, 1)], [0, 0], "must be pairs"),
        (np.eye(2), [(0.5, 1.0)], [0, 0], "pairs of row numbers"),
        (np.eye(2), [(0, 1)], [0], "one entry per node"),
        (np.eye(2), [(0, 1)], [0.5, 1.0], "must be integers"),
        (np.eye(2), [(0, 1)], [0, -2], "node 1 has -2"),
    ],
)
def test_invalid_arrays_are_rejected(features, edges, labels, words):
    with pytest.raises(GraphError, match=words):
        Graph.build(features, edges, labels)


def test_a_graph_is_equal_to_itself_and_can_be_a_key():
    first, second = (Graph.build(np.eye(3), [(0, 1)], [0, 1, -1]) for _ in range(2))
    assert first == first
    assert first != second
    assert {first: "first", second: "second"}[first] == "first"


@pytest.mark.parametrize("labels", [[0, 2_000_000], [2_000_000, -1], [1, 1], [1, 2]])
def test_class_numbers_without_names_have_no_gaps(labels):
    with pytest.raises(GraphError, match=r"numbered 0\.\..*no node has .*pass their names"):
        Graph.build(np.eye(2), [(0, 1)], labels)
    classes = tuple(f"class {i}" for i in range(3))
    if max(labels) < 3:
        assert Graph.build(np.eye(2), [(0, 1)], labels, classes).C == 3


def test_sorted_links_are_not_sorted_again(monkeypatch):
    links = [[0, 1], [0, 2], [1, 1]]
    monkeypatch.setattr("linkdist.data.graph.np.unique", unique := Recorder(np.unique))
    assert Graph.build(np.eye(3), links, [0, 1, -1]).links.tolist() == links
    assert 3 not in unique.sizes
    assert Graph.build(np.eye(3), [[1, 0], *links], [0, 1, -1]).links.tolist() == links
    assert 4 in unique.sizes


class Recorder:
    """Calls a function, and records the sizes of its arguments."""

    def __init__(self, function):
        self.function, self.sizes = function, []

    def __call__(self, array, *args, **options):
        self.sizes.append(len(array))
        return self.function(array, *args, **options)
