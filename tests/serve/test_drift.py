"""Gauges of the rows of requests, against the command's numbers for the same rows."""

import csv
import json
import logging
import re

import pytest
from starlette.testclient import TestClient

from linkdist.inference.drift_table import Reference, drift
from linkdist.serve.app import make_app
from linkdist.serve.compute import compute
from linkdist.serve.drift import DriftWatch, make_watch
from linkdist.serve.metrics import Metrics
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from tests.serve.models import ask, bare

LINE = re.compile(r'linkdist_drift_(\w+)\{column="([^"]+)",kind="([^"]+)"\} (\S+)')


@pytest.fixture(scope="module")
def rows(papers):
    with (papers / "nodes.csv").open() as file:
        found = [
            {"title": row["title"], "venue": row["venue"], "year": row["year"] or None}
            for row in csv.DictReader(file)
        ]
    return found


@pytest.fixture(scope="module")
def engine(papers_model):
    return ServedModel(papers_model)


def gauges(text):
    return {(what, name): float(value) for what, name, _, value in LINE.findall(text)}


def expected(engine, rows):
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return drift(Reference.of_engine(engine), columns)


def send(watch, engine, rows):
    request = engine.schema.read(json.dumps({"rows": rows}).encode(), 10_000)
    watch.add([request], compute(engine, [request]))


def test_gauges_are_the_numbers_of_the_command(papers_model, engine, rows):
    app = make_app(Settings(str(papers_model)))
    sent = [{**row, "venue": None if k % 2 else row["venue"]} for k, row in enumerate(rows[:300])]
    with TestClient(app) as client:
        watch = client.app.app.state.current.batcher.watch
        watch._every, watch._share = 0.0, 1.0  # every request is counted and shown
        for start in range(0, 300, 50):
            assert ask(client, sent[start : start + 50]).status_code == 200
        texts = (client.get("/metrics").text for _ in range(1000))  # rows are counted after answers
        text = next(text for text in texts if "linkdist_drift_rows 300.0" in text)
    found, report = gauges(text), expected(engine, sent)
    assert len(report.columns) == 5
    for one in report.columns:
        assert found["psi", one.name] == pytest.approx(one.psi, rel=1e-6)
        assert found["missing", one.name] == pytest.approx(one.missing.now)
        assert found["alarm", one.name] == (one.name == "venue") == bool(one.alarms)
        if one.unseen is not None:
            assert found["unseen", one.name] == pytest.approx(one.unseen.now)


def test_windows_forget_old_rows_and_keep_none(engine, rows):
    watch = DriftWatch(engine, 100, Metrics().drift, every=0.0, share=1.0)
    strange = [{**row, "year": 5000} for row in rows[:100]]
    for start in range(0, 100, 20):
        send(watch, engine, strange[start : start + 20])
    assert watch.report().alarms[0] == "year"
    for start in range(0, 200, 20):
        send(watch, engine, rows[start : start + 20])
    report = watch.report()
    assert report.rows == 100  # the window before; the current one is empty
    assert report.alarms == []
    assert [one.psi for one in report.columns] == [
        pytest.approx(one.psi) for one in expected(engine, rows[100:200]).columns
    ]


def test_rows_with_links_and_neighbours_count_for_columns_only(engine, rows):
    watch = DriftWatch(engine, 1000, Metrics().drift, every=0.0, share=1.0)
    body = {"rows": rows[:2], "neighbours": rows[2:5], "links": [[0, 2], [1, 3]]}
    request = engine.schema.read(json.dumps(body).encode(), 100)
    watch.add([request], compute(engine, [request]))
    report = watch.report()
    assert report.rows == 2
    assert {one.kind for one in report.columns} == {"text", "categorical", "numeric"}


def test_a_request_never_fails_because_of_counting(papers_model, caplog):
    app = make_app(Settings(str(papers_model)))
    with TestClient(app) as client, caplog.at_level(logging.ERROR, "linkdist.serve"):
        watch = client.app.app.state.current.batcher.watch
        watch._now = None
        assert ask(client).status_code == 200
        assert ask(client).status_code == 200
    assert "unexpected error while rows were compared" in caplog.text


def test_counting_takes_a_tenth_of_the_time(engine, rows, monkeypatch):
    clock = [0.0]
    watch = DriftWatch(engine, 100, Metrics().drift)
    monkeypatch.setattr("linkdist.serve.drift.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(watch, "_add", lambda answered: clock.__setitem__(0, 0.02))
    assert watch.is_free()
    send(watch, engine, rows[:1])
    for second, is_free in ((0.02, False), (0.19, False), (0.21, True)):
        clock[0] = second
        assert watch.is_free() == is_free


def test_comparison_can_be_off_and_needs_a_summary(papers_model, engine, tmp_path, caplog):
    assert make_watch(engine, 0, Metrics().drift) is None
    assert make_watch(engine, 10, Metrics().drift) is not None
    bare(tmp_path / "bare")
    with caplog.at_level(logging.WARNING, "linkdist.serve"):
        assert make_watch(ServedModel(tmp_path / "bare"), 10, Metrics().drift) is None
    assert "this model has no summary of its training columns" in caplog.text
