"""From a panel of teachers to one network.

1. Teachers learn from each view's labels (`teachers`).
2. Judges, labelled nodes that a view does not know, calibrate each teacher and choose the
   teachers' shares, by likelihood (`faculty`, `mixing`).
3. The target of a node is the mixture of the teachers over the view's links; a known label stands
   in its place.
4. A fresh forked MLP, the student, learns the targets from features: CE(z_i, t_i) + CE(s_i, t_j)
   for a node i and a random neighbour j. It is what is kept. Its learning rate falls to nothing
   over a cycle; where validation nodes judge, a second, longer cycle follows, and the better end
   is kept.
5. Judges calibrate the student from features and with links (`calibration`).

All replicas, those that folds judge and those that are kept, train side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import Graph
from linkdist.data.splits import Split
from linkdist.model import Model, logits
from linkdist.nn.aggregation import VisibleNeighbours
from linkdist.nn.inputs import Inputs
from linkdist.training.history import History
from linkdist.training.hyperparameters import Hyperparameters
from linkdist.training.loop import BATCH
from linkdist.training.panel.calibration import Calibration, calibrate
from linkdist.training.panel.faculty import Faculty, Judgement, picked
from linkdist.training.panel.mixing import Array
from linkdist.training.panel.replicas import Replica
from linkdist.training.panel.teachers import (
    Classifier,
    LabelSpreading,
    Lesson,
    Teacher,
    boosting_teachers,
    has_few_columns,
    linear_teachers,
    masks,
)
from linkdist.training.stages import Course, Snapshot
from linkdist.training.targets import loop_on_targets

FRESH = 1 << 20
"""How far a student's seeds are from those of the replica."""
CYCLES = (30, 60)
"""Visits of each node in the students' cycles; folds have the first alone."""
FEWEST_STEPS = 90
"""Steps of a first cycle: where nodes are few, each of them is visited more often."""
MOST_STEPS = 450
"""Steps of a cycle that folds judge: where nodes are many, each of them is visited less often."""


@dataclass(frozen=True)
class Panel:
    """What a panel leaves.

    Attributes
    ----------
    model : Model
        The kept replicas, calibrated.
    history : History
        Accuracy of the judges after each cycle, or of the folds.
    visits : int
        How often the student visited each node.
    mixture : mapping of str to float
        The share of each teacher in the targets, the mean over kept replicas.
    judged : mapping of str to mapping of str to Judgement
        Predictions of the judges by what they stand for ('new row', 'known row', 'validation'),
        then by who predicts: 'features' and 'links' are the student's, the others teachers'.
    faculty : Faculty
        The teachers.
    """

    model: Model
    history: History
    visits: int
    mixture: Mapping[str, float]
    judged: Mapping[str, Mapping[str, Judgement]] = field(default_factory=dict)
    faculty: Faculty | None = None


