"""Processes that compute what takes long: see `linkdist.serve.worker` for their program."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from linkdist.serve.errors import RefusedError
from linkdist.serve.worker import CANCEL

GRACE = 5.0
"""Seconds in which a worker must end a cancelled task; otherwise it is killed."""

WAITING = 8
"""Tasks that may wait for each worker."""

DIED = (
    "the work ended unexpectedly; it may have needed more than {:,} MiB of memory. Check the file, "
    "or send fewer rows at once."
)

ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve more than they use
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
}

Task = dict[str, Any]
Grown = Callable[[int], None]


class Process:
    """A worker process; it is started by its first task."""

    def __init__(self, memory: int, largest: int) -> None:
        self.memory, self.largest = memory, largest
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False

    def run(self, task: Task, grown: Grown) -> Task:
        """Compute a task; returns the outcome. Called in a thread."""
        if self._process is None:
            limits = map(str, (self.memory, self.largest))
            # With -P, modules are not imported from the current directory.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "linkdist.serve.worker", *limits],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                env={**os.environ, **ENVIRONMENT},
            )  # fmt: skip
            if self._is_killed:
                self._process.kill()
        self._send(json.dumps(task).encode() + b"\n")
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: Task = json.loads(line)
            if "size" not in message:
                return message
            grown(message["size"])
        self.kill()
        return {"refused": [413, DIED.format(self.memory >> 20), {}]}

    def cancel(self) -> None:
        """Ask the process to end its task."""
        self._send(CANCEL)

    def kill(self) -> None:
        """End the process."""
        self._is_killed = True
        if self._process is not None:
            self._process.kill()

    @property
    def is_alive(self) -> bool:
        """Whether it may be used again."""
        has_ended = self._process is not None and self._process.poll() is not None
        return not (self._is_killed or has_ended)

    def __del__(self) -> None:
        """End the process with the service."""
        self.close()

    def close(self) -> None:
        """End the process and wait for its end."""
        self.kill()
        if self._process is not None:
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()

    def _send(self, line: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it has died, which `run` sees
                self._process.stdin.write(line)


class Workers:
    """A number of worker processes, and the tasks that wait for them.

    Parameters
    ----------
    count : int
        Number of processes.
    memory : int
        Bytes that a task may use.
    largest : int
        Bytes of the largest answer.
    idle : deque of Process, optional
        Processes that are used before new ones are started.
    """

    def __init__(
        self, count: int, memory: int, largest: int, idle: deque[Process] | None = None
    ) -> None:
        self.count, self.memory, self.largest = count, memory, largest
        self._idle, self._is_shared = deque[Process]() if idle is None else idle, idle is not None
        self._free, self._waiting = asyncio.Semaphore(count), 0
        self._threads = ThreadPoolExecutor(max(1, count), thread_name_prefix="linkdist-worker")

    def check_room(self) -> None:
        """Refuse a request if too many wait already."""
        if self._waiting >= self.count * WAITING:
            text = "too many tables or large requests wait to be computed. Try again in a minute."
            raise RefusedError(503, text)

    async def run(self, task: Task, seconds: float, grown: Grown) -> dict[str, int]:
        """Compute a task; if this call is cancelled, the work ends soon.

        Parameters
        ----------
        task : dict
            See `linkdist.serve.worker`.
        seconds : float
            Time limit of the computation; as long as this, it may wait before.
        grown : callable
            Called with the size of the answer so far. If it raises, the work ends.

        Returns
        -------
        dict of str to int
            Predicted rows by mode.

        Raises
        ------
        RefusedError
            If the task cannot be computed, or not within the limits.
        """
        self.check_room()
        late = RefusedError(503, f"no answer within {seconds:g} seconds. Send fewer rows at once.")
        self._waiting += 1
        try:
            await asyncio.wait_for(self._free.acquire(), seconds)
        except TimeoutError:
            raise late from None
        finally:
            self._waiting -= 1
        process = self._idle.pop() if self._idle else Process(self.memory, self.largest)
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        problems: list[RefusedError] = []

        def report(size: int) -> None:
            try:
                grown(size)
            except RefusedError as error:
                problems.append(error)
                stopped.set()

        def in_loop(size: int) -> None:
            loop.call_soon_threadsafe(report, size)

        work = loop.run_in_executor(self._threads, process.run, task, in_loop)
        work.add_done_callback(lambda _: self._release(process))
        watch = asyncio.ensure_future(stopped.wait())
        either: set[asyncio.Future[Any]] = {work, watch}
        try:
            await asyncio.wait(either, timeout=seconds, return_when="FIRST_COMPLETED")
        finally:
            watch.cancel()
            if not work.done():
                process.cancel()
                loop.call_later(GRACE, _kill_unless_done, work, process)
        if problems or not work.done():
            raise problems[0] if problems else late
        return _outcome(work.result())

    def close(self) -> None:
        """End the processes, unless others use them, too."""
        while self._idle and not self._is_shared:
            self._idle.pop().close()

    def _release(self, process: Process) -> None:
        if process.is_alive:
            self._idle.append(process)
        else:
            process.close()
        self._free.release()


def _kill_unless_done(work: asyncio.Future[Task], process: Process) -> None:
    if not work.done():
        process.kill()


def _outcome(message: Task) -> dict[str, int]:
    if "refused" in message:
        status, error, columns = message["refused"]
        raise RefusedError(status, error, columns)
    if "failed" in message:
        raise RuntimeError(message["failed"])
    done: dict[str, int] = message["done"]
    return done
