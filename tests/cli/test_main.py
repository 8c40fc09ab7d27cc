"""Oracles: exit codes, what stands on which stream, and what a file holds afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from importlib.metadata import entry_points
from io import BytesIO, StringIO, TextIOWrapper

import numpy as np
import pytest
import torch
import typer

from linkdist.cli import console, entry
from linkdist.cli import main as cli
from linkdist.data.datasets import DATASETS
from linkdist.errors import DataError, OptionError
from linkdist.paper import run
from tests.paper.test_run import make_quick, tiny

COMMANDS = {
    "datasets": "List the named graphs, their sizes, and which raw files are at hand and where.",
    "train": "Train on your own tables and keep a model, or on a named graph to see how it does.",
    "predict": "Predict a table of nodes from features or, with --edges, with links among them.",
    "update": "Bring a model up to date with new nodes and links, without the old ones.",
    "export": "Write a model as ONNX, once it has been found to give the same on real rows.",
    "serve": "Serve a model over HTTP, with a page for people at /.",
    "store": "Graphs larger than memory, on disk.",
    "reproduce": "Train the asked cells of the paper's tables; killed, it goes on where it was.",
    "report": "Write DIR/report.html, one page that needs no network, and DIR/tables.md.",
}
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
RECORD = {
    **{"dataset": "digits", "setting": "inductive", "method": "MLP", "scores": [90.0]},
    **{"mean": 90.0, "std": 0.0, "seconds": 1.0, "device": "cpu"},
}


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path, monkeypatch):
    """No folder of the user's, no network, no colours that the surroundings ask for."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("LINKDIST_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LINKDIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LINKDIST_COMMIT", "abc1234")
    for name in ("FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # Typer puts its own there
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def unreachable(url, timeout):
    raise urllib.error.URLError("no way out")


@pytest.fixture
def quick(monkeypatch):
    """Trainings of an epoch or a few, on a tiny graph."""
    make_quick(monkeypatch.setattr)
    real = cli.named.load
    known = lambda name, data=None: tiny(name) if name in DATASETS else real(name, data)  # noqa: E731
    monkeypatch.setattr(cli.named, "load", known)
    monkeypatch.setattr("linkdist.training.fit.epochs_for", lambda degree: 1)
    monkeypatch.setattr("linkdist.training.panel.fitting.cycles_for", lambda nodes, folds: (1,))


def words(text):
    return " ".join(ESCAPE.sub("", text).split())


def start(*args):
    return subprocess.run(
        [sys.executable, "-c", "from linkdist.cli.main import main; main()", *map(str, args)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# Help.


@pytest.mark.parametrize(("name", "sentence"), COMMANDS.items())
def test_every_command_says_what_it_does(command, name, sentence):
    code, out, _ = command(name, "--help")
    assert code == 0
    assert sentence in words(out)


def test_the_program_says_what_it_does(command):
    code, out, _ = command("--help")
    assert code == 0
    assert "Train on a graph's links, keep an MLP." in words(out)
    assert "linkdist train digits" in words(out)
    listed = {name for name in COMMANDS if re.search(rf"^\W*{name}\s+\w", out, re.MULTILINE)}
    groups = {group.name for group in cli.app.registered_groups}
    single = {c.callback.__name__ for c in cli.app.registered_commands}
    assert listed == set(COMMANDS) == single | groups


def test_every_option_says_what_it_is_for(command):
    options = {
        "datasets": ["--data", "--json"],
        "train": ["--method", "--setting", "--seed", "--replicas", "--device", "--data", "--json"],
        "reproduce": [
            *("--out", "--datasets", "--settings", "--methods", "--runs", "--seed", "--device"),
            *("--data", "--json"),
        ],
        "report": [],
    }
    for name, expected in options.items():
        _, out, _ = command(name, "--help")
        lines = [re.search(r"(--[a-z]+)(.*)", line) for line in ESCAPE.sub("", out).splitlines()]
        said = {found[1]: found[2] for found in lines if found and found[1] != "--help"}
        assert set(said) >= set(expected)
        assert all(re.search(r"[a-z]{2,}", said[option]) for option in expected)


def options_of(command):
    """Every option of a command and of those below it."""
    for below in getattr(command, "commands", {}).values():
        yield from options_of(below)
    yield from (param for param in command.params if param.param_type_name == "option")


def test_no_option_has_its_own_name_for_a_placeholder():
    """Typer 0.27 writes such an option as the placeholder is written: --STORE."""
    options = list(options_of(typer.main.get_command(cli.app)))
    assert len(options) > 50
    for option in options:
        assert (option.metavar or "").lower() != option.name
        assert all(flag == flag.lower() for flag in option.opts)


def test_training_says_what_its_method_is_by_default(command):
    _, out, _ = command("train", "--help")
    said = words(out.replace("│", " "))
    method, _ = said[said.index("--method") :].split("--setting")
    assert "[default: (selflinkdist; for a --store colinkdist)]" in method


def test_the_script_is_installed():
    (script,) = entry_points(group="console_scripts", name="linkdist")
    assert script.load() is entry.main


# Data sets.


def test_the_named_graphs_are_listed(command, tmp_path):
    raw = tmp_path / "data" / "amazon" / "Photo" / "raw"
    raw.mkdir(parents=True)
    (raw / "amazon_electronics_photo.npz").touch()
    code, out, err = command("datasets", "--json", tmp_path / "list.json")
    assert (code, err) == (0, "")
    rows = json.loads((tmp_path / "list.json").read_text())
    assert [row["name"] for row in rows] == list(DATASETS)
    assert len(rows) == 9
    for row in rows:
        assert re.search(rf"^\W*{row['name']}\W+{row['nodes']}\b", out, re.MULTILINE)
        info = DATASETS[row["name"]]
        counts = (row["nodes"], row["features"], row["classes"], row["edges"])
        assert counts == (info.n, info.d, info.C, info.e)
        assert row["degree"] == round(info.e / info.n, 2)
    files = {row["name"]: row["raw files"] for row in rows}
    assert files.pop("digits") == "embedded"
    assert files.pop("amazon-photo") == str(raw)
    assert files["cora"] == "not at hand; 8 file(s), fetched when first used"
    assert all(text.startswith("not at hand") for text in files.values())


def test_a_folder_given_comes_before_the_surroundings(command, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "cora_full.npz").touch()
    code, _, _ = command("datasets", "--data", own, "--json", tmp_path / "list.json")
    assert code == 0
    rows = json.loads((tmp_path / "list.json").read_text())
    assert {r["name"]: r["raw files"] for r in rows}["cora-full"] == str(own)


# Training.


def test_train_takes_glnns_protocol(command, tmp_path):
    file = tmp_path / "result.json"
    asked = ("train", "digits", "--device", "cpu", "--epochs", "1", "--json", file)
    code, _, _ = command(*asked, "--protocol", "glnn", "--setting", "production")
    assert code == 0
    result = json.loads(file.read_text())
    assert (result["protocol"], result["setting"]) == ("glnn", "production")
    code, _, err = command(*asked, "--protocol", "glnn", "--setting", "inductive")
    assert code == 2
    assert "transductive, production" in err
    code, _, err = command(*asked, "--protocol", "gln")
    assert code == 2
    assert "near: glnn" in err


@pytest.mark.parametrize("method", ["linkdist", "colinkdist", "selflinkdist"])
@pytest.mark.usefixtures("quick")
def test_train_prints_both_modes_beside_a_plain_mlp(command, tmp_path, method):
    code, out, err = command(
        *("train", "digits", "--setting", "full-supervised", "--method", method, "--seed", "3"),
        *("--replicas", "2", "--device", "cpu", "--json", tmp_path / "result.json"),
    )
    assert code == 0
    assert err == ""
    result = json.loads((tmp_path / "result.json").read_text())
    modes = ["plain MLP", f"{method}, from features", f"{method}, with links"]
    assert list(result.pop("scores")) == modes
    assert result.pop("seconds") >= 0
    assert result == {
        **{"dataset": "digits", "setting": "full-supervised", "method": method, "seeds": [3, 4]},
        **{"epochs": 1, "device": "cpu", "precision": "float32", "protocol": "paper"},
    }
    assert "digits, full-supervised, 2 replica(s): accuracy in percent" in out
    rows = [line for line in out.splitlines() if line.startswith("│")]
    assert [re.split(r"\s*│\s*", row)[1] for row in rows] == modes


@pytest.mark.usefixtures("quick")
def test_train_shows_the_scores_that_it_writes(command, tmp_path):
    code, out, _ = command("train", "digits", "--replicas", "2", "--json", tmp_path / "result.json")
    assert code == 0
    scores = json.loads((tmp_path / "result.json").read_text())["scores"]
    for mode, found in scores.items():
        assert len(found["validation"]) == len(found["test"]) == len(found["best_epochs"]) == 2
        # 300 validation nodes and the 94 that 6 training nodes leave for the test.
        for size, part in ((300, "validation"), (94, "test")):
            hits = np.array(found[part]) * size / 100
            np.testing.assert_allclose(hits, hits.round(), atol=1e-3)
        (row,) = (line for line in out.splitlines() if f" {mode} " in line)
        shown = [console.spread(found[part]) for part in ("validation", "test")]
        assert re.split(r"\s*│\s*", row)[2:4] == shown


# Reproducing and reporting.


@pytest.mark.usefixtures("quick")
def test_reproduce_tells_progress_apart_from_results(command, tmp_path):
    args = [
        *("reproduce", "--out", tmp_path / "out", "--datasets", "digits, amazon-photo"),
        *("--settings", "full-supervised", "--methods", "MLP,LinkDistMLP,LinkDist", "--runs", "2"),
        *("--device", "cpu", "--json", tmp_path / "records.json"),
    ]
    code, out, err = command(*args)
    assert code == 0
    records = json.loads((tmp_path / "records.json").read_text())
    assert records == json.loads((tmp_path / "out" / "results.json").read_text())
    assert "\x1b" not in out + err
    assert "\r" not in out + err
    said = err.splitlines()
    assert said[0] == "4 trainings, 0 done already"
    assert re.fullmatch(r"digits full-supervised: MLP [\d.]+ ± [\d.]+ \[[\d.]+ s\]", said[1])
    pair = r"LinkDistMLP [\d.]+ ± [\d.]+, LinkDist [\d.]+ ± [\d.]+"
    assert re.fullmatch(rf"digits full-supervised: {pair} \[[\d.]+ s\]", said[2])
    assert len(said) == 5
    assert "full-supervised: test accuracy (published)" in out
    rows = [re.split(r"\s*│\s*", line) for line in out.splitlines() if line.startswith("│")]
    assert [row[1] for row in rows] == ["MLP", "LinkDistMLP", "LinkDist"]
    for row in rows:
        cells = {r["dataset"]: r for r in records if r["method"] == row[1]}
        assert row[2] == console.spread(cells["digits"]["scores"])
        ours = console.spread(cells["amazon-photo"]["scores"])
        assert row[3] == f"{ours} ({cells['amazon-photo']['published_mean']:.2f})"
    assert out.splitlines()[-1] == f"Report: {tmp_path / 'out' / 'report.html'}"
    assert (tmp_path / "out" / "tables.md").exists()

    _, again, err = command(*args)
    assert again == out
    assert err.splitlines() == ["4 trainings, 4 done already"]


@pytest.mark.usefixtures("quick")
def test_reproduce_says_what_it_leaves_out(command, tmp_path, monkeypatch):
    def load(name, data=None):
        if name != "amazon-photo":
            raise DataError(f"{name} could not be [had].")
        return tiny(name)

    monkeypatch.setattr(run, "load", load)
    code, _, err = command(
        *("reproduce", "--out", tmp_path / "out", "--settings", "full-supervised"),
        *("--methods", "MLP", "--runs", "1"),
    )
    assert code == 0
    assert "cora is left out: cora could not be [had]." in err.splitlines()
    assert len(err.splitlines()) == 7 + 2


def test_report_writes_a_page_and_tables(command, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps([RECORD]))
    code, out, err = command("report", tmp_path)
    assert (code, err) == (0, "")
    assert out.splitlines() == [str(tmp_path / "report.html"), str(tmp_path / "tables.md")]
    assert "90.00" in (tmp_path / "report.html").read_text("utf-8")
    assert "90.00" in (tmp_path / "tables.md").read_text("utf-8")


# What is refused.

REFUSED = {
    "unknown set": ("train coral", r"unknown data set 'coral' \(near: cora"),
    "unknown method": ("train digits --method linkdis", r"'linkdis' \(near: linkdist"),
    "unknown setting": ("train digits --setting inductiv", r"'inductiv' \(near: inductive"),
    "unknown device": ("train digits --device gpu", "known are auto, cpu, cuda"),
    "no replicas": ("train digits --replicas 0", "--replicas must be 1 or more.* found 0"),
    "negative seed": ("train digits --seed -1", "--seed must be 0 or more, .* found -1 and 1"),
    "seed too large": ("train digits --seed 4294967296", r"--seed .* at most 2\*\*32; found"),
    "seeds too large": ("train digits --seed 4294967295 --replicas 2", "with --replicas added"),
    "unwritable json": ("train digits --json {tmp}/no/x.json", r"--json|x\.json cannot"),
    "unknown sets": ("reproduce --out {out} --datasets coral,pubme", r"'coral' .*'pubme' \(near:"),
    "unknown methods": ("reproduce --out {out} --methods gcm", r"'gcm' \(near: GCN"),
    "unknown settings": ("reproduce --out {out} --settings all", "unknown setting 'all'; known"),
    "unknown device for cells": ("reproduce --out {out} --device tpu", "unknown device 'tpu'"),
    "no runs": ("reproduce --out {out} --runs 0", "--runs must be 1 or more; found 0"),
    "negative first seed": (
        "reproduce --out {out} --seed -1",
        "--seed must be 0 or more, .* found -1",
    ),
    "a file for a folder": (
        "reproduce --out {tmp}/file --datasets digits",
        "--out must be a folder that can be written",
    ),
    "a folder below a file": (
        "reproduce --out {tmp}/file/out --datasets digits",
        "--out must be a folder that can be written",
    ),
    "no results": ("report {tmp}", r"results\.json cannot be read: No such file"),
    "no folder": ("report {out}", r"results\.json cannot be read: No such file"),
    "list that cannot be written": ("datasets --json {tmp}/no/x.json", "x.json cannot be written"),
}


def refused(result, message):
    code, _, err = result
    assert code == 2
    assert re.search(message, err)
    assert err.startswith("linkdist: ")
    assert len(err.splitlines()) <= 2
    assert "Traceback" not in err
    assert "\x1b" not in err


@pytest.mark.parametrize(("line", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.usefixtures("quick")
def test_mistakes_are_told_in_plain_words(command, tmp_path, line, message):
    (tmp_path / "file").write_text("in the way")
    filled = line.format(tmp=tmp_path, out=tmp_path / "out")
    refused(command(*filled.split()), message)
    assert not (tmp_path / "out").exists()


@NO_GPU
@pytest.mark.parametrize("line", ["train digits", "reproduce --out {out}"])
def test_a_gpu_that_is_not_there_is_told_of(command, tmp_path, line):
    args = line.format(out=tmp_path / "out").split()
    refused(command(*args, "--device", "cuda"), "no CUDA device was found; use --device cpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ["train cora", "reproduce --out {out} --datasets digits,cora"])
def test_raw_files_that_cannot_be_had_are_told_of(command, tmp_path, line):
    result = command(*line.format(out=tmp_path / "out").split())
    refused(result, r"cora could not be downloaded from https://\S+ \(.*no way out")
    assert "put ind.cora.x" in result[2]
    assert "--data DIR or LINKDIST_DATA" in result[2]
    assert not (tmp_path / "out").exists()


def test_a_raw_file_that_was_cut_off_is_told_of(command, tmp_path):
    path = tmp_path / "data" / "ms_academic_cs.npz"
    np.savez_compressed(path, labels=np.arange(9000))
    path.write_bytes(path.read_bytes()[:1000])
    refused(command("train", "coauthor-cs"), rf"{re.escape(str(path))} is foreign or damaged")


@pytest.mark.parametrize(
    "line",
    ["reproduce", "reproduce --out x --runs few", "predict", "train digits --speed 3", "learn"],
)
def test_a_line_that_cannot_be_read_is_told_of(command, line):
    code, out, err = command(*line.split())
    assert (code, out) == (2, "")
    assert ESCAPE.sub("", err).startswith("Usage: ")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "line",
    [
        *("train digits --method linkdis", "train digits --setting inductiv"),
        *("train digits --json {tmp}/no/x.json", "train digits --json {tmp}"),
        "reproduce --out {tmp}/out --datasets digits --json {tmp}/no/x.json",
    ],
)
@pytest.mark.usefixtures("quick")
def test_mistakes_are_told_before_anything_is_trained(command, tmp_path, monkeypatch, line):
    def fail(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr(cli, "train_plain_mlp", fail)
    monkeypatch.setattr(run, "run_task", fail)
    code, _, _ = command(*line.format(tmp=tmp_path).split())
    assert code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", ["new/out/records.json", "new/records.json"])
@pytest.mark.usefixtures("quick")
def test_json_may_go_into_a_folder_that_is_made(command, tmp_path, file):
    code, _, _ = command(
        *("reproduce", "--out", tmp_path / "new" / "out", "--datasets", "digits", "--runs", "1"),
        *("--settings", "full-supervised", "--methods", "MLP", "--json", tmp_path / file),
    )
    assert code == 0
    assert len(json.loads((tmp_path / file).read_text())) == 1


@pytest.mark.parametrize("option", ["--datasets", "--settings", "--methods"])
@pytest.mark.usefixtures("quick")
def test_an_empty_list_is_refused_by_its_name(command, tmp_path, option):
    args = ["reproduce", "--out", tmp_path / "out", "--datasets", "digits", option, ","]
    refused(command(*args), option)


def test_debug_shows_where(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["linkdist", "--debug", "train", "coral"])
    with pytest.raises(OptionError, match="coral"):
        cli.main()


def break_report(monkeypatch, error):
    def fail(directory):
        raise error

    monkeypatch.setattr(cli, "write_report", fail)


def test_an_unexpected_error_asks_for_a_report(command, monkeypatch):
    break_report(monkeypatch, ZeroDivisionError("by nothing"))
    code, out, err = command("report", ".")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "linkdist: unexpected ZeroDivisionError: by nothing",
        "linkdist: 'linkdist --debug ...' shows where; please report it.",
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


@pytest.mark.usefixtures("quick")
def test_a_stream_without_the_characters_is_written_to(command, monkeypatch):
    out, err = (TextIOWrapper(BytesIO(), encoding="ascii", newline="\n") for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    code, _, _ = command("train", "digits", "--replicas", "2")
    out.flush()
    assert code == 0
    assert re.search(rb"plain MLP +\| [\d.]+ \? [\d.]+ ", out.buffer.getvalue())


# As a process of its own.


def test_a_process_lists_into_a_pipe():
    done = start("datasets")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(name in done.stdout for name in DATASETS)
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= console.LOG_WIDTH


def test_a_process_refuses_without_a_traceback(tmp_path):
    done = start("report", tmp_path)
    refused((done.returncode, done.stdout, done.stderr), "cannot be read")


# Tables.


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        ([81.5], "81.50"),
        ([80.0, 82.0], "81.00 ± 1.41"),
        ((70, 70, 70), "70.00 ± 0.00"),
        (np.array([1.0, 2.0, 3.0, 4.0]), "2.50 ± 1.29"),
        ([99.995, 99.995], "100.00 ± 0.00"),
    ],
)
def test_spread_is_mean_and_sample_deviation(scores, text):
    assert console.spread(scores) == text


def test_a_table_in_a_log_has_its_own_width(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    console.print_table("Title", [{"name": "a", "long": "x" * 500}, {"name": "b", "more": 1.5}])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "Title"
    assert {len(line) for line in lines[1:]} == {console.LOG_WIDTH}
    text = "".join(lines)
    assert text.count("x") == 500
    assert "…" not in text
    assert "\x1b" not in text
    rows = [re.split(r"\s*│\s*", line) for line in lines if line.startswith("│")]
    assert rows[-1] == ["", "b", "", "1.5", ""]


def test_a_narrow_table_stays_narrow(capsys):
    console.print_table("T", [{"a": 1, "b": 22}])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "┏━━━┳━━━━┓",
        "┃ a ┃  b ┃",
        "┡━━━╇━━━━┩",
        "│ 1 │ 22 │",
        "└───┴────┘",
    ]


def test_a_table_on_a_terminal_fits_it(monkeypatch):
    class Terminal(StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    console.print_table("Title", [{"name": "a", "long": "x" * 100}])
    lines = [ESCAPE.sub("", line) for line in screen.getvalue().splitlines()]
    assert max(map(len, lines)) == 40
    assert "".join(lines).count("x") == 100


def test_a_table_shows_text_as_it_is(capsys):
    console.print_table("a [title]", [{"a [column]": "/data/[old]/:smile:"}])
    out = capsys.readouterr().out
    assert "a [title]" in out
    assert "a [column]" in out
    assert "/data/[old]/:smile:" in out


def test_bars_say_nothing_in_a_log_but_when_a_training_ends(capsys):
    with console.Bars() as bars:
        bars.start(3, 1)
        bars.stage("digits transductive MLP")
        for epoch in range(200):
            bars.progress(epoch + 1, 200)
        bars.finished([{**RECORD, "scores": [80.0, 82.0]}])
        bars.skipped("cora", "no [file]")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "3 trainings, 1 done already",
        "digits inductive: MLP 81.00 ± 1.41 [1.0 s]",
        "cora is left out: no [file]",
    ]
