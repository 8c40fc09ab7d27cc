"""Oracles: the teachers of the same graph in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from linkdist import Graph
from linkdist.distributed.panel.teachers import OnAverages, OnFeatures, PartRows
from linkdist.nn.aggregation import VisibleNeighbours
from linkdist.training.panel.estimators import LabelSpreading, boosting_teachers
from linkdist.training.panel.learning import assemble
from linkdist.training.panel.teachers import HOPS, linear_teachers
from tests.distributed.panel.graphs import CPU, random_graph
from tests.distributed.panel.prepared import circle, prepare

KEPT = 5
"""The view of the replicas that are kept; the first five are those of folds."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("panel"))


@pytest.fixture(scope="module")
def wordy(tmp_path_factory):
    graph = random_graph(n=60, links=300, d=12, kind="csr")
    return prepare(tmp_path_factory.mktemp("panel"), kind="csr", graph=graph, labels=graph.labels)


def all_rows(prepared, teacher, view, links=None):
    """Scores (n, C) of all nodes, from the parts of the store, some rows at a time."""
    store, found = prepared.placed.store, []
    for part in range(store.P):
        x = store.features(part)
        for start in range(0, x.shape[0], 17):
            rows = slice(start, min(start + 17, x.shape[0]))
            some = PartRows(part, rows, x[rows], CPU)
            found.append(teacher.part_scores(view, view if links is None else links, some))
    return torch.cat(found)


def test_the_sample_has_the_views_of_folds(prepared):
    kinds = [replica.kind for replica in prepared.sample.replicas]
    assert kinds == ["new row"] * 5 + ["known row"] * 5 + ["kept"]
    assert prepared.sample.views == [0, 1, 2, 3, 4] * 2 + [KEPT]
    assert not prepared.sample.hidden(prepared.sample.replicas[-1])
    assert not prepared.sample.withheld(prepared.sample.replicas[-1])


def test_the_groups_are_those_of_a_graph_in_memory(wordy):
    ours = [group[0].name for group in wordy.ensemble.groups]
    theirs = assemble(wordy.in_memory)
    assert ours == [group[0].name for group in theirs]
    sizes = [len(group) for group in wordy.ensemble.groups]
    assert sizes == [len(group) for group in theirs]


@pytest.mark.parametrize("kind", ["prepared", "wordy"])
def test_a_model_on_features_predicts_all_parts_as_the_graph_in_memory(kind, request):
    prepared = request.getfixturevalue(kind)
    theirs = linear_teachers(prepared.in_memory, (0,))[0]
    for one, other in zip(prepared.ensemble.groups[0], theirs, strict=True):
        assert isinstance(one, OnFeatures)
        torch.testing.assert_close(one.weight, other.weight, rtol=2e-3, atol=2e-3)
        for view in (0, KEPT):
            expected = other.scores([view], prepared.in_memory.seen)[0]
            found = all_rows(prepared, one, view)
            own = one.scores([view], prepared.in_memory.seen)[0]
            torch.testing.assert_close(found, own, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(found.exp(), expected.exp(), rtol=0, atol=2e-3)


@pytest.mark.parametrize("kind", ["prepared", "wordy"])
@pytest.mark.parametrize("group", [1, 2, 3])
def test_models_on_averages_are_those_of_the_graph_in_memory(kind, group, request):
    prepared = request.getfixturevalue(kind)
    views, seen = list(range(KEPT + 1)), prepared.in_memory.seen
    theirs = linear_teachers(prepared.in_memory, HOPS[group : group + 1])[0]
    labelled = torch.from_numpy(prepared.sample.labelled)
    for one, other in list(zip(prepared.ensemble.groups[group], theirs, strict=True))[:2]:
        assert isinstance(one, OnAverages)
        assert (one.strength, one.name) == (other.strength, other.name)
        largest = float(other.weight.abs().max())
        torch.testing.assert_close(one.weight, other.weight, rtol=0.02, atol=0.01 * largest)
        expected, found = other.scores(views, seen).exp(), one.scores(views, seen).exp()
        torch.testing.assert_close(found[:, labelled], expected[:, labelled], rtol=0, atol=0.01)
        for view in (0, KEPT):
            every = all_rows(prepared, one, view).exp()
            torch.testing.assert_close(every, expected[view], rtol=0, atol=0.01)


def test_the_averages_of_another_view_can_be_used(prepared):
    one, other = prepared.ensemble.groups[2][0], linear_teachers(prepared.in_memory, (2,))[0][0]
    whole = prepared.in_memory.among([np.arange(prepared.sample.graph.n)], [0])
    expected = other.scores([0], whole)[0].exp()
    found = all_rows(prepared, one, view=0, links=KEPT).exp()
    torch.testing.assert_close(found, expected, rtol=0, atol=0.01)


def test_labels_spread_as_in_the_graph_in_memory(prepared):
    (one,), other = prepared.ensemble.groups[4], LabelSpreading(prepared.in_memory)
    views = list(range(KEPT + 1))
    expected = other.scores(views, prepared.in_memory.seen).exp()
    labelled = torch.from_numpy(prepared.sample.labelled)
    found = one.scores(views, prepared.in_memory.seen).exp()
    torch.testing.assert_close(found[:, labelled], expected[:, labelled], rtol=0, atol=0.005)
    for view in (0, KEPT):
        every = all_rows(prepared, one, view).exp()
        torch.testing.assert_close(every, expected[view], rtol=0, atol=0.005)


def test_gradient_boosting_is_that_of_the_graph_in_memory(prepared):
    theirs, seen = boosting_teachers(prepared.in_memory), prepared.in_memory.seen
    labelled = torch.from_numpy(prepared.sample.labelled)
    for (one,), other in zip(prepared.ensemble.groups[5:], theirs, strict=True):
        assert one.name == other.name
        expected = other.scores([KEPT], _only(seen, KEPT))[0]
        found = one.scores([KEPT], _only(seen, KEPT))[0]
        assert torch.equal(found[labelled], expected[labelled]), "means are exact in float16"
        assert torch.equal(all_rows(prepared, one, KEPT), expected)


def _only(seen, view):
    """The links of one view."""
    return VisibleNeighbours(seen.relations, seen.visible[view : view + 1, :, 0] > 0)


def test_a_graph_without_links_has_teachers_on_features_alone(tmp_path):
    graph = circle()
    graph = Graph.build(graph.features, [(0, 0)], graph.labels)
    prepared = prepare(tmp_path, graph=graph, labels=graph.labels)
    names = [group[0].name for group in prepared.ensemble.groups]
    assert names == ["logistic regression on features", "gradient boosting on features"]


def test_many_labels_that_are_all_rare_are_scaled_for_float16(tmp_path):
    """The flow of one label among many nodes would otherwise vanish in float16."""
    prepared = prepare(tmp_path, labels=4)
    view = prepared.arrays[0]
    count = len(prepared.sample.taught[0].view.train)
    assert view.scale == pytest.approx(prepared.placed.store.n / count)
    assert float(view.prior.sum()) == pytest.approx(1)
