"""From an ensemble of teachers to one network.

1. Teachers learn from the labels of each view (`teachers`).
2. Validation nodes, labelled nodes whose labels a view does not know, calibrate each teacher and
   choose the weights of the mixture, by likelihood (`ensemble`, `likelihood`).
3. The target of a node is the mixture's prediction over the links of the view, or its known label.
4. A new forked MLP, the student, learns the targets from features: CE(z_i, t_i) + CE(s_i, t_j) for
   a node i and a random neighbour j. It is the model. Its learning rate decays to 0 over a cycle;
   with validation nodes of a split, a second, longer cycle follows, and the better one is kept.
5. Validation nodes calibrate the student (`calibration`).

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
from linkdist.model import Model, logits
from linkdist.nn.aggregation import VisibleNeighbours
from linkdist.nn.inputs import Inputs
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.history import History, Snapshot
from linkdist.training.link_task import loop_on_targets
from linkdist.training.loop import BATCH, Hyperparameters
from linkdist.training.measures import Measure
from linkdist.training.panel.calibration import Calibration, Rows, calibrate
from linkdist.training.panel.ensemble import Predictions, Replica, TeacherEnsemble, rows_of
from linkdist.training.panel.estimates import WITHOUT
from linkdist.training.panel.estimators import (
    Estimator,
    LabelSpreading,
    boosting_teachers,
    can_boost,
)
from linkdist.training.panel.relations import choose_strengths, relational_teachers
from linkdist.training.panel.teachers import HOPS, Teacher, TeachingContext, linear_teachers

FRESH = 1 << 20
"""Difference between the seeds of a student and of its replica."""
CYCLES = (30, 60)
"""How often each cycle visits a node; folds have only the first cycle."""
FEWEST_STEPS = 90
"""Minimum number of steps of the first cycle: with few nodes, each is visited more often."""
MOST_STEPS = 450
"""Maximum number of steps with folds: with many nodes, each is visited less often."""
MOST_FIRST_STEPS = 10_000
"""The same for the first cycle without folds, which large graphs reach; at least one visit."""
LONG_STEPS = 1600
"""Number of steps for numbers and rankings, which need more precise outputs than classes."""
LONG_VISITS = 400
"""The most visits of a node in these steps: with few nodes, more would only memorise them."""


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
    loss: str = "squared",
    measure: Measure | None = None,
    smooth: bool = False,
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
    loss : {'squared', 'absolute'}
        The error that a regression minimises.
    measure : Measure, optional
        By which validation nodes choose the cycle; by default by the loss.
    smooth : bool, optional
        Whether students learn predictions instead of labels, if most nodes are labelled.
    """
    folds = any(replica.kind != "kept" for replica in replicas)
    hyper = hyper or Hyperparameters()
    cycles = cycles or cycles_for(len(replicas[-1].view.nodes), folds, hyper.batch)
    taught = sorted({replica.taught_by for replica in replicas})
    context = TeachingContext(graph, [replicas[r].view for r in taught], inputs, loss)
    if len(graph.heads) > 1:
        strengths = choose_strengths(graph, replicas, context)
        context.strengths = torch.from_numpy(strengths).float().to(inputs.device)
    ensemble = TeacherEnsemble(graph, replicas, context, assemble(context, teachers))
    once = folds or not ensemble.scored
    chosen = cycles[:1] if once else cycles
    student = Student(ensemble, inputs, chosen, splits, hyper, measure, smooth)
    student.train(run)
    return student.panel()


