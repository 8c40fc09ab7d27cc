"""One training, scored in both modes after each epoch.

`fit` is the way in for a graph and a split: it hides what the setting hides, trains, and keeps the
weights of each replica's best epoch. LinkDistMLP and LinkDist are the same training scored in two
ways, so both scores come from one call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from linkdist.checkpoints import Checkpoint
from linkdist.coefficients import coefficients
from linkdist.errors import OptionError, check_names
from linkdist.graph import Graph
from linkdist.inference import FORMS, Model, logits, message_passing, parts_of
from linkdist.inputs import Inputs, make_inputs
from linkdist.neighbours import Neighbours
from linkdist.network import ForkedMLP
from linkdist.scoring import History
from linkdist.splits import Split, observe
from linkdist.teaching import loop_on_targets, targets
from linkdist.training import Loop, epochs_for, find_device, loop_on_links

BETA = {"inductive": None, "transductive": None, "full-supervised": 0.1, "production": None}
"""β1 + β2 of each setting; None leaves them r_n and r_e."""

METHODS = ("linkdist", "colinkdist", "selflinkdist")
ALPHAS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""What α may be where validation nodes choose it."""
FRESH = 1 << 20
"""How far a student's seeds are from its teacher's."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Fit:
    """What training gave.

    Attributes
    ----------
    model : Model
        The weights at each replica's best epoch from features.
    history : History
        Modes 'features', 'mean' and 'sum' (the two forms of message passing).
    epochs : int
        How many were trained.
    seconds : float
        How long it took.
    precision : str
        Of the first layer.
    """

    model: Model
    history: History
    epochs: int
    seconds: float
    precision: str


def fit(
    graph: Graph,
    splits: Split | Sequence[Split],
    setting: str = "transductive",
    *,
    method: str = "colinkdist",
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    device: str = "auto",
    inputs: Inputs | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fit:
    """Train R replicas on what a setting lets them see.

    Parameters
    ----------
    graph : Graph
        Everything that is known.
    splits : Split or sequence of Split
        One for all replicas, or one a replica.
    setting : {'transductive', 'inductive', 'full-supervised'}
        What training may see.
    method : {'colinkdist', 'linkdist', 'selflinkdist'}
        With or without random node pairs to be pushed apart; or CoLinkDist as the teacher of a
        fresh network (see `teaching`).
    seeds : sequence of int
        One a replica.
    epochs : int, optional
        By default floor(200 / average degree).
    device : {'auto', 'cpu', 'cuda'}
        Where to train.
    inputs : Inputs, optional
        The graph's features on that device, where they are there already.
    progress : callable, optional
        Called with epochs done and epochs in all.
    checkpoint : Checkpoint, optional
        Where to keep the state after every epoch, and to go on from.

    Examples
    --------
    >>> from linkdist.datasets import load
    >>> from linkdist.splits import named_split
    >>> graph = load("digits")
    >>> split = named_split(graph, "transductive", seed=0)
    >>> result = fit(graph, split, epochs=2, device="cpu")
    >>> result.history.curve("features").shape
    (2, 2, 1)
    """
    started = time.perf_counter()
    each = [splits] * len(seeds) if isinstance(splits, Split) else list(splits)
    _check(method, seeds, each, epochs)
    where = find_device(device)
    inputs = inputs or make_inputs(graph.features, where)
    ground = Ground(graph, each, setting, seeds, inputs)
    total = epochs_for(graph.degree) if epochs is None else epochs
    train = _teach_itself if method == "selflinkdist" else _train
    stage = train(ground, method, total, Course(checkpoint, progress))
    model = Model(stage.network, stage.alpha, graph.classes)
    return Fit(model, stage.history, total, time.perf_counter() - started, inputs.precision)


class Ground:
    """What every stage of a training stands on: the graph, its views, its coefficients."""

    def __init__(
        self,
        graph: Graph,
        splits: Sequence[Split],
        setting: str,
        seeds: Sequence[int],
        inputs: Inputs,
    ) -> None:
        self.graph, self.splits, self.seeds, self.inputs = graph, splits, seeds, inputs
        self.device = inputs.device
        self.views = [observe(graph, split, setting) for split in splits]
        self.everyone = Neighbours([graph.edges], graph.n, self.device)
        self.by = coefficients(self.views, BETA[setting], self.device)

    @property
    def seen(self) -> Neighbours:
        """The links of each view."""
        return Neighbours([view.edges for view in self.views], self.graph.n, self.device)

    @property
    def judged(self) -> Neighbours:
        """The links of each view and its validation nodes: by these a teacher is chosen.

        Where a setting hides the test nodes, what is taught must not depend on them.
        """
        edges = []
        for view, split in zip(self.views, self.splits, strict=True):
            there = np.zeros(self.graph.n, dtype=bool)
            there[view.nodes] = there[split.validation] = True
            edges.append(self.graph.edges[there[self.graph.edges].all(axis=1)])
        return Neighbours(edges, self.graph.n, self.device)

    def network(self, seeds: Sequence[int]) -> ForkedMLP:
        """Fresh replicas."""
        return ForkedMLP(self.graph.d, self.graph.C, seeds).to(self.device)


class Course:
    """How far a training of one or more stages is: its progress and its checkpoint."""

    def __init__(self, checkpoint: Checkpoint | None, progress: Progress | None) -> None:
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


class Stage:
    """A network in training, looked at in both modes.

    Attributes
    ----------
    network : ForkedMLP
        In training; at the end with the weights of each replica's best look from features.
    alpha : (R,) tensor
        α for these weights.
    history : History
        The scores of every look.
    """

    latest = False
    """Which of equally good looks counts: the paper's first, or the latest."""

    def __init__(self, ground: Ground, network: ForkedMLP, loop: Loop) -> None:
        self.ground, self.network, self.loop = ground, network, loop
        self.history = History(ground.graph, ground.splits, ground.device, self.latest)
        self.best = Snapshot(network)
        self.alpha = ground.by.alpha.clone()

    def look(self) -> None:
        """Score the present weights, and keep them where they are the best from features."""
        z, s = logits(self.network, self.ground.inputs)
        self.best.keep(self.history.record("features", z))
        for form in FORMS:
            scores = message_passing(z, s, self.ground.everyone, self.alpha, form)
            self.history.record(form, scores)

    def finish(self) -> None:
        """Put the best weights in place, where validation nodes chose any."""
        if self.history.chooses:
            self.best.restore()

    def state(self) -> dict[str, Tensor]:
        """The live tensors that the rest of the stage depends on, but for its history."""
        kept = {f"kept.{i}": tensor for i, tensor in enumerate(self.best.kept)}
        adam = {f"adam.{name}": tensor for name, tensor in self.loop.adam.state().items()}
        return {**self.network.state_dict(prefix="network."), **kept, **adam, "alpha": self.alpha}


