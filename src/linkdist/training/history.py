"""Accuracies at each evaluation of the weights, and the weights of the best evaluation.

For several labels, the accuracy is the share of labels that are right; for numbers in units of
their standard deviation, it is one minus the mean squared error.

The score of a replica is its test accuracy at the first evaluation with the highest validation
accuracy, separately for each mode of prediction; or at the evaluation that another measure marked
as the best. All results stay on the device until they are read, so that training does not wait for
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from linkdist.data.graph import Graph, IntArray
from linkdist.data.splits import Split
from linkdist.training.loop import padded

PARTS = ("validation", "test")


class Best(NamedTuple):
    """The best evaluation of each replica.

    Attributes
    ----------
    epochs : (R,) int array
        The number of the evaluation, from 1.
    validation, test : (R,) float arrays
        The accuracies, between 0 and 1.
    """

    epochs: IntArray
    validation: npt.NDArray[np.float64]
    test: npt.NDArray[np.float64]


class History:
    """Validation and test accuracies of R replicas at each evaluation, for each mode.

    Parameters
    ----------
    graph : Graph
        The graph with the true labels.
    splits : sequence of Split
        One for each replica.
    device : torch.device
        The device of the logits.
    rule : {'first', 'marked'}, optional
        Which evaluation is the best: the first with the highest validation accuracy, or the last
        one that `mark` was called for.

    Attributes
    ----------
    nodes : (R, validation + test) tensor
        The scored nodes, in this order; shorter splits are padded with nodes that are ignored.

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
        self, graph: Graph, splits: Sequence[Split], device: torch.device, rule: str = "first"
    ) -> None:
        self.rule, self.task = rule, graph.task
        cpu = torch.device("cpu")
        parts = [padded([getattr(split, part) for split in splits], cpu, -1) for part in PARTS]
        self.sizes = [nodes.shape[1] for nodes in parts]
        nodes = torch.cat(parts, dim=1).long()
        self.counts = (nodes >= 0).to(device)
        nodes = nodes.clamp(min=0)
        self.nodes = nodes.to(device)
        self.truth = torch.from_numpy(graph.labels[nodes.numpy()]).to(device)
        self.records: dict[str, list[Tensor]] = {}
        self.highest: dict[str, Tensor] = {}
        self.marked = torch.zeros(len(splits), dtype=torch.int64, device=device)

    def record(self, mode: str, scores: Tensor) -> Tensor:
        """Score logits (R, n, C); returns booleans (R,): which replicas improved."""
        if self.task == "classification":
            return self._record(mode, (scores.argmax(-1).gather(1, self.nodes) == self.truth))
        index = self.nodes.unsqueeze(-1).expand(-1, -1, scores.shape[-1])
        return self.record_nodes(mode, scores.gather(1, index))

    def record_nodes(self, mode: str, scores: Tensor) -> Tensor:
        """The same for the logits of the scored nodes only, (R, validation + test, C)."""
        if self.task == "classification":
            return self._record(mode, scores.argmax(-1) == self.truth)
        if self.task == "multilabel":
            return self._record(mode, ((scores > 0) == (self.truth > 0)).double().mean(-1))
        error = (scores.squeeze(-1) - self.truth).square()
        return self._record(mode, 1 - error)

    def mark(self, better: Tensor) -> None:
        """Mark the latest evaluation as the best of the replicas where `better` (R,) is true."""
        latest = max(map(len, self.records.values())) - 1
        self.marked = torch.where(better, latest, self.marked)

    def _record(self, mode: str, right: Tensor) -> Tensor:
        # The labels of padding may be unknown numbers, which are NaN.
        hits = torch.where(self.counts, right.double(), 0.0).split(self.sizes, dim=1)
        counts = self.counts.double().split(self.sizes, dim=1)
        validation, test = (a.sum(1) / b.sum(1) for a, b in zip(hits, counts, strict=True))
        self.records.setdefault(mode, []).append(torch.stack([validation, test]))
        highest = self.highest.get(mode, torch.full_like(validation, -torch.inf))
        self.highest[mode] = highest.maximum(validation)
        better: Tensor = validation > highest
        return better

    @property
    def chooses(self) -> bool:
        """Whether there are validation nodes, which select the best evaluation."""
        return bool(self.sizes[0])

    def state(self) -> dict[str, Tensor]:
        """All records as tensors by name."""
        curves = {f"history.{mode}": torch.stack(all_) for mode, all_ in self.records.items()}
        return {**curves, "marked": self.marked}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore the records that `state` returned."""
        if "marked" in state:
            self.marked = state["marked"].to(self.nodes.device)
        for name, curve in state.items():
            if not name.startswith("history."):
                continue
            mode, curve = name.removeprefix("history."), curve.to(self.nodes.device)
            self.records[mode] = list(curve)
            self.highest[mode] = curve[:, 0].amax(0)

    def curve(self, mode: str) -> npt.NDArray[np.float64]:
        """Validation and test accuracies, (evaluations, 2, R)."""
        curve: npt.NDArray[np.float64] = torch.stack(self.records[mode]).cpu().numpy()
        return curve

    def best(self, mode: str) -> Best:
        """The best evaluation of each replica."""
        curve = self.curve(mode)
        chosen = curve[:, 0].argmax(axis=0)  # (R,)
        if self.rule == "marked":
            chosen = self.marked.cpu().numpy()
        validation, test = curve[chosen, :, np.arange(curve.shape[2])].T
        return Best(chosen + 1, validation, test)


class Snapshot:
    """The weights and statistics of each replica's best evaluation.

    Examples
    --------
    >>> layer = nn.Linear(1, 1, bias=False)
    >>> best = Snapshot(layer)
    >>> with torch.no_grad():
    ...     before = layer.weight.clone()
    ...     _ = layer.weight.add_(1.0)
    >>> best.restore()
    >>> bool(layer.weight == before)
    True
    """

    def __init__(self, network: nn.Module) -> None:
        self.live = list(network.state_dict().values())
        self.kept = [tensor.clone() for tensor in self.live]

    def keep(self, better: Tensor) -> None:
        """Store the current weights of the replicas where `better` (R,) is true."""
        for live, kept in zip(self.live, self.kept, strict=True):
            torch.where(better.view(-1, *[1] * (live.ndim - 1)), live, kept, out=kept)

    def restore(self) -> None:
        """Copy the stored weights back into the network."""
        for live, kept in zip(self.live, self.kept, strict=True):
            live.copy_(kept)

    def state(self) -> dict[str, Tensor]:
        """The stored tensors by name."""
        return {f"kept.{i}": tensor for i, tensor in enumerate(self.kept)}
