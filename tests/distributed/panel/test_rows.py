"""Oracles: the arrays of the store, and the expected loss of a graph in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist import Graph
from linkdist.data.splits import Split, observe
from linkdist.distributed.panel import student
from linkdist.distributed.panel.averages import degrees
from linkdist.distributed.panel.rows import Buffers, TargetRows
from linkdist.distributed.panel.student import loss_on_rows
from linkdist.distributed.panel.targets import write_beside
from linkdist.distributed.panel.workshop import Seen
from linkdist.nn.aggregation import RandomNeighbours
from linkdist.nn.inputs import make_inputs
from linkdist.nn.optim import RandomStreams
from linkdist.nn.tasks import task_named
from linkdist.training import link_task
from linkdist.training.link_task import loss_on_targets
from linkdist.training.loop import Hyperparameters
from tests.distributed.panel.graphs import CPU, in_parts
from tests.distributed.panel.prepared import circle

PARTS = np.array([0] * 25 + [2] * 20 + [3] * 3 + [4] * 14)
"""Part 1 has no nodes, and part 3 has few."""
HIDDEN = [np.array([], dtype=int), np.array([3, 4, 30, 60]), np.array([45])]


class Written:
    """A store of a circle with the targets of three replicas."""

    def __init__(self, folder, kind):
        graph = circle(n=62)
        self.placed = in_parts(graph, PARTS, folder / "store", kind)
        self.workshop = self.placed.workshop(folder / "arrays")
        self.hidden = [self.placed.rows(nodes) for nodes in HIDDEN]
        random, self.targets, store = np.random.default_rng(0), [], self.placed.store
        for r in range(3):
            self.targets.append(self.workshop.columns(f"targets.{r}", 3))
            for part, n in enumerate(store.manifest.sizes):
                self.targets[-1].write(part, torch.from_numpy(random.dirichlet(np.ones(3), n)))
        seen = [
            Seen(each, degrees(self.workshop, f"degree.{r}", each))
            for r, each in enumerate(self.hidden)
        ]
        self.beside = write_beside(self.workshop, self.targets, seen)

    def rows(self, room):
        store = self.placed.store
        return TargetRows(store, self.targets, self.beside, self.hidden, CPU, room)


@pytest.fixture(scope="module", params=["float32", "float16", "csr"])
def written(request, tmp_path_factory):
    return Written(tmp_path_factory.mktemp("rows"), request.param)


def bytes_of(written):
    """The bytes of the largest part, and of all parts."""
    row = 2 * 3 * 3 * 2  # t and its mean of three replicas, three classes in float16
    store = written.placed.store
    each = [own + row * n for own, n in zip(store.part_bytes, store.manifest.sizes, strict=True)]
    return max(each), sum(each)


@settings(max_examples=40)
@given(share=st.floats(0.02, 4))
def test_slices_cover_every_visible_row_once(written, share):
    largest, _ = bytes_of(written)
    rows = written.rows(int(share * largest) + 1)
    assert 2 * -(-largest // rows.slices) <= rows.room + 2
    assert share < 2 or 2 * largest / rows.slices + largest <= rows.room, "a part is read as well"
    store, places = written.placed.store, [[], [], []]
    for (part, start), counts, data in zip(
        rows.units, rows.nodes, rows.read(range(len(rows.units))), strict=True
    ):
        assert counts == [len(nodes) for nodes in data.nodes]
        assert 0 < max(counts) <= rows.most
        for found, nodes in zip(places, data.nodes, strict=True):
            found += [(part, row) for row in (nodes * rows.slices + start).tolist()]
    sizes, seen = store.manifest.sizes, []
    for hidden in written.hidden:
        every = ((part, row) for part, n in enumerate(sizes) for row in range(n))
        seen.append({place for place in every if place[1] not in hidden.get(place[0], [])})
    units = [{(part, row % rows.slices) for part, row in visible} for visible in seen]
    assert set(rows.units) == set.intersection(*units), "every replica sees a row of each slice"
    for found, visible in zip(places, seen, strict=True):
        expected = {one for one in visible if (one[0], one[1] % rows.slices) in rows.units}
        assert sorted(found) == sorted(expected)
        assert rows.slices > 2 or expected == visible


def test_a_slice_has_the_features_and_targets_of_its_rows(written):
    rows = written.rows(2 * bytes_of(written)[0])
    assert rows.slices == 2
    assert not rows.whole
    store = written.placed.store
    for (part, start), data in zip(rows.units, rows.read(range(len(rows.units))), strict=True):
        x, every = store.features(part), slice(start, None, 2)
        own = data.features if store.kind == "csr" else data.features.numpy()
        assert (own != x[every]).sum() == 0
        for r in range(3):
            assert torch.equal(data.targets[r], written.targets[r].read(part)[every])
            assert torch.equal(data.beside[0, r], written.beside[r][0].read(part)[every])


def test_slices_stay_in_memory_if_all_of_them_fit(written, monkeypatch):
    largest, total = bytes_of(written)
    rows, few = written.rows(2 * total), written.rows(largest)
    assert rows.whole
    assert rows.slices == 1
    for each in (rows, few):
        list(each.read(range(len(each.units))))
    monkeypatch.setattr(TargetRows, "_read", None)
    list(rows.read(range(len(rows.units))))
    with pytest.raises(TypeError):
        list(few.read([0]))
    assert list(rows.read([])) == []


@pytest.mark.parametrize("hidden", [False, True])
def test_the_loss_is_the_expected_loss_of_a_graph_in_memory(tmp_path, monkeypatch, hidden):
    """CE is linear in the target, so a mean target gives the mean loss over the neighbours."""
    for module in (student, link_task):
        monkeypatch.setattr(module, "MASKED", 0.0)
    written = Written(tmp_path, "float32")
    if not hidden:
        written.hidden = [{}] * 3
        seen = [Seen({}, degrees(written.workshop, "degree.0", {}))] * 3
        written.workshop.folder = tmp_path / "whole"
        written.beside = write_beside(written.workshop, written.targets, seen)
    placed, task = written.placed, task_named("classification")
    order = np.argsort(placed.numbers)  # the nodes in the order of the store
    place = np.argsort(order)
    none, graph = np.array([], dtype=int), placed.graph
    graph = Graph.build(graph.features[order], place[graph.links], graph.labels[order])
    away = HIDDEN if hidden else [none] * 3
    views = [observe(graph, Split(none, none, np.sort(place[h])), "inductive") for h in away]
    targets = torch.stack([torch.cat([t.read(p).float() for p in range(5)])
                           for t in written.targets])  # fmt: skip
    network = Hyperparameters(hidden_size=8, dropout=0.0).network(4, 3, [0, 1, 2], CPU)
    # One slice with all parts, so that the statistics of the batch are the same.
    buffers = Buffers(written.rows(10**9))
    buffers.fill(_joined(buffers.rows))
    streams, still = RandomStreams([0, 1, 2], CPU), torch.zeros(3, 1, 1)
    shortest = min(len(view.nodes) for view in views)
    index = torch.arange(shortest).expand(3, -1)
    found = loss_on_rows(network, buffers, task)(index, streams, still)
    expected = []
    original = RandomNeighbours.pick
    for k in range(2):  # each node has two neighbours, one or none

        def pick(self, nodes, numbers, k=k):
            return original(self, nodes, torch.full_like(numbers, k))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RandomNeighbours, "pick", pick)
            loss = loss_on_targets(network, make_inputs(graph.features, CPU), views, targets, task)
            expected.append(loss(index, streams, still))
    torch.testing.assert_close(found, torch.stack(expected).mean(0), rtol=2e-3, atol=2e-3)


def _joined(rows):
    """All slices as one."""
    data = list(rows.read(range(len(rows.units))))
    first = np.cumsum([0, *(one.targets.shape[1] for one in data)])
    return type(data[0])(
        torch.cat([one.features for one in data]),
        torch.cat([one.targets for one in data], dim=1),
        torch.cat([one.beside for one in data], dim=2),
        [np.concatenate([one.nodes[r] + start for one, start in zip(data, first, strict=False)])
         for r in range(3)],
    )  # fmt: skip
