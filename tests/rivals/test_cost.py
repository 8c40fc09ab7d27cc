"""The cost of methods: what is fetched, what is deployed, and the page."""

import numpy as np
import pytest
from rivals import cost, deployed
from rivals.cross_validated import adjacency
from rivals.names import CLASSES
from rivals.protocol import Problem, draw


def test_a_ball_has_the_nodes_within_some_hops():
    path = adjacency(np.stack([np.arange(9), np.arange(1, 10)], axis=1), 10).tocsr()
    assert sorted(deployed.ball(path, 4, 2)) == [2, 3, 4, 5, 6]
    assert deployed.ball(path, 0, 1).tolist() == [0, 1]


@pytest.mark.parametrize("method", ["linear model", "GLNN", "GraphSAGE", "LightGBM on averages"])
def test_the_costs_of_a_method_are_positive_and_links_need_data(made, monkeypatch, method):
    monkeypatch.setattr(deployed, "load_set", lambda name: made())
    monkeypatch.setattr(deployed, "EPOCHS", 5)
    monkeypatch.setattr(deployed, "CHUNK", 200)
    for name in ("EPOCHS", "NETWORKS", "STUDENTS"):  # the child process changes them
        monkeypatch.setattr(deployed.networks, name, getattr(deployed.networks, name))
    found = deployed.measured("made", method)
    data = found.pop("data_mb")
    assert all(value >= 0 for value in found.values())
    assert found["memory_mb"] >= found["memory_before_mb"] > 50
    assert (data > 0) == (method in CLASSES[4])


def test_a_prediction_of_two_hops_is_that_of_the_whole_graph(made):
    graph = made()
    problem = Problem(graph, draw(graph, "10%", 0), 0)
    model = deployed.averaged_trees(problem).model
    matrix, node = adjacency(graph.links, graph.n).tocsr(), int(problem.split.test[0])
    near = deployed.ball(matrix, node, 2)
    pairs = np.stack(matrix[near][:, near].nonzero(), axis=1)
    found = model.with_links(graph.features[near], pairs, np.array([0]))
    assert np.allclose(found, model.with_links(graph.features, graph.edges, np.array([node])))


def test_the_page_has_the_methods_in_the_order_of_what_they_know():
    row = {"set": "pubmed", "runs": 3, "memory_before_mb": 500, **dict.fromkeys(cost.COLUMNS, 1.5)}
    about = {"commit": "abc", "date": "today", "machine": {"cpu": "a CPU, x", "torch": "2"}}
    methods = ("GCN", "MLP", "SelfLinkDist")
    page = cost.table({"about": about, "rows": [{**row, "method": m} for m in methods]})
    places = [page.index(f"| {method} |") for method in ("MLP", "SelfLinkDist", "GCN")]
    assert places == sorted(places)
    assert "Memory before training: about 500 MB." in page
