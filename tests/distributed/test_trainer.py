"""Oracles: the training of a graph in memory, the store's own arrays, and a training not killed."""

from __future__ import annotations

import errno
import os
import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest
import torch

import linkdist.pipeline
from linkdist.artifacts.model_dir import load_model
from linkdist.data.graph import UNKNOWN, Graph
from linkdist.data.splits import View
from linkdist.distributed import loader, pipeline, trainer
from linkdist.distributed import survey as survey_module
from linkdist.distributed.loader import Loader, rounds_of, slots_of, whole_round
from linkdist.distributed.pipeline import check_options, train_store
from linkdist.distributed.survey import PART, draw_validation, survey, survey_with
from linkdist.distributed.trainer import Schedule, check_memory, fits_whole, train_rounds
from linkdist.errors import OptionError
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.pipeline import Options
from linkdist.progress import Callback
from linkdist.store.format import buckets
from linkdist.store.synthetic import Planted, synth
from linkdist.training import checkpoint as checkpoint_module
from linkdist.training.checkpoint import Checkpoint, SharedCheckpoint, TrainingRun
from linkdist.training.link_task import Tally, coefficients, loop_on_links
from linkdist.training.loop import Hyperparameters

CPU = torch.device("cpu")
PLANTED = Planted(1500, 6000, features=12, classes=4, labelled=0.3, dtype="float32")


@pytest.fixture(scope="module", params=[1, 4])
def store(request, tmp_path_factory):
    return synth(tmp_path_factory.mktemp("stores") / "store", PLANTED, parts=request.param)


@pytest.fixture(scope="module")
def in_parts(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("stores") / "store", PLANTED, parts=4)


def starts(store):
    return np.concatenate([[0], np.cumsum(store.sizes)])


def graph_of(store, known=None):
    """All of a store in memory, parts below each other; labels of some nodes are left out."""
    first = starts(store)
    x = np.concatenate([store.features(p) for p in range(store.P)]).astype(np.float32)
    y = np.concatenate([store.labels(p) for p in range(store.P)]).astype(np.int64)
    links = np.concatenate(
        [store.links(a, b).astype(np.int64) + first[[a, b]] for a, b in buckets(store.P)]
    )
    return Graph.build(x, links, y, store.classes)


def rows_of(store, numbers):
    """Nodes' rows in `graph_of`, from their numbers in a survey."""
    return starts(store)[numbers >> PART] + (numbers & ((1 << PART) - 1))


def weights(stage):
    return {name: tensor.clone() for name, tensor in stage.network.state_dict().items()}


def same(ours, theirs):
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def trained(store, found, schedule, course=None, **options):
    course = course or TrainingRun(None, None)
    return train_rounds(store, found, schedule, [0, 1], course, device=CPU, **options)


@pytest.mark.parametrize("P", range(1, 9))
def test_an_epoch_visits_every_bucket_once_and_swaps_one_part_at_a_time(P):
    for epoch in range(3):
        rounds = rounds_of(P, epoch)
        assert sorted(r.buckets[0] for r in rounds) == sorted(buckets(P))
        assert all(set(r.parts) == set(r.buckets[0]) for r in rounds)
        reads, there = 0, set()
        for r in rounds:
            reads, there = reads + len(set(r.parts) - there), there & set(r.parts) | set(r.parts)
        assert reads == P * (P - 1) // 2 + 1
        assert all(set(now.parts) & set(after.parts) for now, after in pairwise(rounds))


def test_epochs_have_orders_of_their_own():
    assert rounds_of(6, 0) != rounds_of(6, 1)


@pytest.mark.parametrize("P", [1, 2, 5, 8])
def test_a_part_is_never_read_into_the_place_of_one_at_work(P):
    rounds = [r for epoch in range(9) for r in rounds_of(P, epoch)]
    places = slots_of(rounds)
    assert max(max(place.values()) for place in places) < min(P, 3)
    for now, after in pairwise(places):
        kept = now.keys() & after.keys()
        assert all(now[part] == after[part] for part in kept)
        new = {after[part] for part in after.keys() - kept}
        assert not new & set(now.values())
    assert slots_of([whole_round(6)] * 2) == [{p: p for p in range(6)}] * 2


