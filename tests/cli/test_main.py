"""The program: help, version, exit codes, and what is printed to which stream."""

from __future__ import annotations

import inspect
import re
import signal
import subprocess
import sys
from dataclasses import fields
from importlib.metadata import entry_points

import pytest
import typer

import linkdist
from linkdist.cli import console
from linkdist.cli import main as cli
from linkdist.data.datasets import DATASETS
from linkdist.data.splits import HELD_OUT, PROTOCOLS, SETTINGS
from linkdist.errors import OptionError
from linkdist.paper import protocol, run
from linkdist.pipeline import Options
from linkdist.store.plan import MEMORY
from linkdist.store.synthetic import DENSE, Planted
from linkdist.tables.schema import KINDS
from linkdist.training.fit import METHODS
from linkdist.training.loop import Hyperparameters
from tests.cli.common import ESCAPE, NO_GPU, refused, start, words

pytestmark = pytest.mark.usefixtures("surroundings")

COMMANDS = {
    "check": "Print what 'linkdist train' understands of your tables, and what is suspicious.",
    "evaluate": "Evaluate a model on labelled rows that it was not trained on.",
    "drift": "Compare a table with the training of a model, and raise an alarm if it has changed.",
    "suggest": "Suggest which rows to label next, and write a table to fill in.",
    "train": "Train a model on your own tables or on a store.",
    "predict": "Predict nodes from features or, with --edges, with links.",
    "explain": "Explain predictions: which columns, words, tags and neighbours speak for and",
    "update": "Update a model with new nodes and links, without the old data.",
    "export": "Export a model to ONNX after checking that both give the same results.",
    "serve": "Serve a model over HTTP, with a web page at /.",
    "store": "Manage stores, which are graphs on disk that may be larger than memory.",
    "datasets": "List the named data sets, their sizes and the locations of their raw files.",
    "benchmark": "Measure a method on a named data set; no model is saved.",
    "reproduce": "Reproduce the paper's tables, or some of their cells.",
    "report": "Write DIR/report.html, a page that works without a network, and DIR/tables.md.",
}
MODULES = (
    "benchmark",
    "console",
    "drift",
    "options",
    "paper",
    "predict",
    "serve",
    "store",
    "train",
)
HEAVY = ("torch", "numpy", "scipy", "pyarrow", "sklearn", "numba", "fastapi", "uvicorn", "ray")


@pytest.mark.parametrize(("name", "sentence"), COMMANDS.items())
def test_every_command_says_what_it_does(command, name, sentence):
    code, out, _ = command(name, "--help")
    assert code == 0
    assert sentence in words(out)


def test_the_program_says_what_it_does(command):
    code, out, _ = command("--help")
    assert code == 0
    assert "Train on a graph's links, keep an MLP." in words(out)
    assert "linkdist benchmark digits" in words(out)
    listed = {name for name in COMMANDS if re.search(rf"^\W*{name}\s+\w", out, re.MULTILINE)}
    groups = {group.name for group in cli.app.registered_groups}
    single = {c.callback.__name__ for c in cli.app.registered_commands}
    assert listed == set(COMMANDS) == single | groups


def test_every_option_says_what_it_is_for(command):
    options = {
        "datasets": ["--data", "--json"],
        "train": [
            *("--nodes", "--edges", "--store", "--method", "--seed", "--replicas", "--device"),
            *("--out", "--json"),
        ],
        "benchmark": [
            *("--method", "--setting", "--protocol", "--seed", "--replicas", "--device", "--data"),
            "--json",
        ],
        "reproduce": [
            *("--out", "--datasets", "--settings", "--methods", "--runs", "--seed", "--device"),
            *("--data", "--json"),
        ],
        "report": [],
    }
    for name, expected in options.items():
        _, out, _ = command(name, "--help")
        lines = [
            re.match(r"│ (?:[* ] {2})?(--[a-z-]+)(.*)", line)
            for line in ESCAPE.sub("", out).splitlines()
        ]
        said = {found[1]: found[2] for found in lines if found and found[1] != "--help"}
        assert set(said) >= set(expected)
        assert all(re.search(r"[a-z]{2,}", said[option]) for option in expected)


def commands_of(command):
    """A command and those below it."""
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from commands_of(below)


def params_of_all():
    """Every argument and option of every command."""
    for command in commands_of(typer.main.get_command(cli.app)):
        yield from (param for param in command.params if "completion" not in param.name)


def test_a_help_text_is_made_of_sentences():
    params = list(params_of_all())
    assert len(params) > 70
    for param in params:
        assert re.fullmatch(r"[A-Z0-9'].{12,}\.", param.help), (param.name, param.help)
        assert " " in param.help, param.name
    for command in commands_of(typer.main.get_command(cli.app)):
        assert re.match(r"[A-Z][a-z]+ .+\.(\n|$)", command.help), command.name


