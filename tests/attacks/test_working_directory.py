"""Finding 2: nothing is imported from the current directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.cli import main as cli
from linkdist.model import Model, from_features
from linkdist.nn.network import ForkedMLP
from linkdist.serve.served_model import ServedModel

PLANTED = """
from pathlib import Path
Path({marker!r}).touch()
raise ImportError("planted")
"""
NAMES = ("safetensors", "torch", "numpy", "onnx", "multiprocessing", "typer", "json", "linkdist")

SPAWNS = """
import os
from linkdist.cli import main
main.app = lambda: None
main.main()
import multiprocessing
process = multiprocessing.get_context("spawn").Process(target=os.getpid)
process.start()
process.join()
raise SystemExit(process.exitcode)
"""
"""Starts a process as uvicorn starts workers, after the command line has begun."""


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """The current directory, full of modules of an attacker; the file that they leave."""
    folder, marker = tmp_path / "here", tmp_path / "ran"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(PLANTED.format(marker=str(marker)))
    monkeypatch.chdir(folder)
    return marker


def test_a_model_without_its_onnx_file_is_served_all_the_same(tmp_path, planted):
    """A service exports such a model in a process of its own."""
    saved = Saved(Model(ForkedMLP(4, 3, [0]), torch.ones(1), ("a", "b", "c")))
    save_model(tmp_path / "plain", saved)
    x = np.eye(4, dtype=np.float32)
    found = ServedModel(tmp_path / "plain").probabilities(x)
    np.testing.assert_allclose(found, from_features(saved.model, x), atol=1e-4)
    assert not planted.exists()


def test_workers_of_a_service_import_nothing_from_here(planted):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    done = subprocess.run([sys.executable, "-P", "-c", SPAWNS], env=environment, timeout=120)
    assert done.returncode == 0
    assert not planted.exists()


def test_processes_of_a_command_import_nothing_from_here(monkeypatch, command):
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    seen = []
    monkeypatch.setattr(cli, "app", lambda: seen.append(os.environ["PYTHONSAFEPATH"]) or exit())
    command("--version")
    assert seen == ["1"]


def test_the_program_imports_nothing_from_here(planted):
    program = shutil.which("linkdist", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("the program is not installed")
    done = subprocess.run([program, "--version"], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not planted.exists()
