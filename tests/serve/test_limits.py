"""Limits of the service, in this process: overload, a full disk, host names, large numbers."""

import asyncio
import errno
import io
import json

import httpx2
import pytest
from starlette.testclient import TestClient

import linkdist.serve.spool as spool
from linkdist.serve.app import make_app
from linkdist.serve.connections import BoundedProtocol, Connections
from linkdist.serve.large import unless_gone
from linkdist.serve.settings import Settings
from linkdist.serve.worker import Worker
from tests.serve.models import ROWS, ask, bare


def test_12_numbers_that_are_too_large_are_refused(tmp_path):
    bare(tmp_path / "model")
    with TestClient(make_app(Settings(str(tmp_path / "model")))) as client:
        answer = ask(client, [[3e38, -3e38, 3e38, 3e38]])
        assert answer.status_code == 422
        assert "NaN" not in answer.text
        assert ask(client, [[1, 2, 3, 4]]).status_code == 200


@pytest.mark.parametrize(
    ("path", "limits"),
    [
        ("/v1/predict", {"waiting": 0}),
        ("/v1/predict/table", {"tables": 0}),
        ("/v1/predict/table", {"spool_bytes": 10}),
    ],
)
def test_14_overload_is_refused_before_the_body_is_read(papers_model, path, limits):
    app, sent = make_app(Settings(str(papers_model), **limits)), []
    headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"name=a.csv",
             "headers": headers, "asgi": {"spec_version": "2.3"}}  # fmt: skip

    async def receive():
        raise AssertionError("the body is read")

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"1") in sent[0]["headers"]


class Full(io.RawIOBase):
    """A file on a full disk."""

    name = "/dev/full"

    def write(self, part):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("what", ["table", "request", "explanation"])
def test_17_a_full_disk_is_said_in_json(client, monkeypatch, what):
    monkeypatch.setattr(spool, "NamedTemporaryFile", lambda **_: Full())
    if what == "table":
        answer = client.post("/v1/predict/table?name=a.csv", content=b"paper,title\n1,a\n")
    elif what == "request":
        answer = ask(client, [{"title": "x" * 18_000}])
    else:
        answer = client.post("/v1/explain", json={"rows": [{"title": "x"}]})
    assert answer.status_code == 507
    assert "No space left on device" in answer.json()["error"]
    assert client.app.app.state.large.spool.used == 0


def test_17_a_disk_that_is_full_at_the_end_is_said_as_well(papers_model, papers):
    """Oracle: /dev/full, whose disk is always full."""
    version = TestClient(make_app(Settings(str(papers_model)))).get("/readyz").json()["status"]
    messages = []
    task = {"kind": "table", "path": str(papers / "new_nodes.csv"), "name": "a.csv", "rows": 1000,
            "lines": False, "model": str(papers_model), "version": version.split()[-1],
            "out": "/dev/full", "links": [], "caution": [None, None]}  # fmt: skip
    worker = Worker(messages.append, 1 << 50)
    worker.run(task)
    (status, text, _) = messages[-1]["refused"]
    assert status == 507
    assert "No space left on device" in text


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_worker_does_not_answer_with_another_model(tmp_path, is_broken):
    bare(tmp_path / "model")
    if is_broken:
        (tmp_path / "model" / "model.json").write_text("{")
    messages = []
    (tmp_path / "body").write_text(json.dumps({"rows": [[1, 2, 3, 4]]}))
    task = {"kind": "rows", "path": str(tmp_path / "body"), "rows": 9, "values": 9, "version": "x",
            "model": str(tmp_path / "model"), "out": str(tmp_path / "out")}  # fmt: skip
    Worker(messages.append, 1 << 50).run(task)
    (status, text, _) = messages[-1]["refused"]
    assert status == 503
    assert "another model" in text


@pytest.mark.parametrize(
    ("hosts", "host", "status"),
    [
        ((), "localhost:8000", 200),
        ((), "127.0.0.1:8000", 200),
        ((), "[::1]:8000", 200),
        ((), "192.168.1.7", 200),
        ((), "evil.example", 421),
        ((), "evil.example:8000", 421),
        ((), "127.0.0.1.evil.example", 421),
        ((), "evil.example@127.0.0.1", 421),
        ((), "localhost/evil", 421),
        (("models.example",), "Models.example:443", 200),
        (("models.example",), "other.example", 421),
        (("*",), "other.example", 200),
    ],
)
def test_20_a_name_of_another_site_is_refused(papers_model, hosts, host, status):
    client = TestClient(make_app(Settings(str(papers_model), hosts=hosts)))
    assert client.get("/v1/model", headers={"host": host}).status_code == status
    assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_a_request_of_many_values_is_computed_elsewhere_with_the_same_answer(client, papers_model):
    """Oracle: the same rows in small requests."""
    rows = ROWS * 20
    large = make_app(Settings(str(papers_model)))
    with TestClient(large) as other:
        found = ask(other, [{**row, "title": "x" * 1000} for row in rows]).json()
        parts = [ask(other, [{**row, "title": "x" * 1000}]).json() for row in ROWS]
    assert found["predictions"] == [part["predictions"][0] for part in parts] * 20


class Transport:
    """A transport that is only closed."""

    is_aborted = False

    def abort(self):
        self.is_aborted = True


def connection(since):
    one = BoundedProtocol.__new__(BoundedProtocol)
    one.transport, one.since, one.loop = Transport(), since, None
    return one


def test_a_full_service_drops_who_waits_longest_and_keeps_a_reserve(monkeypatch):
    import linkdist.serve.connections as module

    monkeypatch.setattr(module, "RESERVE", 1)
    table = Connections(Settings("model", connections=2))
    table._sweeps = True
    again, oldest, working = (connection(None) for _ in range(3))
    for one in (again, oldest):
        assert table.add(one)
        table.waits(one, True)
    table.waits(again, True)  # after its next request
    assert table.add(working)  # takes the place of the one that waits longest
    assert (again.transport.is_aborted, oldest.transport.is_aborted) == (False, True)
    table.waits(again, False)
    health, late = connection(None), connection(None)
    assert not table.add(health)  # the service works on both others
    assert not health.transport.is_aborted
    assert not table.add(late)
    assert late.transport.is_aborted


def test_work_is_cancelled_when_the_client_leaves():
    class Gone:
        async def receive(self):
            return {"type": "http.disconnect"}

    async def leave():
        work = asyncio.ensure_future(asyncio.Event().wait())
        with pytest.raises(Exception, match="disconnected"):
            await unless_gone(Gone(), work)
        await asyncio.wait([work])
        return work.cancelled()

    assert asyncio.run(leave())


def test_no_answer_within_the_time_limit(papers_model, papers, idle):
    app = make_app(Settings(str(papers_model), table_seconds=0.0), idle)
    content = (papers / "new_nodes.csv").read_bytes()

    async def ask_both():
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            path, lines = "/v1/predict/table?name=a.csv", {"accept": "application/x-ndjson"}
            return [await client.post(path, content=content, headers=h) for h in ({}, lines)]

    for answer in asyncio.run(ask_both()):
        assert answer.status_code == 503
        assert json.loads(answer.text)["error"].startswith("no answer within 0 seconds")
