"""What the tests of the panel on a store share: graphs as stores, and arrays in their order."""

from __future__ import annotations

from typing import NamedTuple
from unittest import mock

import numpy as np
import torch
from scipy import sparse

from linkdist import Graph
from linkdist.data.graph import UNKNOWN
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.panel.adjacency import Adjacency
from linkdist.distributed.panel.workshop import Workshop
from linkdist.distributed.survey import PART
from linkdist.progress import Callback
from linkdist.store.format import bucket_file, buckets, expected_files, part_file, rows_in
from linkdist.store.journal import open_journal
from linkdist.store.keys import count_loops, pack, sort_unique, unpack
from linkdist.store.reader import Store

CPU = torch.device("cpu")


class Placed(NamedTuple):
    """A graph, the same graph as a store, and the number in the store of each node."""

    graph: Graph
    store: Store
    numbers: np.ndarray

    def rows(self, nodes):
        """Nodes of the graph as rows of the parts of the store."""
        numbers = np.sort(self.numbers[nodes])
        part, row = numbers >> PART, numbers & ((1 << PART) - 1)
        return {int(p): row[part == p] for p in np.unique(part)}

    def gather(self, columns):
        """An array of the store (n, width), in the order of the graph."""
        parts = [columns.read(p).float() for p in range(self.store.P)]
        part, row = self.numbers >> PART, self.numbers & ((1 << PART) - 1)
        found = [parts[p][r] for p, r in zip(part.tolist(), row.tolist(), strict=True)]
        return torch.stack(found)

    def scatter(self, values):
        """Values in the order of the graph (n, f), as a function that reads a part of them."""
        part = self.numbers >> PART
        return lambda p: values[torch.from_numpy(np.flatnonzero(part == p))]

    def workshop(self, folder, room=10**9, group=None):
        """Writes arrays of the store to a folder."""
        adjacency = Adjacency(self.store, CPU, 10**8)
        return Workshop(folder, adjacency, group or SingleProcess(), room, Callback())


def in_parts(graph, part, folder, kind="float32", labels=None):
    """Write a graph as a store; `part` (n,) is the part of each node, in any order."""
    labels = graph.labels if labels is None else labels
    P, row = int(part.max()) + 1, np.empty(graph.n, dtype=np.int64)
    for p in range(P):
        row[part == p] = np.arange((part == p).sum())
    open_ = open_journal(folder, {"graph": graph.name, "P": P}, overwrite=True)
    with mock.patch("os.fsync"), open_ as journal:
        for p in range(P):
            own = np.flatnonzero(part == p)
            for name, array in _features(graph.features[own], kind).items():
                journal.save(part_file(p, name), array)
            journal.save(part_file(p, "labels.npy"), labels[own].astype(np.int32))
            journal.save(part_file(p, "truth.npy"), graph.labels.clip(0)[own].astype(np.int32))
        order = np.argsort(part[graph.links], axis=1, kind="stable")
        ends, loops = np.take_along_axis(graph.links, order, axis=1), 0
        for a, b in buckets(P):
            here = ends[(part[ends[:, 0]] == a) & (part[ends[:, 1]] == b)]
            keys = sort_unique(pack(row[here[:, 0]], row[here[:, 1]], within=a == b))
            loops += count_loops(keys) if a == b else 0
            journal.save(bucket_file(a, b), unpack(keys))
        known = labels[labels != UNKNOWN]
        fields = {
            "kind": kind, "d": graph.d, "classes": graph.classes,
            "labelled": tuple(np.bincount(known, minlength=graph.C).tolist()),
            "sizes": tuple(np.bincount(part, minlength=P).tolist()),
            "counts": tuple(rows_in(journal.folder / bucket_file(a, b), 8) for a, b in buckets(P)),
            "loops": loops, "synthetic": True, "columns": None, "source": {},
            "task": "classification", "label_format": {}, "hashed": P, "relations": ("links",),
            "directed": False, "weighted": False,
        }  # fmt: skip
        journal.finish(expected_files(P, kind, synthetic=True), fields, Callback())
    return Placed(graph, Store.open(folder), (part.astype(np.int64) << PART) + row)


def _features(x, kind):
    if kind != "csr":
        return {"features.npy": np.asarray(x, dtype=kind)}
    x = sparse.csr_matrix(x)
    kinds = {"data": "float32", "indices": "int32", "indptr": "int64"}
    return {f"features.{name}.npy": getattr(x, name).astype(kinds[name]) for name in kinds}


def random_graph(n=40, links=90, d=3, C=3, seed=0, kind="float32"):
    """A graph with self-loops, duplicate links and nodes without links; every class is present."""
    random = np.random.default_rng(seed)
    labels = np.r_[np.arange(C), random.integers(0, C, n - C)]
    pairs = random.integers(0, max(1, n - n // 8), (links, 2))  # the last nodes have no links
    pairs = np.concatenate([pairs, [[0, 0], [1, 1]]])
    features = random.normal(size=(n, d)) + labels[:, None]
    if kind == "csr":
        features = sparse.csr_matrix(features * (random.random((n, d)) < 0.3))
    return Graph.build(features, pairs, labels)


def random_parts(n, P, seed=0):
    """The part of each node, at random; every part has a node."""
    return np.random.default_rng([seed, P]).permutation(np.arange(n) % P)
