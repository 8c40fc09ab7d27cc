"""How long-running work reports its progress.

Training, prediction and building a store take a `Callback` and call its methods. Nothing in the
package prints; the command line passes a callback that draws progress bars. This module imports
nothing but the standard library, so any layer may use it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""A function that receives the number of steps done and the total; a total of 0 is unknown."""


class Callback:
    """Receives the events of a long-running task; every method does nothing by default.

    Override the methods of interest in a subclass.

    Examples
    --------
    >>> class Print(Callback):
    ...     def stage(self, name):
    ...         print(name)
    >>> Print().stage("training")
    training
    """

    def start(self, total: int, done: int) -> None:
        """A run of several trainings starts; `done` of them were finished by an earlier run."""

    def stage(self, name: str) -> None:
        """A stage, such as 'reading nodes' or 'training', starts."""

    def progress(self, done: int, total: int) -> None:
        """The current stage has finished `done` of `total` steps; a total of 0 is unknown."""

    def columns(self, guesses: Mapping[str, Any]) -> None:
        """The kind of each column was inferred; the values are `linkdist.tables.schema.Guess`."""

    def summary(self, summary: object) -> None:
        """The tables were read; `summary` is a `linkdist.tables.summary.Summary`."""

    def links(self, report: object) -> None:
        """The links were read; `report` is a `linkdist.tables.links.LinkReport`."""

    def finished(self, records: Sequence[Mapping[str, Any]]) -> None:
        """One of several trainings ended with these result records."""

    def skipped(self, name: str, reason: str) -> None:
        """A data set is left out."""

    def note(self, text: str) -> None:
        """A message or warning for the user."""


SCALE = 1000
"""The total of work that consists of several parts."""


def part_of(progress: Progress | None, start: float, end: float) -> Progress:
    """Progress of a part of the work, reported as progress of the whole work.

    Parameters
    ----------
    progress : callable, optional
        Receives the progress of the whole work, out of `SCALE`.
    start, end : float
        Where the part starts and ends in the whole work, from 0 to 1.

    Examples
    --------
    >>> half = part_of(lambda done, total: print(done, "of", total), 0.5, 1.0)
    >>> half(1, 4)
    625 of 1000
    """

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(round(SCALE * (start + (end - start) * done / max(total, 1))), SCALE)

    return report


class TimeLeft:
    """Estimates how long a stage will still take from the speed so far.

    Create one object for each stage. Steps that were done before the first call, by a run that was
    interrupted, do not count towards the speed.

    Parameters
    ----------
    clock : callable, optional
        Returns the time in seconds.

    Examples
    --------
    >>> times = iter([0.0, 10.0])
    >>> left = TimeLeft(clock=lambda: next(times))
    >>> left.seconds(50, 100), left.seconds(60, 100)
    (None, 40.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[int, float] | None = None

    def seconds(self, done: int, total: int) -> float | None:
        """Estimated number of seconds until `done` reaches `total`; None while it is unknown."""
        now = self._clock()
        if self._first is None:
            self._first = (done, now)
        steps, elapsed = done - self._first[0], now - self._first[1]
        if not total or steps <= 0:
            return None
        return max(0, total - done) * elapsed / steps


def format_duration(seconds: float) -> str:
    """A duration as a short text.

    Examples
    --------
    >>> format_duration(7.4), format_duration(200), format_duration(7300)
    ('7 s', '3 min 20 s', '2 h 1 min')
    """
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if whole < 60:
        return f"{whole} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
