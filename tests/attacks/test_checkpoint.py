"""Finding 15: a checkpoint that was changed is never resumed; 181 of 400 were before."""

from __future__ import annotations

import hashlib
import random

import pytest
import safetensors.torch
import torch

from linkdist.errors import OptionError
from linkdist.training.checkpoint import FORMAT, Checkpoint, SharedCheckpoint, TrainingRun

STATE = {"weight": torch.arange(40.0), "step": torch.tensor([7])}


@pytest.fixture(params=["local", "shared"])
def checkpoint(request, tmp_path):
    path = tmp_path / "state"
    kept = Checkpoint(path, "digits")
    if request.param == "shared":
        kept = SharedCheckpoint(str(path), "digits")
    kept.save(3, STATE)
    return kept


def unchanged(state):
    return state[0] == 3 and all(torch.equal(state[1][name], STATE[name]) for name in STATE)


def test_what_was_saved_is_loaded(checkpoint):
    assert unchanged(checkpoint.load())
    assert checkpoint.epochs() == 3


def test_no_change_of_a_file_is_resumed(checkpoint, tmp_path):
    """One bit changed, a byte cut off or added. What does not look like a checkpoint is ignored."""
    path, draw = tmp_path / "state", random.Random(0)
    whole = path.read_bytes()
    refused = []
    for _ in range(400):
        changed = bytearray(whole)
        changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        try:
            assert checkpoint.load() is None
        except OptionError as error:
            refused.append(str(error))
    assert len(refused) > 200
    sentence = "was damaged or changed (its SHA-256 is another). Remove it to train from the start."
    assert all(sentence in said for said in refused)
    for changed in (whole[:-1], whole + b"0", whole[:-32]):
        path.write_bytes(changed)
        with pytest.raises(OptionError, match="was damaged or changed"):
            checkpoint.load()


def signed(tensors, **about):
    content = safetensors.torch.save(tensors, about)
    return content + hashlib.sha256(content).digest()


def test_a_state_of_other_tensors_ends_in_a_sentence(checkpoint, tmp_path):
    about = {"epochs": "3", "training": "digits", "format": FORMAT}
    for tensors in ({"weight": torch.ones(3)}, {"other": torch.ones(40)}):
        (tmp_path / "state").write_bytes(signed(tensors, **about))
        run = TrainingRun(checkpoint)
        with pytest.raises(OptionError, match="was damaged or changed"):
            run.resume({"weight": torch.zeros(40)}, history=None)
    (tmp_path / "state").write_bytes(signed(STATE, **{**about, "epochs": "many"}))
    with pytest.raises(OptionError, match="was damaged or changed"):
        TrainingRun(checkpoint)


def test_another_version_or_training_is_ignored(checkpoint, tmp_path):
    """A checkpoint of an older program has no digest, and training starts over."""
    about = {"epochs": "3", "training": "digits", "format": "3"}
    (tmp_path / "state").write_bytes(safetensors.torch.save(STATE, about))
    assert checkpoint.load() is None
    (tmp_path / "state").write_bytes(signed(STATE, **about | {"format": FORMAT, "training": "x"}))
    assert checkpoint.load() is None
    (tmp_path / "state").unlink()
    assert checkpoint.load() is checkpoint.epochs() is None
