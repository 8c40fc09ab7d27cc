"""Oracles: the targets and means of the same graph in memory."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch

from linkdist.data.graph import Graph
from linkdist.data.links import Links
from linkdist.distributed.panel import targets as module
from linkdist.distributed.panel.averages import degrees
from linkdist.distributed.panel.targets import Labels, Mixture, write_beside, write_targets
from linkdist.distributed.panel.workshop import Seen
from linkdist.nn.aggregation import VisibleNeighbours, relations_of
from linkdist.store.format import buckets
from linkdist.store.reader import Bucket, Store
from linkdist.training.panel.ensemble import TeacherEnsemble, TeacherWeight
from linkdist.training.panel.fitting import Units
from linkdist.training.panel.learning import assemble
from linkdist.training.panel.teachers import masks
from tests.distributed.panel.graphs import CPU, in_parts, random_graph, random_parts
from tests.distributed.panel.prepared import circle, prepare

NEW, KNOWN, KEPT = 2, 7, 10
"""A replica of each kind; the first two have the same fold."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("panel"))


def with_weights(ensemble, weights):
    """Let all replicas use each group with a calibration and a weight."""
    ensemble.weights = [
        [
            TeacherWeight(len(group) // 2, np.array([0.7 + 0.1 * g, 0.2]), w)
            for g, (group, w) in enumerate(zip(ensemble.groups, weights, strict=True))
        ]
        for _ in ensemble.replicas
    ]
    return ensemble


def both(prepared, weights):
    """The mixture of a store, and the ensemble of the graph in memory, with the same weights."""
    graph, context = prepared.sample.graph, prepared.in_memory
    theirs = TeacherEnsemble(graph, prepared.sample.replicas, context, assemble(context))
    ours = with_weights(prepared.ensemble, weights)
    views = prepared.sample.views
    kept = [5 if replica.kind == "known row" else view
            for replica, view in zip(prepared.sample.replicas, views, strict=True)]  # fmt: skip
    ours.estimated_prior = [None] * len(views)
    return Mixture(ours, kept), with_weights(theirs, weights)


def written(prepared, mixture, folder, smooth=False):
    workshop = prepared.placed.workshop(folder)
    found = write_targets(workshop, mixture, prepared.sample, Units(), smooth)
    return workshop, found


def test_targets_are_those_of_the_graph_in_memory(prepared, tmp_path):
    weights = [0.1, 0.2, 0.25, 0.15, 0.1, 0.1, 0.1]
    mixture, theirs = both(prepared, weights)
    _, found = written(prepared, mixture, tmp_path)
    expected = theirs.targets()
    for r in (0, NEW, KEPT):
        torch.testing.assert_close(prepared.gather(found[r]), expected[r], rtol=0, atol=0.01)
    # Without label spreading and boosting on float16, replicas that see all nodes agree as well.
    mixture, theirs = both(prepared, [0.3, 0.2, 0.2, 0.2, 0.0, 0.1, 0.0])
    _, found = written(prepared, mixture, tmp_path / "known")
    expected = theirs.targets()
    torch.testing.assert_close(prepared.gather(found[KNOWN]), expected[KNOWN], rtol=0, atol=0.01)


@pytest.mark.parametrize("smooth", [False, True])
def test_known_labels_are_their_own_targets(prepared, tmp_path, smooth):
    mixture, _ = both(prepared, [1 / 7] * 7)
    _, found = written(prepared, mixture, tmp_path, smooth)
    for r in (NEW, KNOWN, KEPT):
        replica = prepared.sample.replicas[r]
        known, y = replica.view.train, prepared.sample.graph.labels
        targets = prepared.gather(found[r]).numpy()
        np.testing.assert_allclose(targets.sum(1), 1, atol=3e-3)
        one_hot = np.eye(3)[y[known]]
        assert np.array_equal(targets[known], one_hot) == (not smooth)
        assert not np.isin(targets[replica.validation], [0, 1]).any()


def test_rows_are_predicted_in_pieces_of_any_size(prepared, monkeypatch):
    mixture, _ = both(prepared, [1 / 7] * 7)
    whole = mixture.part(prepared.placed.store, 1, KEPT)
    monkeypatch.setattr(module, "CHUNK", 7 * module.WIDTH)
    torch.testing.assert_close(mixture.part(prepared.placed.store, 1, KEPT), whole)


def test_labels_of_a_view_are_those_it_knows(prepared):
    for r in (NEW, KNOWN, KEPT):
        replica = prepared.sample.replicas[r]
        store = prepared.placed.store
        labels = Labels(store, prepared.sample.withheld(replica), Units())
        found = np.concatenate([labels.read(part) for part in range(store.P)])
        assert np.array_equal(found, replica.view.labels)


def test_numbers_are_in_units_of_their_deviation():
    class Numbers:
        task, labels = "regression", staticmethod(lambda part: np.array([1.0, np.nan, 5.0]))

    found = Labels(Numbers, {0: np.array([2])}, Units(3.0, 2.0)).read(0)
    np.testing.assert_array_equal(found, [-1.0, np.nan, np.nan])


def balanced_labels(graph):
    """Seven labels of each class; the first classes have more nodes."""
    labels = np.full(graph.n, -1)
    for c in range(graph.C):
        rows = np.flatnonzero(graph.labels == c)
        labels[rows[:: max(1, len(rows) // 7)][:7]] = c
    labels[-2:] = -1
    return labels


def unequal_circle():
    """A circle on which the classes have shares of 4 : 2 : 1."""
    graph = circle(n=142)
    random = np.random.default_rng(1)
    labels = np.array([0, 0, 0, 0, 1, 1, 2])[np.arange(142) // 4 % 7]
    features = np.rint(random.normal(size=(142, 4)) * 2 + np.eye(3, 4)[labels] * 4)
    links = np.concatenate([graph.links, [[140, 0], [141, 1]]])
    return Graph.build(features, links, labels)


@pytest.fixture(scope="module")
def balanced(tmp_path_factory):
    graph = unequal_circle()
    labels, folder = balanced_labels(graph), tmp_path_factory.mktemp("panel")
    return prepare(folder, P=1, graph=graph, labels=labels)


def test_balanced_labels_let_the_shares_of_classes_be_estimated(balanced):
    mixture, theirs = both(balanced, [1 / 7] * 7)
    replicas = balanced.sample.replicas
    hidden = [balanced.sample.hidden(replica) for replica in replicas]
    assert mixture.ensemble.is_balanced(KEPT)
    mixture.estimate_priors(balanced.placed.store, hidden)
    # The informativeness is that of teachers on the same sample, up to their validation scores.
    theirs.scores = mixture.ensemble.scores
    theirs.targets()
    for r in range(len(replicas)):
        ours, expected = mixture.ensemble.estimated_prior[r], theirs.estimated_prior[r]
        assert (ours is None) == (expected is None)
        if ours is not None and replicas[r].kind != "known row":
            np.testing.assert_allclose(np.exp(ours), np.exp(expected), atol=0.005)
    shares = np.exp(mixture.ensemble.estimated_prior[KEPT])
    assert shares[0] > 1 / 3 > shares[2]


def test_hidden_rows_do_not_estimate_the_shares_of_classes(balanced):
    mixture, _ = both(balanced, [1, 0, 0, 0, 0, 0, 0])
    rows = np.arange(0, balanced.placed.store.n, 3)
    hidden = [{0: rows}] * len(balanced.sample.replicas)
    with mock.patch.object(module, "class_shares", side_effect=lambda _, r, p: p) as shares:
        mixture.estimate_priors(balanced.placed.store, hidden)
    mixture.ensemble.estimated_prior = [None] * len(hidden)
    assert shares.called
    for call in shares.call_args_list:
        _, r, p = call.args
        expected = mixture.part(balanced.placed.store, 0, r).numpy()
        np.testing.assert_allclose(p, np.delete(expected, rows, axis=0), atol=1e-3)


def random_targets(store, workshop, R, seed=0):
    random, found = np.random.default_rng(seed), []
    for r in range(R):
        found.append(workshop.columns(f"targets.{r}", 3))
        for part, n in enumerate(store.manifest.sizes):
            found[-1].write(part, torch.from_numpy(random.dirichlet(np.ones(3), n)))
    return found


@pytest.mark.parametrize("P", [1, 4])
def test_means_of_targets_are_those_of_the_graph_in_memory(tmp_path, P):
    graph = random_graph(n=60, links=90, seed=4)
    placed = in_parts(graph, random_parts(60, P), tmp_path / "store")
    workshop = placed.workshop(tmp_path / "arrays")
    nodes = [np.array([], dtype=int), np.array([3, 8, 9, 22, 58])]
    hidden = [placed.rows(each) for each in nodes]
    own = random_targets(placed.store, workshop, 2)
    views = [Seen(each, degrees(workshop, f"degree.{r}", each)) for r, each in enumerate(hidden)]
    beside = write_beside(workshop, own, views)
    visible = masks([np.setdiff1d(np.arange(60), each) for each in nodes], 60)
    seen = VisibleNeighbours(relations_of(graph, 60, CPU), visible)
    targets = torch.stack([placed.gather(each) for each in own])
    expected = torch.where(seen.linked[0], seen.means(targets.unsqueeze(0))[0], targets)
    assert not seen.linked[0].all()
    for r, (found,) in enumerate(beside):
        torch.testing.assert_close(placed.gather(found), expected[r], rtol=2e-3, atol=2e-3)


def directed_bucket(store, a, b):
    """Two relations of directed links with weights, which depend on the rows of a link."""
    pairs = store.links(a, b)
    heads = ((pairs.sum(1) % 2) * 2 + pairs[:, 0] % 2).astype(np.uint8)
    return Bucket(pairs, heads, (1 + pairs.sum(1) % 3).astype(np.float32))


@pytest.fixture
def directed(monkeypatch):
    """Let stores have such links."""
    names = ("a (out)", "a (in)", "b (out)", "b (in)")
    monkeypatch.setattr(Store, "heads", property(lambda _: names))
    monkeypatch.setattr(Store, "relations", property(lambda _: ("a", "b")))
    monkeypatch.setattr(Store, "directed", property(lambda _: True))
    monkeypatch.setattr(Store, "weighted", property(lambda _: True))
    monkeypatch.setattr(Store, "bucket", directed_bucket)


def directed_links(placed):
    """The links of a directed store between nodes of the graph."""
    pairs, relation, weights = [], [], []
    for a, b in buckets(placed.store.P):
        own, heads, by = placed.store.bucket(a, b)
        ends = np.stack([(part << 32) + own[:, k].astype(np.int64)
                         for k, part in enumerate((a, b))], axis=1)  # fmt: skip
        back = heads % 2 == 1
        ends[back] = ends[back, ::-1]
        node = np.argsort(placed.numbers)[np.searchsorted(np.sort(placed.numbers), ends)]
        pairs, relation, weights = [*pairs, node], [*relation, heads // 2], [*weights, by]
    joined = (np.concatenate(part) for part in (pairs, relation, weights))
    pairs, relation, weights = joined
    return Links(pairs, relation.astype(np.int64), weights, ("a", "b"), directed=True)


@pytest.mark.usefixtures("directed")
def test_a_head_learns_the_nodes_at_the_other_end_of_its_links(tmp_path):
    """In memory, head k draws a neighbour over the edges of the opposite direction."""
    graph = random_graph(n=40, links=80, seed=6)
    pairs = graph.links[graph.links[:, 0] != graph.links[:, 1]]
    graph = Graph.build(graph.features, pairs, graph.labels)
    placed = in_parts(graph, random_parts(40, 3), tmp_path / "store")
    workshop = placed.workshop(tmp_path / "arrays")
    own = random_targets(placed.store, workshop, 1)
    degree = degrees(workshop, "degree", {})
    (beside,) = write_beside(workshop, own, [Seen({}, degree)])
    links, targets = directed_links(placed), placed.gather(own[0]).numpy()
    edges = links.edges()
    for k, found in enumerate(beside):
        other = edges.of_head(k ^ 1)
        sums, count = np.zeros((40, 3)), np.zeros((40, 1))
        np.add.at(sums, other.pairs[:, 0], other.weights[:, None] * targets[other.pairs[:, 1]])
        np.add.at(count, other.pairs[:, 0], other.weights[:, None])
        with np.errstate(invalid="ignore"):
            expected = np.where(count > 0, sums / count, np.nan)
        np.testing.assert_allclose(placed.gather(found).numpy(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.usefixtures("directed")
def test_degrees_and_averages_of_several_heads(tmp_path):
    graph = random_graph(n=40, links=80, seed=6)
    pairs = graph.links[graph.links[:, 0] != graph.links[:, 1]]
    graph = Graph.build(graph.features, pairs, graph.labels)
    placed = in_parts(graph, random_parts(40, 3), tmp_path / "store")
    links = directed_links(placed)
    scaled = Links(links.pairs, links.relation, links.weights / links.weights.mean(),
                   links.relations, directed=True)  # fmt: skip
    hidden = np.array([1, 5, 30])
    found = degrees(placed.workshop(tmp_path / "arrays"), "degree", placed.rows(hidden))
    visible = masks([np.setdiff1d(np.arange(40), hidden)], 40)
    seen = VisibleNeighbours(relations_of(scaled, 40, CPU), visible)
    expected = torch.cat([part[0] for part in seen.degrees], dim=1)
    torch.testing.assert_close(placed.gather(found), expected)