def _train(ground: Ground, method: str, total: int, course: Course) -> Stage:
    """The paper's way: one training, a look after every epoch."""
    network = ground.network(ground.seeds)
    loop = loop_on_links(network, ground.inputs, ground.views, ground.seeds, ground.by, method)
    stage = Stage(ground, network, loop)
    course.resume(stage)

    def after_epoch(epoch: int) -> None:
        course.after(epoch + 1, total, {**stage.state(), **stage.history.state()})

    loop.run(total, after_epoch, start=course.done, look=stage.look)
    stage.finish()
    return stage


class Teacher(Stage):
    """A stage that also keeps the logits of each replica's best look with links."""

    latest = True

    def __init__(self, ground: Ground, network: ForkedMLP, loop: Loop) -> None:
        super().__init__(ground, network, loop)
        shape = (len(ground.seeds), ground.graph.n, ground.graph.C)
        self.z, self.s = (torch.zeros(shape, device=ground.device) for _ in range(2))
        self.judged = ground.judged

    def look(self) -> None:
        """Score the present logits with links, and keep them where they are the best."""
        z, s = logits(self.network, self.ground.inputs)
        own, word = (self.history.scored(part) for part in parts_of(z, s, self.judged))
        scores = own + self.alpha.view(-1, 1, 1) * word
        better = self.history.record_nodes("mean", scores).view(-1, 1, 1)
        better = better | (not self.history.chooses)
        torch.where(better, z, self.z, out=self.z)
        torch.where(better, s, self.s, out=self.s)

    def state(self) -> dict[str, Tensor]:
        """The live tensors that the rest of the stage depends on, but for its history."""
        return {**super().state(), "z": self.z, "s": self.s}