def test_a_command_takes_few_parameters():
    """Options beyond a handful are fields of option groups."""
    modules = [cli, *(sys.modules[f"linkdist.cli.{name}"] for name in MODULES)]
    functions = {
        function
        for module in modules
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__.startswith("linkdist.cli.")
    }
    assert len(functions) > 30
    for function in functions:
        assert len(inspect.getfullargspec(inspect.unwrap(function)).args) <= 12, function.__name__


def test_no_option_has_its_own_name_for_a_placeholder():
    """Typer 0.27 writes such an option as the placeholder is written: --STORE."""
    options = [param for param in params_of_all() if param.param_type_name == "option"]
    assert len(options) > 50
    for option in options:
        assert (option.metavar or "").lower() != option.name
        assert all(flag == flag.lower() for flag in option.opts)


def test_training_says_what_its_method_is_by_default(command):
    _, out, _ = command("train", "--help")
    said = words(out.replace("│", " "))
    method, _ = said[said.index("--method") :].split("--epochs")
    assert "[default: (selflinkdist)]" in method


def test_the_version_is_printed(command):
    assert command("--version") == (0, f"linkdist {linkdist.__version__}\n", "")


def test_neither_help_nor_version_imports_a_large_library():
    code = (
        "import sys, typer, linkdist.cli.main as cli\n"
        "def run(*args):\n"
        "    sys.argv = ['linkdist', *args]\n"
        "    try:\n"
        "        cli.main()\n"
        "    except SystemExit as end:\n"
        "        assert not end.code, args\n"
        "run('--version')\n"
        "run('--help')\n"
        "for name, found in typer.main.get_command(cli.app).commands.items():\n"
        "    for below in ([], *([each] for each in getattr(found, 'commands', {}))):\n"
        "        run(name, *below, '--help')\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Measure a method" in done.stdout
    assert "Generate a graph" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_defaults_and_names_in_the_help_are_those_of_the_library():
    """The command line writes them down because their modules take seconds to import."""
    params = {
        (command.name, param.name): param
        for command in commands_of(typer.main.get_command(cli.app))
        for param in command.params
    }
    assert params["benchmark", "method"].default == Options.method
    assert params["train", "method"].show_default == Options.method
    for name in ("train", "benchmark"):
        said = set(re.findall(r"\b\w*linkdist\b", params[name, "method"].help))
        assert said == set(METHODS)
    protocol, setting = params["benchmark", "protocol"], params["benchmark", "setting"]
    assert set(re.findall(r"'(\w+)'", protocol.help)) == set(PROTOCOLS)
    assert setting.default in PROTOCOLS[protocol.default]
    known = {setting for settings in PROTOCOLS.values() for setting in settings}
    assert set(re.findall(r"'([\w-]+)'", setting.help)) == known
    assert params["reproduce", "settings"].default == ",".join(SETTINGS)
    for name in ("build", "synth"):
        assert params[name, "memory"].default == MEMORY
        assert params[name, "dtype"].default in DENSE
        assert all(dtype in params[name, "dtype"].help for dtype in DENSE)
    assert params["train", "memory"].show_default.startswith(f"{MEMORY};")
    assert all(kind in params["train", "kinds"].help for kind in KINDS)
    assert f"share is {HELD_OUT}." in params["train", "held_out"].help
    hyper = Hyperparameters()
    assert params["train", "hidden_size"].default == hyper.hidden_size
    assert params["train", "dropout"].default == hyper.dropout
    assert params["train", "batch_size"].show_default.startswith(f"{hyper.batch};")
    rates = hyper.rate("selflinkdist"), hyper.rate("linkdist")
    shown = "{} for selflinkdist, {} for the other methods".format(*rates)
    assert params["train", "learning_rate"].show_default == shown
    for field in fields(Planted):
        assert params["synth", field.name].default in (field.default, None), field.name


def test_the_script_is_installed():
    (script,) = entry_points(group="console_scripts", name="linkdist")
    assert script.load() is cli.main


# What is refused.

REFUSED = {
    "unknown set": ("benchmark coral", r"unknown data set 'coral' \(near: cora"),
    "unknown method": ("benchmark digits --method linkdis", r"'linkdis' \(near: linkdist"),
    "unknown setting": ("benchmark digits --setting inductiv", r"'inductiv' \(near: inductive"),
    "unknown device": ("benchmark digits --device gpu", "choose from auto, cpu, cuda"),
    "no replicas": ("benchmark digits --replicas 0", "--replicas must be 1 or more.* found 0"),
    "negative seed": ("benchmark digits --seed -1", "--seed must be 0 or more, .* found -1 and 1"),
    "seed too large": ("benchmark digits --seed 4294967296", r"--seed .* at most 2\*\*32; found"),
    "seeds too large": ("benchmark digits --seed 4294967295 --replicas 2", "with --replicas added"),
    "unwritable json": ("benchmark digits --json {tmp}/no/x.json", r"--json|x\.json cannot"),
    "unknown sets": ("reproduce --out {out} --datasets coral,pubme", r"'coral' .*'pubme' \(near:"),
    "unknown methods": ("reproduce --out {out} --methods gcm", r"'gcm' \(near: GCN"),
    "unknown settings": (
        "reproduce --out {out} --settings all",
        "unknown setting 'all'; choose from",
    ),
    "unknown device for cells": ("reproduce --out {out} --device tpu", "unknown device 'tpu'"),
    "no runs": ("reproduce --out {out} --runs 0", "--runs must be 1 or more; found 0"),
    "negative first seed": (
        "reproduce --out {out} --seed -1",
        "--seed must be 0 or more, .* found -1",
    ),
    "a file for a folder": (
        "reproduce --out {tmp}/file --datasets digits",
        "--out must be a writable folder; .* is not",
    ),
    "a folder below a file": (
        "reproduce --out {tmp}/file/out --datasets digits",
        "--out must be a writable folder; .* is not",
    ),
    "no results": ("report {tmp}", r"results\.json cannot be read: No such file"),
    "no folder": ("report {out}", r"results\.json cannot be read: No such file"),
    "list that cannot be written": ("datasets --json {tmp}/no/x.json", "x.json cannot be written"),
}


@pytest.mark.parametrize(("line", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.usefixtures("quick")
def test_mistakes_are_told_in_plain_words(command, tmp_path, line, message):
    (tmp_path / "file").write_text("in the way")
    filled = line.format(tmp=tmp_path, out=tmp_path / "out")
    refused(command(*filled.split()), message)
    assert not (tmp_path / "out").exists()


@NO_GPU
@pytest.mark.parametrize("line", ["benchmark digits", "reproduce --out {out}"])
def test_a_gpu_that_is_not_there_is_told_of(command, tmp_path, line):
    args = line.format(out=tmp_path / "out").split()
    refused(command(*args, "--device", "cuda"), "no CUDA device was found; use --device cpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ["benchmark cora", "reproduce --out {out} --datasets digits,cora"])
def test_raw_files_that_cannot_be_had_are_told_of(command, tmp_path, line):
    result = command(*line.format(out=tmp_path / "out").split())
    refused(result, r"cora could not be downloaded from https://\S+ \(.*no way out")
    assert "download ind.cora.x" in result[2]
    assert "--data DIR or LINKDIST_DATA" in result[2]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "line",
    ["reproduce", "reproduce --out x --runs few", "predict", "benchmark digits --speed 3", "learn"],
)
def test_a_line_that_cannot_be_read_is_told_of(command, line):
    code, out, err = command(*line.split())
    assert (code, out) == (2, "")
    assert ESCAPE.sub("", err).startswith("Usage: ")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "line",
    [
        *("benchmark digits --method linkdis", "benchmark digits --setting inductiv"),
        *("benchmark digits --json {tmp}/no/x.json", "benchmark digits --json {tmp}"),
        "reproduce --out {tmp}/out --datasets digits --json {tmp}/no/x.json",
    ],
)
@pytest.mark.usefixtures("quick")
def test_mistakes_are_told_before_anything_is_trained(command, tmp_path, monkeypatch, line):
    def fail(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr(protocol, "train_plain_mlp", fail)
    monkeypatch.setattr(run, "run_task", fail)
    code, _, _ = command(*line.format(tmp=tmp_path).split())
    assert code == 2
    assert not (tmp_path / "out").exists()


def test_debug_shows_where(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["linkdist", "--debug", "benchmark", "coral"])
    with pytest.raises(OptionError, match="coral"):
        cli.main()


def break_report(monkeypatch, error):
    def fail(directory):
        raise error

    monkeypatch.setattr("linkdist.paper.report.write_report", fail)


def test_an_unexpected_error_asks_for_a_report(command, monkeypatch):
    break_report(monkeypatch, ZeroDivisionError("by nothing"))
    code, out, err = command("report", ".")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "linkdist: unexpected ZeroDivisionError: by nothing",
        "linkdist: 'linkdist --debug ...' shows the traceback; please report this error.",
    ]


def test_debug_shows_where_an_unexpected_error_was(monkeypatch):
    break_report(monkeypatch, ZeroDivisionError("by nothing"))
    monkeypatch.setattr(sys, "argv", ["linkdist", "--debug", "report", "."])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_an_interruption_has_its_own_code(command, monkeypatch):
    break_report(monkeypatch, KeyboardInterrupt())
    code, _, err = command("report", ".")
    assert code == 128 + signal.SIGINT
    assert err == "linkdist: interrupted.\n"


def test_an_interruption_outside_a_command_is_told_too(command, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupt)
    assert command() == (128 + signal.SIGINT, "", "linkdist: interrupted.\n")


def test_a_process_lists_into_a_pipe():
    done = start("datasets")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(name in done.stdout for name in DATASETS)
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= console.LOG_WIDTH


def test_a_process_refuses_without_a_traceback(tmp_path):
    done = start("report", tmp_path)
    refused((done.returncode, done.stdout, done.stderr), "cannot be read")
