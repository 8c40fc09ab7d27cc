"""Training: milliseconds a step and seconds a run, this project against the textbook.

Side by side in one process, a step of each in turn, medians. A run is the paper's number of epochs
without the scoring, from the step's time. Usage: python benchmarks/training.py [SET ...]
"""

import itertools
import sys

import torch
from measure import interleaved, write
from textbook import Trainer

from linkdist import load, named_split, observe
from linkdist.inputs import make_inputs
from linkdist.network import ForkedMLP
from linkdist.training import Loop, coefficients, epochs_for, loss_on_links, manners

SETS = ("cora", "amazon-computers", "coauthor-physics")


def steps_of_project(graph, view, device, method):
    """A function that takes one step."""
    network = ForkedMLP(graph.d, graph.C, [0]).to(device)
    inputs, by = make_inputs(graph.features, device), coefficients([view], None, device)
    loss = loss_on_links(network, inputs, [view], by, method)
    loop = Loop(network, loss, [len(view.edges)], [0])
    return itertools.chain.from_iterable(map(loop.epoch, itertools.count())).__next__


def steps_of_textbook(graph, view, device, method):
    """A function that takes one step."""
    dense = graph.features.toarray()
    sides = 3 if method == "colinkdist" else 2
    trainer = Trainer(dense, view, coefficients([view]), device, sides=sides)
    return itertools.chain.from_iterable(trainer.steps() for _ in itertools.count()).__next__


def row(name, method, device):
    """One line of the table."""
    graph = load(name)
    view = observe(graph, named_split(graph, "transductive", 0), "transductive")
    ways = {
        "project": steps_of_project(graph, view, device, method),
        "textbook": steps_of_textbook(graph, view, device, method),
    }
    with manners(device):
        times = interleaved(ways, repeats=40, warm_up=8)
    steps = epochs_for(graph.degree) * -(-len(view.edges) // 1024)
    return {
        "set": name,
        "method": method,
        "device": device.type,
        "textbook, ms a step": round(times["textbook"] * 1e3, 1),
        "project, ms a step": round(times["project"] * 1e3, 1),
        "ratio": round(times["textbook"] / times["project"], 1),
        "textbook, s a run": round(times["textbook"] * steps, 1),
        "project, s a run": round(times["project"] * steps, 1),
    }


if __name__ == "__main__":
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    asked = sys.argv[1:] or SETS
    rows = [
        row(name, method, torch.device(device))
        for device in devices
        for name in asked
        for method in ("colinkdist", "linkdist")
    ]
    write("training", "python benchmarks/training.py", rows)
