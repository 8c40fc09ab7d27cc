"""The service in this process. Oracles: the model in PyTorch, and the request itself."""

import asyncio
import base64
import json
import shutil
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
from linkdist.artifacts.model_dir import Saved, load, save
from linkdist.artifacts.onnx import with_onnx
from linkdist.errors import ModelError, OptionError
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP
from linkdist.serve.app import make_app
from linkdist.serve.engine import Engine
from linkdist.serve.settings import Settings

ROWS = [
    {"title": "photon theory of vacuum", "venue": "review", "year": 1974},
    {"title": "species and larva", "venue": "letters", "year": 1999},
    {"title": None, "venue": "nowhere", "year": 2010.5},
    {"year": "2001"},
]


@pytest.fixture(scope="module")
def model(papers_model):
    return load(papers_model)


@pytest.fixture
def app(papers_model):
    return make_app(Settings(str(papers_model), rows=100, body_bytes=20_000, file_bytes=100_000))


@pytest.fixture
def client(app):
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def ask(client, rows=ROWS, **more):
    return client.post("/v1/predict", json={"rows": rows, **more})


def encoded(model, rows):
    full = [{name: row.get(name) for name in model.encoders.names} for row in rows]
    full = [{**row, "year": None if row["year"] is None else float(row["year"])} for row in full]
    batch = pa.RecordBatch.from_pylist(
        full, schema=pa.schema({"title": pa.string(), "venue": pa.string(), "year": pa.float64()})
    )
    return model.encoders.encode(batch)


def shares(answer):
    return np.array([list(one["probabilities"].values()) for one in answer.json()["predictions"]])


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
    monkeypatch.setattr(Engine, "probabilities", lambda *_: p)
    (found,) = ask(client, ROWS[:1]).json()["predictions"]
    assert set(found["probabilities"].values()) == {0.25}
    assert found["label"] == model.model.classes[2]


def test_a_link_to_itself_is_no_link(client):
    (found,) = ask(client, ROWS[:1], links=[[0, 0]]).json()["predictions"]
    assert found["mode"] == "features"


