"""Accuracies at each evaluation of the weights, and the evaluation that counts.

A run's score is its test accuracy at the first evaluation of highest validation accuracy, and each
mode of prediction has an evaluation of its own; or it is that of the weights that were kept, by
whatever measure. Everything stays on the device until it is asked for, so that scoring never makes
training wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.graph import Graph, IntArray
from linkdist.data.splits import Split

PARTS = ("validation", "test")


class Best(NamedTuple):
    """What each replica scored, as shares of 1, and when.

    Attributes
    ----------
    epochs : (R,) int array
        The evaluation that counts, from 1.
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
        One for each replica.
    device : torch.device
        Where the logits will be.
    rule : {'first', 'marked'}, optional
        Which evaluation counts: the first of highest validation accuracy, or the one that `mark`
        named last.

    Attributes
    ----------
    nodes : (R, validation + test) tensor
        The nodes that are scored, in this order; where splits differ in size, nodes that do not
        count fill up the shorter ones.

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
        rule: str = "first",
    ) -> None:
        self.rule = rule
        parts = [_filled([getattr(split, part) for split in splits]) for part in PARTS]
        self.sizes = [nodes.shape[1] for nodes, _ in parts]
        nodes, counts = (np.concatenate(both, axis=1) for both in zip(*parts, strict=True))
        self.nodes = torch.from_numpy(nodes).to(device)
        self.counts = torch.from_numpy(counts).to(device)
        self.truth = torch.from_numpy(graph.labels[nodes]).to(device)
        self.records: dict[str, list[Tensor]] = {}
        self.highest: dict[str, Tensor] = {}
        self.marked = torch.zeros(len(splits), dtype=torch.int64, device=device)

    def record(self, mode: str, scores: Tensor) -> Tensor:
        """Score an epoch's logits (R, n, C); (R,) booleans say whose epoch is the best so far."""
        return self._record(mode, scores.argmax(-1).gather(1, self.nodes))

    def record_nodes(self, mode: str, scores: Tensor) -> Tensor:
        """The same for logits of the scored nodes alone, (R, validation + test, C)."""
        return self._record(mode, scores.argmax(-1))

    def mark(self, better: Tensor) -> None:
        """Let the latest evaluation count where `better` (R,) is true."""
        latest = max(map(len, self.records.values())) - 1
        self.marked = torch.where(better, latest, self.marked)

    def _record(self, mode: str, predicted: Tensor) -> Tensor:
        hits = ((predicted == self.truth) & self.counts).double().split(self.sizes, dim=1)
        counts = self.counts.double().split(self.sizes, dim=1)
        validation, test = (a.sum(1) / b.sum(1) for a, b in zip(hits, counts, strict=True))
        self.records.setdefault(mode, []).append(torch.stack([validation, test]))
        highest = self.highest.get(mode, torch.full_like(validation, -1))
        self.highest[mode] = highest.maximum(validation)
        better: Tensor = validation > highest
        return better

    @property
    def chooses(self) -> bool:
        """Whether there are validation nodes, without which no epoch is better than another."""
        return bool(self.sizes[0])

    def state(self) -> dict[str, Tensor]:
        """What was recorded, by name."""
        curves = {f"history.{mode}": torch.stack(all_) for mode, all_ in self.records.items()}
        return {**curves, "marked": self.marked}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave."""
        if "marked" in state:
            self.marked = state["marked"].to(self.nodes.device)
        for name, curve in state.items():
            if not name.startswith("history."):
                continue
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
        if self.rule == "marked":
            chosen = self.marked.cpu().numpy()
        validation, test = curve[chosen, :, np.arange(curve.shape[2])].T
        return Best(chosen + 1, validation, test)


def _filled(parts: Sequence[IntArray]) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Nodes of each replica side by side, and which of them count."""
    width = max((len(part) for part in parts), default=0)
    nodes = np.zeros((len(parts), width), dtype=np.int64)
    counts = np.zeros((len(parts), width), dtype=bool)
    for row, mask, part in zip(nodes, counts, parts, strict=True):
        row[: len(part)], mask[: len(part)] = part, True
    return nodes, counts
