"""`linkdist drift`: its exit codes, its table, its page and its JSON file."""

import csv
import json
import shutil

import pytest

from linkdist import load_model, pipeline
from linkdist.updating import update
from tests.browser import chromium
from tests.cli.common import refused


@pytest.fixture
def changed(papers, tmp_path):
    """The papers, without every second venue."""
    with (papers / "nodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows[::2]:
        row["venue"] = ""
    path = tmp_path / "changed <b>.csv"
    with path.open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_the_training_table_raises_no_alarm(command, papers, papers_model):
    for more in ([], ["--edges", papers / "links.csv"]):
        code, out, _ = command("drift", papers_model, papers / "nodes.csv", *more)
        assert code == 0
        assert out.splitlines()[-1] == "No alarm: 1200 rows are like those of the training."
        assert {"title", "venue", "year", "confidence"} <= set(out.split())


def test_a_changed_column_is_named_with_exit_code_3(command, changed, papers_model, tmp_path):
    file = tmp_path / "drift.json"
    code, out, _ = command("drift", papers_model, changed, "--json", file)
    assert code == 3
    title, alarm = out.splitlines()[-2:]
    assert title == "1 alarm in 1200 rows"
    assert alarm.startswith("venue: PSI ")
    assert alarm.endswith("missing 0 % before and 50 % now")
    found = json.loads(file.read_text())
    assert found == load_model(papers_model).drift(changed).as_json()
    assert found["alarms"] == ["venue"]
    assert found["columns"][0]["missing"] == {"before": 0.0, "now": 0.5}


def test_mistakes_have_exit_code_2(command, papers, papers_model, tmp_path):
    nodes = papers / "nodes.csv"
    refused(command("drift", papers_model, papers / "links.csv"), "unknown column 'title'")
    refused(command("drift", papers_model, nodes, "--threshold", "0"), "must be a number above 0")
    out = tmp_path / "no" / "drift.html"
    refused(command("drift", papers_model, nodes, "--out", out), "--out must be a file in an exist")


def test_a_model_of_an_older_version_has_no_summary(command, papers, papers_model, tmp_path):
    older = tmp_path / "older"
    shutil.copytree(papers_model, older)
    header = json.loads((older / "model.json").read_text())
    del header["about"]["summary"]
    (older / "model.json").write_text(json.dumps(header))
    result = command("drift", older, papers / "nodes.csv")
    refused(result, "this model has no summary of its training columns")


def test_an_update_keeps_the_summary(papers, papers_model, tmp_path):
    tables = pipeline.Tables(papers / "new_nodes.csv", papers / "new_links.csv", "paper", "field")
    saved = update(papers_model, tables, tmp_path / "new", epochs=1, device="cpu")
    before = load_model(papers_model).about["summary"]
    assert saved.about["summary"] == before
    assert load_model(tmp_path / "new").drift(papers / "nodes.csv").alarms == []


def test_the_page_shows_what_has_changed(command, changed, papers_model, tmp_path):
    page = tmp_path / "drift.html"
    assert command("drift", papers_model, changed, "--out", page, "--quiet")[0] == 3
    with chromium() as browser:
        for width in (1200, 400):
            wrong, asked = [], []
            tab = browser.new_page(viewport={"width": width, "height": 800})
            tab.on("console", lambda message, wrong=wrong: wrong.append(message.text))
            tab.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
            tab.on("request", lambda request, asked=asked: asked.append(request.url))
            tab.goto(page.as_uri())
            assert tab.inner_text("h1") == changed.name
            assert tab.inner_text("ul.alarms b") == "venue"
            assert tab.evaluate("document.documentElement.scrollWidth") == width
            captions = tab.locator("figcaption").all_inner_texts()
            assert captions[0].startswith("venue")
            assert len(captions) == 6
            boxes = tab.locator("figure svg").evaluate_all(
                "all => all.map(one => one.getBoundingClientRect().width)"
            )
            assert min(boxes) > 200
            assert (wrong, asked) == ([], [page.as_uri()])
