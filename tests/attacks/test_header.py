"""Findings 12 and 18: weights that are not finite, and a header with values of other types."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress

import numpy as np
import onnx
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from linkdist.artifacts.card_curve import card_curve
from linkdist.artifacts.manifest import read_header
from linkdist.artifacts.model_card import model_card
from linkdist.artifacts.model_dir import load_model
from linkdist.errors import GraphError, ModelError, TableError
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP
from linkdist.prediction import prediction_columns
from linkdist.serve.app import make_app
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from linkdist.tables.prediction_columns import PredictionColumns
from tests.attacks.forged import sign, with_header, with_tensors


@pytest.fixture
def model(papers_model, tmp_path):
    return shutil.copytree(papers_model, tmp_path / "model")


# weights and predictions that are not finite ------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(model, papers, tmp_path, command, value):
    def change(tensors):
        tensors["own.linear.weight"].view(-1)[3] = value

    with_tensors(model, "weights.safetensors", change)
    with pytest.raises(ModelError, match=r"contains NaN or infinite weights: own\.linear\.weight"):
        load_model(model)
    code, _, said = command("predict", model, papers / "nodes.csv", "--out", tmp_path / "out.csv")
    assert code == 2
    assert "contains NaN or infinite weights" in said
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_service_refuses_an_onnx_file_with_such_weights(model, value):
    graph = onnx.load(model / "model.onnx")
    for part in graph.graph.initializer:
        array = onnx.numpy_helper.to_array(part).copy()
        if array.dtype == np.float32 and array.shape == (59, 256):
            array[17, 5] = value
            part.CopyFrom(onnx.numpy_helper.from_array(array, part.name))
    sign(model, "model.onnx", graph.SerializeToString())
    with pytest.raises(ModelError, match="does not return predictions"):
        ServedModel(model)


def test_features_that_are_too_large_end_in_an_error():
    model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
    rows = np.array([[0.0, 1.0], [3e38, -3e38]], np.float32)
    with pytest.raises(GraphError, match="no finite prediction for 1 of 2 rows"):
        model.predict_proba(rows)
    with pytest.raises(GraphError, match="no finite prediction for 2 of 2 rows"):
        model.predict_proba(rows, np.array([[0, 1]]))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_table_of_predictions_contains_nan(value):
    columns = PredictionColumns.of({}, ("a", "b"))
    schema = columns.schema("id", pa.string())
    p = np.array([[0.25, 0.75], [value, 0.5]], np.float32)
    with pytest.raises(TableError, match=r"for 1 rows with the ids P7\. Correct them"):
        columns.batch(pa.array(["P3", "P7"]), p, schema)


# a header of other types --------------------------------------------------------------------------

ABOUT = {
    "id": [1, ["paper"], {}, True],
    "label": [1, {"a": 1}, [1]],
    "unknown": ["NA", [1], 3],
    "source": [1, ["a"]],
    "relations": ["links", 7, [None]],
    "directed": ["no", 1],
    "task": ["clustering", 3],
    "method": [1, []],
    "label_format": [[], {"binary": "yes"}, {"else": 1}],
    "decision": [7, [], {"widths": 3}, {"thresholds": {"features": "0.5"}}, {"factors": [1.0]}],
    "estimates": [[], 1],
    "scores": [[], "high"],
    "data": [3, []],
    "updates": [3, {}],
    "curve": [[0.5], [["a"]], "up", {}],
    "kept": [[9], [0], [], "best"],
    "confusion": [[1], [["a"]], 4],
    "anything": [float("nan"), float("inf"), "\ud800"],
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in ABOUT.items() for value in values]
)
def test_a_value_of_another_type_is_refused_when_the_header_is_read(model, key, value):
    with_header(model, lambda header: header["about"].update({key: value}))
    for read in (load_model, read_header):
        with pytest.raises(ModelError, match=r"model\.json was changed"):
            read(model)


def test_all_values_of_another_type_are_named_at_once(model):
    with_header(model, lambda header: header["about"].update({"id": 7, "label": {}, "curve": 3}))
    with pytest.raises(ModelError) as found:
        read_header(model)
    for name in ("about.id", "about.label", "about.curve"):
        assert name in str(found.value)


@pytest.mark.parametrize(("key", "value"), [("id", 7), ("label", {"a": 1}), ("unknown", 3)])
def test_commands_end_with_code_2(model, papers, tmp_path, command, key, value):
    with_header(model, lambda header: header["about"].update({key: value}))
    tables = ["--nodes", papers / "nodes.csv", "--edges", papers / "links.csv"]
    for args in (
        ["predict", model, papers / "nodes.csv", "--out", tmp_path / "out.csv"],
        ["update", model, *tables],
        ["evaluate", model, papers / "nodes.csv"],
        ["serve", model, "--port", "0"],
    ):
        code, _, said = command(*args)
        assert code == 2, said
        assert f"about.{key}" in said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def kept(papers_model, tmp_path_factory):
    model = shutil.copytree(papers_model, tmp_path_factory.mktemp("kept") / "model")
    return model, json.loads((model / "model.json").read_text())


@settings(max_examples=60)
@given(key=st.sampled_from([*ABOUT, "versions", "epochs", "tally"]), value=JSON)
def test_a_model_is_refused_or_usable(kept, key, value):
    """What is loaded has a model card and columns of predictions."""
    model, header = kept
    changed = {**header, "about": {**header["about"], key: value}}
    (model / "model.json").write_text(json.dumps(changed))
    with suppress(ModelError):
        saved = load_model(model)
        assert prediction_columns(saved).names[0] == "label"
        assert model_card("papers", saved.about, saved.model.classes).startswith("# papers")
        card_curve(saved.about)


def test_a_service_shows_what_it_has_loaded(model):
    strange = {"estimates": {"measure": [], "new_rows": [{"name": 3, "value": "x"}], "by": 4}}
    with_header(model, lambda header: header["about"].update(strange, scores=None, data=None))
    with TestClient(make_app(Settings(str(model)))) as client:
        assert client.get("/v1/model").status_code == 200
