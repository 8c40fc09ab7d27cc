"""Oracles: the model itself and the encoders; message passing done by NumPy outside."""

import json
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy import sparse

from linkdist import Graph, observe, semi_supervised
from linkdist.artifacts.model_dir import Saved
from linkdist.artifacts.onnx import export_onnx
from linkdist.artifacts.onnx_graph import difference as onnx_difference
from linkdist.artifacts.onnx_graph import graph as onnx_graph
from linkdist.artifacts.onnx_graph import network as onnx_network
from linkdist.errors import ModelError, OptionError
from linkdist.model import Model, from_features, with_links
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.tables.feature_encoder import make_feature_encoder
from tests.link_training import train_links

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def trained(graph, R):
    """A model whose BatchNorms have moved away from where they began."""
    network = ForkedMLP(graph.d, graph.C, range(R), hidden=24)
    view = observe(graph, semi_supervised(graph, 0, 4, 10, 20), "transductive")
    inputs = make_inputs(graph.features, torch.device("cpu"))
    train_links(network, inputs, [view] * R, range(R), epochs=4)
    return Model(network, torch.linspace(0.3, 0.9, R), ("left", "right"))


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def metadata(path):
    told = session(path).get_modelmeta().custom_metadata_map
    return {key: json.loads(value) for key, value in told.items()}


def table(n=50, seed=0):
    """Columns far from 0, with missing values, a constant and a date."""
    random = np.random.default_rng(seed)
    age = random.normal(40, 10, n)
    age[3], age[7] = np.nan, 1e9
    when = 1_700_000_000 + random.integers(0, 3600, n)
    place = random.normal(5, 2, (n, 3)).astype(np.float32).tolist()
    place[2] = None
    columns = {"age, in years": pa.array(age, from_pandas=True), "same": pa.array([7] * n)}
    columns["when"] = pa.array(when, pa.timestamp("s"))
    return pa.record_batch({**columns, "place": pa.array(place, pa.list_(pa.float32()))})


def with_columns(kinds, batch, R=2, text_encoder=None):
    encoders = make_feature_encoder(kinds, pa.table(batch), text_encoder)
    encoders.partial_fit(batch)
    network = ForkedMLP(encoders.d, 3, range(R), hidden=16)
    with torch.no_grad():
        for part in network.state_dict().values():
            part.add_(0.3 * torch.rand(part.shape, generator=torch.manual_seed(1)))
    return Saved(Model(network, torch.ones(R), ("a", "b", "c")), encoders)


RAW = {"age, in years": "numeric", "same": "numeric", "place": "vector", "when": "numeric"}


@pytest.mark.parametrize("R", [1, 3])
def test_onnx_gives_the_models_probabilities_for_any_number_of_rows(planted, tmp_path, R):
    model = trained(planted, R)
    path = tmp_path / "model.onnx"
    assert export_onnx(Saved(model), path, rows=planted.features) < 1e-5
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]
    running = session(path)
    assert [(i.name, i.type, i.shape) for i in running.get_inputs()] == [
        ("features", "tensor(float)", ["n", 6])
    ]
    assert [(o.name, o.shape) for o in running.get_outputs()] == [("probabilities", ["n", 2])]
    for n in (1, 7, 1000):
        x = np.random.default_rng(n).normal(size=(n, 6)).astype(np.float32)
        (found,) = running.run(None, {"features": x})
        np.testing.assert_allclose(found, from_features(model, x), atol=1e-5)


def test_what_a_reader_needs_is_in_the_file(planted, tmp_path):
    model = trained(planted, 2)
    export_onnx(Saved(model), tmp_path / "model.onnx")
    told = metadata(tmp_path / "model.onnx")
    assert told == {
        "classes": ["left", "right"],
        "alpha": pytest.approx([0.3, 0.9]),
        "own": [1.0, 1.0],
        "columns": [],
        "task": "classification",
        "relations": ["links"],
        "directed": False,
        "decision": {},
    }
    assert onnx.load(tmp_path / "model.onnx").opset_import[0].version == 17


@pytest.mark.parametrize("R", [1, 3])
def test_with_the_neighbour_head_links_can_be_used_outside(planted, tmp_path, R):
    model = trained(planted, R)
    path = tmp_path / "model.onnx"
    assert export_onnx(Saved(model), path, with_neighbour_head=True, rows=planted.features) < 1e-5
    names = ["probabilities", "own_log_probabilities", "neighbour_log_probabilities"]
    p, own, neighbour = session(path).run(names, {"features": planted.features})
    alpha = np.array(metadata(path)["alpha"])
    # A node has lost its links: the first term is all it has.
    links = planted.links[(planted.links != 5).all(axis=1)]
    a = np.zeros((planted.n, planted.n))
    a[tuple(Graph.build(planted.features, links, planted.labels).edges.T)] = 1
    np.fill_diagonal(a, 0)  # a node is not its own neighbour
    mean = a / np.maximum(a.sum(1, keepdims=True), 1)
    score = own + alpha[:, None] * np.einsum("ij,jrc->irc", mean, neighbour)
    share = np.exp(score) / np.exp(score).sum(-1, keepdims=True)
    expected = with_links(model, planted.features, links)
    np.testing.assert_allclose(share.mean(1), expected, atol=1e-5)
    np.testing.assert_allclose(p, from_features(model, planted.features), atol=1e-5)
    np.testing.assert_allclose(share.mean(1)[5], p[5], atol=1e-5)


