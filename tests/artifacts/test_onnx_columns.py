"""A file whose inputs are columns. Oracles: the encoders and the model; NumPy."""

import json
from datetime import UTC, datetime
from unicodedata import category

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist.artifacts.model_dir import Saved
from linkdist.artifacts.onnx import export_onnx, neighbours_path
from linkdist.artifacts.onnx_graph.columns import add_columns, add_words, obstacles
from linkdist.artifacts.onnx_graph.graph import GraphBuilder
from linkdist.artifacts.onnx_graph.inputs import column_inputs
from linkdist.errors import OptionError
from linkdist.model import Model, from_features
from linkdist.nn.network import ForkedMLP
from linkdist.tables.bag_encoders import BinaryTags, Categorical, Tags
from linkdist.tables.encoders import Date, Numeric, Vector
from linkdist.tables.feature_encoder import FeatureEncoder, make_feature_encoder
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.tables.text_encoders import HashedText, Text, words_of
from tests.task_models import DECISIONS, TASKS

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def running(content):
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def features(encoders):
    """A session from columns to features, and the order of these."""
    graph = GraphBuilder(onnx)
    x, order = add_columns(graph, encoders)
    graph.output(x, "FLOAT", encoders.d)
    return running(graph.file({})), order


def agree(encoder, column):
    """Whether ONNX Runtime gives the features of one encoder."""
    encoders = FeatureEncoder([encoder])
    session, _ = features(encoders)
    batch = pa.record_batch({encoder.name: column})
    expected = encoders.transform(batch)
    expected = expected if isinstance(expected, np.ndarray) else expected.toarray()
    (found,) = session.run(None, column_inputs(encoders, batch))
    np.testing.assert_allclose(found, expected, atol=1e-5)


LETTERS = "aAbBäÄßẞéÉİΣσς東½_ 1\t\n.,;|'\"[]-\u00a0\u3000"
texts = st.text(st.sampled_from(LETTERS) | st.characters(exclude_categories=["Cn", "Cs"]))


def test_every_letter_is_one_of_a_word_and_has_the_same_lower_case():
    """Unicode characters that Python does not know yet are left out; RE2 may know them."""
    characters = [chr(c) for c in range(1, 0x20000) if not 0xD800 <= c < 0xE000]
    texts = [f"a{c}b" for c in characters if category(c) != "Cn"]
    graph = GraphBuilder(onnx)
    graph.output(add_words(graph, graph.input("text", "STRING")), "STRING", 2)
    (found,) = running(graph.file({})).run(None, {"text": np.array(texts, dtype=object)})
    expected = [[*words_of(text), ""][:2] for text in texts]
    assert found.tolist() == expected


@settings(max_examples=60)
@given(st.lists(texts, min_size=1, max_size=6), st.lists(texts, min_size=1, max_size=6))
def test_words_of_any_script_are_those_of_the_encoder(known, new):
    encoder = Text("t").partial_fit(pa.array(known))
    if encoder.width:
        agree(encoder, pa.array([*known, *new, *map(str.upper, known), None]))


@settings(max_examples=60)
@given(
    st.lists(texts, min_size=1, max_size=6),
    st.lists(texts, min_size=1, max_size=6),
    st.sampled_from([Tags, BinaryTags]),
    st.sampled_from([None, "|", ";", ","]),
)
def test_tags_in_text_are_those_of_the_encoder(known, new, kind, separator):
    encoder = kind("t", separator=separator).partial_fit(pa.array(known))
    if encoder.width:
        assert not obstacles(FeatureEncoder([encoder]))
        agree(encoder, pa.array([*known, *new, None]))


@settings(max_examples=30)
@given(st.lists(texts.filter(bool), min_size=1, max_size=6), st.lists(texts, max_size=6))
def test_categories_are_those_of_the_encoder(known, new):
    agree(Categorical("t").partial_fit(pa.array(known)), pa.array([*known, *new, None]))