def cycles_for(
    nodes: int, folds: bool = False, batch: int = BATCH, long: bool = False
) -> tuple[int, ...]:
    """How often each cycle visits a node; with folds there is one cycle.

    A long schedule has more steps, the same number for all but small graphs.

    Examples
    --------
    >>> cycles_for(20_000), cycles_for(1000), cycles_for(2_000_000)
    ((30, 60), (90, 180), (5, 10))
    >>> cycles_for(20_000, folds=True), cycles_for(1000, folds=True)
    ((22,), (90,))
    >>> cycles_for(20_000, folds=True, long=True), cycles_for(1000, long=True)
    ((80,), (400,))
    """
    steps = -(-nodes // batch)
    if long:
        return (max(CYCLES[0], min(LONG_STEPS // steps, LONG_VISITS)),)
    if folds and steps * CYCLES[0] > MOST_STEPS:
        return (max(1, MOST_STEPS // steps),)
    if steps * CYCLES[0] > MOST_FIRST_STEPS:
        first = max(1, MOST_FIRST_STEPS // steps)
        return (first, first * CYCLES[1] // CYCLES[0])
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
    if len(context.graph.heads) > 1 and (relational := relational_teachers(context)):
        groups.append(list(relational))
    graph = context.graph
    if can_boost(isinstance(graph.features, np.ndarray), graph.d, graph.n, graph.C):
        groups += [[teacher] for teacher in boosting_teachers(context, linked)]
    names: list[str] = []
    for template in classifiers:
        name = type(template).__name__
        names.append(name)
        number = "" if names.count(name) == 1 else f" {names.count(name)}"
        groups.append([Estimator(context, template, name + number)])
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
        measure: Measure | None = None,
        smooth: bool = False,
    ) -> None:
        self.measure, self.smooth = measure, smooth
        self.ensemble, self.inputs, self.cycles, self.hyper = ensemble, inputs, cycles, hyper
        graph, replicas = ensemble.graph, ensemble.replicas
        self.task = ensemble.context.task
        self.seeds = [replica.seed + FRESH for replica in replicas]
        sizes = (graph.d, graph.C, self.seeds, inputs.device, len(graph.heads))
        self.network = hyper.network(*sizes)
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
        targets, hyper = self.ensemble.targets(self.smooth), self.hyper
        views = [replica.view for replica in self.ensemble.replicas]
        start, total = 0, sum(self.cycles)
        for cycle in self.cycles:
            end = start + cycle
            if run.done <= end:
                options = hyper.batch, hyper.rate("selflinkdist"), hyper.decays("selflinkdist")
                loop = loop_on_targets(
                    self.network, self.inputs, views, self.seeds, targets, cycle, *options,
                    self.task,
                )  # fmt: skip
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
        z, s = self.outputs()
        nodes = [replica.validation for replica in self.ensemble.replicas]
        calibration = Calibration.of(self.ensemble, self.rows(z, s, nodes), measure=self.measure)
        loss = torch.from_numpy(calibration.loss).to(self.lowest)
        better = loss < self.lowest
        self.lowest.copy_(torch.where(better, loss, self.lowest))
        self.best.keep(better)
        if self.scored:
            links = self.ensemble.context.neighbours if self.tests else self.links()
            z, beside, linked = map(self._scored_nodes, (z, links.means(s), links.linked))
            features, linked = calibration.scores(z, beside, linked, self.scored)
            self.history.record_nodes("features", features)
            self.history.record_nodes("mean", linked)
            self.history.mark(better[self.scored])
        return bool(better.any())

    def _scored_nodes(self, x: Tensor) -> Tensor:
        """The nodes of the history, (..., R or 1, n, f) → (..., R', N, f)."""
        x = x.expand(*x.shape[:-3], len(self.seeds), *x.shape[-2:])
        x, nodes = x[..., self.scored, :, :], self.history.nodes.unsqueeze(-1)
        return x.gather(-2, nodes.expand(*x.shape[:-2], -1, x.shape[-1]))

    def outputs(self) -> tuple[Tensor, Tensor]:
        """Natural parameters of all nodes: z (R, n, C) and s (K, R, n, C)."""
        z, s = logits(self.network, self.inputs)
        return self.task.natural(z), self.task.natural(s)

    def links(self) -> VisibleNeighbours:
        """The links among the nodes that are visible when validation nodes are predicted."""
        replicas, ensemble = self.ensemble.replicas, self.ensemble
        return ensemble.context.among([replica.present for replica in replicas], ensemble.view_of)

    def rows(self, z: Tensor, s: Tensor, nodes: Sequence[IntArray]) -> list[Rows]:
        """What some nodes of each replica, and their neighbours, predict for these nodes."""
        links = self.links()
        beside = zip(*(rows_of(part, nodes) for part in links.means(s)), strict=True)
        linked = zip(*(rows_of(part, nodes) for part in links.linked), strict=True)
        parts = zip(rows_of(z, nodes), beside, linked, strict=True)
        return [Rows(own, np.stack(others), np.stack(has) > 0) for own, others, has in parts]

    @torch.no_grad()
    def panel(self) -> Panel:
        """The calibrated model, and the predictions of validation nodes."""
        ensemble, replicas = self.ensemble, self.ensemble.replicas
        z, s = self.outputs()
        rows = self.rows(z, s, [replica.validation for replica in replicas])
        calibration = Calibration.of(ensemble, rows)
        predictions: dict[str, dict[str, Predictions]] = {}
        for kind in ("new row", "known row", "kept"):
            users = [r for r, q in enumerate(replicas) if q.kind == kind and len(q.validation)]
            if not users:
                continue
            name = "validation" if kind == "kept" else kind
            labels = ensemble.labels(users)
            predictions[name] = calibration.predictions(users, rows, labels)
            heads = ensemble.graph.heads
            if kind != "known row" and len(heads) > 1:
                for k, head in enumerate(heads):
                    other = Calibration.of(ensemble, rows, without=k)
                    left = other.predictions(users, rows, labels)["links"]
                    predictions[name][WITHOUT + head] = left
            if kind != "known row":
                for g, group in enumerate(ensemble.groups):
                    predictions[name][group[0].name] = ensemble.predictions(g)
        kept = [r for r, replica in enumerate(replicas) if replica.kind == "kept"]
        if any(len(replicas[r].known) for r in kept):
            labels = ensemble.graph.labels[np.concatenate([replicas[r].known for r in kept])]
            known = self.rows(z, s, [replica.known for replica in replicas])
            predictions["known row"] = calibration.predictions(kept, known, labels)
        model = calibrate(self.network, kept, calibration, ensemble.graph)
        return Panel(model, self.history, self.visits, ensemble.mixture(), predictions, ensemble)
