"""The distribution linkdist-serve: what it contains, installs and does."""

import json
import re
import signal
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import numpy as np
import pyarrow.csv
import pytest

import linkdist
from linkdist import prediction
from tests.environments import ROOT, SMALL, copy_source, new_environment, pip
from tests.serving import serving

LARGE = ("torch", "sklearn", "numba", "scipy", "pandas")
MOST_BYTES = 400_000_000
ROW = {"title": "new evidence on a large system", "venue": "review", "year": 1999}


def project(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def name_of(requirement):
    return re.match(r"[\w-]+", requirement)[0]


def test_its_dependencies_are_what_the_program_imports():
    graph = grimp.build_graph("linkdist", include_external_packages=True, cache_dir=None)
    program = ("linkdist.cli.serve_main", "linkdist.serve.app")
    modules = set().union(*map(graph.find_upstream_modules, program))
    outside = {name for name in modules if not name.startswith("linkdist.")}
    distributions = packages_distributions()
    imported = {distributions[name][0].lower().replace("_", "-") for name in outside - {"scipy"}
                if name not in sys.stdlib_module_names}  # fmt: skip
    declared = set(map(name_of, project(SMALL)["dependencies"]))
    assert imported - {"starlette"} <= declared  # FastAPI's own
    by_uvicorn, by_name = {"httptools", "uvloop"}, {"rich"}
    assert declared <= imported | by_uvicorn | by_name


def test_its_dependencies_are_those_of_the_large_distribution():
    large = project(ROOT)
    extras = large["optional-dependencies"]
    known = {*large["dependencies"], *extras["onnx"], *extras["serve"]}
    assert set(project(SMALL)["dependencies"]) <= known


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("build")
    copy_source(folder)
    pip("wheel", "--no-deps", "--wheel-dir", folder, folder / "packages" / SMALL.name)
    (path,) = folder.glob("linkdist_serve-*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A virtual environment with the wheel and what it depends on."""
    return new_environment(tmp_path_factory.mktemp("environment") / "small", wheel)


@pytest.fixture(autouse=True)
def _outside_of_the_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)


@pytest.mark.install
def test_the_wheel_has_the_files_of_the_service_and_no_training(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    source = Path(linkdist.__file__).parent
    files = [path for path in (source / "serve").rglob("*") if path.is_file()]
    needed = {f"linkdist/{path.relative_to(source)}" for path in files if path.suffix != ".pyc"}
    assert needed <= names
    assert not {"linkdist/model.py", "linkdist/cli/main.py", "linkdist/training/fit.py"} & names


@pytest.mark.install
def test_the_environment_is_small(environment):
    size = subprocess.run(["du", "-sk", environment], capture_output=True, text=True, check=True)
    assert 1024 * int(size.stdout.split()[0]) < MOST_BYTES
    code = f"from importlib.util import find_spec; print([n for n in {LARGE} if find_spec(n)])"
    found = subprocess.run(
        [environment / "bin" / "python", "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.install
def test_it_serves(environment, papers_model):
    program = (str(environment / "bin" / "linkdist-serve"),)
    with serving(papers_model, program=program) as service:
        header = {"Content-Type": "application/json"}
        body = json.dumps({"rows": [ROW]}).encode()
        ask = urllib.request.Request(f"{service.url}/v1/predict", body, header)
        (found,) = json.load(urllib.request.urlopen(ask))["predictions"]
        page = urllib.request.urlopen(service.url).read().decode()
        assert service.stop() == -signal.SIGTERM
    expected = linkdist.load_model(papers_model).predict_proba(
        {name: [value] for name, value in ROW.items()}
    )
    np.testing.assert_allclose(list(found["probabilities"].values()), expected[0], atol=1e-5)
    assert "<html" in page


@pytest.mark.install
@pytest.mark.parametrize("with_links", [False, True])
def test_it_predicts_what_linkdist_predicts(
    environment, papers, papers_model, with_links, tmp_path
):
    nodes, links = papers / "nodes.csv", papers / "links.csv" if with_links else None
    asked = [papers_model, nodes, "--out", "ours.csv", *(["--edges", links] if links else [])]
    done = run(environment, "predict", *asked)
    assert done.returncode == 0, done.stderr
    prediction.predict(papers_model, nodes, tmp_path / "theirs.csv", edges=links, device="cpu")
    ours, theirs = (pyarrow.csv.read_csv(tmp_path / f"{one}.csv") for one in ("ours", "theirs"))
    assert ours.select(["paper", "label"]).equals(theirs.select(["paper", "label"]))
    for name in theirs.column_names[2:]:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5)


@pytest.mark.install
def test_what_it_lacks_is_said_in_a_sentence(environment):
    code = "import linkdist; linkdist.Graph; linkdist.train"
    asked = [environment / "bin" / "python", "-c", code]
    done = subprocess.run(asked, capture_output=True, text=True)
    text = "ImportError: linkdist.train is not in linkdist-serve; install linkdist instead."
    assert done.stderr.splitlines()[-1] == text


@pytest.mark.install
def test_a_mistake_ends_in_a_sentence_and_exit_code_2(environment, papers_model):
    done = run(environment, "predict", papers_model, "missing.csv", "--out", "out.csv")
    assert done.returncode == 2
    assert done.stderr.startswith("linkdist-serve: ")
    assert "Traceback" not in done.stderr
    assert run(environment, "--version").stdout == f"linkdist-serve {linkdist.__version__}\n"


def run(environment, *asked):
    command = [environment / "bin" / "linkdist-serve", *map(str, asked)]
    return subprocess.run(command, capture_output=True, text=True)