@settings(max_examples=60)
@given(
    st.lists(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 30)), min_size=2, max_size=6),
    st.booleans(),
)
def test_dates_are_those_of_the_encoder(moments, days):
    moments = [moment.replace(tzinfo=UTC) for moment in moments]
    whole = [moment.replace(hour=0, minute=0, second=0, microsecond=0) for moment in moments]
    column = pa.array([*(whole if days else moments), None], pa.timestamp("us", "UTC"))
    encoder = Date("day").partial_fit(column)
    agree(encoder, pa.concat_arrays([column, pa.array(moments, column.type)]))


def test_numbers_and_vectors_are_those_of_the_encoder():
    numbers = [1e9, 1e9 + 1, None, 1e9 + 7, float("nan")]
    agree(Numeric("x").partial_fit(pa.array(numbers)), pa.array([*numbers, 1e30, -1e30]))
    agree(Numeric("x").partial_fit(pa.array([7.0, 7.0])), pa.array([7.0, 8.0, None]))
    vectors = pa.array([[1.0, 5.0], None, [3.0, 5.0]])
    agree(Vector("x").partial_fit(vectors), vectors)


def test_infinite_numbers_count_as_missing():
    """`linkdist predict` drops a few of them, too."""
    encoders = FeatureEncoder([Numeric("x").partial_fit(pa.array([1.0, 3.0]))])
    found = features(encoders)[0].run(None, {"x": np.array([np.inf, -np.inf, 1e39, 3])})[0]
    assert found.tolist() == [[0], [0], [0], [1]]


# Whole models -------------------------------------------------------------------------------------

KINDS = {
    "day": "date",
    "title": "text",
    "age": "numeric",
    "town": "categorical",
    "genre": "tags",
    "empty": "vector",
    "topics": "tags:binary",
    "place": "vector",
}


def table(n=300, seed=0):
    """A column of each kind, with missing and unseen values."""
    random = np.random.default_rng(seed)
    words = np.array([f"Wört{i}" for i in range(700)])
    towns = np.array(["Ulm", "Köln", "São Paulo", "", "x" * seed])
    rows = {
        "day": [f"{1 + i % 28:02}.{1 + i % 12:02}.{1990 + i % 30}" for i in random.permutation(n)],
        "title": [", ".join(words[random.integers(0, 700, k % 9)]) for k in range(n)],
        "age": [None if i % 7 == 3 else str(i / 4) for i in random.permutation(n)],
        "town": towns[random.integers(0, len(towns), n)],
        "genre": ["|".join(towns[random.integers(0, len(towns), k % 4)]) for k in range(n)],
        "empty": pa.nulls(n, pa.list_(pa.float32())),
        "topics": [["a b", "c"][: k % 3] for k in range(n)],
        "place": [None if k % 5 == 2 else random.normal(5, 2, 3).tolist() for k in range(n)],
    }
    return pa.record_batch(rows)


def made(task="classification", R=2, K=1):
    batch = table()
    encoders = make_feature_encoder(KINDS, pa.table(batch)).partial_fit(batch)
    network = ForkedMLP(encoders.d, len(TASKS[task]), range(R), hidden=16, K=K)
    with torch.no_grad():
        for part in network.state_dict().values():
            part.add_(0.3 * torch.rand(part.shape, generator=torch.manual_seed(1)))
    relations = tuple(f"r{k}" for k in range(K)) if K > 1 else ("links",)
    model = Model(network, torch.ones(R, K), TASKS[task], torch.ones(R), task, relations)
    about = {"id": "node", "label": "target", "task": task, "decision": DECISIONS[task]}
    return Saved(model, encoders, about)


@pytest.fixture(scope="module", params=TASKS)
def exported(request, tmp_path_factory):
    saved = made(request.param)
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    assert export_onnx(saved, path) < 1e-4
    return saved, path


