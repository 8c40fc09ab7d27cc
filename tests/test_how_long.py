"""The benchmark of training times: its graphs are as described, and a stopped run resumes."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def how_long():
    sys.path.append(str(BENCHMARKS))
    try:
        import how_long
    finally:
        sys.path.remove(str(BENCHMARKS))
    return how_long


@pytest.mark.parametrize("columns", ["64 dense", "2,000 words"])
def test_links_and_columns_say_something_of_the_class(how_long, columns):
    graph = how_long.made(4000, columns)
    same = graph.labels[graph.links[:, 0]] == graph.labels[graph.links[:, 1]]
    # Half of the links are within a class, and one in eight of the others by chance.
    assert same.mean() == pytest.approx(0.5 + 0.5 / 8, abs=0.02)
    assert len(graph.links) == pytest.approx(10 * 4000, rel=0.01)
    assert graph.features.shape == (4000, 64 if columns == "64 dense" else 2000)
    x = np.asarray(graph.features.todense()) if columns != "64 dense" else graph.features
    means = np.stack([x[graph.labels == c].mean(axis=0) for c in range(8)])
    nearest = ((x[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert 0.3 < (nearest == graph.labels).mean() < 0.99


def test_known_labels_are_as_many_as_asked(how_long):
    assert len(how_long.known(5000, "200").train) == 200
    assert len(how_long.known(5000, "10 %").train) == 500


def test_a_stopped_run_measures_only_what_is_missing(how_long, tmp_path, monkeypatch):
    asked = []

    def row(nodes, columns, labels, device):
        asked.append((nodes, columns, labels))
        return {"nodes": nodes, "columns": columns, "labels": labels, "training, s": 1.0}

    monkeypatch.setattr(how_long, "row", row)
    monkeypatch.setattr(how_long, "RESULTS", tmp_path)
    monkeypatch.setattr(sys.modules["measure"], "RESULTS", tmp_path)
    monkeypatch.setenv("LINKDIST_COMMIT", "abc")
    how_long.measured("times", "cpu", [1000])
    assert len(asked) == 5  # one to warm up
    how_long.measured("times", "cpu", [1000, 10_000])
    assert [one[0] for one in asked[5:]] == [1000, *[10_000] * 4]
    how_long.measured("times", "cpu", [1000, 10_000])
    assert len(asked) == 10
    rows = json.loads((tmp_path / "times.json").read_text())["rows"]
    assert [row["nodes"] for row in rows] == [1000] * 4 + [10_000] * 4
