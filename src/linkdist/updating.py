"""Update a trained model with new nodes and links, without the old data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from linkdist.artifacts.model_dir import (
    Saved,
    check_replaced,
    check_target,
    load_model,
    save_model,
)
from linkdist.artifacts.onnx import with_onnx
from linkdist.data.graph import UNKNOWN, Graph
from linkdist.errors import ModelError, OptionError
from linkdist.model import Model, from_features, reweighted, with_links
from linkdist.pipeline import describe_data, digest_of, read_graph
from linkdist.progress import Callback
from linkdist.tables.source import Tables
from linkdist.training.fit import epoch_problems
from linkdist.training.loop import find_device
from linkdist.training.replay import pack
from linkdist.training.replay import update as update_model


def update(
    model: Path | Saved,
    tables: Tables,
    out: Path,
    *,
    epochs: int | None = None,
    seed: int = 0,
    device: str = "auto",
    force: bool = False,
    callback: Callback | None = None,
) -> Saved:
    """Update a model with new nodes and links.

    Parameters
    ----------
    model : Path or Saved
        The model directory, or its content.
    tables : Tables
        The new nodes and links, with the columns of the model. Old nodes at the ends of new links
        must be in the node table, too.
    out : Path
        The directory of the new model; it may be that of the old one.
    epochs, seed, device
        See `linkdist.training.replay.update`.
    force : bool
        Whether to replace a model that is neither the old one nor the result of the same update.
    callback : Callback, optional
        Receives progress and messages.
    """
    callback = callback or Callback()
    check_target(out)
    if problems := epoch_problems(epochs):
        raise OptionError(" ".join(problems))
    saved = model if isinstance(model, Saved) else load_model(model)
    if saved.replay is None:
        raise ModelError("the model has no replay buffer, so it cannot be updated. Train again.")
    if saved.model.task != "classification":
        raise ModelError(
            f"a model for {saved.model.task} cannot be updated. Train again on the old and new "
            "tables."
        )
    on_device = saved.model.to(find_device(device))
    nodes, graph, report = read_graph(tables, callback, saved)
    graph = replace(graph, groups=None)  # the replay buffer does not know the graphs of its nodes
    for sentence in (str(report), *nodes.notices):
        callback.note(sentence)
    training = digest_of(graph, [saved.about.get("training"), epochs, seed])
    itself = not isinstance(model, Saved) and out.resolve() == Path(model).resolve()
    check_replaced(out, training, force or itself)
    before = _label_accuracy(on_device, graph)
    callback.stage("updating")
    factors = (saved.about.get("decision") or {}).get("factors")
    # An update learns probabilities; the factors of the decision apply to what it has learned.
    learner = reweighted(on_device, None if factors is None else 1 / np.array(factors))
    memory = update_model(
        learner,
        saved.replay_buffer(),
        graph,
        method=saved.about.get("method") or "colinkdist",
        seed=seed,
        epochs=epochs,
        progress=callback.progress,
    )
    on_device = reweighted(learner, None if factors is None else np.array(factors))
    _report_change(graph, before, _label_accuracy(on_device, graph), callback)
    updates = [*(saved.about.get("updates") or []), describe_data(graph, str(report))]
    about = {**saved.about, "updates": updates, "training": training}
    new = with_onnx(Saved(on_device.to(torch.device("cpu")), saved.encoders, about, pack(memory)))
    save_model(out, new)
    return new


def _label_accuracy(model: Model, graph: Graph) -> tuple[float, float] | None:
    """Accuracy on the labelled nodes, from features and with links; None without labels."""
    known = graph.labels != UNKNOWN
    if not known.any():
        return None
    features, links = (
        float((p.argmax(axis=1)[known] == graph.labels[known]).mean())
        for p in (
            from_features(model, graph.features),
            with_links(model, graph.features, graph.all_links),
        )
    )
    return features, links


def _report_change(
    graph: Graph,
    before: tuple[float, float] | None,
    after: tuple[float, float] | None,
    callback: Callback,
) -> None:
    count = int((graph.labels != UNKNOWN).sum())
    callback.note(f"The update learned from {graph.n} nodes, {count} of them with labels.")
    if before is not None and after is not None:
        callback.note(
            f"It predicts {100 * after[0]:.1f} % of these labels from features "
            f"({100 * before[0]:.1f} % before) and {100 * after[1]:.1f} % with links "
            f"({100 * before[1]:.1f} % before). It learned from them, so this is no estimate for "
            "new rows."
        )
