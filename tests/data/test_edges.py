import networkx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from linkdist.data.edges import as_links, with_own_loops
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


def test_a_networkx_graph_speaks_of_names():
    graph = networkx.Graph([("a", "b"), ("b", "c"), ("c", "gone")])
    links = as_links(graph, 3, nodes=["c", "b", "a"])
    assert sorted(map(sorted, links.tolist())) == [[0, 1], [1, 2]]


def test_a_zero_that_is_stored_is_no_link():
    matrix = sparse.coo_matrix(([0.0, 1.0], ([0, 1], [1, 2])), (3, 3))
    assert as_links(matrix, 3).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        ([[0, 1, 2]], None, r"pairs, \(m, 2\) or \(2, m\); found shape \(1, 3\)"),
        ([[0, 1], [2]], None, "must be pairs"),
        ([("a", "b")], None, "give each row's with nodes="),
        ([(0.5, 1)], None, "whole numbers"),
        (sparse.eye(2), None, "must be 3 by 3, a row and a column a node; found 2 by 2"),
        ([("a", "b")], ["a", "b"], "found 2 names for 3 rows"),
        ([("a", "b")], ["a", "b", "a"], "1 of 3 come twice"),
    ],
)
def test_what_is_wrong_is_said(edges, nodes, message):
    with pytest.raises(GraphError, match=message):
        as_links(edges, 3, nodes)


@given(st.integers(1, 20), st.data())
def test_with_own_loops_every_node_has_a_link(n, data):
    node = st.integers(0, n - 1)
    pairs = data.draw(st.lists(st.tuples(node, node)))
    links = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    whole = with_own_loops(links, n)
    assert set(whole.ravel()) == set(range(n))
    assert whole[: len(links)].tolist() == links.tolist()
    assert all(a == b for a, b in whole[len(links) :].tolist())
