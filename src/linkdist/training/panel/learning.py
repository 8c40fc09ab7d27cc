"""From an ensemble of teachers to one network.

1. Teachers learn from the labels of each view (`teachers`).
2. Validation nodes, labelled nodes whose labels a view does not know, calibrate each teacher and
   choose the weights of the mixture, by likelihood (`ensemble`, `likelihood`).
3. The target of a node is the mixture's prediction over the links of the view, or its known label.
4. A new forked MLP, the student, learns the targets from features: CE(z_i, t_i) + CE(s_i, t_j) for
   a node i and a random neighbour j. It is the model. Its learning rate decays to 0 over a cycle;
   with validation nodes of a split, a second, longer cycle follows, and the better one is kept.
5. Validation nodes calibrate the student: from features p ∝ p(z)^λ π^δ, with links
   p ∝ p(z)^κ (mean of p(s) over neighbours)^α π^ε, where the mean is geometric. The exponents
   maximise the likelihood. All of them except κ and α are folded into the weights of the two heads,
   so that the network itself predicts calibrated probabilities.

All replicas, those of folds and those that are kept, train at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import Graph, IntArray
from linkdist.data.splits import Split
from linkdist.model import Model, combine, logits
from linkdist.nn.aggregation import VisibleNeighbours
from linkdist.nn.inputs import Inputs
from linkdist.nn.network import ForkedMLP
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.history import History, Snapshot
from linkdist.training.link_task import loop_on_targets
from linkdist.training.loop import BATCH, Hyperparameters
from linkdist.training.panel.ensemble import (
    SINGLE,
    Predictions,
    Replica,
    TeacherEnsemble,
    log_p_of_labels,
    rows_of,
)
from linkdist.training.panel.likelihood import Array, calibrated, fit_exponents
from linkdist.training.panel.teachers import (
    HOPS,
    Classifier,
    LabelSpreading,
    Teacher,
    TeachingContext,
    boosting_teachers,
    has_few_columns,
    linear_teachers,
)

FRESH = 1 << 20
"""Difference between the seeds of a student and of its replica."""
CYCLES = (30, 60)
"""How often each cycle visits a node; folds have only the first cycle."""
FEWEST_STEPS = 90
"""Minimum number of steps of the first cycle: with few nodes, each is visited more often."""
MOST_STEPS = 450
"""Maximum number of steps with folds: with many nodes, each is visited less often."""
TOGETHER = (0.5, 0.5)
"""The exponents of a node's own prediction and its neighbours' without validation nodes."""
LOWEST = 0.05
"""The smallest λ: below it, predictions would be almost uniform."""
SMALLEST_ALPHA = 1e-3
"""The α below which links are ignored."""


@dataclass(frozen=True)
class Panel:
    """The result of training a panel.

    Attributes
    ----------
    model : Model
        The kept replicas, calibrated.
    history : History
        Accuracy on the validation nodes after each cycle.
    visits : int
        How often the student visited each node.
    mixture : mapping of str to float
        The weight of each teacher in the targets, averaged over kept replicas.
    predictions : mapping of str to mapping of str to Predictions
        Predictions of validation nodes, by what the nodes represent ('new row', 'known row',
        'validation'), then by model: 'features' and 'links' are the student, the others teachers.
    ensemble : TeacherEnsemble
        The teachers.
    """

    model: Model
    history: History
    visits: int
    mixture: Mapping[str, float]
    predictions: Mapping[str, Mapping[str, Predictions]]
    ensemble: TeacherEnsemble


def train_panel(
    graph: Graph,
    replicas: Sequence[Replica],
    inputs: Inputs,
    run: TrainingRun,
    *,
    cycles: Sequence[int] | None = None,
    teachers: Sequence[Any] = (),
    splits: Sequence[Split] = (),
    hyper: Hyperparameters | None = None,
) -> Panel:
    """Train teachers and students.

    Parameters
    ----------
    graph : Graph
        The graph with all labels; each replica sees its view of it.
    replicas : sequence of Replica
        The result of `validation_replicas`, `fold_replicas` or `held_out_replicas`.
    inputs : Inputs
        The graph's features on a device.
    run : TrainingRun
        Progress and checkpoint.
    cycles : sequence of int, optional
        How often each cycle visits a node; by default `cycles_for`.
    teachers : sequence of classifiers, optional
        Additional teachers: scikit-learn classifiers with `predict_proba`, on the features.
    splits : sequence of Split, optional
        The splits of the kept replicas, to record their validation and test accuracies.
    hyper : Hyperparameters, optional
        Hyperparameters of the student.
    """
    folds = any(replica.kind != "kept" for replica in replicas)
    hyper = hyper or Hyperparameters()
    cycles = cycles or cycles_for(len(replicas[-1].view.nodes), folds, hyper.batch)
    taught = sorted({replica.taught_by for replica in replicas})
    context = TeachingContext(graph, [replicas[r].view for r in taught], inputs)
    ensemble = TeacherEnsemble(graph, replicas, context, assemble(context, teachers))
    once = folds or not ensemble.scored
    student = Student(ensemble, inputs, cycles[:1] if once else cycles, splits, hyper)
    student.train(run)
    return student.panel()


def cycles_for(nodes: int, folds: bool = False, batch: int = BATCH) -> tuple[int, ...]:
    """How often each cycle visits a node; with folds there is one cycle.

    Examples
    --------
    >>> cycles_for(20_000), cycles_for(1000)
    ((30, 60), (90, 180))
    >>> cycles_for(20_000, folds=True), cycles_for(1000, folds=True)
    ((22,), (90,))
    """
    steps = -(-nodes // batch)
    if folds and steps * CYCLES[0] > MOST_STEPS:
        return (max(1, MOST_STEPS // steps),)
    more = max(1, -(-FEWEST_STEPS // (steps * CYCLES[0])))
    return tuple(more * cycle for cycle in (CYCLES[:1] if folds else CYCLES))


def assemble(context: TeachingContext, classifiers: Sequence[Any] = ()) -> list[list[Teacher]]:
    """The teachers, in groups that differ in regularisation only."""
    links = context.graph.links
    linked = bool((links[:, 0] != links[:, 1]).any())
    hops = HOPS if linked else (0,)
    groups: list[list[Teacher]] = [list(group) for group in linear_teachers(context, hops)]
    if linked:
        groups.append([LabelSpreading(context)])
    if has_few_columns(context.graph.features):
        groups += [[teacher] for teacher in boosting_teachers(context, linked)]
    names: list[str] = []
    for template in classifiers:
        name = type(template).__name__
        names.append(name)
        number = "" if names.count(name) == 1 else f" {names.count(name)}"
        groups.append([Classifier(context, template, name + number)])
    return groups


class Student:
    """The networks that learn the targets: those that are kept, and those of folds."""

    KEEP_EVERY = 5
    """Number of visits between checkpoints."""

    def __init__(
        self,
        ensemble: TeacherEnsemble,
        inputs: Inputs,
        cycles: Sequence[int],
        splits: Sequence[Split],
        hyper: Hyperparameters,
    ) -> None:
        self.ensemble, self.inputs, self.cycles, self.hyper = ensemble, inputs, cycles, hyper
        graph, replicas = ensemble.graph, ensemble.replicas
        self.seeds = [replica.seed + FRESH for replica in replicas]
        self.network = hyper.network(graph.d, graph.C, self.seeds, inputs.device)
        self.best = Snapshot(self.network)
        self.lowest = torch.full((len(self.seeds),), torch.inf, device=inputs.device)
        self.tests = bool(splits)
        self.scored = [
            r
            for r, replica in enumerate(replicas)
            if splits or (len(replica.validation) and replica.kind != "known row")
        ]
        none = np.array([], dtype=np.int64)
        own = [Split(replicas[r].view.train, replicas[r].validation, none) for r in self.scored]
        self.history = History(graph, splits or own, inputs.device, rule="marked")
        self.visits = 0

    def train(self, run: TrainingRun) -> None:
        """Train the cycles, until one of them improves no replica."""
        targets, hyper = self.ensemble.targets(), self.hyper
        views = [replica.view for replica in self.ensemble.replicas]
        start, total = 0, sum(self.cycles)
        for cycle in self.cycles:
            end = start + cycle
            if run.done <= end:
                options = hyper.batch, hyper.rate("selflinkdist"), hyper.decays("selflinkdist")
                loop = loop_on_targets(
                    self.network, self.inputs, views, self.seeds, targets, cycle, *options
                )
                adam = {f"adam.{name}": tensor for name, tensor in loop.adam.state().items()}
                state = {**self.state(), **adam}
                if run.done > start:
                    run.resume(state, self.history)

                def after(visit: int, live: dict[str, Tensor] = state, end: int = end) -> None:
                    keep = (visit + 1) % self.KEEP_EVERY == 0 or visit + 1 == end
                    run.after(visit + 1, total, {**live, **self.history.state()} if keep else None)

                loop.run(end, after, start=max(start, run.done))
                self.visits = end
                if not self.evaluate():
                    break
            start = end
        self.best.restore()
        if self.visits < total:
            run.after(total, total, None)

    def state(self) -> dict[str, Tensor]:
        """The live tensors that the rest of the training depends on, except Adam's."""
        network = self.network.state_dict(prefix="network.")
        return {**network, **self.best.state(), "lowest": self.lowest}

    @torch.no_grad()
    def evaluate(self) -> bool:
        """Compare the current weights with the best on validation nodes; True if any improved."""
        z, s = self.log_p()
        nodes = [replica.validation for replica in self.ensemble.replicas]
        calibration = Calibration.of(self.ensemble, *self.rows(z, s, nodes))
        loss = torch.from_numpy(calibration.loss).to(self.lowest)
        better = loss < self.lowest
        self.lowest.copy_(torch.where(better, loss, self.lowest))
        self.best.keep(better)
        if self.scored:
            links = self.ensemble.context.neighbours if self.tests else self.links()
            own, linked = calibration.scores(z, links.mean(s))
            self.history.record("features", own[self.scored])
            self.history.record("mean", linked[self.scored])
            self.history.mark(better[self.scored])
        return bool(better.any())

    def log_p(self) -> tuple[Tensor, Tensor]:
        """Predictions log p(z) and log p(s) of all nodes, (R, n, C)."""
        z, s = logits(self.network, self.inputs)
        return z.log_softmax(-1), s.log_softmax(-1)

    def links(self) -> VisibleNeighbours:
        """The links among the nodes that are visible when validation nodes are predicted."""
        return self.ensemble.context.among([replica.present for replica in self.ensemble.replicas])

    def rows(
        self, z: Tensor, s: Tensor, nodes: Sequence[IntArray]
    ) -> tuple[list[Array], list[Array]]:
        """For some nodes of each replica: log p(z), and the neighbours' mean of log p(s)."""
        return rows_of(z, nodes), rows_of(self.links().mean(s), nodes)

    @torch.no_grad()
    def panel(self) -> Panel:
        """The calibrated model, and the predictions of validation nodes."""
        ensemble, replicas = self.ensemble, self.ensemble.replicas
        z, s = self.log_p()
        own, neighbour = self.rows(z, s, [replica.validation for replica in replicas])
        calibration = Calibration.of(ensemble, own, neighbour)
        predictions: dict[str, dict[str, Predictions]] = {}
        for kind in ("new row", "known row", "kept"):
            users = [r for r, q in enumerate(replicas) if q.kind == kind and len(q.validation)]
            if not users:
                continue
            name = "validation" if kind == "kept" else kind
            labels = ensemble.labels(users)
            predictions[name] = calibration.predictions(users, own, neighbour, labels)
            if kind != "known row":
                for g, group in enumerate(ensemble.groups):
                    predictions[name][group[0].name] = ensemble.predictions(g)
        kept = [r for r, replica in enumerate(replicas) if replica.kind == "kept"]
        if any(len(replicas[r].known) for r in kept):
            labels = ensemble.graph.labels[np.concatenate([replicas[r].known for r in kept])]
            rows = self.rows(z, s, [replica.known for replica in replicas])
            predictions["known row"] = calibration.predictions(kept, *rows, labels)
        model = calibrate(self.network, kept, calibration, ensemble.graph)
        return Panel(model, self.history, self.visits, ensemble.mixture(), predictions, ensemble)


