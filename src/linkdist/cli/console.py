"""What the program prints: tables on standard output, progress on standard error.

On a terminal, progress is shown as bars. In a log, each finished training is a plain line.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from linkdist.progress import Callback, TimeLeft, format_duration

LOG_WIDTH = 220
"""Width in characters of a table that is not printed to a terminal."""


def _console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else LOG_WIDTH
    # Brackets and colons in names and paths are not markup.
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table, with a column for each key."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*[str(row.get(column, "")) for column in columns])
    _console().print(table)


def note(text: str) -> None:
    """Print a line to standard output."""
    print(text)


def spread(scores: Sequence[float]) -> str:
    """Return the mean and, for several scores, the sample standard deviation.

    Examples
    --------
    >>> spread([80.0, 82.0]), spread([81.5])
    ('81.00 ± 1.41', '81.50')
    """
    mean = f"{statistics.fmean(scores):.2f}"
    return f"{mean} ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else mean


class Bars(Callback):
    """Shows progress on standard error inside a `with` block.

    On a terminal, there is one bar for the current stage and, if there are several trainings, one
    for all of them. In a log, a line says every 30 seconds how far the stage is. Everything else is
    printed as a line.

    Parameters
    ----------
    quiet : bool
        Whether to print warnings only.
    kept : callable, optional
        Returns what an interruption leaves and how to continue, for the user.
    """

    EVERY = 30.0
    """Number of seconds between two lines of a log."""

    def __init__(self, quiet: bool = False, kept: Callable[[], str] | None = None) -> None:
        self._quiet, self._kept = quiet, kept
        self._console = _console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            transient=True,
            disable=quiet or not self._console.is_terminal,
        )
        self._trainings = self._bars.add_task("trainings", visible=False, left="")
        self._stage, self._left = self._bars.add_task("", visible=False, left=""), TimeLeft()
        self._name, self._logged = "", time.monotonic()

    def __enter__(self) -> Self:
        """Show the bars."""
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the bars; after an interruption, say what is kept."""
        self._bars.stop()
        if kind is KeyboardInterrupt and self._kept is not None:
            self._console.print(self._kept(), soft_wrap=True)

    def start(self, total: int, done: int) -> None:
        """Show how many trainings there are and how many of them are done."""
        self._bars.update(self._trainings, total=total, completed=done, visible=True)
        self.note(f"{total} trainings, {done} done already")

    def stage(self, name: str) -> None:
        """Start the bar of a stage."""
        self._bars.reset(self._stage, description=name, visible=True, left="")
        self._left = TimeLeft()
        self._name, self._logged = name, time.monotonic()

    def progress(self, done: int, total: int) -> None:
        """Show how much of the stage is done, and how long the rest may take."""
        seconds = self._left.seconds(done, total)
        left = "" if seconds is None else f"{format_duration(seconds)} left"
        self._bars.update(self._stage, completed=done, total=total or None, left=left)
        late = time.monotonic() - self._logged >= self.EVERY
        if self._bars.disable and late and done != total:
            self._logged = time.monotonic()
            share = f"{done / total:.0%}" if total else f"{done} rows"
            self.note(", ".join(filter(None, [f"{self._name}: {share}", left])))

    def columns(self, guesses: Mapping[str, Any]) -> None:
        """Print the kinds that were inferred for the columns."""
        for name, guess in guesses.items():
            self.note(f"column {name}: {guess.kind or 'left out'} ({guess.why})")

    def summary(self, summary: object) -> None:
        """Print what was understood of the tables."""
        for line in str(summary).splitlines():
            self.note(line)

    def links(self, report: object) -> None:
        """Print the summary of the link table."""
        self.note(str(report))

    def finished(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Print the scores of a training."""
        self._bars.advance(self._trainings)
        first = records[0]
        scores = ", ".join(f"{r['method']} {spread(r['scores'])}" for r in records)
        self.note(f"{first['dataset']} {first['setting']}: {scores} [{first['seconds']:.1f} s]")

    def skipped(self, name: str, reason: str) -> None:
        """Print which data set is left out, and why."""
        self.note(f"{name} is left out: {reason}")

    def note(self, text: str) -> None:
        """Print a line, without breaking it at the width of the terminal."""
        if not self._quiet or text.startswith("Warning"):
            self._console.print(text, soft_wrap=True)
