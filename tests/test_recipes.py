"""The recipes for MLflow and the Hugging Face Hub do what their pages say.

Each package is installed in an environment of its own, which also sees the packages of this one.
Oracles: the pages, `linkdist predict`, and the files of the model directory, byte by byte. The Hub
is a stand-in on this machine (`tests.hub_server`), so how it stores large files is not tested.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import linkdist
from linkdist import prediction
from linkdist.artifacts.manifest import FILES
from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.errors import ModelError
from linkdist.tables.feature_encoder import make_feature_encoder
from tests.hub_server import COMMIT, REPOSITORY, hub
from tests.pages import ROOT
from tests.task_models import about_task, task_model

pytestmark = pytest.mark.install

PACKAGES = {
    "mlflow": ["mlflow-skinny>=3.17", "sqlalchemy", "alembic"],
    "huggingface_hub": ["huggingface_hub>=1"],
}
CHECK = """
import shutil, sys
from pathlib import Path
from tests.pages import ROOT, Trained, check

shutil.copytree(ROOT / "examples", "examples")
print(check(ROOT / "docs" / sys.argv[1], Path.cwd(), Trained(Path("trained"))))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Run Python where a package is installed, and return what it prints."""
    environments = {}

    def run(package, *arguments, **variables):
        if package not in environments:
            environments[package] = installed(package, tmp_path_factory.mktemp(package) / "env")
        paths = [str(ROOT), str(Path(linkdist.__file__).parents[1])]
        inherited = {key: os.environ[key] for key in os.environ if key[:3] not in ("MLF", "HF_")}
        own = {"PYTHONPATH": os.pathsep.join(paths), "DO_NOT_TRACK": "true", "COLUMNS": "120"}
        return subprocess.run(
            [environments[package] / "bin" / "python", *map(str, arguments)],
            env={**inherited, **own, **variables}, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    return run


def installed(package, folder):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q"]
    pinned = {**os.environ, "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    subprocess.run([*pip, *PACKAGES[package]], env=pinned, check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    ours = sysconfig.get_path("purelib")
    (site / "zz.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    return folder


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_page_of_mlflow_is_true(python):
    assert python("mlflow", "-c", CHECK, "mlflow.md").splitlines()[-1] == "{}"


@pytest.mark.parametrize("linked", [False, True])
def test_mlflow_predicts_what_linkdist_predicts(python, papers, papers_model, linked, tmp_path):
    nodes, links = papers / "new_nodes.csv", papers / "new_links.csv"
    example = ROOT / "examples" / "mlflow_model.py"
    uri = python("mlflow", example, papers_model, nodes, "papers").splitlines()[-1]
    assert uri == "models:/papers/1"
    ask = f"""
import mlflow, pandas as pd
nodes, links = pd.read_csv({str(nodes)!r}), pd.read_csv({str(links)!r})
params = {{"sources": links["from"].tolist(), "targets": links["to"].tolist()}}
model = mlflow.pyfunc.load_model({uri!r})
model.predict(nodes, params=params if {linked} else None).to_parquet("found.parquet")
"""
    python("mlflow", "-c", ask)
    edges = links if linked else None
    prediction.predict(papers_model, nodes, tmp_path / "ours.parquet", edges=edges, device="cpu")
    found, ours = (pd.read_parquet(f"{name}.parquet") for name in ("found", "ours"))
    pd.testing.assert_frame_equal(found, ours, rtol=1e-5)
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pkl", ".pickle")]


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_mlflow_predicts_numbers_and_several_labels(python, task, tmp_path):
    kinds = {"size": "numeric", "kind": "categorical"}
    seen = pa.table({"size": [1.5, 4.0], "kind": ["north", "south"]})
    encoders = make_feature_encoder(kinds, seen)
    encoders.partial_fit(seen.to_batches()[0])
    about = about_task(task, label_format={"separator": ";"} if task == "multilabel" else None)
    saved = Saved(task_model(task, d=encoders.d), encoders, about)
    save_model(tmp_path / "model", saved)
    nodes = pd.DataFrame({"node": ["a", "b"], "size": [2.5, None], "kind": ["south", "north"]})
    nodes.to_csv("nodes.csv", index=False)
    example = ROOT / "examples" / "mlflow_model.py"
    uri = python("mlflow", example, "model", "nodes.csv", "small").splitlines()[-1]
    ask = f"""
import mlflow, pandas as pd
found = mlflow.pyfunc.load_model({uri!r}).predict(pd.read_csv("nodes.csv"))
found.to_parquet("found.parquet")
"""
    python("mlflow", "-c", ask)
    prediction.predict(tmp_path / "model", nodes, tmp_path / "ours.parquet", device="cpu")
    found, ours = (pd.read_parquet(f"{name}.parquet") for name in ("found", "ours"))
    pd.testing.assert_frame_equal(found, ours, rtol=1e-5)


def test_the_page_of_the_hub_is_true(python, tmp_path):
    with hub() as server:
        variables = hub_variables(server, tmp_path)
        found = python("huggingface_hub", "-c", CHECK, "hub.md", **variables)
        assert found.splitlines()[-1] == "{}"
        assert set(server.files) <= set(FILES)


def hub_variables(server, folder):
    return {"HF_ENDPOINT": server.url, "HF_HOME": str(folder / "home"), "HF_TOKEN": "hf_none"}


def test_a_model_comes_back_from_the_hub_as_it_was(python, papers_model, tmp_path):
    copied = tmp_path / "papers-model"
    subprocess.run(["cp", "-r", papers_model, copied], check=True)
    example = ROOT / "examples" / "hub_model.py"
    with hub() as server:
        variables = hub_variables(server, tmp_path)
        uploaded = python(
            "huggingface_hub", example, "upload", copied, REPOSITORY, "mit", **variables
        )
        assert uploaded.splitlines()[-1] == COMMIT
        down = ("download", REPOSITORY, "got")
        assert "classes=['biology'" in python("huggingface_hub", example, *down, **variables)
        code = "from huggingface_hub import *; print(snapshot_download('me/papers'))"
        cached = python("huggingface_hub", "-c", code, **variables).splitlines()[-1]
    for path in copied.iterdir():
        assert (tmp_path / "got" / path.name).read_bytes() == path.read_bytes()
        if path.name != "README.md":  # which has got its licence
            assert (papers_model / path.name).read_bytes() == path.read_bytes()
    with pytest.raises(ModelError, match="it is a symbolic link, not a regular file"):
        linkdist.load_model(cached)


def test_the_library_of_the_hub_reads_the_metadata(python, papers_model, tmp_path):
    code = """
import sys
from huggingface_hub import ModelCard

data = ModelCard.load(sys.argv[1]).data
print(data.library_name, data.pipeline_tag, data.tags, data.model_name)
print([(result.metric_type, result.metric_value) for result in data.eval_results or []])
"""
    model = linkdist.load_model(papers_model)
    scores = [{"name": "this model, from features", "value": 0.75, "low": 0.7, "high": 0.8}]
    model.about["estimates"] = {"measure": "macro-f1", "new_rows": scores}
    model.save(tmp_path / "scored")
    printed = python("huggingface_hub", "-c", code, tmp_path / "scored" / "README.md").splitlines()
    tags = ["linkdist", "graph", "classification"]
    assert printed == [f"linkdist tabular-classification {tags} scored", "[('f1', 0.75)]"]
