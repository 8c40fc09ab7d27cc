"""Training from a store: what `linkdist train --store` does, in one call.

A store that fits into memory is read as a graph and trained like one (`linkdist.pipeline`), with
the same result. A larger one is trained part by part: by SelfLinkDist in stages
(`distributed.panel`), by the paper's methods in rounds of links (`distributed.trainer`).
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from linkdist.artifacts.model_dir import Saved
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.panel.fitting import Resources, fit_store
from linkdist.distributed.panel.sample import Sample
from linkdist.distributed.stages import Staged, check_disk
from linkdist.distributed.survey import Survey, part_rows, survey
from linkdist.distributed.trainer import (
    MAX_BATCH,
    MIN_STEPS,
    Schedule,
    batch_for,
    check_memory,
    fits_whole,
    train_rounds,
)
from linkdist.errors import OptionError
from linkdist.model import Model
from linkdist.pipeline import GraphSource, Options, Trained, train
from linkdist.progress import Callback
from linkdist.store.format import MANIFEST
from linkdist.store.plan import MEMORY, parse_memory
from linkdist.store.reader import Store
from linkdist.store.whole import read_whole
from linkdist.training.checkpoint import Keeper, TrainingRun, checkpoint_beside, stage_folder
from linkdist.training.fit import Fit
from linkdist.training.link_task import LinkTraining, epochs_for
from linkdist.training.loop import BATCH, find_device
from linkdist.training.panel.fitting import FEW, FEW_NUMBERS
from linkdist.training.panel.replicas import FOLDS
from linkdist.training.replay import make_replay_buffer

PANEL = "selflinkdist"
LINK_BYTES = 160
"""Bytes of a link of a graph in memory while SelfLinkDist trains on it."""
ROW_COPIES = 4
"""Copies of the outputs of a node in memory for each replica."""


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
        Number of bytes that training may hold, beyond those of the program; see `room_on`.
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
        Number of bytes that training may hold.
    """

    directory: Path
    memory: int | None = None
    resume_rule = "store, options and --memory, by one process or by workers"
    unit = "slices of the nodes"

    def open(self, out: Path, options: Options, callback: Callback) -> Keeper:
        """Open the store; return the checkpoint next to the model directory."""
        self.device = find_device(options.device)
        self.open_store(options, self.device)
        panel = options.method == PANEL
        whole = panel_fits if panel else fits_whole
        self.whole = whole(self.store, self.room, self.device)
        order = "whole" if self.whole else self.stages if panel else "rounds"
        checkpoint = checkpoint_beside(out, digest_of(self.store, options, order))
        if not panel or self.whole:
            self.unit = "epochs" if panel else "rounds"
            return checkpoint
        return self.staged(checkpoint, out, options)

    @property
    def stages(self) -> str:
        """The order of the work in stages, whose slices depend on the memory."""
        return f"stages {self.memory}"

    def open_store(self, options: Options, device: torch.device | None) -> None:
        """Open the store if it can be trained like this; without a device, no memory is checked."""
        self.store = Store.open(self.directory)
        check_options(options, self.store)
        if device is not None:
            self.room = room_on(device, self.memory)
            check_memory(self.store, self.room)

    def staged(self, checkpoint: Keeper, out: Path, options: Options) -> Staged:
        """A checkpoint with a folder for arrays, if these fit on the disk."""
        staged = Staged(checkpoint, stage_folder(out))
        check_disk(self.store, staged.folder, options.replicas, has_folds(self.store, options))
        return staged

    def train(self, options: Options, checkpoint: Keeper, callback: Callback) -> Trained:
        """Train on the store."""
        if options.method != PANEL:
            return self._train_rounds(options, checkpoint, callback)
        if self.whole:
            return self._train_whole(options, checkpoint, callback)
        assert isinstance(checkpoint, Staged)
        started = time.perf_counter()
        resources = Resources(
            checkpoint.folder, self.device, self.room,
            options.hyperparameters.batch_size or node_batch(self.store, self.device),
            SingleProcess(), TrainingRun(checkpoint, callback.progress), callback,
        )  # fmt: skip
        result, sample = fit_store(self.store, options, resources)
        return self.trained_panel(sample, options, result, started)

    def _train_whole(self, options: Options, checkpoint: Keeper, callback: Callback) -> Trained:
        """Train like on a graph in memory, which the store becomes."""
        callback.stage("reading the store")
        graph, _ = read_whole(self.store)
        ids = pa.concat_arrays([self.store.ids(part) for part in range(self.store.P)]).to_pylist()
        source = GraphSource(graph, ids, self.about(f"{self.store.m} links"), self.store.encoders)
        return source.train(options, checkpoint, callback)

    def _train_rounds(self, options: Options, checkpoint: Keeper, callback: Callback) -> Trained:
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

    def about(self, links: str) -> dict[str, Any]:
        """What a model directory records of the data."""
        store = self.store
        labels = dict(zip(store.classes, store.manifest.labelled, strict=True))
        return {**store.about, "data": {"nodes": store.n, "labels": labels, "links": links}}

    def trained(self, found: Survey, options: Options, result: Fit, started: float) -> Trained:
        """A fitted model with what is needed to evaluate it on the sample of the store."""
        splits = [found.split] * options.replicas
        replay = make_replay_buffer(found.sample, splits, options.seed)
        replay = replace(replay, tally=found.tally, schedule=epochs_for(found.degree))
        about = self.about(f"{self.store.m} links")
        result = replace(result, seconds=time.perf_counter() - started)
        return Trained(result, found.sample, splits, about, replay, self.store.encoders)

    def trained_panel(
        self, sample: Sample, options: Options, result: Fit, started: float
    ) -> Trained:
        """The same for SelfLinkDist, with the ids of the sample for a report."""
        found = replace(sample.survey, split=sample.splits[0])
        trained = self.trained(found, options, result, started)
        ids = [
            one
            for part, rows in part_rows(found.nodes)
            for one in self.store.ids(part).take(pa.array(rows)).to_pylist()
        ]
        data = {**trained.about["data"], "sample": found.sample.n}
        return replace(trained, ids=ids, about={**trained.about, "data": data})


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


