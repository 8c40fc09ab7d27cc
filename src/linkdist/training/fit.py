"""Train a model on a graph and a split.

`fit` hides what the setting hides, trains, and keeps the weights that validation nodes or folds
select. LinkDistMLP and LinkDist are the same training evaluated in two ways, so both scores come
from one call.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from linkdist.data.graph import Graph
from linkdist.data.splits import Split
from linkdist.errors import OptionError, check_names
from linkdist.model import Model
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.nn.network import DROPOUT, HIDDEN
from linkdist.progress import Progress
from linkdist.training.checkpoint import Keeper
from linkdist.training.history import History
from linkdist.training.hyperparameters import Hyperparameters
from linkdist.training.loop import BATCH, epochs_for, find_device, loop_on_links
from linkdist.training.panel.estimates import Estimates
from linkdist.training.panel.faculty import Judgement
from linkdist.training.panel.fitting import Asked, fit_panel
from linkdist.training.stages import Course, Ground, Kept, Plain

METHODS = ("selflinkdist", "colinkdist", "linkdist")


@dataclass(frozen=True)
class Fit:
    """The result of a training.

    Attributes
    ----------
    model : Model
        The selected weights.
    history : History
        Accuracy at each evaluation in the modes 'features', 'mean' and 'sum', the two forms of
        message passing; SelfLinkDist has no 'sum'.
    epochs : int
        Number of epochs: passes over the links, or over the nodes for SelfLinkDist.
    seconds : float
        Duration of the training.
    precision : str
        Precision of the first layer.
    estimates : Estimates, optional
        Estimated accuracy with intervals, for SelfLinkDist.
    judged : mapping, optional
        Predictions of validation nodes, for SelfLinkDist; see `Panel.judged`.
    inputs, neighbours : optional
        The features and links of the graph on the device of the model, for its evaluation.
    """

    model: Model
    history: History
    epochs: int
    seconds: float
    precision: str
    estimates: Estimates | None = None
    judged: Mapping[str, Mapping[str, Judgement]] = field(default_factory=dict)
    inputs: Inputs | None = field(default=None, repr=False)
    neighbours: Neighbours | None = field(default=None, repr=False)


def fit(
    graph: Graph,
    splits: Split | Sequence[Split],
    setting: str = "transductive",
    *,
    method: str = "selflinkdist",
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    device: str = "auto",
    inputs: Inputs | None = None,
    progress: Progress | None = None,
    checkpoint: Keeper | None = None,
    teachers: Sequence[Any] = (),
    judge: bool = True,
    baselines: bool = False,
    budget: float | None = None,
    held_out: float | None = None,
    hidden_size: int = HIDDEN,
    batch_size: int = BATCH,
    learning_rate: float | None = None,
    dropout: float = DROPOUT,
    schedule: str | None = None,
) -> Fit:
    """Train R replicas on the part of a graph that a setting shows.

    Parameters
    ----------
    graph : Graph
        The whole graph.
    splits : Split or sequence of Split
        One split for all replicas, or one for each. If it has no validation nodes, SelfLinkDist
        uses folds of the training labels; then all replicas share one split.
    setting : {'transductive', 'inductive', 'full-supervised', 'production'}
        The part of the graph that training sees.
    method : {'selflinkdist', 'colinkdist', 'linkdist'}
        'selflinkdist' trains a network with a panel of teachers (see `linkdist.training.panel`).
        The others are the paper's methods; 'colinkdist' also separates random pairs of nodes.
    seeds : sequence of int
        One for each replica.
    epochs : int, optional
        Passes over the links; by default floor(200 / average degree). For SelfLinkDist, passes
        over the nodes; by default 30, and 60 more if they improve the result on validation nodes.
    device : {'auto', 'cpu', 'cuda'}
        Where to train.
    inputs : Inputs, optional
        The features of the graph on that device, if they were prepared before.
    progress : callable, optional
        Receives the number of finished epochs and the total.
    checkpoint : Keeper, optional
        Where the state is saved, and from where training resumes.
    teachers : sequence of classifiers, optional
        Additional teachers for SelfLinkDist: scikit-learn classifiers with `predict_proba`. They
        are cloned and fitted on the features and class numbers of labelled nodes.
    judge : bool, optional
        Whether SelfLinkDist uses folds if there are no validation nodes. Without folds, training
        is faster, all teachers have the same weight, and the accuracy is unknown.
    baselines : bool, optional
        Whether to train CoLinkDist on a short schedule as a baseline for SelfLinkDist. The other
        baselines are among its teachers.
    held_out : float, optional
        Share of the training labels that SelfLinkDist uses as a validation split instead of folds,
        if there are no validation nodes. Half of these nodes are hidden from training.
    budget : float, optional
        Time limit of SelfLinkDist in seconds. It shortens the schedule and, if that is not enough,
        leaves out folds. The result depends on the speed of the machine.
    hidden_size : int, optional
        Width of the hidden layers.
    batch_size : int, optional
        Links per step, or nodes for SelfLinkDist.
    learning_rate : float, optional
        Learning rate of Adam; by default 0.003 for SelfLinkDist and 0.01 for the paper's methods.
    dropout : float, optional
        Probability of dropping a hidden unit, rounded to a multiple of 1/256.
    schedule : {'constant', 'cosine'}, optional
        How the learning rate changes; 'cosine' decreases it to 0. By default 'cosine' for
        SelfLinkDist and 'constant' for the paper's methods.

    Examples
    --------
    >>> from linkdist.data.datasets import load_dataset
    >>> from linkdist.data.splits import named_split
    >>> graph = load_dataset("digits")
    >>> split = named_split(graph, "transductive", seed=0)
    >>> result = fit(graph, split, epochs=2, device="cpu")
    >>> result.history.curve("features").shape
    (1, 2, 1)
    """
    started = time.perf_counter()
    each = [splits] * len(seeds) if isinstance(splits, Split) else list(splits)
    hyper = Hyperparameters(hidden_size, batch_size, learning_rate, dropout, schedule)
    _check(method, seeds, each, epochs, hyper)
    inputs = inputs or make_inputs(graph.features, find_device(device))
    # What fits into a budget differs between runs, so these cannot be resumed.
    course = Course(None if budget is not None else checkpoint, progress)
    if method == "selflinkdist":
        options = (epochs, tuple(teachers), judge, baselines, budget, held_out, hyper)
        asked = Asked(setting, tuple(seeds), *options)
        panel, estimates = fit_panel(graph, each, inputs, course, asked)
        took = time.perf_counter() - started
        trained = (panel.model, panel.history, panel.visits, took, inputs.precision)
        neighbours = None if panel.faculty is None else panel.faculty.lesson.neighbours
        return Fit(*trained, estimates, panel.judged, inputs, neighbours)
    ground = Ground(graph, each, setting, seeds, inputs)
    total = epochs_for(graph.degree) if epochs is None else epochs
    stage = _train(ground, method, total, course, hyper)
    stage.finish()
    model = Model(stage.network, stage.alpha, graph.classes)
    took = time.perf_counter() - started
    trained = (model, stage.history, total, took, inputs.precision)
    return Fit(*trained, inputs=inputs, neighbours=ground.everyone)


def _train(ground: Ground, method: str, total: int, course: Course, hyper: Hyperparameters) -> Kept:
    """Train one of the paper's methods, with an evaluation after every epoch."""
    network = hyper.network(ground.graph.d, ground.graph.C, ground.seeds, ground.device)
    loop = loop_on_links(
        network,
        ground.inputs,
        ground.views,
        ground.seeds,
        ground.by,
        method,
        hyper.batch,
        hyper.rate(method),
        epochs=total if hyper.decays(method) else None,
    )
    stage = Plain(ground, network, loop.adam)
    course.resume(stage)

    def after_epoch(epoch: int) -> None:
        course.after(epoch + 1, total, {**stage.state(), **stage.history.state()})

    loop.run(total, after_epoch, start=course.done, look=stage.look)
    return stage


def _check(
    method: str,
    seeds: Sequence[int],
    splits: Sequence[Split],
    epochs: int | None,
    hyper: Hyperparameters,
) -> None:
    problems = [*_name_problems(method), *epoch_problems(epochs), *hyper.problems()]
    if len(seeds) < 1:
        problems.append("training needs at least one seed, one for each replica; found none.")
    if len(splits) != len(seeds):
        problems.append(
            f"there must be one split for all replicas or one for each; found {len(splits)} "
            f"splits for {len(seeds)} seeds."
        )
    if problems:
        raise OptionError(" ".join(problems))


def _name_problems(method: str) -> list[str]:
    try:
        check_names("method", [method], METHODS)
    except OptionError as error:
        return [str(error)]
    return []


def epoch_problems(epochs: int | None) -> list[str]:
    """What is wrong with a number of epochs.

    Examples
    --------
    >>> epoch_problems(None), epoch_problems(0)
    ([], ['epochs must be 1 or more; found 0.'])
    """
    wrong = epochs is not None and epochs < 1
    return [f"epochs must be 1 or more; found {epochs}."] if wrong else []
