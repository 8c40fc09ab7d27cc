"""Oracles: dense matrices in NumPy, scikit-learn's classifiers, what is hidden scrambled."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from linkdist import Graph
from linkdist.data.splits import Split, observe
from linkdist.nn.aggregation import VisibleNeighbours, relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.training.panel import teachers
from linkdist.training.panel.estimators import (
    SPREADING,
    STEPS,
    Estimator,
    LabelSpreading,
    boosting_teachers,
    can_boost,
)
from linkdist.training.panel.learning import assemble
from linkdist.training.panel.teachers import (
    HOPS,
    RESTART,
    STRENGTHS,
    TeachingContext,
    averaged_rows,
    linear_teachers,
)

CPU = torch.device("cpu")
KINDS = ("wordy", "broad", "narrow")


def views_of(graph, setting="inductive", train=(30, 30)):
    """Views that see other nodes and know other labels; the last node is always there."""
    random = np.random.default_rng(3)
    found = []
    for size in train:
        order = random.permutation(graph.n - 1)
        split = Split(np.sort(order[:size]), np.array([], dtype=int), np.sort(order[size:55]))
        found.append(observe(graph, split, setting))
    return found


def context_of(graph, *args, **options):
    return TeachingContext(
        graph, views_of(graph, *args, **options), make_inputs(graph.features, CPU)
    )


def adjacency(graph):
    found = np.zeros((graph.n, graph.n))
    found[tuple(graph.edges.T)] = 1
    np.fill_diagonal(found, 0)
    return found


def smoothing(graph, nodes):
    """(D + I)⁻¹ (A + I), of whose columns some are hidden but for the diagonal."""
    there = np.isin(np.arange(graph.n), nodes)
    found = adjacency(graph) * there + np.eye(graph.n)
    return found / found.sum(axis=1, keepdims=True)


def over_hops(P, x, hops):
    y = x
    for _ in range(hops):
        y = P @ y if hops <= 2 else (1 - RESTART) * P @ y + RESTART * x
    return y


def rows_by_numpy(graph, view, hops, present=None):
    """Averaged rows, as a linear teacher reads them."""
    x = graph.features
    P = smoothing(graph, view.nodes if present is None else present)
    if sparse.issparse(x):
        x = x.toarray()
        return over_hops(P, x / np.linalg.norm(x, axis=1, keepdims=True), hops)
    seen = x[view.nodes].astype(float)
    standard = (x - seen.mean(axis=0)) / seen.std(axis=0) / np.sqrt(graph.d)
    return over_hops(P, standard, hops)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hops", HOPS)
def test_averaged_rows_are_those_of_numpy(request, kind, hops):
    graph = request.getfixturevalue(kind)
    context = context_of(graph)
    mean, spread = context.centre
    found = (averaged_rows(context, hops) - mean) / spread
    for row, view in zip(found.numpy(), context.views, strict=True):
        expected = rows_by_numpy(graph, view, hops)[view.train]
        np.testing.assert_allclose(row, expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hops", HOPS)
def test_linear_teachers_predict_as_scikit_learn_does(request, kind, hops):
    """Over the links of the view, and over those of all nodes."""
    graph = request.getfixturevalue(kind)
    context = context_of(graph)
    everyone = np.arange(graph.n)
    wide = context.among([everyone, everyone], [0, 1])
    for teacher in linear_teachers(context, [hops])[0][:3]:
        own, all_ = (teacher.scores([0, 1], seen).exp().numpy() for seen in (context.seen, wide))
        for t, view in enumerate(context.views):
            x = rows_by_numpy(graph, view, hops)
            template = LogisticRegression(C=teacher.strength, tol=1e-8, max_iter=20_000)
            expected = template.fit(x[view.train], graph.labels[view.train])
            at = view.nodes
            np.testing.assert_allclose(own[t, at], expected.predict_proba(x[at]), atol=5e-3)
            over = rows_by_numpy(graph, view, hops, present=everyone)
            np.testing.assert_allclose(all_[t], expected.predict_proba(over), atol=5e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hops", [0, 8])
def test_rows_that_are_not_stored_down_make_the_same_teachers(request, kind, hops, monkeypatch):
    graph = request.getfixturevalue(kind)
    context = context_of(graph)
    stored = linear_teachers(context, [hops])[0]
    monkeypatch.setattr(teachers, "STORED", {"cpu": 0})
    assert averaged_rows(context, hops) is None
    for a, b in zip(stored[:3], linear_teachers(context, [hops])[0], strict=False):
        p, q = (teacher.scores([0, 1], context.seen).exp() for teacher in (a, b))
        torch.testing.assert_close(p, q, rtol=0, atol=5e-3)


def test_there_is_a_linear_teacher_of_each_strength(wordy):
    groups = linear_teachers(context_of(wordy))
    assert [[teacher.strength for teacher in group] for group in groups] == [list(STRENGTHS)] * 4
    assert [group[0].hops for group in groups] == list(HOPS)


def test_views_side_by_side_have_the_same_teachers_as_alone(wordy):
    context = context_of(wordy, train=(30, 20))
    together = linear_teachers(context)
    for t, view in enumerate(context.views):
        alone = TeachingContext(wordy, [view], context.inputs)
        for group, single in zip(together, linear_teachers(alone), strict=True):
            for a, b in zip(group[:3], single[:3], strict=True):
                found = a.scores([t], alone.seen).exp()
                torch.testing.assert_close(
                    found, b.scores([0], alone.seen).exp(), rtol=0, atol=5e-3
                )


def scrambled(graph, hidden, size=100.0):
    """Other features for some nodes; sparse ones stay as sparse."""
    random = np.random.default_rng(9)
    x = graph.features
    if sparse.issparse(x):
        x = x.tolil()
        x[hidden] = random.permuted(graph.features.toarray()[hidden], axis=1)
        x = x.tocsr()
    else:
        x = x.copy()
        x[hidden] = size * random.normal(size=(len(hidden), graph.d))
    return Graph.build(x, graph.links, graph.labels)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_view_does_not_see_cannot_change_its_teachers(request, kind):
    """Scrambled features of hidden nodes, and their links to others."""
    graph = request.getfixturevalue(kind)
    (view,) = views_of(graph, train=(30,))
    hidden = np.setdiff1d(np.arange(graph.n), view.nodes)
    other = scrambled(graph, hidden)
    away = ~np.isin(graph.links, hidden).any(axis=1)
    random = np.random.default_rng(4)
    strange = np.stack([random.choice(hidden, 60), random.integers(0, graph.n, 60)], axis=1)
    other = Graph.build(other.features, np.concatenate([graph.links[away], strange]), graph.labels)
    both = []
    for some in (graph, other):
        seen = observe(some, Split(view.train, hidden, np.array([], dtype=int)), "inductive")
        assert (seen.nodes == view.nodes).all()
        context = TeachingContext(some, [seen], make_inputs(some.features, CPU))
        groups = assemble(context, [KNeighborsClassifier(3)])
        both.append([[t.scores([0], context.seen) for t in group] for group in groups])
    for one, two in zip(*both, strict=True):
        for a, b in zip(one, two, strict=True):
            assert torch.equal(a[:, view.nodes], b[:, view.nodes])


@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_first_node_cannot_matter_where_another_view_has_more_labels(request, kind):
    """Shorter lists of labelled nodes are filled up with the first node."""
    graph = request.getfixturevalue(kind)
    none = np.array([], dtype=int)
    splits = [Split(np.arange(1, size), none, np.array([0])) for size in (40, 20)]
    found = []
    for some in (graph, scrambled(graph, np.array([0]), size=1e6)):
        views = [observe(some, split, "inductive") for split in splits]
        context = TeachingContext(some, views, make_inputs(some.features, CPU))
        groups = linear_teachers(context)
        log_p = [t.scores([0, 1], context.seen)[:, 1:] for group in groups for t in group[:3]]
        found.append(torch.stack(log_p).exp())
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=5e-3)


def test_label_spreading_is_the_dense_iteration(wordy):
    context = context_of(wordy)
    found = (
        LabelSpreading(context)
        .scores([1, 0], context.among([context.views[t].nodes for t in (1, 0)], (1, 0)))
        .exp()
    )
    for p, view in zip(found.numpy(), context.views[::-1], strict=True):
        there = np.isin(np.arange(wordy.n), view.nodes)
        A = adjacency(wordy) * there
        P = A / np.maximum(A.sum(axis=1, keepdims=True), 1)
        known = np.eye(3)[view.labels] * (view.labels >= 0)[:, None]
        flow = known
        for _ in range(STEPS):
            flow = SPREADING * P @ flow + (1 - SPREADING) * known
        flow = flow + 1e-3 * known.sum(axis=0) / known.sum()
        np.testing.assert_allclose(p, flow / flow.sum(axis=1, keepdims=True), atol=1e-5)
        # The last node has no links: all that is known are the labels' shares.
        np.testing.assert_allclose(p[-1], known.sum(axis=0) / known.sum(), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_classifier_on_features_is_the_classifier_itself(request, kind):
    graph = request.getfixturevalue(kind)
    context = context_of(graph)
    teacher = Estimator(context, KNeighborsClassifier(5), "neighbours")
    found = (
        teacher.scores(
            [1, 0, 1], context.among([context.views[t].nodes for t in (1, 0, 1)], (1, 0, 1))
        )
        .exp()
        .numpy()
    )
    for p, t in zip(found, [1, 0, 1], strict=True):
        train = context.views[t].train
        alone = KNeighborsClassifier(5).fit(graph.features[train], graph.labels[train])
        np.testing.assert_allclose(p, alone.predict_proba(graph.features), atol=3e-4)
        assert p.min() > 0


def test_gradient_boosting_reads_columns_and_their_neighbours_means(narrow):
    context = context_of(narrow, train=(40,))
    view = context.views[0]
    alone, linked = boosting_teachers(context)
    A = adjacency(narrow) * np.isin(np.arange(narrow.n), view.nodes)
    P = A / np.maximum(A.sum(axis=1, keepdims=True), 1)
    x = narrow.features
    beside = np.concatenate([x, P @ x, P @ P @ x], axis=1).astype(np.float32)
    for teacher, columns in ((alone, x), (linked, beside)):
        fresh = HistGradientBoostingClassifier(**teacher.fitted[0][0].get_params())
        expected = fresh.fit(columns[view.train], narrow.labels[view.train])
        found = teacher.scores([0], context.seen)[0].exp().numpy()
        agree = found.argmax(axis=1) == expected.predict(columns)
        assert agree[view.nodes].mean() > 0.95


def without_class(graph, classes):
    """A view whose labels are of some classes alone."""
    few = np.concatenate([np.flatnonzero(graph.labels == c)[:8] for c in classes])
    none = np.array([], dtype=int)
    return observe(graph, Split(np.sort(few), none, none), "transductive")


TEACHERS = {
    "linear": lambda context: [t for group in linear_teachers(context) for t in group],
    "spreading": lambda context: [LabelSpreading(context)],
    "boosting": boosting_teachers,
    "neighbours": lambda context: [Estimator(context, KNeighborsClassifier(3), "neighbours")],
}


@pytest.mark.parametrize("classes", [(0, 2), (1,)])
@pytest.mark.parametrize("teachers_of", TEACHERS.values(), ids=TEACHERS)
def test_a_class_without_labels_gets_a_small_probability(narrow, teachers_of, classes):
    view = without_class(narrow, classes)
    context = TeachingContext(narrow, [view], make_inputs(narrow.features, CPU))
    absent = np.setdiff1d(np.arange(3), classes)
    for teacher in teachers_of(context):
        p = teacher.scores([0], context.seen)[0].exp()
        assert p.isfinite().all()
        assert p[:, absent].max() < 0.05


def test_a_users_classifier_that_wants_two_classes_can_do_with_one(wordy):
    view = without_class(wordy, [1])
    context = TeachingContext(wordy, [view], make_inputs(wordy.features, CPU))
    found = Estimator(context, LogisticRegression(), "regression").scores([0], context.seen)[0]
    assert found.isfinite().all()
    assert (found.argmax(-1) == 1).all()


@pytest.fixture
def some_hidden(wordy):
    """Neighbours of which two replicas see some, and the same as dense matrices."""
    visible = np.random.default_rng(6).random((2, wordy.n)) < 0.6
    around = VisibleNeighbours(relations_of(wordy, wordy.n, CPU), torch.from_numpy(visible))
    x = torch.from_numpy(np.random.default_rng(7).normal(size=(2, wordy.n, 4))).float()
    return around, x, [adjacency(wordy) * row for row in visible], visible


def test_visible_neighbours_mean_is_that_of_dense_matrices(some_hidden):
    around, x, matrices, _ = some_hidden
    for found, A, rows in zip(around.mean(x).numpy(), matrices, x.numpy(), strict=True):
        expected = A @ rows / np.maximum(A.sum(axis=1, keepdims=True), 1)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert (found[-1] == 0).all()


def test_smoothing_and_its_transpose_are_those_of_dense_matrices(wordy, some_hidden):
    around, x, _, visible = some_hidden
    forth, back = around.smooth(x).numpy(), around.smooth_transposed(x).numpy()
    for r in range(2):
        P = smoothing(wordy, np.flatnonzero(visible[r]))
        np.testing.assert_allclose(forth[r], P @ x[r].numpy(), atol=1e-5)
        np.testing.assert_allclose(back[r], P.T @ x[r].numpy(), atol=1e-5)


def test_hidden_values_reach_no_other_node(some_hidden):
    around, x, _, visible = some_hidden
    gone = torch.from_numpy(visible).unsqueeze(-1)
    other = torch.where(gone, x, x.flip(1) * 100 + 3)
    assert torch.equal(around.mean(x), around.mean(other))
    kept = [
        tensor[torch.from_numpy(visible)] for tensor in (around.smooth(x), around.smooth(other))
    ]
    assert torch.equal(*kept)


def test_trees_read_few_dense_columns_alone(wordy, broad, narrow):
    for graph, boosted in ((narrow, True), (broad, False), (wordy, False)):
        dense = isinstance(graph.features, np.ndarray)
        assert can_boost(dense, graph.d, graph.n, graph.C) is boosted
    assert not can_boost(True, narrow.d, 1_000_000, 40)
