"""What trainings are made of: a ground, a course, and stages.

A `Ground` is what all stages of a training stand on, a `Course` how far it is, and a `Stage` a
network in training that is evaluated. The paper's methods have one `Plain` stage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from linkdist.data.graph import Graph
from linkdist.data.splits import Split, observe
from linkdist.model import FORMS, logits, message_passing
from linkdist.nn.adam import Adam
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import Inputs
from linkdist.nn.losses import Coefficients
from linkdist.nn.network import ForkedMLP
from linkdist.progress import Progress
from linkdist.training.checkpoint import Keeper
from linkdist.training.coefficients import coefficients
from linkdist.training.history import History

BETA = {"inductive": None, "transductive": None, "full-supervised": 0.1, "production": None}
"""β1 + β2 of each setting; None leaves them r_n and r_e."""


class Ground:
    """What every stage of a training stands on: the graph, its views, its coefficients."""

    def __init__(
        self,
        graph: Graph,
        splits: Sequence[Split],
        setting: str,
        seeds: Sequence[int],
        inputs: Inputs,
        by: Coefficients | None = None,
    ) -> None:
        self.graph, self.splits, self.seeds, self.inputs = graph, splits, seeds, inputs
        self.device = inputs.device
        self.views = [observe(graph, split, setting) for split in splits]
        self.everyone = Neighbours([graph.edges], graph.n, self.device)
        # Where the graph is a sample of a larger one, that one's are given.
        self.by = by or coefficients(self.views, BETA[setting], self.device)

    def network(self, seeds: Sequence[int]) -> ForkedMLP:
        """Fresh replicas."""
        return ForkedMLP(self.graph.d, self.graph.C, seeds).to(self.device)


class Course:
    """How far a training of one or more stages is: its progress and its checkpoint."""

    def __init__(self, checkpoint: Keeper | None, progress: Progress | None) -> None:
        self.checkpoint, self.progress = checkpoint, progress
        found = checkpoint.load() if checkpoint is not None else None
        self.done, self.tensors = found if found is not None else (0, {})

    def resume(self, stage: Stage) -> None:
        """Take over what the checkpoint holds of a stage."""
        if not self.tensors:
            return
        with torch.no_grad():
            for name, live in stage.state().items():
                live.copy_(self.tensors.pop(name))
        stage.history.load(self.tensors)
        self.tensors = {}

    def after(self, done: int, total: int, tensors: Mapping[str, Tensor] | None) -> None:
        """Tell that some epochs are done, and keep the state where one is given."""
        if self.checkpoint is not None and tensors is not None:
            self.checkpoint.save(done, tensors)
        if self.progress is not None:
            self.progress(done, total)


class Snapshot:
    """The weights and statistics of each replica's best epoch."""

    def __init__(self, network: ForkedMLP) -> None:
        self.live = list(network.state_dict().values())
        self.kept = [tensor.clone() for tensor in self.live]

    def keep(self, better: Tensor) -> None:
        """Take over the replicas where `better` (R,) is true."""
        for live, kept in zip(self.live, self.kept, strict=True):
            torch.where(better.view(-1, *[1] * (live.ndim - 1)), live, kept, out=kept)

    def restore(self) -> None:
        """Put the kept state back into the network."""
        for live, kept in zip(self.live, self.kept, strict=True):
            live.copy_(kept)


class Stage(ABC):
    """A network in training that is looked at.

    Attributes
    ----------
    network : ForkedMLP
        In training.
    alpha : (R,) tensor
        α, how much the neighbours' word counts.
    history : History
        The scores of every look.
    """

    def __init__(self, ground: Ground, network: ForkedMLP, adam: Adam) -> None:
        self.ground, self.network, self.adam = ground, network, adam
        self.history = History(ground.graph, ground.splits, ground.device)
        self.alpha = ground.by.alpha.clone()

    @abstractmethod
    def look(self) -> None:
        """Score the present weights, and keep what is to be kept where they are the best."""

    def state(self) -> dict[str, Tensor]:
        """The live tensors that the rest of the stage depends on, but for its history."""
        adam = {f"adam.{name}": tensor for name, tensor in self.adam.state().items()}
        return {**self.network.state_dict(prefix="network."), **adam, "alpha": self.alpha}


class Kept(Stage):
    """A stage that keeps the weights of each replica's best look from features."""

    def __init__(self, ground: Ground, network: ForkedMLP, adam: Adam) -> None:
        super().__init__(ground, network, adam)
        self.best = Snapshot(network)

    def finish(self) -> None:
        """Put the best weights in place, where validation nodes chose any."""
        if self.history.chooses:
            self.best.restore()

    def state(self) -> dict[str, Tensor]:
        """The live tensors that the rest of the stage depends on, but for its history."""
        kept = {f"kept.{i}": tensor for i, tensor in enumerate(self.best.kept)}
        return {**super().state(), **kept}


class Plain(Kept):
    """The paper's training, scored from features and in both forms of message passing."""

    def look(self) -> None:
        """Score the present weights, and keep them where they are the best from features."""
        z, s = logits(self.network, self.ground.inputs)
        self.best.keep(self.history.record("features", z))
        for form in FORMS:
            scores = message_passing(z, s, self.ground.everyone, self.alpha, form)
            self.history.record(form, scores)
