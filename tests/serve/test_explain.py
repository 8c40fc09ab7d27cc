"""POST /v1/explain."""

import json

import numpy as np
import pytest
from starlette.testclient import TestClient

from linkdist.inference.engine import Engine
from linkdist.inference.explain_table import explain_table
from linkdist.serve import explain
from linkdist.serve.app import make_app
from linkdist.serve.errors import RefusedError
from linkdist.serve.explanations import explain_request
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from tests.serve.models import ROWS, ask, bare, of_all_kinds


def why(client, rows=ROWS, address="/v1/explain", **more):
    return client.post(address, json={"rows": rows, **more})


def parts_of(one):
    return {(part["column"], part["value"]): part["contribution"] for part in one["parts"]}


def test_the_answer_explains_the_prediction(client):
    predicted, explained = ask(client).json(), why(client).json()
    assert explained["version"] == predicted["version"]
    assert explained["notices"] == predicted["notices"]
    pairs = zip(predicted["predictions"], explained["explanations"], strict=True)
    for k, (prediction, one) in enumerate(pairs):
        assert (one["row"], one["label"]) == (k, prediction["label"])
        assert one["probability"] == pytest.approx(prediction["confidence"], abs=1e-5)
        assert one["mode"] == "features"
        odds = np.log(one["probability"]) - np.log(1 - one["probability"])
        assert one["base"] + sum(parts_of(one).values()) == pytest.approx(odds, abs=1e-4)


def test_the_answer_is_that_of_a_table(client, papers_model):
    engine = Engine(papers_model)
    table = {name: [row.get(name) for row in ROWS[:2]] for name in ("title", "venue", "year")}
    found = explain_table(engine.heads, engine.columns, engine.header, table)
    for (_, one), other in zip(found, why(client, ROWS[:2]).json()["explanations"], strict=True):
        expected = {(part.column, part.value): part.contribution for part in one.parts}
        assert parts_of(other) == pytest.approx(expected, abs=1e-6)


def test_links_and_neighbours(client):
    more = {"neighbours": ROWS[1:3], "links": [[0, 1], [0, 2], [0, 0]]}
    predicted = ask(client, ROWS[:1], **more).json()["predictions"][0]
    (one,) = why(client, ROWS[:1], **more).json()["explanations"]
    assert (one["mode"], one["label"]) == ("links", predicted["label"])
    near = [part["value"] for part in one["parts"] if part["kind"] == "neighbour"]
    assert sorted(near) == ["1", "2"]
    p = predicted["confidence"]
    total = one["base"] + sum(parts_of(one).values())
    assert total == pytest.approx(np.log(p / (1 - p)), abs=1e-3)  # p has six digits
    without = ask(client, ROWS[:1], neighbours=ROWS[1:3], links=[[0, 2]]).json()["predictions"][0]
    q = without["probabilities"][one["label"]]
    expected = np.log(p / (1 - p)) - np.log(q / (1 - q))
    assert parts_of(one)["links", "1"] == pytest.approx(expected, abs=1e-3)


def test_another_class(client):
    answer = why(client, ROWS[:1], "/v1/explain?class=physics&class=history")
    assert [one["label"] for one in answer.json()["explanations"]] == ["physics", "history"]
    wrong = why(client, ROWS[:1], "/v1/explain?class=art")
    assert (wrong.status_code, "unknown class 'art'" in wrong.json()["error"]) == (422, True)


def test_requests_that_are_refused(client, papers_model):
    refused = client.post("/v1/explain", content="{}", headers={"Content-Type": "text/plain"})
    assert refused.status_code == 415
    body = json.dumps({"rows": ROWS * 26}).encode()
    with pytest.raises(RefusedError, match="may explain 100 rows; found 104") as info:
        explain_request(ServedModel(papers_model), body, 1000, None)
    assert info.value.status == 413
    assert client.post("/v1/explain", content="{}").status_code == 415
    assert why(client, [{"age": 3}]).json()["error"] == ask(client, [{"age": 3}]).json()["error"]


def test_a_busy_service_refuses_before_the_body_is_read(papers_model, idle, monkeypatch):
    monkeypatch.setattr("linkdist.serve.workers.WAITING", 0)
    with TestClient(make_app(Settings(str(papers_model)), idle)) as client:
        refused = client.post(
            "/v1/explain", content=b"not read", headers={"Content-Type": "application/json"}
        )
    assert (refused.status_code, "retry-after" in refused.headers) == (503, True)


def test_large_requests_are_refused(client, monkeypatch):
    monkeypatch.setattr(explain, "MAX_BYTES", 100)
    assert "the body may have 100 bytes" in why(client).json()["error"]


def test_every_kind_of_column(tmp_path, idle):
    app = make_app(Settings(str(of_all_kinds(tmp_path / "model"))), idle)
    row = {"day": "2004-05-31", "genre": "war|love", "topics": ["b"], "price": 3, "v": [0, 1]}
    with TestClient(app) as client:
        (one,) = why(client, [row, {}][:1]).json()["explanations"]
    assert {part["column"] for part in one["parts"]} == set(row)
    assert {"war", "love", "b", "3", "[0.0, 1.0]"} <= {part["value"] for part in one["parts"]}


def test_a_model_without_columns_has_no_parts(tmp_path, idle):
    bare(tmp_path / "model")
    with TestClient(make_app(Settings(str(tmp_path / "model")), idle)) as client:
        refused = why(client, [[0, 1, 2, 3]])
    assert (refused.status_code, "no columns" in refused.json()["error"]) == (422, True)


def test_the_document_describes_it(client):
    document = client.get("/v1/openapi.json").json()
    operation = document["paths"]["/v1/explain"]["post"]
    content = operation["requestBody"]["content"]["application/json"]
    assert content["schema"]["$ref"].endswith("/Request")
    assert operation["parameters"][0]["name"] == "class"
    assert "ExplainAnswer" in document["components"]["schemas"]
