"""The pages under docs/ say what is so: commands and examples run, what they link is there."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
PROGRAM = "from linkdist.cli.main import main; main()"


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_it_links_is_there(page):
    linked = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())
    assert [name for name in linked if not (page.parent / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_examples_run(page, tmp_path):
    for example in blocks(page, "python"):
        done = subprocess.run(
            [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{example}\n{done.stderr}"
        assert "False" not in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_commands_run_one_after_the_other(page, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    for line in lines:
        if not line.startswith("$ "):
            continue
        program, *arguments = shlex.split(line[2:])
        assert program == "linkdist", line
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments],
            cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_the_example_tables_are_what_their_script_makes(tmp_path):
    subprocess.run([sys.executable, ROOT / "examples/make_papers.py", tmp_path], check=True)
    for path in (ROOT / "examples/papers").iterdir():
        assert path.read_text() == (tmp_path / path.name).read_text(), path.name
