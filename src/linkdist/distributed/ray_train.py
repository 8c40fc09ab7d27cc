"""Training from a store by several workers, on this machine or on a cluster, under Ray.

Ray Train starts the workers, each with one core or more and possibly a GPU, as a process group. The
work of each is in `ray_work`: SelfLinkDist in stages, whose arrays are in a folder that all workers
share, or rounds of the paper's methods. The first worker saves checkpoints in a place that all can
read, and reports stages and progress to a log (`ray_log`). When a worker or a machine is lost, Ray
restarts with the workers that are available, and they continue with what is missing, whichever
workers did the rest.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from linkdist.artifacts.model_dir import Saved
from linkdist.distributed.pipeline import PANEL, StoreSource, digest_of
from linkdist.distributed.ray_log import followed, start_log
from linkdist.distributed.ray_session import joined
from linkdist.distributed.ray_work import Work, run_worker, unpacked
from linkdist.distributed.survey import Survey, survey
from linkdist.distributed.trainer import SAVED
from linkdist.errors import DeviceError, OptionError, StoreError, check_names
from linkdist.pipeline import Options, Trained, train
from linkdist.progress import Callback
from linkdist.store.reader import Store
from linkdist.training.checkpoint import Keeper, SharedCheckpoint, checkpoint_beside
from linkdist.training.link_task import epochs_for

FAILURES = 10
"""How many times workers may be lost before training fails."""
CPU = torch.device("cpu")
WAIT = 7 * 24 * 3600
"""Seconds that a worker waits for the others.

