"""What a person sees: tables on standard output, progress on standard error.

Bars on a terminal; in a log, a plain line whenever a training ends.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from linkdist.progress import Callback, TimeLeft, format_duration
from linkdist.tables.schema import Guess

LOG_WIDTH = 220
"""Columns of a table that does not go to a terminal."""


def _console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else LOG_WIDTH
    # Names and paths are shown as they are, brackets and colons too.
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table; their keys are the columns."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*[str(row.get(column, "")) for column in columns])
    _console().print(table)


def note(text: str) -> None:
    """Print a line as it is."""
    print(text)


def spread(scores: npt.ArrayLike) -> str:
    """Mean and, for more than one, sample standard deviation.

    Examples
    --------
    >>> spread([80.0, 82.0]), spread([81.5])
    ('81.00 ± 1.41', '81.50')
    """
    values = np.asarray(scores)
    mean = f"{values.mean():.2f}"
    return f"{mean} ± {values.std(ddof=1):.2f}" if values.size > 1 else mean


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"{format_duration(seconds)} left"


class _Live:
    """Bars on standard error, shown inside a `with`."""

    def __init__(self) -> None:
        self.console = _console(stderr=True)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> Self:
        """Show the bars."""
        self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take them away."""
        self.bars.stop()

    def _say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)


class Stages(_Live, Callback):
    """A bar for the stage that is going on; what was found is said in lines."""

    def __init__(self) -> None:
        super().__init__()
        self.bar, self.left = self.bars.add_task("", visible=False, left=""), TimeLeft()

    def stage(self, name: str) -> None:
        """Say what begins."""
        self.bars.reset(self.bar, description=name, visible=True, left="")
        self.left = TimeLeft()

    def progress(self, done: int, total: int) -> None:
        """Show how much of the stage is done, and how long the rest may take."""
        left = _left(self.left.seconds(done, total))
        self.bars.update(self.bar, completed=done, total=total or None, left=left)

    def columns(self, guesses: Mapping[str, Guess]) -> None:
        """Show what the columns were taken for."""
        for name, found in guesses.items():
            kind = found.kind or "left out"
            self._say(f"column {name}: {kind} ({found.why})")

    def links(self, report: object) -> None:
        """Say what became of the links."""
        self._say(str(report))

    def note(self, text: str) -> None:
        """Say it."""
        self._say(text)


class Bars(_Live, Callback):
    """A bar for the trainings, where there are several, and one for the epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.all_cells = self.bars.add_task("trainings", visible=False, left="")
        self.epochs, self.left = self.bars.add_task("", visible=False, left=""), TimeLeft()

    def start(self, total: int, done: int) -> None:
        """Say how many trainings there are and how many are done already."""
        self.bars.update(self.all_cells, total=total, completed=done, visible=True)
        self._say(f"{total} trainings, {done} done already")

    def stage(self, name: str) -> None:
        """Say that a training begins."""
        self.bars.reset(self.epochs, description=name, visible=True, left="")
        self.left = TimeLeft()

    def progress(self, done: int, total: int) -> None:
        """Show how much of the training is done, and how long the rest may take."""
        left = _left(self.left.seconds(done, total))
        self.bars.update(self.epochs, completed=done, total=total, left=left)

    def finished(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Say that a training ended, with its records."""
        self.bars.advance(self.all_cells)
        first = records[0]
        scores = ", ".join(f"{r['method']} {spread(r['scores'])}" for r in records)
        self._say(f"{first['dataset']} {first['setting']}: {scores} [{first['seconds']:.1f} s]")

    def skipped(self, name: str, reason: str) -> None:
        """Say that a data set is left out."""
        self._say(f"{name} is left out: {reason}")
