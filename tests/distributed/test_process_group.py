"""Oracles: the rounds themselves, and two processes beside one."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing

from linkdist.distributed.group import ProcessGroup, SingleProcess
from linkdist.distributed.loader import rounds_of
from linkdist.distributed.survey import survey
from linkdist.distributed.trainer import Schedule, train_rounds
from linkdist.nn.inputs import make_inputs
from linkdist.store.synthetic import Planted, synth
from linkdist.training.checkpoint import TrainingRun

CPU = torch.device("cpu")


class Member(SingleProcess):
    """A worker without any process group."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("done", [0, 3, 6])
def test_workers_take_all_rounds_that_are_ahead_each_its_own(size, done):
    rounds = [r for epoch in range(2) for r in rounds_of(4, epoch)]
    taken = []
    for rank in range(size):
        own, behind = Member(rank, size).own(rounds, done)
        taken.append(own[behind:])
    assert len({len(own) for own in taken}) == 1
    turns = [r for turn in zip(*taken, strict=True) for r in turn]
    assert turns[: len(rounds) - done] == rounds[done:]


def test_rounds_that_are_trained_side_by_side_are_alike(tmp_path):
    store = synth(tmp_path / "store", Planted(2000, 20_000), parts=4)
    plain, beside = (Schedule.of(store, 2, False, beside=way) for way in (False, True))
    assert plain.epoch == beside.epoch == 10
    for epoch in (slice(0, 10), slice(10, 20)):
        assert sorted(plain.rounds[epoch]) == sorted(beside.rounds[epoch])
    sizes = [store.counts[r.buckets[0]] for r in beside.rounds]
    for one, other in zip(sizes[::2], sizes[1::2], strict=True):
        assert abs(one - other) < 0.2 * max(one, other)


def member(rank, size, address, directory, out):
    """A process of a group: trains, and leaves its weights."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=size)
    from linkdist.store.reader import Store

    store = Store.open(directory)
    found = survey(store, 0.1, 0)
    group = ProcessGroup()
    stage = train_rounds(
        store,
        found,
        Schedule.of(store, 6, False),
        [0],
        TrainingRun(None, None),
        device=CPU,
        group=group,
    )
    torch.save(stage.network.state_dict(), f"{out}/{rank}.pt")
    live = torch.cat([p.detach().flatten() for p in stage.network.parameters()])
    torch.save((live, stage.history.curve("features") if not rank else None), f"{out}/{rank}.live")
    distributed.destroy_process_group()


def test_two_workers_learn_what_one_learns(tmp_path):
    planted = Planted(1500, 6000, features=12, classes=4, labelled=0.3, dtype="float32")
    store = synth(tmp_path / "store", planted, parts=3)
    address = f"file://{tmp_path}/meeting"
    options = (2, address, store.directory, tmp_path)
    multiprocessing.spawn(member, options, nprocs=2)
    found = survey(store, 0.1, 0)
    alone = train_rounds(
        store, found, Schedule.of(store, 6, False), [0], TrainingRun(None, None), device=CPU
    )
    x = np.concatenate([store.features(p) for p in range(store.P)])
    truth = np.concatenate([store.truth(p) for p in range(store.P)])
    curve = torch.load(tmp_path / "0.live", weights_only=False)[1]
    assert len(curve) == 6 * 6 / 2  # a look after every turn of the two

    def score(network):
        z, _ = network(make_inputs(x, CPU))
        return (z.flatten(0, 2).argmax(-1).numpy() == truth).mean()

    one = score(alone.network)
    alone.network.load_state_dict(torch.load(tmp_path / "0.pt"))
    assert score(alone.network) == pytest.approx(one, abs=0.04)
