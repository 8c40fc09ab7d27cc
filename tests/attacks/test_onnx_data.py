"""Finding 23: an ONNX file whose weights are in other files is refused before it is opened."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import convert_model_to_external_data

from linkdist.errors import ModelError
from linkdist.inference.onnx_file import has_external_data
from linkdist.serve.served_model import ServedModel
from tests.attacks.forged import sign
from tests.serve.models import bare


@pytest.fixture
def forged(tmp_path, monkeypatch):
    """A model whose weights are in a file of the current directory."""
    bare(tmp_path / "model")
    graph = onnx.load(tmp_path / "model" / "model.onnx")
    convert_model_to_external_data(graph, location="secret.bin", size_threshold=100)
    onnx.save(graph, tmp_path / "outside.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "model", (tmp_path / "outside.onnx").read_bytes()


def test_weights_in_the_current_directory_are_not_read(forged):
    model, content = forged
    session = onnxruntime.InferenceSession(content)  # what happened before
    assert session.run(None, {"features": np.zeros((1, 4), np.float32)})
    sign(model, "model.onnx", content)
    with pytest.raises(ModelError, match="its weights are in other files, which are not read"):
        ServedModel(model)


def tensor(**fields):
    found = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    for name, value in fields.items():
        if name == "place":
            entry = found.external_data.add()
            entry.key, entry.value = "location", value
        else:
            found.data_location = value
    return found


def model_of(where, part):
    """A model with a tensor at one of the places that ONNX has for it."""
    graph = helper.make_graph([], "g", [], [])
    model = helper.make_model(graph)
    if where == "initializer":
        model.graph.initializer.append(part)
    elif where == "sparse":
        sparse = model.graph.sparse_initializer.add()
        sparse.indices.CopyFrom(part)
    elif where == "constant":
        model.graph.node.append(helper.make_node("Constant", [], ["w"], value=part))
    elif where == "list of tensors":
        node = model.graph.node.add()
        node.attribute.add().tensors.append(part)
    elif where == "branch":
        inner = helper.make_graph([], "inner", [], [], [part])
        model.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=inner))
    elif where == "function":
        function = model.functions.add()
        function.node.append(helper.make_node("Constant", [], ["w"], value=part))
    else:
        model.training_info.add().initialization.initializer.append(part)
    return model.SerializeToString()


PLACES = ["initializer", "sparse", "constant", "list of tensors", "branch", "function", "training"]


@pytest.mark.parametrize("where", PLACES)
def test_a_tensor_is_found_wherever_it_is(where):
    assert not has_external_data(model_of(where, tensor()))
    assert not has_external_data(model_of(where, tensor(location=TensorProto.DEFAULT)))
    assert has_external_data(model_of(where, tensor(place="secret.bin")))
    assert has_external_data(model_of(where, tensor(location=TensorProto.EXTERNAL)))


def test_our_own_files_have_their_weights(tmp_path):
    bare(tmp_path / "model")
    content = (tmp_path / "model" / "model.onnx").read_bytes()
    assert not has_external_data(content)
    for damaged in (content[:-1], b"\xff" * 20, b"\x3b", b"\x38\x01"):
        with pytest.raises(ValueError, match=r"truncated|too many bytes|unknown|must be a message"):
            has_external_data(damaged)
