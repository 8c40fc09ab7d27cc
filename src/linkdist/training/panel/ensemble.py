"""The ensemble of teachers: calibration, mixture weights and targets.

Validation nodes, whose labels a replica does not know, calibrate each teacher and choose the
weights of the mixture, by likelihood. The mixture's probabilities are the targets of the student.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.data.splits import View
from linkdist.training.panel.likelihood import (
    Array,
    calibrated,
    class_prior,
    estimated_class_prior,
    fit_exponents,
    is_balanced,
    mixture_weights,
)
from linkdist.training.panel.teachers import Teacher, TeachingContext

LOWEST = -30.0
"""The lowest log-probability of a teacher, so that no prediction is infinitely certain."""
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
    """Log-probabilities (N, C) of some nodes, and their true classes (N,)."""

    log_p: Array
    labels: IntArray


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
        self.log_p = [[self._predict(teacher) for teacher in group] for group in groups]
        self.weights = [self._weights(replica) for replica in replicas]
        self.estimated_prior: list[Array | None] = [None] * len(replicas)

    def _log_p(self, teacher: Teacher, users: Sequence[int], nodes: Sequence[IntArray]) -> Tensor:
        """A teacher's log-probabilities (T', n, C) for some replicas, over links among nodes."""
        views = [self.view_of[r] for r in users]
        return teacher.log_p(views, self.context.among(nodes)).clamp(min=LOWEST)

    def _predict(self, teacher: Teacher) -> dict[int, Array]:
        """A teacher's log-probabilities (N, C) of the validation nodes of each scored replica."""
        if not self.scored:
            return {}
        replicas = [self.replicas[r] for r in self.scored]
        log_p = self._log_p(teacher, self.scored, [replica.present for replica in replicas])
        rows = rows_of(log_p, [replica.validation for replica in replicas])
        return dict(zip(self.scored, rows, strict=True))

    def labels(self, replicas: Sequence[int]) -> IntArray:
        """The true classes of the validation nodes of some replicas."""
        none = np.array([], dtype=np.int64)
        nodes = [none, *(self.replicas[r].validation for r in replicas)]
        labels: IntArray = self.graph.labels[np.concatenate(nodes)]
        return labels

    def calibrating(self, replicas: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Which validation nodes of some replicas have a class that the replica knows.

        A fold that holds out the only label of a class cannot predict it. Such a label says nothing
        about calibration, and would make all predictions almost uniform.
        """
        masks = [np.array([], dtype=bool)]
        for r in replicas:
            view = self.replicas[r].view
            known = np.unique(view.labels[view.train])
            masks.append(np.isin(self.graph.labels[self.replicas[r].validation], known))
        return np.concatenate(masks)

    def class_prior(self, replica: Replica) -> Array:
        """Log of the classes' shares among the labels that calibrate a replica."""
        return class_prior(self.labels(replica.calibrated_by), self.graph.C)

    def _weights(self, replica: Replica) -> list[TeacherWeight]:
        used, log_prior = self.calibrating(replica.calibrated_by), self.class_prior(replica)
        labels = self.labels(replica.calibrated_by)[used]
        if not len(labels):
            even, default = 1 / len(self.groups), np.array([*SINGLE, 0.0])
            return [TeacherWeight(len(group) // 2, default, even) for group in self.groups]
        chosen: list[tuple[int, Array, Array]] = []
        for variants in self.log_p:
            fits = []
            for variant in variants:
                log_p = np.concatenate([variant[r] for r in replica.calibrated_by])[None, used]
                exponents = fit_exponents(log_p, log_prior, labels, SINGLE)
                fits.append(
                    (exponents, log_p_of_labels(calibrated(log_p, log_prior, exponents), labels))
                )
            best = max(range(len(fits)), key=lambda v: float(fits[v][1].sum()))
            chosen.append((best, *fits[best]))
        weights = mixture_weights(np.exp([log_p for _, _, log_p in chosen])).tolist()
        return [
            TeacherWeight(variant, exponents, weight)
            for (variant, exponents, _), weight in zip(chosen, weights, strict=True)
        ]

    def informativeness(self, r: int) -> float:
        """How much the mixture knows about the labels that calibrate replica r, from 0 to 1.

        It is 1 minus the ratio of the mixture's cross-entropy to that of a uniform guess.
        """
        replica = self.replicas[r]
        used, log_prior = self.calibrating(replica.calibrated_by), self.class_prior(replica)
        labels = self.labels(replica.calibrated_by)[used]
        p = np.zeros(len(labels))
        for variants, teacher in zip(self.log_p, self.weights[r], strict=True):
            log_p = np.concatenate([variants[teacher.variant][k] for k in replica.calibrated_by])
            log_p = calibrated(log_p[None, used], log_prior, teacher.exponents)
            p += teacher.weight * np.exp(log_p_of_labels(log_p, labels))
        return float(np.clip(1 + np.log(p).mean() / np.log(self.graph.C), 0, 1))

    @torch.no_grad()
    def targets(self) -> Tensor:
        """The mixture's probabilities (R, n, C) over the links of each view, with known labels.

        If the labels are balanced by design, their shares say nothing about all nodes. The class
        prior π of all nodes is then estimated, as far as the teachers are informative.
        """
        R, graph, device = len(self.replicas), self.graph, self.context.device
        mixture = torch.zeros(R, graph.n, graph.C, device=device)
        log_prior = np.stack([self.class_prior(replica) for replica in self.replicas])
        for g, group in enumerate(self.groups):
            for v, teacher in enumerate(group):
                users = [r for r in range(R) if self.weights[r][g].variant == v]
                if not users:
                    continue
                log_p = self._log_p(teacher, users, [self.replicas[r].view.nodes for r in users])
                exponents = np.stack([self.weights[r][g].exponents for r in users])
                weight = np.array([self.weights[r][g].weight for r in users])
                shift = _on(exponents[:, 1:] * log_prior[users], device).unsqueeze(1)
                p = (_on(exponents[:, 0], device).view(-1, 1, 1) * log_p + shift).softmax(-1)
                mixture[users] += _on(weight, device).view(-1, 1, 1) * p
        for r, replica in enumerate(self.replicas):
            if is_balanced(self.labels(replica.calibrated_by)):
                nodes = torch.from_numpy(replica.view.nodes).to(device)
                prior = estimated_class_prior(mixture[r, nodes].double().cpu().numpy())
                prior = self.informativeness(r) * prior
                self.estimated_prior[r] = prior = prior - np.logaddexp.reduce(prior)
                mixture[r] *= _on(np.exp(prior), device)
                mixture[r] /= mixture[r].sum(-1, keepdim=True)
        return with_known(mixture, [replica.view for replica in self.replicas])

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
            log_p = self.log_p[g][teacher.variant][r][None]
            parts.append(calibrated(log_p, self.class_prior(self.replicas[r]), teacher.exponents))
        return Predictions(np.concatenate(parts), self.labels(self.scored))


def with_known(p: Tensor, views: Sequence[View]) -> Tensor:
    """Replace probabilities (R, n, C) by the known labels of each view.

    Examples
    --------
    >>> none = np.empty((0, 2), dtype=np.int64)
    >>> view = View(np.ones((2, 1)), np.arange(2), none, np.array([1, -1]), C=2)
    >>> with_known(torch.full((1, 2, 2), 0.5), [view])[0]
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000]])
    """
    labels = torch.from_numpy(np.stack([view.labels for view in views])).to(p.device)
    known = (labels != UNKNOWN).unsqueeze(-1)  # (R, n, 1)
    eye = torch.eye(p.shape[-1], device=p.device)
    return torch.where(known, eye[labels.clamp(min=0)], p)


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


def log_p_of_labels(log_p: Array, labels: IntArray) -> Array:
    """The log-probability (N,) of each node's class.

    Examples
    --------
    >>> log_p_of_labels(np.log([[0.25, 0.75], [0.5, 0.5]]), np.array([1, 0])).round(2)
    array([-0.29, -0.69])
    """
    chosen: Array = log_p[np.arange(len(labels)), labels]
    return chosen


def _on(values: Array, device: torch.device) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32)).to(device)
