"""The service in this process. Oracles: the model in PyTorch, and the request itself."""

import asyncio
import threading
import time

import httpx2
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch
from starlette.testclient import TestClient

from linkdist import from_features, with_links
from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP
from linkdist.serve.app import make_app
from linkdist.serve.compute import compute
from linkdist.serve.errors import RefusedError
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from linkdist.tables.feature_encoder import make_feature_encoder
from tests.serve.models import ROWS, ask, bare, shares, vectors


def encoded(model, rows):
    full = [{name: row.get(name) for name in model.encoders.names} for row in rows]
    full = [{**row, "year": None if row["year"] is None else float(row["year"])} for row in full]
    batch = pa.RecordBatch.from_pylist(
        full, schema=pa.schema({"title": pa.string(), "venue": pa.string(), "year": pa.float64()})
    )
    return model.encoders.transform(batch)


def test_rows_are_predicted_as_the_model_does(client, model):
    answer = ask(client)
    assert answer.status_code == 200
    np.testing.assert_allclose(
        shares(answer), from_features(model.model, encoded(model, ROWS)), atol=1e-4
    )
    for one in answer.json()["predictions"]:
        assert list(one["probabilities"]) == list(model.model.classes)
        assert one["confidence"] == max(one["probabilities"].values())
        assert one["probabilities"][one["label"]] == one["confidence"]
        assert one["mode"] == "features"


def test_links_and_neighbours_are_used_as_the_model_does(client, model):
    links = [[0, 1], [1, 0], [0, 4], [2, 5], [4, 5]]
    neighbours = [{"title": "boson"}, {"year": 1980, "venue": "annals"}]
    answer = ask(client, neighbours=neighbours, links=links)
    expected = with_links(
        model.model,
        encoded(model, ROWS + neighbours),
        np.array([[0, 1], [0, 4], [2, 5], [4, 5]]),
    )
    np.testing.assert_allclose(shares(answer), expected[:4], atol=1e-4)
    modes = [one["mode"] for one in answer.json()["predictions"]]
    assert modes == ["links", "links", "links", "features"]


def test_the_label_is_that_of_the_exact_probabilities(client, model, monkeypatch):
    """Probabilities that are equal after rounding are not equal."""
    p = np.array([[0.25, 0.25, 0.25000003, 0.24999997]], dtype=np.float32)
    monkeypatch.setattr(ServedModel, "probabilities", lambda *_: p)
    (found,) = ask(client, ROWS[:1]).json()["predictions"]
    assert set(found["probabilities"].values()) == {0.25}
    assert found["label"] == model.model.classes[2]


def test_a_link_to_itself_is_no_link(client):
    (found,) = ask(client, ROWS[:1], links=[[0, 0]]).json()["predictions"]
    assert found["mode"] == "features"


@pytest.mark.parametrize(("rows", "is_large"), [(1, False), (5000, True)])
def test_large_requests_are_read_and_answered_outside_the_event_loop(
    papers_model, idle, monkeypatch, rows, is_large
):
    import linkdist.serve.app as module
    from linkdist.serve.schema import RequestSchema

    threads = []

    def spied(function):
        def call(*args):
            threads.append(threading.current_thread())
            return function(*args)

        return call

    monkeypatch.setattr(RequestSchema, "read", spied(RequestSchema.read))
    monkeypatch.setattr(module, "answer", spied(module.answer))

    async def predict():
        transport = httpx2.ASGITransport(make_app(Settings(str(papers_model)), idle))
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            body = {"rows": [{"year": 1974}] * rows}
            return await client.post("/v1/predict", json=body), threading.current_thread()

    answer, loop = asyncio.run(predict())
    assert answer.status_code == 200
    assert threads == ([] if is_large else [loop, loop])


def test_dates_and_categories_are_read_as_in_a_table(client):
    same = [{"year": 1e9}, {"year": "1e9"}, {"year": "2001-09-09T01:46:40"}]
    found = shares(ask(client, same))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_ids_and_labels_may_come_along(client):
    answer = ask(client, [{"paper": "P1", "field": "physics", "year": 2000}])
    assert answer.status_code == 200


