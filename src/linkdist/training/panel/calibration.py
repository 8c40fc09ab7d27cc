"""Calibration of a student on validation nodes.

From features p ∝ p(z)^λ π^δ, with links p ∝ p(z)^κ (mean of p(s) over neighbours)^α π^ε, where the
mean is geometric. The exponents maximise the likelihood. All of them except κ and α are folded into
the weights of the two heads, so that the network itself predicts calibrated probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import Graph
from linkdist.model import Model, combine
from linkdist.nn.network import ForkedMLP
from linkdist.training.panel.ensemble import SINGLE, TeacherEnsemble
from linkdist.training.panel.mixing import Array, calibrated, exponents

TOGETHER = (0.5, 0.5)
"""The exponents of a node's own prediction and its neighbours' without validation nodes."""
LOWEST = 0.05
"""The smallest λ: below it, predictions would be almost uniform."""
SMALLEST_ALPHA = 1e-3
"""The α below which links are ignored."""


@dataclass(frozen=True)
class Calibration:
    """The exponents of R replicas.

    Attributes
    ----------
    alone : (R, 2) array
        λ and δ.
    linked : (R, 3) array
        κ, α and ε.
    shares : (R, C) array
        log π.
    loss : (R,) array
        The mean of -log p of the validation labels, from features; 0 without any.
    """

    alone: Array
    linked: Array
    shares: Array
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
            labels, pi = ensemble.labels(replica.calibrated_by), ensemble.shares(replica)
            prior = ensemble.prior[r]
            if prior is not None:
                pi = prior
            a, b = (
                np.concatenate([none, *(part[place] for place in replica.calibrated_by)])
                for part in (own, neighbour)
            )
            alone = exponents(a[None], pi, labels, SINGLE)
            alone[0] = max(alone[0], LOWEST)
            linked = exponents(np.stack([a, b]), pi, labels, TOGETHER)
            if linked[1] < SMALLEST_ALPHA:
                linked = np.array([alone[0], 0.0, alone[1]])
            log_p = calibrated(a[None], pi, alone)[np.arange(len(labels)), labels]
            if prior is not None:
                alone[-1] += 1  # the labels are balanced by design; other nodes are not
                linked[-1] += 1
            rows.append((alone, linked, pi, -float(log_p.mean()) if len(labels) else 0.0))
        alone, linked, shares, loss = (np.array(part) for part in zip(*rows, strict=True))
        return cls(alone, linked, shares, loss)

    def features(self, r: int, own: Array) -> Array:
        """A replica's calibrated log-probabilities (N, C) from features."""
        return calibrated(own[None], self.shares[r], self.alone[r])

    def links(self, r: int, own: Array, neighbour: Array) -> Array:
        """The same with links; from features for a node without links."""
        linked = calibrated(np.stack([own, neighbour]), self.shares[r], self.linked[r])
        return np.where(neighbour.any(axis=1, keepdims=True), linked, self.features(r, own))

    def scores(self, z: Tensor, neighbour: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (R, n, C) from features and with links, from log p(z) and the neighbours' mean."""
        alone, linked, pi = (
            torch.from_numpy(part).to(z) for part in (self.alone, self.linked, self.shares)
        )
        pi = pi.unsqueeze(1)
        features = alone[:, 0].view(-1, 1, 1) * z + alone[:, 1].view(-1, 1, 1) * pi
        kappa, alpha, epsilon = linked.unbind(1)
        links = combine(z, neighbour, alpha, kappa) + epsilon.view(-1, 1, 1) * pi
        return features, torch.where(neighbour.any(-1, keepdim=True), links, features)


@torch.no_grad()
def calibrate(network: ForkedMLP, kept: Sequence[int], found: Calibration, graph: Graph) -> Model:
    """A calibrated model of the replicas `kept` of a network.

    With z' = λ z + δ log π in the weights of the own head, κ log p(z) is κ / λ · log p(z') up to a
    multiple of log π. The bias of the neighbour head adds this multiple: a constant passes through
    the mean.
    """
    device, at = network.first.weight.device, list(kept)
    small = ForkedMLP(graph.d, graph.C, range(len(at)), network.hidden, network.dropout)
    small = small.to(device)
    small.load_state_dict({name: tensor[at] for name, tensor in network.state_dict().items()})
    alone, linked, pi = (
        torch.from_numpy(part[at]).float().to(device)
        for part in (found.alone, found.linked, found.shares)
    )
    sharp, delta = alone[:, :1], alone[:, 1:]  # (R, 1)
    kappa, alpha, epsilon = linked.unbind(1)
    own = kappa / sharp.squeeze(1)
    head, beside = small.own.linear, small.neighbour.linear
    assert head.bias is not None
    assert beside.bias is not None
    head.weight.mul_(sharp.unsqueeze(-1))
    head.bias.mul_(sharp.unsqueeze(-1)).add_((delta * pi).unsqueeze(1))
    extra = torch.where(alpha > 0, (epsilon - own * delta.squeeze(1)) / alpha.clamp(min=1e-9), 0.0)
    beside.bias.add_((extra.unsqueeze(1) * pi).unsqueeze(1))
    return Model(small, alpha, graph.classes, own)
