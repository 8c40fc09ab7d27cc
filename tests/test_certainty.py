"""Sets and unanswered rows by every way to predict. Oracle: the rule on the model's probabilities.

The model has random weights and made scores of held-out labels.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import linkdist
from linkdist.artifacts.model_dir import Saved, load_model, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.errors import ModelError, OptionError
from linkdist.tables.certainty import Caution, Certainty
from linkdist.tables.feature_encoder import make_feature_encoder
from tests.task_models import TASKS, about_task, task_model

LEVEL, SHARE = 0.8, 0.3
CLASSES = TASKS["classification"]
ROWS = 40


@pytest.fixture(scope="module")
def nodes():
    random = np.random.default_rng(0)
    return pa.table({"node": range(ROWS), "size": random.normal(size=ROWS),
                     "place": random.normal(size=(ROWS, 3)).tolist()})  # fmt: skip


@pytest.fixture(scope="module")
def links():
    """Links between the first ten nodes."""
    return pa.table({"source": range(9), "target": range(1, 10)})


@pytest.fixture(scope="module")
def directory(tmp_path_factory, nodes):
    """A model whose held-out labels were predicted as well as its probabilities say."""
    encoders = make_feature_encoder({"size": "numeric", "place": "vector"})
    encoders.partial_fit(nodes.select(["size", "place"]).to_batches()[0])
    model = task_model("classification")
    p = linkdist.from_features(model, encoders.transform(nodes.to_batches()[0]))
    random = np.random.default_rng(1)
    truth = np.array([random.choice(3, p=row / row.sum()) for row in p.astype(np.float64)])
    certainty = Certainty.of({"features": p, "links": np.sqrt(p) / np.sqrt(p).sum(1)[:, None]},
                             truth)  # fmt: skip
    about = about_task("classification", certainty=certainty.state(), source="source",
                       target="target", relations=["links"])  # fmt: skip
    folder = tmp_path_factory.mktemp("certain") / "model"
    save_model(folder, with_onnx(Saved(model, encoders, about)))
    return folder


@pytest.fixture(scope="module")
def certainty(directory):
    return Certainty.read(load_model(directory).about["certainty"])


@pytest.fixture(scope="module")
def files(tmp_path_factory, nodes, links):
    folder = tmp_path_factory.mktemp("tables")
    pyarrow.parquet.write_table(nodes, folder / "nodes.parquet")
    pyarrow.csv.write_csv(links, folder / "links.csv")
    return folder


def expected(certainty, p, linked=None):
    """Sets (n, C) and which rows (n,) are answered, from probabilities (n, C)."""
    modes = np.zeros(len(p), dtype=int) if linked is None else linked.astype(int)
    t, least = ([getattr(one, what)(share) for one in (certainty.features, certainty.links)]
                for what, share in (("threshold", LEVEL), ("least", SHARE)))  # fmt: skip
    sets = [[q >= t[k] or q == max(row) for q in row] for row, k in zip(p, modes, strict=True)]
    return np.array(sets), np.array([max(row) >= least[k] for row, k in zip(p, modes, strict=True)])


def linked_rows():
    return np.arange(ROWS) < 10


@pytest.mark.parametrize("with_links", [False, True])
def test_python_follows_the_rule(directory, nodes, links, certainty, with_links):
    model = linkdist.load_model(directory)
    given = (nodes, links) if with_links else (nodes,)
    p = model.predict_proba(*given)
    sets, answered = expected(certainty, p, linked_rows() if with_links else None)
    assert 0 < answered.sum() < ROWS
    assert 1 < sets.sum(axis=1).mean() < 3
    assert (model.predict_set(*given, level=LEVEL) == sets).all()
    found = model.predict(*given, abstain=SHARE)
    assert (found == np.where(answered, model.predict(*given), None)).all()
    with pytest.raises(OptionError, match="sets must be between 0 and 1"):
        model.predict_set(nodes, level=90)


@pytest.mark.parametrize("with_links", [False, True])
def test_the_command_writes_sets_and_says_what_is_answered(
    command, directory, files, nodes, links, certainty, tmp_path, with_links
):
    out, more = tmp_path / "p.parquet", ["--edges", files / "links.csv"] if with_links else []
    code, _, errors = command("predict", directory, files / "nodes.parquet", "--out", out, *more,
                              "--sets", LEVEL, "--abstain", SHARE, "--device", "cpu")  # fmt: skip
    assert code == 0
    table = pyarrow.parquet.read_table(out)
    p = np.stack([table[f"p_{name}"].to_numpy() for name in CLASSES], axis=1)
    sets, answered = expected(certainty, p, linked_rows() if with_links else None)
    assert table["set"].to_pylist() == [[CLASSES[c] for c in np.flatnonzero(row)] for row in sets]
    assert [label is not None for label in table["label"].to_pylist()] == answered.tolist()
    assert f"Answered: {100 * answered.mean():.0f} % of 40 rows. Estimated accuracy" in errors
    assert "Warning" not in errors


def test_a_directory_is_predicted_alike(command, directory, files, nodes, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    for k in range(2):
        pyarrow.parquet.write_table(nodes.slice(20 * k, 20), parts / f"{k}.parquet")
    options = ["--sets", LEVEL, "--abstain", SHARE, "--device", "cpu"]
    single, out = tmp_path / "p.parquet", tmp_path / "out"
    *_, said = command(
        "predict", directory, files / "nodes.parquet", "--out", single, *options
    )  # fmt: skip
    code, _, errors = command("predict", directory, parts, "--out", out, *options)
    assert code == 0
    found = pa.concat_tables([pyarrow.parquet.read_table(out / f"{k}.parquet") for k in range(2)])
    whole = pyarrow.parquet.read_table(single)
    assert found["set"].to_pylist() == whole["set"].to_pylist()
    assert found["label"].to_pylist() == whole["label"].to_pylist()
    (line,) = [line for line in said.splitlines() if line.startswith("Answered")]
    assert line in errors.splitlines()


def test_an_interrupted_directory_does_not_go_on_with_other_sets(directory, tmp_path):
    from linkdist.distributed.ray_predict import _digest

    saved = load_model(directory)
    found = {_digest(saved, Caution(*given)) for given in [(), (0.9,), (0.8,), (0.9, 0.2)]}
    assert len(found) == 4


@pytest.mark.parametrize("wrong", [["--sets", "90"], ["--abstain", "0"], ["--sets", "nan"]])
def test_the_command_refuses_shares_that_are_none(command, directory, files, tmp_path, wrong):
    out = tmp_path / "p.csv"
    code, _, errors = command("predict", directory, files / "nodes.parquet", "--out", out, *wrong)
    assert code == 2
    assert "must be between 0 and 1" in errors
    assert not out.exists()


def test_a_model_without_scores_says_why(command, papers, papers_model, tmp_path):
    """The model was trained by CoLinkDist; older models look the same."""
    out = tmp_path / "p.csv"
    code, _, errors = command("predict", papers_model, papers / "new_nodes.csv", "--out", out,
                              "--sets", "0.9")  # fmt: skip
    assert code == 2
    assert "trained by an older version" in errors
    assert "Traceback" not in errors
    assert not out.exists()


def test_too_few_labels_are_a_warning(command, directory, files, tmp_path):
    code, _, errors = command("predict", directory, files / "nodes.parquet", "--quiet", "--out",
                              tmp_path / "p.csv", "--sets", "0.99", "--device", "cpu")  # fmt: skip
    assert code == 0
    assert "Warning: sets that contain the true class of 99 % of rows need 99 labels" in errors
    assert set(pyarrow.csv.read_csv(tmp_path / "p.csv")["set"].to_pylist()) == {"|".join(CLASSES)}


@pytest.fixture(scope="module")
def client(directory):
    testclient = pytest.importorskip("fastapi.testclient")
    from linkdist.serve.app import make_app
    from linkdist.serve.settings import Settings

    with testclient.TestClient(make_app(Settings(str(directory)))) as client:
        yield client


def test_the_service_answers_alike(client, directory, nodes, links, certainty):
    rows = nodes.drop_columns(["node"]).to_pylist()
    pairs = [list(pair.values()) for pair in links.to_pylist()]
    p = linkdist.load_model(directory).predict_proba(nodes, links)
    sets, answered = expected(certainty, p, linked_rows())
    body, where = {"rows": rows, "links": pairs}, f"/v1/predict?sets={LEVEL}&abstain={SHARE}"
    found = client.post(where, json=body).json()["predictions"]
    assert [one["set"] for one in found] == [
        [CLASSES[c] for c in np.flatnonzero(row)] for row in sets
    ]
    assert [one["label"] is not None for one in found] == answered.tolist()
    for one in found:
        assert one["confidence"] == max(one["probabilities"].values())
    plain = client.post("/v1/predict", json=body).json()["predictions"]
    assert all("set" not in one and one["label"] for one in plain)
    few = client.post("/v1/predict?sets=0.99", json=body).json()
    assert "need 99 labels" in few["notices"][0]


def test_the_service_predicts_a_table_alike(client, directory, files, command, tmp_path):
    table = tmp_path / "p.csv"
    command("predict", directory, files / "nodes.parquet", "--out", table, "--sets", LEVEL,
            "--abstain", SHARE, "--device", "cpu")  # fmt: skip
    content = (files / "nodes.parquet").read_bytes()
    where = f"/v1/predict/table?name=nodes.parquet&sets={LEVEL}&abstain={SHARE}"
    found = pyarrow.csv.read_csv(pa.py_buffer(client.post(where, content=content).content))
    expected = pyarrow.csv.read_csv(table)
    for column in ("node", "label", "set"):
        assert found[column].to_pylist() == expected[column].to_pylist()


@pytest.mark.parametrize("share", ["0", "1", "90", "nan", "text"])
def test_the_service_refuses_shares_that_are_none(client, nodes, share):
    body = {"rows": nodes.drop_columns(["node"]).to_pylist()}
    answer = client.post(f"/v1/predict?sets={share}", json=body)
    assert answer.status_code == 422
    assert "sets" in json.dumps(answer.json())


def test_an_update_forgets_what_was_measured(directory, nodes, tmp_path):
    saved = load_model(directory)
    updated = Saved(saved.model, saved.encoders, {**saved.about, "updates": [{}]})
    save_model(tmp_path / "m", updated)
    assert "## Certainty" in (directory / "README.md").read_text("utf-8")
    assert "## Certainty" not in (tmp_path / "m" / "README.md").read_text("utf-8")
    with pytest.raises(ModelError, match="it was updated"):
        linkdist.load_model(tmp_path / "m").predict_set(nodes)


def test_the_estimator_predicts_sets_until_it_is_trained_further(planted):
    x, y = planted.features, planted.labels
    options = {"epochs": 1, "device": "cpu"}
    model = linkdist.LinkDistClassifier(**options).fit(x, y, edges=planted.links)
    held = model.decision_.certainty
    for edges, one in ((None, held.features), (planted.links, held.links)):
        p = model.predict_proba(x, edges=edges)
        sets = (p >= one.threshold(0.8)) | (p == p.max(axis=1, keepdims=True))
        assert (model.predict_set(x, level=0.8, edges=edges) == sets).all()
    model.partial_fit(x[:10], y[:10])
    with pytest.raises(ModelError, match="it was updated"):
        model.predict_set(x)