One worker may read the links of a large store for hours while the others wait. Ray notices a lost
worker itself, so no short limit is needed for that.
"""


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
    gpus: float = 0.0,
) -> Saved:
    """Train a model on a store by Ray workers and save it.

    Parameters
    ----------
    directory, out : Path
        The store and the model directory, in places that all workers can access: SelfLinkDist
        writes arrays next to the model directory.
    options : Options
        How to train.
    memory : int or None
        Number of bytes that each worker may hold.
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
        Seconds between checkpoints, which are saved at the end of a round or a slice.
    threads : int, optional
        Threads of each worker; by default the workers share the cores of this machine, and have
        one thread each on a cluster.
    gpus : float, optional
        Number of GPUs of each worker; workers with a fraction of one share it. With 0, workers
        train on CPUs, or have one GPU each if the device of `options` is 'cuda'.

    Returns
    -------
    Saved
        The content of the model directory. The file `OUT.log` next to it is a log of the workers.
    """
    source = WorkerSource(
        directory, memory, workers, address, checkpoints, found, saved, threads, gpus
    )
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
    gpus: float = 0.0

    def open(self, out: Path, options: Options, callback: Callback) -> Keeper:
        """Open the store; return a checkpoint that all workers can read."""
        check_gpus(options.device, self.gpus, self.address)
        if options.device == "cuda":
            self.gpus = self.gpus or 1.0
        # The memory of a GPU may be that of another machine, so its worker checks it.
        self.open_store(options, None if self.gpus and self.memory is None else CPU)
        check_workers(self.store, options.method, self.workers)
        self.target, panel = out.resolve(), options.method == PANEL
        if not panel:
            self.unit = "rounds"
        order = self.stages if panel else "beside"
        own = checkpoint_beside(self.target, digest_of(self.store, options, order))
        checkpoint = SharedCheckpoint(self.checkpoints or str(own.path), own.training)
        checkpoint.check()
        return self.staged(checkpoint, out, options) if panel else checkpoint

    def train(self, options: Options, checkpoint: Keeper, callback: Callback) -> Trained:
        """Start the workers, wait for them and return the model of the first."""
        started, panel = time.perf_counter(), options.method == PANEL
        found = None
        with joined(self.workers, self.address, self._local_gpus()) as ray:
            if not panel:
                found = self.found or survey(self.store, options.share, options.seed, callback)
            callback.stage("starting the workers")
            log = start_log(ray, f"{self.target}.log", "slice" if panel else "round")
            with followed(ray, log, callback):
                self._run(ray, self._work(ray, options, checkpoint, log, found))
            problem, result = (ray.get(log.get.remote(what)) for what in ("problem", "result"))
            if problem is not None:
                raise StoreError(problem)
        if found is not None:
            return self.trained(found, options, unpacked(result), started)
        fit, sample = unpacked(result)
        return self.trained_panel(sample, options, fit, started)

    def _work(
        self,
        ray: Any,  # noqa: ANN401
        options: Options,
        checkpoint: Keeper,
        log: Any,  # noqa: ANN401
        found: Survey | None,
    ) -> Work:
        # On this machine the workers share its cores, on a cluster they have one each.
        cores = 1 if self.address else max(1, (os.cpu_count() or 1) // self.workers)
        epochs = 0 if found is None else options.epochs or epochs_for(found.degree)
        return Work(
            str(self.store.directory), options, checkpoint, log, self.memory, self.gpus,
            self.threads or cores, self.saved, epochs, None if found is None else ray.put(found),
        )  # fmt: skip

    def _run(self, ray: Any, work: Work) -> None:  # noqa: ANN401
        folder = self.target.with_name(f".{self.target.name}.ray")  # Ray's state of the training
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _fit(ray, work, self.workers, folder)
        except ray.train.TrainingFailedError as error:
            if ray.get(work.log.get.remote("problem")) is not None:
                return  # which says more than Ray's error
            found = str(error).strip().splitlines()[-1].rstrip(".")
            raise DeviceError(
                f"the workers were lost more than {FAILURES} times, or could not start: {found}. "
                f"See {self.target}.log; the same command with --resume continues."
            ) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _local_gpus(self) -> int:
        """Number of GPUs of this machine that Ray may use, if it starts here."""
        if not self.gpus or self.address:
            return 0
        return min(torch.cuda.device_count(), math.ceil(self.workers * self.gpus))


def _fit(ray: Any, work: Work, workers: int, folder: Path) -> None:  # noqa: ANN401
    from ray.train.torch import TorchConfig, TorchTrainer

    each = {"CPU": 1.0, "GPU": work.gpus} if work.gpus else {"CPU": 1.0}
    scaling = ray.train.ScalingConfig(
        num_workers=workers if workers == 1 else (1, workers),
        use_gpu=bool(work.gpus),
        resources_per_worker=each,
        placement_strategy="SPREAD",
    )
    run = ray.train.RunConfig(
        name=folder.name,
        storage_path=str(folder.parent),
        failure_config=ray.train.FailureConfig(max_failures=FAILURES),
    )
    # NCCL refuses two workers on one GPU; gloo sends the tensors of any device.
    gloo = TorchConfig(backend="gloo", timeout_s=WAIT)
    trainer = TorchTrainer(
        run_worker,
        train_loop_config={"work": work},
        scaling_config=scaling,
        torch_config=gloo,
        run_config=run,
    )
    trainer.fit()


def check_workers(store: Store, method: str, workers: int) -> None:
    """Raise an OptionError if there are more workers than shares of the work."""
    if method == PANEL:
        most, rule = store.P, "each writes its own parts of every array"
    else:
        most = sum(count > 0 for count in store.manifest.counts)
        rule = "each trains its own buckets"
    if not 1 <= workers <= most:
        what = "parts" if method == PANEL else "buckets with links"
        raise OptionError(
            f"there must be 1 to {most} workers, since {rule} and the store has {most} {what}; "
            f"found {workers}. Build it with more --parts, or give fewer --workers."
        )


def check_gpus(device: str, gpus: float, address: str | None) -> None:
    """Raise an OptionError for a number of GPUs that workers cannot have.

    Examples
    --------
    >>> check_gpus("auto", 0, None)
    >>> check_gpus("auto", 1.5, "auto")
    Traceback (most recent call last):
    linkdist.errors.OptionError: --gpus-per-worker must be a fraction below 1 or a whole number; \
found 1.5.
    """
    check_names("device", [device], ("auto", "cpu", "cuda"))
    problems = []
    if not 0 <= gpus < math.inf or (gpus > 1 and gpus != int(gpus)):
        rule = "must be a fraction below 1 or a whole number"
        problems.append(f"--gpus-per-worker {rule}; found {gpus:g}.")
    if device == "cpu" and gpus:
        problems.append(f"--device cpu has no GPUs; found --gpus-per-worker {gpus:g}.")
    if (gpus or device == "cuda") and not address and not torch.cuda.is_available():
        problems.append(
            "no CUDA device was found on this machine. Leave out --gpus-per-worker and --device "
            "to train on the CPU, or give the --address of a cluster with GPUs."
        )
    if problems:
        raise OptionError(" ".join(problems))
