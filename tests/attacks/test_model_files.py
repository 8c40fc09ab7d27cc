"""Findings 8 and 16: a model directory consists of regular files, and reading it has an end."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from linkdist._files import open_regular, read_directory
from linkdist.artifacts.model_dir import load_model
from linkdist.errors import ModelError, StoreError, TableError
from linkdist.serve.served_model import ServedModel
from linkdist.store.reader import Store
from linkdist.tables.io import open_table
from linkdist.training.checkpoint import Checkpoint, SharedCheckpoint
from tests.serve.models import bare

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")

READ = ("model.json", "weights.safetensors", "model.onnx")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "small"
    bare(path)
    return path


@pytest.fixture
def model(small, tmp_path):
    return shutil.copytree(small, tmp_path / "model")


def linked(path: Path) -> None:
    elsewhere = path.parent.parent / path.name
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("change", [linked, pipe, device])
def test_a_file_of_a_model_that_is_not_regular_is_refused(model, name, change):
    change(model / name)
    words = rf"{name} cannot be read: it is .*not a regular file. Copy the directory with 'cp -rL'"
    for read in (load_model, ServedModel):
        if name == "weights.safetensors" and read is ServedModel:
            continue  # a service does not need it
        with pytest.raises(ModelError, match=words):
            read(model)


@pytest.mark.parametrize("name", ["report.html", "curve.svg"])
def test_a_service_shows_no_file_from_elsewhere(model, tmp_path, name):
    (model / name).write_bytes(b"ours")
    assert ServedModel(model).extras == {name: b"ours"}
    (model / name).unlink()
    (tmp_path / "secret").write_bytes(b"secret")
    (model / name).symlink_to(tmp_path / "secret")
    assert ServedModel(model).extras == {}
    (model / name).unlink()
    os.mkfifo(model / name)
    assert ServedModel(model).extras == {}


def test_a_link_to_a_whole_model_is_followed(model, tmp_path):
    (tmp_path / "current").symlink_to(model)
    assert load_model(tmp_path / "current").model.classes == ("a", "b", "c")


def test_predict_ends_where_a_file_is_a_pipe(papers, papers_model, tmp_path, command):
    model = shutil.copytree(papers_model, tmp_path / "model")
    pipe(model / "weights.safetensors")
    code, _, said = command("predict", model, papers / "nodes.csv", "--out", tmp_path / "out.csv")
    assert code == 2
    assert "weights.safetensors cannot be read: it is not a regular file" in said
    nodes = tmp_path / "nodes.csv"
    os.mkfifo(nodes)
    code, _, said = command("predict", papers_model, nodes, "--out", tmp_path / "out.csv")
    assert code == 2
    assert "nodes.csv is a pipe or a device, not a file" in said


def test_other_readers_do_not_wait_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "table.parquet")
    with pytest.raises(TableError, match="is a pipe or a device"):
        open_table(tmp_path / "table.parquet")
    (tmp_path / "store").mkdir()
    os.mkfifo(tmp_path / "store" / "manifest.json")
    with pytest.raises(StoreError, match=r"manifest\.json cannot be read: it is not a regular"):
        Store.open(tmp_path / "store")
    os.mkfifo(tmp_path / "state")
    assert Checkpoint(tmp_path / "state", "digits").load() is None
    with pytest.raises(Exception, match="it is not a regular file"):
        SharedCheckpoint(str(tmp_path / "state"), "digits").check()


def test_a_link_is_not_followed_between_the_check_and_the_opening(tmp_path, monkeypatch):
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    monkeypatch.setattr(Path, "is_symlink", lambda path: False)
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(tmp_path / "link", follow=False)


def test_no_handle_stays_open(model):
    pipe(model / "model.onnx")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(OSError, match="regular"):
            read_directory(model, READ)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
