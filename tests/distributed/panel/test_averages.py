"""Oracles: the averages of a graph in memory, and label spreading as a plain recursion."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from linkdist.distributed.panel.averages import (
    Blocks,
    average_hops,
    average_neighbours,
    degrees,
    spread,
)
from linkdist.distributed.panel.columns import Columns
from linkdist.distributed.panel.projection import Projection, write_columns
from linkdist.distributed.panel.workshop import Seen
from linkdist.distributed.survey import PART
from linkdist.nn.aggregation import VisibleNeighbours, relations_of
from linkdist.training.panel.estimators import SPREADING, STEPS
from linkdist.training.panel.teachers import HOPS, averaged, masks
from tests.distributed.panel.graphs import CPU, in_parts, random_graph, random_parts
from tests.stores import tree

HIDDEN = np.array([1, 4, 5, 17])


class KilledError(Exception):
    """Stands for a kill between two parts of an array."""


@pytest.fixture(scope="module", params=[1, 4])
def placed(request, tmp_path_factory):
    graph = random_graph(n=50, links=120, d=5)
    folder = tmp_path_factory.mktemp("stores") / "store"
    return in_parts(graph, random_parts(graph.n, request.param), folder)


def seen_of(placed, hidden=HIDDEN):
    """The links of the graph in memory with the same nodes hidden."""
    n = placed.graph.n
    visible = masks([np.setdiff1d(np.arange(n), hidden)], n)
    return VisibleNeighbours(relations_of(placed.graph, n, CPU), visible)


def start(placed, folder, room=10**9):
    """A workshop, its features as they are, and degrees with hidden nodes."""
    workshop, d = placed.workshop(folder, room), placed.store.d
    plain = Projection(np.zeros(d, np.float32), np.ones(d, np.float32))
    base, hidden = write_columns(workshop, plain), placed.rows(HIDDEN)
    return workshop, base, Seen(hidden, degrees(workshop, "degree", hidden)), "view"


def gathered(placed, blocks):
    return torch.cat([placed.gather(part) for part in blocks.parts], dim=1)


def test_averages_over_hops_are_those_of_the_graph(placed, tmp_path):
    found = average_hops(*start(placed, tmp_path))
    x = torch.from_numpy(placed.graph.features).unsqueeze(0)
    assert tuple(found) == HOPS[1:]
    for hop, blocks in found.items():
        expected = averaged(x, hop, seen_of(placed))[0]
        torch.testing.assert_close(gathered(placed, blocks), expected, rtol=2e-3, atol=2e-3)


def test_means_over_neighbours_are_those_of_the_graph(placed, tmp_path):
    found = average_neighbours(*start(placed, tmp_path))
    seen, mean = seen_of(placed), torch.from_numpy(placed.graph.features).unsqueeze(0)
    for blocks in found:
        mean = seen.mean(mean)
        torch.testing.assert_close(gathered(placed, blocks), mean[0], rtol=2e-3, atol=2e-3)
    assert (mean[0, -1] == 0).all(), "the last node has no neighbours"


def test_labels_spread_as_in_the_graph(placed, tmp_path):
    workshop, _, seen, name = start(placed, tmp_path)
    y = torch.nn.functional.one_hot(torch.from_numpy(placed.graph.labels), 3).float()
    y[torch.from_numpy(HIDDEN)] = 0
    y[20:] = 0
    found = spread(workshop, placed.scatter(y), 3, seen, name)
    seen, flow = seen_of(placed), y.unsqueeze(0)
    for _ in range(STEPS):
        flow = SPREADING * seen.mean(flow) + (1 - SPREADING) * y
    torch.testing.assert_close(gathered(placed, found), flow[0], rtol=3e-3, atol=1e-4)
    assert flow[0, HIDDEN[0]].sum() > 0, "labels reach a hidden node"


def test_blocks_of_columns_give_the_same_as_one_block(placed, tmp_path):
    most = max(placed.store.manifest.sizes)
    y = torch.rand(placed.graph.n, 3, generator=torch.Generator().manual_seed(0))
    every = []
    for columns in (1, 2, 100):
        around = start(placed, tmp_path / str(columns), room=8 * most * columns)
        workshop, base, seen, name = around
        assert len(base.parts) == {1: 5, 2: 3, 100: 1}[columns]
        arrays = [*average_hops(*around).values(), *average_neighbours(*around)]
        arrays.append(spread(workshop, placed.scatter(y), 3, seen, name))
        every.append([gathered(placed, blocks) for blocks in (base, *arrays)])
    for several in every[:-1]:
        assert all(torch.equal(*pair) for pair in zip(several, every[-1], strict=True))


def test_blocks_are_read_beside_each_other(placed, tmp_path):
    _, base, *_ = start(placed, tmp_path, room=8 * max(placed.store.manifest.sizes))
    numbers = np.sort(placed.numbers)[::7]
    order = np.argsort(placed.numbers)[::7]
    x = placed.graph.features.astype(np.float16).astype(np.float32)
    assert base.width == 5
    assert np.array_equal(base.rows(numbers).numpy(), x[order])
    first = np.flatnonzero(placed.numbers >> PART == 0)
    assert np.array_equal(base.read(0, slice(2, 6), CPU).numpy(), x[first][2:6])
    assert Blocks(base.parts[:2]).width == 2


def everything(placed, folder, room):
    """All arrays of a view."""
    workshop, _, seen, name = around = start(placed, folder, room)
    average_hops(*around)
    y = torch.eye(placed.graph.n, 2)
    spread(workshop, placed.scatter(y), 2, seen, name)


@pytest.mark.parametrize("at", [0, 3, 10, 25, 61, 100, 161])
def test_a_killed_recursion_continues_to_the_same_files(tmp_path, monkeypatch, at):
    graph = random_graph(n=20, links=40, d=4, seed=2)
    placed = in_parts(graph, random_parts(graph.n, 3), tmp_path / "store")
    room = 8 * max(placed.store.manifest.sizes) * 2
    everything(placed, tmp_path / "whole", room)
    whole, writes = tree(tmp_path / "whole"), []
    write = "linkdist.distributed.panel.columns.Columns.write"
    original = Columns.write

    def counted(columns, part, values):
        if len(writes) == at:
            raise KilledError
        writes.append((columns.folder.name, part))
        original(columns, part, values)

    monkeypatch.setattr(write, counted)
    with pytest.raises(KilledError):
        everything(placed, tmp_path / "again", room)
    before = list(writes)
    at = -1
    everything(placed, tmp_path / "again", room)
    assert tree(tmp_path / "again") == whole
    assert len(set(writes)) == len(writes), "no part is computed twice"
    assert writes[: len(before)] == before
    assert not any(".step" in name for name in whole)


def test_a_finished_array_is_not_computed_again(placed, tmp_path, monkeypatch):
    everything(placed, tmp_path, 10**9)
    monkeypatch.setattr("linkdist.distributed.panel.columns.Columns.write", None)
    everything(placed, tmp_path, 10**9)


def test_progress_ends_where_it_was_announced(tmp_path):
    graph = random_graph(n=20, links=40, d=4)
    placed = in_parts(graph, random_parts(graph.n, 2), tmp_path / "store")
    for again in range(2):
        workshop, base, *rest = start(placed, tmp_path / "arrays")
        reports = []
        workshop.callback.progress = lambda *numbers, to=reports: to.append(numbers)
        workshop.begin("averaging features", 10)
        average_hops(workshop, base, *rest)
        assert reports[-1] == (20, 20), again
        assert reports == sorted(reports)
