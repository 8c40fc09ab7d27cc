"""Uploaded tables. Oracle: the command line."""

import asyncio
import json

import httpx2
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from linkdist.prediction import predict
from linkdist.serve.app import make_app
from linkdist.serve.settings import Settings


def test_a_table_is_predicted_as_the_command_does(client, papers, papers_model, tmp_path):
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
    assert last == {
        "end": pieces[-1]["done"],
        "notices": ["column 'year': of 748 values, 40 are missing."],
    }
    assert "".join(piece["csv"] for piece in pieces) == whole.text


@pytest.mark.parametrize(
    ("name", "content", "status", "words"),
    [
        ("x.csv", b"", 422, "x.csv is empty"),
        ("x.csv", b"paper,year\n1,2\n", 422, "x.csv: unknown column 'title', 'venue'; choose from"),
        ("x.csv", b"paper,title,venue,year\n1,a,b,old\n", 422, "row 1 has 'old'"),
        ("x.csv", b"paper,title,venue,year\n", 422, "has no rows"),
        ("x.parquet", b"PAR1 not really", 422, "x.parquet"),
        ("x.csv", b"PAR1\0\0\0\0", 422, "contains Parquet"),
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
def test_a_table_that_nobody_waits_for_gives_back_its_place(papers_model, papers, idle, accept):
    """There is one place, and the clients of the first three tables are gone before the answer."""
    app = make_app(Settings(str(papers_model), tables=1), idle)
    content = (papers / "new_nodes.csv").read_bytes()
    path, query = "/v1/predict/table", b"name=a.csv"
    headers, asgi = [(b"accept", accept.encode())], {"spec_version": "2.4"}
    scope = {"type": "http", "method": "POST", "path": path, "query_string": query,
             "headers": headers, "asgi": asgi}  # fmt: skip

    def sent_by_one_that_leaves():
        messages = iter([{"type": "http.request", "body": content}])

        async def receive():
            return next(messages, {"type": "http.disconnect"})

        return receive

    async def gone(message):
        raise OSError("the client has gone")

    async def ask_and_leave():
        for _ in range(3):
            await app(scope, sent_by_one_that_leaves(), gone)
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post(f"{path}?name=a.csv", content=content)

    assert asyncio.run(ask_and_leave()).status_code == 200
