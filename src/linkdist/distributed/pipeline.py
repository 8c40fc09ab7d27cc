"""Training from a store: what `linkdist train --store` does, in one call."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from linkdist.artifacts.model_dir import Saved
from linkdist.distributed.survey import Survey, survey
from linkdist.distributed.trainer import Schedule, batch_for, check_memory, fits_whole, train_rounds
from linkdist.errors import OptionError, StoreError
from linkdist.model import Model
from linkdist.pipeline import Options, Trained, train
from linkdist.progress import Callback
from linkdist.store.format import MANIFEST
from linkdist.store.plan import MEMORY, parse_memory
from linkdist.store.reader import Store
from linkdist.training.checkpoint import Keeper, TrainingRun, checkpoint_beside
from linkdist.training.fit import Fit
from linkdist.training.link_task import METHODS, LinkTraining, epochs_for
from linkdist.training.loop import find_device
from linkdist.training.replay import make_replay_buffer

METHOD = "colinkdist"
"""The default method for a store: SelfLinkDist needs all nodes in memory."""


def train_store(
    directory: Path,
    out: Path,
    options: Options,
    memory: int | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    callback: Callback | None = None,
) -> Saved:
    """Train a model on a store and save it.

    Parameters
    ----------
    directory : Path
        The store.
    out : Path
        The model directory.
    options : Options
        How to train.
    memory : int, optional
        Number of bytes of the store that training may hold; see `room_on`.
    resume : bool
        Whether to continue an interrupted training of the same store and options.
    force : bool
        Whether to replace the model of another training.
    callback : Callback, optional
        Receives progress and messages.

    Returns
    -------
    Saved
        The content of the model directory.
    """
    source = StoreSource(directory, memory)
    return train(source, out, options, resume=resume, force=force, callback=callback)


@dataclass
class StoreSource:
    """A store, trained by this process.

    Attributes
    ----------
    directory : Path
        The store.
    memory : int, optional
        Number of bytes of it that training may hold.
    """

    directory: Path
    memory: int | None = None
    resume_rule = "store, options and --memory, by one process or by workers"
    unit = "rounds"

    def open(self, out: Path, options: Options, callback: Callback) -> Keeper:
        """Open the store; return the checkpoint next to the model directory."""
        self.device = find_device(options.device)
        room = self.open_store(options, self.device)
        self.whole = fits_whole(self.store, room, self.device)
        order = "whole" if self.whole else "rounds"
        return checkpoint_beside(out, digest_of(self.store, options, order))

    def open_store(self, options: Options, device: torch.device) -> int:
        """Open the store if it can be trained like this; return the bytes that it may take."""
        check_method(options)
        self.store, room = Store.open(self.directory), room_on(device, self.memory)
        if self.store.task != "classification" or len(self.store.heads) > 1 or self.store.weighted:
            rule = "training from a store is for classification with one relation, without weights"
            raise StoreError(f"{rule}; {self.directory} has others. Train on the tables instead.")
        check_memory(self.store, room)
        return room

    def train(self, options: Options, checkpoint: Keeper, callback: Callback) -> Trained:
        """Train on the buckets of the store."""
        started, store, hyper = time.perf_counter(), self.store, options.hyperparameters
        found = survey(store, options.share, options.seed, callback)
        epochs = options.epochs or epochs_for(found.degree)
        callback.stage("training")
        schedule = Schedule.of(store, epochs, self.whole)
        stage = train_rounds(
            store, found, schedule, options.seeds, TrainingRun(checkpoint, callback.progress),
            method=options.method, device=self.device, hyper=hyper,
            batch=hyper.batch_size or batch_for(store, self.device),
        )  # fmt: skip
        return self.trained(found, options, fit_of(store, stage, epochs), started)

    def trained(self, found: Survey, options: Options, result: Fit, started: float) -> Trained:
        """A fitted model with what is needed to evaluate it on the sample of the store."""
        store, splits = self.store, [found.split] * options.replicas
        labels = dict(zip(store.classes, store.manifest.labelled, strict=True))
        data = {"nodes": store.n, "labels": labels, "links": f"{store.m} links"}
        replay = make_replay_buffer(found.sample, splits, options.seed)
        replay = replace(replay, tally=found.tally, schedule=epochs_for(found.degree))
        about = {**store.about, "data": data}
        result = replace(result, seconds=time.perf_counter() - started)
        return Trained(result, found.sample, splits, about, replay, store.encoders)


def fit_of(store: Store, stage: LinkTraining, epochs: int) -> Fit:
    """The result of a training, without its duration."""
    task = stage.task
    model = Model(stage.network.cpu(), stage.alpha.cpu(), store.classes)
    result = Fit(model, stage.history, epochs, 0.0, task.inputs.precision)
    if task.device.type != "cpu":  # the model is evaluated on the CPU
        return result
    return replace(result, inputs=task.inputs, neighbours=task.neighbours)


def room_on(device: torch.device, memory: int | None) -> int:
    """Number of bytes that training may hold on a device, at most the free memory of a GPU.

    Examples
    --------
    >>> room_on(torch.device("cpu"), None), room_on(torch.device("cpu"), 500)
    (2000000000, 500)
    """
    if device.type == "cpu":
        return parse_memory(MEMORY) if memory is None else memory
    free: int = torch.cuda.mem_get_info(device)[0]
    return free if memory is None else min(memory, free)


def check_method(options: Options) -> None:
    """Raise an OptionError for what needs the whole graph in memory."""
    method, schedule = options.method, options.hyperparameters.schedule
    if schedule == "cosine":
        raise OptionError("training from a store has a constant learning rate; found 'cosine'.")
    if method not in METHODS:
        raise OptionError(
            f"training from a store knows the methods {' and '.join(METHODS)}; found {method}, "
            "whose teachers need all nodes at once. Give --method colinkdist."
        )


def digest_of(store: Store, options: Options, order: str) -> str:
    """Digest of a store, the options and the order of the rounds.

    The manifest contains the digests of all files of the store. A checkpoint counts rounds, so
    their order must be the same.
    """
    digest = hashlib.sha256(json.dumps([asdict(options), order]).encode())
    digest.update((store.directory / MANIFEST).read_bytes())
    return digest.hexdigest()
