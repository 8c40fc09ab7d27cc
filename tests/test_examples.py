"""The programs in examples/ do what they say. Oracle: the command line."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from linkdist.prediction import predict

EXAMPLE = Path(__file__).parents[1] / "examples" / "onnx_predict.py"

pytest.importorskip("onnxruntime")


def run(*arguments):
    command = [sys.executable, str(EXAMPLE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_onnx_example_predicts_with_text_and_category_columns(papers, papers_model, tmp_path):
    done = run(papers_model / "model.onnx", papers / "new_nodes.csv")
    assert done.stderr == ""
    predict(papers_model, papers / "new_nodes.csv", tmp_path / "out.csv", device="cpu")
    with (tmp_path / "out.csv").open() as file:
        expected = [(row["label"], float(row["confidence"])) for row in csv.DictReader(file)]
    found = [line.split(", ") for line in done.stdout.splitlines()]
    assert [label for label, _ in found] == [label for label, _ in expected]
    shares = [float(share.rstrip("%")) / 100 for _, share in found]
    assert shares == pytest.approx([p for _, p in expected], abs=6e-4)


def test_the_onnx_example_says_what_is_missing(papers, papers_model, tmp_path):
    (tmp_path / "alone.onnx").write_bytes((papers_model / "model.onnx").read_bytes())
    done = run(tmp_path / "alone.onnx", papers / "new_nodes.csv")
    assert done.returncode == 1
    assert "model.json has no columns" in done.stderr
    assert "Traceback" not in done.stderr
    header = papers_model / "model.json"
    assert run(tmp_path / "alone.onnx", papers / "new_nodes.csv", header).returncode == 0