def test_raw_columns_give_what_encoded_ones_give(tmp_path):
    saved, path = with_columns(RAW, table()), tmp_path / "model.onnx"
    assert export_onnx(saved, path, rows=table()) < 1e-4
    assert [(i.name, i.type, i.shape) for i in session(path).get_inputs()] == [
        ("age, in years", "tensor(double)", ["n"]),
        ("same", "tensor(double)", ["n"]),
        ("place", "tensor(float)", ["n", 3]),
        ("when", "tensor(double)", ["n"]),
    ]
    batch = table(seed=1)
    place = np.array([row or [np.nan] * 3 for row in batch["place"].to_pylist()], np.float32)
    when = batch["when"].cast(pa.int64()).to_numpy().astype(float)
    age = batch["age, in years"].to_numpy(zero_copy_only=False)
    assert np.isnan(age).any()
    feed = {"age, in years": age, "same": np.full(50, 8.0), "when": when, "place": place}
    (found,) = session(path).run(["probabilities"], feed)
    expected = from_features(saved.model, saved.encoders.transform(batch))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert metadata(path)["columns"][2] == {"name": "place", "kind": "vector", "width": 3}


def test_rows_to_compare_on_may_be_a_table_features_or_none(tmp_path):
    saved = with_columns(RAW, table())
    x = saved.encoders.transform(table())
    for raw in (True, False, None):
        for rows in (table(), x, sparse.csr_matrix(x), None):
            assert export_onnx(saved, tmp_path / "model.onnx", raw=raw, rows=rows) < 1e-4
    export_onnx(saved, tmp_path / "model.onnx", raw=False)
    assert [i.name for i in session(tmp_path / "model.onnx").get_inputs()] == ["features"]


def test_many_rows_are_compared_in_pieces(tmp_path, monkeypatch):
    saved = with_columns(RAW, table())
    monkeypatch.setattr(onnx_difference, "PIECE", 7)
    assert export_onnx(saved, tmp_path / "model.onnx", rows=table()) < 1e-4


def test_embedded_text_takes_features(tmp_path):
    class Lengths:
        def encode(self, texts):
            return [[len(text), 1.0] for text in texts]

    batch = pa.record_batch({"title": ["one", "two words", None]})
    saved = with_columns({"title": "text"}, batch, text_encoder=Lengths())
    assert export_onnx(saved, tmp_path / "m", rows=batch) < 1e-4
    assert [(i.name, i.shape) for i in session(tmp_path / "m").get_inputs()] == [
        ("features", ["n", 2])
    ]
    saved.encoders.with_text_encoder(None)  # as a loaded model is
    assert export_onnx(saved, tmp_path / "m") < 1e-4


@pytest.mark.parametrize("name", ["probabilities", "linkdist.3", "neighbour_log_probabilities", ""])
def test_a_column_named_like_the_graphs_own_takes_features(tmp_path, name):
    saved = with_columns({name: "numeric"}, pa.record_batch({name: [1.0, 2.0]}))
    export_onnx(saved, tmp_path / "m")
    assert [i.name for i in session(tmp_path / "m").get_inputs()] == ["features"]
    with pytest.raises(OptionError, match=f"column '{name}' has the name of an output"):
        export_onnx(saved, tmp_path / "m", raw=True)


def test_a_column_may_be_named_features(tmp_path):
    saved = with_columns({"features": "numeric"}, pa.record_batch({"features": [1.0, 2.0]}))
    assert export_onnx(saved, tmp_path / "m") < 1e-4


def test_options_that_do_not_fit_are_refused(tmp_path, planted):
    bare = Saved(trained(planted, 1))
    with pytest.raises(OptionError, match="the model knows no columns, only features"):
        export_onnx(bare, tmp_path / "m", raw=True)
    with pytest.raises(OptionError, match="give features to compare on"):
        export_onnx(bare, tmp_path / "m", rows=table())
    with pytest.raises(OptionError, match="no rows to compare on"):
        export_onnx(with_columns(RAW, table()), tmp_path / "m", rows=table().slice(0, 0))
    with pytest.raises(OptionError, match="cannot be written"):
        export_onnx(bare, tmp_path / "no" / "where")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [0.3, float("nan")])
@pytest.mark.parametrize("neighbour", [False, True])
def test_a_file_that_differs_is_not_left_behind(planted, tmp_path, monkeypatch, wrong, neighbour):
    class Broken(onnx_network.Folded):
        def __init__(self, network, head=None):
            super().__init__(network, head)
            if (head is not None) == neighbour:
                self.third[1] = self.third[1] + wrong * torch.eye(2)[0]  # a copy, not the network's
                self.requires_grad_(False)

    path = tmp_path / "model.onnx"
    path.write_text("old")
    monkeypatch.setattr(onnx_network, "Folded", Broken)
    with pytest.raises(ModelError, match=r"differ from the model's by up to .* was not written"):
        export_onnx(Saved(trained(planted, 2)), path, with_neighbour_head=neighbour)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_without_the_extra_the_way_to_it_is_told(planted, tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    words = rf"needs {missing}, which is not installed: pip install 'linkdist\[onnx\]'"
    with pytest.raises(OptionError, match=words):
        export_onnx(Saved(trained(planted, 1)), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_file_too_large_for_onnx_is_refused(planted, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_graph, "LARGEST", 1000)
    with pytest.raises(OptionError, match="bytes; an ONNX file holds 1,000"):
        export_onnx(Saved(trained(planted, 1)), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
