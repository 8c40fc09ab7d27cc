"""Trainings of SelfLinkDist on a small store, by one process or by a process group."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import distributed, multiprocessing

from linkdist.distributed.group import ProcessGroup, SingleProcess
from linkdist.distributed.panel.fitting import Resources, fit_store
from linkdist.model import from_features
from linkdist.pipeline import Options
from linkdist.progress import Callback
from linkdist.store.reader import Store
from linkdist.store.synthetic import Planted, synth
from linkdist.training.checkpoint import Checkpoint, TrainingRun

PARTS, VISITS = 4, 6
# With more than 64 features there is no gradient boosting, which takes most of the time.
PLANTED = Planted(4000, 20_000, features=72, classes=4, labelled=0.1)
OPTIONS = Options(held_out=0.3, epochs=VISITS)
ROOM, BATCH = 2_000_000, 256


@dataclass
class Training:
    """A training of a store whose arrays and checkpoint are in one folder.

    Attributes
    ----------
    directory, folder : Path
        The store, and where arrays, the checkpoint and the result are written.
    kill_at : int, optional
        The number of slices after which the first process is killed.
    callback : Callback
        Receives the stages, and the progress of those before the students.
    after : callable, optional
        Receives the progress of the students.
    device : str, optional
        Where to train; several processes may share one GPU.
    """

    directory: Path
    folder: Path
    kill_at: int | None = None
    callback: Callback = field(default_factory=Callback)
    after: Callable[[int, int], None] | None = None
    device: str = "cpu"

    def run(self, group: SingleProcess) -> float:
        """Train; return the accuracy of all nodes."""
        torch.set_num_threads(1)
        store = Store.open(self.directory)
        run = TrainingRun(Checkpoint(self.folder / "state", "training"), self._after)
        resources = Resources(
            self.folder / "arrays", torch.device(self.device), ROOM, BATCH, group, run,
            self.callback, saved=0,
        )  # fmt: skip
        result, _ = fit_store(store, OPTIONS, resources)
        return accuracy(result.model.to(torch.device("cpu")), store)

    def _after(self, done: int, total: int) -> None:
        if self.after is not None:
            self.after(done, total)
        if self.kill_at is not None and done >= self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def by_processes(self, size: int) -> list[float]:
        """Train by some processes; return the accuracy that each of them has."""
        self.folder.mkdir(exist_ok=True)
        meeting = self.folder / f"meeting.{size}"
        # A fork server imports PyTorch once for all processes of all tests.
        multiprocessing.get_context("forkserver").set_forkserver_preload([__name__])
        multiprocessing.start_processes(
            _member, (size, f"file://{meeting}", self), nprocs=size, start_method="forkserver"
        )
        return [float((self.folder / f"accuracy.{rank}").read_text()) for rank in range(size)]


def _member(rank: int, size: int, address: str, training: Training) -> None:
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=size)
    found = training.run(ProcessGroup())
    (training.folder / f"accuracy.{rank}").write_text(str(found))
    distributed.destroy_process_group()


def make_store(folder: Path) -> Store:
    return synth(folder / "store", PLANTED, parts=PARTS)


def accuracy(model, store) -> float:
    """The share of all nodes whose planted class is predicted from features."""
    hits = [
        from_features(model, store.features(part).astype(np.float32)).argmax(1) == store.truth(part)
        for part in range(store.P)
    ]
    return float(np.concatenate(hits).mean())
