"""Oracle: the classes of a sorted table, which a sample of held-out nodes must have."""

from __future__ import annotations

import numpy as np

from linkdist import Graph
from linkdist.data.splits import Split
from linkdist.training.replay import HELD, remember


def test_held_out_nodes_of_a_sorted_table_are_of_all_classes():
    """The replay buffer once kept the first nodes by row, all of one class."""
    n = 3 * HELD
    labels = np.repeat([0, 1, 2], HELD)
    graph = Graph.build(np.ones((n, 1)), [(0, 1), (1, 2)], labels)
    none = np.array([], dtype=np.int64)
    memory = remember(graph, [Split(none, np.arange(n), none)], seed=0)
    kept = memory.graph.labels[memory.held[0]]
    assert len(kept) == HELD
    assert np.bincount(kept).min() > HELD / 4
