"""The hyperparameters of a training and their default values."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch

from linkdist.nn.network import DROPOUT, HIDDEN, ForkedMLP
from linkdist.nn.optim import RATE
from linkdist.training.loop import BATCH
from linkdist.training.targets import RATE as STUDENT_RATE

SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True)
class Hyperparameters:
    """Size of the network and how it is optimised.

    Attributes
    ----------
    hidden_size : int
        Width of the hidden layers.
    batch_size : int, optional
        Links per step, or nodes for SelfLinkDist; by default 1024, and more for a store on a GPU.
    learning_rate : float, optional
        Learning rate of Adam; by default 0.003 for SelfLinkDist and 0.01 for the paper's methods.
    dropout : float
        Probability of dropping a hidden unit, rounded to a multiple of 1/256.
    schedule : {'constant', 'cosine'}, optional
        How the learning rate changes; 'cosine' decreases it to 0. By default 'cosine' for
        SelfLinkDist and 'constant' for the paper's methods.

    Examples
    --------
    >>> Hyperparameters(hidden_size=0, dropout=1.5).problems()
    ['hidden_size must be a whole number from 1; found 0.', 'dropout must be from 0 to below 1; \
found 1.5.']
    """

    hidden_size: int = HIDDEN
    batch_size: int | None = None
    learning_rate: float | None = None
    dropout: float = DROPOUT
    schedule: str | None = None

    @property
    def batch(self) -> int:
        """The batch size, or its default."""
        return BATCH if self.batch_size is None else self.batch_size

    def rate(self, method: str) -> float:
        """The learning rate of a method."""
        if self.learning_rate is not None:
            return self.learning_rate
        return STUDENT_RATE if method == "selflinkdist" else RATE

    def decays(self, method: str) -> bool:
        """Whether the learning rate of a method decreases."""
        return (self.schedule or ("cosine" if method == "selflinkdist" else "constant")) == "cosine"

    def network(self, d: int, C: int, seeds: Sequence[int], device: torch.device) -> ForkedMLP:
        """New networks for d features and C classes, one for each seed."""
        return ForkedMLP(d, C, seeds, self.hidden_size, self.dropout).to(device)

    def problems(self) -> list[str]:
        """One sentence for each value that is out of range."""
        found = []
        for name, size in (("hidden_size", self.hidden_size), ("batch_size", self.batch)):
            if not (isinstance(cast(object, size), numbers.Integral) and int(size) >= 1):
                found.append(f"{name} must be a whole number from 1; found {size!r}.")
        rate = cast(object, 1.0 if self.learning_rate is None else self.learning_rate)
        if not isinstance(rate, numbers.Real) or not 0 < float(rate) < math.inf:
            found.append(f"learning_rate must be a number above 0; found {rate!r}.")
        dropout = cast(object, self.dropout)
        if not isinstance(dropout, numbers.Real) or not 0 <= float(dropout) < 1:
            found.append(f"dropout must be from 0 to below 1; found {dropout!r}.")
        if self.schedule is not None and self.schedule not in SCHEDULES:
            names = " or ".join(map(repr, SCHEDULES))
            found.append(f"schedule must be {names}; found {self.schedule!r}.")
        return found