BAD = [
    (b"", 400, "must be JSON"),
    (b"{", 400, "must be JSON"),
    (b'{"rows": [{"year": NaN}]}', 400, "send null"),
    (b'{"rows": [{"year": Infinity}]}', 400, "send null"),
    (b"\xff\xfe", 400, "UTF-8"),
    (b"[" * 9000 + b"]" * 9000, 400, "nested too deeply"),
    (b'{"rows": [{"year": ' + b"9" * 5000 + b"}]}", 400, "must be JSON"),
    (b"[]", 422, "found a list"),
    (b"7", 422, "found a number"),
    (b"{}", 422, "one row or more"),
    (b'{"rows": []}', 422, "one row or more"),
    (b'{"rows": {}}', 422, "'rows' must be a list"),
    (b'{"rows": [{"year": 1}], "link": []}', 422, "unknown key 'link'"),
    (b'{"rows": [7]}', 422, "must be an object"),
    (b'{"rows": [{}]}', 422, "a value in one column"),
    (b'{"rows": [{"yaer": 1, "year": 2}]}', 422, "unknown column 'yaer' (near: year)"),
    (b'{"rows": [{"year": "old"}]}', 422, "row 1 has 'old'"),
    (b'{"rows": [{"year": 1e999}]}', 422, "finite"),
    (b'{"rows": [{"year": 1e300}]}', 422, "finite"),
    (b'{"rows": [{"year": [1]}]}', 422, "column 'year' must contain numbers; row 1 has [1]"),
    (b'{"rows": [{"title": {"a": 1}}]}', 422, "column 'title' must contain one value per row"),
    (b'{"rows": [{"title": "\\ud800"}]}', 422, "in valid Unicode"),
    (b'{"rows": [{"year": 1}], "links": [[0, 1]]}', 422, "positions from 0 to 0"),
    (b'{"rows": [{"year": 1}], "links": [[0]]}', 422, "link 0 is [0]"),
    (b'{"rows": [{"year": 1}], "links": [[true, 0]]}', 422, "link 0 is [true, 0]"),
    (b'{"rows": [{"year": 1}], "links": [[0.5, 0]]}', 422, "two positions"),
    (b'{"rows": [{"year": 1}], "neighbours": 3}', 422, "'neighbours' must be a list"),
    (b'{"rows": [' + b'{"year":1},' * 100 + b'{"year":1}]}', 413, "may hold 100"),
    (b" " * 30_000, 413, "20,000 bytes"),
]


@pytest.mark.parametrize(("body", "status", "words"), BAD, ids=range(len(BAD)))
def test_a_bad_body_is_refused_with_what_to_change(client, body, status, words):
    answer = client.post("/v1/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]
    assert ask(client).status_code == 200


def test_all_problems_are_told_at_once_and_by_column(client):
    answer = ask(client, [{"year": "old", "title": []}, {"year": "young", "titel": "x"}])
    told = answer.json()
    assert set(told["columns"]) == {"year", "title"}
    assert "row 1 has 'old', row 2 has 'young'" in told["columns"]["year"]
    assert "unknown column 'titel' (near: title)" in told["error"]


def test_another_type_of_body_is_refused(client):
    answer = client.post("/v1/predict", content=b"a", headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]


def test_a_body_without_a_type_is_refused(client):
    """A page of another site can send such a body."""
    assert client.post("/v1/predict", content=b'{"rows": [{"year": 1}]}').status_code == 415


def test_a_hostile_request_is_refused_quickly(client_of_wide):
    """Near names are searched for a few unknown columns, and reading stops after many problems."""
    names = {f"column{k:x}": 1 for k in range(20_000)}
    wrong = [{f"c{k}": [] for k in range(200)}] * 3000
    for rows, words in [([names], "20,000 unknown columns"), (wrong, "reading stopped at row 1")]:
        started = time.perf_counter()
        answer = ask(client_of_wide, rows)
        assert answer.status_code == 422
        assert words in answer.json()["error"]
        assert time.perf_counter() - started < 5


@pytest.fixture
def client_of_wide(tmp_path):
    """A model with 200 columns."""
    encoders = make_feature_encoder({f"c{k}": "numeric" for k in range(200)})
    network = Model(ForkedMLP(200, 2, [0]), torch.ones(1), ("a", "b"))
    save_model(tmp_path / "wide", with_onnx(Saved(network, encoders, {})))
    with TestClient(make_app(Settings(str(tmp_path / "wide")))) as client:
        yield client


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/predict/table?name=a.csv"])
def test_a_body_that_never_ends_is_given_up(papers_model, path):
    app = make_app(Settings(str(papers_model), seconds=0.05))

    async def endless():
        yield b'{"rows": '
        await asyncio.Event().wait()

    async def ask_slowly():
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            headers = {"content-type": "application/json"}
            return await client.post(path, content=endless(), headers=headers)

    answer = asyncio.run(ask_slowly())
    assert answer.status_code == 408
    assert "within 0.05 seconds" in answer.json()["error"]


def test_more_tables_than_are_predicted_at_once_are_told_to_wait(papers_model):
    client = TestClient(make_app(Settings(str(papers_model), tables=0)))
    answer = client.post("/v1/predict/table?name=a.csv", content=b"x")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


def test_more_rows_than_may_wait_are_told_to_come_again(papers_model):
    client = TestClient(make_app(Settings(str(papers_model), waiting=3)))
    assert ask(client, ROWS[:3]).status_code == 200
    assert ask(client, ROWS).status_code == 503


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/nothing", 404), ("DELETE", "/v1/predict", 405), ("GET", "/v1/predict", 405),
])  # fmt: skip
def test_what_is_not_there_is_told_in_the_same_form(client, method, path, status):
    answer = client.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "columns"}


