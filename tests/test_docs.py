"""README and the pages under docs/ are true: their commands run and print what they show."""

import re
import shutil
import subprocess
import sys

import pytest

from tests.pages import ROOT, Trained, check, differences, same, steps

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
INSTALLED = ("hub", "mlflow")
"""Pages that need other packages; tests/test_recipes.py installs these and runs the pages."""
NOT_HERE = {
    "make test": "this is it",
    "make demo": "tested below with the command of the Makefile",
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    return Trained(tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    linked = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())
    assert [name for name in linked if not (page.parent / name).exists()] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem not in INSTALLED], ids=lambda page: page.stem
)
def test_commands_and_examples_print_what_the_page_shows(page, tmp_path, monkeypatch, trained):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINKDIST_DATA", str(tmp_path / "none"))
    assert check(page, tmp_path, trained, NOT_HERE) == {}


def test_readme_is_short_and_shows_every_command():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 200
    commands = {step.source.split()[1] for step in steps(readme) if step.language == "console"}
    assert commands >= {"train", "predict", "update", "export", "benchmark", "demo", "test"}


def test_make_demo_runs(tmp_path, monkeypatch):
    asked = subprocess.run(
        ["make", "-n", "-o", ".venv/.ready", "demo"], cwd=ROOT, capture_output=True, text=True
    )
    (line,) = re.findall(r"linkdist (reproduce .*?)--out", asked.stdout.replace("\\\n", " "), re.S)
    monkeypatch.chdir(tmp_path)
    from tests.pages import command

    printed = command([*line.split(), "--out", "demo"])
    assert (tmp_path / "demo" / "report.html").exists()
    assert "CoLinkDistMLP" in printed


@pytest.mark.parametrize("name", ["papers", "shops"])
def test_example_tables_are_what_their_script_makes(tmp_path, name):
    subprocess.run([sys.executable, ROOT / f"examples/make_{name}.py", tmp_path], check=True)
    for path in (ROOT / "examples" / name).iterdir():
        assert path.read_text() == (tmp_path / path.name).read_text(), path.name


@pytest.mark.parametrize(
    ("shown", "printed", "missing"),
    [
        ("a 1.0\nb\n", "a 1.5\nb\n", []),
        ("a\n...\nz\n", "a\nb\nc\nz\n", []),
        ("a\n...\n", "a\nb\n", []),
        ("took 3.1 s\n", "took 99.0 s\n", []),
        ("in .../model\n", "in here/model\n", []),
        ("accuracy 63.0\n", "accuracy 40.0\n", ["accuracy 63.0"]),
        ("a\nb\n", "a\n", ["b"]),
        ("a\n", "a\nb\n", ["(also printed: b)"]),
        ("b\na\n", "a\nb\n", ["b"]),
    ],
)
def test_differences_between_a_page_and_what_is_printed(shown, printed, missing):
    assert differences(shown, printed) == missing


def test_text_of_a_line_must_be_equal():
    assert same("3 links", "4 links")
    assert not same("3 links", "3 rows")
