"""What each Ray worker does: it trains as one process of a process group.

A worker may be started again at any time, with more or fewer others. The arrays that exist and the
checkpoint say what is done.
"""

from __future__ import annotations

import io
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from linkdist._files import replace_text
from linkdist.distributed.group import ProcessGroup, SingleProcess
from linkdist.distributed.panel.columns import make_folder
from linkdist.distributed.panel.fitting import Resources, fit_store
from linkdist.distributed.pipeline import PANEL, fit_of, node_batch, room_on
from linkdist.distributed.ray_log import LogCallback
from linkdist.distributed.retrying import RetryingKeeper
from linkdist.distributed.stages import Staged
from linkdist.distributed.trainer import Schedule, batch_for, check_memory, train_rounds
from linkdist.errors import LinkDistError, StoreError
from linkdist.pipeline import Options
from linkdist.progress import Callback
from linkdist.store.reader import Store
from linkdist.training.checkpoint import Keeper, TrainingRun

SHARE = 512
"""The smallest number of edges of a batch per worker: averaging costs more than fewer save."""


@dataclass(frozen=True)
class Work:
    """What all workers of a training know.

    Attributes
    ----------
    store : str
        The store, in a place that all workers can read.
    options : Options
        How to train.
    checkpoint : Keeper
        A checkpoint that all workers can read; for SelfLinkDist a `Staged`.
    log : actor
        A `ray_log.Log`.
    memory : int or None
        Bytes that a worker may hold.
    gpus : float
        Number of GPUs of a worker; with 0 it trains on the CPU.
    threads : int
        Threads of a worker.
    saved : float
        Seconds between checkpoints.
    epochs : int
        Number of epochs of the paper's methods.
    found : object reference, optional
        The survey of the store, for the paper's methods.
    """

    store: str
    options: Options
    checkpoint: Keeper
    log: Any
    memory: int | None
    gpus: float
    threads: int
    saved: float
    epochs: int = 0
    found: Any = None

    @property
    def panel(self) -> bool:
        """Whether SelfLinkDist is trained."""
        return self.options.method == PANEL


def run_worker(config: dict[str, Any]) -> None:
    """The function of each worker; it is called again after every loss."""
    import ray

    work: Work = config["work"]
    if ray.get(work.log.get.remote("problem")) is not None:
        return  # starting again would not help
    try:
        _train(ray, work)
    except LinkDistError as error:
        ray.get(work.log.give_up.remote(str(error)))
        raise


def _train(ray: Any, work: Work) -> None:  # noqa: ANN401
    torch.set_num_threads(work.threads)
    group, log, host = ProcessGroup(), work.log, socket.gethostname()
    first, device = group.rank == 0, device_of(work)
    callback = LogCallback(log) if first else Callback()
    checkpoint = RetryingKeeper(work.checkpoint, log.write.remote)
    run = TrainingRun(checkpoint, callback.progress if first else None)
    where = f"process {os.getpid()} on {host}, {device}"
    log.write.remote(f"worker {group.rank + 1} of {group.size}, {where}")
    train = _train_panel if work.panel else _train_rounds
    result = train(ray, work, Resources(Path(), device, 0, 0, group, run, callback, work.saved))
    if first:
        ray.get(log.finish.remote(packed(result)))


def _train_rounds(ray: Any, work: Work, resources: Resources) -> object:  # noqa: ANN401
    """Train the rounds of one of the paper's methods."""
    store, group, device = Store.open(work.store), resources.group, resources.device
    options, hyper = work.options, work.options.hyperparameters
    schedule = Schedule.of(store, work.epochs, whole=False, beside=True)
    done, total = resources.run.done, len(schedule.rounds)
    if group.rank == 0:
        ray.get(work.log.begin.remote(group.size, f"round {done} of {total}"))
    resources.callback.stage("training")
    resources.callback.progress(done, total)
    stage = train_rounds(
        store, ray.get(work.found), schedule, options.seeds, resources.run, method=options.method,
        device=device, batch=hyper.batch_size or max(batch_for(store, device), SHARE * group.size),
        hyper=hyper, group=group, saved=work.saved,
    )  # fmt: skip
    return replace(fit_of(store, stage, work.epochs), inputs=None, neighbours=None)


def _train_panel(ray: Any, work: Work, resources: Resources) -> object:  # noqa: ANN401
    """Train all stages of SelfLinkDist."""
    store, group, device = Store.open(work.store), resources.group, resources.device
    checkpoint, hyper = work.checkpoint, work.options.hyperparameters
    assert isinstance(checkpoint, Staged)
    if group.rank == 0:
        ray.get(work.log.begin.remote(group.size, f"slice {resources.run.done}"))
    check_shared(checkpoint.folder, group)
    # Blocks and slices depend on the memory, so all workers must use the same number.
    room = group.least(room_of(work, device))
    check_memory(store, room)
    # The batch does not depend on the number of workers, which may change.
    batch = hyper.batch_size or node_batch(store, device)
    resources = replace(resources, folder=checkpoint.folder, room=room, batch=batch)
    result, sample = fit_store(store, work.options, resources)
    return replace(result, inputs=None, neighbours=None), sample


def device_of(work: Work) -> torch.device:
    """The device of this worker."""
    if not work.gpus:
        return torch.device("cpu")
    from ray.train.torch import get_device

    device: torch.device = get_device()
    return device


def room_of(work: Work, device: torch.device) -> int:
    """Bytes that this worker may hold: its share of a GPU, or the given memory."""
    room = room_on(device, work.memory)
    if device.type == "cpu" or work.memory is not None:
        return room
    return int(room * min(1.0, work.gpus))


def check_shared(folder: Path, group: SingleProcess) -> None:
    """Raise an error if a worker does not read in a folder what the first one writes to it."""

    def write() -> str:
        make_folder(folder)
        text = uuid4().hex
        replace_text(folder / "shared", text)
        return text

    expected = group.share(write)
    try:
        found = (folder / "shared").read_text()
    except OSError:
        found = ""
    if found != expected:
        raise StoreError(
            f"{folder} is not the same folder on {socket.gethostname()} as on the machine of the "
            "first worker. All workers write arrays there: give an --out in a folder that all "
            "machines share."
        )
    group.wait()


def packed(result: object) -> bytes:
    """A result as bytes, for a machine that may have no GPU.

    Examples
    --------
    >>> unpacked(packed({"alpha": torch.ones(2)}))
    {'alpha': tensor([1., 1.])}
    """
    buffer = io.BytesIO()
    torch.save(result, buffer)
    return buffer.getvalue()


def unpacked(content: bytes) -> Any:  # noqa: ANN401
    """The result that `packed` wrote, on the CPU; only for bytes of one's own workers."""
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
