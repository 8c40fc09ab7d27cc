import networkx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from linkdist.data.edges import as_links, both_directions, with_own_loops
from linkdist.errors import GraphError

PAIRS = np.array([[0, 1], [2, 3], [3, 0]])


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
    assert sorted(as_links(form, 4).tolist()) == PAIRS.tolist()


def test_links_of_a_networkx_graph_refer_to_names():
    graph = networkx.Graph([("a", "b"), ("b", "c"), ("c", "gone")])
    links = as_links(graph, 3, nodes=["c", "b", "a"])
    assert sorted(map(sorted, links.tolist())) == [[0, 1], [1, 2]]


def test_stored_zero_is_not_a_link():
    matrix = sparse.coo_matrix(([0.0, 1.0], ([0, 1], [1, 2])), (3, 3))
    assert as_links(matrix, 3).tolist() == [[1, 2]]


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
