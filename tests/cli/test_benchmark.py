"""`linkdist benchmark`."""

from __future__ import annotations

import json
import re
import sys
from io import BytesIO, TextIOWrapper

import numpy as np
import pytest

from linkdist.cli import console
from tests.cli.common import refused

pytestmark = pytest.mark.usefixtures("surroundings")


def test_glnns_protocol(command, tmp_path):
    file = tmp_path / "result.json"
    asked = ("benchmark", "digits", "--device", "cpu", "--epochs", "1", "--json", file)
    code, _, _ = command(*asked, "--protocol", "glnn", "--setting", "production")
    assert code == 0
    result = json.loads(file.read_text())
    assert (result["protocol"], result["setting"]) == ("glnn", "production")
    code, _, err = command(*asked, "--protocol", "glnn", "--setting", "inductive")
    assert code == 2
    assert "transductive, production" in err
    code, _, err = command(*asked, "--protocol", "gln")
    assert code == 2
    assert "near: glnn" in err


@pytest.mark.parametrize("method", ["linkdist", "colinkdist", "selflinkdist"])
@pytest.mark.usefixtures("quick")
def test_both_modes_are_printed_beside_a_plain_mlp(command, tmp_path, method):
    code, out, err = command(
        *("benchmark", "digits", "--setting", "full-supervised", "--method", method, "--seed", "3"),
        *("--replicas", "2", "--device", "cpu", "--json", tmp_path / "result.json"),
    )
    assert code == 0
    assert err == ""
    result = json.loads((tmp_path / "result.json").read_text())
    modes = ["plain MLP", f"{method}, from features", f"{method}, with links"]
    assert list(result.pop("scores")) == modes
    assert result.pop("seconds") >= 0
    evaluations = result.pop("evaluations")
    assert evaluations >= 1
    assert f"1 epochs of {method} with {evaluations} evaluation(s) in " in out
    assert result == {
        **{"dataset": "digits", "setting": "full-supervised", "method": method, "seeds": [3, 4]},
        **{"epochs": 1, "device": "cpu", "precision": "float32", "protocol": "paper"},
    }
    assert "digits, full-supervised, 2 replica(s): accuracy in percent" in out
    rows = [line for line in out.splitlines() if line.startswith("│")]
    assert [re.split(r"\s*│\s*", row)[1] for row in rows] == modes


@pytest.mark.usefixtures("quick")
def test_the_scores_shown_are_those_written(command, tmp_path):
    code, out, _ = command(
        "benchmark", "digits", "--replicas", "2", "--json", tmp_path / "result.json"
    )
    assert code == 0
    scores = json.loads((tmp_path / "result.json").read_text())["scores"]
    for mode, found in scores.items():
        assert len(found["validation"]) == len(found["test"]) == len(found["best_epochs"]) == 2
        # 300 validation nodes and the 94 that 6 training nodes leave for the test.
        for size, part in ((300, "validation"), (94, "test")):
            hits = np.array(found[part]) * size / 100
            np.testing.assert_allclose(hits, hits.round(), atol=1e-3)
        (row,) = (line for line in out.splitlines() if f" {mode} " in line)
        shown = [console.spread(found[part]) for part in ("validation", "test")]
        assert re.split(r"\s*│\s*", row)[2:4] == shown


def test_a_raw_file_that_was_cut_off_is_told_of(command, tmp_path):
    path = tmp_path / "data" / "ms_academic_cs.npz"
    np.savez_compressed(path, labels=np.arange(9000))
    path.write_bytes(path.read_bytes()[:1000])
    damaged = rf"{re.escape(str(path))} is damaged or is not the published file"
    refused(command("benchmark", "coauthor-cs"), damaged)


@pytest.mark.usefixtures("quick")
def test_a_stream_without_the_characters_is_written_to(command, monkeypatch):
    out, err = (TextIOWrapper(BytesIO(), encoding="ascii", newline="\n") for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    code, _, _ = command("benchmark", "digits", "--replicas", "2")
    out.flush()
    assert code == 0
    assert re.search(rb"plain MLP +\| [\d.]+ \? [\d.]+ ", out.buffer.getvalue())
