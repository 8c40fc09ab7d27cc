"""Links a second on one GPU: the loop over links with the whole graph on the device.

A graph is made there: features of planted classes in float16, links drawn at random. An epoch takes
every link once, as an item (i, j) of a batch. Measured with 128 features, 40 classes and a width of
256, for several sizes of batches; then, with --epoch, one whole epoch of a graph of the size of
ogbn-papers100M (111 million nodes, 1.6 billion links).
Usage: python benchmarks/links.py [--nodes N] [--links M] [--batches 1024,...] [--epoch]
"""

import argparse
import time

import numpy as np
import torch
from measure import write

from linkdist.nn.inputs import DenseInputs
from linkdist.nn.network import ForkedMLP
from linkdist.training.link_task import Seen, Tally, coefficients, loss_on_links
from linkdist.training.loop import Loop, find_device, training_context

D, C, KNOWN = 128, 40, 0.01
PAPERS = (111_059_956, 1_615_685_872)


def made(n, m, device):
    """Features, labels and links of planted classes."""
    random = torch.Generator(device).manual_seed(0)
    truth = torch.randint(C, (n,), generator=random, device=device)
    means = torch.randn(C, D, generator=random, device=device) / 4
    x = torch.empty(n, D, dtype=torch.float16, device=device)
    edges = torch.empty(1, m, 2, dtype=torch.int32, device=device)
    for rows in torch.arange(n, device=device).split(1 << 22):
        noise = torch.randn(len(rows), D, generator=random, device=device)
        x[rows[0] : rows[-1] + 1] = noise + means[truth[rows]]
    for first in range(0, m, 1 << 26):
        edges[0, first : first + (1 << 26)].random_(0, n, generator=random)
    known = torch.rand(n, generator=random, device=device) < KNOWN
    labels = torch.where(known, truth, -1).unsqueeze(0)
    nodes = torch.arange(n, device=device).unsqueeze(0)
    return x, Seen(edges, nodes, torch.tensor([[n]], device=device), labels)


def tally(seen):
    """Counts as they are on average: ends of links are drawn evenly."""
    of_nodes = torch.bincount(seen.labels[seen.labels >= 0], minlength=C).cpu().numpy()
    n, m = seen.nodes.shape[1], seen.edges.shape[1]
    return Tally(n, 2 * m, of_nodes, np.round(of_nodes * (2 * m / n)).astype(np.int64))


def make_loop(x, seen, batch, precision):
    """The loop over the links, and its network."""
    network = ForkedMLP(D, C, [0]).to(x.device)
    by = coefficients([tally(seen)], device=x.device)
    inputs = DenseInputs(x, out=getattr(torch, precision))
    loss = loss_on_links(network, inputs, seen, by, "colinkdist")
    return Loop(network, loss, [seen.edges.shape[1]], [0], batch)


def seconds_of(loop, steps):
    """Seconds of some steps once the step is recorded."""
    with training_context(loop.device):
        each = loop.epoch(0)
        for _ in range(10):
            next(each)
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(steps):
            next(each)
        torch.cuda.synchronize()
        return time.perf_counter() - started


def speeds(x, seen, batches):
    """Lines of the table: links a second by batch and precision."""
    for batch in batches:
        for precision in ("float32", "bfloat16"):
            loop = make_loop(x, seen, batch, precision)
            steps = min(max(20, (1 << 25) // batch), loop.steps - 10)
            took = seconds_of(loop, steps)
            yield {"nodes": seen.nodes.shape[1], "links": seen.edges.shape[1], "batch": batch,
                   "activations": precision, "ms a step": round(1000 * took / steps, 3),
                   "million links a second": round(batch * steps / took / 1e6, 2)}  # fmt: skip


def epoch_of(x, seen, batch):
    """A line: one whole epoch."""
    loop = make_loop(x, seen, batch, "bfloat16")
    torch.cuda.synchronize()
    started = time.perf_counter()
    with training_context(loop.device):
        for _ in loop.epoch(0):
            pass
        torch.cuda.synchronize()
    took = time.perf_counter() - started
    links = seen.edges.shape[1]
    return {"nodes": seen.nodes.shape[1], "links": links, "batch": batch,
            "activations": "bfloat16", "ms a step": round(1000 * took / loop.steps, 3),
            "million links a second": round(links / took / 1e6, 2),
            "seconds an epoch": round(took, 1),
            "GB on the GPU": round(torch.cuda.max_memory_allocated() / 1e9, 1)}  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--links", type=int, default=100_000_000)
    parser.add_argument("--batches", default="1024,8192,65536,262144")
    parser.add_argument("--epoch", action="store_true")
    asked = parser.parse_args()
    device = find_device("cuda")
    x, seen = made(asked.nodes, asked.links, device)
    rows = list(speeds(x, seen, map(int, asked.batches.split(","))))
    command = "python benchmarks/links.py"
    if asked.epoch:
        del x, seen
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        best = max(rows, key=lambda row: row["million links a second"])
        rows.append(epoch_of(*made(*PAPERS, device), best["batch"]))
        command += " --epoch"
    write("links", command, rows)
