"""Numbers, several labels, relations, directions and weights over HTTP.

Oracle: the model in PyTorch, given the same features and links.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from starlette.testclient import TestClient

from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.errors import ModelError
from linkdist.serve.app import make_app
from linkdist.serve.compute import compute
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from linkdist.tables.feature_encoder import make_feature_encoder
from tests.serve.models import ask
from tests.task_models import DECISIONS, RELATIONS, TASKS, about_task, random_links, task_model

X = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)
ROWS = 6
"""The other nodes are neighbours."""


def save(folder, task, relations=("links",), directed=False, **about):
    saved = Saved(task_model(task, relations, directed), about=about_task(task, **about))
    save_model(folder, with_onnx(saved))
    return saved


def save_table_model(folder, task, **about):
    """A model of a numeric column and a vector."""
    encoders = make_feature_encoder({"size": "numeric", "place": "vector"})
    encoders.partial_fit(pa.record_batch({"size": [1.0, 4.0], "place": [[0.0, 1, 2], [3.0, 1, 5]]}))
    saved = Saved(task_model(task), encoders, about_task(task, **about))
    save_model(folder, with_onnx(saved))
    return saved


@pytest.fixture(scope="module", params=[(task, relations, directed)
                                        for task in TASKS
                                        for relations in (("links",), RELATIONS)
                                        for directed in (False, True)], ids=str)  # fmt: skip
def served(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    saved = save(folder, *request.param, weight="strength")
    with TestClient(make_app(Settings(str(folder)))) as client:
        yield saved.model, client


def as_json(links):
    """Links as objects, or as pairs where there is nothing else to say."""
    for k, (a, b) in enumerate(links.pairs.tolist()):
        link = {"source": a, "target": b}
        if links.relation is not None:
            link["relation"] = links.relations[links.relation[k]]
        if links.weights is not None:
            link["weight"] = float(links.weights[k])
        yield link if len(link) > 2 else [a, b]


def check(answer, expected, linked):
    """Compare an answer with probabilities or numbers (n, C), and with the stored decision."""
    task = "regression" if expected.shape[1] == 1 else "multilabel"
    task = "classification" if expected.shape[1] == 3 else task
    modes = np.where(linked, "links", "features").tolist()
    assert [one["mode"] for one in answer["predictions"]] == modes
    for one, row, mode in zip(answer["predictions"], expected, modes, strict=True):
        if task == "regression":
            width = DECISIONS[task]["widths"][mode]
            assert set(one) == {"predicted", "low", "high", "mode"}
            assert one["predicted"] == pytest.approx(float(row[0]), rel=1e-5, abs=1e-5)
            assert one["low"] == pytest.approx(float(row[0]) - width, rel=1e-5, abs=1e-5)
            assert one["high"] == pytest.approx(float(row[0]) + width, rel=1e-5, abs=1e-5)
            continue
        assert list(one["probabilities"]) == list(TASKS[task])
        shares = list(one["probabilities"].values())
        np.testing.assert_allclose(shares, row, atol=1e-5)
        if task == "classification":
            assert one["label"] == TASKS[task][row.argmax()]
            assert one["confidence"] == max(shares)
        else:
            thresholds = DECISIONS[task]["thresholds"][mode]
            reached = zip(TASKS[task], row, thresholds, strict=True)
            assert one["labels"] == [name for name, p, least in reached if p >= least]


def test_rows_are_predicted_from_features(served):
    model, client = served
    answer = ask(client, X.tolist()).json()
    check(answer, model.predict_proba(X), np.zeros(len(X), bool))
    assert "notices" not in answer


@pytest.mark.parametrize("weighted", [False, True])
def test_links_are_used_as_the_model_does(served, weighted):
    model, client = served
    links = random_links(9, model.relations, model.directed, weighted)
    body = {"neighbours": X[ROWS:].tolist(), "links": list(as_json(links))}
    answer = ask(client, X[:ROWS].tolist(), **body).json()
    proper = links.pairs[links.pairs[:, 0] != links.pairs[:, 1]]
    expected = model.predict_proba(X, links)[:ROWS]
    check(answer, expected, np.isin(np.arange(ROWS), proper))
    told = [] if weighted else ["The model was trained with weights of links."]
    assert [text[:44] for text in answer.get("notices", [])] == told


def test_requests_with_and_without_weights_are_computed_together(tmp_path):
    """Joined requests give what each gives alone: duplicates are merged before."""
    saved = save(tmp_path / "model", "regression", RELATIONS, directed=True)
    engine = ServedModel(tmp_path / "model")
    names = (RELATIONS, True)
    several = [
        random_links(9, *names, weighted=True, seed=1),
        None,
        random_links(9, *names, seed=2),
    ]
    bodies = [
        {"rows": X.tolist(), "links": [] if links is None else list(as_json(links))}
        for links in several
    ]
    requests = [engine.schema.read(json.dumps(body).encode(), 100) for body in bodies]
    for found, links in zip(compute(engine, requests), several, strict=True):
        expected = saved.model.predict_proba(X, links)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_model_is_described(served):
    model, client = served
    found = client.get("/v1/model").json()
    assert found["task"] == model.task
    assert found["relations"] == list(model.relations)
    assert (found["directed"], found["weighted"]) == (model.directed, True)
    assert found["coverage"] == (0.9 if model.task == "regression" else None)
    thresholds = DECISIONS["multilabel"]["thresholds"] if model.task == "multilabel" else None
    assert found["thresholds"] == thresholds


def test_the_example_of_the_document_is_answered(served):
    model, client = served
    document = client.get("/openapi.json").json()
    body = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]
    (link,) = body["example"]["links"]
    assert link.get("relation") == (RELATIONS[0] if len(model.relations) > 1 else None)
    answer = client.post("/v1/predict", json=body["example"])
    assert answer.status_code == 200
    kinds = {"classification": "Prediction", "regression": "NumberPrediction",
             "multilabel": "LabelsPrediction"}  # fmt: skip
    schemas = document["components"]["schemas"]
    items = schemas["Answer"]["properties"]["predictions"]["items"]
    assert items == {"$ref": f"#/components/schemas/{kinds[model.task]}"}
    required = schemas[kinds[model.task]]["required"]  # a set is there if it is asked for
    assert set(answer.json()["predictions"][0]) == set(required)
    about = schemas["Request"]["properties"]["links"]["description"]
    assert ("directed" in about) == model.directed
    assert ("cites, knows, sells" in about) == (len(model.relations) > 1)
    assert "weighted" in about


def test_intervals_are_null_where_training_chose_none(tmp_path):
    decision = {"widths": {"features": None}}
    save(tmp_path / "model", "regression", decision=decision)
    with TestClient(make_app(Settings(str(tmp_path / "model")))) as client:
        for links in ([], [[0, 1]]):
            for one in ask(client, X[:2].tolist(), links=links).json()["predictions"]:
                assert (one["low"], one["high"]) == (None, None)
                assert isinstance(one["predicted"], float)
        assert client.get("/v1/model").json()["coverage"] is None


@pytest.mark.parametrize("task", TASKS)
def test_a_table_has_the_columns_of_the_task(tmp_path, idle, task):
    saved = save_table_model(tmp_path / "model", task)
    rows = [{"size": 2.5, "place": [1, 2, 3]}, {"size": 1, "place": [0, 0, 0]}]
    table = "".join(json.dumps({"node": k, **row}) + "\n" for k, row in enumerate(rows))
    with TestClient(make_app(Settings(str(tmp_path / "model")), idle)) as client:
        answer = client.post("/v1/predict/table?name=x.jsonl", content=table.encode())
        assert answer.status_code == 200, answer.text
        predictions = ask(client, rows).json()["predictions"]
    found = pa.csv.read_csv(pa.py_buffer(answer.content)).to_pylist()
    names = list(found[0])
    for k, (row, one) in enumerate(zip(found, predictions, strict=True)):
        assert row["node"] == k
        if task == "regression":
            assert names == ["node", "predicted", "low", "high"]
            values = [one["predicted"], one["low"], one["high"]]
            assert list(row.values())[1:] == pytest.approx(values, rel=1e-5)
            continue
        shares = {f"p_{name}": p for name, p in one["probabilities"].items()}
        assert {name: row[name] for name in shares} == pytest.approx(shares, abs=1e-5)
        if task == "multilabel":
            assert names == ["node", "labels", *shares]
            assert row["labels"] == "|".join(one["labels"])
        else:
            assert names == ["node", "label", "confidence", *shares]
            assert row["label"] == one["label"]
    assert saved.model.task == task


def test_all_label_columns_and_the_graph_column_may_come_along(tmp_path):
    save_table_model(tmp_path / "model", "multilabel", label=["even", "loop"], graph="country")
    row = {"size": 1, "even": 1, "loop": 0, "country": "DE", "node": 7}
    with TestClient(make_app(Settings(str(tmp_path / "model")))) as client:
        assert ask(client, [row]).status_code == 200
        assert client.get("/v1/model").json()["label"] == ["even", "loop"]
        wrong = ask(client, [{**row, "evne": 1}])
        assert "unknown column 'evne'" in wrong.json()["error"]


@pytest.mark.parametrize(
    "decision",
    [7, {"thresholds": {"features": [0.5] * 3}}, {"thresholds": 3}, {"widths": {"links": "wide"}}],
)
def test_a_decision_of_another_kind_is_refused(tmp_path, decision):
    save(tmp_path / "model", "multilabel", decision=decision)
    with pytest.raises(ModelError):
        ServedModel(tmp_path / "model")
