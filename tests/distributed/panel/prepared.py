"""The stages of a panel on a small store whose sample is the whole graph.

So everything can be compared with the same computation on the graph in memory: the sample has the
links of the store, and its nodes are those of the store in the order of their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from linkdist import Graph
from linkdist.distributed.panel.fitting import _Stages
from linkdist.distributed.panel.sample import draw_sample
from linkdist.nn.inputs import make_inputs
from linkdist.progress import Callback
from linkdist.training.options import Options
from linkdist.training.panel.teachers import TeachingContext
from tests.distributed.panel.graphs import CPU, in_parts, random_parts

ALONE = 2
"""Number of nodes without links; they have labels."""


def circle(n=122, C=3, seed=0, d=4):
    """Groups of four along a circle; the features are small integers.

    Each node has two neighbours, so that means over all neighbours are exact in float16.
    """
    random, ring = np.random.default_rng(seed), n - ALONE
    labels = np.r_[np.arange(ring) // 4 % C, np.arange(ALONE)]
    features = np.rint(random.normal(size=(n, d)) * 2 + np.eye(C, d)[labels] * 3)
    links = np.stack([np.arange(ring), (np.arange(ring) + 1) % ring], axis=1)
    return Graph.build(features, links, labels)


def some_labels(graph, count, seed=0):
    """Labels of some random nodes and of those without links; -1 for all others."""
    known = np.random.default_rng(seed).permutation(graph.n - ALONE)[:count]
    labels = np.full(graph.n, -1)
    for node in (*known, *range(graph.n - ALONE, graph.n)):
        labels[node] = graph.labels[node]
    return labels


@dataclass
class Prepared:
    """A store, its sample and the stages of a training on it."""

    placed: object
    stages: _Stages

    @property
    def sample(self):
        return self.stages.sample

    @property
    def context(self):
        return self.stages.context

    @cached_property
    def arrays(self):
        return self.stages.arrays()

    @cached_property
    def ensemble(self):
        return self.stages.ensemble(self.arrays)

    @cached_property
    def in_memory(self):
        """The data of the teachers of a graph in memory."""
        graph = self.sample.graph
        views = [replica.view for replica in self.sample.taught]
        return TeachingContext(graph, views, make_inputs(graph.features, CPU))

    def gather(self, columns):
        """An array of the store (n, width) in the order of the sample."""
        parts = [columns.read(part).float() for part in range(self.placed.store.P)]
        return torch.cat(parts)


def prepare(folder, P=3, kind="float32", labels=30, graph=None, share=None, replicas=1, **options):
    """A store in a folder, prepared for training; the sample must be the whole graph."""
    graph = circle() if graph is None else graph
    known = some_labels(graph, labels) if isinstance(labels, int) else labels
    placed = in_parts(graph, random_parts(graph.n, P), folder / "store", kind, known)
    chosen = Options(held_out=share, replicas=replicas, **options)
    sample = draw_sample(placed.store, chosen.seeds, share, 10**9, Callback())
    assert np.array_equal(sample.survey.nodes, np.sort(placed.numbers))
    stages = _Stages(placed.store, chosen, sample, placed.workshop(folder / "arrays"))
    return Prepared(placed, stages)
