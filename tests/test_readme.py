"""README says what is so: its commands run, its tables are the results."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()

ELSEWHERE = {
    "pip install .": "it would change the environment; .venv is made by the same means",
    "make test": "this is it",
    "make demo": "the same command as the Makefile's, run below",
}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def commands():
    lines = [line for block in blocks("console") for line in block.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]


def run(arguments, folder):
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)


def linkdist(arguments, folder):
    code = "from linkdist.cli.main import main; main()"
    return run([sys.executable, "-c", code, *arguments], folder)


def test_the_python_example_prints_two_good_accuracies(tmp_path):
    example, *_ = blocks("python")
    done = run([sys.executable, "-c", example], tmp_path)
    assert done.returncode == 0, done.stderr
    assert [int(line.rstrip("%")) > 85 for line in done.stdout.split()] == [True, True]


def test_the_commands_run(tmp_path):
    seen = set()
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command in commands():
        if command in ELSEWHERE:
            continue
        program, *arguments = shlex.split(command)
        assert program == "linkdist", command
        done = linkdist(arguments, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout, command
        seen.add(arguments[0])
    assert seen == {
        *("train", "benchmark", "datasets", "reproduce", "report"),
        *("predict", "update", "export"),
    }


def test_make_demo_runs_and_links_help_more_than_none(tmp_path):
    asked = run(["make", "-n", "-o", ".venv/.ready", "demo"], ROOT)
    (line,) = re.findall(r"linkdist (reproduce .*?)--out", asked.stdout.replace("\\\n", " "), re.S)
    done = linkdist([*shlex.split(line), "--out", "demo", "--json", "records.json"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "report.html").exists()
    assert "CoLinkDistMLP" in done.stdout


def test_what_it_points_to_is_there():
    linked = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert "docs/idea.svg" in linked
    assert [name for name in linked if not (ROOT / name).exists()] == []


def test_the_tables_are_the_results():
    sys.path.insert(0, str(ROOT / "tools"))
    from paste_tables import pasted

    assert pasted(README, (ROOT / "results/paper/tables.md").read_text()) == README