def node_batch(store: Store, device: torch.device) -> int:
    """Number of nodes of a step: that of a graph in memory, or a larger one on a GPU."""
    if device.type == "cpu":
        return BATCH
    return max(BATCH, min(MAX_BATCH, store.n // MIN_STEPS // BATCH * BATCH))


def has_folds(store: Store, options: Options) -> bool:
    """Whether folds of the labels are trained, because there are few of them."""
    few = FEW_NUMBERS if store.task == "regression" else FEW
    return options.held_out is None and sum(store.manifest.labelled) <= few


def panel_fits(store: Store, memory: int, device: torch.device) -> bool:
    """Whether SelfLinkDist on the whole store fits into memory.

    Bytes of the links, of features in float32 and of outputs for every replica are estimated.
    """
    features = {"float16": 2, "float32": 1, "csr": 1}[store.kind] * sum(store.part_bytes)
    replicas = 1 + 2 * FOLDS if sum(store.manifest.labelled) <= FEW else 1
    outputs = 4 * ROW_COPIES * replicas * store.n * store.C
    return features + LINK_BYTES * store.m + outputs <= memory


def check_options(options: Options, store: Store) -> None:
    """Raise an OptionError for what training on a store does not support."""
    problems = []
    if options.budget is not None:
        problems.append("a store has no time limit; give --epochs to shorten the training.")
    if options.hold_out_graphs:
        problems.append("a store contains one graph, so hold_out_graphs cannot hold one out.")
    if options.method != PANEL:
        if options.hyperparameters.schedule == "cosine":
            problems.append("the paper's methods have a constant learning rate on a store.")
        if store.task != "classification" or len(store.heads) > 1 or store.weighted:
            rule = "classification with one relation of links without weights"
            problems.append(f"on a store, the method {options.method} is for {rule}.")
    if problems:
        raise OptionError(" ".join(problems))


def digest_of(store: Store, options: Options, order: str) -> str:
    """Digest of a store, the options and the order of the work.

    The manifest contains the digests of all files of the store. A checkpoint counts rounds or
    slices, so their order must be the same.
    """
    digest = hashlib.sha256(json.dumps([asdict(options), order]).encode())
    digest.update((store.directory / MANIFEST).read_bytes())
    return digest.hexdigest()
