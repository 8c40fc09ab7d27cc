"""From a store to a model: what `linkdist train --store` does, in one call."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from linkdist.checkpoints import checkpoint_beside
from linkdist.errors import OptionError
from linkdist.export import with_onnx
from linkdist.findings import held_out_of
from linkdist.inference import Model
from linkdist.memory import pack, remember
from linkdist.scale.manifest import MANIFEST
from linkdist.scale.store import Store
from linkdist.scale.survey import Survey, survey
from linkdist.scale.training import Schedule, batch_for, check_memory, fits_whole, train_rounds
from linkdist.stages import Course, Kept
from linkdist.storage import Saved, save
from linkdist.training import METHODS, epochs_for, find_device
from linkdist.workflow import Options, Watcher, check_options, scores_of

METHOD = "colinkdist"
"""The method where none is named: SelfLinkDist wants all nodes at once."""


def train_store(
    directory: Path,
    out: Path,
    options: Options,
    memory: int,
    *,
    resume: bool = False,
    watcher: Watcher | None = None,
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
    memory : int
        Bytes that training may hold; on a GPU, what is free there counts instead.
    resume : bool
        Whether to go on where a killed training of the same store and options was.
    watcher : Watcher, optional
        Is told how it goes.

    Returns
    -------
    Saved
        What the directory holds.
    """
    watcher = watcher or Watcher()
    check_options(out, options)
    check_method(options.method)
    store, device = Store.open(directory), find_device(options.device)
    room = memory if device.type == "cpu" else torch.cuda.mem_get_info(device)[0]
    check_memory(store, room)
    checkpoint = checkpoint_beside(out, digest_of(store, options))
    if not resume:
        checkpoint.remove()
    started = time.perf_counter()
    watcher.stage("looking through the links")
    found = survey(store, options.held_out, options.seed, watcher)
    epochs = epochs_for(found.degree) if options.epochs is None else options.epochs
    watcher.stage("training")
    stage = train_rounds(
        store,
        found,
        Schedule.of(store, epochs, fits_whole(store, room)),
        range(options.seed, options.seed + options.replicas),
        Course(checkpoint, watcher.progress),
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
        **scores_of(held, splits),
    }
    memory = remember(found.sample, splits, options.seed)
    memory = replace(memory, tally=found.tally, schedule=epochs_for(found.degree))
    return with_onnx(Saved(model, store.encoders, about, pack(memory)))


def check_method(method: str) -> None:
    """Refuse a method that needs the whole graph at once."""
    if method not in METHODS:
        raise OptionError(
            f"training from a store knows the methods {' and '.join(METHODS)}; found {method}, "
            "whose second stage wants what the first one says of all nodes at once. Give --method "
            "colinkdist."
        )


def digest_of(store: Store, options: Options) -> str:
    """Of this very store and these options: its manifest has the digests of all its files."""
    digest = hashlib.sha256(json.dumps(vars(options), default=str).encode())
    digest.update((store.directory / MANIFEST).read_bytes())
    return digest.hexdigest()
