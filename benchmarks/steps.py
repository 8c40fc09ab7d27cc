"""Steps of a training on a made graph, for `heads.py`: run in a process of their own.

The source tree is the one that PYTHONPATH names, this one or an older one: only what both have is
imported for a single relation.
Usage: python benchmarks/steps.py METHOD K FEATURES DEVICE
A line on standard input takes a number of steps, and prints their seconds and the peak memory.
"""

import itertools
import resource
import sys
import time

import numpy as np
import torch
from scipy import sparse

import linkdist
from linkdist.data.graph import Graph
from linkdist.data.splits import Split, observe
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.training.link_task import coefficients, loop_on_links, loop_on_targets
from linkdist.training.loop import training_context

NODES, LINKS, CLASSES = 20_000, 200_000, 10
COLUMNS = {"dense": 256, "sparse": 1433}
NONZERO = 18
"""Non-zeros of a row of sparse features, as many as in cora."""


def made_graph(K, kind):
    """Random nodes and links; the same number of links for every number of relations K."""
    random = np.random.default_rng(0)
    pairs = random.integers(NODES, size=(LINKS, 2))
    labels = random.integers(CLASSES, size=NODES)
    if kind == "dense":
        features = random.standard_normal((NODES, COLUMNS[kind]), dtype=np.float32)
    else:
        columns = random.integers(COLUMNS[kind], size=NODES * NONZERO)
        rows, ones = np.repeat(np.arange(NODES), NONZERO), np.ones(NODES * NONZERO, np.float32)
        features = sparse.csr_matrix((ones, (rows, columns)), (NODES, COLUMNS[kind]))
    if K == 1:
        return Graph.build(features, pairs, labels)
    from linkdist.data.links import Links

    relation = random.integers(K, size=LINKS)
    links = Links(pairs, relation, relations=tuple(f"relation {k}" for k in range(K)))
    return Graph.build(features, links, labels)


def network_for(graph, K, device):
    if K == 1:
        return ForkedMLP(graph.d, graph.C, [0]).to(device)
    from linkdist.training.loop import Hyperparameters

    return Hyperparameters().network(graph.d, graph.C, [0], device, K)


def steps_of(method, K, kind, device):
    """A function that takes one step, and the number of weights."""
    graph, none = made_graph(K, kind), np.array([], dtype=np.int64)
    view = observe(graph, Split(np.arange(NODES // 10), none, none), "transductive")
    network, inputs = network_for(graph, K, device), make_inputs(graph.features, device)
    if method == "selflinkdist":
        p = torch.full((1, graph.n, graph.C), 1 / graph.C, device=device)
        loop = loop_on_targets(network, inputs, [view], [0], p, 1000)
    else:
        by = coefficients([view], None, device)
        loop = loop_on_links(network, inputs, [view], [0], by, method)
    step = itertools.chain.from_iterable(map(loop.epoch, itertools.count())).__next__
    return step, sum(part.numel() for part in network.parameters())


def memory(device):
    """Peak memory in MiB: of tensors on a GPU, of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main():
    method, K, kind, device = sys.argv[1], int(sys.argv[2]), sys.argv[3], torch.device(sys.argv[4])
    with training_context(device):
        step, weights = steps_of(method, K, kind, device)
        print(linkdist.__file__, weights, flush=True)
        for line in sys.stdin:
            started = time.perf_counter()
            for _ in range(int(line)):
                step()
            if device.type == "cuda":
                torch.cuda.synchronize()
            print(time.perf_counter() - started, memory(device), flush=True)


if __name__ == "__main__":
    main()
