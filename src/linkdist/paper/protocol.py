"""The evaluation protocol of the paper, and the measurement of one method beside a plain MLP.

Each cell has ten runs with the seeds 0 to 9 and, where splits are random, a split for each run. The
score of a run is the test accuracy at the first epoch with the highest validation accuracy. All
runs of a cell are replicas of one training, and one training may give several cells: LinkDistMLP
and LinkDist are two prediction modes of the same network, and the GCN is the teacher of GCN2MLP.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.datasets import load_dataset
from linkdist.data.graph import Graph, largest_component
from linkdist.data.splits import PROTOCOLS, Split, View, glnn_split, named_split, observe
from linkdist.errors import check_names
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.paper.baselines import (
    EPOCHS,
    GCN,
    MLP,
    NodeLoss,
    ViewGraph,
    label_loss,
    teacher_loss,
    train_gcn,
    train_on_nodes,
)
from linkdist.paper.published import TRAININGS, published
from linkdist.progress import Callback, Progress
from linkdist.training.fit import METHODS, Fit, fit
from linkdist.training.history import Best, History
from linkdist.training.loop import find_device

Entry: TypeAlias = dict[str, Any]
"""A record as in results.json."""

Outcome: TypeAlias = dict[str, tuple[Best, Entry]]
"""The scores of each method of a training, and further fields of its record."""


@dataclass(frozen=True)
class Task:
    """A graph, a setting, a split for each run, and the features on the training device."""

    graph: Graph
    setting: str
    seeds: tuple[int, ...]
    splits: tuple[Split, ...]
    inputs: Inputs
    progress: Progress

    @property
    def device(self) -> torch.device:
        """The device for training."""
        return self.inputs.device

    @cached_property
    def views(self) -> list[View]:
        """What training may see in each run."""
        return [observe(self.graph, split, self.setting) for split in self.splits]

    @cached_property
    def history(self) -> History:
        """The evaluation history of the methods that are trained on this task."""
        return History(self.graph, self.splits, self.device)

    def fit(self, method: str, **options: Any) -> Fit:  # noqa: ANN401
        """Train one of the methods of `linkdist.fit`."""
        return fit(
            self.graph,
            self.splits,
            self.setting,
            method=method,
            seeds=self.seeds,
            device=self.device.type,
            inputs=self.inputs,
            progress=self.progress,
            **options,
        )


def graph_of(graph: Graph, protocol: str) -> Graph:
    """Return the graph that a protocol uses; GLNN's protocol uses the largest component.

    Examples
    --------
    >>> graph = Graph.build([[1.0], [2.0], [3.0]], [(0, 1)], [0, 1, 0])
    >>> graph_of(graph, "paper").n, graph_of(graph, "glnn").n
    (3, 2)
    """
    return largest_component(graph) if protocol == "glnn" else graph


def make_task(
    graph: Graph,
    setting: str,
    seeds: Sequence[int],
    inputs: Inputs,
    data: str | Path | None = None,
    progress: Progress = lambda done, total: None,
    protocol: str = "paper",
) -> Task:
    """Return a task with the splits of the paper or of GLNN, one for each seed.

    Examples
    --------
    >>> from linkdist.data.datasets import load_dataset
    >>> from linkdist.nn.inputs import make_inputs
    >>> graph = load_dataset("digits")
    >>> inputs = make_inputs(graph.features, torch.device("cpu"))
    >>> task = make_task(graph, "inductive", [3, 4], inputs)
    >>> len(task.splits), len(task.views[0].nodes)
    (2, 997)
    """
    if protocol == "glnn":
        splits = tuple(glnn_split(graph, setting, seed) for seed in seeds)
    else:
        splits = tuple(named_split(graph, setting, seed, data) for seed in seeds)
    return Task(graph, setting, tuple(seeds), splits, inputs, progress)


def measure(
    name: str,
    *,
    method: str = "selflinkdist",
    protocol: str = "paper",
    setting: str = "transductive",
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    device: str = "auto",
    data: Path | None = None,
    callback: Callback | None = None,
) -> Entry:
    """Train a plain MLP and a method on a named data set, and return their accuracies.

    Parameters
    ----------
    name : str
        A key of `linkdist.data.datasets.DATASETS`.
    method : {'selflinkdist', 'linkdist', 'colinkdist'}
        The training method.
    protocol, setting : str
        A key of `linkdist.data.splits.PROTOCOLS`, and one of its settings.
    seeds : sequence of int, length R
        One replica is trained for each seed.
    epochs : int, optional
        Number of epochs, by default the method's own.
    device : {'auto', 'cpu', 'cuda'}
        Where to compute.
    data : Path, optional
        The folder that contains the raw files.
    callback : Callback, optional
        Receives the progress.

    Returns
    -------
    dict
        A record that can be written as JSON. `scores` maps each model to its accuracies in percent
        and its best epochs, R values each.

    Examples
    --------
    >>> record = measure("digits", method="linkdist", epochs=1)  # doctest: +SKIP
    >>> list(record["scores"])  # doctest: +SKIP
    ['plain MLP', 'linkdist, from features', 'linkdist, with links']
    """
    check_names("method", [method], METHODS)
    check_names("protocol", [protocol], tuple(PROTOCOLS))
    check_names("setting", [setting], PROTOCOLS[protocol])
    callback = callback or Callback()
    where = find_device(device)
    graph = graph_of(load_dataset(name, data), protocol)
    inputs = make_inputs(graph.features, where)
    task = make_task(graph, setting, seeds, inputs, data, callback.progress, protocol)
    callback.stage("a plain MLP")
    plain = train_plain_mlp(task)
    callback.stage(method)
    result = task.fit(method, epochs=epochs)
    best = {
        "plain MLP": plain,
        f"{method}, from features": result.history.best("features"),
        f"{method}, with links": result.history.best("mean"),
    }
    return {
        "dataset": name,
        "protocol": protocol,
        "setting": setting,
        "method": method,
        "seeds": list(seeds),
        "epochs": result.epochs,
        "evaluations": len(result.history.curve("features")),
        "seconds": round(result.seconds, 3),
        "device": where.type,
        "precision": result.precision,
        "scores": {
            model: {
                "validation": _percent(found.validation),
                "test": _percent(found.test),
                "best_epochs": found.epochs.tolist(),
            }
            for model, found in best.items()
        },
    }


def run_task(training: str, methods: Sequence[str], task: Task) -> list[Entry]:
    """Train once, and return a record for each requested method of the training.

    Parameters
    ----------
    training : {'MLP', 'GCN', 'LinkDist', 'CoLinkDist'}
        A key of `TRAININGS`.
    methods : sequence of str
        Names of methods; those that do not come from this training are ignored.
    task : Task
        The graph, the setting and the splits.

    Returns
    -------
    list of dict
        Records as in results.json.
    """
    started = time.perf_counter()
    requested = [method for method in TRAININGS[training] if method in methods]
    outcome = _train(training, requested, task)
    seconds = time.perf_counter() - started
    return [_record(task, method, seconds, *outcome[method]) for method in requested]


def train_plain_mlp(task: Task) -> Best:
    """Train the MLP baseline."""
    nodes = [view.train for view in task.views]
    return _train_mlp("MLP", task, nodes, label_loss(task.views, task.device))


def _train(training: str, requested: Sequence[str], task: Task) -> Outcome:
    if training in ("LinkDist", "CoLinkDist"):
        result = task.fit(training.lower())
        features, mean, total = (result.history.best(mode) for mode in ("features", "mean", "sum"))
        precision = {"precision": result.precision}
        sums = {"sum_of_logits": _percent(total.test)}
        return {f"{training}MLP": (features, precision), training: (mean, precision | sums)}
    best = {"MLP": train_plain_mlp(task)} if training == "MLP" else _train_gcn(requested, task)
    precision = {"precision": task.inputs.precision}
    return {method: (scores, precision) for method, scores in best.items()}


def _train_gcn(requested: Sequence[str], task: Task) -> dict[str, Best]:
    teacher = _train_teacher(task)
    best = {"GCN": task.history.best("GCN")}
    if "GCN2MLP" in requested:
        everyone = np.arange(task.graph.n)
        hidden = [np.r_[split.validation, split.test] for split in task.splits]
        nodes = [np.setdiff1d(everyone, nodes) for nodes in hidden]
        best["GCN2MLP"] = _train_mlp("GCN2MLP", task, nodes, teacher_loss(teacher))
    return best


def _train_mlp(method: str, task: Task, nodes: Sequence[np.ndarray], loss: NodeLoss) -> Best:
    network = MLP(task.graph.d, task.graph.C, task.seeds).to(task.device)

    @torch.no_grad()
    def after_epoch(epoch: int) -> None:
        z = network(task.inputs, task.history.nodes.unsqueeze(1))
        task.history.record_nodes(method, z.squeeze(1))
        task.progress(epoch + 1, EPOCHS)

    train_on_nodes(network, task.inputs, nodes, loss, task.seeds, after_epoch)
    return task.history.best(method)


def _train_teacher(task: Task) -> Tensor:
    """Train a GCN, and return its softmax output (R, n, C) at the best validation epoch.

    As in the evaluation, the GCN uses the whole graph, even in the inductive setting. The published
    numbers were made in this way; a teacher without the hidden links is weaker.
    """
    graph = task.graph
    everyone = Neighbours([graph.edges] * len(task.seeds), graph.n, task.device)
    network = GCN(graph.d, graph.C, task.seeds).to(task.device)
    taught = torch.zeros(len(task.seeds), graph.n, graph.C, device=task.device)

    @torch.no_grad()
    def after_epoch(epoch: int) -> None:
        z = network.whole(task.inputs, everyone)
        better = task.history.record("GCN", z).view(-1, 1, 1)
        torch.where(better, z.softmax(-1), taught, out=taught)
        task.progress(epoch + 1, EPOCHS)

    seen = ViewGraph(task.views, task.device)
    train_gcn(network, task.inputs, seen, task.seeds, after_epoch)
    return taught


def _percent(scores: npt.NDArray[np.floating]) -> list[float]:
    percent: list[float] = (scores * 100).round(4).tolist()
    return percent


def _record(task: Task, method: str, seconds: float, best: Best, further: Entry) -> Entry:
    scores = _percent(best.test)
    paper = published(task.graph.name, task.setting, method)
    on_gpu = task.device.type == "cuda"
    return {
        "dataset": task.graph.name,
        "setting": task.setting,
        "method": method,
        "seeds": list(task.seeds),
        "scores": scores,
        "mean": round(float(np.mean(scores)), 4),
        "std": round(float(np.std(scores, ddof=1)), 4) if len(scores) > 1 else 0.0,
        "best_epochs": best.epochs.tolist(),
        "published_mean": paper.mean if paper else None,
        "published_std": paper.std if paper else None,
        "seconds": round(seconds, 3),
        "device": torch.cuda.get_device_name(task.device) if on_gpu else "cpu",
        **further,
    }
