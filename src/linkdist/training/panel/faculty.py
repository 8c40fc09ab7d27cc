"""How much each replica trusts each teacher, and the targets that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import Graph, IntArray
from linkdist.training.panel.mixing import (
    Array,
    calibrated,
    chosen_by_class,
    class_shares,
    estimated_shares,
    exponents,
    mixture_weights,
)
from linkdist.training.panel.replicas import Replica
from linkdist.training.panel.teachers import Lesson, Teacher, masks
from linkdist.training.targets import with_known

LOWEST = -30.0
"""The lowest log-probability of a teacher: no opinion is infinitely sure."""
ALONE = (1.0,)
"""The exponent of one opinion where nobody judges it."""


class Judgement(NamedTuple):
    """Predictions of some judges: log-probabilities (N, C), and the judges' classes (N,)."""

    log_p: Array
    labels: IntArray


class Trust(NamedTuple):
    """What a replica makes of a group of teachers that differ in strength alone.

    Attributes
    ----------
    variant : int
        The one that it listens to.
    by : (2,) array
        λ and δ of its calibration.
    share : float
        Its share in the targets.
    """

    variant: int
    by: Array
    share: float


class Faculty:
    """The teachers of all replicas.

    Parameters
    ----------
    graph : Graph
        With the judges' labels.
    replicas : sequence of Replica
        Who is taught.
    lesson : Lesson
        What the teachers learnt from, a view for each replica that has teachers of its own.
    groups : sequence of sequences of Teacher
        The teachers; of a group, each replica listens to one.
    """

    def __init__(
        self,
        graph: Graph,
        replicas: Sequence[Replica],
        lesson: Lesson,
        groups: Sequence[Sequence[Teacher]],
    ) -> None:
        self.graph, self.replicas, self.lesson, self.groups = graph, replicas, lesson, groups
        self.places = sorted({replica.taught_by for replica in replicas})
        self.of = [self.places.index(replica.taught_by) for replica in replicas]
        self.judged = [place for place in self.places if len(replicas[place].judges)]
        self.heard = [[self.hear(teacher) for teacher in group] for group in groups]
        self.trust = [self._trust(replica) for replica in replicas]
        self.prior: list[Array | None] = [None] * len(replicas)

    def hear(self, teacher: Teacher) -> dict[int, Array]:
        """What a teacher says of the judges of each judged replica."""
        if not self.judged:
            return {}
        present = masks([self.replicas[p].present for p in self.judged], self.graph.n)
        around = self.lesson.around(present.to(self.lesson.device))
        log_p = teacher.log_p([self.of[p] for p in self.judged], around).clamp(min=LOWEST)
        nodes = [self.replicas[p].judges for p in self.judged]
        return dict(zip(self.judged, picked(log_p, nodes), strict=True))

    def labels(self, places: Sequence[int]) -> IntArray:
        """The classes of some replicas' judges."""
        none = np.array([], dtype=np.int64)
        judges = [none, *(self.replicas[place].judges for place in places)]
        labels: IntArray = self.graph.labels[np.concatenate(judges)]
        return labels

    def shares(self, replica: Replica) -> Array:
        """Log of the classes' shares among the judges that a replica trusts."""
        return class_shares(self.labels(replica.trusts), self.graph.C)

    def _trust(self, replica: Replica) -> list[Trust]:
        labels = self.labels(replica.trusts)
        if not len(labels):
            even, none = 1 / len(self.groups), np.array([*ALONE, 0.0])
            return [Trust(len(group) // 2, none, even) for group in self.groups]
        pi, rows = self.shares(replica), np.arange(len(labels))
        chosen: list[tuple[int, Array, Array]] = []
        for variants in self.heard:
            tried = []
            for heard in variants:
                log_p = np.concatenate([heard[place] for place in replica.trusts])[None]
                by = exponents(log_p, pi, labels, ALONE)
                tried.append((by, calibrated(log_p, pi, by)[rows, labels]))
            best = max(range(len(tried)), key=lambda v: float(tried[v][1].sum()))
            chosen.append((best, *tried[best]))
        weights = mixture_weights(np.exp([truth for _, _, truth in chosen]))
        return [
            Trust(variant, by, float(share))
            for (variant, by, _), share in zip(chosen, weights, strict=True)
        ]

    def told(self, r: int) -> float:
        """How much of what there is to know of the judges' classes the teachers tell, 0 to 1."""
        places, labels = self.replicas[r].trusts, self.labels(self.replicas[r].trusts)
        pi, p = self.shares(self.replicas[r]), np.zeros(len(labels))
        for g, trust in enumerate(self.trust[r]):
            log_p = np.concatenate([self.heard[g][trust.variant][place] for place in places])[None]
            truth = calibrated(log_p, pi, trust.by)[np.arange(len(labels)), labels]
            p += trust.share * np.exp(truth)
        return float(np.clip(1 + np.log(p).mean() / np.log(self.graph.C), 0, 1))

    @torch.no_grad()
    def targets(self) -> Tensor:
        """The mixture of the teachers over each view's links, labels in place, (R, n, C)."""
        R, graph, device = len(self.replicas), self.graph, self.lesson.device
        mixed = torch.zeros(R, graph.n, graph.C, device=device)
        visible = masks([replica.view.nodes for replica in self.replicas], graph.n).to(device)
        pi = np.stack([self.shares(replica) for replica in self.replicas])
        for g, group in enumerate(self.groups):
            for v, teacher in enumerate(group):
                users = [r for r in range(R) if self.trust[r][g].variant == v]
                if not users:
                    continue
                around = self.lesson.around(visible[users])
                log_p = teacher.log_p([self.of[r] for r in users], around).clamp(min=LOWEST)
                by = np.stack([self.trust[r][g].by for r in users])
                share = np.array([self.trust[r][g].share for r in users])
                shift = _on(by[:, 1:] * pi[users], device).unsqueeze(1)
                p = (_on(by[:, 0], device).view(-1, 1, 1) * log_p + shift).softmax(-1)
                mixed[users] += _on(share, device).view(-1, 1, 1) * p
        for r, replica in enumerate(self.replicas):
            if chosen_by_class(self.labels(replica.trusts)):
                at = torch.from_numpy(replica.view.nodes).to(device)
                pi = self.told(r) * estimated_shares(mixed[r, at].double().cpu().numpy())
                pi = pi - np.logaddexp.reduce(pi)
                self.prior[r] = pi
                mixed[r] *= _on(np.exp(pi), device)
                mixed[r] /= mixed[r].sum(-1, keepdim=True)
        return with_known(mixed, [replica.view for replica in self.replicas])

    def mixture(self) -> dict[str, float]:
        """Each group's share in the targets, the mean over the replicas that are kept."""
        kept = [t for t, r in zip(self.trust, self.replicas, strict=True) if r.kind == "kept"]
        means = np.mean([[part.share for part in trust] for trust in kept], axis=0)
        return {group[0].name: float(w) for group, w in zip(self.groups, means, strict=True)}

    def opinion(self, g: int) -> Judgement:
        """What a group says of all judges, each calibrated by other judges than itself."""
        parts = []
        for place in self.judged:
            trust = self.trust[place][g]
            log_p = self.heard[g][trust.variant][place][None]
            parts.append(calibrated(log_p, self.shares(self.replicas[place]), trust.by))
        none = np.empty((0, self.graph.C))
        return Judgement(np.concatenate([none, *parts]), self.labels(self.judged))


def picked(values: Tensor, nodes: Sequence[IntArray]) -> list[Array]:
    """Each replica's rows of values (R, n, C).

    Examples
    --------
    >>> picked(torch.arange(4.0).view(1, 4, 1), [np.array([3, 1])])[0].tolist()
    [[3.0], [1.0]]
    """
    found = []
    for row, some in zip(values, nodes, strict=True):
        at = torch.from_numpy(some).to(values.device)
        found.append(row[at].double().cpu().numpy())
    return found


def _on(values: Array, device: torch.device) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32)).to(device)
