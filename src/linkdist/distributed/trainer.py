"""Training from a store: the loop over links, one round at a time.

`train_rounds` is a nested loop:

    epochs -> rounds, whose links and parts come from a `Loader` (see `loader`)
           -> the steps of a round, by the loop that also trains a graph in memory
              (`training.loop.Loop`). All rounds share one loop: on a GPU it records a step once.

A store that fits into memory has one round per epoch, and is trained exactly like a graph. The
random streams of a round depend on the seed of the replica and the number of the round alone: an
interrupted training continues from the last checkpoint, to the same weights.

Workers train rounds in parallel: of W workers, worker w trains the rounds w, w + W, w + 2 W and so
on, each with its own parts and links. DistributedDataParallel of PyTorch averages their gradients
after every batch, so all workers have the same weights at any time. A round has as many steps as
the longest of those that are trained at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from linkdist.distributed.group import SingleProcess
from linkdist.distributed.loader import Loader
from linkdist.distributed.rounds import Round, RoundData, largest_round, rounds_of, whole_round
from linkdist.distributed.survey import Survey
from linkdist.errors import OptionError
from linkdist.nn.inputs import make_inputs
from linkdist.nn.optim import make_adam
from linkdist.nn.order import STRIDE_FROM
from linkdist.store.plan import EDGE_BYTES, LINK_BYTES, format_memory, training_memory
from linkdist.store.reader import Store
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.link_task import LinkTask, LinkTraining, Seen, coefficients, loss_on_links
from linkdist.training.loop import BATCH, Hyperparameters, Loop, Loss, training_context

MIN_STEPS = 2000
"""The smallest number of steps of an epoch with larger batches on a GPU."""
MAX_BATCH = 65_536
"""Edges of a batch that are enough to use a GPU fully (measured on an H200)."""
EVALUATIONS = 40
"""The largest number of evaluations per epoch: after each of many short rounds is too often."""
SAVED = 60.0
"""Seconds after which a checkpoint is saved at the end of a round, before the epoch ends."""


@dataclass(frozen=True)
class Schedule:
    """The rounds of a training, and the number of rounds per epoch."""

    rounds: Sequence[Round]
    epoch: int

    @classmethod
    def of(cls, store: Store, epochs: int, whole: bool, beside: bool = False) -> Schedule:
        """The schedule of some epochs over a store.

        Parameters
        ----------
        store : Store
            The graph.
        epochs : int
            Number of epochs.
        whole : bool
            Whether all of it is in memory at once.
        beside : bool
            Whether workers train rounds in parallel. The buckets within a part have half as many
            links as the others, so their rounds then come last, and no worker waits for another.
        """
        if whole:
            return cls([whole_round(store.P)] * epochs, 1)
        counts = store.counts
        each = [rounds_of(store.P, epoch) for epoch in range(epochs)]
        if beside:
            each = [sorted(rounds, key=lambda round_: -len(round_.parts)) for rounds in each]
        rounds = [round_ for epoch in each for round_ in epoch if counts[round_.buckets[0]]]
        return cls(rounds, len(rounds) // epochs)


class RoundLoop:
    """One training loop for all rounds.

    Parameters
    ----------
    stage : LinkTraining
        The network, its optimiser, the seeds and the coefficients of the loss.
    group : SingleProcess
        The processes that train.
    method : {'colinkdist', 'linkdist'}
        With or without random node pairs as negative examples.
    batch : int
        Number of edges of a step.
    capacity : int
        Number of edges of the largest round of any worker.
    """

    def __init__(
        self, stage: LinkTraining, group: SingleProcess, method: str, batch: int, capacity: int
    ) -> None:
        self.stage, self.group, self.method = stage, group, method
        self.batch, self.capacity = batch, capacity
        self.network = group.wrap(stage.network)
        self.loop: Loop | None = None

    def train(self, data: RoundData, number: int) -> None:
        """Take the steps of a round; the random streams depend on its number."""
        task = self.stage.task
        lengths = [data.length] * len(task.seeds)
        if self.loop is None:
            self.loop = Loop(
                self.network, self._loss(data), lengths, task.seeds, self.batch,
                adam=self.stage.adam, steps=self.group.max_steps, capacity=self.capacity,
                alone=self.group.size == 1,
            )  # fmt: skip
        else:
            self.loop.refill(lengths, None if data.fixed else self._loss(data))
        for _ in self.loop.epoch(number):
            pass
        if not data.fixed:
            self.loop.release()

    def _loss(self, data: RoundData) -> Loss:
        task = self.stage.task
        R, parts = len(task.seeds), (part for part in data.seen[:4] if part is not None)
        seen = Seen(*(part.expand(R, *part.shape[1:]) for part in parts))
        return loss_on_links(self.network, data.inputs, seen, task.coefficients, self.method)


def train_rounds(
    store: Store,
    found: Survey,
    schedule: Schedule,
    seeds: Sequence[int],
    course: TrainingRun,
    *,
    method: str = "colinkdist",
    device: torch.device,
    batch: int = BATCH,
    hyper: Hyperparameters | None = None,
    group: SingleProcess | None = None,
    stop: int | None = None,
    saved: float = SAVED,
) -> LinkTraining:
    """Train R replicas on the links of a store.

    Parameters
    ----------
    store : Store
        The graph.
    found : Survey
        The survey of the store.
    schedule : Schedule
        The rounds to train.
    seeds : sequence of int
        Random seed of each replica.
    course : TrainingRun
        Receives the progress, and has the checkpoint from which to continue.
    method : {'colinkdist', 'linkdist'}
        With or without random node pairs as negative examples.
    device : torch.device
        The device to train on.
    batch : int, optional
        Number of edges of a step, of all workers together.
    hyper : Hyperparameters, optional
        Size of the network, dropout and learning rate.
    group : SingleProcess, optional
        The processes that train; the first one evaluates, and reports the progress.
    stop : int, optional
        The round before which to stop, for measurements.
    saved : float, optional
        Seconds after which a checkpoint is saved at the end of a round.

    Returns
    -------
    LinkTraining
        The stage, with the weights of the best evaluation of each replica; there is an evaluation
        after every round, or `EVALUATIONS` per epoch if these are fewer.
    """
    R, hyper, group = len(seeds), hyper or Hyperparameters(), group or SingleProcess()
    network = hyper.network(store.d, store.C, seeds, device)
    by = coefficients([found.tally] * R, device=device)
    inputs = make_inputs(found.sample.features, device)
    task = LinkTask(found.sample, [found.split] * R, "transductive", seeds, inputs, by)
    stage = LinkTraining(task, network, make_adam(network, hyper.rate(method)))
    course.resume(stage.state(), stage.history)
    total, kept_at = len(schedule.rounds), time.monotonic()
    capacity = largest_round(store, schedule.rounds)
    rounds = RoundLoop(stage, group, method, batch // group.size, capacity)
    own, finished = group.own(schedule.rounds[:stop], course.done)
    ahead = Loader(store, found.held, device).read(own, finished)
    with training_context(device):
        for turn, data in enumerate(ahead):
            before = course.done + turn * group.size
            rounds.train(data, before + group.rank)
            del data  # before that of the next round is assembled
            if group.rank:
                continue
            done = min(before + group.size, total)
            ends = done // schedule.epoch > before // schedule.epoch
            # Not only at the end of an epoch: its last rounds see the labels of few parts.
            if done * EVALUATIONS // schedule.epoch > before * EVALUATIONS // schedule.epoch:
                stage.evaluate()
            keep = ends or time.monotonic() - kept_at >= saved
            state = {**stage.state(), **stage.history.state()} if keep else None
            kept_at = time.monotonic() if keep else kept_at
            course.after(done, total, state)
    stage.restore_best()
    return stage


def batch_for(store: Store, device: torch.device) -> int:
    """Number of edges of a step: that of the paper, or a larger one on a GPU."""
    if device.type == "cpu":
        return BATCH
    edges = 2 * store.m - store.loops
    return max(BATCH, min(MAX_BATCH, edges // MIN_STEPS // BATCH * BATCH))


def fits_whole(store: Store, memory: int, device: torch.device) -> bool:
    """Whether the whole store fits into the memory of a device.

    As in `store.plan`, the data may take half of the memory. On a GPU it is features and edges
    alone if batches are drawn with a stride; the other half is for assembling it.
    """
    strided = device.type != "cpu" and 2 * store.m - store.loops >= STRIDE_FROM
    return sum(store.part_bytes) + (EDGE_BYTES if strided else LINK_BYTES) * store.m <= memory / 2


def check_memory(store: Store, memory: int) -> None:
    """Raise an error if three parts and two buckets of a store do not fit into the memory."""
    needed = training_memory(store.part_bytes, store.manifest.counts)
    if needed > memory:
        raise OptionError(
            f"training from {store.directory} holds three parts and two buckets of links, "
            f"{format_memory(needed)}; --memory is {format_memory(memory)}. Give more, or build "
            "the store again with more --parts."
        )
