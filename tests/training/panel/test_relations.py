"""Relations and tasks of a whole training. Oracles: graphs whose answer is known, scikit-learn's
logistic regression on the same columns, and formulas of what a result must satisfy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score

from linkdist import Graph, fit
from linkdist.data.links import Links
from linkdist.data.splits import Split, observe, semi_supervised
from linkdist.nn.inputs import make_inputs
from linkdist.training.panel.learning import assemble
from linkdist.training.panel.relations import choose_strengths, relational_teachers
from linkdist.training.panel.replicas import fold_replicas, graph_replicas
from linkdist.training.panel.teachers import STRENGTHS, TeachingContext

CPU = torch.device("cpu")
NONE = np.array([], dtype=np.int64)
N, CLASSES = 240, 3


def linked(random, labels, degree, to):
    """Links from each node to `degree` nodes of the class that `to` gives, or to any."""
    members = [np.flatnonzero(labels == c) for c in range(CLASSES)]
    ends = [
        random.choice(members[to(c)] if to(c) is not None else len(labels), degree) for c in labels
    ]
    return np.stack([np.repeat(np.arange(len(labels)), degree), np.concatenate(ends)], axis=1)


@pytest.fixture(scope="module")
def typed():
    """Links to nodes of the same class, of the next class, and of any class, as relations."""
    random = np.random.default_rng(0)
    labels = np.arange(N) % CLASSES
    parts = [
        linked(random, labels, 3, lambda c: c),
        linked(random, labels, 3, lambda c: None),
    ]
    relation = np.repeat([0, 1], [len(part) for part in parts])
    features = np.eye(CLASSES)[labels] + 1.2 * random.normal(size=(N, CLASSES))
    links = Links(np.concatenate(parts), relation, relations=("like", "any"))
    return Graph.build(features, links, labels)


@pytest.fixture(scope="module")
def split(typed):
    return Split(semi_supervised(typed, 0, 20, 0, 1).train, NONE, NONE)


def test_relations_that_say_nothing_count_for_nothing(typed, split):
    replicas = fold_replicas(typed, split, "transductive", [0])
    taught = sorted({replica.taught_by for replica in replicas})
    views = [replicas[r].view for r in taught]
    context = TeachingContext(typed, views, make_inputs(typed.features, CPU))
    strengths = choose_strengths(typed, replicas, context)
    assert strengths.shape == (len(taught), 2)
    assert (strengths[:, 0] == 1).all()
    assert strengths[:, 1].max() < 0.3


def test_the_relational_teacher_is_logistic_regression_on_the_means_of_each_head(typed, split):
    view = observe(typed, split, "transductive")
    context = TeachingContext(typed, [view], make_inputs(typed.features, CPU))
    x, d = typed.features.astype(float), typed.d
    scale = x.std(axis=0) * np.sqrt(d)
    columns = [(x - x.mean(axis=0)) / scale]
    for k in range(2):
        A = np.zeros((N, N))
        A[tuple(typed.all_edges.of_head(k).pairs.T)] = 1
        np.fill_diagonal(A, 0)
        degree = A.sum(axis=1, keepdims=True)
        columns.append((A / np.maximum(degree, 1) @ x - x.mean(axis=0)) / scale)
    rows = np.concatenate(columns, axis=1)
    for teacher, strength in zip(relational_teachers(context)[:3], STRENGTHS, strict=False):
        exact = LogisticRegression(C=strength, tol=1e-8, max_iter=20_000)
        exact.fit(rows[view.train], typed.labels[view.train])
        found = teacher.scores([0], context.seen)[0].exp().numpy()
        np.testing.assert_allclose(found, exact.predict_proba(rows), atol=5e-3)
    groups = assemble(context)
    assert any("of each relation" in group[0].name for group in groups)


@pytest.fixture(scope="module")
def by_relation(typed, split):
    return fit(typed, split, epochs=15, device="cpu", baselines=False)


def test_alpha_and_worth_tell_the_informative_relation(typed, split, by_relation):
    like, other = by_relation.model.alpha[0].tolist()
    assert like > 0.1
    assert other == 0
    worth = {one.name: one for one in by_relation.estimates.relations}
    assert worth["like"].alpha == pytest.approx(like)
    links = by_relation.estimates.new_rows[1].value
    assert worth["like"].without < links - 0.05
    assert worth["any"].without == pytest.approx(links, abs=0.03)
    p = by_relation.model.predict_proba(typed.features, typed.all_links)
    rest = np.setdiff1d(np.arange(N), split.train)
    assert (p.argmax(1) == typed.labels)[rest].mean() > 0.85


@pytest.mark.parametrize("method", ["linkdist", "colinkdist"])
def test_the_papers_methods_choose_alpha_on_validation_nodes(typed, method):
    split = semi_supervised(typed, 0, 15, 60, 100)
    model = fit(typed, split, method=method, epochs=8, device="cpu").model
    like, other = model.alpha[0].tolist()
    assert like > 0.1
    assert other == 0


def test_a_direction_that_says_nothing_has_no_weight(typed, split):
    """Nodes of class c link to hubs of class c, but hubs are linked by nodes of any class."""
    random = np.random.default_rng(1)
    labels = typed.labels
    hubs = np.concatenate([np.flatnonzero(labels == c)[:8] for c in range(CLASSES)])
    of_class = [hubs[labels[hubs] == c] for c in range(CLASSES)]
    rest = np.setdiff1d(np.arange(N), hubs)
    ends = [random.choice(of_class[labels[i]]) for i in np.repeat(rest, 3)]
    pairs = np.stack([np.repeat(rest, 3), ends], axis=1)
    # Every hub links to nodes of any class, so that what a node is linked by says nothing.
    from_hubs = np.stack([np.repeat(hubs, 30), random.choice(rest, 30 * len(hubs))], axis=1)
    links = Links(np.concatenate([pairs, from_hubs]), directed=True)
    graph = Graph.build(typed.features, links, labels)
    result = fit(graph, split, epochs=15, device="cpu")
    out, into = result.model.alpha[0].tolist()
    assert graph.heads == ("links (out)", "links (in)")
    assert out > 3 * into


def test_several_labels_train_with_thresholds(typed, split):
    labels = np.stack([typed.labels != 0, typed.labels == 2], axis=1).astype(np.int64)
    graph = Graph.build(typed.features, typed.all_links, labels, ("a", "b"), task="multilabel")
    result = fit(graph, split, epochs=15, device="cpu")
    p = result.model.predict_proba(graph.features, graph.all_links)
    thresholds = result.decision.thresholds["links"]
    rest = np.setdiff1d(np.arange(N), split.train)
    assert ((p >= thresholds) == labels)[rest].mean() > 0.85
    assert result.estimates.measure == "micro-f1"
    assert result.model.task == "multilabel"


@pytest.fixture(scope="module")
def smooth(typed):
    """A number that features know and that neighbours share."""
    random = np.random.default_rng(2)
    x = random.normal(size=(N, 4))
    order = np.argsort(x[:, 0])
    near = np.stack([order[:-1], order[1:]], axis=1)
    y = 100 + 20 * (x[:, 0] + 0.5 * x[:, 1])
    return Graph.build(x, near, y, task="regression")


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_numbers_are_predicted_in_their_unit_with_an_interval(smooth, loss):
    train = np.arange(0, N, 2)
    result = fit(smooth, Split(train, NONE, NONE), epochs=60, device="cpu", loss=loss)
    rest = np.setdiff1d(np.arange(N), train)
    for mode, links in (("features", None), ("links", smooth.all_links)):
        found = result.model.predict_proba(smooth.features, links)[:, 0]
        assert r2_score(smooth.labels[rest], found[rest]) > 0.9
        width = result.decision.widths[mode]
        covered = np.abs(found - smooth.labels)[rest] <= width
        assert 0.8 < covered.mean() <= 1
    assert result.estimates.measure == "r2"
    assert result.estimates.new_rows[0].value > 0.85


def test_units_do_not_matter(smooth):
    """A number in other units gives the same model in these units."""
    split = Split(np.arange(0, N, 2), NONE, NONE)
    other = Graph.build(
        smooth.features, smooth.all_links, 1000 * smooth.labels - 5, task="regression"
    )
    one, two = (
        fit(graph, split, epochs=5, device="cpu").model.predict_proba(smooth.features)
        for graph in (smooth, other)
    )
    np.testing.assert_allclose(two, 1000 * one - 5, rtol=1e-3)


def test_whole_graphs_are_held_out():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(6), 20)
    graph = Graph.build(
        random.normal(size=(120, 3)), [(0, 1)], random.integers(0, 2, 120), groups=groups
    )
    split = Split(np.arange(120), NONE, NONE)
    replicas = graph_replicas(graph, split, "transductive", [0])
    validated = [replica for replica in replicas if len(replica.validation)]
    for replica in validated:
        held = np.unique(groups[replica.validation])
        assert not np.isin(held, groups[replica.view.nodes]).any()
        assert np.isin(groups, held).sum() == len(replica.validation)
    everyone = np.concatenate([replica.validation for replica in validated])
    assert np.sort(everyone).tolist() == list(range(120))
    result = fit(graph, split, epochs=1, device="cpu", hold_out_graphs=True)
    assert result.estimates.rows == "rows of other graphs"


def test_rare_classes_of_four_hundred_to_one_are_ranked_first():
    random = np.random.default_rng(0)
    n = 2400
    labels = np.zeros(n, dtype=int)
    labels[random.choice(n, 6, replace=False)] = 1
    x = random.normal(size=(n, 4))
    x[labels == 1, 0] += 6
    graph = Graph.build(x, random.integers(0, n, (n, 2)), labels)
    train = np.sort(np.concatenate([np.flatnonzero(labels)[:4], np.flatnonzero(labels == 0)[:800]]))
    result = fit(
        graph, Split(train, NONE, NONE), epochs=5, device="cpu", metric="average-precision"
    )
    p = result.model.predict_proba(x)[:, 1]
    unseen = np.flatnonzero(labels)[4:]
    rest = np.setdiff1d(np.arange(n), train)
    ranks = np.argsort(-p[rest])
    assert set(rest[ranks[:4]]) >= set(unseen)
    assert result.estimates.measure == "average-precision"
