"""Four ways to the same probabilities: Python, the command, the directory, ONNX Runtime.

Oracle: each other. The rows are those that go wrong in deployments: values that are missing,
categories that training never saw, text that is empty, numbers far from all others.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from linkdist import LinkDistClassifier, from_features, pipeline, prediction, with_links
from linkdist.artifacts.model_dir import load_model
from linkdist.pipeline import Options, Tables
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.nodes import read_nodes

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

TRAINED, ROWS, WIDTH = 400, 10_000, 6
WORDS = ["graph", "link", "node", "class", "label", "feature", "head", "mean", "sum", "loss"]
RAW = {"age": "numeric", "since": "numeric", "place": "vector"}
KINDS = {**RAW, "town": "categorical", "note": "text"}

agree = np.testing.assert_allclose
WITHIN = {"rtol": 0, "atol": 1e-4}


def table(n, seed, towns, far=0.0):
    """Nodes of three classes, a tenth of whose values are missing and a few far away."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)

    def some(values):
        return [None if gone else v for v, gone in zip(values, random.random(n) < 0.1, strict=True)]

    age = random.normal(40 + 5 * y, 10)
    age[random.random(n) < far] = 1e30
    place = (random.normal(size=(n, WIDTH)) + y[:, None]).astype(np.float32)
    notes = [" ".join(random.choice(WORDS[3 * c : 3 * c + 4], c * 2)) for c in y]  # '' of class 0
    columns = {
        "id": pa.array(random.permutation(n)),
        "age": pa.array(some(age.tolist()), pa.float64()),
        "since": pa.array(some((1_700_000_000 + 3600 * y).tolist()), pa.timestamp("ms")),
        "place": pa.array(some(list(place)), pa.list_(pa.float32())),
        "town": some(random.choice(towns, n).tolist()),
        "note": some(notes),
        "class": some([f"c{c}" for c in y]),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables to train on and to predict, the latter with towns of their own."""
    folder = tmp_path_factory.mktemp("agreement")
    towns = ["here", "there", "nowhere", ""]
    tables = {"old": table(TRAINED, 0, towns[:2]), "new": table(ROWS, 1, towns, far=0.01)}
    for name, nodes in tables.items():
        n = len(nodes)
        a, b = np.random.default_rng(2).integers(0, n, (2, 3 * n))
        pyarrow.parquet.write_table(nodes, folder / f"{name}.parquet")
        pyarrow.parquet.write_table(pa.table({"a": a, "b": b}), folder / f"{name}_links.parquet")
    return folder


@pytest.fixture(scope="module")
def new(folder):
    """The rows to predict."""
    (batch,) = pyarrow.parquet.read_table(folder / "new.parquet").to_batches()
    return batch


def trained(folder, columns):
    """A model of some columns, and its directory."""
    nodes, links = folder / "old.parquet", folder / "old_links.parquet"
    tables, out = Tables(nodes, links, "id", "class", list(columns)), folder / "-".join(columns)
    saved = pipeline.train(tables, out, Options("colinkdist", epochs=3, replicas=2, device="cpu"))
    assert {column.name: column.kind for column in saved.encoders.columns} == columns
    return saved, out


def by_command(model, folder):
    """Run the real program."""
    out = folder / "commanded.parquet"
    args = ["predict", model, folder / "new.parquet", "--out", out, "--device", "cpu"]
    program = [sys.executable, "-c", "from linkdist.cli.main import main; main()"]
    subprocess.run([*program, *map(str, args)], check=True, capture_output=True, timeout=120)
    return predicted(out)


def predicted(path):
    """Ids and probabilities of a table."""
    found = pyarrow.parquet.read_table(path)
    return found["id"], np.stack([found[f"p_c{c}"].to_numpy() for c in range(3)], axis=1)


def by_onnx(model, folder, feed):
    """Run the exported file, in two pieces of different sizes."""
    path = folder / "model.onnx"
    rows, difference = pipeline.export(load_model(model), path, rows=folder / "new.parquet")
    assert rows == ROWS
    assert difference <= 1e-4
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    parts = (slice(0, 777), slice(777, None))
    found = [session.run(None, {name: x[part] for name, x in feed.items()})[0] for part in parts]
    return np.concatenate(found)


def test_the_rows_are_the_awkward_ones(new):
    assert new.num_rows == ROWS
    assert new["note"].to_pylist().count("") > 1000
    assert new["town"].to_pylist().count("nowhere") > 1000
    assert all(new[name].null_count > 500 for name in KINDS)
    assert sum(age == 1e30 for age in new["age"].to_pylist()) > 50


def test_all_ways_agree_on_every_kind_of_column(folder, new):
    saved, directory = trained(folder, KINDS)
    x = saved.encoders.transform(new)
    from_python = from_features(saved.model, x)
    assert from_python.std(axis=0).min() > 0.05, "what hardly varies agrees easily"
    again = load_model(directory)
    agree(from_features(again.model, again.encoders.transform(new)), from_python, **WITHIN)
    ids, commanded = by_command(directory, folder)
    assert ids.to_pylist() == new["id"].to_pylist()
    agree(commanded, from_python, **WITHIN)
    agree(by_onnx(directory, folder, {"features": x.toarray()}), from_python, **WITHIN)


def test_all_ways_agree_on_raw_columns(folder, new):
    saved, directory = trained(folder, RAW)
    place = np.array([[np.nan] * WIDTH if v is None else v for v in new["place"].to_pylist()])
    feed = {
        "age": new["age"].to_numpy(zero_copy_only=False),
        "since": new["since"].cast(pa.int64()).to_numpy(zero_copy_only=False) / 1000,
        "place": place.astype(np.float32),
    }
    from_python = from_features(saved.model, saved.encoders.transform(new))
    agree(by_onnx(directory, folder, feed), from_python, **WITHIN)


def test_all_ways_agree_with_links(folder, new):
    saved, directory = trained(folder, {name: KINDS[name] for name in ("age", "town", "note")})
    edges, out = folder / "new_links.parquet", folder / "linked.parquet"
    links = pyarrow.parquet.read_table(edges)
    row = np.argsort(new["id"])  # ids are a permutation of the rows
    pairs = row[np.stack([links["a"], links["b"]], axis=1)]
    x = saved.encoders.transform(new)
    from_python = with_links(saved.model, x, pairs)
    prediction.predict(directory, folder / "new.parquet", out, edges=edges, device="cpu")
    agree(predicted(out)[1], from_python, **WITHIN)
    assert np.abs(from_features(saved.model, x) - from_python).max() > 0.01


def test_the_classifier_agrees_on_encoded_columns(folder, new):
    nodes = read_nodes(folder / "old.parquet", "id", "class", features=list(KINDS))
    links = pyarrow.parquet.read_table(folder / "old_links.parquet")
    y = [nodes.classes[label] if label >= 0 else None for label in nodes.labels]
    classifier = LinkDistClassifier(epochs=3, device="cpu", random_state=0).fit(
        nodes.features,
        y,
        edges=np.stack([links["a"], links["b"]], axis=1),
        nodes=nodes.ids.to_pylist(),
    )
    x = FeatureEncoder.from_state(nodes.encoders.state()).transform(new)
    found = classifier.predict_proba(x)
    agree(found, from_features(classifier.model_, x), **WITHIN)
    assert classifier.predict(x[:50]).tolist() == [f"c{c}" for c in found[:50].argmax(axis=1)]
