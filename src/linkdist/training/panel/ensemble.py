"""The ensemble of teachers: calibration, mixture weights and targets.

Validation nodes, whose labels a replica does not know, calibrate each teacher and choose the
weights of the mixture, by likelihood. The mixture's probabilities are the targets of the student.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.data.splits import View
from linkdist.training.panel.likelihood import (
    Array,
    calibrated,
    class_shares,
    estimated_shares,
    exponents,
    is_balanced,
    mixture_weights,
)
from linkdist.training.panel.teachers import Teacher, TeachingContext, masks

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
        The place, in the list of replicas, of the one whose teachers it shares.
    calibrated_by : tuple of int
        The places of the replicas whose validation nodes calibrate and weight its teachers.
    kind : {'kept', 'new row', 'known row'}
        Whether it is kept; otherwise what its validation nodes represent.
    known : (l,) int array
        Labelled nodes that its view has without their labels, for scores only.
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
    by : (2,) array
        λ and δ, the calibration of this teacher.
    share : float
        The weight of this teacher in the mixture.
    """

    variant: int
    by: Array
    share: float


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
        The places of the replicas that have their own teachers and validation nodes.
    weights : list of lists of TeacherWeight
        For each replica, one for each group.
    prior : list of (C,) arrays or None
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
        self.places = sorted({replica.taught_by for replica in replicas})
        self.of = [self.places.index(replica.taught_by) for replica in replicas]
        self.scored = [place for place in self.places if len(replicas[place].validation)]
        self.log_p = [[self._predict(teacher) for teacher in group] for group in groups]
        self.weights = [self._weights(replica) for replica in replicas]
        self.prior: list[Array | None] = [None] * len(replicas)

    def _predict(self, teacher: Teacher) -> dict[int, Array]:
        """A teacher's log-probabilities (N, C) of the validation nodes of each scored replica."""
        if not self.scored:
            return {}
        present = masks([self.replicas[p].present for p in self.scored], self.graph.n)
        links = self.context.among(present.to(self.context.device))
        log_p = teacher.log_p([self.of[p] for p in self.scored], links).clamp(min=LOWEST)
        nodes = [self.replicas[p].validation for p in self.scored]
        return dict(zip(self.scored, rows_of(log_p, nodes), strict=True))

    def labels(self, places: Sequence[int]) -> IntArray:
        """The true classes of the validation nodes of some replicas."""
        none = np.array([], dtype=np.int64)
        nodes = [none, *(self.replicas[place].validation for place in places)]
        labels: IntArray = self.graph.labels[np.concatenate(nodes)]
        return labels

    def shares(self, replica: Replica) -> Array:
        """Log of the classes' shares among the labels that calibrate a replica."""
        return class_shares(self.labels(replica.calibrated_by), self.graph.C)

    def _joined(self, log_p: dict[int, Array], places: Sequence[int]) -> Array:
        return np.concatenate([log_p[place] for place in places])[None]

    def _weights(self, replica: Replica) -> list[TeacherWeight]:
        labels = self.labels(replica.calibrated_by)
        if not len(labels):
            even, none = 1 / len(self.groups), np.array([*SINGLE, 0.0])
            return [TeacherWeight(len(group) // 2, none, even) for group in self.groups]
        pi, rows = self.shares(replica), np.arange(len(labels))
        chosen: list[tuple[int, Array, Array]] = []
        for variants in self.log_p:
            tried = []
            for variant in variants:
                log_p = self._joined(variant, replica.calibrated_by)
                by = exponents(log_p, pi, labels, SINGLE)
                tried.append((by, calibrated(log_p, pi, by)[rows, labels]))
            best = max(range(len(tried)), key=lambda v: float(tried[v][1].sum()))
            chosen.append((best, *tried[best]))
        weights = mixture_weights(np.exp([truth for _, _, truth in chosen]))
        return [
            TeacherWeight(variant, by, float(share))
            for (variant, by, _), share in zip(chosen, weights, strict=True)
        ]

    def informativeness(self, r: int) -> float:
        """How much the mixture knows about the labels that calibrate replica r, from 0 to 1.

        It is 1 minus the ratio of the mixture's cross-entropy to that of a uniform guess.
        """
        places = self.replicas[r].calibrated_by
        labels, pi = self.labels(places), self.shares(self.replicas[r])
        p = np.zeros(len(labels))
        for g, weight in enumerate(self.weights[r]):
            log_p = self._joined(self.log_p[g][weight.variant], places)
            truth = calibrated(log_p, pi, weight.by)[np.arange(len(labels)), labels]
            p += weight.share * np.exp(truth)
        return float(np.clip(1 + np.log(p).mean() / np.log(self.graph.C), 0, 1))

    @torch.no_grad()
    def targets(self) -> Tensor:
        """The mixture's probabilities (R, n, C) over the links of each view, with known labels.

        If the labels are balanced by design, their shares say nothing about all nodes. The class
        shares π of all nodes are then estimated, as far as the teachers are informative.
        """
        R, graph, device = len(self.replicas), self.graph, self.context.device
        mixed = torch.zeros(R, graph.n, graph.C, device=device)
        visible = masks([replica.view.nodes for replica in self.replicas], graph.n).to(device)
        pi = np.stack([self.shares(replica) for replica in self.replicas])
        for g, group in enumerate(self.groups):
            for v, teacher in enumerate(group):
                users = [r for r in range(R) if self.weights[r][g].variant == v]
                if not users:
                    continue
                links = self.context.among(visible[users])
                log_p = teacher.log_p([self.of[r] for r in users], links).clamp(min=LOWEST)
                by = np.stack([self.weights[r][g].by for r in users])
                share = np.array([self.weights[r][g].share for r in users])
                shift = _on(by[:, 1:] * pi[users], device).unsqueeze(1)
                p = (_on(by[:, 0], device).view(-1, 1, 1) * log_p + shift).softmax(-1)
                mixed[users] += _on(share, device).view(-1, 1, 1) * p
        for r, replica in enumerate(self.replicas):
            if is_balanced(self.labels(replica.calibrated_by)):
                at = torch.from_numpy(replica.view.nodes).to(device)
                shares = estimated_shares(mixed[r, at].double().cpu().numpy())
                prior = self.informativeness(r) * shares
                prior = prior - np.logaddexp.reduce(prior)
                self.prior[r] = prior
                mixed[r] *= _on(np.exp(prior), device)
                mixed[r] /= mixed[r].sum(-1, keepdim=True)
        return with_known(mixed, [replica.view for replica in self.replicas])

    def mixture(self) -> dict[str, float]:
        """The weight of each group in the targets, averaged over the replicas that are kept."""
        kept = [w for w, r in zip(self.weights, self.replicas, strict=True) if r.kind == "kept"]
        means = np.mean([[part.share for part in weights] for weights in kept], axis=0)
        return {group[0].name: float(w) for group, w in zip(self.groups, means, strict=True)}

    def predictions(self, g: int) -> Predictions:
        """A group's predictions of all validation nodes, calibrated without their own labels."""
        parts = []
        for place in self.scored:
            weight = self.weights[place][g]
            log_p = self.log_p[g][weight.variant][place][None]
            parts.append(calibrated(log_p, self.shares(self.replicas[place]), weight.by))
        none = np.empty((0, self.graph.C))
        return Predictions(np.concatenate([none, *parts]), self.labels(self.scored))


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
    found = []
    for row, some in zip(values, nodes, strict=True):
        at = torch.from_numpy(some).to(values.device)
        found.append(row[at].double().cpu().numpy())
    return found


def _on(values: Array, device: torch.device) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32)).to(device)
