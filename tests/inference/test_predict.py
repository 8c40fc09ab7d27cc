"""Predictions of tables through ONNX Runtime are those of PyTorch."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from linkdist import prediction
from linkdist.artifacts.model_dir import Saved, load_model, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.data import numpy_csr
from linkdist.errors import ModelError, TableError
from linkdist.inference import engine
from linkdist.inference.predict import predict
from linkdist.progress import Callback
from linkdist.tables.feature_encoder import make_feature_encoder
from tests.serve.models import SAMPLE, of_all_kinds
from tests.task_models import RELATIONS, TASKS, about_task, random_links, task_model

N = 30


class Notes(Callback):
    """Keeps what is reported."""

    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)

    def links(self, report):
        self.lines.append(str(report))


def saved_model(path, task, relations, directed, weighted):
    """A model of two columns; its links have relations and weights in columns."""
    sample = pa.record_batch({"age": [1.0, 3.0, 8.0], "kind": ["a", "b", "c"]})
    encoders = make_feature_encoder({"age": "numeric", "kind": "categorical"})
    encoders.partial_fit(sample)
    model = task_model(task, relations, directed, d=encoders.d)
    several = {"relation": "how", "relations": list(relations)} if len(relations) > 1 else {}
    weight = {"weight": "much"} if weighted else {}
    ends = {"source": "of", "target": "to", "directed": directed}
    save_model(
        path, with_onnx(Saved(model, encoders, about_task(task, **several, **weight, **ends)))
    )
    return path


def write_tables(folder, relations, directed, weighted):
    random = np.random.default_rng(1)
    kinds = random.choice(["a", "b", "c", "unseen", None], N)
    nodes = pa.table({"node": [f"n{k}" for k in range(N)], "age": random.normal(size=N),
                      "kind": pa.array(kinds.tolist())})  # fmt: skip
    pyarrow.csv.write_csv(nodes, folder / "nodes.csv")
    links = random_links(N, relations, directed, weighted, count=40)
    ends = {name: [f"n{k}" for k in links.pairs[:, i]] for i, name in enumerate(("of", "to"))}
    how = {} if links.relation is None else {"how": [relations[r] for r in links.relation]}
    much = {} if links.weights is None else {"much": links.weights}
    pyarrow.csv.write_csv(pa.table({**ends, **how, **much}), folder / "links.csv")
    return folder / "nodes.csv", folder / "links.csv"


def assert_same_tables(path, expected):
    found, right = (pyarrow.parquet.read_table(one) for one in (path, expected))
    assert found.schema == right.schema
    for name in right.column_names:
        ours, theirs = found[name], right[name]
        if pa.types.is_floating(theirs.type):
            np.testing.assert_allclose(ours.to_numpy(), theirs.to_numpy(), atol=1e-5, rtol=1e-5)
        else:
            assert ours.equals(theirs), name


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("relations", "directed", "weighted"),
    [(("links",), False, False), (RELATIONS, True, True), (RELATIONS[:2], False, True)],
)
def test_the_file_is_that_of_pytorch(tmp_path, task, relations, directed, weighted):
    model = saved_model(tmp_path / "model", task, relations, directed, weighted)
    nodes, links = write_tables(tmp_path, relations, directed, weighted)
    files = []
    for edges in (None, links):
        ours, theirs = tmp_path / f"ours{edges is None}.pq", tmp_path / f"theirs{edges is None}.pq"
        said, right = Notes(), Notes()
        assert predict(model, nodes, ours, edges=edges, callback=said) == N
        prediction.predict(model, nodes, theirs, edges=edges, device="cpu", callback=right)
        assert_same_tables(ours, theirs)
        assert said.lines == right.lines
        assert any("unseen" in line for line in said.lines)
        files.append(ours.read_bytes())
    assert files[0] != files[1]


def test_batches_are_joined_before_links_are_used(tmp_path, monkeypatch):
    model = saved_model(tmp_path / "model", "classification", ("links",), False, False)
    nodes, links = write_tables(tmp_path, ("links",), False, False)
    predict(model, nodes, tmp_path / "whole.pq", edges=links)
    read = sys.modules["linkdist.inference.table"].labelled_batches
    monkeypatch.setattr(
        "linkdist.inference.table.labelled_batches", lambda *a, **k: read(*a, **k, size=7)
    )
    predict(model, nodes, tmp_path / "parts.pq", edges=links)
    assert_same_tables(tmp_path / "parts.pq", tmp_path / "whole.pq")


def test_the_problems_of_a_table_are_reported_as_by_pytorch(tmp_path):
    model = saved_model(tmp_path / "model", "classification", ("links",), False, False)
    (tmp_path / "nodes.csv").write_text("node,age\na,1\na,soon\n")
    texts = []
    for way in (predict, prediction.predict):
        with pytest.raises(TableError) as error:
            way(model, tmp_path / "nodes.csv", tmp_path / "out.csv")
        texts.append(str(error.value))
    assert texts[0] == texts[1]
    assert "kind" in texts[0]
    assert not (tmp_path / "out.csv").exists()


def test_a_model_without_onnx_says_how_to_add_it(tmp_path, monkeypatch):
    model = of_all_kinds(tmp_path / "model")
    save_model(model, replace(load_model(model), onnx=None))
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"no model.onnx, and PyTorch") as error:
        predict(model, tmp_path / "nodes.csv", tmp_path / "out.csv")
    code = str(error.value).split('python -c "')[1].rstrip('".')
    monkeypatch.chdir(tmp_path)
    exec(code)
    engine.Engine(model)


ABSENT = ("torch", "sklearn", "numba", "scipy", "onnx", "pandas", "jinja2", "pooch", "safetensors")
WITHOUT = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from linkdist.cli.serve_main import main
main()
"""


@pytest.mark.parametrize("has_links", [False, True])
def test_the_small_program_predicts_without_the_large_packages(
    papers, papers_model, tmp_path, has_links
):
    nodes, links = papers / "nodes.csv", papers / "links.csv"
    asked = ["predict", papers_model, nodes, "--out", "ours.pq", *["--edges", links] * has_links]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(str, asked)],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    count = prediction.predict(
        papers_model, nodes, tmp_path / "theirs.pq", edges=links if has_links else None
    )
    assert (done.returncode, done.stdout) == (0, f"{count} nodes predicted: ours.pq\n"), done.stderr
    assert_same_tables(tmp_path / "ours.pq", tmp_path / "theirs.pq")


def test_every_kind_of_column_is_encoded_without_scipy(tmp_path, monkeypatch):
    model = of_all_kinds(tmp_path / "model")
    rows = pa.table({"node": ["x", "y", "z"], **SAMPLE})
    pyarrow.parquet.write_table(rows, tmp_path / "nodes.pq")
    predict(model, tmp_path / "nodes.pq", tmp_path / "theirs.pq")
    for module in ("tables.bag_encoders", "tables.feature_encoder", "data.graph"):
        monkeypatch.setattr(f"linkdist.{module}.sparse", numpy_csr)
    monkeypatch.setattr(engine, "sparse", numpy_csr)
    predict(model, tmp_path / "nodes.pq", tmp_path / "ours.pq")
    assert_same_tables(tmp_path / "ours.pq", tmp_path / "theirs.pq")
