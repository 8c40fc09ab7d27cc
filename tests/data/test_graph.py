import networkx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from linkdist import Graph
from linkdist.data.interchange import as_links
from linkdist.data.links import both_directions, with_own_loops
from linkdist.errors import GraphError

PAIRS = np.array([[0, 1], [2, 3], [3, 0]])


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


@pytest.mark.parametrize(
    "form",
    [
        PAIRS,
        PAIRS.T,
        PAIRS.tolist(),
        PAIRS.astype(float),
        torch.from_numpy(PAIRS),
        torch.from_numpy(PAIRS.T.copy()),
        sparse.csr_matrix((np.ones(3), (PAIRS[:, 0], PAIRS[:, 1])), (4, 4)),
    ],
)
def test_every_form_gives_the_same_links(form):
    assert sorted(as_links(form, 4).pairs.tolist()) == PAIRS.tolist()


def test_links_of_a_networkx_graph_refer_to_names():
    graph = networkx.Graph([("a", "b"), ("b", "c"), ("c", "gone")])
    links = as_links(graph, 3, nodes=["c", "b", "a"])
    assert sorted(map(sorted, links.pairs.tolist())) == [[0, 1], [1, 2]]


def test_stored_zero_is_not_a_link():
    matrix = sparse.coo_matrix(([0.0, 1.0], ([0, 1], [1, 2])), (3, 3))
    assert as_links(matrix, 3).pairs.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        ([[0, 1, 2]], None, r"pairs, \(m, 2\) or \(2, m\); found shape \(1, 3\)"),
        ([[0, 1], [2]], None, "must be pairs"),
        ([("a", "b")], None, "pass the name of each row with nodes="),
        ([(0.5, 1)], None, "pairs of row numbers"),
        (sparse.eye(2), None, "one row and one column per node, 3 by 3; found 2 by 2"),
        ([("a", "b")], ["a", "b"], "found 2 names for 3 rows"),
        ([("a", "b")], ["a", "b", "a"], "1 of 3 are duplicates"),
    ],
)
def test_invalid_links_are_rejected(edges, nodes, message):
    with pytest.raises(GraphError, match=message):
        as_links(edges, 3, nodes)


@given(st.integers(1, 20), st.data())
def test_every_node_has_a_link_with_own_loops(n, data):
    node = st.integers(0, n - 1)
    pairs = data.draw(st.lists(st.tuples(node, node)))
    links = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    whole = with_own_loops(links, n)
    assert set(whole.ravel()) == set(range(n))
    added = ~np.isin(whole, links).any(axis=1)
    assert whole[~added].tolist() == links.tolist()
    assert whole[added].tolist() == [[node, node] for node in range(n) if node not in links]


@given(st.integers(1, 20), st.data())
def test_sorted_links_stay_sorted_with_own_loops(n, data):
    node = st.integers(0, n - 1)
    pairs = data.draw(st.sets(st.tuples(node, node).map(lambda pair: tuple(sorted(pair)))))
    whole = with_own_loops(np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2), n)
    assert whole.tolist() == sorted(whole.tolist())


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))), st.sampled_from(["i4", "i8"]))
def test_both_directions_equal_those_of_networkx(pairs, dtype):
    links = np.array(sorted(set(map(tuple, map(sorted, pairs)))), dtype=dtype).reshape(-1, 2)
    found = both_directions(links)
    assert found.dtype == links.dtype
    assert found[: len(links)].tolist() == links.tolist()
    expected = networkx.Graph(links.tolist()).to_directed().edges
    assert sorted(map(tuple, found.tolist())) == sorted(expected)
