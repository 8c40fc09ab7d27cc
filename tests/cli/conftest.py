from __future__ import annotations

import sys

import pytest
import requests
import torch

from linkdist.data.datasets import DATASETS
from linkdist.paper import protocol
from tests.paper.test_run import make_quick, tiny


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """No folder of the user, no network, and no colours that the environment asks for."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("LINKDIST_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LINKDIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LINKDIST_COMMIT", "abc1234")
    for name in ("FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(requests, "get", unreachable)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # Typer installs its own
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def unreachable(*_, **__):
    raise requests.ConnectionError("no way out")


@pytest.fixture
def quick(monkeypatch):
    """Trainings of an epoch or a few, on a tiny graph."""
    make_quick(monkeypatch.setattr)
    real = protocol.load_dataset
    known = lambda name, data=None: tiny(name) if name in DATASETS else real(name, data)  # noqa: E731
    monkeypatch.setattr(protocol, "load_dataset", known)
    monkeypatch.setattr("linkdist.training.fit.epochs_for", lambda degree: 1)
    monkeypatch.setattr(
        "linkdist.training.panel.fitting.cycles_for", lambda nodes, folds, batch, long: (1,)
    )
