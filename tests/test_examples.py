"""The programs in examples/ do what they say. Oracle: the command line."""

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from linkdist.artifacts.model_dir import Saved, load_model, save_model
from linkdist.artifacts.onnx import export_onnx
from linkdist.prediction import predict
from linkdist.tables.feature_encoder import make_feature_encoder
from tests.task_models import RELATIONS, about_task, task_model

EXAMPLES = Path(__file__).parents[1] / "examples"

pytest.importorskip("onnxruntime")


def run_python(*arguments):
    """Run the example where neither PyTorch nor this package can be imported."""
    code = (
        "import runpy, sys\n"
        "sys.modules.update(torch=None, linkdist=None)\n"
        f"runpy.run_path({str(EXAMPLES / 'onnx_predict.py')!r})"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="session")
def run_node(tmp_path_factory):
    """Run the example with Node.js and onnxruntime-node, which is installed for the session."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not (node and npm):
        pytest.skip("Node.js and npm are not installed")
    folder = tmp_path_factory.mktemp("node")
    shutil.copy(EXAMPLES / "onnx_predict.mjs", folder)
    (folder / "package.json").write_text("{}")
    options = ["--ignore-scripts", "--no-audit", "--no-fund"]
    install = [npm, "install", *options, "onnxruntime-node"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=600)

    def run(*arguments):
        command = [node, str(folder / "onnx_predict.mjs"), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture(params=["python", pytest.param("node", marks=pytest.mark.install)])
def run(request):
    return run_python if request.param == "python" else request.getfixturevalue("run_node")


def predicted_rows(model, nodes, folder):
    predict(model, nodes, folder / "out.csv", device="cpu")
    with (folder / "out.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_example_predicts_with_text_and_category_columns(run, papers, papers_model, tmp_path):
    export_onnx(load_model(papers_model), tmp_path / "model.onnx")
    done = run(tmp_path / "model.onnx", papers / "new_nodes.csv")
    assert done.stderr == ""
    rows = predicted_rows(papers_model, papers / "new_nodes.csv", tmp_path)
    found = [line.split(", ") for line in done.stdout.splitlines()]
    assert [label for label, _ in found] == [row["label"] for row in rows]
    shares = [float(share.rstrip("%")) / 100 for _, share in found]
    assert shares == pytest.approx([float(row["confidence"]) for row in rows], abs=6e-4)


def test_the_example_says_what_is_missing(run, papers, papers_model, tmp_path):
    done = run(papers_model / "model.onnx", papers / "new_nodes.csv")
    assert done.returncode == 1
    assert "model.onnx takes features, not columns; `linkdist export` says why" in done.stderr
    export_onnx(load_model(papers_model), tmp_path / "model.onnx")
    (tmp_path / "nodes.csv").write_text("paper,title\nP1,graphs\n")
    done = run(tmp_path / "model.onnx", tmp_path / "nodes.csv")
    assert done.returncode == 1
    assert "lacks columns that the model takes: venue, year" in done.stderr


NODES = (
    "node,size,day,kind,tags\n"
    "N0,-3,2004-05-31,north,a|b\n"
    'N1,0,2004-06-01 12:30,"so""uth, west", b |\n'
    "N2,9,,,c\n"
    "N3,NA,2004-05-31,NORTH,\n"
    "N4,True,2004-06-02T00:00+02:00,north,a\n"
)


def predicted(run, folder, task, **about):
    """Lines of the example and rows of the command line for a model of three relations."""
    kinds = {"size": "numeric", "day": "date", "kind": "categorical", "tags": "tags:binary"}
    batch = pa.table(
        {
            "size": ["1", "4"],
            "day": ["2004-05-31", "2004-06-02"],
            "kind": ["north", 'so"uth, west'],
            "tags": ["a|b", "a"],
        }
    )
    encoders = make_feature_encoder(kinds, batch)
    encoders.partial_fit(batch.to_batches()[0])
    model = task_model(task, RELATIONS, directed=True, d=encoders.d)
    saved = Saved(model, encoders, about_task(task, **about))
    save_model(folder / "model", saved)
    export_onnx(saved, folder / "model.onnx")
    (folder / "nodes.csv").write_text(NODES)
    done = run(folder / "model.onnx", folder / "nodes.csv")
    assert done.stderr == ""
    return done.stdout.splitlines(), predicted_rows(folder / "model", folder / "nodes.csv", folder)


def test_the_example_predicts_classes(run, tmp_path):
    lines, rows = predicted(run, tmp_path, "classification")
    expected = [f"{row['label']}, {float(row['confidence']):.1%}" for row in rows]
    assert lines == expected


def test_the_example_predicts_numbers(run, tmp_path):
    lines, rows = predicted(run, tmp_path, "regression")
    for line, row in zip(lines, rows, strict=True):
        value, low, high = map(float, re.fullmatch(r"(\S+), (\S+) to (\S+)", line).groups())
        expected = [float(row[name]) for name in ("predicted", "low", "high")]
        assert [value, low, high] == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_the_example_predicts_a_number_without_an_interval(run, tmp_path):
    lines, rows = predicted(run, tmp_path, "regression", decision={})
    expected = [float(row["predicted"]) for row in rows]
    assert list(map(float, lines)) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_the_example_predicts_several_labels(run, tmp_path):
    lines, rows = predicted(run, tmp_path, "multilabel", label_format={"separator": ";"})
    for line, row in zip(lines, rows, strict=True):
        labels = row["labels"].split(";") if row["labels"] else []
        expected = ", ".join(f"{name} {float(row[f'p_{name}']):.1%}" for name in labels)
        assert line == (expected or "no label")


def test_what_cannot_be_read_is_missing_and_reported(run, tmp_path):
    predicted(run, tmp_path, "classification")
    done = run(tmp_path / "model.onnx", tmp_path / "nodes.csv")
    (tmp_path / "nodes.csv").write_text(NODES.replace("NA", "many").replace("N2,9,", "N2,9,soon"))
    again = run(tmp_path / "model.onnx", tmp_path / "nodes.csv")
    assert again.stdout == done.stdout
    assert again.stderr.splitlines() == [
        "column 'size': 'many' is read as missing.",
        "column 'day': 'soon' is read as missing.",
    ]
