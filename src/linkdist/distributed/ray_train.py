"""Training from a store by several workers, on this machine or on a cluster, under Ray.

Ray Train starts the workers, with one core or more each, as a process group; they train by
`distributed.trainer` with a `ProcessGroup`. The first worker saves checkpoints in a place that all
can read, and reports the progress to a log. When a worker or a machine is lost, Ray restarts with
the workers that are available, and they continue from the last checkpoint: it counts the rounds
that are done, whichever workers trained them.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import torch

from linkdist.artifacts.model_dir import Saved
from linkdist.distributed.group import ProcessGroup
from linkdist.distributed.pipeline import StoreSource, digest_of, fit_of
from linkdist.distributed.ray_session import joined
from linkdist.distributed.survey import Survey, survey
from linkdist.distributed.trainer import SAVED, Schedule, train_rounds
from linkdist.errors import DeviceError, LinkDistError, OptionError, StoreError
from linkdist.pipeline import Options, Trained, train
from linkdist.progress import Callback
from linkdist.store.reader import Store
from linkdist.training.checkpoint import Keeper, SharedCheckpoint, TrainingRun, checkpoint_beside
from linkdist.training.fit import Fit
from linkdist.training.link_task import epochs_for
from linkdist.training.loop import BATCH

FAILURES = 10
"""How many times workers may be lost before training fails."""
SHARE = 512
"""The smallest number of edges of a batch per worker: averaging costs more than fewer save."""
CPU = torch.device("cpu")
POLL = 0.5
"""Seconds between two queries of the progress of the workers."""


def train_by_workers(
    directory: Path,
    out: Path,
    options: Options,
    memory: int | None,
    workers: int,
    *,
    address: str | None = None,
    checkpoints: str | None = None,
    resume: bool = False,
    force: bool = False,
    callback: Callback | None = None,
    found: Survey | None = None,
    saved: float = SAVED,
    threads: int | None = None,
) -> Saved:
    """Train a model on a store by Ray workers and save it.

    Parameters
    ----------
    directory, out : Path
        The store, in a place that all workers can read, and the model directory.
    options : Options
        How to train.
    memory : int or None
        Number of bytes of the store that each worker may hold.
    workers : int
        Number of workers; if fewer are available, training uses those.
    address : str, optional
        Address of a Ray cluster; by default Ray starts on this machine.
    checkpoints : str, optional
        Where the checkpoint is saved: a path that all workers can read, or an address that PyArrow
        knows; by default next to the model directory.
    resume : bool
        Whether to continue an interrupted training of the same store and options.
    force : bool
        Whether to replace the model of another training.
    callback : Callback, optional
        Receives progress and messages.
    found : Survey, optional
        The survey of the store; by default the store is surveyed.
    saved : float, optional
        Seconds between checkpoints, which are saved at the end of a round.
    threads : int, optional
        Threads of each worker; by default the workers share the cores of this machine, and have
        one thread each on a cluster.

    Returns
    -------
    Saved
        The content of the model directory. The file `OUT.log` next to it is a log of the workers.
    """
    source = WorkerSource(directory, memory, workers, address, checkpoints, found, saved, threads)
    return train(source, out, options, resume=resume, force=force, callback=callback)


@dataclass
class WorkerSource(StoreSource):
    """A store, trained by Ray workers; see `train_by_workers` for the attributes."""

    workers: int = 1
    address: str | None = None
    checkpoints: str | None = None
    found: Survey | None = None
    saved: float = SAVED
    threads: int | None = None

    def open(self, out: Path, options: Options, callback: Callback) -> Keeper:
        """Open the store; return a checkpoint that all workers can read."""
        self.open_store(options, CPU)
        self._check_workers(options)
        self.target = out.resolve()
        own = checkpoint_beside(self.target, digest_of(self.store, options, "beside"))
        checkpoint = SharedCheckpoint(self.checkpoints or str(own.path), own.training)
        checkpoint.check()
        return checkpoint

    def train(self, options: Options, checkpoint: Keeper, callback: Callback) -> Trained:
        """Start the workers, wait for them and return the model of the first."""
        started, target, store = time.perf_counter(), self.target, self.store
        folder = target.with_name(f".{target.name}.ray")  # Ray's own state of the training
        # On this machine the workers share its cores, on a cluster they have one each.
        cores = 1 if self.address else max(1, (os.cpu_count() or 1) // self.workers)
        with joined(self.workers, self.address) as ray:
            if checkpoint.epochs() is None:
                shutil.rmtree(folder, ignore_errors=True)
            found = self.found or survey(store, options.share, options.seed, callback)
            callback.stage("starting the workers")
            log = _log_here(ray, f"{target}.log")
            config = {
                "store": str(store.directory), "options": options,
                "epochs": options.epochs or epochs_for(found.degree), "found": ray.put(found),
                "checkpoint": checkpoint, "log": log, "saved": self.saved,
                "threads": self.threads or cores,
            }  # fmt: skip
            with _with_progress(ray, log, callback):
                _run(ray, config, self.workers, folder, f"{target}.log")
            problem, result = (ray.get(log.get.remote(what)) for what in ("problem", "result"))
            if problem is not None:
                raise StoreError(problem)
        shutil.rmtree(folder, ignore_errors=True)
        return self.trained(found, options, result, started)

    def _check_workers(self, options: Options) -> None:
        most = sum(count > 0 for count in self.store.manifest.counts)
        if not 1 <= self.workers <= most:
            raise OptionError(
                f"there must be 1 to {most} workers, since each trains its own buckets and the "
                f"store has {most} with links; found {self.workers}. Build it with more --parts, "
                "or give fewer --workers."
            )
        if options.device not in ("auto", "cpu"):
            raise OptionError(f"workers train on the CPU; found --device {options.device}.")


def _run(ray: Any, config: dict[str, Any], workers: int, folder: Path, log: str) -> None:  # noqa: ANN401
    from ray.train.torch import TorchConfig, TorchTrainer

    scaling = ray.train.ScalingConfig(
        num_workers=workers if workers == 1 else (1, workers),
        resources_per_worker={"CPU": 1},
        placement_strategy="SPREAD",
    )
    failures = ray.train.FailureConfig(max_failures=FAILURES)
    run = ray.train.RunConfig(
        name=folder.name, storage_path=str(folder.parent), failure_config=failures
    )
    gloo = TorchConfig(backend="gloo")
    trainer = TorchTrainer(
        _work, train_loop_config=config, scaling_config=scaling, torch_config=gloo, run_config=run
    )
    try:
        trainer.fit()
    except ray.train.TrainingFailedError as error:
        found = str(error).strip().splitlines()[-1].rstrip(".")
        raise DeviceError(
            f"the workers were lost more than {FAILURES} times, or could not start: {found}. "
            f"See {log}; the same command with --resume continues."
        ) from error


def _work(config: dict[str, Any]) -> None:
    """The function of each worker; it is called again after every loss."""
    import ray

    log = config["log"]
    if ray.get(log.get.remote("problem")) is not None:
        return  # starting again would not help
    try:
        _train(ray, config, log)
    except LinkDistError as error:
        ray.get(log.give_up.remote(str(error)))
        raise


def _train(ray: Any, config: dict[str, Any], log: Any) -> None:  # noqa: ANN401
    torch.set_num_threads(config["threads"])
    options, epochs, group = config["options"], config["epochs"], ProcessGroup()
    hyper, first = options.hyperparameters, group.rank == 0
    store, course = Store.open(config["store"]), TrainingRun(config["checkpoint"], None)
    schedule = Schedule.of(store, epochs, whole=False, beside=True)
    total, host = len(schedule.rounds), socket.gethostname()
    if first:
        ray.get(log.begin.remote(group.size, course.done, total))
        course.progress = log.progress.remote
    log.write.remote(f"worker {group.rank + 1} of {group.size}, process {os.getpid()} on {host}")
    stage = train_rounds(
        store, ray.get(config["found"]), schedule, options.seeds, course, method=options.method,
        device=CPU, batch=hyper.batch_size or max(BATCH, SHARE * group.size), hyper=hyper,
        group=group, saved=config["saved"],
    )  # fmt: skip
    if first:
        result = replace(fit_of(store, stage, epochs), inputs=None, neighbours=None)
        ray.get(log.finish.remote(result))


def _log_here(ray: Any, path: str) -> Any:  # noqa: ANN401
    """The log, on the machine of the command, which runs as long as the training."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(Log).remote(path)


