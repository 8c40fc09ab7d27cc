"""Train a model on a graph and a split.

`fit` hides what the setting hides, trains, and keeps the weights that validation nodes or folds
select. LinkDistMLP and LinkDist are the same training evaluated in two ways, so both scores come
from one call.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from linkdist.data.graph import Graph
from linkdist.data.splits import Split
from linkdist.errors import OptionError, check_names
from linkdist.model import Model, logits, reweighted
from linkdist.nn.aggregation import Relations
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.nn.network import HIDDEN
from linkdist.progress import Progress
from linkdist.training.checkpoint import Keeper, TrainingRun
from linkdist.training.history import History
from linkdist.training.link_task import LinkTask, LinkTraining, epochs_for, loop_on_links
from linkdist.training.loop import BATCH, Hyperparameters, find_device
from linkdist.training.panel.calibration import fit_heads
from linkdist.training.panel.decision import Decision
from linkdist.training.panel.ensemble import Predictions
from linkdist.training.panel.estimates import Estimates
from linkdist.training.panel.families import Classes
from linkdist.training.panel.fitting import fit_panel

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
    predictions : mapping, optional
        Predictions of held-out nodes, for SelfLinkDist; see `Panel.predictions`.
    inputs, neighbours : optional
        The features and links of the graph on the device of the model, for its evaluation.
    decision : Decision
        Prediction intervals and thresholds of labels, for SelfLinkDist, or factors of classes.
    """

    model: Model
    history: History
    epochs: int
    seconds: float
    precision: str
    estimates: Estimates | None = None
    predictions: Mapping[str, Mapping[str, Predictions]] = field(default_factory=dict)
    inputs: Inputs | None = field(default=None, repr=False)
    neighbours: Relations | None = field(default=None, repr=False)
    decision: Decision = field(default_factory=Decision)


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
    baselines: bool = False,
    budget: float | None = None,
    held_out: float | None = None,
    hidden_size: int = HIDDEN,
    batch_size: int = BATCH,
    learning_rate: float | None = None,
    dropout: float | None = None,
    schedule: str | None = None,
    loss: str = "squared",
    metric: str | None = None,
    class_weight: npt.NDArray[np.float64] | None = None,
    hold_out_graphs: bool = False,
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
        over the nodes. The default is 30; small graphs use more, large graphs with folds use
        fewer. With validation nodes, training continues for twice as many and keeps the better
        result.
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
    baselines : bool, optional
        Whether to train CoLinkDist on a short schedule as a baseline for SelfLinkDist. The other
        baselines are among its teachers.
    held_out : float, optional
        Share of the training labels that SelfLinkDist uses as a validation split instead of folds,
        if there are no validation nodes. Half of these nodes are hidden from training. With 0,
        nothing is held out: training is faster, all teachers have the same weight, and the
        accuracy is unknown.
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
        Probability of dropping a hidden unit, rounded to a multiple of 1/256; by default 0.5, and
        0.1 for regression.
    schedule : {'constant', 'cosine'}, optional
        How the learning rate changes; 'cosine' decreases it to 0. By default 'cosine' for
        SelfLinkDist and 'constant' for the paper's methods.
    loss : {'squared', 'absolute'}
        The error that a regression minimises.
    metric : str, optional
        What validation nodes choose by and what is estimated, for SelfLinkDist; by default the
        loss chooses, and 'accuracy', 'r2' or 'micro-f1' is estimated. See
        `linkdist.training.measures`.
    class_weight : (C,) array, optional
        Factors of the class probabilities in predictions.
    hold_out_graphs : bool
        Whether folds hold out whole graphs (`Graph.groups`), for SelfLinkDist.

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
    problems = [*epoch_problems(epochs), *hyper.problems(), *limit_problems(held_out, budget)]
    if graph.task != "classification" and method in METHODS[1:]:
        problems.append(f"the method {method} is for classification; use selflinkdist.")
    if method in METHODS[1:] and (metric is not None or hold_out_graphs):
        problems.append(f"metric and hold_out_graphs are for selflinkdist; the method is {method}.")
    _check(method, seeds, each, problems)
    hyper = hyper.of_task(graph.task)
    inputs = inputs or make_inputs(graph.features, find_device(device))
    # What fits into a budget differs between runs, so these cannot be resumed.
    run = TrainingRun(None if budget is not None else checkpoint, progress)
    if method == "selflinkdist":
        common = (graph, each, setting, seeds, inputs, run, hyper, epochs)
        panel, estimates, decision = fit_panel(
            *common,
            teachers=teachers,
            baselines=baselines and graph.task == "classification",
            budget=budget,
            held_out=held_out,
            loss=loss,
            metric=metric,
            class_weight=class_weight,
            hold_out_graphs=hold_out_graphs,
        )
        took, neighbours = time.perf_counter() - started, panel.ensemble.context.neighbours
        trained = (panel.model, panel.history, panel.visits, took, inputs.precision)
        return Fit(*trained, estimates, panel.predictions, inputs, neighbours, decision)
    task = LinkTask(graph, each, setting, seeds, inputs)
    total = epochs_for(graph.degree) if epochs is None else epochs
    training = _train(task, method, total, run, hyper)
    training.restore_best()
    model = Model(
        training.network,
        training.alpha,
        graph.classes,
        relations=graph.relations,
        directed=graph.directed,
    )
    if len(graph.heads) > 1:
        model = with_chosen_alpha(model, task)
    took = time.perf_counter() - started
    factors = None if class_weight is None else class_weight.tolist()
    trained = (reweighted(model, class_weight), training.history, total, took, inputs.precision)
    decision = Decision(factors=factors)
    return Fit(*trained, inputs=inputs, neighbours=task.neighbours, decision=decision)


