"""Accuracies after every epoch, and the epoch that counts.

A run's score is its test accuracy at the first epoch of highest validation accuracy, or at the
latest where looks are many. Each mode of prediction has an epoch of its own. Everything stays on
the device until it is asked for, so that scoring never makes training wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.graph import Graph, IntArray
from linkdist.splits import Split


class Best(NamedTuple):
    """What each replica scored, as shares of 1, and when.

    Attributes
    ----------
    epochs : (R,) int array
        The first epoch of highest validation accuracy, from 1.
    validation, test : (R,) float arrays
        The accuracies there.
    """

    epochs: IntArray
    validation: npt.NDArray[np.float64]
    test: npt.NDArray[np.float64]


class History:
    """Validation and test accuracies of R replicas, an entry an epoch, for each mode.

    Parameters
    ----------
    graph : Graph
        Whose labels are the truth.
    splits : sequence of Split
        One a replica, with as many validation and test nodes each.
    device : torch.device
        Where the logits will be.
    latest : bool, optional
        Of equally good looks the latest counts, not the first: with few validation nodes and many
        looks there are many equals.

    Attributes
    ----------
    nodes : (R, validation + test) tensor
        The nodes that are scored, in this order.

    Examples
    --------
    >>> graph = Graph.build([[1.0], [2.0]], [(0, 1)], [0, 1])
    >>> split = Split(np.array([], dtype=int), np.array([0]), np.array([1]))
    >>> history = History(graph, [split], torch.device("cpu"))
    >>> better = history.record("own", torch.tensor([[[0.0, 1.0], [0.0, 1.0]]]))
    >>> better = history.record("own", torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
    >>> history.best("own").epochs, history.best("own").test
    (array([2]), array([1.]))
    """

    def __init__(
        self,
        graph: Graph,
        splits: Sequence[Split],
        device: torch.device,
        latest: bool = False,
    ) -> None:
        self.latest = latest
        nodes = np.stack([np.r_[split.validation, split.test] for split in splits])
        self.nodes = torch.from_numpy(nodes).to(device)
        self.truth = torch.from_numpy(graph.labels[nodes]).to(device)
        self.sizes = [len(splits[0].validation), len(splits[0].test)]
        self.records: dict[str, list[Tensor]] = {}
        self.highest: dict[str, Tensor] = {}

    def record(self, mode: str, scores: Tensor) -> Tensor:
        """Score an epoch's logits (R, n, C); (R,) booleans say whose epoch is the best so far."""
        return self._record(mode, scores.argmax(-1).gather(1, self.nodes))

    def record_nodes(self, mode: str, scores: Tensor) -> Tensor:
        """The same for logits of the scored nodes alone, (R, validation + test, C)."""
        return self._record(mode, scores.argmax(-1))

    def scored(self, values: Tensor) -> Tensor:
        """The rows of values (R, n, C) that are of scored nodes, (R, validation + test, C)."""
        return values.gather(1, self.nodes.unsqueeze(-1).expand(-1, -1, values.shape[-1]))

    def validation(self, scores: Tensor) -> Tensor:
        """Validation accuracy (…, R) of the scored nodes' logits, which is not recorded."""
        held = self.sizes[0]
        hits = scores[..., :held, :].argmax(-1) == self.truth[:, :held]
        return hits.double().mean(-1)

    def _record(self, mode: str, predicted: Tensor) -> Tensor:
        hits = (predicted == self.truth).double().split(self.sizes, dim=1)
        validation, test = (part.mean(1) for part in hits)
        self.records.setdefault(mode, []).append(torch.stack([validation, test]))
        highest = self.highest.get(mode, torch.full_like(validation, -1))
        self.highest[mode] = highest.maximum(validation)
        better: Tensor = validation >= highest if self.latest else validation > highest
        return better

    @property
    def chooses(self) -> bool:
        """Whether there are validation nodes, without which no epoch is better than another."""
        return self.sizes[0] > 0

    def state(self) -> dict[str, Tensor]:
        """What was recorded, by name."""
        return {f"history.{mode}": torch.stack(all_) for mode, all_ in self.records.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave."""
        for name, curve in state.items():
            mode, curve = name.removeprefix("history."), curve.to(self.nodes.device)
            self.records[mode] = list(curve)
            self.highest[mode] = curve[:, 0].amax(0)

    def curve(self, mode: str) -> npt.NDArray[np.float64]:
        """Validation and test accuracies, (epochs, 2, R)."""
        curve: npt.NDArray[np.float64] = torch.stack(self.records[mode]).cpu().numpy()
        return curve

    def best(self, mode: str) -> Best:
        """Each replica's score and the epoch it was reached in."""
        curve = self.curve(mode)
        chosen = curve[:, 0].argmax(axis=0)  # (R,)
        if self.latest:
            chosen = len(curve) - 1 - curve[::-1, 0].argmax(axis=0)
        validation, test = curve[chosen, :, np.arange(curve.shape[2])].T
        return Best(chosen + 1, validation, test)