class Log:
    """An actor that writes a log file, and knows the progress and the result of the workers.

    Attributes
    ----------
    rounds : tuple of int
        The numbers of finished rounds and of all rounds; (0, 0) before the workers start.
    problem : str or None
        A problem that other workers would find as well.
    result : Fit or None
        The model of the first worker, once the training is finished.
    """

    def __init__(self, path: str) -> None:
        self.path, self.rounds = path, (0, 0)
        self.problem: str | None = None
        self.result: Fit | None = None

    def get(self, what: str) -> Any:  # noqa: ANN401
        """An attribute: the users of an actor only see its methods."""
        return getattr(self, what)

    def begin(self, workers: int, done: int, total: int) -> None:
        """Record that workers start, for the first time or again."""
        if self.rounds[1]:
            self.write(f"a worker or a machine was lost after round {self.rounds[0]}")
        self.rounds = (done, total)
        self.write(f"{workers} workers begin at round {done} of {total}")

    def progress(self, done: int, total: int) -> None:
        """Record the number of finished rounds."""
        self.rounds = (done, total)

    def give_up(self, problem: str) -> None:
        """Record a problem."""
        self.write(problem)
        self.problem = problem

    def finish(self, result: Fit) -> None:
        """Receive the result."""
        self.result = result
        self.write(f"all {self.rounds[1]} rounds are trained")

    def write(self, what: str) -> None:
        """Write a line."""
        with Path(self.path).open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now().astimezone().isoformat(timespec='seconds')} {what}\n")


@contextmanager
def _with_progress(ray: Any, log: Any, callback: Callback) -> Iterator[None]:  # noqa: ANN401
    """Report the progress of the workers to a callback while they train."""
    over = Event()

    def poll() -> None:
        begun = False
        while not over.wait(POLL):
            with suppress(ray.exceptions.RayError):  # the training reports the error
                done, total = ray.get(log.get.remote("rounds"))
                if total and not begun:
                    callback.stage("training")
                    begun = True
                if total:
                    callback.progress(done, total)

    thread = Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
