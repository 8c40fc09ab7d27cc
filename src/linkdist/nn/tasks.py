"""What a network predicts: a class, a number or several labels.

The outputs of a network are the natural parameters of a distribution, up to a constant for classes.
Natural parameters are what adds up: the prediction with links is a weighted sum of those of a node
and of its neighbours, whatever the task. For outputs z (..., C):

    task              natural parameters          mean                loss on targets t
    classification    log softmax(z)              probabilities       - Σ_c t_c log p_c
    multilabel        z, the log-odds of a label  probabilities       mean over labels of the same
    regression        z                           z, a number         (z - t)² / 2, or |z - t|
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor
from torch.nn import functional as F

from linkdist.errors import check_names
from linkdist.nn.losses import soft_cross_entropy


class Task(ABC):
    """How the outputs of a network are read."""

    name: str

    @abstractmethod
    def natural(self, z: Tensor) -> Tensor:
        """Natural parameters (..., C) from outputs."""

    @abstractmethod
    def mean(self, natural: Tensor) -> Tensor:
        """Predictions (..., C) from natural parameters: probabilities or numbers."""

    @abstractmethod
    def loss(self, z: Tensor, t: Tensor, weights: Tensor | None = None) -> Tensor:
        """The mean loss (R,) of outputs z (R, B, C) on targets t (R, B, C).

        `weights` (R, B) are factors of the rows; by default all rows count alike.
        """


def _mean(rows: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return rows.mean(-1)
    return (rows * weights).sum(-1) / weights.sum(-1).clamp(min=1)


class Classification(Task):
    """One of C classes."""

    name = "classification"

    def natural(self, z: Tensor) -> Tensor:
        """Log-probabilities."""
        return z.log_softmax(-1)

    def mean(self, natural: Tensor) -> Tensor:
        """Probabilities."""
        return natural.softmax(-1)

    def loss(self, z: Tensor, t: Tensor, weights: Tensor | None = None) -> Tensor:
        """Cross-entropy."""
        if weights is None:
            return soft_cross_entropy(z, t)
        return _mean(-(t * z.log_softmax(-1)).sum(-1), weights)


class Multilabel(Task):
    """Any number of C labels."""

    name = "multilabel"

    def natural(self, z: Tensor) -> Tensor:
        """Log-odds."""
        return z

    def mean(self, natural: Tensor) -> Tensor:
        """The probability of each label."""
        return natural.sigmoid()

    def loss(self, z: Tensor, t: Tensor, weights: Tensor | None = None) -> Tensor:
        """Binary cross-entropy."""
        return _mean((F.softplus(z) - t * z).mean(-1), weights)


class Regression(Task):
    """A number.

    Parameters
    ----------
    absolute : bool
        Whether the loss is the absolute error instead of the squared error.
    """

    name = "regression"

    def __init__(self, absolute: bool = False) -> None:
        self.absolute = absolute

    def natural(self, z: Tensor) -> Tensor:
        """The number."""
        return z

    def mean(self, natural: Tensor) -> Tensor:
        """The number."""
        return natural

    def loss(self, z: Tensor, t: Tensor, weights: Tensor | None = None) -> Tensor:
        """Half of the squared error, or the absolute error."""
        error = z - t
        rows = error.abs() if self.absolute else error.square() / 2
        return _mean(rows.mean(-1), weights)


def task_named(name: str, loss: str = "squared") -> Task:
    """The task with a name; `loss` is the error of a regression, 'squared' or 'absolute'.

    Examples
    --------
    >>> import torch
    >>> task_named("multilabel").mean(torch.zeros(1, 2))
    tensor([[0.5000, 0.5000]])
    >>> task_named("regression", "absolute").loss(torch.zeros(1, 2, 1), torch.ones(1, 2, 1))
    tensor([1.])
    """
    check_names("loss", [loss], ("squared", "absolute"))
    tasks = (Classification(), Multilabel(), Regression(loss == "absolute"))
    check_names("task", [name], [task.name for task in tasks])
    return next(task for task in tasks if task.name == name)
