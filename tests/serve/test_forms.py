"""Uploads by forms, and tables with links.

Oracles: the same file as a plain body, and the command line.
"""

import csv
import json
from contextlib import ExitStack

import httpx2
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from starlette.testclient import TestClient

from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.prediction import predict
from linkdist.serve import linked_table
from linkdist.serve.app import make_app
from linkdist.serve.errors import RefusedError
from linkdist.serve.forms import Form
from linkdist.serve.settings import Settings
from linkdist.tables.feature_encoder import make_feature_encoder
from tests.task_models import RELATIONS, TASKS, about_task, task_model

NODES = "node,size,age\na,1,5\nb,2,6\nc,3,\nd,4,8\n"
PATH = "/v1/predict/table"


def files(table, *links):
    """As `httpx` sends files: (name, content) of a table and of link tables."""
    return [("file", table), *(("links", one) for one in links)]


def read(answer):
    assert answer.status_code == 200, answer.text
    return pa.csv.read_csv(pa.py_buffer(answer.content))


def test_a_form_is_answered_as_a_plain_body(client, papers):
    content = (papers / "new_nodes.csv").read_bytes()
    plain = client.post(f"{PATH}?name=new.csv", content=content)
    sent = client.post(PATH, files=files(("new.csv", content)))
    assert sent.content == plain.content
    assert sent.headers["content-type"].startswith("text/csv")


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_form_may_arrive_in_parts_of_any_size(size):
    content = "a,b\r\n--a-boundary \r\n--\r\n1,ü\r\n" * 40
    sent = [("links", ("é.csv", "x\r\n")), *files(("n.parquet", content), ("b.csv", ""))]
    kind = {"content-type": "multipart/form-data; boundary=a-boundary"}
    body = httpx2.Request("POST", "http://here", files=sent, headers=kind).read()
    with ExitStack() as resources:
        sink = Form(b"a-boundary", resources, 2)
        for start in range(0, len(body), size):
            sink.write(body[start : start + size])
        sink.flush()
        table, links = sink.uploads()
        assert table.name == "n.parquet"
        assert table.path.suffix == ".parquet"
        assert [one.name for one in links] == ["é.csv", "b.csv"]
        held = [one.path.read_bytes() for one in (table, *links)]
    assert not table.path.exists()
    assert held[1:] == [b"x\r\n", b""]
    assert held[0].decode() == content


HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n'


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "the last boundary is missing"),
        (b"paper,title\n", 400, "is not a form"),
        (HEAD + b"\r\npaper\r\n", 400, "the last boundary is missing"),
        (b"--x--\r\n", 422, "the form has no field 'file'"),
        (HEAD.replace(b'"file"', b'"data"') + b"\r\n\r\n--x--", 422, "unknown field 'data'"),
        (HEAD.replace(b'name="file"; ', b"") + b"\r\n\r\n--x--", 422, "unknown field ''"),
        (HEAD.replace(b'; filename="a.csv"', b"") + b"\r\n\r\n--x--", 422, "must be a file"),
        (HEAD.replace(b"a.csv", b"a.exe") + b"\r\n\r\n--x--", 415, "'a.exe' must be a table"),
        (HEAD + b"\r\n\r\n" + HEAD + b"\r\n\r\n--x--", 422, "may have 1 of the field 'file'"),
        (HEAD + b"A: 1\r\n" * 9 + b"\r\n\r\n--x--", 400, "is not a form"),
        (HEAD + b"A: " + b"b" * 3000 + b"\r\n\r\n\r\n--x--", 400, "is not a form"),
        (HEAD + b"\r\n" + b"a" * 200_000, 413, "100,000 bytes"),
    ],
)
def test_a_bad_form_is_refused(client, body, status, words):
    kind = {"content-type": "multipart/form-data; boundary=x"}
    answer = client.post(PATH, content=body, headers=kind)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text


@pytest.mark.parametrize(
    "kind", ["multipart/form-data", f"multipart/form-data; boundary={'x' * 300}"]
)
def test_a_form_without_a_usable_boundary_is_refused(client, kind):
    answer = client.post(PATH, content=b"--x--", headers={"content-type": kind})
    assert answer.status_code == 400
    assert "is not a form" in answer.json()["error"]


def test_a_body_without_a_name_is_refused(client):
    answer = client.post(PATH, content=NODES.encode())
    assert answer.status_code == 422
    assert "?name=nodes.csv" in answer.json()["error"]


# Links --------------------------------------------------------------------------------------------


def test_links_are_used_as_the_command_does(client, papers, papers_model, tmp_path):
    """Most of these links lead out of the table, as those of a part of a graph do."""
    nodes, links = papers / "new_nodes.csv", papers / "new_links.csv"
    predict(papers_model, nodes, tmp_path / "expected.csv", edges=links, device="cpu")
    expected = pa.csv.read_csv(tmp_path / "expected.csv")
    sent = files(("new.csv", nodes.read_bytes()), ("links.csv", links.read_bytes()))
    found = read(client.post(PATH, files=sent))
    assert found.schema == expected.schema
    assert found["paper"] == expected["paper"]
    for name in found.schema.names[2:]:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-4)
    alone = read(client.post(PATH, files=sent[:1]))
    assert np.abs(alone["confidence"].to_numpy() - found["confidence"].to_numpy()).max() > 0.01


