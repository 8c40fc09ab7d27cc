"""Models that are loaded, replaced and refused."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient

from linkdist.artifacts.model_dir import Saved, load_model, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.errors import ModelError
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP
from linkdist.serve.app import make_app
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from tests.serve.models import ask, bare


def test_a_new_model_is_picked_up_and_a_bad_one_refused(tmp_path):
    path = tmp_path / "model"
    bare(path)
    app = make_app(Settings(str(path)))
    current = app.app.state.current
    old = current.engine.header.version
    asyncio.run(current.check())
    assert current.engine.header.version == old

    bare(path, replicas=3)
    asyncio.run(current.check())
    new = current.engine.header.version
    assert new != old
    assert current.engine.header.shape.replicas == 3

    (path / "model.onnx").write_bytes(b"cut off")
    (path / "model.json").write_text((path / "model.json").read_text() + " ")
    asyncio.run(current.check())
    assert current.engine.header.version == new
    assert "SHA-256" in current.refused.reason
    with TestClient(app) as client:
        assert ask(client, [[0, 0, 0, 0]]).json()["version"] == new
        assert "SHA-256" in client.get("/v1/model").json()["refused"]["reason"]

    shutil.rmtree(path)
    asyncio.run(current.check())
    assert current.engine.header.version == new
    bare(path)
    asyncio.run(current.check())
    assert current.refused is None
    assert current.engine.header.shape.replicas == 2


def test_an_unexpected_error_does_not_end_the_search_for_new_models(tmp_path, monkeypatch):
    path = tmp_path / "model"
    bare(path)
    current = make_app(Settings(str(path))).app.state.current

    def fails(directory):
        raise RuntimeError("out of luck")

    async def replace_twice():
        watching = asyncio.create_task(current.watch())
        with monkeypatch.context() as patch:
            patch.setattr("linkdist.serve.current_model.ServedModel", fails)
            bare(path, replicas=3)
            await until(lambda: current.refused is not None)
        assert "RuntimeError: out of luck" in current.refused.reason
        assert current.engine.header.shape.replicas == 2
        bare(path, replicas=4)
        await until(lambda: current.engine.header.shape.replicas == 4)
        watching.cancel()

    async def until(condition):
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.02)

    asyncio.run(replace_twice())


def test_a_service_reads_only_the_files_that_it_uses(papers_model, monkeypatch):
    opened, real = [], os.open
    monkeypatch.setattr(os, "open", lambda path, *a: opened.append(Path(path)) or real(path, *a))
    engine = ServedModel(papers_model)
    assert not engine.header.files
    names = {path.name for path in opened if path.parent == papers_model}
    assert names == {"model.json", "model.onnx", "curve.svg", "report.html"}


def test_a_symbolic_link_in_a_model_directory_is_not_followed(tmp_path):
    bare(tmp_path / "model")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "model" / "report.html").symlink_to(tmp_path / "secret")
    assert "report.html" not in ServedModel(tmp_path / "model").extras


def test_an_onnx_file_that_gives_no_probabilities_is_refused(tmp_path):
    bare(tmp_path / "one")
    saved = load_model(tmp_path / "one")
    other = Saved(Model(ForkedMLP(4, 2, [0]), torch.ones(1), ("a", "b")))
    foreign = with_onnx(other).onnx
    for content in (foreign, b"no onnx", saved.onnx[:-50]):
        save_model(tmp_path / "two", Saved(saved.model, onnx=content))
        with pytest.raises(ModelError):
            ServedModel(tmp_path / "two")
