"""Oracles: `linkdist.fit` on the same graph in memory, planted classes, a training not killed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from linkdist import Graph, fit
from linkdist.data.splits import Split
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.panel import fitting
from linkdist.distributed.panel.fitting import Resources, fit_store
from linkdist.distributed.panel.rows import TargetRows
from linkdist.errors import GraphError, OptionError
from linkdist.progress import Callback
from linkdist.store.format import buckets
from linkdist.store.synthetic import Planted, synth
from linkdist.training.checkpoint import Checkpoint, TrainingRun
from linkdist.training.options import Options
from linkdist.training.panel import learning
from tests.distributed.panel.graphs import CPU, in_parts
from tests.distributed.panel.prepared import circle, some_labels
from tests.stores import tree

FEW = Planted(3000, 9000, features=70, classes=4, labelled=0.1, dtype="float32")
MANY = dataclasses.replace(FEW, labelled=0.5)
BATCH = 128
SMALL = 800_000
"""Bytes for which the students read several slices of a part."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Stores by their options, each generated once."""
    made, folder = {}, tmp_path_factory.mktemp("stores")

    def get(planted, P):
        if (planted, P) not in made:
            made[planted, P] = synth(folder / str(len(made)), planted, parts=P)
        return made[planted, P]

    return get


def trained(store, folder, room=10**9, callback=None, checkpoint=None, **options):
    chosen = Options.of(**{"epochs": 8, "hidden_size": 32, "device": "cpu"} | options)
    callback = callback or Callback()
    run = TrainingRun(checkpoint, callback.progress)
    resources = Resources(folder, CPU, room, BATCH, SingleProcess(), run, callback, saved=0)
    return fit_store(store, chosen, resources)


def graph_of(store):
    """All of a store in memory, parts below each other."""
    first = np.concatenate([[0], np.cumsum(store.sizes)])
    x = np.concatenate([store.features(p) for p in range(store.P)]).astype(np.float32)
    y = np.concatenate([store.labels(p) for p in range(store.P)]).astype(np.int64)
    pairs = [store.bucket(a, b).pairs.astype(np.int64) + first[[a, b]] for a, b in buckets(store.P)]
    return Graph.build(x, np.concatenate(pairs), y, store.classes)


def fitted(store, **options):
    """The result of a graph in memory."""
    graph, none = graph_of(store), np.array([], dtype=np.int64)
    split = Split(np.flatnonzero(graph.labels >= 0), none, none)
    default = {"epochs": 8, "hidden_size": 32, "device": "cpu", "batch_size": BATCH}
    return fit(graph, split, **default | options)


def accuracies(result, store):
    """Accuracy on nodes without labels, from features and with links."""
    graph = graph_of(store)
    truth = np.concatenate([store.truth(p) for p in range(store.P)])
    p = [result.model.predict_proba(graph.features, links) for links in (None, graph.links)]
    return np.array([(one.argmax(-1) == truth)[graph.labels < 0].mean() for one in p])


def weights(result):
    return result.model.network.state_dict()


def same(one, other):
    """Whether two results are equal bit for bit: weights, α and estimates."""
    pairs = zip(weights(one).values(), weights(other).values(), strict=True)
    estimates = [str(r.estimates and r.estimates.as_json()) for r in (one, other)]
    equal = torch.equal(one.model.alpha, other.model.alpha) and estimates[0] == estimates[1]
    return equal and all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize(
    ("planted", "P", "room"), [(FEW, 3, SMALL), (MANY, 1, 10**9), (MANY, 3, SMALL)]
)
def test_a_store_learns_what_a_graph_in_memory_learns(stores, tmp_path, planted, P, room):
    store, slices = stores(planted, P), []

    class Counted(TargetRows):
        def __post_init__(self):
            super().__post_init__()
            slices.append(self.slices)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "TargetRows", Counted)
        ours, sample = trained(store, tmp_path / "arrays", room)
    assert (slices[0] > 1) == (room == SMALL)
    theirs = fitted(store)
    assert accuracies(ours, store) == pytest.approx(accuracies(theirs, store), abs=0.03)
    assert (accuracies(ours, store) > [0.5, 0.7]).all()
    one, other = ours.estimates, theirs.estimates
    assert (one.labels, one.rows, one.measure) == (other.labels, other.rows, other.measure)
    for kind in ("new_rows", "known_rows"):
        scores = [[score.value for score in getattr(each, kind)] for each in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=0.07)
    assert len(sample.labelled) == sum(store.manifest.labelled)