def save(folder, task, relations=("links",), directed=False, **about):
    encoders = make_feature_encoder({"size": "numeric", "age": "numeric"})
    encoders.partial_fit(pa.record_batch({"size": [1.0, 4.0], "age": [2.0, 9.0]}))
    model = task_model(task, relations, directed, d=encoders.d)
    about = about_task(task, relations=list(relations), directed=directed, **about)
    save_model(folder, with_onnx(Saved(model, encoders, about)))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("form", ["one", "column", "tables"])
def test_every_form_of_links_is_read_as_the_command_does(tmp_path, task, form):
    columns = {"one": {"source": "to", "target": "from"}, "column": {"relation": "kind"}}
    roles = {"directed": True, **columns.get(form, {}), "weight": "w"}
    save(tmp_path / "model", task, ("links",) if form == "one" else RELATIONS, **roles)
    head, rows = "from,to,w", ["a,b,2", "b,a,1", "a,a,9", "c,b,0.5", "c,zz,1"]
    tables = {"x": "\n".join([head, *rows])}
    if form == "column":
        lines = [f"{row},{kind}" for row, kind in zip(rows, [*RELATIONS] * 2, strict=False)]
        tables = {"x": "\n".join([f"{head},kind", *lines])}
    if form == "tables":
        tables = {"sells": f"{head}\n{rows[0]}\n{rows[3]}", "cites": f"{head}\n{rows[1]}"}
    (tmp_path / "nodes.csv").write_text(NODES)
    paths = [tmp_path / f"{name}.csv" for name in tables]
    for path, text in zip(paths, tables.values(), strict=True):
        path.write_text(text)
    out, edges = tmp_path / "out.csv", paths if form == "tables" else paths[0]
    predict(tmp_path / "model", tmp_path / "nodes.csv", out, edges=edges, device="cpu")
    with TestClient(make_app(Settings(str(tmp_path / "model")))) as client:
        links = [(path.name, path.read_bytes()) for path in paths]
        answer = client.post(PATH, files=files(("nodes.csv", NODES), *links))
    found, expected = (
        list(csv.DictReader(text.splitlines())) for text in (answer.text, out.read_text())
    )
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            if name in ("node", "label", "labels"):
                assert one[name] == other[name]
            else:
                assert float(one[name]) == pytest.approx(float(other[name]), abs=1e-4, rel=1e-4)
    assert len(found) == 4


def test_the_stream_has_the_counts_of_the_links(client, papers):
    nodes, links = (papers / "new_nodes.csv").read_bytes(), b"from,to\nP0000,P0002\nP0000,nobody\n"
    stream = {"accept": "application/x-ndjson"}
    sent = files(("n.csv", nodes), ("l.csv", links))
    _, *parts, last = client.post(PATH, files=sent, headers=stream).text.splitlines()
    assert "".join(json.loads(part)["csv"] for part in parts) == client.post(PATH, files=sent).text
    year, counts = json.loads(last)["notices"]
    assert year == "column 'year': of 748 values, 40 are missing."
    assert counts.startswith("1 links from 2 rows; links to unknown nodes skipped: 1")
    text = client.get("/metrics").text
    assert 'linkdist_rows_total{mode="links"} 4.0' in text


@pytest.mark.parametrize(
    ("nodes", "links", "status", "words"),
    [
        (None, "from\nP1\n", 422, "l.csv: links need two columns"),
        (None, "", 422, "l.csv is empty"),
        (None, "from,to\n", 422, "l.csv"),
        (None, "from,to\nx,y\n", 422, "l.csv"),
        ("paper,title,venue,year\n1,a,b,3\n1,a,b,3\n", "from,to\n1,1\n", 422, "duplicate"),
        ("paper,title,venue,year\n", "from,to\n1,1\n", 422, "n.csv: the table has no rows"),
        ("paper,title\n1,a\n", "from,to\n1,1\n", 422, "n.csv: unknown column 'venue', 'year'"),
    ],
)  # fmt: skip
def test_bad_links_are_refused_by_their_owners_name(client, nodes, links, status, words):
    nodes = nodes or "paper,title,venue,year\n1,a,b,3\n2,a,b,4\n"
    answer = client.post(PATH, files=files(("n.csv", nodes), ("l.csv", links)))
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text
    assert "/tmp" not in answer.text


def test_more_link_tables_than_relations_are_refused(client):
    answer = client.post(PATH, files=files(("n.csv", NODES), ("l.csv", "a"), ("m.csv", "a")))
    assert answer.status_code == 422
    assert "may have 1 of the field 'links'" in answer.json()["error"]


def test_a_table_too_large_for_links_is_refused(client, papers, monkeypatch):
    monkeypatch.setattr(linked_table, "MOST_NUMBERS", 1000)
    content = (papers / "new_nodes.csv").read_bytes()
    answer = client.post(PATH, files=files(("n.csv", content), ("l.csv", "from,to\nP0000,P0002\n")))
    assert answer.status_code == 413
    assert "n.csv has too many rows for a prediction with links" in answer.json()["error"]


def test_a_form_ends_at_its_last_boundary():
    with ExitStack() as resources:
        sink = Form(b"x", resources, 1)
        sink.write(HEAD + b"\r\na\r\n--x--\r\n")
        sink.write(b"what follows")
        sink.flush()
        assert sink.uploads()[0].path.read_bytes() == b"a"
        with pytest.raises(RefusedError, match="no boundary"):
            Form(b"", resources, 1)
