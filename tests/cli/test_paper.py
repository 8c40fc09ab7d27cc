"""`linkdist datasets`, `reproduce` and `report`."""

from __future__ import annotations

import json
import re

import pytest

from linkdist.cli import console
from linkdist.data.datasets import DATASETS
from linkdist.errors import DataError
from linkdist.paper import run
from tests.cli.common import RECORD, refused
from tests.paper.test_run import tiny

pytestmark = pytest.mark.usefixtures("surroundings")


def test_the_named_graphs_are_listed(command, tmp_path):
    raw = tmp_path / "data" / "amazon" / "Photo" / "raw"
    raw.mkdir(parents=True)
    (raw / "amazon_electronics_photo.npz").touch()
    code, out, err = command("datasets", "--json", tmp_path / "list.json")
    assert (code, err) == (0, "")
    rows = json.loads((tmp_path / "list.json").read_text())
    assert [row["name"] for row in rows] == list(DATASETS)
    assert len(rows) == 9
    for row in rows:
        assert re.search(rf"^\W*{row['name']}\W+{row['nodes']}\b", out, re.MULTILINE)
        info = DATASETS[row["name"]]
        counts = (row["nodes"], row["features"], row["classes"], row["edges"])
        assert counts == (info.n, info.d, info.C, info.e)
        assert row["degree"] == round(info.e / info.n, 2)
    files = {row["name"]: row["raw files"] for row in rows}
    assert files.pop("digits") == "embedded"
    assert files.pop("amazon-photo") == str(raw)
    assert files["cora"] == "not downloaded; 8 file(s) are downloaded on first use"
    assert all(text.startswith("not downloaded") for text in files.values())


def test_a_folder_given_comes_before_the_surroundings(command, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "cora_full.npz").touch()
    code, _, _ = command("datasets", "--data", own, "--json", tmp_path / "list.json")
    assert code == 0
    rows = json.loads((tmp_path / "list.json").read_text())
    assert {r["name"]: r["raw files"] for r in rows}["cora-full"] == str(own)


@pytest.mark.usefixtures("quick")
def test_reproduce_tells_progress_apart_from_results(command, tmp_path):
    args = [
        *("reproduce", "--out", tmp_path / "out", "--datasets", "digits, amazon-photo"),
        *("--settings", "full-supervised", "--methods", "MLP,LinkDistMLP,LinkDist", "--runs", "2"),
        *("--device", "cpu", "--json", tmp_path / "records.json"),
    ]
    code, out, err = command(*args)
    assert code == 0
    records = json.loads((tmp_path / "records.json").read_text())
    assert records == json.loads((tmp_path / "out" / "results.json").read_text())
    assert "\x1b" not in out + err
    assert "\r" not in out + err
    said = err.splitlines()
    assert said[0] == "4 trainings, 0 done already"
    assert re.fullmatch(r"digits full-supervised: MLP [\d.]+ ± [\d.]+ \[[\d.]+ s\]", said[1])
    pair = r"LinkDistMLP [\d.]+ ± [\d.]+, LinkDist [\d.]+ ± [\d.]+"
    assert re.fullmatch(rf"digits full-supervised: {pair} \[[\d.]+ s\]", said[2])
    assert len(said) == 5
    assert "full-supervised: test accuracy (published)" in out
    rows = [re.split(r"\s*│\s*", line) for line in out.splitlines() if line.startswith("│")]
    assert [row[1] for row in rows] == ["MLP", "LinkDistMLP", "LinkDist"]
    for row in rows:
        cells = {r["dataset"]: r for r in records if r["method"] == row[1]}
        assert row[2] == console.spread(cells["digits"]["scores"])
        ours = console.spread(cells["amazon-photo"]["scores"])
        assert row[3] == f"{ours} ({cells['amazon-photo']['published_mean']:.2f})"
    assert out.splitlines()[-1] == f"Report: {tmp_path / 'out' / 'report.html'}"
    assert (tmp_path / "out" / "tables.md").exists()

    _, again, err = command(*args)
    assert again == out
    assert err.splitlines() == ["4 trainings, 4 done already"]


@pytest.mark.usefixtures("quick")
def test_reproduce_says_what_it_leaves_out(command, tmp_path, monkeypatch):
    def load(name, data=None):
        if name != "amazon-photo":
            raise DataError(f"{name} could not be [had].")
        return tiny(name)

    monkeypatch.setattr(run, "load_dataset", load)
    code, _, err = command(
        *("reproduce", "--out", tmp_path / "out", "--settings", "full-supervised"),
        *("--methods", "MLP", "--runs", "1"),
    )
    assert code == 0
    assert "cora is left out: cora could not be [had]." in err.splitlines()
    assert len(err.splitlines()) == 7 + 2


def test_report_writes_a_page_and_tables(command, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps([RECORD]))
    code, out, err = command("report", tmp_path)
    assert (code, err) == (0, "")
    assert out.splitlines() == [str(tmp_path / "report.html"), str(tmp_path / "tables.md")]
    assert "90.00" in (tmp_path / "report.html").read_text("utf-8")
    assert "90.00" in (tmp_path / "tables.md").read_text("utf-8")


@pytest.mark.parametrize("file", ["new/out/records.json", "new/records.json"])
@pytest.mark.usefixtures("quick")
def test_json_may_go_into_a_folder_that_is_made(command, tmp_path, file):
    code, _, _ = command(
        *("reproduce", "--out", tmp_path / "new" / "out", "--datasets", "digits", "--runs", "1"),
        *("--settings", "full-supervised", "--methods", "MLP", "--json", tmp_path / file),
    )
    assert code == 0
    assert len(json.loads((tmp_path / file).read_text())) == 1


@pytest.mark.parametrize("option", ["--datasets", "--settings", "--methods"])
@pytest.mark.usefixtures("quick")
def test_an_empty_list_is_refused_by_its_name(command, tmp_path, option):
    args = ["reproduce", "--out", tmp_path / "out", "--datasets", "digits", option, ","]
    refused(command(*args), option)