def test_few_features_have_teachers_by_gradient_boosting(tmp_path):
    planted = Planted(600, 2400, features=5, classes=3, labelled=0.1, dtype="float16")
    store = synth(tmp_path / "store", planted, parts=2)
    ours, _ = trained(store, tmp_path / "arrays", held_out=0.3)
    theirs = accuracies(fitted(store, held_out=0.3), store)
    assert accuracies(ours, store) == pytest.approx(theirs, abs=0.06)
    assert "gradient boosting on 2-hop averages" in ours.estimates.teachers


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    planted = Planted(200, 800, features=70, classes=3, labelled=0.2, dtype="float32")
    return synth(tmp_path_factory.mktemp("stores") / "store", planted, parts=3)


QUICK = {"epochs": 2, "hidden_size": 8, "held_out": 0.3}


def test_replicas_that_are_kept_are_those_trained_alone(small, tmp_path):
    two, _ = trained(small, tmp_path / "two", replicas=2, **QUICK)
    one, _ = trained(small, tmp_path / "one", replicas=1, **QUICK)
    assert len(two.model.alpha) == 2
    for ours, theirs in zip(weights(two).values(), weights(one).values(), strict=True):
        torch.testing.assert_close(ours[:1], theirs, rtol=1e-4, atol=1e-5)
    first = next(iter(weights(two).values()))
    assert not torch.equal(first[0], first[1])


def test_without_validation_nodes_there_are_no_estimates(small, tmp_path):
    result, sample = trained(small, tmp_path, **QUICK | {"held_out": 0.0})
    assert result.estimates is None
    assert [replica.kind for replica in sample.replicas] == ["kept"]
    assert result.decision.certainty is None
    assert (result.model.alpha == 0.5).all(), "as in memory, both predictions count alike"


def test_another_metric_chooses_factors_of_classes(small, tmp_path):
    ours, _ = trained(small, tmp_path, metric="macro-f1", **QUICK)
    theirs = fitted(small, metric="macro-f1", **QUICK)
    assert ours.estimates.measure == theirs.estimates.measure
    assert (ours.decision.factors is None) == (theirs.decision.factors is None)


def test_class_weights_are_those_of_the_labels(small, tmp_path):
    result, _ = trained(small, tmp_path, class_weight="balanced", **QUICK)
    counts = np.array(small.manifest.labelled)
    expected = counts.sum() / (len(counts) * counts)
    assert result.decision.factors == pytest.approx(expected.tolist())


def test_a_part_may_have_no_nodes_and_another_very_few(tmp_path):
    graph = circle()
    part = np.r_[np.full(2, 0), np.full(60, 2), np.full(60, 3)]
    placed = in_parts(graph, part, tmp_path / "store", labels=some_labels(graph, 40))
    assert placed.store.manifest.sizes == (2, 0, 60, 60)
    result, _ = trained(placed.store, tmp_path / "arrays", 20_000, **QUICK)
    assert all(tensor.isfinite().all() for tensor in weights(result).values())


def test_a_graph_without_links_is_trained_on_features(tmp_path):
    graph = circle()
    graph = Graph.build(graph.features, np.empty((0, 2), int), graph.labels)
    placed = in_parts(graph, np.arange(graph.n) % 3, tmp_path / "store")
    result, _ = trained(placed.store, tmp_path / "arrays", **QUICK)
    assert set(result.estimates.teachers) == {
        "logistic regression on features", "gradient boosting on features"
    }  # fmt: skip


