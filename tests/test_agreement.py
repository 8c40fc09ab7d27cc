"""Five ways to the same probabilities: Python, the command, the directory, HTTP, ONNX Runtime.

Oracle: each other. The rows are those that go wrong in deployments: values that are missing,
categories and tags that training never saw, text that is empty, numbers far from all others.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import linkdist
from linkdist import LinkDistClassifier, exporting, from_features, pipeline, prediction, with_links
from linkdist.artifacts.model_dir import load_model
from linkdist.artifacts.onnx_graph.inputs import column_inputs
from linkdist.pipeline import Options, Tables

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
testclient = pytest.importorskip("starlette.testclient")

TRAINED, ROWS, WIDTH = 400, 10_000, 6
WORDS = ["graph", "link", "node", "class", "label", "feature", "head", "mean", "sum", "loss"]
RAW = {"age": "numeric", "since": "numeric", "place": "vector"}
KINDS = {
    **RAW,
    "since": "date",
    "born": "date",
    "town": "categorical",
    "note": "text",
    "genre": "tags",
    "words": "tags",
    "codes": "tags:binary",
}

agree = np.testing.assert_allclose
WITHIN = {"rtol": 0, "atol": 1e-4}


def table(n, seed, towns, far=0.0):
    """Nodes of three classes, a tenth of whose values are missing and a few far away.

    Towns are also tags, so that some tags are new, too.
    """
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)

    def some(values):
        return [None if gone else v for v, gone in zip(values, random.random(n) < 0.1, strict=True)]

    age = random.normal(40 + 5 * y, 10)
    age[random.random(n) < far] = 1e30
    place = (random.normal(size=(n, WIDTH)) + y[:, None]).astype(np.float32)
    notes = [" ".join(random.choice(WORDS[3 * c : 3 * c + 4], c * 2)) for c in y]  # '' of class 0
    days = (3650 * y + random.integers(0, 3000, n)).tolist()
    born = [f"{date(1950, 3, 1) + timedelta(days=d):%d.%m.%Y}" for d in days]
    words = [[WORDS[c], *random.choice(WORDS, c).tolist(), *random.choice(towns, 1)] for c in y]
    columns = {
        "id": pa.array(random.permutation(n)),
        "age": pa.array(some(age.tolist()), pa.float64()),
        "since": pa.array(some((1_700_000_000 + 3600 * y).tolist()), pa.timestamp("ms")),
        "place": pa.array(some(list(place)), pa.list_(pa.float32())),
        "town": some(random.choice(towns, n).tolist()),
        "note": some(notes),
        "born": some(born),
        "genre": some(["|".join(row) for row in words]),
        "words": pa.array(some(words), pa.list_(pa.string())),
        "codes": pa.array(some([[c, *range(c)] for c in y.tolist()]), pa.list_(pa.int64())),
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
    tables, out = Tables(nodes, links, "id", "class", [], columns), folder / "-".join(columns)
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


def by_service(model, new):
    """Ask the HTTP service for every row, in requests of 2,000 rows."""
    from linkdist.serve.app import make_app
    from linkdist.serve.settings import Settings

    names = [column.name for column in load_model(model).encoders.columns]
    rows = new.select(names).to_pylist()
    found = []
    with testclient.TestClient(make_app(Settings(str(model)))) as client:
        for start in range(0, len(rows), 2000):
            body = json.dumps({"rows": rows[start : start + 2000]}, default=str)  # dates as ISO
            headers = {"content-type": "application/json"}
            answer = client.post("/v1/predict", content=body, headers=headers).json()
            found += [list(one["probabilities"].values()) for one in answer["predictions"]]
    return np.array(found)


def check_ways(model, folder, new, expected):
    """Check that the directory, the command, HTTP and ONNX give the same probabilities."""
    assert expected.std(axis=0).min() > 0.05, "what hardly varies agrees easily"
    agree(linkdist.load_model(model).predict_proba(pa.table(new)), expected, **WITHIN)
    ids, commanded = by_command(model, folder)
    assert ids.to_pylist() == new["id"].to_pylist()
    agree(commanded, expected, **WITHIN)
    agree(by_service(model, new), expected, **WITHIN)
    encoders = load_model(model).encoders
    x = encoders.transform(new)
    agree(by_onnx(model, folder, {"features": x.toarray()}), expected, **WITHIN)
    agree(by_onnx(model, folder, column_inputs(encoders, new)), expected, **WITHIN)


def predicted(path):
    """Ids and probabilities of a table."""
    found = pyarrow.parquet.read_table(path)
    return found["id"], np.stack([found[f"p_c{c}"].to_numpy() for c in range(3)], axis=1)


def by_onnx(model, folder, feed):
    """Run the exported file, in two pieces of different sizes."""
    path = folder / "model.onnx"
    rows, alone = folder / "new.parquet", "features" in feed
    done = exporting.export(load_model(model), path, features_only=alone, rows=rows)
    assert done.rows == ROWS
    assert done.difference <= 1e-4
    assert done.obstacles == ()
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    parts = (slice(0, 777), slice(777, None))
    found = [
        session.run(["probabilities"], {name: x[part] for name, x in feed.items()})[0]
        for part in parts
    ]
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
    check_ways(directory, folder, new, from_features(saved.model, x))


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


def test_all_ways_agree_on_a_saved_classifier(folder, new):
    old = pyarrow.parquet.read_table(folder / "old.parquet")
    links = pyarrow.parquet.read_table(folder / "old_links.parquet")
    classifier = LinkDistClassifier(
        epochs=3, held_out=0, device="cpu", class_weight="balanced", random_state=0
    ).fit(
        old.select(list(KINDS)),
        old["class"].to_pylist(),
        edges=np.stack([links["a"], links["b"]], axis=1),
        nodes=old["id"].to_pylist(),
    )
    assert classifier.encoder_.kinds_ == {**KINDS, "codes": "tags"}
    rows = pa.table(new).select(list(KINDS))
    found = classifier.predict_proba(rows)
    classifier.save(folder / "classifier", label="class")
    check_ways(folder / "classifier", folder, new, found)
    assert classifier.predict(rows[:50]).tolist() == [f"c{c}" for c in found[:50].argmax(axis=1)]
