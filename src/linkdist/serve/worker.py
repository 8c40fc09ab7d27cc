"""The program of a worker process: computes tables, large requests and explanations one by one.

A hostile table can be a few bytes that grow to gigabytes, or work without end. A worker therefore
is a process of its own, which has limits on memory and file size, and which the service can kill.
It runs with low priority, so that small requests are answered first.

The service writes a task to standard input as a line of JSON, or 'cancel'. The worker answers on
standard output with lines of JSON: sizes of the answer so far, and at the end the outcome::

    {"size": 65536}
    {"done": {"features": 1200}}            predicted rows by mode
    {"refused": [422, "...", {}]}           status, sentence, problems of single columns
    {"failed": "Traceback ..."}             a bug

A worker ends when its input does, that is, with the service.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from linkdist.errors import LinkDistError
from linkdist.serve.answers import answer, check_values
from linkdist.serve.compute import compute
from linkdist.serve.errors import RefusedError, no_space
from linkdist.serve.explanations import explain_request
from linkdist.serve.served_model import ServedModel
from linkdist.serve.table_prediction import TablePrediction, Upload
from linkdist.tables.certainty import Caution

CANCEL = b"cancel\n"

REPLACED = "the model directory holds another model than the one that is served"

NICE = 10
"""How much lower the priority of a worker is than that of the service."""

Report = Callable[[dict[str, Any]], None]


class CancelledError(Exception):
    """The service no longer wants the answer."""


class Counts:
    """Counts predicted rows in place of `Metrics`, and refuses too many of them."""

    def __init__(self, max_rows: int) -> None:
        self.max_rows, self.rows = max_rows, Counter[str]()

    def predicted(self, mode: str, rows: int) -> None:
        """Count rows that were predicted."""
        self.rows[mode] += rows
        self.check(self.rows.total())

    def check(self, rows: int | None) -> None:
        """Refuse a table with too many rows; None if their number is not known yet."""
        if rows is not None and rows > self.max_rows:
            rule = f"a table may have {self.max_rows:,} rows"
            raise RefusedError(413, f"{rule}; found {rows:,} or more. Send several tables.")


class Worker:
    """Computes tasks.

    Parameters
    ----------
    report : callable
        Sends a message to the service.
    memory : int
        Bytes that a task may use.
    """

    def __init__(self, report: Report, memory: int) -> None:
        self.report, self.memory = report, memory
        self.cancelled = threading.Event()
        self._engine: ServedModel | None = None

    def run(self, task: dict[str, Any]) -> None:
        """Compute a task and report the outcome."""
        try:
            engine = self._load(Path(task["model"]), task["version"])
            with Path(task["out"]).open("wb", buffering=0) as out:
                counts = getattr(self, f"_{task['kind']}")(task, engine, out)
            self.report({"done": counts})
        except CancelledError:
            self.report({"refused": [503, "the request was cancelled.", {}]})
        except Exception as error:
            self._report_error(error)

    def _load(self, directory: Path, version: str) -> ServedModel:
        """Return the model of the service, which may be newer than the last task's."""
        if self._engine is None or self._engine.header.version != version:
            resource.setrlimit(resource.RLIMIT_AS, _unlimited(resource.RLIMIT_AS))
            try:
                self._engine = ServedModel(directory)
            except (LinkDistError, OSError) as error:
                raise RefusedError(503, f"{REPLACED}: {error}") from error
            if self._engine.header.version != version:
                raise RefusedError(503, f"{REPLACED}. Try again in a second.")
        _limit_memory(self.memory)
        return self._engine

    def _rows(self, task: dict[str, Any], engine: ServedModel, out: IO[bytes]) -> dict[str, int]:
        """Answer a JSON request."""
        rows = engine.schema.read(Path(task["path"]).read_bytes(), task["rows"])
        check_values(engine, rows.rows, task["values"])
        (p,) = compute(engine, [rows])
        if isinstance(p, Exception):
            raise p
        columns = engine.columns.cautious(Caution(*task["caution"]))
        content, with_links = answer(engine, rows, p, columns)
        self._write(out, iter([content]))
        return {"links": with_links, "features": rows.rows - with_links}

    def _explain(self, task: dict[str, Any], engine: ServedModel, out: IO[bytes]) -> dict[str, int]:
        """Explain the rows of a JSON request."""
        body = Path(task["path"]).read_bytes()
        self._write(out, iter([explain_request(engine, body, task["rows"], task["labels"])]))
        return {}

    def _table(self, task: dict[str, Any], engine: ServedModel, out: IO[bytes]) -> dict[str, int]:
        """Predict a table."""
        counts = Counts(task["rows"])
        links = [Upload(Path(path), name) for path, name in task["links"]]
        nodes = Upload(Path(task["path"]), task["name"])
        columns = engine.columns.cautious(Caution(*task["caution"]))
        table = TablePrediction(nodes, links, engine, counts, columns)
        counts.check(table.table.rows)
        self._write(out, table.lines() if task["lines"] else table.parts())
        return counts.rows

    def _write(self, out: IO[bytes], parts: Iterator[bytes]) -> None:
        size = 0
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[out.write(rest) :]
            size += len(part)
            self.report({"size": size})
            if self.cancelled.is_set():
                raise CancelledError

    def _report_error(self, error: Exception) -> None:
        if any(isinstance(one, MemoryError) or "bad_alloc" in str(one) for one in _causes(error)):
            memory = f"{self.memory >> 20:,} MiB"
            text = f"the request needs more than {memory} of memory. Send fewer rows at once."
            self.report({"refused": [413, text, {}]})
            os._exit(0)  # what is left of the memory is in pieces
        if isinstance(error, OSError):
            error = no_space(error)
        if isinstance(error, RefusedError):
            self.report({"refused": [error.status, error.error, error.columns]})
        else:
            self.report({"failed": "".join(traceback.format_exception(error))})


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _unlimited(limit: int) -> tuple[int, int]:
    most = resource.getrlimit(limit)[1]
    return most, most


def _limit_memory(memory: int) -> None:
    """Limit the address space to what is used now and so many bytes more."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # not Linux
        return
    limit = pages * resource.getpagesize() + memory
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _listen(tasks: queue.Queue[dict[str, Any]], cancelled: threading.Event) -> None:
    """Receive tasks; end the process when the service has ended."""
    for line in sys.stdin.buffer:
        if line == CANCEL:
            cancelled.set()
        else:
            tasks.put(json.loads(line))
    os._exit(0)


def main() -> None:
    """Compute the tasks of standard input until it ends."""
    memory, largest = map(int, sys.argv[1:])
    messages = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints is no message
    with contextlib.suppress(OSError):  # some sandboxes do not allow it
        os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    with contextlib.suppress(OSError):  # if the machine has no memory left, this process ends first
        Path("/proc/self/oom_score_adj").write_text("800")
    tasks: queue.Queue[dict[str, Any]] = queue.Queue()
    worker = Worker(lambda message: _send(messages, message), memory)
    threading.Thread(target=_listen, args=(tasks, worker.cancelled), daemon=True).start()
    while True:
        task = tasks.get()
        worker.cancelled.clear()  # it may have been for the last task
        worker.run(task)


def _send(messages: IO[bytes], message: dict[str, Any]) -> None:
    messages.write(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