def train_panel(
    graph: Graph,
    replicas: Sequence[Replica],
    inputs: Inputs,
    course: Course,
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
        Everything that is known; each replica sees its view of it.
    replicas : sequence of Replica
        As `validated` or `folded` gives them.
    inputs : Inputs
        The graph's features on a device.
    course : Course
        Progress and checkpoint.
    cycles : sequence of int, optional
        Visits of each node in the students' cycles; by default those of `cycles_for`.
    teachers : sequence of classifiers, optional
        More teachers: scikit-learn classifiers with `predict_proba`, on the features.
    splits : sequence of Split, optional
        Of the kept replicas, whose validation and test accuracies the history records.
    hyper : Hyperparameters, optional
        Hyperparameters of the student.
    """
    hyper = hyper or Hyperparameters()
    folds = any(replica.kind != "kept" for replica in replicas)
    cycles = cycles or cycles_for(len(replicas[-1].view.nodes), folds, hyper.batch)
    places = sorted({replica.taught_by for replica in replicas})
    lesson = Lesson(graph, [replicas[place].view for place in places], inputs)
    faculty = Faculty(graph, replicas, lesson, assemble(lesson, teachers))
    once = folds or not faculty.judged
    student = Student(faculty, inputs, cycles[:1] if once else cycles, splits, hyper)
    student.train(course)
    return student.panel()


def cycles_for(nodes: int, folds: bool = False, batch: int = BATCH) -> tuple[int, ...]:
    """Visits of each node in the cycles; one cycle where folds judge.

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


def assemble(lesson: Lesson, classifiers: Sequence[Any] = ()) -> list[list[Teacher]]:
    """The teachers; those that differ in strength alone are one group."""
    links = lesson.graph.links
    linked = bool((links[:, 0] != links[:, 1]).any())
    hops = {"hops": (0,)} if not linked else {}
    groups: list[list[Teacher]] = [list(group) for group in linear_teachers(lesson, **hops)]
    if linked:
        groups.append([LabelSpreading(lesson)])
    if has_few_columns(lesson.graph.features):
        groups += [[teacher] for teacher in boosting_teachers(lesson, linked)]
    names: list[str] = []
    for template in classifiers:
        name = type(template).__name__
        names.append(name)
        number = "" if names.count(name) == 1 else f" {names.count(name)}"
        groups.append([Classifier(lesson, template, name + number)])
    return groups


class Student:
    """The networks that learn the targets: those that are kept, and those that folds judge."""

    KEEP_EVERY = 5
    """Visits after which the state is kept."""

    def __init__(
        self,
        faculty: Faculty,
        inputs: Inputs,
        cycles: Sequence[int],
        splits: Sequence[Split] = (),
        hyper: Hyperparameters | None = None,
    ) -> None:
        self.faculty, self.inputs, self.cycles = faculty, inputs, cycles
        self.hyper = hyper = hyper or Hyperparameters()
        graph, replicas = faculty.graph, faculty.replicas
        self.seeds = [replica.seed + FRESH for replica in replicas]
        self.network = hyper.network(graph.d, graph.C, self.seeds, inputs.device)
        self.best = Snapshot(self.network)
        self.lowest = torch.full((len(self.seeds),), torch.inf, device=inputs.device)
        self.tests = bool(splits)
        self.scored = [
            r
            for r, replica in enumerate(replicas)
            if splits or (len(replica.judges) and replica.kind != "known row")
        ]
        judged = splits or [split_of(replicas[r]) for r in self.scored]
        self.history = History(graph, judged, inputs.device, rule="marked")
        self.visits = 0

    def train(self, course: Course) -> None:
        """Go through the cycles, as long as one of them makes a replica better."""
        targets, hyper = self.faculty.targets(), self.hyper
        views = [replica.view for replica in self.faculty.replicas]
        start, total = 0, sum(self.cycles)
        for cycle in self.cycles:
            end = start + cycle
            if course.done <= end:
                how = hyper.batch, hyper.rate("selflinkdist"), hyper.decays("selflinkdist")
                loop = loop_on_targets(
                    self.network, self.inputs, views, self.seeds, targets, cycle, *how
                )
                state = {**self.state(), **_named("adam", loop.adam.state())}
                if course.done > start:
                    load(state, course.tensors)
                    self.history.load(course.tensors)

                def after(visit: int, live: dict[str, Tensor] = state, end: int = end) -> None:
                    keep = (visit + 1) % self.KEEP_EVERY == 0 or visit + 1 == end
                    course.after(
                        visit + 1, total, {**live, **self.history.state()} if keep else None
                    )

                loop.run(end, after, start=max(start, course.done))
                self.visits = end
                if not self.evaluate():
                    break
            start = end
        self.best.restore()
        if self.visits < total:
            course.after(total, total, None)

    def state(self) -> dict[str, Tensor]:
        """The live tensors that the rest of the training depends on, but for Adam's."""
        kept = {f"kept.{i}": tensor for i, tensor in enumerate(self.best.kept)}
        return {**self.network.state_dict(prefix="network."), **kept, "lowest": self.lowest}

    @torch.no_grad()
    def evaluate(self) -> bool:
        """Let the judges compare the present weights with the best; whether any are better."""
        z, s = (part.log_softmax(-1) for part in logits(self.network, self.inputs))
        found = Calibration.of(self.faculty, *self.heard(z, s))
        loss = torch.from_numpy(found.loss).to(self.lowest)
        better = loss < self.lowest
        self.lowest.copy_(torch.where(better, loss, self.lowest))
        self.best.keep(better)
        if self.scored:
            lesson = self.faculty.lesson
            word = lesson.neighbours.mean(s) if self.tests else self.around().mean(s)
            features, links = found.scores(z, word)
            self.history.record("features", features[self.scored])
            self.history.record("mean", links[self.scored])
            self.history.mark(better[self.scored])
        return bool(better.any())

    def around(self) -> VisibleNeighbours:
        """The links among the nodes that are there when judges are predicted."""
        lesson = self.faculty.lesson
        present = [replica.present for replica in self.faculty.replicas]
        return lesson.around(masks(present, self.faculty.graph.n).to(lesson.device))

    def heard(self, z: Tensor, s: Tensor) -> tuple[list[Array], list[Array]]:
        """What each replica says of its judges: log p of its own head, and the neighbours' mean."""
        nodes = [replica.judges for replica in self.faculty.replicas]
        return picked(z, nodes), picked(self.around().mean(s), nodes)

    @torch.no_grad()
    def panel(self) -> Panel:
        """The kept replicas, calibrated, and what the judges heard."""
        faculty, replicas = self.faculty, self.faculty.replicas
        z, s = (part.log_softmax(-1) for part in logits(self.network, self.inputs))
        own, word = self.heard(z, s)
        found = Calibration.of(faculty, own, word)
        judged: dict[str, dict[str, Judgement]] = {}
        for kind in ("new row", "known row", "kept"):
            places = [r for r, q in enumerate(replicas) if q.kind == kind and len(q.judges)]
            if not places:
                continue
            labels = faculty.labels(places)
            features = np.concatenate([found.features(r, own[r]) for r in places])
            links = np.concatenate([found.links(r, own[r], word[r]) for r in places])
            name = "validation" if kind == "kept" else kind
            judged[name] = {
                "features": Judgement(features, labels),
                "links": Judgement(links, labels),
            }
            if kind != "known row":
                names = [group[0].name for group in faculty.groups]
                judged[name] |= {name: faculty.opinion(g) for g, name in enumerate(names)}
        kept = [r for r, replica in enumerate(replicas) if replica.kind == "kept"]
        if any(len(replicas[r].known) for r in kept):
            judged["known row"] = self._known_rows(found, z, s, kept)
        model = calibrate(self.network, kept, found, faculty.graph)
        return Panel(model, self.history, self.visits, faculty.mixture(), judged, faculty)

    def _known_rows(
        self, found: Calibration, z: Tensor, s: Tensor, kept: Sequence[int]
    ) -> dict[str, Judgement]:
        """Predictions of nodes that are in the view without their labels."""
        replicas = self.faculty.replicas
        nodes = [replica.known for replica in replicas]
        own, word = picked(z, nodes), picked(self.around().mean(s), nodes)
        labels = np.concatenate([self.faculty.graph.labels[replicas[r].known] for r in kept])
        features = np.concatenate([found.features(r, own[r]) for r in kept])
        links = np.concatenate([found.links(r, own[r], word[r]) for r in kept])
        return {"features": Judgement(features, labels), "links": Judgement(links, labels)}


def split_of(replica: Replica) -> Split:
    """A replica's labels and judges as a split without test nodes."""
    return Split(replica.view.train, replica.judges, np.array([], dtype=np.int64))


def load(live: Mapping[str, Tensor], kept: Mapping[str, Tensor]) -> None:
    """Put a checkpoint's tensors in place."""
    with torch.no_grad():
        for name, tensor in live.items():
            tensor.copy_(kept[name])


def _named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}
