"""The options of a training, and which of them suit a task."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import Graph, Labels
from linkdist.data.splits import HELD_OUT, Split, held_out, keep_aside
from linkdist.data.user_arrays import class_weights
from linkdist.errors import OptionError, check_names, check_seeds
from linkdist.training.fit import METHODS, epoch_problems, limit_problems
from linkdist.training.loop import Hyperparameters
from linkdist.training.measures import MEASURES, measure_for

METRICS = tuple(dict.fromkeys(one.name for measures in MEASURES.values() for one in measures))
"""What validation may choose by; not all of them suit every task."""

CLASS_WEIGHTS = ("balanced",)

LOSSES = ("squared", "absolute")


@dataclass(frozen=True)
class Options:
    """Options of a training.

    Attributes
    ----------
    method : {'selflinkdist', 'colinkdist', 'linkdist'}
        The training method.
    replicas : int
        Number of networks that are trained side by side and averaged.
    epochs : int, optional
        Number of epochs; see `linkdist.fit`.
    held_out : float, optional
        Share of the labels that form the validation split; see `linkdist.LinkDistClassifier`.
    seed : int
        Random seed for the split, the initial weights and sampling.
    device : {'auto', 'cpu', 'cuda'}
        Where to train.
    budget : float, optional
        Time limit of SelfLinkDist in seconds.
    metric : {'accuracy', 'macro-f1', 'roc-auc', 'average-precision'}, optional
        What validation chooses by; by default the accuracy. For several labels, 'micro-f1' is the
        default; for regression, the metrics are 'r2', the default, and 'mae'.
    class_weight : {'balanced'}, optional
        Whether rare classes count as much as frequent ones; by default all labels count alike.
    hold_out_graphs : bool
        Whether validation and folds hold out whole graphs.
    loss : {'squared', 'absolute'}
        The error that a regression minimises.
    hyperparameters : Hyperparameters
        Size of the network and how it is optimised.
    """

    method: str = "selflinkdist"
    replicas: int = 1
    epochs: int | None = None
    held_out: float | None = None
    seed: int = 0
    device: str = "auto"
    budget: float | None = None
    metric: str | None = None
    class_weight: str | None = None
    hold_out_graphs: bool = False
    loss: str = "squared"
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)

    @classmethod
    def of(cls, **settings: Any) -> Options:  # noqa: ANN401
        """Options from keyword arguments, those of `Hyperparameters` included.

        Examples
        --------
        >>> Options.of(seed=3, hidden_size=64).hyperparameters.hidden_size
        64
        >>> Options.of(sed=3)
        Traceback (most recent call last):
        linkdist.errors.OptionError: unknown option 'sed' (near: seed); choose from method, \
replicas, epochs, held_out, seed, device, budget, metric, class_weight, hold_out_graphs, loss, \
hidden_size, batch_size, learning_rate, dropout, schedule.
        """
        network = [one.name for one in fields(Hyperparameters)]
        own = [one.name for one in fields(cls) if one.name != "hyperparameters"]
        check_names("option", settings, [*own, *network])
        hyper = {name: settings.pop(name) for name in network if name in settings}
        return cls(**settings, hyperparameters=Hyperparameters(**hyper))

    @property
    def seeds(self) -> range:
        """One random seed for each replica."""
        return range(self.seed, self.seed + self.replicas)

    @property
    def share(self) -> float:
        """Share of the labels that form the validation split of the paper's methods."""
        return HELD_OUT if self.held_out is None else self.held_out

    def splits(self, labels: Labels) -> list[Split]:
        """One split for each replica; SelfLinkDist makes its own validation split or folds."""
        if self.method == "selflinkdist":
            return [keep_aside(labels, np.array([], dtype=np.int64))] * self.replicas
        return [held_out(labels, self.share, seed) for seed in self.seeds]

    def class_factors(self, graph: Graph) -> npt.NDArray[np.float64] | None:
        """Factors of the class probabilities, from `class_weight`."""
        if self.class_weight is None or graph.task != "classification":
            return None
        return class_weights(self.class_weight, np.arange(graph.C), graph.labels)

    def check(self) -> None:
        """Raise an OptionError that lists every option that is out of range."""
        check_names("method", [self.method], METHODS)
        check_names("metric", filter(None, [self.metric]), METRICS)
        check_names("class weight", filter(None, [self.class_weight]), CLASS_WEIGHTS)
        check_names("loss", [self.loss], LOSSES)
        check_seeds(self.seed, self.replicas, "replicas")
        problems = [*epoch_problems(self.epochs), *self.hyperparameters.problems()]
        problems += limit_problems(self.held_out, self.budget)
        if problems:
            raise OptionError(" ".join(problems))

    def check_graph(self, graph: Graph) -> None:
        """Raise an OptionError that lists every option that does not suit the task or the graph.

        Examples
        --------
        >>> graph = Graph.build([[1.0], [2.0]], [(0, 1)], [0.5, 1.5], task="regression")
        >>> Options(metric="roc-auc", hold_out_graphs=True).check_graph(graph)
        Traceback (most recent call last):
        linkdist.errors.OptionError: unknown metric for regression 'roc-auc'; choose from r2, mae. \
hold_out_graphs needs several graphs; there is one. Name the column of the graphs, or give a pair \
of tables for each.
        """
        problems = []
        try:
            measure_for(graph.task, self.metric)
        except OptionError as error:
            problems.append(str(error))
        if self.metric is not None and self.method != "selflinkdist":
            rule = "metric is what validation chooses by in the method selflinkdist"
            problems.append(f"{rule}; the method is {self.method}, which chooses by accuracy.")
        if self.class_weight is not None and graph.task != "classification":
            problems.append(f"class_weight is for one class per row; the task is {graph.task}.")
        if self.loss != "squared" and graph.task != "regression":
            problems.append(f"loss is for regression; the task is {graph.task}.")
        if self.hold_out_graphs and (graph.groups is None or len(np.unique(graph.groups)) < 2):
            advice = "Name the column of the graphs, or give a pair of tables for each."
            problems.append(f"hold_out_graphs needs several graphs; there is one. {advice}")
        if problems:
            raise OptionError(" ".join(problems))