@pytest.mark.parametrize(("rows", "is_large"), [(1, False), (5000, True)])
def test_large_requests_are_read_and_answered_outside_the_event_loop(
    papers_model, monkeypatch, rows, is_large
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
        transport = httpx2.ASGITransport(make_app(Settings(str(papers_model))))
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            body = {"rows": [{"year": 1974}] * rows}
            return await client.post("/v1/predict", json=body), threading.current_thread()

    answer, loop = asyncio.run(predict())
    assert answer.status_code == 200
    assert [thread is not loop for thread in threads] == [is_large, is_large]


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
    (b'{"rows": [{"year": [1]}]}', 422, "finite numbers"),
    (b'{"rows": [{"title": {"a": 1}}]}', 422, "'title' must hold text"),
    (b'{"rows": [{"title": "\\ud800"}]}', 422, "'title' must hold text"),
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
    for rows, words in [([names], "20,000 unknown columns"), (wrong, "reading stopped at row 5")]:
        started = time.perf_counter()
        answer = ask(client_of_wide, rows)
        assert answer.status_code == 422
        assert words in answer.json()["error"]
        assert time.perf_counter() - started < 5


@pytest.fixture
def client_of_wide(tmp_path):
    """A model with 200 columns."""
    from linkdist.tables.encoders import make_encoders

    encoders = make_encoders({f"c{k}": "numeric" for k in range(200)})
    network = Model(ForkedMLP(200, 2, [0]), torch.ones(1), ("a", "b"))
    save(tmp_path / "wide", with_onnx(Saved(network, encoders, {})))
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
    from linkdist.serve.batching import compute
    from linkdist.serve.errors import RefusedError

    bare(tmp_path / "bare")
    engine = Engine(tmp_path / "bare")
    bodies = [b'{"rows": [[1, 2, 3, 4]]}', b'{"rows": [[3e38, 3e38, 3e38, 3e38]]}']
    requests = [engine.schema.read(body, 10) for body in [*bodies, bodies[0]]]
    first, second, third = compute(engine, requests)
    assert isinstance(second, RefusedError)
    assert "too large" in second.error
    np.testing.assert_allclose([first.sum(), third.sum()], 1, atol=1e-5)


def test_a_vector_of_another_length_is_refused_with_all_other_problems(tmp_path):
    from linkdist.serve.batching import compute
    from linkdist.serve.errors import RefusedError

    engine = Engine(vectors(tmp_path / "vectors"))
    bodies = [b'{"rows": [{"v": [1, 2, 3]}]}', b'{"rows": [{"v": []}]}']
    first, third = compute(engine, [engine.schema.read(body, 10) for body in bodies])
    np.testing.assert_allclose([first.sum(), third.sum()], 1, atol=1e-5)
    with pytest.raises(RefusedError) as refused:
        engine.schema.read(b'{"rows": [{"v": [1]}, {"w": 1}]}', 10)
    assert "vectors of length 3" in refused.value.columns["v"]
    assert "unknown column 'w'" in refused.value.error


def vectors(path):
    from linkdist.tables.encoders import make_encoders

    encoders = make_encoders({"v": "vector"})
    encoders.see(pa.record_batch({"v": [[0.0, 1.0, 2.0], [3.0, 1.0, 5.0]]}))
    encoders.settle()
    network = Model(ForkedMLP(3, 2, [0]), torch.ones(1), ("a", "b"))
    save(path, with_onnx(Saved(network, encoders, {"id": "node", "label": "kind"})))
    return path


def bare(path, replicas=2):
    network = ForkedMLP(4, 3, list(range(replicas)))
    alpha = torch.linspace(0.5, 1.5, replicas)
    saved = Saved(Model(network, alpha, ("a", "b", "c")))
    save(path, with_onnx(saved))
    return saved


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


def test_a_model_without_its_onnx_file_is_served_all_the_same(tmp_path):
    saved = Saved(Model(ForkedMLP(4, 3, [0]), torch.ones(1), ("a", "b", "c")))
    save(tmp_path / "plain", saved)
    x = np.eye(4, dtype=np.float32)
    found = Engine(tmp_path / "plain").probabilities(x)
    np.testing.assert_allclose(found, from_features(saved.model, x), atol=1e-4)


# A model that is replaced -------------------------------------------------------------------------


def test_a_new_model_is_picked_up_and_a_bad_one_refused(tmp_path):
    path = tmp_path / "model"
    bare(path)
    app = make_app(Settings(str(path)))
    current = app.app.state.current
    old = current.engine.header.version
    asyncio.run(current.check())
    assert current.engine.header.version == old

    bare(path, replicas=3)
    asyncio.run(current.check())
    new = current.engine.header.version
    assert new != old
    assert current.engine.header.shape.replicas == 3

    (path / "model.onnx").write_bytes(b"cut off")
    (path / "model.json").write_text((path / "model.json").read_text() + " ")
    asyncio.run(current.check())
    assert current.engine.header.version == new
    assert "SHA-256" in current.refused.reason
    with TestClient(app) as client:
        assert ask(client, [[0, 0, 0, 0]]).json()["version"] == new
        assert "SHA-256" in client.get("/v1/model").json()["refused"]["reason"]

    shutil.rmtree(path)
    asyncio.run(current.check())
    assert current.engine.header.version == new
    bare(path)
    asyncio.run(current.check())
    assert current.refused is None
    assert current.engine.header.shape.replicas == 2


def test_an_unexpected_error_does_not_end_the_search_for_new_models(tmp_path, monkeypatch):
    path = tmp_path / "model"
    bare(path)
    current = make_app(Settings(str(path))).app.state.current

    def fails(directory):
        raise RuntimeError("out of luck")

    async def replace_twice():
        watching = asyncio.create_task(current.watch())
        with monkeypatch.context() as patch:
            patch.setattr("linkdist.serve.reload.Engine", fails)
            bare(path, replicas=3)
            await until(lambda: current.refused is not None)
        assert "RuntimeError: out of luck" in current.refused.reason
        assert current.engine.header.shape.replicas == 2
        bare(path, replicas=4)
        await until(lambda: current.engine.header.shape.replicas == 4)
        watching.cancel()

    async def until(condition):
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.02)

    asyncio.run(replace_twice())


def test_a_service_reads_only_the_files_that_it_uses(papers_model, monkeypatch):
    from pathlib import Path

    opened, read = [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path.name) or read(path))
    engine = Engine(papers_model)
    assert not engine.header.files
    assert set(opened) == {"model.json", "model.onnx", "curve.svg", "report.html"}


def test_a_symbolic_link_in_a_model_directory_is_not_followed(tmp_path):
    bare(tmp_path / "model")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "model" / "report.html").symlink_to(tmp_path / "secret")
    assert "report.html" not in Engine(tmp_path / "model").extras


def test_an_onnx_file_that_gives_no_probabilities_is_refused(tmp_path):
    bare(tmp_path / "one")
    saved = load(tmp_path / "one")
    other = Saved(Model(ForkedMLP(4, 2, [0]), torch.ones(1), ("a", "b")))
    foreign = with_onnx(other).onnx
    for content in (foreign, b"no onnx", saved.onnx[:-50]):
        save(tmp_path / "two", Saved(saved.model, onnx=content))
        with pytest.raises(ModelError):
            Engine(tmp_path / "two")


# Tables -------------------------------------------------------------------------------------------


def test_a_table_is_predicted_as_the_command_does(client, papers, papers_model, tmp_path):
    from linkdist.pipeline import predict

    predict(papers_model, papers / "new_nodes.csv", tmp_path / "expected.csv", device="cpu")
    answer = client.post(
        "/v1/predict/table?name=new.csv", content=(papers / "new_nodes.csv").read_bytes()
    )
    assert answer.headers["content-type"].startswith("text/csv")
    found, expected = (
        pa.csv.read_csv(pa.py_buffer(content))
        for content in (answer.content, (tmp_path / "expected.csv").read_bytes())
    )
    assert found.schema == expected.schema
    assert found["paper"] == expected["paper"]
    for name in found.schema.names[2:]:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-4)


