"""Growth: time and peak memory of training against the number of links and of replicas.

Synthetic graphs of 10^5 to 10^7 links with ten links a node; each point is a process of its own, so
that its peak memory is its own. Leaves a table and a picture. Usage: python benchmarks/growth.py
"""

import json
import resource
import subprocess
import sys
import time

import numpy as np
import torch
from measure import RESULTS, write

from linkdist import Graph, observe, semi_supervised
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.training.link_task import coefficients, loss_on_links, seen_by
from linkdist.training.loop import Loop, training_context

LINKS = (100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
REPLICAS = (1, 2, 4, 8, 16, 32)
STEPS = 60


def synthetic(links):
    """A random graph with ten links a node, 64 features, 8 classes."""
    random = np.random.default_rng(0)
    n = links // 10
    labels = random.integers(0, 8, n)
    features = random.standard_normal((n, 64), dtype=np.float32)
    return Graph.build(features, random.integers(0, n, (links, 2)), labels)


def point(links, replicas, device):
    """Seconds a step and an epoch's shuffle, and the process's peak memory."""
    graph = synthetic(links)
    seeds = range(replicas)
    views = [observe(graph, semi_supervised(graph, s), "transductive") for s in seeds]
    network = ForkedMLP(graph.d, graph.C, seeds).to(device)
    inputs, by = make_inputs(graph.features, device), coefficients(views, None, device)
    loss = loss_on_links(network, inputs, seen_by(views, inputs.device), by, "colinkdist")
    loop = Loop(network, loss, [len(view.edges) for view in views], seeds)
    with training_context(device):
        # The first steps compile what they need, which is no part of an epoch's shuffle.
        for _ in zip(range(5), loop.epoch(0), strict=False):
            pass
        steps, times = loop.epoch(1), []
        started = time.perf_counter()
        next(steps)
        shuffle = time.perf_counter() - started
        for _ in range(STEPS):
            started = time.perf_counter()
            next(steps)
            if device.type == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - started)
    step = float(np.median(times[10:]))
    # What an epoch costs a link: its share of a step, and of the shuffle before it.
    a_link = (step + max(0.0, shuffle - step) / loop.steps) / 1024 / replicas
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"ms a step": round(step * 1e3, 2), "µs a link": a_link * 1e6, "peak MB": round(peak)}


def measured(links, replicas, device):
    """The same in a process of its own."""
    asked = [sys.executable, __file__, str(links), str(replicas), device]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    found["µs a link"] = round(found["µs a link"], 2)
    return {"device": device, "links": links, "replicas": replicas, **found}


def draw(rows, path):
    """Time a link and peak memory, against links and against replicas."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 6), constrained_layout=True)
    for row, (key, fixed) in zip(axes, (("links", "replicas"), ("replicas", "links")), strict=True):
        for axis, what in zip(row, ("µs a link", "peak MB"), strict=True):
            low = min(r[fixed] for r in rows)
            for device in dict.fromkeys(r["device"] for r in rows):
                some = [r for r in rows if r["device"] == device and r[fixed] == low]
                points = sorted((r[key], r[what]) for r in some)
                axis.plot(*zip(*points, strict=True), marker="o", label=device)
            top = 1.15 * max(r[what] for r in rows if r[fixed] == low)
            axis.set(xscale="log", xlabel=key, ylabel=what, ylim=(0, top))
            axis.grid(alpha=0.3)
            axis.legend(frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        links, replicas, device = sys.argv[1:]
        print(json.dumps(point(int(links), int(replicas), torch.device(device))))
    else:
        devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
        table = [measured(links, 1, device) for device in devices for links in LINKS]
        table += [measured(LINKS[0], r, device) for device in devices for r in REPLICAS[1:]]
        write("growth", "python benchmarks/growth.py", table)
        draw(table, RESULTS / "growth.svg")