def test_the_feed_brings_each_link_both_ways_with_its_own_features_and_labels(store):
    held = {0: np.array([3, 5])}
    whole, first = graph_of(store), starts(store)
    y = whole.labels.copy()
    y[[3, 5]] = UNKNOWN
    names = {x.tobytes(): row for row, x in enumerate(whole.features)}
    found = []
    rounds = [r for epoch in range(2) for r in rounds_of(store.P, epoch)]
    for round_, fed in zip(rounds, Loader(store, held, CPU).read(rounds), strict=True):
        x, seen = fed.inputs.matrix.numpy(), fed.seen
        place = np.array([names.get(row.tobytes(), -1) for row in x])
        found.append(place[seen.edges[0].numpy()])
        there = np.concatenate([np.arange(first[p], first[p + 1]) for p in round_.parts])
        assert sorted(place[seen.nodes[0].numpy()]) == sorted(there)
        assert seen.counts.item() == len(there)
        nodes = seen.nodes[0].numpy()
        assert (seen.labels[0].numpy()[nodes] == y[place[nodes]]).all()
    both = np.concatenate(found[: len(found) // 2])
    assert sorted(map(tuple, both.tolist())) == sorted(map(tuple, whole.edges.tolist()))


def test_a_survey_counts_what_a_view_in_memory_counts(store):
    found = survey(store, share=0.1, seed=3)
    whole = graph_of(store)
    held = np.concatenate([starts(store)[p] + rows for p, rows in found.held.items()])
    y = whole.labels.copy()
    y[held] = UNKNOWN
    expected = Tally.of(View(whole.features, np.arange(whole.n), whole.edges, y, whole.C))
    assert found.tally.nodes == expected.nodes
    assert found.tally.ends == expected.ends
    assert (found.tally.of_nodes == expected.of_nodes).all()
    assert (found.tally.of_ends == expected.of_ends).all()
    assert found.degree == pytest.approx(whole.degree)


def test_held_out_nodes_are_a_share_of_each_class_and_their_neighbours_are_all_there(store):
    numbers = draw_validation(store, share=0.1, seed=3)
    whole, held = graph_of(store), rows_of(store, numbers)
    counts = np.bincount(whole.labels[whole.labels >= 0])
    assert (np.bincount(whole.labels[held]) == np.round(0.1 * counts)).all()
    assert (numbers == draw_validation(store, share=0.1, seed=3)).all()
    assert not np.array_equal(numbers, draw_validation(store, share=0.1, seed=4))
    found = survey_with(store, numbers, seed=3)
    sample, validation = found.sample, found.split.validation
    assert (sample.features[validation] == whole.features[held]).all()
    assert (sample.labels[validation] == whole.labels[held]).all()
    degree = np.bincount(sample.edges[:, 0], minlength=sample.n)[validation]
    assert (degree == np.bincount(whole.edges[:, 0], minlength=whole.n)[held]).all()


def test_nothing_is_held_out_where_nothing_is_asked_for(store):
    found = survey(store, share=0.0, seed=0)
    assert not len(found.split.validation)
    assert found.sample.n > 0


def test_a_node_of_many_links_brings_a_limited_number_of_neighbours(in_parts, monkeypatch):
    monkeypatch.setattr("linkdist.distributed.survey.NODE_LINKS", 2)
    monkeypatch.setattr("linkdist.distributed.survey.LIMIT", 0)
    found = survey(in_parts, share=0.1, seed=0)
    assert len(found.sample.links) <= 2 * len(found.split.validation)
    assert len(found.sample.links) > len(found.split.validation)


def test_one_round_an_epoch_trains_exactly_as_a_graph_in_memory(store):
    found = survey(store, share=0.1, seed=0)
    stage = trained(store, found, Schedule.of(store, 2, whole=True))
    (fed,) = Loader(store, found.held, CPU).read([whole_round(store.P)])
    seen = fed.seen
    arrays = (seen.nodes[0].numpy(), seen.edges[0].numpy().astype(np.int64), seen.labels[0].numpy())
    view = View(fed.inputs.matrix.numpy(), *arrays, store.C)
    network = ForkedMLP(store.d, store.C, [0, 1])
    by = coefficients([view] * 2)
    assert by.alpha.tolist() == pytest.approx(coefficients([found.tally] * 2).alpha.tolist())
    inputs = make_inputs(view.features, CPU)
    best = stage.history.best("features").epochs
    kept = []
    loop = loop_on_links(network, inputs, [view] * 2, [0, 1], by, "colinkdist")
    loop.run(2, lambda _: kept.append([t.clone() for t in network.state_dict().values()]))
    for i, ours in enumerate(stage.network.state_dict().values()):
        for r in range(2):
            assert torch.equal(ours[r], kept[best[r] - 1][i][r])


def test_parts_that_are_copied_to_a_device_train_alike(in_parts, monkeypatch):
    found = survey(in_parts, share=0.1, seed=0)
    schedule = Schedule.of(in_parts, 1, whole=False)
    straight = trained(in_parts, found, schedule)
    monkeypatch.setattr(loader, "is_gpu", lambda device: True)  # rows of 12 are padded to 16
    copied = trained(in_parts, found, schedule)
    for ours, theirs in zip(
        copied.network.parameters(), straight.network.parameters(), strict=True
    ):
        assert torch.allclose(ours, theirs, atol=1e-3)


class KilledError(Exception):
    """Stands for a kill between two rounds."""


@pytest.mark.parametrize("after", [1, 5, 10, 13])
def test_a_killed_training_goes_on_to_the_same_weights(in_parts, after, tmp_path):
    found = survey(in_parts, share=0.1, seed=0)
    schedule = Schedule.of(in_parts, 2, whole=False)
    whole = weights(trained(in_parts, found, schedule))

    def kill(done, total):
        assert total == len(schedule.rounds) == 20
        if done == after:
            raise KilledError

    checkpoint = Checkpoint(tmp_path / "state", "this")
    with pytest.raises(KilledError):
        trained(in_parts, found, schedule, TrainingRun(checkpoint, kill), saved=0)
    course = TrainingRun(checkpoint, None)
    assert course.done == after
    assert same(weights(trained(in_parts, found, schedule, course, saved=0)), whole)


def test_state_in_a_shared_place_goes_on_as_well(in_parts, tmp_path):
    found = survey(in_parts, share=0.1, seed=0)
    schedule = Schedule.of(in_parts, 2, whole=False)
    checkpoint = SharedCheckpoint((tmp_path / "state").as_uri(), "this")
    assert checkpoint.load() is None
    trained(in_parts, found, schedule, TrainingRun(checkpoint, None), stop=10)
    course = TrainingRun(checkpoint, None)
    assert course.done == 10
    whole = weights(trained(in_parts, found, schedule))
    assert same(weights(trained(in_parts, found, schedule, course)), whole)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    checkpoint.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(100), b"\x02" + bytes(7) + b"{}"])
