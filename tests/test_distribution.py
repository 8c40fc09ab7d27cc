"""The distribution linkdist: what its files contain, and what it does outside the checkout."""

import csv
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import linkdist
from tests.environments import ROOT, SMALL, copy_source, new_environment
from tests.serving import serving

ROW = {"title": "new evidence on a large system", "venue": "review", "year": 1999}


def project(folder=ROOT):
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def test_both_distributions_have_the_same_addresses_and_versions_of_python():
    large, small = project(), project(SMALL)
    assert large["urls"] == small["urls"]
    assert large["requires-python"] == small["requires-python"]
    versions = [
        [name for name in one["classifiers"] if name.startswith(("Programming", "Operating"))]
        for one in (large, small)
    ]
    assert versions[0] == versions[1]


def test_every_file_states_the_same_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {linkdist.__version__}\n" in citation
    assert f"repository-code: {project()['urls']['Source']}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text()
    date = re.search(r"^date-released: (\S+)$", citation, re.M)[1]
    assert f"\n## [{linkdist.__version__}] - {date}\n" in changes


def locked():
    """Pins and the number of digests of the lock."""
    text = (ROOT / "requirements-dev.txt").read_text().replace("\\\n", " ")
    lines = [line.split(" --hash=sha256:") for line in text.splitlines() if line[0] != "#"]
    return {pin.split(";")[0].strip(): len(digests) for pin, *digests in lines}


def test_the_lock_has_the_versions_of_the_constraints_and_digests():
    text = (ROOT / "constraints.txt").read_text()
    constraints = {re.sub(r"[-_.]+(?=.*==)", "-", line.lower()) for line in text.splitlines()}
    pins = locked()
    advice = "run: python tools/lock.py"
    assert pins.keys() <= constraints, advice
    assert all(pins.values())
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    wanted = [*project()["dependencies"], *groups["docs"], *groups["dev"]]
    names = {re.match(r"[\w-]+", one)[0].lower() for one in wanted if isinstance(one, str)}
    assert names - {"torch"} <= {pin.split("==")[0] for pin in pins}, advice


def build(source, out, *options):
    command = [sys.executable, "-m", "build", "--outdir", out, *options, source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    copy_source(folder)
    return folder


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    """A folder with the source archive, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("built")
    build(source, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("linkdist-*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A virtual environment with the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("environment") / "large"
    return new_environment(folder, f"linkdist[serve] @ {wheel.as_uri()}")


@pytest.fixture(autouse=True)
def _outside_of_the_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)


def contents(path):
    """Digests of the files of a wheel by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


@pytest.mark.install
def test_the_wheel_has_every_file_of_the_package(wheel):
    folder = ROOT / "src"
    files = [path for path in (folder / "linkdist").rglob("*") if path.is_file()]
    made = "__pycache__"
    expected = {path.relative_to(folder).as_posix() for path in files if path.parent.name != made}
    found = {name for name in contents(wheel) if ".dist-info/" not in name}
    assert found == expected
    assert {"linkdist/py.typed", "linkdist/paper/published.json"} <= found


@pytest.mark.install
def test_the_source_archive_builds_the_wheel_of_the_checkout(source, wheel, built, tmp_path):
    build(source, tmp_path, "--wheel")
    assert contents(tmp_path / wheel.name) == contents(wheel)
    (path,) = built.glob("linkdist-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith("tests")]


@pytest.mark.install
def test_the_metadata_is_complete(wheel):
    folder = f"linkdist-{linkdist.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        about = message_from_bytes(archive.read(f"{folder}/METADATA"))
    assert about["License-Expression"] == "MIT"
    urls = dict(line.split(", ") for line in about.get_all("Project-URL"))
    assert urls == project()["urls"]
    assert set(about.get_all("Provides-Extra")) == {"onnx", "serve", "ray"}
    page = about.get_payload()
    assert f"]({urls['Source']}/raw/main/docs/idea.svg)" in page
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", page) == []


def run(environment, *asked):
    command = [environment / "bin" / "linkdist", *map(str, asked)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.install
def test_it_states_its_version_and_is_not_the_checkout(environment):
    assert run(environment, "--version") == f"linkdist {linkdist.__version__}\n"
    code = "import linkdist; print(linkdist.__file__)"
    asked = [environment / "bin" / "python", "-c", code]
    found = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(environment)


@pytest.mark.install
def test_it_measures_digits(environment):
    assert "selflinkdist, with links" in run(environment, "benchmark", "digits", "--json", "out")
    scores = json.loads(Path("out").read_text())["scores"]
    accuracy = {name: one["test"][0] for name, one in scores.items()}
    assert accuracy["selflinkdist, from features"] > accuracy["plain MLP"] + 5
    assert accuracy["selflinkdist, with links"] > 85


@pytest.fixture(scope="module")
def trained(environment, tmp_path_factory):
    """A folder with the example tables and the model that the installed program trained."""
    folder = tmp_path_factory.mktemp("walk")
    shutil.copytree(ROOT / "examples" / "papers", folder, dirs_exist_ok=True)
    tables = ["--nodes", folder / "nodes.csv", "--edges", folder / "links.csv"]
    roles = ["--id", "paper", "--label", "field", "--held-out", "0"]
    run(environment, "train", *tables, *roles, "--out", folder / "model")
    return folder


def column(path, name):
    with path.open() as file:
        return {row["paper"]: row[name] for row in csv.DictReader(file)}


@pytest.mark.install
def test_it_learns_from_two_tables_and_predicts_a_third(environment, trained, tmp_path):
    new = trained / "new_nodes.csv"
    assert (trained / "model" / "report.html").exists()
    text = run(environment, "predict", trained / "model", new, "--out", "predictions.csv")
    assert "748 nodes predicted" in text
    found = column(tmp_path / "predictions.csv", "label")
    expected = linkdist.load_model(trained / "model").predict(str(new))
    assert list(found.values()) == list(expected)
    truth = column(trained / "truth.csv", "field")
    hits = [found[paper] == truth[paper] for paper in found if paper in truth]
    assert sum(hits) / len(hits) > 0.5  # four fields


@pytest.mark.install
def test_it_serves(environment, trained):
    program = (str(environment / "bin" / "linkdist"),)
    with serving(trained / "model", program=program) as service:
        header = {"Content-Type": "application/json"}
        body = json.dumps({"rows": [ROW]}).encode()
        ask = urllib.request.Request(f"{service.url}/v1/predict", body, header)
        (found,) = json.load(urllib.request.urlopen(ask))["predictions"]
        page = urllib.request.urlopen(service.url).read().decode()
        service.stop()
    columns = {name: [value] for name, value in ROW.items()}
    expected = linkdist.load_model(trained / "model").predict_proba(columns)
    assert list(found["probabilities"].values()) == pytest.approx(expected[0], abs=1e-5)
    assert "<html" in page
