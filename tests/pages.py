"""Run a Markdown page as a reader would, and compare what it shows with what is printed.

A line that starts with '$ ' in a `console` block is a command, and the lines below it are its
output. A `python` block is an example, and a `text` block right after it is its output. '...' on a
line of its own stands for any lines, within a line for any characters. Numbers are compared to a
tolerance, because another machine rounds differently, and seconds not at all.
"""

import contextlib
import io
import math
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])(?: s\b)?")
ABSOLUTE, RELATIVE = 3.0, 0.1


@dataclass(frozen=True)
class Step:
    """A command or an example, and the output that the page shows for it, if any."""

    language: str
    source: str
    shown: str


def blocks(text, *languages):
    """The code blocks of some languages: pairs of language and content."""
    found = re.findall(r"^```(\w+)\n(.*?)^```", text, flags=re.S | re.M)
    return [(language, body) for language, body in found if language in languages]


def steps(text):
    """What a page runs, in order."""
    found = []
    for language, body in blocks(text, "console", "python", "text"):
        if language == "console":
            for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
                command, _, shown = part.partition("\n")
                found.append(Step(language, command, shown))
        elif language == "python":
            found.append(Step(language, body, ""))
        elif found and found[-1].language == "python" and not found[-1].shown:
            found[-1] = Step("python", found[-1].source, body)
    return found


@dataclass
class Trained:
    """Outputs and model directories of training commands that several pages show."""

    folder: Path
    printed: dict = field(default_factory=dict)


def check(page, folder, trained, left_out=()):
    """Steps of a page that print something else than it shows, each with what differs.

    They run in the current folder, which must be `folder` and contain a copy of examples/.
    """
    found = {}
    for step in steps(page.read_text()):
        if step.source in left_out:
            continue
        printed = run(step, folder, trained)
        if step.shown and (missing := differences(step.shown, printed)):
            found[step.source] = (missing, printed)
    return found


def run(step, folder, trained):
    """What a step prints; trains once for all pages what they all train."""
    if step.language == "python":
        return python(step.source)
    arguments = shlex.split(step.source)[1:]
    if not step.source.startswith("linkdist train ") or "--store" in arguments:
        return shell(step.source, folder)
    model = folder / arguments[arguments.index("--out") + 1]
    kept = trained.folder / str(abs(hash(step.source)))
    if step.source not in trained.printed:
        trained.printed[step.source] = command(arguments)
        shutil.copytree(model, kept)
    elif not model.exists():
        shutil.copytree(kept, model)
    return trained.printed[step.source]


def shell(source, folder):
    """What a command line prints: one of this program, 'head', or a Python script."""
    program, *arguments = shlex.split(source)
    if program == "head":
        lines = int(arguments[0].removeprefix("-"))
        return "".join((folder / arguments[1]).read_text().splitlines(keepends=True)[:lines])
    if program == "python":
        asked = [sys.executable, *arguments]
        return subprocess.run(
            asked, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    assert program == "linkdist", source
    return command(arguments)


def python(source):
    """What an example prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "<page>", "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def command(arguments):
    """What the command line prints, in this process; it must succeed."""
    from linkdist.cli.console import Bars
    from linkdist.cli.main import main

    printed, before = io.StringIO(), sys.argv
    sys.argv = ["linkdist", *arguments]
    # A page does not show the lines that tell how far a slow machine is.
    patience = mock.patch.object(Bars, "EVERY", math.inf)
    try:
        with patience, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    assert code == 0, f"{arguments}\n{printed.getvalue()}"
    return printed.getvalue()


def differences(shown, printed):
    """Lines that a page shows and that were not printed, in order; empty where all were."""
    wanted, there = _lines(shown), _lines(printed)
    place, any_lines, missing = 0, False, []
    for line in wanted:
        if line == "...":
            any_lines = True
            continue
        last = len(there) if any_lines else min(place + 1, len(there))
        match = next((i for i in range(place, last) if same(line, there[i])), None)
        if match is None:
            missing.append(line)
            continue
        place, any_lines = match + 1, False
    if wanted and not any_lines and not missing and place < len(there):
        missing.append(f"(also printed: {there[place]})")
    return missing


def same(shown, printed):
    """Whether two lines agree: the text exactly, numbers to a tolerance.

    Examples
    --------
    >>> same("accuracy 63.0 in 12.1 s, model ...", "accuracy 62.0 in 3.4 s, model papers")
    True
    >>> same("accuracy 63.0", "accuracy 40.0"), same("3 links", "3 rows")
    (False, False)
    """
    pattern = "".join(
        ".*" if part == "..." else re.escape(part)
        for part in re.split(r"(\.\.\.)", NUMBER.sub("\0", shown))
    )
    if re.fullmatch(pattern, NUMBER.sub("\0", printed)) is None:
        return False
    if "..." in shown:
        return True
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(_near(a, b) for a, b in pairs)


def _near(shown, printed):
    if shown.endswith(" s"):
        return True
    a, b = float(shown), float(printed)
    return abs(a - b) <= max(ABSOLUTE, RELATIVE * abs(a))


def _lines(text):
    """Lines without trailing spaces; runs of spaces and of a table's rules count once."""
    lines = [re.sub(r"([ ━─])\1+", r"\1", line.rstrip()) for line in text.splitlines()]
    return [line for line in lines if line]
