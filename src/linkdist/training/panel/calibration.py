"""Calibration of the students, and its constants folded into their weights.

Validation nodes calibrate a student: from features p ∝ p(z)^λ π^δ, with links

    p ∝ p(z)^κ · Π_k (mean of p(s_k) over the neighbours of head k)^α_k · π^ε

where the mean is geometric. The exponents maximise the likelihood. With several heads, a head whose
α_k explains nothing has α_k = 0. All constants except κ and α are folded into the weights of the
heads, so that the network itself predicts calibrated probabilities. For other tasks, log-odds or
numbers take the place of log p (`families`).

A node without neighbours is predicted from features. A node with neighbours of some heads is in
between: with S = Σ α_k over the heads that link it, divided by the sum of all α_k, its κ and ε are
those with links to the share S, and λ and δ to the share 1 - S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.graph import Graph, Labels
from linkdist.model import Model, combine
from linkdist.nn.network import ForkedMLP
from linkdist.training.measures import Measure
from linkdist.training.panel.ensemble import SINGLE, Predictions, TeacherEnsemble
from linkdist.training.panel.families import Family
from linkdist.training.panel.likelihood import Array

TOGETHER = (0.5, 0.5)
"""The exponents of a node's own prediction and its neighbours' without validation nodes."""
LOWEST = 0.05
"""The smallest λ: below it, predictions would be almost uniform."""
SMALLEST_ALPHA = 1e-3
"""The α below which links are ignored."""
WORTH = 2.0
"""The gain in log-likelihood that one of several heads must give: noise gives 0.5 on average."""


class Rows(NamedTuple):
    """What some nodes, and their neighbours, predict for these nodes.

    Attributes
    ----------
    own : (N, C) array
        Natural parameters of the nodes' own head.
    beside : (K, N, C) array
        The means of those of their neighbours, 0 without neighbours.
    linked : (K, N, 1) array of bool
        Which nodes have neighbours.
    """

    own: Array
    beside: Array
    linked: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Calibration:
    """The exponents of R replicas.

    Attributes
    ----------
    family : Family
        How predictions are calibrated.
    alone : (R, 2) array
        λ and δ.
    linked : (R, K + 2) array
        κ, α and ε.
    prior : (R, C) array
        log π.
    loss : (R,) array
        The mean loss of the validation labels from features, or another measure of them of
        which less is better; 0 without any.
    """

    family: Family
    alone: Array
    linked: Array
    prior: Array
    loss: Array

    @classmethod
    def of(
        cls,
        ensemble: TeacherEnsemble,
        rows: Sequence[Rows],
        without: int | None = None,
        measure: Measure | None = None,
    ) -> Calibration:
        """The exponents that fit the labels that calibrate each replica best.

        Parameters
        ----------
        ensemble : TeacherEnsemble
            The replicas and their validation nodes.
        rows : sequence of Rows
            The validation nodes of each replica.
        without : int, optional
            A head that is not used.
        measure : Measure, optional
            What `loss` measures, instead of the loss of the task.
        """
        family, found = ensemble.family, list[tuple[Array, Array, Array, float]]()
        for r, replica in enumerate(ensemble.replicas):
            used, estimated = (
                ensemble.calibrating(replica.calibrated_by),
                ensemble.estimated_prior[r],
            )
            labels = ensemble.labels(replica.calibrated_by)[used]
            prior = ensemble.prior(replica) if estimated is None else estimated
            z, s = _joined([rows[k] for k in replica.calibrated_by], rows[r])
            z, s = z[used], s[:, used]
            alone = family.fit(z[None], prior, labels, SINGLE)
            alone[0] = max(alone[0], LOWEST)
            linked = fit_heads(family, z, s, prior, labels, without)
            if linked[1:-1].max() < SMALLEST_ALPHA:
                linked = np.array([alone[0], *np.zeros(len(s)), alone[1]])
            own = family.calibrated(z[None], prior, alone)
            loss = -family.quality(own, labels)
            if measure is not None and len(labels):
                value = measure.value(family.mean(own), labels)
                loss = np.array([-value if measure.higher_is_better else value])
            if estimated is not None:
                alone[-1] += 1  # unlabelled nodes are not balanced as the labels are
                linked[-1] += 1
            found.append((alone, linked, prior, float(loss.mean()) if len(labels) else 0.0))
        return cls(family, *(np.array(part) for part in zip(*found, strict=True)))

    def features(self, r: int, rows: Rows) -> Array:
        """A replica's calibrated scores (N, C) from features."""
        return self.family.calibrated(rows.own[None], self.prior[r], self.alone[r])

    def links(self, r: int, rows: Rows) -> Array:
        """The same with links; from features for a node without links."""
        kappa, *alpha, epsilon = self.linked[r]
        weights = np.array(alpha).reshape(-1, 1, 1)
        share = (weights * rows.linked).sum(0) / max(weights.sum(), 1e-12)  # (N, 1)
        own = share * kappa + (1 - share) * self.alone[r, 0]
        shift = share * epsilon + (1 - share) * self.alone[r, 1]
        scores = own * rows.own + shift * self.prior[r] + (weights * rows.beside).sum(0)
        return self.family.calibrated(scores[None], self.prior[r], np.array([1.0, 0.0]))

    def predictions(
        self, users: Sequence[int], rows: Sequence[Rows], y: Labels
    ) -> dict[str, Predictions]:
        """The predictions of some replicas, from features and with links, with the labels y."""
        features = [self.features(r, rows[r]) for r in users]
        links = [self.links(r, rows[r]) for r in users]
        modes = {"features": features, "links": links}
        return {mode: Predictions(np.concatenate(parts), y) for mode, parts in modes.items()}

    def scores(
        self, z: Tensor, beside: Tensor, linked: Tensor, replicas: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Scores (R, n, C) of some replicas, from features and with links.

        Parameters
        ----------
        z : (R, n, C) tensor
            Natural parameters of their own heads.
        beside : (K, R, n, C) tensor
            The means of those of the neighbours.
        linked : (K, R, n, 1) tensor
            Which nodes have neighbours.
        replicas : sequence of int
            The indices of the R replicas.
        """
        alone, together, prior = (
            torch.from_numpy(part[list(replicas)]).to(z)
            for part in (self.alone, self.linked, self.prior)
        )
        prior = prior.unsqueeze(1)
        features = alone[:, 0].view(-1, 1, 1) * z + alone[:, 1].view(-1, 1, 1) * prior
        kappa, alpha, epsilon = together[:, 0], together[:, 1:-1], together[:, -1]
        links = combine(z, beside, alpha, kappa) + epsilon.view(-1, 1, 1) * prior
        by = alpha.T.reshape(len(beside), -1, 1, 1)
        share = (by * linked).sum(0) / by.sum(0).clamp(min=1e-12)
        around = combine(torch.zeros_like(z), beside, alpha)
        return features, share * (links - around) + (1 - share) * features + around


def _joined(parts: Sequence[Rows], like: Rows) -> tuple[Array, Array]:
    """The rows of several replicas: own (N, C) and beside (K, N, C)."""
    own = np.concatenate([like.own[:0], *(part.own for part in parts)])
    beside = np.concatenate([like.beside[:, :0], *(part.beside for part in parts)], axis=1)
    return own, beside


def fit_heads(
    family: Family, z: Array, s: Array, prior: Array, labels: Labels, without: int | None = None
) -> Array:
    """κ, α (K,) and ε from own scores z (N, C) and those of the heads s (K, N, C).

    Several heads are added one by one, the most informative first, until none explains the labels
    better by `WORTH`; α is 0 for the others.

    Examples
    --------
    >>> labels = np.arange(200) % 2
    >>> told, nothing = np.eye(2)[labels], np.zeros((200, 2))
    >>> from linkdist.training.panel.families import Classes
    >>> found = fit_heads(Classes(), nothing, np.stack([nothing, told]), np.zeros(2), labels)
    >>> bool(found[1] == 0), bool(found[2] > 1)
    (True, True)
    """
    K = len(s)
    heads = [k for k in range(K) if k != without]

    def fitted(chosen: Sequence[int]) -> Array:
        default = (TOGETHER[0], *[TOGETHER[1] / max(len(chosen), 1)] * len(chosen))
        exponents = np.zeros(K + 2)
        places = [0, *(k + 1 for k in chosen), K + 1]
        exponents[places] = family.fit(np.stack([z, *s[list(chosen)]]), prior, labels, default)
        return exponents

    if K == 1 or not len(labels):
        return fitted(heads)
    parts, chosen = np.stack([z, *s]), list[int]()
    best, evidence = fitted([]), -np.inf
    while len(chosen) < len(heads):
        tried = {k: fitted([*chosen, k]) for k in heads if k not in chosen}
        gains = {
            k: family.evidence(family.calibrated(parts, prior, exponents), labels)
            for k, exponents in tried.items()
        }
        if evidence == -np.inf:
            evidence = family.evidence(family.calibrated(parts, prior, best), labels)
        most = max(gains, key=lambda k: gains[k])
        if gains[most] < evidence + WORTH:
            break
        chosen, best, evidence = [*chosen, most], tried[most], gains[most]
    return best


@torch.no_grad()
def calibrate(
    network: ForkedMLP, kept: Sequence[int], calibration: Calibration, graph: Graph
) -> Model:
    """A calibrated model of the replicas `kept` of a network.

    With z' = λ z + δ log π in the weights of the own head, κ log p(z) is κ / λ · log p(z') up to a
    multiple of log π. The biases of the neighbour heads add this multiple: a constant passes
    through the mean.
    """
    device, index = network.first.weight.device, list(kept)
    sizes = (graph.d, graph.C, range(len(index)), network.hidden, network.dropout)
    small = ForkedMLP(*sizes, len(graph.heads)).to(device)
    small.load_state_dict({name: tensor[index] for name, tensor in network.state_dict().items()})
    alone, linked, prior = (
        torch.from_numpy(part[index]).float().to(device)
        for part in (calibration.alone, calibration.linked, calibration.prior)
    )
    scale, delta = alone[:, :1], alone[:, 1:]  # (R, 1)
    kappa, alpha, epsilon = linked[:, 0], linked[:, 1:-1], linked[:, -1]
    kappa = kappa / scale.squeeze(1)
    own = small.own.linear
    assert own.bias is not None
    own.weight.mul_(scale.unsqueeze(-1))
    own.bias.mul_(scale.unsqueeze(-1)).add_((delta * prior).unsqueeze(1))
    total = alpha.sum(1)
    rest = (epsilon - kappa * delta.squeeze(1)) / total.clamp(min=1e-9)
    multiple = torch.where(total > 0, rest, 0.0)
    for head in small.neighbours:
        assert head.linear.bias is not None
        head.linear.bias.add_((multiple.unsqueeze(1) * prior).unsqueeze(1))
    names = (graph.task, graph.relations, graph.directed)
    return Model(small, alpha.contiguous(), graph.classes, kappa, *names)
