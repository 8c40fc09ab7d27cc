"""The rate of each stage from a store, beside the same computation in memory, in turn.

A graph with planted classes that fits into memory, 64 features and 40 classes: one pass over the
links that averages features, one that spreads labels, and a visit of all nodes by the network. In
memory they are those of a training on tables; from a store, part by part, with arrays on disk. The
median of several turns; a link is counted in both directions.
Usage: python benchmarks/stage_rates.py FOLDER [--nodes N] [--links M] [--parts P] [--turns 5]
"""

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from measure import interleaved, write

from linkdist.data.splits import Split, observe
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.panel.adjacency import Adjacency
from linkdist.distributed.panel.averages import Means, degrees
from linkdist.distributed.panel.rows import Buffers, TargetRows
from linkdist.distributed.panel.student import loss_on_rows
from linkdist.distributed.panel.workshop import Seen, Workshop
from linkdist.nn.aggregation import VisibleNeighbours, relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.nn.tasks import Classification
from linkdist.progress import Callback
from linkdist.store.synthetic import Planted, synth
from linkdist.store.whole import read_whole
from linkdist.training.link_task import loop_on_targets
from linkdist.training.loop import BATCH, Loop

CPU, ROOM = torch.device("cpu"), 10**9


class FromStore:
    """The stages of a store."""

    def __init__(self, store, folder):
        self.store, self.folder = store, folder
        adjacency = Adjacency(store, CPU, 10**8)
        self.workshop = Workshop(folder, adjacency, SingleProcess(), ROOM, Callback())
        self.seen = Seen({}, degrees(self.workshop, "degree", {}))
        self.columns = {w: self.workshop.columns(f"x{w}", w) for w in (store.d, store.C)}
        for width, columns in self.columns.items():
            for part, n in enumerate(store.manifest.sizes):
                columns.write(part, torch.rand(n, width).softmax(1))
        self.network = ForkedMLP(store.d, store.C, [0])

    def propagate(self, width):
        """One pass over the links."""
        # Not synced, like the arrays between two steps of a training.
        to, means = self.workshop.columns("out", width, lasting=False), Means(self.seen)
        to.remove()
        update = means.smooth if width == self.store.d else means.mean
        self.workshop.propagate(self.columns[width], to, self.seen, update)

    def visit(self):
        """The network learns from each node once."""
        t = self.columns[self.store.C]
        rows = TargetRows(self.store, [t], [[t]], [{}], CPU, ROOM)
        rows.whole = False  # a larger store would not stay in memory
        for turn, data in enumerate(rows.read(range(len(rows.units)))):
            buffers = Buffers(rows)
            buffers.fill(data)
            loss = loss_on_rows(self.network, buffers, Classification())
            for _ in Loop(self.network, loss, [len(data.nodes[0])], [0], BATCH).epoch(turn):
                pass


class InMemory:
    """The same for a graph in memory."""

    def __init__(self, graph):
        self.graph, n = graph, graph.n
        relations = relations_of(graph, n, CPU)
        self.seen = VisibleNeighbours(relations, torch.ones(1, n, dtype=torch.bool))
        self.x = torch.from_numpy(graph.features).unsqueeze(0)
        self.p = torch.rand(1, n, graph.C).softmax(-1)
        none = np.array([], dtype=np.int64)
        view = observe(graph, Split(np.arange(10), none, none), "transductive")
        network = ForkedMLP(graph.d, graph.C, [0])
        inputs = make_inputs(graph.features, CPU)
        self.loop = loop_on_targets(network, inputs, [view], [0], self.p, 1)

    def smooth(self):
        """Average features."""
        self.seen.smooth(self.x)

    def mean(self):
        """Spread labels."""
        self.seen.mean(self.p)

    def visit(self):
        """The network learns from each node once."""
        self.loop.run(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=400_000)
    parser.add_argument("--links", type=int, default=4_000_000)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--turns", type=int, default=5)
    asked = parser.parse_args()
    planted = Planted(asked.nodes, asked.links)
    store = synth(asked.folder / "store", planted, parts=asked.parts, overwrite=True)
    graph, _ = read_whole(store)
    disk, memory = FromStore(store, asked.folder / "arrays"), InMemory(graph)
    ways = {
        "averaging features": (lambda: disk.propagate(store.d), memory.smooth, 2 * store.m),
        "spreading labels": (lambda: disk.propagate(store.C), memory.mean, 2 * store.m),
        "training": (disk.visit, memory.visit, store.n),
    }
    rows = []
    for stage, (ours, theirs, items) in ways.items():
        took = interleaved({"store": ours, "memory": theirs}, asked.turns, warm_up=1)
        row = {"stage": stage, "items": "nodes" if stage == "training" else "links"}
        for way, seconds in took.items():
            row[f"{way}, million a second"] = round(items / seconds / 1e6, 3)
        row["of memory, %"] = round(100 * took["memory"] / took["store"], 1)
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    shutil.rmtree(asked.folder)
    words = " ".join(sys.argv[2:])
    write("stage_rates", f"python benchmarks/stage_rates.py FOLDER {words}".strip(), rows)


if __name__ == "__main__":
    main()
