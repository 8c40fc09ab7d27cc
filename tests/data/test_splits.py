import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist import Graph, full_supervised, observe, semi_supervised
from linkdist.data.graph import largest_component
from linkdist.data.splits import Split, glnn_split
from linkdist.errors import OptionError, SplitError


def parts(split):
    return [split.train, split.validation, split.test]


@given(st.integers(0, 1000))
def test_semi_supervised_draws_disjoint_sets_of_the_requested_sizes(seed):
    labels = np.repeat([0, 1, 2, -1], [30, 40, 3, 20])
    graph = Graph.build(np.ones((93, 1)), [], labels)
    split = semi_supervised(graph, seed, per_class=5, validation=20, test=25)
    assert np.bincount(labels[split.train]).tolist() == [5, 5, 3]
    assert [len(part) for part in parts(split)] == [13, 20, 25]
    drawn = np.concatenate(parts(split))
    assert len(np.unique(drawn)) == len(drawn)
    assert (labels[drawn] >= 0).all()


def test_full_supervised_takes_a_fifth_twice():
    graph = Graph.build(np.ones((13, 1)), [], np.zeros(13, dtype=int))
    split = full_supervised(graph, 0)
    assert [len(part) for part in parts(split)] == [9, 2, 2]
    assert sorted(np.concatenate(parts(split))) == list(range(13))


def test_split_depends_on_the_seed():
    graph = Graph.build(np.ones((50, 1)), [], np.arange(50) % 2)
    first, again, other = (full_supervised(graph, seed).test.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_impossible_splits_are_rejected():
    graph = Graph.build(np.ones((30, 1)), [], np.zeros(30, dtype=int), name="small")
    with pytest.raises(SplitError, match=r"small: 500 validation .* 10 labelled nodes remain"):
        semi_supervised(graph, 0)
    with pytest.raises(SplitError, match="less than one node"):
        full_supervised(Graph.build(np.ones((3, 1)), [], [0, 1, 0]), 0)


def test_views_of_a_small_graph():
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (2, 2)]
    graph = Graph.build(np.eye(5), edges, [0, 1, 0, 1, 0])
    split = Split(np.array([0, 2]), np.array([4]), np.array([1]))
    view = observe(graph, split, "inductive")
    assert view.nodes.tolist() == [0, 2, 3]
    assert view.edges.tolist() == [[2, 2], [2, 3], [3, 2]]
    assert view.labels.tolist() == [0, -1, 0, -1, -1]
    assert view.train.tolist() == [0, 2]
    for setting in ("transductive", "full-supervised"):
        view = observe(graph, split, setting)
        assert view.nodes.tolist() == [0, 1, 2, 3, 4]
        assert view.edges.tolist() == graph.edges.tolist()
        assert view.labels.tolist() == [0, -1, 0, -1, -1]


def test_unknown_setting_is_rejected_with_a_suggestion(planted):
    with pytest.raises(OptionError, match=r"'transductiv' \(near: transductive"):
        observe(planted, full_supervised(planted, 0), "transductiv")


@given(st.integers(0, 1000))
def test_glnn_split_draws_20_and_30_nodes_per_class(seed):
    labels = np.repeat([0, 1, -1], [80, 120, 7])
    graph = Graph.build(np.ones((207, 1)), [], labels)
    whole = glnn_split(graph, "transductive", seed)
    assert np.bincount(labels[whole.train]).tolist() == [20, 20]
    assert np.bincount(labels[whole.validation]).tolist() == [30, 30]
    assert sorted(np.concatenate(parts(whole))) == list(range(200))
    hidden = glnn_split(graph, "production", seed)
    assert set(hidden.test) < set(whole.test)
    assert len(hidden.test) == len(whole.test) // 5


def test_production_hides_only_the_test_nodes():
    graph = Graph.build(np.eye(4), [(0, 1), (1, 2), (2, 3)], [0, 1, 0, 1])
    split = Split(np.array([0]), np.array([1]), np.array([3]))
    view = observe(graph, split, "production")
    assert view.nodes.tolist() == [0, 1, 2]
    assert view.edges.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert view.labels.tolist() == [0, -1, -1, -1]


def test_glnn_split_rejects_small_classes():
    graph = Graph.build(np.ones((130, 1)), [], np.repeat([0, 1], [80, 50]), ("many", "few"))
    with pytest.raises(SplitError, match="50 or fewer of few"):
        glnn_split(graph, "transductive", 0)


def test_largest_component_equals_that_of_networkx():
    nx = pytest.importorskip("networkx")
    random = np.random.default_rng(0)
    graph = Graph.build(
        np.arange(90.0)[:, None], random.integers(0, 90, (50, 2)), np.zeros(90, int)
    )
    part = largest_component(graph)
    other = nx.Graph(graph.links.tolist())
    expected = sorted(max(nx.connected_components(other), key=len))
    assert part.features[:, 0].tolist() == expected
    inner = other.subgraph(expected)
    links = {tuple(sorted(link)) for link in inner.edges if link[0] != link[1]}
    assert {tuple(np.array(expected)[link]) for link in part.links} == links
