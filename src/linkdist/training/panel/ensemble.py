"""The ensemble of teachers: calibration, mixture weights and targets.

Validation nodes, whose labels a replica does not know, calibrate each teacher and choose the
weights of the mixture. The mixture's predictions are the targets of the student.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.graph import Graph, IntArray, Labels
from linkdist.data.splits import View
from linkdist.training.panel.likelihood import Array, estimated_class_prior, is_balanced
from linkdist.training.panel.teachers import Teacher, TeachingContext

LOWEST = -30.0
"""The lowest score of a teacher, so that no prediction is infinitely certain."""
MOSTLY = 0.5
"""The share of labelled nodes above which a student can learn their labels by heart."""
SINGLE = (1.0,)
"""The exponent of a single prediction without validation nodes."""


@dataclass(frozen=True)
class Replica:
    """A network in training.

    Attributes
    ----------
    view : View
        What it sees.
    validation : (k,) int array
        Labelled nodes whose labels it does not know.
    present : (n',) int array
        The nodes that are visible when the validation nodes are predicted.
    seed : int
        Random seed of its weights and sampling.
    taught_by : int
        The index of the replica whose teachers it shares.
    calibrated_by : tuple of int
        The indices of the replicas whose validation nodes calibrate and weight its teachers.
    kind : {'kept', 'new row', 'known row'}
        Whether it is kept; otherwise what its validation nodes represent.
    known : (l,) int array
        Labelled nodes that are visible without their labels; used only for scores.
    """

    view: View
    validation: IntArray
    present: IntArray
    seed: int
    taught_by: int
    calibrated_by: tuple[int, ...]
    kind: str
    known: IntArray = field(default_factory=lambda: np.array([], dtype=np.int64))


class Predictions(NamedTuple):
    """Scores (N, C) of some nodes (see `families`), and their true labels (N, ...)."""

    scores: Array
    labels: Labels


class TeacherWeight(NamedTuple):
    """How a replica uses a group of teachers, which differ in regularisation only.

    Attributes
    ----------
    variant : int
        The teacher of the group that it uses.
    exponents : (2,) array
        λ and δ, the calibration of this teacher.
    weight : float
        The weight of this teacher in the mixture.
    """

    variant: int
    exponents: Array
    weight: float


class TeacherEnsemble:
    """The teachers of all replicas.

    Parameters
    ----------
    graph : Graph
        The graph with the labels of validation nodes.
    replicas : sequence of Replica
        The replicas, whose students learn from the teachers.
    context : TeachingContext
        The training data of the teachers: one view for each replica with its own teachers.
    groups : sequence of sequences of Teacher
        The teachers; each replica uses one of each group.

    Attributes
    ----------
    scored : list of int
        The indices of the replicas that have their own teachers and validation nodes.
    weights : list of lists of TeacherWeight
        For each replica, one for each group.
    estimated_prior : list of (C,) arrays or None
        log π for each replica, if it was estimated; see `targets`.
    """

    def __init__(
        self,
        graph: Graph,
        replicas: Sequence[Replica],
        context: TeachingContext,
        groups: Sequence[Sequence[Teacher]],
    ) -> None:
        self.graph, self.replicas, self.context, self.groups = graph, replicas, context, groups
        taught = sorted({replica.taught_by for replica in replicas})
        self.view_of = [taught.index(replica.taught_by) for replica in replicas]
        self.scored = [r for r in taught if len(replicas[r].validation)]
        self.family = context.family
        self.scores = [[self._predict(teacher) for teacher in group] for group in groups]
        self.weights = [self._weights(replica) for replica in replicas]
        self.estimated_prior: list[Array | None] = [None] * len(replicas)

    def _scores(self, teacher: Teacher, users: Sequence[int], nodes: Sequence[IntArray]) -> Tensor:
        """A teacher's scores (T', n, C) for some replicas, over links among nodes."""
        views = [self.view_of[r] for r in users]
        return teacher.scores(views, self.context.among(nodes, views)).clamp(min=LOWEST)

    def _predict(self, teacher: Teacher) -> dict[int, Array]:
        """A teacher's scores (N, C) of the validation nodes of each scored replica."""
        if not self.scored:
            return {}
        replicas = [self.replicas[r] for r in self.scored]
        scores = self._scores(teacher, self.scored, [replica.present for replica in replicas])
        rows = rows_of(scores, [replica.validation for replica in replicas])
        return dict(zip(self.scored, rows, strict=True))

    def labels(self, replicas: Sequence[int]) -> Labels:
        """The true labels of the validation nodes of some replicas."""
        none = np.array([], dtype=np.int64)
        nodes = [none, *(self.replicas[r].validation for r in replicas)]
        return self.graph.labels[np.concatenate(nodes)]

    def calibrating(self, replicas: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Which validation nodes of some replicas have a class that the replica knows.

        A fold that holds out the only label of a class cannot predict it. Such a label says nothing
        about calibration, and would make all predictions almost uniform.
        """
        masks = [np.array([], dtype=bool)]
        for r in replicas:
            view, labels = self.replicas[r].view, self.graph.labels[self.replicas[r].validation]
            if self.graph.task == "classification":
                masks.append(np.isin(labels, np.unique(view.labels[view.train])))
            else:
                masks.append(np.ones(len(labels), dtype=bool))
        return np.concatenate(masks)

    def prior(self, replica: Replica) -> Array:
        """The score of the mean label among the labels that calibrate a replica."""
        return self.family.prior(self.labels(replica.calibrated_by), self.graph.C)

    def _weights(self, replica: Replica) -> list[TeacherWeight]:
        used, prior = self.calibrating(replica.calibrated_by), self.prior(replica)
        labels = self.labels(replica.calibrated_by)[used]
        if not len(labels):
            even, default = 1 / len(self.groups), np.array([*SINGLE, 0.0])
            return [TeacherWeight(len(group) // 2, default, even) for group in self.groups]
        family = self.family
        chosen: list[tuple[int, Array, Array]] = []
        for variants in self.scores:
            fits = []
            for variant in variants:
                scores = np.concatenate([variant[r] for r in replica.calibrated_by])[None, used]
                exponents = family.fit(scores, prior, labels, SINGLE)
                fits.append((exponents, family.calibrated(scores, prior, exponents)))
            best = max(
                range(len(fits)), key=lambda v: float(family.quality(fits[v][1], labels).sum())
            )
            chosen.append((best, *fits[best]))
        weights = family.weights(np.stack([scores for _, _, scores in chosen]), labels).tolist()
        return [
            TeacherWeight(variant, exponents, weight)
            for (variant, exponents, _), weight in zip(chosen, weights, strict=True)
        ]

    def is_balanced(self, r: int) -> bool:
        """Whether the labels that calibrate replica r were selected by class."""
        labels = self.labels(self.replicas[r].calibrated_by)
        return self.graph.task == "classification" and is_balanced(labels)

    def informativeness(self, r: int) -> float:
        """How much the mixture knows about the labels that calibrate replica r, from 0 to 1.

        It is 1 minus the ratio of the mixture's cross-entropy to that of a uniform guess.
        """
        replica = self.replicas[r]
        used, prior = self.calibrating(replica.calibrated_by), self.prior(replica)
        labels = self.labels(replica.calibrated_by)[used]
        p = np.zeros(len(labels))
        for variants, teacher in zip(self.scores, self.weights[r], strict=True):
            scores = np.concatenate([variants[teacher.variant][k] for k in replica.calibrated_by])
            scores = self.family.calibrated(scores[None, used], prior, teacher.exponents)
            p += teacher.weight * np.exp(self.family.quality(scores, labels))
        return float(np.clip(1 + np.log(p).mean() / np.log(self.graph.C), 0, 1))

    @torch.no_grad()
    def targets(self, smooth: bool = False) -> Tensor:
        """The mixture's predictions (R, n, C) over the links of each view, with known labels.

        With `smooth`, replicas with mostly labelled nodes get the predictions for these as well.
        If the labels are balanced by design, their shares say nothing about all nodes. The class
        prior π of all nodes is then estimated, as far as the teachers are informative.
        """
        R, graph, device = len(self.replicas), self.graph, self.context.device
        mixture, task = torch.zeros(R, graph.n, graph.C, device=device), self.context.task
        prior = np.stack([self.prior(replica) for replica in self.replicas])
        for g, group in enumerate(self.groups):
            for v, teacher in enumerate(group):
                users = [r for r in range(R) if self.weights[r][g].variant == v]
                if not users:
                    continue
                scores = self._scores(teacher, users, [self.replicas[r].view.nodes for r in users])
                exponents = np.stack([self.weights[r][g].exponents for r in users])
                weight = np.array([self.weights[r][g].weight for r in users])
                shift = _on(exponents[:, 1:] * prior[users], device).unsqueeze(1)
                mean = task.mean(_on(exponents[:, 0], device).view(-1, 1, 1) * scores + shift)
                mixture[users] += _on(weight, device).view(-1, 1, 1) * mean
        for r, replica in enumerate(self.replicas):
            if self.is_balanced(r):
                nodes = torch.from_numpy(replica.view.nodes).to(device)
                shares = class_shares(self, r, mixture[r, nodes].double().cpu().numpy())
                self.estimated_prior[r] = shares
                mixture[r] *= _on(np.exp(shares), device)
                mixture[r] /= mixture[r].sum(-1, keepdim=True)
        for row, replica in zip(mixture, self.replicas, strict=True):
            known = replica.view.train
            if smooth and mostly_labelled(replica.view):
                continue
            targets = self.context.targets(replica.view.labels[known])
            row[torch.from_numpy(known).to(device)] = torch.from_numpy(targets).to(device)
        return mixture

    def mixture(self) -> dict[str, float]:
        """The weight of each group in the targets, averaged over the replicas that are kept."""
        kept = [w for w, r in zip(self.weights, self.replicas, strict=True) if r.kind == "kept"]
        means = np.mean([[teacher.weight for teacher in weights] for weights in kept], axis=0)
        return {group[0].name: float(w) for group, w in zip(self.groups, means, strict=True)}

    def predictions(self, g: int) -> Predictions:
        """A group's predictions of all validation nodes, calibrated without their own labels."""
        parts = [np.empty((0, self.graph.C))]
        for r in self.scored:
            teacher = self.weights[r][g]
            scores, prior = self.scores[g][teacher.variant][r][None], self.prior(self.replicas[r])
            parts.append(self.family.calibrated(scores, prior, teacher.exponents))
        return Predictions(np.concatenate(parts), self.labels(self.scored))


def class_shares(ensemble: TeacherEnsemble, r: int, p: Array) -> Array:
    """Log of the shares of the classes (C,), from predictions (N, C) of the mixture of replica r.

    The less informative the mixture is, the closer they are to equal shares.
    """
    shares = ensemble.informativeness(r) * estimated_class_prior(p)
    normalised: Array = shares - np.logaddexp.reduce(shares)
    return normalised


def mostly_labelled(view: View) -> bool:
    """Whether most nodes of a view have a label."""
    return len(view.train) > MOSTLY * len(view.nodes)


def rows_of(values: Tensor, nodes: Sequence[IntArray]) -> list[Array]:
    """The rows of values (R, n, C) for the nodes of each replica.

    Examples
    --------
    >>> rows_of(torch.arange(4.0).view(1, 4, 1), [np.array([3, 1])])[0].tolist()
    [[3.0], [1.0]]
    """
    node_indices = [torch.from_numpy(indices).to(values.device) for indices in nodes]
    pairs = zip(values, node_indices, strict=True)
    return [row[indices].double().cpu().numpy() for row, indices in pairs]


def _on(values: Array, device: torch.device) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32)).to(device)
