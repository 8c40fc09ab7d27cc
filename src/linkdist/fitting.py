"""A graph and a split in, a model and its scores out.

`fit` is the way in for a graph and a split: it hides what the setting hides, trains, and keeps the
weights of each replica's best epoch. LinkDistMLP and LinkDist are the same training scored in two
ways, so both scores come from one call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from linkdist.checkpoints import Checkpoint
from linkdist.errors import OptionError, check_names
from linkdist.graph import Graph
from linkdist.inference import Model
from linkdist.inputs import Inputs, make_inputs
from linkdist.scoring import History
from linkdist.splits import Split
from linkdist.stages import Course, Ground, Kept, Plain, Progress, Student, Teacher
from linkdist.teaching import HIDE, loop_on_targets, targets
from linkdist.training import epochs_for, find_device, loop_on_links

METHODS = ("linkdist", "colinkdist", "selflinkdist")
FRESH = 1 << 20
"""How far a student's seeds are from its teacher's."""


@dataclass(frozen=True)
class Fit:
    """What training gave.

    Attributes
    ----------
    model : Model
        The weights at each replica's best epoch from features.
    history : History
        Modes 'features', 'mean' and 'sum' (the two forms of message passing); SelfLinkDist has no
        'sum'.
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
    setting : {'transductive', 'inductive', 'full-supervised', 'production'}
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
        Called with epochs done and epochs in all; a student's visits of its nodes count as well.
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
    course = Course(checkpoint, progress)
    if method == "selflinkdist":
        stage = _teach_itself(ground, total, course)
    else:
        stage = _train(ground, method, total, course)
    stage.finish()
    model = Model(stage.network, stage.alpha, graph.classes)
    return Fit(model, stage.history, total, time.perf_counter() - started, inputs.precision)


def _train(ground: Ground, method: str, total: int, course: Course) -> Kept:
    """The paper's way: one training, a look after every epoch."""
    network = ground.network(ground.seeds)
    loop = loop_on_links(network, ground.inputs, ground.views, ground.seeds, ground.by, method)
    stage = Plain(ground, network, loop.adam)
    course.resume(stage)

    def after_epoch(epoch: int) -> None:
        course.after(epoch + 1, total, {**stage.state(), **stage.history.state()})

    loop.run(total, after_epoch, start=course.done, look=stage.look)
    return stage


def _teach_itself(ground: Ground, epochs: int, course: Course) -> Kept:
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
    loop = loop_on_targets(network, ground.inputs, ground.views, seeds, p, epochs * visits)
    student = Student(ground, network, loop.adam)
    course.resume(student)

    def after_epoch(epoch: int) -> None:
        # A visit is short; its state is kept as often as the teacher's.
        state = {**student.state(), **student.history.state(), "targets": p}
        course.after(epochs + epoch + 1, total, state if (epoch + 1) % visits == 0 else None)

    start = max(0, course.done - epochs)
    loop.run(epochs * visits, after_epoch, start=start, look=student.look)
    return student


def _teach(ground: Ground, epochs: int, visits: int, total: int, course: Course) -> Tensor:
    """Train the teacher; gives its targets (R, n, C)."""
    network, of = ground.network(ground.seeds), (ground.inputs, ground.views, ground.seeds)
    loop = loop_on_links(network, *of, ground.by, "colinkdist", hide=HIDE)
    teacher = Teacher(ground, network, loop.adam)
    course.resume(teacher)

    def after_epoch(epoch: int) -> None:
        course.after(epoch + 1, total, {**teacher.state(), **teacher.history.state()})

    loop.run(epochs, after_epoch, start=course.done, look=teacher.look, looks=visits)
    return targets(teacher.z, teacher.s, ground.seen, ground.by.alpha, ground.views)


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