class Student(Stage):
    """A stage whose α is learnt, too: the one of some that does best on validation nodes."""

    latest = True

    def __init__(self, ground: Ground, network: ForkedMLP, loop: Loop) -> None:
        super().__init__(ground, network, loop)
        self.looked = self.alpha.clone()

    def look(self) -> None:
        """Score the present weights, and keep them where they are the best from features."""
        z, s = logits(self.network, self.ground.inputs)
        own, word = (self.history.scored(part) for part in parts_of(z, s, self.ground.everyone))
        self._choose_alpha(own, word)
        self.history.record_nodes("mean", own + self.looked.view(-1, 1, 1) * word)
        better = self.history.record_nodes("features", own)
        self.best.keep(better)
        torch.where(better, self.looked, self.alpha, out=self.alpha)

    def _choose_alpha(self, own: Tensor, word: Tensor) -> None:
        """The α that does best on validation nodes; the view's own where none does better."""
        self.looked.copy_(self.ground.by.alpha)
        if not self.history.chooses:
            return
        highest = self.history.validation(own + self.looked.view(-1, 1, 1) * word)
        for alpha in ALPHAS:
            found = self.history.validation(own + alpha * word)
            self.looked.masked_fill_(found > highest, alpha)
            highest = highest.maximum(found)


def _teach_itself(ground: Ground, method: str, epochs: int, course: Course) -> Stage:
    """SelfLinkDist: CoLinkDist is the teacher; a fresh network learns its word with links.

    Both are looked at about once for each time that a node was visited.
    """
    visits = max(1, round(ground.graph.degree))
    total = epochs + epochs * visits
    if "targets" not in course.tensors:
        p = _teach(ground, epochs, visits, total, course)
    else:
        p = course.tensors.pop("targets").to(ground.device)
    seeds = [seed + FRESH for seed in ground.seeds]
    network = ground.network(seeds)
    # Where no validation nodes choose a look, the last one has to be good.
    falls = epochs * visits if not len(ground.splits[0].validation) else None
    loop = loop_on_targets(network, ground.inputs, ground.views, seeds, p, epochs=falls)
    student = Student(ground, network, loop)
    course.resume(student)

    def after_epoch(epoch: int) -> None:
        # A visit is short; its state is kept as often as the teacher's.
        state = {**student.state(), **student.history.state(), "targets": p}
        course.after(epochs + epoch + 1, total, state if (epoch + 1) % visits == 0 else None)

    start = max(0, course.done - epochs)
    loop.run(epochs * visits, after_epoch, start=start, look=student.look)
    student.finish()
    return student


def _teach(ground: Ground, epochs: int, visits: int, total: int, course: Course) -> Tensor:
    """Train the teacher; gives its targets (R, n, C)."""
    network, of = ground.network(ground.seeds), (ground.inputs, ground.views, ground.seeds)
    loop = loop_on_links(network, *of, ground.by, "colinkdist", hide=True)
    teacher = Teacher(ground, network, loop)
    course.resume(teacher)

    def after_epoch(epoch: int) -> None:
        course.after(epoch + 1, total, {**teacher.state(), **teacher.history.state()})

    loop.run(epochs, after_epoch, start=course.done, look=teacher.look, looks=visits)
    return targets(teacher.z, teacher.s, ground.seen, ground.by.alpha, ground.views)


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


def _check(method: str, seeds: Sequence[int], splits: Sequence[Split], epochs: int | None) -> None:
    check_names("method", [method], METHODS)
    if len(seeds) < 1:
        raise OptionError("training needs at least one seed, one a replica; found none.")
    if len(splits) != len(seeds):
        raise OptionError(
            f"there must be one split for all replicas or one a replica; found {len(splits)} "
            f"splits for {len(seeds)} seeds."
        )
    check_epochs(epochs)


def check_epochs(epochs: int | None) -> None:
    """Refuse a number of epochs that trains nothing.

    Examples
    --------
    >>> check_epochs(None)
    """
    if epochs is not None and epochs < 1:
        raise OptionError(f"epochs must be 1 or more; found {epochs}.")
