"""Graphs from NetworkX, and from stand-ins with the attributes of PyG and DGL objects."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse

from linkdist import fit, graph_from
from linkdist.errors import GraphError, OptionError
from tests.data.test_interchange import DGLGraph, HeteroData

X = np.arange(8, dtype=np.float32).reshape(4, 2)
PAIRS = np.array([[0, 1], [1, 2]])
Y = np.array([1, 0, 1, -1])


def mask(*rows):
    return torch.from_numpy(np.isin(np.arange(4), rows))


def pyg(y=Y, **more):
    tensors = {"x": torch.from_numpy(X), "y": torch.from_numpy(y)}
    return SimpleNamespace(edge_index=torch.from_numpy(PAIRS.T.copy()), **tensors, **more)


def dgl(**ndata):
    tensors = {"feat": torch.from_numpy(X), "label": torch.from_numpy(Y), **ndata}
    return DGLGraph({"_E": PAIRS}, {}, tensors)


def networkx_graph():
    graph = nx.Graph()
    for row, name in enumerate("abcd"):
        graph.add_node(name, x=X[row].tolist(), **({} if row == 3 else {"y": int(Y[row])}))
    graph.add_edges_from([("a", "b"), ("b", "c")])
    return graph


def hetero():
    nodes = {"n": SimpleNamespace(x=torch.from_numpy(X), y=torch.from_numpy(Y))}
    store = SimpleNamespace(edge_index=torch.from_numpy(PAIRS.T.copy()))
    return HeteroData(nodes, {("n", "cites", "n"): store})


@pytest.mark.parametrize("source", [pyg(), dgl(), networkx_graph(), hetero()], ids=type)
def test_every_object_gives_the_same_graph(source):
    graph, split = graph_from(source)
    np.testing.assert_array_equal(graph.features, X)
    assert graph.links.tolist() == [[0, 1], [1, 2], [3, 3]]  # a node without links has a loop
    assert (graph.labels.tolist(), graph.classes) == (Y.tolist(), ("0", "1"))
    assert graph.task == "classification"
    assert [part.tolist() for part in (split.train, split.validation, split.test)] == [
        [0, 1, 2],
        [],
        [],
    ]


@pytest.mark.parametrize("make", [pyg, dgl])
def test_masks_are_a_split_of_the_labelled_nodes(make):
    masks = {"train_mask": mask(0, 1, 3), "val_mask": mask(2)}
    _, split = graph_from(make(**masks))
    assert (split.train.tolist(), split.validation.tolist()) == ([0, 1], [2])
    _, split = graph_from(make(test_mask=mask(1)))
    assert (split.train.tolist(), split.test.tolist()) == ([0, 2], [1])


@pytest.mark.parametrize(
    ("y", "task", "labels"),
    [
        (np.array([0.5, 2.0, np.nan, 1.0]), "regression", [0.5, 2.0, None, 1.0]),
        (np.array([[0.5], [2.0], [np.nan], [1.0]]), "regression", [0.5, 2.0, None, 1.0]),
        (np.array([1.0, 0.0, np.nan, 1.0]), "classification", [1, 0, -1, 1]),
        (
            np.array([[1, 0], [0, 0], [-1, -1], [1, 1]]),
            "multilabel",
            [[1, 0], [0, 0], [-1, -1], [1, 1]],
        ),
    ],
)
def test_the_task_follows_from_the_labels(y, task, labels):
    graph, split = graph_from(pyg(y))
    assert graph.task == task
    found = [None if value != value else value for value in graph.labels.tolist()]
    assert found == labels
    assert split.train.tolist() == [0, 1, 3]


def test_a_task_may_be_given():
    graph, _ = graph_from(pyg(), task="regression")
    assert graph.labels.tolist() == [1.0, 0.0, 1.0, -1.0]
    with pytest.raises(OptionError, match="unknown task 'regresion'"):
        graph_from(pyg(), task="regresion")


def test_features_and_labels_may_be_given_or_named():
    source = networkx_graph()
    nx.set_node_attributes(source, {name: name.upper() for name in "abcd"}, "kind")
    graph, _ = graph_from(source, features=X + 1, labels="kind")
    np.testing.assert_array_equal(graph.features, X + 1)
    assert graph.classes == ("A", "B", "C", "D")
    matrix = sparse.coo_matrix((np.ones(2), PAIRS.T), (4, 4))
    graph, _ = graph_from(matrix, X, Y)
    assert graph.links.tolist() == [[0, 1], [1, 2], [3, 3]]
    assert sparse.issparse(graph_from(pyg(), sparse.csr_matrix(X))[0].features)


def test_batches_are_several_graphs():
    assert graph_from(pyg(batch=torch.tensor([0, 0, 1, 1])))[0].groups.tolist() == [0, 0, 1, 1]
    source = dgl()
    assert graph_from(source)[0].groups is None
    source.sizes = (1, 3)
    assert graph_from(source)[0].groups.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (SimpleNamespace(edge_index=PAIRS.T, y=Y), "no features 'x'; pass them with features="),
        (SimpleNamespace(edge_index=PAIRS.T, x=X), "no labels; pass them with labels="),
        (pyg(train_mask=torch.ones(3, dtype=bool)), r"each of 4 nodes; train_mask has 3\."),
        (pyg(y=np.array([[2, 0], [0, 1], [1, 1], [0, 0]])), "must contain 0 and 1"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_refused(source, message):
    with pytest.raises(GraphError, match=message):
        graph_from(source)


def test_several_splits_in_a_mask_are_refused():
    with pytest.raises(OptionError, match=r"train_mask must be one mask; found shape \(4, 2\)"):
        graph_from(pyg(train_mask=torch.ones(4, 2, dtype=bool)))


def test_a_node_of_networkx_without_features_is_named():
    source = networkx_graph()
    del source.nodes["c"]["x"]
    with pytest.raises(GraphError, match="must have features 'x'; 1 have none, such as 'c'"):
        graph_from(source)


def test_problems_of_links_and_labels_are_in_one_message():
    with pytest.raises(GraphError, match=r"0 and 1, .* link 0 has -1\.0"):
        graph_from(pyg(np.full((4, 2), 7)), edge_weight=[-1.0, 1.0])


def test_the_library_trains_on_it(planted):
    source = SimpleNamespace(x=planted.features, y=planted.labels, edge_index=planted.links.T)
    graph, split = graph_from(source)
    result = fit(graph, split, epochs=1, held_out=0, device="cpu")
    expected = fit(planted, split, epochs=1, held_out=0, device="cpu")
    x = planted.features
    np.testing.assert_array_equal(result.model.predict_proba(x), expected.model.predict_proba(x))
