"""One training, scored in both modes after each epoch.

`fit` is the way in for a graph and a split: it hides what the setting hides, trains, and keeps the
weights of each replica's best epoch. LinkDistMLP and LinkDist are the same training scored in two
ways, so both scores come from one call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from linkdist.checkpoints import Checkpoint
from linkdist.coefficients import coefficients
from linkdist.errors import OptionError
from linkdist.graph import Graph
from linkdist.inference import FORMS, Model, logits, message_passing
from linkdist.inputs import Inputs, make_inputs
from linkdist.neighbours import Neighbours
from linkdist.network import ForkedMLP
from linkdist.scoring import History
from linkdist.splits import Split, observe
from linkdist.training import Loop, epochs_for, find_device, loop_on_links

BETA = {"inductive": None, "transductive": None, "full-supervised": 0.1}
"""β1 + β2 of each setting; None leaves them r_n and r_e."""

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
    method : {'colinkdist', 'linkdist'}
        With or without random node pairs to be pushed apart.
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
    _check(seeds, each, epochs)
    where = find_device(device)
    views = [observe(graph, split, setting) for split in each]
    total = epochs_for(graph.degree) if epochs is None else epochs
    inputs = inputs or make_inputs(graph.features, where)
    neighbours = Neighbours([graph.edges], graph.n, where)
    network = ForkedMLP(graph.d, graph.C, seeds).to(where)
    by = coefficients(views, BETA[setting], where)
    history, best = History(graph, each, where), Snapshot(network)
    loop = loop_on_links(network, inputs, views, seeds, by, method)
    state = _state(network, best, loop)
    done = _resumed(checkpoint, state, history)

    def after_epoch(epoch: int) -> None:
        z, s = logits(network, inputs)
        best.keep(history.record("features", z))
        for form in FORMS:
            history.record(form, message_passing(z, s, neighbours, by.alpha, form))
        if checkpoint is not None:
            checkpoint.save(epoch + 1, {**state, **history.state()})
        if progress is not None:
            progress(epoch + 1, total)

    loop.run(total, after_epoch, start=done)
    if history.chooses:
        best.restore()
    model = Model(network, by.alpha, graph.classes)
    return Fit(model, history, total, time.perf_counter() - started, inputs.precision)


def _state(network: ForkedMLP, best: Snapshot, loop: Loop) -> dict[str, Tensor]:
    """The live tensors that the rest of a training depends on, but for its history."""
    kept = {f"kept.{i}": tensor for i, tensor in enumerate(best.kept)}
    adam = {f"adam.{name}": tensor for name, tensor in loop.adam.state().items()}
    return {**network.state_dict(prefix="network."), **kept, **adam}


@torch.no_grad()
def _resumed(checkpoint: Checkpoint | None, state: dict[str, Tensor], history: History) -> int:
    """Take over what a checkpoint holds; gives the number of epochs done."""
    found = checkpoint.load() if checkpoint is not None else None
    if found is None:
        return 0
    done, tensors = found
    for name, live in state.items():
        live.copy_(tensors.pop(name))
    history.load(tensors)
    return done


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


def _check(seeds: Sequence[int], splits: Sequence[Split], epochs: int | None) -> None:
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