def _train(
    task: LinkTask, method: str, total: int, run: TrainingRun, hyper: Hyperparameters
) -> LinkTraining:
    """Train one of the paper's methods, with an evaluation after every epoch."""
    graph = task.graph
    network = hyper.network(graph.d, graph.C, task.seeds, task.device, len(graph.heads))
    data = (network, task.inputs, task.views, task.seeds, task.coefficients)
    decay = total if hyper.decays(method) else None
    loop = loop_on_links(*data, method, hyper.batch, hyper.rate(method), epochs=decay)
    training = LinkTraining(task, network, loop.adam)
    run.resume(training.state(), training.history)

    def after_epoch(epoch: int) -> None:
        run.after(epoch + 1, total, {**training.state(), **training.history.state()})

    loop.run(total, after_epoch, start=run.done, evaluate=training.evaluate)
    return training


@torch.no_grad()
def with_chosen_alpha(model: Model, task: LinkTask) -> Model:
    """The model with the α of each head, and κ, that fit the labels of validation nodes best.

    Without validation nodes, the heads share the α of the paper.
    """
    z, s = logits(model.network, task.inputs)
    own, beside = z.log_softmax(-1), task.neighbours.means(s.log_softmax(-1))
    alpha, kappa = model.alpha.clone(), model.kappa.clone()
    prior = np.zeros(task.graph.C)  # π and ε are for predictions that need no weights
    for r, split in enumerate(task.splits):
        rows = torch.from_numpy(split.validation).to(task.device)
        if len(rows):
            scores = (own[r, rows], beside[:, r, rows])
            mine, others = (part.double().cpu().numpy() for part in scores)
            labels = task.graph.labels[split.validation]
            chosen = torch.from_numpy(fit_heads(Classes(), mine, others, prior, labels))
            kappa[r], alpha[r] = chosen[0], chosen[1:-1].to(alpha)
    return replace(model, alpha=alpha, kappa=kappa)


def _check(
    method: str, seeds: Sequence[int], splits: Sequence[Split], problems: Sequence[str]
) -> None:
    """Raise one error for all problems of the arguments."""
    problems = list(problems)
    try:
        check_names("method", [method], METHODS)
    except OptionError as error:
        problems.insert(0, str(error))
    if len(seeds) < 1:
        problems.append("training needs at least one seed, one for each replica; found none.")
    if len(splits) != len(seeds):
        problems.append(
            f"there must be one split for all replicas or one for each; found {len(splits)} "
            f"splits for {len(seeds)} seeds."
        )
    if problems:
        raise OptionError(" ".join(problems))


def epoch_problems(epochs: int | None) -> list[str]:
    """What is wrong with a number of epochs.

    Examples
    --------
    >>> epoch_problems(None), epoch_problems(0)
    ([], ['epochs must be 1 or more; found 0.'])
    """
    wrong = epochs is not None and epochs < 1
    return [f"epochs must be 1 or more; found {epochs}."] if wrong else []


def limit_problems(held_out: float | None, budget: float | None) -> list[str]:
    """What is wrong with a share of held-out labels and with a time limit.

    Examples
    --------
    >>> limit_problems(0.1, None), limit_problems(None, -5.0)
    ([], ['budget must be above 0 s; found -5 s.'])
    """
    problems = []
    if held_out is not None and not 0 <= held_out < 1:
        problems.append(f"held_out must be from 0 to below 1; found {held_out}.")
    if budget is not None and not budget > 0:
        problems.append(f"budget must be above 0 s; found {budget:g} s.")
    return problems