@dataclass(frozen=True)
class Calibration:
    """The exponents of R replicas.

    Attributes
    ----------
    alone : (R, 2) array
        λ and δ.
    linked : (R, 3) array
        κ, α and ε.
    log_prior : (R, C) array
        log π.
    loss : (R,) array
        The mean of -log p of the validation labels, from features; 0 without any.
    """

    alone: Array
    linked: Array
    log_prior: Array
    loss: Array

    @classmethod
    def of(
        cls, ensemble: TeacherEnsemble, own: Sequence[Array], neighbour: Sequence[Array]
    ) -> Calibration:
        """The exponents with the highest likelihood on the labels that calibrate each replica.

        Parameters
        ----------
        ensemble : TeacherEnsemble
            The replicas and their validation nodes.
        own, neighbour : sequence of (N, C) arrays
            For each replica, log p(z) of its validation nodes, and the mean of log p(s) over
            their neighbours.
        """
        rows: list[tuple[Array, Array, Array, float]] = []
        none = np.empty((0, ensemble.graph.C))
        for r, replica in enumerate(ensemble.replicas):
            used, estimated = (
                ensemble.calibrating(replica.calibrated_by),
                ensemble.estimated_prior[r],
            )
            labels = ensemble.labels(replica.calibrated_by)[used]
            log_prior = ensemble.class_prior(replica) if estimated is None else estimated
            z, s = (
                np.concatenate([none, *(log_p[k] for k in replica.calibrated_by)])[used]
                for log_p in (own, neighbour)
            )
            alone = fit_exponents(z[None], log_prior, labels, SINGLE)
            alone[0] = max(alone[0], LOWEST)
            linked = fit_exponents(np.stack([z, s]), log_prior, labels, TOGETHER)
            if linked[1] < SMALLEST_ALPHA:
                linked = np.array([alone[0], 0.0, alone[1]])
            loss = -log_p_of_labels(calibrated(z[None], log_prior, alone), labels)
            if estimated is not None:
                alone[-1] += 1  # unlabelled nodes are not balanced as the labels are
                linked[-1] += 1
            rows.append((alone, linked, log_prior, float(loss.mean()) if len(labels) else 0.0))
        return cls(*(np.array(part) for part in zip(*rows, strict=True)))

    def features(self, r: int, own: Array) -> Array:
        """A replica's calibrated log-probabilities (N, C) from features."""
        return calibrated(own[None], self.log_prior[r], self.alone[r])

    def links(self, r: int, own: Array, neighbour: Array) -> Array:
        """The same with links; from features for a node without links."""
        linked = calibrated(np.stack([own, neighbour]), self.log_prior[r], self.linked[r])
        return np.where(neighbour.any(axis=1, keepdims=True), linked, self.features(r, own))

    def predictions(
        self, users: Sequence[int], own: Sequence[Array], neighbour: Sequence[Array], y: IntArray
    ) -> dict[str, Predictions]:
        """The predictions of some replicas, from features and with links, with the classes y."""
        features = [self.features(r, own[r]) for r in users]
        links = [self.links(r, own[r], neighbour[r]) for r in users]
        modes = {"features": features, "links": links}
        return {mode: Predictions(np.concatenate(rows), y) for mode, rows in modes.items()}

    def scores(self, z: Tensor, neighbour: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (R, n, C) from features and with links, from log p(z) and the neighbours' mean."""
        alone, linked, log_prior = (
            torch.from_numpy(part).to(z) for part in (self.alone, self.linked, self.log_prior)
        )
        log_prior = log_prior.unsqueeze(1)
        features = alone[:, 0].view(-1, 1, 1) * z + alone[:, 1].view(-1, 1, 1) * log_prior
        kappa, alpha, epsilon = linked.unbind(1)
        links = combine(z, neighbour, alpha, kappa) + epsilon.view(-1, 1, 1) * log_prior
        return features, torch.where(neighbour.any(-1, keepdim=True), links, features)


@torch.no_grad()
def calibrate(
    network: ForkedMLP, kept: Sequence[int], calibration: Calibration, graph: Graph
) -> Model:
    """A calibrated model of the replicas `kept` of a network.

    With z' = λ z + δ log π in the weights of the own head, κ log p(z) is κ / λ · log p(z') up to a
    multiple of log π. The bias of the neighbour head adds this multiple: a constant passes through
    the mean.
    """
    device, index = network.first.weight.device, list(kept)
    small = ForkedMLP(graph.d, graph.C, range(len(index)), network.hidden, network.dropout)
    small = small.to(device)
    small.load_state_dict({name: tensor[index] for name, tensor in network.state_dict().items()})
    alone, linked, log_prior = (
        torch.from_numpy(part[index]).float().to(device)
        for part in (calibration.alone, calibration.linked, calibration.log_prior)
    )
    scale, delta = alone[:, :1], alone[:, 1:]  # (R, 1)
    kappa, alpha, epsilon = linked.unbind(1)
    kappa = kappa / scale.squeeze(1)
    own, neighbour = small.own.linear, small.neighbour.linear
    assert own.bias is not None
    assert neighbour.bias is not None
    own.weight.mul_(scale.unsqueeze(-1))
    own.bias.mul_(scale.unsqueeze(-1)).add_((delta * log_prior).unsqueeze(1))
    rest = (epsilon - kappa * delta.squeeze(1)) / alpha.clamp(min=1e-9)
    multiple = torch.where(alpha > 0, rest, 0.0)
    neighbour.bias.add_((multiple.unsqueeze(1) * log_prior).unsqueeze(1))
    return Model(small, alpha, graph.classes, kappa)