def test_what_is_no_state_is_passed_over(content, tmp_path):
    (tmp_path / "state").write_bytes(content)
    assert SharedCheckpoint(str(tmp_path / "state"), "this").load() is None


def test_a_place_that_nobody_knows_is_told():
    with pytest.raises(OptionError, match="nowhere://state"):
        SharedCheckpoint("nowhere://state", "this").load()


def test_a_place_that_takes_nothing_is_told_before_training(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"cannot be stored at .*/file/state: .* Give a new file"):
        SharedCheckpoint(str(tmp_path / "file" / "state"), "this").check()
    SharedCheckpoint(str(tmp_path / "state"), "this").check()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("number", "told"), [(errno.EROFS, "with write permission"), (errno.ENOSPC, "Free some space")]
)
def test_a_model_that_cannot_be_written_is_told_before_training(
    number, told, in_parts, tmp_path, monkeypatch
):
    def refuse(**_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(checkpoint_module, "TemporaryFile", refuse)
    monkeypatch.setattr(pipeline, "survey", None)
    with pytest.raises(OptionError, match=f"cannot be written: .*{told}"):
        train_store(in_parts.directory, tmp_path / "model", Options(method="colinkdist"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "it is a folder"),
        (b"precious", "it is a file that is not a checkpoint"),
        (b"\x02" + bytes(7) + b"{}", "it is a file that is not a checkpoint"),
        (b"\x16" + bytes(7) + b'{"__metadata__": null}', "it is a file that is not a checkpoint"),
    ],
)
def test_what_is_not_ours_is_not_taken_for_a_checkpoint(content, told, tmp_path):
    place = tmp_path / "precious"
    place.mkdir() if content is None else place.write_bytes(content)
    with pytest.raises(OptionError, match=told):
        SharedCheckpoint(str(place), "this").check()
    assert place.is_dir() if content is None else place.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_the_state_of_another_training_may_be_replaced(tmp_path):
    SharedCheckpoint(str(tmp_path / "state"), "that").save(1, {"weight": torch.ones(2)})
    SharedCheckpoint(str(tmp_path / "state"), "this").check()


