"""The cost of one method in a process of its own: training, predictions, memory, size.

`cost.py` starts it: python benchmarks/rivals/deployed.py GRAPH METHOD. It prints a line of JSON.
"""

import json
import pickle
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from scipy import sparse

from rivals import networks, ours
from rivals.cross_validated import adjacency
from rivals.linear import linear, self_training
from rivals.names import LINKED, OURS
from rivals.networks import Trainer
from rivals.propagation import correct_and_smooth, propagation
from rivals.protocol import Chosen, Problem, draw, load_set
from rivals.trees import averaged_trees, spread_then_trees, trees

LABELS, SEED = "10%", 2
EPOCHS = 20
"""A network is timed for so many epochs in one setting; all epochs take the same time."""
MILLION, CHUNK = 1_000_000, 50_000
CALLS, REPEATS = 20, 3
WHOLE_GRAPH = ("label propagation", "Correct & Smooth")
"""Methods whose prediction of one node needs the labels of nodes at any distance."""
STUDENTS = {"GLNN": "GraphSAGE", "GCN2MLP": "GCN"}


class Ours:
    """SelfLinkDist or CoLinkDist from features."""

    def __init__(self, model):
        self.model = model

    def from_features(self, x):
        """Probabilities of rows."""
        return self.model.predict_proba(x)


class OursLinked(Ours):
    """SelfLinkDist with links."""

    def with_links(self, features, edges, nodes):
        """Probabilities of some nodes of a graph."""
        return self.model.predict_proba(features, edges)[nodes]


def trained(problem, method):
    """A model of the method, and the seconds of training it with the search of settings."""
    started = time.perf_counter()
    device = torch.device("cpu")
    if method in (OURS, LINKED, "CoLinkDist"):
        name = "colinkdist" if method == "CoLinkDist" else "selflinkdist"
        found = ours.trained([problem], name, device).model
        chosen = Chosen(OursLinked(found) if method == LINKED else Ours(found), {}, ())
    elif method in ("MLP", "GraphSAGE", "GCN", "Correct & Smooth", *STUDENTS):
        return _network(problem, method, device)
    elif method == "self-training":
        chosen = self_training(problem, linear(problem))
    else:
        alone = {
            "linear model": linear,
            "LightGBM": trees,
            "LightGBM on averages": averaged_trees,
            "label spreading, then LightGBM": spread_then_trees,
            "label propagation": propagation,
        }
        chosen = alone[method](problem)
    return chosen, time.perf_counter() - started


def _network(problem, method, device):
    """A network after a few epochs of one setting, and the time that all would take."""
    factor = networks.EPOCHS / EPOCHS * len(networks.NETWORKS)
    networks.EPOCHS = EPOCHS
    networks.NETWORKS, networks.STUDENTS = networks.NETWORKS[:1], networks.STUDENTS[:1]
    started = time.perf_counter()
    trainer = Trainer(problem, device)
    base = {"Correct & Smooth": "MLP", **STUDENTS}.get(method, method)
    chosen = trainer.supervised(base)
    if method in STUDENTS:
        chosen = trainer.student(chosen)
    seconds = factor * (time.perf_counter() - started)
    if method == "Correct & Smooth":
        started = time.perf_counter()
        chosen = correct_and_smooth(problem, chosen, device)
        seconds += time.perf_counter() - started
    return chosen, seconds


def ball(matrix, node, hops):
    """The nodes within some hops of a node, itself first."""
    found = np.array([node])
    for _ in range(hops):
        near = np.unique(matrix[found].indices)
        found = np.concatenate([found, np.setdiff1d(near, found)])
    return found


def one_row(graph, method, model, nodes):
    """The median seconds of a prediction for one node."""
    matrix = adjacency(graph.links, graph.n).tocsr()
    hops = 1 if method == LINKED else 2

    def predict(node):
        if not hasattr(model, "with_links"):
            return model.from_features(graph.features[[node]])
        if method in WHOLE_GRAPH:
            return model.with_links(graph.features, graph.edges, np.array([node]))
        near = ball(matrix, node, hops)
        pairs = np.stack(sparse.coo_matrix(matrix[near][:, near]).nonzero(), axis=1)
        return model.with_links(graph.features[near], pairs.astype(np.int64), np.array([0]))

    predict(nodes[0])
    calls = 3 if method in WHOLE_GRAPH else CALLS
    return _median(lambda: [predict(node) for node in nodes[:calls]]) / calls


def million_rows(graph, model):
    """The seconds for a million rows: repeated ones, or a graph's own nodes, scaled."""
    if hasattr(model, "with_links"):
        # A copy, because a trainer knows its own features and has them ready.
        x, nodes = graph.features.copy(), np.arange(graph.n)
        seconds = _median(lambda: model.with_links(x, graph.edges, nodes))
        return seconds * MILLION / graph.n
    rows = graph.features[np.resize(np.arange(graph.n), CHUNK)]
    return _median(lambda: model.from_features(rows)) * MILLION / CHUNK


def _median(work):
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def size_of(model):
    """The bytes of weights, trees or coefficients."""
    if isinstance(model, Ours):
        network = model.model.network
        unused = [] if isinstance(model, OursLinked) else network.neighbours
        without = {id(p) for part in unused for p in part.parameters()}
        return sum(p.nbytes for p in network.parameters() if id(p) not in without)
    if isinstance(model, networks.Trained):
        return sum(p.nbytes for p in model.network.parameters())
    return len(pickle.dumps(model))


def data_of(graph, method, model):
    """The bytes of features and links that a prediction needs at hand."""
    if not hasattr(model, "with_links"):
        return 0
    x, links = graph.features, 4 * len(graph.edges) + 8 * (graph.n + 1)
    if method == "label propagation":
        return links
    parts = (x.data, x.indices, x.indptr) if sparse.issparse(x) else (x,)
    return links + sum(part.nbytes for part in parts)


def peak():
    """The most memory that this process has used, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def measured(name, method):
    """All costs of a method on a graph."""
    graph = load_set(name)
    problem = Problem(graph, draw(graph, LABELS, SEED), SEED)
    before = peak()
    chosen, seconds = trained(problem, method)
    memory = peak()
    with torch.no_grad():
        one = one_row(graph, method, chosen.model, problem.split.test)
        million = million_rows(graph, chosen.model)
    return {
        "training_s": round(seconds, 2),
        "one_row_ms": round(1000 * one, 3),
        "million_rows_s": round(million, 2),
        "memory_mb": round(memory / 1e6),
        "memory_before_mb": round(before / 1e6),
        "model_mb": round(size_of(chosen.model) / 1e6, 3),
        "data_mb": round(data_of(graph, method, chosen.model) / 1e6, 2),
    }


if __name__ == "__main__":
    print(json.dumps(measured(*sys.argv[1:3])))
