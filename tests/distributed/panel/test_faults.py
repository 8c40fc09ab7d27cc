"""Oracles: the files and the weights of a training that nothing interrupts."""

from __future__ import annotations

import errno
import os
from collections import Counter

import numpy as np
import pytest
import torch

from linkdist import _files
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.pipeline import train_store
from linkdist.distributed.retrying import RetryingKeeper
from linkdist.errors import StoreError
from linkdist.progress import Callback
from linkdist.training.checkpoint import Checkpoint, SharedCheckpoint
from tests.distributed.panel.trainings import (
    OPTIONS,
    PARTS,
    VISITS,
    Training,
    accuracy,
    make_store,
)
from tests.stores import tree

MEMORY = 4_000_000
STAGES = (
    "reading the links", "averaging features", "spreading labels", "fitting the teachers",
    "writing targets", "training",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def whole(store, tmp_path_factory):
    """The folder and the accuracy of a training without a fault."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, Training(store.directory, folder).run(SingleProcess())


class InterruptionError(Exception):
    """Ends a training like a kill: nothing in the package handles it."""


class Interrupt(Callback):
    """Interrupts each stage once, at its start and, where it has steps, after half of them."""

    def __init__(self):
        self.seen = Counter()

    def stage(self, name):
        self.now = name
        self.once(name)

    def progress(self, done, total):
        if 2 * done >= total:
            self.once(f"half of {self.now}")

    def once(self, name):
        self.seen[name] += 1
        if self.seen[name] == 1:
            raise InterruptionError(name)


def test_a_training_interrupted_in_every_stage_ends_with_the_same_weights(store, whole, tmp_path):
    interrupt = Interrupt()
    training = Training(store.directory, tmp_path, callback=interrupt, after=interrupt.progress)
    found, interruptions = None, []
    while found is None:
        try:
            found = training.run(SingleProcess())
        except InterruptionError as error:
            interruptions.append(str(error))
    without_steps = {"half of fitting the teachers"}
    assert set(interruptions) == {*STAGES, *(f"half of {name}" for name in STAGES)} - without_steps
    assert tree(tmp_path / "arrays") == tree(whole[0] / "arrays")
    assert weights(tmp_path) == pytest.approx(weights(whole[0]), abs=0)
    assert found == whole[1]


def weights(folder):
    """All weights of the last checkpoint."""
    _, tensors = Checkpoint(folder / "state", "training").load()
    names = sorted(name for name in tensors if name.startswith("network."))
    return np.concatenate([tensors[name].double().flatten().numpy() for name in names])


class FullFile:
    """A file on a disk that is full."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def write(self, _):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def full_disk(monkeypatch):
    """Lets the disk be full for the second part of the targets."""
    create = _files._created

    def created(path):
        full = path.parent.name == "targets.0" and "0001" in path.name
        return FullFile(create(path)) if full else create(path)

    monkeypatch.setattr(_files, "_created", created)
    return monkeypatch


def test_a_full_disk_ends_a_training_that_can_be_resumed(store, full_disk, tmp_path):
    arguments = (store.directory, tmp_path / "model", OPTIONS, MEMORY)
    with pytest.raises(StoreError) as error:
        train_store(*arguments)
    rule = "cannot be written: No space left on device. Free some space. What is done is kept: the "
    assert str(error.value).endswith(f"{rule}same command with --resume continues.")
    arrays = {path.name for path in (tmp_path / ".model.stages").rglob("*") if path.is_file()}
    assert not any(_files.ASIDE.fullmatch(name) for name in arrays)
    full_disk.undo()
    notes = []
    callback = Callback()
    callback.note = notes.append
    saved = train_store(*arguments, resume=True, callback=callback)
    assert notes[0] == "The training resumes after 0 slices of the nodes."
    assert accuracy(saved.model, store) > 0.5
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_another_memory_starts_from_the_beginning(store, full_disk, tmp_path):
    with pytest.raises(StoreError):
        train_store(store.directory, tmp_path / "model", OPTIONS, MEMORY)
    notes = []
    callback = Callback()
    callback.note = notes.append
    with pytest.raises(StoreError):
        train_store(
            store.directory, tmp_path / "model", OPTIONS, MEMORY + 1,
            resume=True, callback=callback,
        )  # fmt: skip
    assert "There is no checkpoint of this training to resume from" in notes[0]


class Member(SingleProcess):
    """The first of three workers, without the others."""

    size = 3


def test_the_learning_rate_decays_to_the_end_with_other_workers(store, tmp_path):
    half = PARTS * VISITS // 2

    def stop(done, total):
        if done == half:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        Training(store.directory, tmp_path, after=stop).run(SingleProcess())
    decays = [decay(tmp_path)]
    Training(store.directory, tmp_path).run(Member())
    decays.append(decay(tmp_path))
    # Four slices are one turn of three workers and another of one: 6 / 4 of the steps.
    assert decays[0] == pytest.approx((0.5, 1.0))
    assert decays[1] == pytest.approx((1.0, 1.5), abs=0.07)


def decay(folder):
    """The share of the decay in a checkpoint, and its steps in visits by one process."""
    _, tensors = Checkpoint(folder / "state", "training").load()
    done, steps = tensors["adam.count"].flatten()[0], tensors["steps"][0]
    return float(done / steps), float(steps) / (VISITS * PARTS * 4)


class FailingCheckpoint(SharedCheckpoint):
    """A checkpoint whose first writes fail."""

    failures = 3

    def save(self, epochs, tensors):
        object.__setattr__(self, "failures", self.failures - 1)
        if self.failures >= 0:
            raise OSError(errno.EIO, "Input/output error")
        super().save(epochs, tensors)


def test_a_failed_write_is_tried_again_after_growing_waits(tmp_path):
    notes, waited = [], []
    place = FailingCheckpoint(str(tmp_path / "state"), "digits")
    keeper = RetryingKeeper(place, notes.append, sleep=waited.append)
    keeper.save(3, {"weight": torch.ones(2)})
    assert keeper.load()[0] == 3
    assert waited == [0.5, 1.0, 2.0]
    assert len(notes) == 4
    assert notes[-1] == "the checkpoint is written again"


def test_a_place_that_fails_for_long_is_given_up(tmp_path):
    waited = []
    place = FailingCheckpoint(str(tmp_path / "state"), "digits")
    keeper = RetryingKeeper(place, str, patience=1.0, sleep=waited.append)
    with pytest.raises(StoreError, match=r"could not be written for 1 s: .*Input/output error"):
        keeper.save(3, {})
    assert sum(waited) == 1.0
