"""The report of made-up records."""

import json

import numpy as np
import pytest
from rivals.curves import draw_differences, draw_learning_curve
from rivals.names import LINKED, OURS
from rivals.records import Task, read_records, write_records
from rivals.report import report

MACHINE = {"gpu": "none", "cpu": "a CPU, 2 cores"}
SEEDS = tuple(range(10))
ABOUT = {"measure": "accuracy", "commit": "abc", "machine": MACHINE,
         "device": "cpu"}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Records in which the MLP is worse, and GraphSAGE is better with many labels only."""
    noise = np.random.default_rng(0).normal(0, 0.5, 10)
    for labels, lead, count in (("5", -4, 35), ("60%", 2, 1625)):
        others = ("linear model", "LightGBM", "label propagation", "Correct & Smooth",
                  "LightGBM on averages", "GCN")  # fmt: skip
        means = {
            OURS: 70,
            LINKED: 75,
            "MLP": 60,
            "GraphSAGE": 75 + lead,
            **dict.fromkeys(others, 40),
        }
        records = {
            method: {"scores": (mean + noise).round(4).tolist(), "settings": [{}] * 10,
                     "seconds": [1.0] * 10}
            for method, mean in means.items()
        }  # fmt: skip
        about = {**ABOUT, "nodes": [count - count // 5, count // 5, 542]}
        write_records(Task("cora", labels, "all", SEEDS), tmp_path, about, records)
    return tmp_path


def test_records_are_read_as_they_were_written(tmp_path):
    settings = [{"C": 1}, {"C": 10}, {"C": 1}]
    record = {"scores": [1.0, 2.0, 3.0], "settings": settings, "seconds": [0.1, 0.2, 0.3]}
    task = Task("cora", "10%", "linear", (0, 1, 2))
    write_records(task, tmp_path, {"measure": "accuracy"}, {"MLP": record})
    assert task.path(tmp_path).name == "cora.10pc.linear.0-2.jsonl"
    line = json.loads(task.path(tmp_path).read_text().splitlines()[1])
    assert [line["settings"][place] for place in line["chosen"]] == settings
    (about,), (found,) = read_records(tmp_path)
    assert about["set"] == found["set"] == "cora"
    assert found["by_seed"] == {0: 1.0, 1: 2.0, 2: 3.0}
    more = Task("cora", "10%", "linear", (5,))
    later = {"scores": [9.0], "settings": [{}], "seconds": [0.1]}
    write_records(more, tmp_path, {"measure": "accuracy"}, {"MLP": later})
    _, (found,) = read_records(tmp_path)
    assert found["by_seed"] == {0: 1.0, 1: 2.0, 2: 3.0, 5: 9.0}
    assert not list(tmp_path.glob("*.new"))


def test_the_page_says_who_wins_and_when_to_take_a_rival(folder):
    report(folder)
    page = (folder / "README.md").read_text()
    assert "**GraphSAGE** (links at prediction) is better than SelfLinkDist with links in 1 of 2 " \
        "cells and worse in 1. It is better on cora (60 % of the rows +2.0)." in page  # fmt: skip
    assert "Take it with 60 % of the rows labelled" in page
    assert "Significantly better in no cell: linear model; LightGBM; MLP; label propagation" in page
    assert "| MLP | labelled rows only | 1 / 0 / 0 | 0 / 0 / 0 |" in page
    cells = [line for line in page.splitlines() if line.startswith("| cora, accuracy")]
    assert any("77" in line and "▲" in line for line in cells)
    assert any("60" in line and "▼" in line for line in cells)


def test_the_summary_is_short_and_the_numbers_are_complete(folder):
    report(folder)
    lines = (folder / "summary.md").read_text().strip().splitlines()
    assert len(lines) <= 8
    assert "| 60 % of the rows | 1 / 0 / 0 | 0 / 0 / 0 | 0 / 0 / 0 | 0 / 0 / 1 |" in lines
    rows = json.loads((folder / "summary.json").read_text())
    assert len(rows) == 20
    assert {row["verdict"] for row in rows if row["method"] == "MLP"} == {"better"}


def test_the_learning_curve_has_the_numbers_of_labels(folder):
    report(folder)
    text = (folder / "learning-curve.md").read_text()
    assert "| **cora** | (35) |  |  |  | (1,625) |" in text
    (means,) = [line for line in text.splitlines() if line.startswith("| 4: GraphSAGE")]
    assert means.count("–") == 3
    assert "Not all rivals were measured on cora," in text


def test_plots_are_the_same_in_every_run(folder, tmp_path):
    rows, about = report(folder)
    drawn = []
    for turn in range(2):
        draw_learning_curve(rows, about, tmp_path / f"{turn}a.svg")
        draw_differences(rows, tmp_path / f"{turn}b.svg")
        drawn.append([(tmp_path / f"{turn}{part}.svg").read_bytes() for part in "ab"])
    assert drawn[0] == drawn[1]


def test_the_page_says_what_was_not_measured(folder):
    report(folder)
    page = (folder / "README.md").read_text()
    assert "- MLP: cora (20 of 50 trainings), citeseer (0 of 50 trainings)" in page
    assert "counties (0 of 30 trainings)" in page
    assert "counties (0 of 30 trainings)" not in page.split("- self-training:")[1].split("\n")[0]
