"""The log of a training by Ray workers: what they report, and what the command shows of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from linkdist.progress import Callback

POLL = 0.5
"""Seconds between two queries of the progress of the workers."""


class Log:
    """An actor that writes a log file, and knows the progress and the result of the workers.

    Parameters
    ----------
    path : str
        The file.
    unit : str
        What the checkpoint of the training counts, in the singular.

    Attributes
    ----------
    problem : str or None
        A problem that other workers would find as well.
    result : object
        What the first worker returns, once the training is finished.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     log = Log(f"{folder}/log", "round")
    ...     log.begin(2, "round 0 of 24")
    ...     log.stage("training")
    ...     log.progress(3, 24)
    ...     log.news(0)
    (['training'], (3, 24))
    """

    def __init__(self, path: str, unit: str) -> None:
        self.path, self.unit = path, unit
        self.stages: list[str] = []
        self.steps = (0, 0)
        self.begun = False
        self.problem: str | None = None
        self.result: Any = None

    def get(self, what: str) -> Any:  # noqa: ANN401
        """An attribute: the users of an actor only see its methods."""
        return getattr(self, what)

    def news(self, known: int) -> tuple[list[str], tuple[int, int]]:
        """The stages after the first `known` ones, and the finished steps of the last stage."""
        return self.stages[known:], self.steps

    def begin(self, workers: int, place: str) -> None:
        """Record that workers start, for the first time or again, at a place such as 'round 3'."""
        if self.begun:
            self.write(f"a worker or a machine was lost {self._place()}")
        self.begun = True
        who = "1 worker begins" if workers == 1 else f"{workers} workers begin"
        self.write(f"{who} at {place}")

    def stage(self, name: str) -> None:
        """Record that a stage starts."""
        self.stages.append(name)
        self.steps = (0, 0)
        self.write(f"stage: {name}")

    def progress(self, done: int, total: int) -> None:
        """Record the number of finished steps of the stage."""
        self.steps = (done, total)

    def give_up(self, problem: str) -> None:
        """Record a problem; several workers may find the same one."""
        if self.problem is None:
            self.write(problem)
            self.problem = problem

    def finish(self, result: object) -> None:
        """Receive the result."""
        self.result = result
        self.write(f"all {self.steps[1]} {self.unit}s are trained")

    def write(self, what: str) -> None:
        """Write a line."""
        with Path(self.path).open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now().astimezone().isoformat(timespec='seconds')} {what}\n")

    def _place(self) -> str:
        if not self.stages:
            return "before the first stage"
        done, total = self.steps
        if self.stages[-1] == "training":
            return f"after {self.unit} {done}"
        steps = f", after {done} of {total} steps" if total else ""
        return f"in the stage '{self.stages[-1]}'{steps}"


class LogCallback(Callback):
    """Passes the progress of a worker to the log.

    Parameters
    ----------
    log : actor
        A `Log`.
    """

    def __init__(self, log: Any) -> None:  # noqa: ANN401
        self.log = log

    def stage(self, name: str) -> None:
        """A stage starts."""
        self.log.stage.remote(name)

    def progress(self, done: int, total: int) -> None:
        """The stage has finished `done` of `total` steps."""
        self.log.progress.remote(done, total)

    def note(self, text: str) -> None:
        """A message for the user."""
        self.log.write.remote(text)


def start_log(ray: Any, path: str, unit: str) -> Any:  # noqa: ANN401
    """The log, on the machine of the command, which runs as long as the training."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(Log).remote(path, unit)


@contextmanager
def followed(ray: Any, log: Any, callback: Callback) -> Iterator[None]:  # noqa: ANN401
    """Report the stages and the progress of the workers to a callback while they train."""
    over, known = Event(), 0

    def report() -> None:
        nonlocal known
        with suppress(ray.exceptions.RayError):  # the training reports the error
            stages, (done, total) = ray.get(log.news.remote(known))
            known += len(stages)
            for name in stages:
                callback.stage(name)
            if total:
                callback.progress(done, total)

    def poll() -> None:
        while not over.wait(POLL):
            report()
        report()

    thread = Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
