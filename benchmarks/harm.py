"""Faults that happen inside Ray workers, at a chosen moment and once.

`harmful` wraps the function of the workers: each worker first replaces some methods of LinkDist,
so that it is killed, or finds a disk that is full or a checkpoint place that fails. Files in a
folder record what has happened, since workers are started again.
"""

import errno
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path


def harmful(run_worker, folder, *faults):
    """The function of the workers with faults; `folder` is empty, and all workers share it."""
    from ray import cloudpickle

    # Workers cannot import this module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])

    def run(config):
        for fault in faults:
            fault.install(Path(folder))
        run_worker(config)

    return run


def once(folder, name):
    """Whether something happens for the first time."""
    try:
        (folder / name.replace(" ", "-")).open("x").close()
    except FileExistsError:
        return False
    return True


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class KilledInStage:
    """SIGKILL for one worker when a stage starts; the first worker alone reads the links."""

    stage: str
    rank: int = 1

    def install(self, folder):
        """Prepare the fault in this process."""
        from torch import distributed

        from linkdist.distributed.ray_log import LogCallback
        from linkdist.progress import Callback

        kind = Callback if self.rank else LogCallback
        report = kind.stage

        def stage(callback, name):
            report(callback, name)
            mine = name == self.stage and distributed.get_rank() == self.rank
            if mine and once(folder, self.stage):
                _delivered(callback)
                die()

        kind.stage = stage


def _delivered(callback):
    """Wait until the log has received what this worker reported."""
    import ray

    if hasattr(callback, "log"):
        ray.get(callback.log.news.remote(0))


@dataclass
class KilledAfter:
    """SIGKILL for the first worker after some slices."""

    slices: int

    def install(self, folder):
        """Prepare the fault in this process."""
        from linkdist.training.checkpoint import TrainingRun

        report = TrainingRun.after

        def after(run, done, total, tensors):
            report(run, done, total, tensors)
            if run.progress and done >= self.slices and once(folder, "training"):
                _delivered(run.progress.__self__)
                die()

        TrainingRun.after = after


@dataclass
class CheckpointsFail:
    """The place of checkpoints fails for some seconds after the first write to it."""

    seconds: float

    def install(self, folder):
        """Prepare the fault in this process."""
        from linkdist.training.checkpoint import SharedCheckpoint

        write = SharedCheckpoint.save

        def save(checkpoint, epochs, tensors):
            if once(folder, "checkpoint") or time.time() < self._end(folder):
                raise OSError(errno.EIO, os.strerror(errno.EIO), checkpoint.place)
            write(checkpoint, epochs, tensors)

        SharedCheckpoint.save = save

    def _end(self, folder):
        return (folder / "checkpoint").stat().st_mtime + self.seconds


@dataclass
class DiskFull:
    """The disk is full when arrays with a name are written, while `folder/free` does not exist."""

    array: str

    def install(self, folder):
        """Prepare the fault in this process."""
        from linkdist import _files

        create = _files._created

        def created(path):
            file = create(path)
            full = path.parent.name.startswith(self.array) and not (folder / "free").exists()
            return _Full(file) if full else file

        _files._created = created


class _Full:
    """A file on a full disk."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def write(self, _):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