def test_requests_that_arrive_together_are_computed_together(app, model):
    """Fifty at once give what each gives alone, in fewer computations."""
    rows = [{"year": 1950 + k, "title": f"photon {k}", "venue": "review"} for k in range(50)]
    bad = {"rows": [{"year": "old"}]}

    async def all_at_once():
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            asked = [client.post("/v1/predict", json={"rows": [row]}) for row in rows]
            asked.insert(20, client.post("/v1/predict", json=bad))
            return await asyncio.gather(*asked), (await client.get("/metrics")).text

    answers, metrics = asyncio.run(all_at_once())
    assert answers.pop(20).status_code == 422
    found = np.concatenate([shares(answer) for answer in answers])
    expected = from_features(model.model, encoded(model, rows))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    count = next(line for line in metrics.splitlines() if line.startswith("linkdist_batch_rows_c"))
    assert float(count.split()[1]) < 50


def test_one_request_that_cannot_be_computed_does_not_spoil_the_others(tmp_path):
    """Features of 3e38 are finite, but their probabilities are not."""
    bare(tmp_path / "bare")
    engine = ServedModel(tmp_path / "bare")
    bodies = [b'{"rows": [[1, 2, 3, 4]]}', b'{"rows": [[3e38, 3e38, 3e38, 3e38]]}']
    requests = [engine.schema.read(body, 10) for body in [*bodies, bodies[0]]]
    first, second, third = compute(engine, requests)
    assert isinstance(second, RefusedError)
    assert "too large" in second.error
    np.testing.assert_allclose([first.sum(), third.sum()], 1, atol=1e-5)


def test_a_vector_of_another_length_is_refused_with_all_other_problems(tmp_path):
    engine = ServedModel(vectors(tmp_path / "vectors"))
    bodies = [b'{"rows": [{"v": [1, 2, 3]}]}', b'{"rows": [{"v": []}]}']
    first, third = compute(engine, [engine.schema.read(body, 10) for body in bodies])
    np.testing.assert_allclose([first.sum(), third.sum()], 1, atol=1e-5)
    with pytest.raises(RefusedError) as refused:
        engine.schema.read(b'{"rows": [{"v": [1]}, {"w": 1}]}', 10)
    assert "vectors of length 3" in refused.value.columns["v"]
    assert "unknown column 'w'" in refused.value.error


def test_a_model_of_bare_features_takes_lists_of_numbers(tmp_path):
    saved = bare(tmp_path / "bare")
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    with TestClient(make_app(Settings(str(tmp_path / "bare")))) as client:
        answer = ask(client, x.tolist(), links=[[0, 1], [1, 2]])
        expected = with_links(saved.model, x, np.array([[0, 1], [1, 2]]))
        np.testing.assert_allclose(shares(answer), expected, atol=1e-4)
        assert client.get("/v1/model").json()["columns"] is None
        wrong = ask(client, [[1.0, 2.0], [1, 2, 3, None]])
        assert wrong.status_code == 422
        assert "a list of 4 finite numbers" in wrong.json()["error"]
        assert "a list of 4 finite numbers" in ask(client, [{"a": 1}]).json()["error"]
        table = client.post("/v1/predict/table?name=x.csv", content=b"a,b\n1,2\n")
        assert table.status_code == 422


def test_the_model_is_described(client, model):
    told = client.get("/v1/model").json()
    assert told["classes"] == list(model.model.classes)
    assert [column["name"] for column in told["columns"]] == list(model.encoders.names)
    assert told["card"].startswith("# ")
    assert told["limits"] == {
        "rows": 100, "values": 1_000_000, "body_bytes": 20_000, "file_bytes": 100_000,
        "table_rows": 5_000_000, "seconds": 30.0, "table_seconds": 300.0,
    }  # fmt: skip
    assert client.get("/v1/model/curve.svg").text.startswith("<svg")


def test_the_page_comes_whole_and_from_here(client):
    page = client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name in ("page.css", "page.js", "favicon.svg"):
        assert name in page.text
        assert client.get(f"/{name}").status_code == 200


def test_requests_are_counted(client):
    ask(client)
    ask(client, [{"year": "x"}])
    client.get("/no-such-path")
    text = client.get("/metrics").text
    assert 'linkdist_requests_total{path="/v1/predict",status="200"} 1.0' in text
    assert 'linkdist_requests_total{path="/v1/predict",status="422"} 1.0' in text
    assert 'path="other",status="404"' in text
    assert 'linkdist_rows_total{mode="features"} 4.0' in text
