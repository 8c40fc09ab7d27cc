import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist import Graph, full_supervised, observe, semi_supervised
from linkdist.errors import OptionError, SplitError
from linkdist.splits import Split


def parts(split):
    return [split.train, split.validation, split.test]


@given(st.integers(0, 1000))
def test_semi_supervised_draws_disjoint_sets_of_the_asked_sizes(seed):
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


def test_another_seed_is_another_split():
    graph = Graph.build(np.ones((50, 1)), [], np.arange(50) % 2)
    first, again, other = (full_supervised(graph, seed).test.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_what_cannot_be_drawn_is_said():
    graph = Graph.build(np.ones((30, 1)), [], np.zeros(30, dtype=int), name="small")
    with pytest.raises(SplitError, match=r"small: 500 validation .* 10 labelled nodes are left"):
        semi_supervised(graph, 0)
    with pytest.raises(SplitError, match="not one node"):
        full_supervised(Graph.build(np.ones((3, 1)), [], [0, 1, 0]), 0)


def test_views_by_hand():
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


def test_unknown_setting_gets_the_near_one(planted):
    with pytest.raises(OptionError, match=r"'transductiv' \(near: transductive"):
        observe(planted, full_supervised(planted, 0), "transductiv")