def test_inputs_have_the_names_and_types_of_the_columns(exported):
    _, path = exported
    assert [(i.name, i.type, i.shape) for i in running(path).get_inputs()] == [
        ("day", "tensor(double)", ["n"]),
        ("title", "tensor(string)", ["n"]),
        ("age", "tensor(double)", ["n"]),
        ("town", "tensor(string)", ["n"]),
        ("genre", "tensor(string)", ["n"]),
        ("empty", "tensor(float)", ["n", 0]),
        ("topics", "tensor(string)", ["n"]),
        ("place", "tensor(float)", ["n", 3]),
    ]
    metadata = json.loads(running(path).get_modelmeta().custom_metadata_map["columns"])
    assert metadata[0] == {"name": "day", "kind": "date", "width": 7, "format": "%d.%m.%Y"}
    assert [metadata[k]["separator"] for k in (4, 6)] == ["|", "|"]


@pytest.mark.parametrize("n", [1, 2, 200])
def test_outputs_are_those_of_predict(exported, n):
    saved, path = exported
    batch = table(n, seed=1)
    outputs = running(path).get_outputs()
    found = running(path).run(None, column_inputs(saved.encoders, batch))
    found = dict(zip([output.name for output in outputs], found, strict=True))
    expected = from_features(saved.model, saved.encoders.transform(batch))
    columns = PredictionColumns.of(saved.about, saved.model.classes)
    if columns.task == "regression":
        ends = columns.interval(expected)
        assert list(found) == ["value", "low", "high"]
        np.testing.assert_allclose(found["value"], expected, atol=1e-4)
        np.testing.assert_allclose(np.hstack([found["low"], found["high"]]), ends, atol=1e-4)
        return
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
    assert found["classes"].tolist() == list(saved.model.classes)
    names = np.array(saved.model.classes)
    if columns.task == "classification":
        assert list(found) == ["probabilities", "label", "classes"]
        assert found["label"].tolist() == names[expected.argmax(axis=1)].tolist()
    else:
        assert list(found) == ["probabilities", "labels", "classes"]
        decided = columns.decided(expected)
        assert found["labels"].tolist() == np.where(decided, names, "").tolist()


def test_a_number_without_an_interval_has_no_ends(tmp_path):
    saved = made("regression")
    saved.about["decision"] = {}
    export_onnx(saved, tmp_path / "m", rows=table())
    assert [o.name for o in running(tmp_path / "m").get_outputs()] == ["value"]


@pytest.mark.parametrize("K", [1, 2])
def test_neighbour_heads_are_in_a_second_file(tmp_path, K):
    saved, path = made(K=K), tmp_path / "model.onnx"
    assert export_onnx(saved, path, with_neighbour_head=True, rows=table()) < 1e-4
    assert sorted(tmp_path.iterdir()) == [neighbours_path(path), path]
    second = running(neighbours_path(path))
    names = ["own_log_probabilities", "neighbour_log_probabilities"]
    assert [output.name for output in second.get_outputs()] == names
    plain = tmp_path / "plain.onnx"
    export_onnx(saved, plain, with_neighbour_head=True, raw=False)
    x = saved.encoders.transform(table()).toarray()
    expected = running(plain).run(names, {"features": x})
    found = second.run(names, column_inputs(saved.encoders, table()))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_columns_that_cannot_be_inputs_are_all_named(tmp_path):
    """Then the input is `features`, as before."""
    encoders = FeatureEncoder(
        [
            Numeric("value"),
            HashedText("title", 2, [1, 2]),
            Tags("genre", 1, {"'war'": 1}),
            Tags("topic", 1, {"a |;,b": 1}),
            Text("linkdist.x"),
        ]
    )
    assert obstacles(encoders) == [
        "column 'value' has the name of an output",
        "column 'linkdist.x' has the name of an output",
        "column 'title' has hashed words, as in older models; train again for a vocabulary",
        "column 'genre' has tags that are empty or quoted, such as \"'war'\"",
        "column 'topic' has tags with blanks and all of | ; ,",
    ]
    network = ForkedMLP(encoders.d, 2, [0], hidden=8)
    saved = Saved(Model(network, torch.ones(1), ("a", "b")), encoders)
    assert export_onnx(saved, tmp_path / "m") < 1e-4
    assert [i.name for i in running(tmp_path / "m").get_inputs()] == ["features"]
    with pytest.raises(OptionError, match=r"'value' has .*'title' has hashed words"):
        export_onnx(saved, tmp_path / "m", raw=True)