def test_state_in_an_object_store(in_parts):
    servers = pytest.importorskip("moto.server")
    server = servers.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    at = "endpoint_override={}:{}&scheme=http&region=us-east-1".format(*server.get_host_and_port())
    uri = f"s3://a-key:a-secret@bucket/trainings/first?{at}"
    try:
        with pytest.raises(OptionError, match=r"kept at s3://bucket/tr.* Name a new file") as told:
            SharedCheckpoint(uri, "this").check()
        assert "a-secret" not in str(told.value)
        files, _ = pa.fs.FileSystem.from_uri(uri + "&allow_bucket_creation=true")
        files.create_dir("bucket")
        checkpoint = SharedCheckpoint(uri, "this")
        checkpoint.check()
        found = survey(in_parts, share=0.1, seed=0)
        schedule = Schedule.of(in_parts, 2, whole=False)
        trained(in_parts, found, schedule, TrainingRun(checkpoint, None), stop=10)
        course = TrainingRun(checkpoint, None)
        assert course.done == 10
        whole = weights(trained(in_parts, found, schedule))
        assert same(weights(trained(in_parts, found, schedule, course)), whole)
        checkpoint.remove()
        assert checkpoint.load() is None
    finally:
        server.stop()


def test_a_round_that_is_not_kept_is_trained_again(in_parts, tmp_path):
    found = survey(in_parts, share=0.1, seed=0)
    schedule = Schedule.of(in_parts, 2, whole=False)
    checkpoint = Checkpoint(tmp_path / "state", "this")
    trained(in_parts, found, schedule, TrainingRun(checkpoint, None), stop=13)
    course = TrainingRun(checkpoint, None)
    assert course.done == 10
    whole = weights(trained(in_parts, found, schedule))
    assert same(weights(trained(in_parts, found, schedule, course)), whole)


@pytest.mark.parametrize("looks", [1, 4, 10, 40])
def test_looks_of_an_epoch_are_bounded(in_parts, looks, monkeypatch):
    monkeypatch.setattr(trainer, "EVALUATIONS", looks)
    found = survey(in_parts, share=0.1, seed=0)
    stage = trained(in_parts, found, Schedule.of(in_parts, 2, whole=False))
    assert len(stage.history.curve("features")) == 2 * min(looks, 10)


def test_a_sample_has_a_bounded_number_of_links(in_parts, monkeypatch):
    monkeypatch.setattr(survey_module, "MAX_LINKS", 300)
    monkeypatch.setattr(survey_module, "LIMIT", 0)
    found = survey(in_parts, share=0.1, seed=0)
    held = found.split.validation
    assert len(found.sample.links) <= 300
    ends = np.bincount(found.sample.links.ravel(), minlength=found.sample.n)[held]
    assert ends.min() >= 1


def test_in_parts_it_learns_what_it_learns_as_a_whole(in_parts, tmp_path):
    whole = graph_of(in_parts)
    truth = np.concatenate([in_parts.truth(p) for p in range(in_parts.P)])
    found = survey(in_parts, share=0.1, seed=0)
    scores = []
    for at_once in (True, False):
        stage = trained(in_parts, found, Schedule.of(in_parts, 8, whole=at_once))
        z, _ = stage.network(make_inputs(whole.features, CPU))
        hits = z.squeeze(1).argmax(-1).numpy() == truth
        scores.append(hits[:, whole.labels == UNKNOWN].mean())
    assert scores[1] == pytest.approx(scores[0], abs=0.05)
    assert min(scores) > 0.5


