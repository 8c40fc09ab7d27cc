"""Directories of format 3, which had one relation and classes only, still load.

The directory is written here as version 0.1 wrote it. Oracle: the same model saved today.
"""

import hashlib
import json

import numpy as np
import pytest
import safetensors.torch
import torch

from linkdist.artifacts.manifest import read_header
from linkdist.artifacts.model_dir import Saved, load_model, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.errors import ModelError
from linkdist.model import with_links
from linkdist.serve.served_model import ServedModel
from tests.task_models import task_model

X = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
LINKS = np.array([[0, 1], [1, 2], [2, 0]])
ABOUT = {"id": "paper", "label": "field", "source": "from", "target": "to"}
NORM = ("batch_scale", "batch_shift", "layer_scale", "layer_shift", "running_mean", "running_var")
TENSORS = ["first.weight", "own.linear.bias", "neighbour.linear.bias"] + [
    f"{block}.{part}"
    for block in ("trunk", "own", "neighbour")
    for part in (*NORM, "linear.weight")
]


def write_format_3(directory, saved):
    """Write the files that `save_model` wrote before there were relations and tasks."""
    model = saved.model
    weights = {name: part.contiguous() for name, part in model.network.state_dict().items()}
    files = {"weights.safetensors": safetensors.torch.save(weights), "model.onnx": saved.onnx}
    R, d, hidden = model.network.first.weight.shape
    header = {
        "format": 3,
        "program": "0.1.0",
        "shape": {"replicas": R, "features": d, "hidden": hidden, "classes": len(model.classes)},
        "classes": list(model.classes),
        "alpha": model.alpha[:, 0].tolist(),
        "own": model.kappa.tolist(),
        "dropout": 0.5,
        "columns": None,
        "about": saved.about,
        "digests": {name: hashlib.sha256(part).hexdigest() for name, part in files.items()},
    }
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    (directory / "model.json").write_text(json.dumps(header))


@pytest.fixture
def saved():
    return with_onnx(Saved(task_model("classification"), about=ABOUT))


@pytest.fixture
def older(tmp_path, saved):
    write_format_3(tmp_path / "older", saved)
    return tmp_path / "older"


def test_an_older_directory_predicts_the_same(older, saved):
    loaded = load_model(older).model
    assert (loaded.task, loaded.relations, loaded.directed) == ("classification", ("links",), False)
    assert torch.equal(loaded.alpha, saved.model.alpha)
    assert np.array_equal(loaded.predict_proba(X), saved.model.predict_proba(X))
    assert np.array_equal(with_links(loaded, X, LINKS), with_links(saved.model, X, LINKS))


def test_an_older_directory_is_served(older, saved):
    engine = ServedModel(older)
    np.testing.assert_allclose(engine.probabilities(X), saved.model.predict_proba(X), atol=1e-5)
    expected = saved.model.predict_proba(X, LINKS)
    np.testing.assert_allclose(engine.probabilities(X, LINKS), expected, atol=1e-5)


def test_the_tensors_have_the_names_of_the_older_format(saved):
    """Weights of one relation are stored under the names that format 3 gave them."""
    assert sorted(saved.model.network.state_dict()) == sorted(TENSORS)


def test_an_older_model_is_saved_again_in_the_new_format(older, tmp_path):
    save_model(tmp_path / "newer", load_model(older))
    assert json.loads((tmp_path / "newer" / "model.json").read_text())["format"] == 4
    assert read_header(tmp_path / "newer").about == ABOUT


@pytest.mark.parametrize("alpha", [None, 3, "much", [[1.0], [1.0]], [1.0]])
def test_a_damaged_older_header_is_refused(older, alpha):
    header = json.loads((older / "model.json").read_text())
    (older / "model.json").write_text(json.dumps({**header, "alpha": alpha}))
    with pytest.raises(ModelError, match=r"model\.json was changed"):
        load_model(older)


def test_formats_before_are_not_read(older):
    header = json.loads((older / "model.json").read_text())
    (older / "model.json").write_text(json.dumps({**header, "format": 2}))
    with pytest.raises(ModelError, match=r"has format 2, .* reads formats 3 and 4\. Train again"):
        load_model(older)