def test_labels_of_one_class_are_refused(tmp_path):
    graph = circle()
    labels = np.where(graph.labels == 0, 0, -1)
    placed = in_parts(graph, np.arange(graph.n) % 2, tmp_path / "store", labels=labels)
    with pytest.raises(GraphError, match="labels of more than one class"):
        trained(placed.store, tmp_path / "arrays")


class KilledError(Exception):
    """Stands for a kill between two reports of progress."""


class Killed(Callback):
    """Stops a training when a stage has done a share of its work."""

    def __init__(self, stage, share):
        self.at, self.share, self.name = stage, share, ""

    def stage(self, name):
        self.name = name

    def progress(self, done, total):
        assert 0 <= done <= total
        if self.name == self.at and done >= self.share * total:
            raise KilledError


POINTS = [
    ("reading the links", 0.5),
    ("averaging features", 0.1),
    ("averaging features", 0.6),
    ("spreading labels", 0.4),
    ("spreading labels", 1.0),
    ("writing targets", 0.3),
    ("writing targets", 0.9),
    ("training", 0.1),
    ("training", 0.4),
    ("training", 0.7),
    ("training", 1.0),
]
FOLDS, CYCLES = (POINTS[3::4], {"epochs": 2}), (POINTS, {"epochs": None, "held_out": 0.3})


@pytest.mark.parametrize(("points", "options"), [FOLDS, CYCLES], ids=["folds", "cycles"])
def test_a_killed_training_continues_to_the_same_result(
    small, tmp_path, monkeypatch, points, options
):
    """It is killed at some points, one after the other; 0.4 of two cycles is the end of one."""
    monkeypatch.setattr(learning, "CYCLES", (2, 3))
    monkeypatch.setattr(learning, "FEWEST_STEPS", 1)
    room, options = 60_000, {"hidden_size": 8, **options}
    whole, _ = trained(small, tmp_path / "whole", room, **options)
    assert (tmp_path / "whole" / "features.1").is_dir(), "the columns are in several blocks"
    checkpoint = Checkpoint(tmp_path / "state", "this")
    for stage, share in points:
        with pytest.raises(KilledError):
            trained(small, tmp_path / "again", room, Killed(stage, share), checkpoint, **options)
    again, _ = trained(small, tmp_path / "again", room, None, checkpoint, **options)
    assert same(again, whole)
    assert tree(tmp_path / "again") == tree(tmp_path / "whole")


def test_nothing_is_computed_twice(small, tmp_path, monkeypatch):
    one, _ = trained(small, tmp_path, **QUICK)
    monkeypatch.setattr("linkdist.distributed.panel.columns.Columns.write", None)
    other, _ = trained(small, tmp_path, **QUICK)
    assert same(one, other)


def test_a_training_that_resumes_with_more_memory_is_the_same(small, tmp_path):
    """Other memory would mean another sample, other blocks of columns and other slices."""
    whole, _ = trained(small, tmp_path / "whole", 30_000, **QUICK)
    checkpoint = Checkpoint(tmp_path / "state", "this")
    for stage, room in (("averaging features", 30_000), ("training", 10**9)):
        with pytest.raises(KilledError):
            trained(small, tmp_path / "again", room, Killed(stage, 0.5), checkpoint, **QUICK)
    again, _ = trained(small, tmp_path / "again", 60_000, None, checkpoint, **QUICK)
    assert same(again, whole)


def test_a_training_does_not_resume_with_less_memory(small, tmp_path):
    with pytest.raises(KilledError):
        trained(small, tmp_path, 30_000, Killed("averaging features", 0.5), **QUICK)
    message = r"started with 30\.0 kB of memory; .* 20\.0 kB\. Resume it with as much --memory"
    with pytest.raises(OptionError, match=message):
        trained(small, tmp_path, 20_000, **QUICK)
    result, _ = trained(small, tmp_path, 28_000, **QUICK)
    assert result.estimates is not None
