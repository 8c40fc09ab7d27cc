import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from linkdist.data import made
from linkdist.data.graph import UNKNOWN
from linkdist.errors import OptionError

MAKERS = (
    made.graph_of_relations,
    made.graph_of_directions,
    made.graph_of_weights,
    made.graph_of_rare_class,
)


@pytest.fixture(scope="module")
def relations():
    return made.graph_of_relations(seed=1)


@pytest.fixture(scope="module")
def directions():
    return made.graph_of_directions(seed=1)


@pytest.fixture(scope="module")
def weights():
    return made.graph_of_weights(seed=1)


@pytest.fixture(scope="module")
def rare():
    return made.graph_of_rare_class(seed=1)


def within(graph, rows):
    """The share of some links that are within a class."""
    a, b = graph.labels[graph.links[rows]].T
    return (a == b).mean()


def averages(graph, rows, ways=("out", "in")):
    """The mean of the neighbours' features by plain sums, times the root of the mean degree."""
    sums, counts = np.zeros((graph.n, graph.d)), np.zeros(graph.n)
    for way in ways:
        a, b = graph.links[rows].T if way == "out" else graph.links[rows].T[::-1]
        np.add.at(sums, a, graph.features[b])
        np.add.at(counts, a, 1)
    return sums / np.maximum(counts, 1)[:, None] * np.sqrt(counts.mean())


def accuracy(graph, split, *columns):
    """The accuracy of logistic regression on columns, on the test nodes in percent."""
    x = np.hstack([graph.features, *columns])
    model = LogisticRegression(C=0.05, max_iter=1000).fit(x[split.train], graph.labels[split.train])
    return 100 * model.score(x[split.test], graph.labels[split.test])


@pytest.mark.parametrize("make", MAKERS)
def test_a_seed_gives_the_same_graph_and_another_seed_another(make):
    first, again, other = (make(seed, n=4000) for seed in (3, 3, 4))
    assert (first.graph.features == again.graph.features).all()
    assert (first.graph.links == again.graph.links).all()
    assert (first.split.train == again.split.train).all()
    assert (first.graph.labels != other.graph.labels).any()


@pytest.mark.parametrize("make", MAKERS)
def test_test_nodes_are_all_nodes_with_a_class_and_no_label_for_training(make):
    graph, split, _ = make(0, n=4000)
    both = np.concatenate([split.train, split.test])
    assert len(split.validation) == 0
    assert sorted(both) == np.flatnonzero(graph.labels != UNKNOWN).tolist()


@pytest.mark.parametrize("homophily", [(0.75, 0.0, 0.2), (0.9, 0.3, 0.5)])
def test_each_relation_has_the_homophily_and_degree_that_were_asked_for(homophily):
    graph, _, helpful = made.graph_of_relations(0, homophily=homophily, degrees=(4, 6, 2))
    for k, degree in enumerate((4, 6, 2)):
        rows = graph.link_relation == k
        assert rows.sum() == 3000 * degree // 2
        assert within(graph, rows) == pytest.approx(homophily[k], abs=1 / rows.sum())
    assert (helpful == (graph.link_relation == 0)).all()


def test_relations_merged_are_almost_random_links(relations):
    graph, _, _ = relations
    assert within(graph, slice(None)) == pytest.approx((0.75 * 5 + 0.2 * 5) / 20, abs=0.01)


def test_merging_relations_costs_ten_points_and_keeping_them_almost_none(relations):
    graph, split, helpful = relations
    each = [averages(graph, graph.link_relation == k) for k in range(3)]
    alone = accuracy(graph, split, averages(graph, helpful))
    assert accuracy(graph, split, *each) > alone - 3
    assert accuracy(graph, split, averages(graph, slice(None))) < alone - 10
    assert accuracy(graph, split) < alone - 10


def test_only_the_nodes_that_a_node_links_to_say_what_its_class_is(directions):
    graph, split, _ = directions
    out, back = (averages(graph, slice(None), [way]) for way in ("out", "in"))
    alone = accuracy(graph, split, out)
    both = averages(graph, slice(None))
    assert accuracy(graph, split, out, back) > accuracy(graph, split, both) + 5
    assert accuracy(graph, split, back) < accuracy(graph, split) + 2
    assert accuracy(graph, split, both) < alone - 10


def test_the_outgoing_links_alone_have_the_same_averages(directions):
    graph, _, _ = directions
    alone = made.outgoing_alone(graph)
    assert (alone.labels[graph.n :] == UNKNOWN).all()
    found = averages(alone, slice(None))[: graph.n]
    expected = averages(graph, slice(None), ["out"])
    ratio = found[expected != 0] / expected[expected != 0]
    assert ratio == pytest.approx(ratio[0])  # the factor is the root of another mean degree


def test_half_of_the_links_are_random_and_of_low_weight(weights):
    graph, split, helpful = weights
    assert helpful.sum() == (~helpful).sum() == 3000 * 5 // 2
    assert within(graph, helpful) == pytest.approx(0.75, abs=1 / helpful.sum())
    shares = np.bincount(graph.labels) / graph.n
    assert within(graph, ~helpful) == pytest.approx((shares**2).sum(), abs=0.02)
    assert graph.link_weights[~helpful].max() <= 0.05
    assert graph.link_weights[helpful].min() >= 0.5
    clean, all_alike = (averages(graph, rows) for rows in (helpful, slice(None)))
    assert accuracy(graph, split, all_alike) < accuracy(graph, split, clean) - 5


def test_the_rare_class_has_its_share_and_links_to_itself(rare):
    graph, split, helpful = rare
    counts = np.bincount(graph.labels)
    assert counts.tolist() == [19950, 50]
    assert np.bincount(graph.labels[split.train]).tolist() == [9975, 25]
    assert helpful.sum() == pytest.approx(50 * 4 / 2, abs=3)  # and perhaps a random one
    beside = graph.labels[graph.links].sum(axis=1)
    assert (beside == 2).sum() == helpful.sum()
    assert (beside == 1).sum() == pytest.approx(50 * 4, abs=5 * np.sqrt(50 * 4))


def test_the_best_score_of_a_rare_class_is_linear(rare):
    graph, _, _ = rare
    common, found = (graph.features[graph.labels == c] for c in (0, 1))
    assert np.abs(np.cov(common.T) - np.eye(graph.d)).max() < 0.05
    assert np.linalg.norm(found.mean(0) - common.mean(0)) == pytest.approx(3, abs=0.6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": 3}, "labels must be from 5 to below the 3000 nodes; found 3."),
        ({"n": 50, "labels": 50}, "labels must be .*; found 50. a node must have .*; found 10."),
        ({"homophily": (1.5, 0.0, -1.0)}, "shares must be from 0 to 1; found 1.5, -1.0."),
    ],
)
def test_options_out_of_range_are_reported_at_once(options, words):
    with pytest.raises(OptionError, match=words):
        made.graph_of_relations(0, **options)
