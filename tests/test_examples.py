"""The programs in examples/ do what they say. Oracle: the command line."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.prediction import predict
from linkdist.tables.feature_encoder import make_feature_encoder
from tests.task_models import RELATIONS, about_task, task_model

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


NODES = "node,size,kind,age\nN0,-3,north,0\nN1,0,south,1\nN2,9,,2\nN3,,north,5\n"


def predicted(folder, task, **about):
    """Lines of the example and rows of the command line for a model of three relations."""
    encoders = make_feature_encoder({"size": "numeric", "kind": "categorical", "age": "numeric"})
    batch = {"size": [1.0, 4.0], "kind": ["north", "south"], "age": [0.0, 9.0]}
    encoders.partial_fit(pa.record_batch(batch))
    model = task_model(task, RELATIONS, directed=True)
    save_model(folder / "model", with_onnx(Saved(model, encoders, about_task(task, **about))))
    (folder / "nodes.csv").write_text(NODES)
    done = run(folder / "model" / "model.onnx", folder / "nodes.csv")
    assert done.stderr == ""
    predict(folder / "model", folder / "nodes.csv", folder / "out.csv", device="cpu")
    with (folder / "out.csv").open() as file:
        return done.stdout.splitlines(), list(csv.DictReader(file))


def test_the_onnx_example_predicts_numbers(tmp_path):
    lines, rows = predicted(tmp_path, "regression")
    for line, row in zip(lines, rows, strict=True):
        value, low, high = map(float, re.fullmatch(r"(\S+), (\S+) to (\S+)", line).groups())
        expected = [float(row[name]) for name in ("predicted", "low", "high")]
        assert [value, low, high] == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_the_onnx_example_predicts_a_number_without_an_interval(tmp_path):
    lines, rows = predicted(tmp_path, "regression", decision={})
    expected = [float(row["predicted"]) for row in rows]
    assert list(map(float, lines)) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_the_onnx_example_predicts_several_labels(tmp_path):
    lines, rows = predicted(tmp_path, "multilabel", label_format={"separator": ";"})
    for line, row in zip(lines, rows, strict=True):
        labels = row["labels"].split(";") if row["labels"] else []
        expected = ", ".join(f"{name} {float(row[f'p_{name}']):.1%}" for name in labels)
        assert line == (expected or "no label")