def test_a_table_tells_how_far_it_is(client, papers):
    content = (papers / "new_nodes.csv").read_bytes()
    whole = client.post("/v1/predict/table?name=new.csv", content=content)
    answer = client.post(
        "/v1/predict/table?name=new.csv",
        content=content,
        headers={"accept": "application/x-ndjson"},
    )
    first, *pieces, last = [json.loads(line) for line in answer.text.splitlines()]
    assert first == {"total": None}
    assert last == {"end": pieces[-1]["done"]}
    assert "".join(piece["csv"] for piece in pieces) == whole.text


@pytest.mark.parametrize(
    ("name", "content", "status", "words"),
    [
        ("x.csv", b"", 422, "x.csv is empty"),
        ("x.csv", b"paper,year\n1,2\n", 422, "lacks 'title', 'venue' and has 'paper'"),
        ("x.csv", b"paper,title,venue,year\n1,a,b,old\n", 422, "row 1 has 'old'"),
        ("x.csv", b"paper,title,venue,year\n", 422, "has no rows"),
        ("x.parquet", b"PAR1 not really", 422, "x.parquet"),
        ("x.csv", b"PAR1\0\0\0\0", 422, "holds Parquet"),
        ("x.txt", b"paper\n", 415, "must be a table"),
        ("x", b"paper\n", 415, "must be a table"),
        ("x.csv", b"a" * 200_000, 413, "100,000 bytes"),
    ],
)
def test_a_bad_table_is_refused_by_its_owners_name(client, name, content, status, words):
    for accept in ("text/csv", "application/x-ndjson"):
        answer = client.post(
            f"/v1/predict/table?name={name}", content=content, headers={"accept": accept}
        )
        told = answer.text if answer.status_code == 200 else answer.json()["error"]
        assert words in told
        assert "/tmp" not in told
        assert answer.status_code in ((200, status) if "nd" in accept else (status,))


@pytest.mark.parametrize("accept", ["text/csv", "application/x-ndjson"])
def test_a_table_that_nobody_waits_for_gives_back_its_place(papers_model, papers, accept):
    """There is one place, and the clients of the first three tables are gone before the answer."""
    app = make_app(Settings(str(papers_model), tables=1))
    content = (papers / "new_nodes.csv").read_bytes()
    path, query = "/v1/predict/table", b"name=a.csv"
    headers, asgi = [(b"accept", accept.encode())], {"spec_version": "2.4"}
    scope = {"type": "http", "method": "POST", "path": path, "query_string": query,
             "headers": headers, "asgi": asgi}  # fmt: skip

    async def receive():
        return {"type": "http.request", "body": content}

    async def gone(message):
        raise OSError("the client has gone")

    async def ask_and_leave():
        for _ in range(3):
            await app(scope, receive, gone)
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post(f"{path}?name=a.csv", content=content)

    assert asyncio.run(ask_and_leave()).status_code == 200


# The token ----------------------------------------------------------------------------------------


@pytest.fixture
def locked(papers_model, tmp_path):
    (tmp_path / "token").write_text("a token of many letters\n")
    app = make_app(Settings(str(papers_model), token_file=str(tmp_path / "token")))
    with TestClient(app) as client:
        yield client


def basic(password):
    return "Basic " + base64.b64encode(f"anyone:{password}".encode()).decode()


@pytest.mark.parametrize("sent", [
    None, "", "Bearer", "Bearer no", "a token of many letters", basic("no"), "Basic !!", "Basic",
    "Bearer a token of many letter", "Bearer a token of many letterss",
])  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/v1/model", "/metrics", "/v1/openapi.json", "/nothing"])
def test_without_the_token_nothing_but_health_is_answered(locked, sent, path):
    headers = {} if sent is None else {"authorization": sent}
    answer = locked.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert "token" in answer.json()["error"]
    assert locked.get("/healthz").status_code == locked.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    "sent", ["Bearer a token of many letters", basic("a token of many letters")]
)
def test_the_token_opens(locked, sent):
    assert locked.get("/v1/model", headers={"authorization": sent}).status_code == 200


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 30, "ümläut".encode() * 9])
def test_a_token_that_is_none_is_refused(papers_model, tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(OptionError, match="token"):
        make_app(Settings(str(papers_model), token_file=str(tmp_path / "token")))


# What else there is -------------------------------------------------------------------------------


def test_the_model_is_described(client, model):
    told = client.get("/v1/model").json()
    assert told["classes"] == list(model.model.classes)
    assert [column["name"] for column in told["columns"]] == list(model.encoders.names)
    assert told["card"].startswith("# ")
    assert told["limits"] == {
        "rows": 100, "body_bytes": 20_000, "file_bytes": 100_000, "seconds": 30.0,
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
