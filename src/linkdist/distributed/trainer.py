"""Training from a store: the loop over links, a round at a time.

`train_rounds` descends

    epochs -> rounds, whose links and parts a `Feed` brings (see `schedule`, `loader`)
           -> the steps of a round, by the loop that trains a graph in memory
              (`training.loop.Loop`).

A store that fits into memory has one round an epoch, and is trained exactly as a graph is. Random
streams begin anew with every round, from the replica's seed and the round's number: a training that
was killed goes on from the last round that was kept, to the same weights.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from linkdist.distributed.loader import Feed
from linkdist.distributed.process_group import Alone
from linkdist.distributed.schedule import Round, rounds_of, whole_round
from linkdist.distributed.survey import Survey
from linkdist.errors import OptionError
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.nn.orders import STRIDDEN
from linkdist.store.plan import EDGE_BYTES, LINK_BYTES, format_memory, training_memory
from linkdist.store.reader import Store
from linkdist.training.coefficients import coefficients
from linkdist.training.loop import BATCH, Loop, Seen, loss_on_links, make_adam, manners
from linkdist.training.stages import Course, Ground, Kept, Plain

STEPS = 2000
"""Steps that an epoch shall have at least where a GPU takes larger batches."""
LARGE = 65_536
"""Edges from which a batch keeps a GPU as busy as it can be (measured on an H200)."""
LOOKS = 40
"""Looks an epoch at most: where rounds are many and short, one after each would take longer."""
SAVED = 60.0
"""Seconds after which the state is kept at a round's end, though the epoch is not over."""


ALONE = Alone()


@dataclass(frozen=True)
class Schedule:
    """The rounds of a training, and how many of them are an epoch."""

    rounds: Sequence[Round]
    epoch: int

    @classmethod
    def of(cls, store: Store, epochs: int, whole: bool, beside: bool = False) -> Schedule:
        """So many epochs over a store.

        Parameters
        ----------
        store : Store
            The graph.
        epochs : int
            How many.
        whole : bool
            Whether all of it is in memory at once.
        beside : bool
            Whether workers train rounds side by side. Links within a part are half as many as
            those between two, so these rounds then come last, and nobody waits for a longer one.
        """
        if whole:
            return cls([whole_round(store.P)] * epochs, 1)
        counts = store.counts
        each = [rounds_of(store.P, epoch) for epoch in range(epochs)]
        if beside:
            each = [sorted(rounds, key=lambda round_: -len(round_.parts)) for rounds in each]
        rounds = [round_ for epoch in each for round_ in epoch if counts[round_.buckets[0]]]
        return cls(rounds, len(rounds) // epochs)


def train_rounds(
    store: Store,
    found: Survey,
    schedule: Schedule,
    seeds: Sequence[int],
    course: Course,
    *,
    method: str = "colinkdist",
    device: torch.device,
    batch: int = BATCH,
    crew: Alone = ALONE,
    stop: int | None = None,
    saved: float = SAVED,
) -> Kept:
    """Train R replicas on a store's links.

    Parameters
    ----------
    store : Store
        The graph.
    found : Survey
        What is known of it.
    schedule : Schedule
        The rounds to train.
    seeds : sequence of int
        One a replica.
    course : Course
        Is told of every round, and knows where to go on.
    method : {'colinkdist', 'linkdist'}
        With or without random node pairs to be pushed apart.
    device : torch.device
        Where to train.
    batch : int, optional
        How many edges a step takes, of all workers together.
    crew : Alone, optional
        Who trains; the first worker's course is told and its stage is looked at.
    stop : int, optional
        The round before which to stop, for measurements.
    saved : float, optional
        Seconds after which a round's end is kept.

    Returns
    -------
    Kept
        The stage, with the weights of each replica's best look in place; it is looked at after
        every round, or `LOOKS` times an epoch.
    """
    R = len(seeds)
    network = ForkedMLP(store.d, store.C, seeds).to(device)
    by = coefficients([found.tally] * R, device=device)
    inputs = make_inputs(found.sample.features, device)
    ground = Ground(found.sample, [found.split] * R, "transductive", seeds, inputs, by)
    stage = Plain(ground, network, make_adam(network))
    course.resume(stage)
    total, kept_at = len(schedule.rounds), time.monotonic()
    shared = crew.shared(network)
    own, behind = crew.own(schedule.rounds[:stop], course.done)
    ahead = Feed(store, found.held, device).read(own, behind)
    with manners(device):
        for turn, fed in enumerate(ahead):
            before = course.done + turn * crew.size
            length = fed.seen.edges.shape[1]
            seen = Seen(*(part.expand(R, *part.shape[1:]) for part in fed.seen))
            loss = loss_on_links(shared, fed.inputs, seen, by, method)
            loop = Loop(
                shared, loss, [length] * R, seeds, batch // crew.size, adam=stage.adam,
                steps=crew.most,
            )  # fmt: skip
            for _ in loop.epoch(before + crew.rank):
                pass
            del fed, seen, loss, loop  # before the next ones are put together
            if crew.rank:
                continue
            done = min(before + crew.size, total)
            ends = done // schedule.epoch > before // schedule.epoch
            # Not at an epoch's end alone: its last rounds see the labels of few parts.
            if done * LOOKS // schedule.epoch > before * LOOKS // schedule.epoch:
                stage.look()
            keep = ends or time.monotonic() - kept_at >= saved
            state = {**stage.state(), **stage.history.state()} if keep else None
            kept_at = time.monotonic() if keep else kept_at
            course.after(done, total, state)
    stage.finish()
    return stage


def batch_for(store: Store, device: torch.device) -> int:
    """Edges a step: the paper's number, or on a GPU as many as the graph has room for."""
    if device.type == "cpu":
        return BATCH
    edges = 2 * store.m - store.loops
    return max(BATCH, min(LARGE, edges // STEPS // BATCH * BATCH))


def fits_whole(store: Store, memory: int, device: torch.device) -> bool:
    """Whether all of a store can be in a device's memory at once.

    As in `store.plan`, what is held takes half of the memory at most. On a GPU that is features and
    edges alone where a stride goes through these; the other half is for putting them together.
    """
    alone = device.type != "cpu" and 2 * store.m - store.loops >= STRIDDEN
    return sum(store.part_bytes) + (EDGE_BYTES if alone else LINK_BYTES) * store.m <= memory / 2


def check_memory(store: Store, memory: int) -> None:
    """Refuse a memory in which a store's parts have no room."""
    needed = training_memory(store.part_bytes, store.manifest.counts)
    if needed > memory:
        raise OptionError(
            f"training from {store.directory} holds three parts and two buckets of links, "
            f"{format_memory(needed)}; --memory is {format_memory(memory)}. Give more, or build "
            "the store again with more --parts."
        )
