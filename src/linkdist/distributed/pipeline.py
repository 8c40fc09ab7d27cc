"""From a store to a model: what `linkdist train --store` does, in one call."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from linkdist.artifacts.model_dir import Saved, save
from linkdist.artifacts.onnx import with_onnx
from linkdist.distributed.survey import Survey, survey
from linkdist.distributed.trainer import Schedule, batch_for, check_memory, fits_whole, train_rounds
from linkdist.errors import OptionError
from linkdist.model import Model
from linkdist.pipeline import Options, begin, check_options, scores_of
from linkdist.progress import Callback
from linkdist.report.metrics import held_out_of
from linkdist.store.manifest import MANIFEST
from linkdist.store.plan import MEMORY, parse_memory
from linkdist.store.reader import Store
from linkdist.training.checkpoint import checkpoint_beside
from linkdist.training.loop import METHODS, epochs_for, find_device
from linkdist.training.replay import pack, remember
from linkdist.training.stages import Course, Kept

METHOD = "colinkdist"
"""The method where none is named: SelfLinkDist wants all nodes at once."""
SAME = "store, options and --memory, by one process or by workers"
"""What a training must have in common with one that was killed, to go on."""


def train_store(
    directory: Path,
    out: Path,
    options: Options,
    memory: int | None = None,
    *,
    resume: bool = False,
    callback: Callback | None = None,
) -> Saved:
    """Train on a store and leave a model directory.

    Parameters
    ----------
    directory : Path
        The store.
    out : Path
        The model directory.
    options : Options
        How to train; SelfLinkDist, which needs all nodes at once, is not for stores.
    memory : int, optional
        Bytes that training may hold of the store, see `room_on`.
    resume : bool
        Whether to go on where a killed training of the same store and options was.
    callback : Callback, optional
        Receives progress and messages.

    Returns
    -------
    Saved
        What the directory holds.
    """
    callback = callback or Callback()
    check_options(out, options)
    check_method(options.method)
    store, device = Store.open(directory), find_device(options.device)
    room = room_on(device, memory)
    check_memory(store, room)
    whole = fits_whole(store, room, device)
    order = "whole" if whole else "rounds"
    checkpoint = checkpoint_beside(out, digest_of(store, options, order))
    begin(checkpoint, resume, SAME, callback)
    started = time.perf_counter()
    callback.stage("looking through the links")
    found = survey(store, options.share, options.seed, callback)
    epochs = epochs_for(found.degree) if options.epochs is None else options.epochs
    callback.stage("training")
    stage = train_rounds(
        store,
        found,
        Schedule.of(store, epochs, whole),
        range(options.seed, options.seed + options.replicas),
        Course(checkpoint, callback.progress),
        method=options.method,
        device=device,
        batch=batch_for(store, device),
    )
    seconds = time.perf_counter() - started
    saved = saved_model(store, found, stage, options, epochs, seconds)
    save(out, saved)
    checkpoint.remove()
    return saved


def saved_model(
    store: Store, found: Survey, stage: Kept, options: Options, epochs: int, seconds: float
) -> Saved:
    """A trained stage as a model directory holds it."""
    model = Model(stage.network.cpu(), stage.alpha.cpu(), store.classes)
    splits = [found.split] * options.replicas
    held = held_out_of(found.sample, splits, model, stage.history)
    labels = dict(zip(store.classes, store.manifest.labelled, strict=True))
    about = {
        **store.about,
        "method": options.method,
        "seed": options.seed,
        "epochs": epochs,
        "seconds": round(seconds, 1),
        "date": datetime.now(UTC).date().isoformat(),
        "data": {"nodes": store.n, "labels": labels, "links": f"{store.m} links"},
        **scores_of(held),
    }
    memory = remember(found.sample, splits, options.seed)
    memory = replace(memory, tally=found.tally, schedule=epochs_for(found.degree))
    return with_onnx(Saved(model, store.encoders, about, pack(memory)))


def room_on(device: torch.device, memory: int | None) -> int:
    """Bytes that training may hold on a device: what is asked for, and no more than a GPU has.

    Examples
    --------
    >>> room_on(torch.device("cpu"), None), room_on(torch.device("cpu"), 500)
    (2000000000, 500)
    """
    if device.type == "cpu":
        return parse_memory(MEMORY) if memory is None else memory
    free: int = torch.cuda.mem_get_info(device)[0]
    return free if memory is None else min(memory, free)


def check_method(method: str) -> None:
    """Refuse a method that needs the whole graph at once."""
    if method not in METHODS:
        raise OptionError(
            f"training from a store knows the methods {' and '.join(METHODS)}; found {method}, "
            "whose teachers need all nodes at once. Give --method colinkdist."
        )


def digest_of(store: Store, options: Options, order: str) -> str:
    """Of this very store, these options and the order of its rounds, in which a position counts.

    The manifest has the digests of all files of the store.
    """
    digest = hashlib.sha256(json.dumps([vars(options), order], default=str).encode())
    digest.update((store.directory / MANIFEST).read_bytes())
    return digest.hexdigest()
