"""Oracle: the classes of a sorted table, which a sample of held-out nodes must have."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from linkdist import Graph
from linkdist.data.splits import Split
from linkdist.errors import ModelError
from linkdist.training.replay import VALIDATION, make_replay_buffer, pack, unpack


def test_held_out_nodes_of_a_sorted_table_are_of_all_classes():
    """The replay buffer once kept the first nodes by row, all of one class."""
    n = 3 * VALIDATION
    labels = np.repeat([0, 1, 2], VALIDATION)
    graph = Graph.build(np.ones((n, 1)), [(0, 1), (1, 2)], labels)
    none = np.array([], dtype=np.int64)
    memory = make_replay_buffer(graph, [Split(none, np.arange(n), none)], seed=0)
    kept = memory.graph.labels[memory.held[0]]
    assert len(kept) == VALIDATION
    assert np.bincount(kept).min() > VALIDATION / 4


@pytest.fixture
def packed():
    features = sparse.csr_matrix(np.eye(6, dtype=np.float32))
    graph = Graph.build(features, [(0, 1), (1, 2), (3, 4)], [0, 1, 0, 1, -1, -1])
    split = Split(np.arange(3), np.array([3]), np.array([], dtype=np.int64))
    return pack(make_replay_buffer(graph, [split], seed=0)), graph.classes


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("indices", 1, 10**6),
        ("indices", 0, -1),
        ("indptr", 1, 5),
        ("links", 0, 10**6),
        ("labels", 0, 7),
    ],
)
def test_an_index_out_of_range_is_an_error(packed, name, place, value):
    """A column out of range in a model directory ended in a segmentation fault."""
    tensors, classes = packed
    tensors[name].view(-1)[place] = value
    with pytest.raises(ModelError, match="replay buffer of the model is not valid"):
        unpack(tensors, classes)


@pytest.mark.parametrize("name", ["held", "data", "counts", "links"])
def test_a_missing_tensor_is_an_error(packed, name):
    tensors, classes = packed
    del tensors[name]
    with pytest.raises(ModelError, match=name):
        unpack(tensors, classes)
