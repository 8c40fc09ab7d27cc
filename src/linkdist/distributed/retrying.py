"""A checkpoint in a place that may fail for a while, such as a network file system.

A write or a read that fails is tried again after waits that grow, for a limited time. The training
waits meanwhile: what it would train without a checkpoint is lost with the next worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TypeVar

from torch import Tensor

from linkdist.errors import StoreError
from linkdist.progress import format_duration
from linkdist.training.checkpoint import Keeper, State

T = TypeVar("T")
PATIENCE = 600.0
"""Seconds after which a place that still fails is given up."""
FIRST, LONGEST = 0.5, 60.0
"""Seconds of the first wait, and of the longest; each wait is twice as long as the one before."""


def waits(patience: float) -> Iterator[float]:
    """The seconds to wait after each failure, `patience` in all.

    Examples
    --------
    >>> list(waits(10.0))
    [0.5, 1.0, 2.0, 4.0, 2.5]
    """
    wait, left = FIRST, patience
    while left > 0:
        yield min(wait, left)
        left -= wait
        wait = min(2 * wait, LONGEST)


@dataclass
class RetryingKeeper(Keeper):
    """A checkpoint that is written and read again after failures.

    Attributes
    ----------
    keeper : Keeper
        The checkpoint.
    note : callable
        Receives a sentence for each failure and for the end of several.
    patience : float, optional
        Seconds after which the place is given up.
    sleep : callable, optional
        Waits for some seconds.

    Examples
    --------
    >>> from linkdist.training.checkpoint import SharedCheckpoint
    >>> class Failing(SharedCheckpoint):
    ...     def save(self, epochs, tensors):
    ...         raise OSError("no route to host")
    >>> keeper = RetryingKeeper(Failing("state", "digits"), str, 1.0, lambda wait: None)
    >>> keeper.save(3, {})
    Traceback (most recent call last):
    linkdist.errors.StoreError: the checkpoint state could not be written for 1 s: no route to \
host. Make its place available again, then continue with the same command and --resume.
    """

    keeper: Keeper
    note: Callable[[str], object]
    patience: float = PATIENCE
    sleep: Callable[[float], object] = time.sleep

    def __post_init__(self) -> None:
        """Take the digest of the checkpoint."""
        self.training = self.keeper.training

    def save(self, epochs: int, tensors: Mapping[str, Tensor]) -> None:
        """Store the state after some epochs.

        Raises
        ------
        StoreError
            If it cannot be stored for `patience` seconds.
        """
        self._again("written", lambda: self.keeper.save(epochs, tensors))

    def load(self) -> State | None:
        """The completed epochs and the state, if this training stored one."""
        return self._again("read", self.keeper.load)

    def remove(self) -> None:
        """Remove the state when the training is complete."""
        self.keeper.remove()

    @property
    def shown(self) -> str:
        """The file as messages name it."""
        return self.keeper.shown

    def _open(self) -> IO[bytes]:
        return self.keeper._open()

    def _again(self, done: str, attempt: Callable[[], T]) -> T:
        """Try until there is no error, or give up."""
        failed = False
        for wait in [*waits(self.patience), None]:
            try:
                found = attempt()
            except OSError as error:
                if wait is None:
                    raise self._problem(done, error) from error
                self.note(f"{self._failure(done, error)}; next attempt after {wait:g} s")
                failed = True
                self.sleep(wait)
            else:
                if failed:
                    self.note(f"the checkpoint is {done} again")
                return found
        raise AssertionError  # the last attempt returns or raises

    def _failure(self, done: str, error: OSError) -> str:
        return f"the checkpoint {self.shown} could not be {done}: {error}"

    def _problem(self, done: str, error: OSError) -> StoreError:
        found = str(error).rstrip(".")
        return StoreError(
            f"the checkpoint {self.shown} could not be {done} for "
            f"{format_duration(self.patience)}: {found}. Make its place available again, then "
            "continue with the same command and --resume."
        )
