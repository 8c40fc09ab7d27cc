"""Training: milliseconds a step and seconds a run, this project against the textbook.

Side by side in one process, a step of each in turn, medians. A run is the paper's number of epochs
without the scoring, from the step's time. On a GPU also with ten replicas in a step, for which the
textbook needs ten runs. Usage: python benchmarks/training.py [--device cpu|cuda] [SET ...]
"""

import argparse
import itertools

import torch
from measure import interleaved, write
from textbook import Trainer

from linkdist import load_dataset, named_split, observe
from linkdist.nn.inputs import make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.training.coefficients import coefficients
from linkdist.training.loop import Loop, epochs_for, loss_on_links, manners, seen_by

SETS = ("cora", "amazon-computers", "coauthor-physics")
REPLICAS = {"cpu": (1,), "cuda": (1, 10)}
REPEATS = {"cpu": 40, "cuda": 200}


def steps_of_project(graph, views, device, method):
    """A function that takes one step of all replicas."""
    seeds = range(len(views))
    network = ForkedMLP(graph.d, graph.C, seeds).to(device)
    inputs, by = make_inputs(graph.features, device), coefficients(views, None, device)
    loss = loss_on_links(network, inputs, seen_by(views, inputs.device), by, method)
    loop = Loop(network, loss, [len(view.edges) for view in views], seeds)
    return itertools.chain.from_iterable(map(loop.epoch, itertools.count())).__next__


def steps_of_textbook(graph, view, device, method):
    """A function that takes one step."""
    dense = graph.features.toarray()
    sides = 3 if method == "colinkdist" else 2
    trainer = Trainer(dense, view, coefficients([view]), device, sides=sides)
    return itertools.chain.from_iterable(trainer.steps() for _ in itertools.count()).__next__


def row(name, method, device, replicas):
    """One line of the table."""
    graph = load_dataset(name)
    splits = [named_split(graph, "transductive", seed) for seed in range(replicas)]
    views = [observe(graph, split, "transductive") for split in splits]
    ways = {
        "project": steps_of_project(graph, views, device, method),
        "textbook": steps_of_textbook(graph, views[0], device, method),
    }
    with manners(device):
        times = interleaved(ways, repeats=REPEATS[device.type], warm_up=8)
    steps = epochs_for(graph.degree) * -(-len(views[0].edges) // 1024)
    ours, theirs = times["project"], times["textbook"] * replicas
    return {
        "set": name,
        "method": method,
        "device": device.type,
        "replicas": replicas,
        "textbook, ms a step": round(theirs * 1e3, 2),
        "project, ms a step": round(ours * 1e3, 2),
        "ratio": round(theirs / ours, 1),
        "textbook, s a run": round(theirs * steps, 1),
        "project, s a run": round(ours * steps, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("sets", nargs="*", default=SETS)
    asked = parser.parse_args()
    rows = [
        row(name, method, torch.device(asked.device), replicas)
        for name in asked.sets
        for method in ("colinkdist", "linkdist")
        for replicas in REPLICAS[asked.device]
    ]
    write(
        f"training-{asked.device}", f"python benchmarks/training.py --device {asked.device}", rows
    )