def test_a_store_leaves_a_model_that_predicts_and_can_be_updated(in_parts, tmp_path):
    options = Options(method="colinkdist", epochs=2, replicas=2)
    saved = train_store(in_parts.directory, tmp_path / "model", options, memory=10**9)
    loaded = load_model(tmp_path / "model")
    assert loaded.about["data"]["nodes"] == in_parts.n
    assert 0 < saved.about["scores"]["accuracy with links"] <= 1
    assert loaded.replay is not None
    assert loaded.onnx is not None
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("part", ["evaluate_validation", "with_onnx"])
def test_a_failure_after_training_on_a_store_leaves_a_model(in_parts, tmp_path, monkeypatch, part):
    """An exception in ONNX once ended the training from a store before the model was saved."""

    def fail(*_, **__):
        raise ZeroDivisionError("of nothing")

    monkeypatch.setattr(linkdist.pipeline, part, fail)
    options, told = Options(method="colinkdist", epochs=1), Told()
    train_store(in_parts.directory, tmp_path / "model", options, 10**9, callback=told)
    assert any(re.search("the model is saved.*of nothing", text) for text in told.notes)
    assert load_model(tmp_path / "model").model.classes == in_parts.classes


class Killed(Callback):
    """Stops a training that has done a part of its work."""

    def progress(self, done, total):
        if self.stages[-1] == "training" and done == total // 2:
            raise KeyboardInterrupt

    def stage(self, name):
        self.stages = [*getattr(self, "stages", []), name]


class Told(Callback):
    """Remembers what was said."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


@pytest.mark.parametrize("memory", [10**9, 500_000])
def test_a_resumed_training_says_from_where(in_parts, tmp_path, memory):
    options, told = Options(method="colinkdist", epochs=2), Told()
    with pytest.raises(KeyboardInterrupt):
        train_store(in_parts.directory, tmp_path / "model", options, memory, callback=Killed())
    train_store(in_parts.directory, tmp_path / "model", options, memory, resume=True, callback=told)
    assert len(told.notes) == 1
    assert re.fullmatch(r"The training resumes after [1-9]\d* rounds\.", told.notes[0])


@pytest.mark.parametrize(("first", "then"), [(10**9, 500_000), (500_000, 10**9)])
def test_a_position_of_another_order_of_rounds_is_passed_over(in_parts, tmp_path, first, then):
    options, out = Options(method="colinkdist", epochs=2), tmp_path / "model"
    with pytest.raises(KeyboardInterrupt):
        train_store(in_parts.directory, out, options, first, callback=Killed())
    assert (tmp_path / ".model.training").exists()
    told = Told()
    resumed = train_store(in_parts.directory, out, options, then, resume=True, callback=told)
    assert "starts from the beginning" in told.notes[0]
    anew = train_store(in_parts.directory, tmp_path / "anew", options, then)
    assert same(weights(resumed.model), weights(anew.model))


def test_too_little_memory_is_told(in_parts):
    needed = sum(sorted(in_parts.part_bytes)[1:])
    with pytest.raises(OptionError, match=r"--memory is .* more --parts"):
        check_memory(in_parts, needed)
    assert not fits_whole(in_parts, sum(in_parts.part_bytes), CPU)
    assert fits_whole(in_parts, 10**8, CPU)


def test_a_gpu_holds_more_links_where_a_stride_goes_through_them(in_parts, monkeypatch):
    held = sum(in_parts.part_bytes) + 16 * in_parts.m
    gpu = torch.device("cuda")
    assert not fits_whole(in_parts, 2 * held, gpu)
    monkeypatch.setattr(trainer, "STRIDE_FROM", 2 * in_parts.m - in_parts.loops)
    assert fits_whole(in_parts, 2 * held, gpu)
    assert not fits_whole(in_parts, 2 * held - 1, gpu)
    assert not fits_whole(in_parts, 2 * held, CPU)


def test_options_that_a_store_does_not_support_are_listed(in_parts):
    given = Options("linkdist", budget=5.0, hyperparameters=Hyperparameters(schedule="cosine"))
    with pytest.raises(OptionError, match=r"no time limit.*constant learning rate"):
        check_options(given, in_parts)
    check_options(Options(), in_parts)
