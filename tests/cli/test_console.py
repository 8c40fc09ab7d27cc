"""Tables and progress as the program prints them."""

from __future__ import annotations

import re
import sys
from io import StringIO

import numpy as np
import pytest

from linkdist.cli import console
from tests.cli.common import ESCAPE, RECORD


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


def test_bars_log_a_line_every_half_minute_without_a_terminal(capsys, monkeypatch):
    now = iter([0.0, 0.0, 10.0, 31.0, 40.0, 62.0, 62.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(now, 100.0))
    monkeypatch.setattr(console.TimeLeft, "seconds", lambda *_: 90.0)
    bars = console.Bars()
    bars.stage("training")
    bars.progress(1, 10)
    bars.progress(2, 10)
    bars.progress(10, 10)
    assert capsys.readouterr().err == "training: 20%, 1 min 30 s left\n"


def test_quiet_bars_print_warnings_only(capsys):
    with console.Bars(quiet=True) as bars:
        bars.stage("training")
        bars.note("12 links from 12 rows.")
        bars.note("Warning: column 'unit' is constant.")
    assert capsys.readouterr().err == "Warning: column 'unit' is constant.\n"


def test_an_interruption_says_what_is_kept(capsys):
    with pytest.raises(KeyboardInterrupt), console.Bars(kept=lambda: "Continue with: x --resume"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "Continue with: x --resume\n"
