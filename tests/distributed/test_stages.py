"""Oracles: the files that a training writes, and a training that was not interrupted."""

from __future__ import annotations

import itertools
import shutil
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from linkdist.artifacts.model_dir import load_model
from linkdist.distributed import pipeline
from linkdist.distributed.panel import student
from linkdist.distributed.pipeline import StoreSource, has_folds, panel_fits, train_store
from linkdist.distributed.stages import DIGITS, Staged, array_bytes, check_disk
from linkdist.errors import OptionError
from linkdist.pipeline import Options
from linkdist.progress import Callback
from linkdist.store.synthetic import Planted, synth
from linkdist.training.checkpoint import Checkpoint

PLANTED = Planted(300, 1500, features=70, classes=3, labelled=0.2, dtype="float32")
MEMORY = 240_000
"""Bytes for three parts, but not for the whole graph."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr("os.fsync", lambda _: None)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("stores") / "store", PLANTED, parts=6)


@pytest.fixture
def no_report(monkeypatch):
    """Skip what is done after a model is saved."""
    monkeypatch.setattr("linkdist.pipeline.with_report", lambda saved, *_: saved)


class Notes(Callback):
    """Records the notes, and stops a training in the middle of a stage."""

    def __init__(self, kill=None):
        self.kill, self.notes, self.names = kill, [], []

    def stage(self, name):
        self.names.append(name)

    def progress(self, done, total):
        if self.names and self.names[-1] == self.kill and 2 * done >= total > 0:
            raise KeyboardInterrupt

    def note(self, text):
        self.notes.append(text)


def options(**more):
    return Options.of(**{"epochs": 2, "hidden_size": 8, "device": "cpu", "held_out": 0.3} | more)


def train(store, out, callback=None, **more):
    resume = more.pop("resume", False)
    return train_store(
        store.directory, out, options(**more), MEMORY, resume=resume, callback=callback
    )


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_store_that_does_not_fit_leaves_a_complete_model(store, tmp_path):
    assert not panel_fits(store, MEMORY, torch.device("cpu"))
    notes = Notes()
    saved = train(store, tmp_path / "model", notes, replicas=2)
    assert notes.notes == []
    assert notes.names == [
        "reading the links", "averaging features", "spreading labels", "fitting the teachers",
        "writing targets", "training",
    ]  # fmt: skip
    loaded, about = load_model(tmp_path / "model"), saved.about
    assert about["data"]["nodes"] == store.n
    assert about["data"]["labels"] == dict(zip(store.classes, store.manifest.labelled, strict=True))
    assert about["estimates"]["labels"] > 5
    assert about["certainty"] == loaded.about["certainty"]
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"README.md", "report.html", "model.onnx"} <= names
    assert b"<html" in (tmp_path / "model" / "report.html").read_bytes().lower()
    assert loaded.replay is not None
    x = np.concatenate([store.features(part) for part in range(store.P)])
    p = loaded.model.predict_proba(x)
    np.testing.assert_allclose(p, saved.model.predict_proba(x), atol=1e-6)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["model"], "arrays are removed"


def test_the_onnx_file_predicts_as_the_model(store, tmp_path, monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr("linkdist.pipeline.render_report", lambda *_: "<html>")
    saved = train(store, tmp_path / "model")
    session = onnxruntime.InferenceSession(saved.onnx)
    x = np.asarray(store.features(0)[:20])
    outputs = session.run(None, {session.get_inputs()[0].name: x})
    expected = saved.model.predict_proba(x)
    assert any(
        out.shape == expected.shape and np.allclose(out, expected, atol=1e-4) for out in outputs
    )


@pytest.mark.usefixtures("no_report")
def test_an_interrupted_training_resumes_to_the_same_model(store, tmp_path, monkeypatch):
    clock = itertools.count(step=100)  # so that each slice is followed by a checkpoint
    monkeypatch.setattr(student, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    whole, out, notes = train(store, tmp_path / "whole"), tmp_path / "model", Notes()
    for resume, stage in enumerate(["spreading labels", "writing targets", "training", None]):
        notes.kill = stage
        with pytest.raises(KeyboardInterrupt) if stage else nullcontext():
            again = train(store, out, notes, resume=bool(resume))
        assert (tmp_path / ".model.stages").is_dir() == bool(stage)
    done = [int(note.split()[4]) for note in notes.notes]
    assert notes.notes == [f"The training resumes after {n} slices of the nodes." for n in done]
    assert done[:2] == [0, 0] < done
    for ours, theirs in zip(
        again.model.network.state_dict().values(),
        whole.model.network.state_dict().values(),
        strict=True,
    ):
        assert torch.equal(ours, theirs)
    assert again.about["estimates"] == whole.about["estimates"]
    assert not list(tmp_path.glob(".model*"))


@pytest.mark.usefixtures("no_report")
def test_other_options_start_from_the_beginning(store, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(store, tmp_path / "model", Notes("writing targets"))
    notes = Notes()
    train(store, tmp_path / "model", notes, resume=True, seed=1)
    (note,) = notes.notes
    assert note.startswith("There is no checkpoint of this training to resume from")
    assert "store, options and --memory" in note
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_without_resume_all_arrays_are_computed(store, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(store, tmp_path / "model", Notes("writing targets"))
    (folder,) = (tmp_path / ".model.stages").iterdir()
    before = {path: path.stat().st_mtime_ns for path in files(folder)}
    with pytest.raises(KeyboardInterrupt):
        train(store, tmp_path / "model", Notes("writing targets"))
    assert all(path.stat().st_mtime_ns != before[path] for path in files(folder))


def test_the_folder_of_arrays_depends_on_the_options(store, tmp_path):
    out, names = tmp_path / "model", set()
    for chosen in (options(), options(seed=1), options(replicas=2), options(held_out=0.2)):
        source = StoreSource(store.directory, MEMORY)
        staged = source.open(out, chosen, Callback())
        assert isinstance(staged, Staged)
        assert staged.folder == tmp_path / ".model.stages" / staged.training[:DIGITS]
        assert staged.epochs() is None
        names.add(staged.folder)
    assert len(names) == 4


def test_arrays_and_checkpoint_are_removed_together(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state", "d" * 64)
    staged = Staged(checkpoint, tmp_path / "stages")
    assert (staged.epochs(), staged.load(), staged.shown) == (None, None, str(tmp_path / "state"))
    staged.folder.mkdir(parents=True)
    assert staged.epochs() == 0, "arrays only"
    staged.save(3, {"weight": torch.ones(2)})
    assert staged.epochs() == 3
    epochs, tensors = staged.load()
    assert (epochs, tensors["weight"].tolist()) == (3, [1, 1])
    (tmp_path / "stages" / "other").mkdir()
    staged.remove()
    assert list(tmp_path.iterdir()) == []
    staged.remove()


def test_a_disk_that_is_too_small_is_reported_before_training(store, tmp_path, monkeypatch):
    needed = array_bytes(store, 1, folds=False)
    usage = SimpleNamespace(total=10**9, used=0, free=needed - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(pipeline, "fit_store", None)
    with pytest.raises(OptionError, match=r"writes about .*model\.stages.* are free\. Free some"):
        train(store, tmp_path / "model")
    # What an interrupted training has written counts as free.
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "array").write_bytes(bytes(1))
    check_disk(store, folder, 1, folds=False)
    with pytest.raises(OptionError):
        check_disk(store, tmp_path / "other", 1, folds=False)


@pytest.mark.parametrize("share", [None, 0.3])
def test_the_bytes_on_disk_are_those_announced(store, tmp_path, share):
    with pytest.raises(KeyboardInterrupt):
        train(store, tmp_path / "model", Notes("training"), held_out=share)
    written = sum(path.stat().st_size for path in files(tmp_path / ".model.stages"))
    folds = has_folds(store, options(held_out=share))
    assert folds == (share is None)
    content = written - 128 * len(files(tmp_path / ".model.stages"))  # without headers
    assert content <= array_bytes(store, 1, folds) <= 2 * content
