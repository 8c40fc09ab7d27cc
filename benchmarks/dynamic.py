"""Dynamic graphs: nodes arrive in parts, and the model is kept, updated or trained again.

A graph starts with a random 80 % of its nodes. The rest arrive in four parts, with their links to
the nodes that are present. After each part, three models are scored on all present test nodes, from
features and with links: the first model, its update (`linkdist.training.replay`) and a model that
is trained again on all present nodes. The time of the last two is measured. Labels are those of the
paper's transductive split and arrive with their nodes. So do its validation nodes, which choose the
epoch in training; an update uses those of the start. The results are means over several seeds.
Usage: python benchmarks/dynamic.py [--method colinkdist] [--seeds 5] [SET ...]
"""

import argparse
import copy
import dataclasses
import sys
import time

import numpy as np
from measure import RESULTS, write

from linkdist import Split, fit, from_features, load_dataset, named_split, with_links
from linkdist.data.graph import UNKNOWN, Graph
from linkdist.data.links import with_own_loops
from linkdist.training.fit import METHODS
from linkdist.training.loop import find_device
from linkdist.training.replay import make_replay_buffer, update

SETS = ("pubmed", "amazon-computers")
START, PARTS = 0.8, 4
LIMIT = 20_000


def part_of(graph, nodes, links, labels):
    """Some nodes of a graph and links among them, renumbered."""
    place = np.full(graph.n, -1)
    place[nodes] = np.arange(len(nodes))
    pairs = with_own_loops(place[links].reshape(-1, 2), len(nodes))
    return Graph.build(graph.features[nodes], pairs, labels[nodes], graph.classes)


def split_of(whole, graph, nodes, split):
    """The present part of a graph with its validation nodes' labels, and of a split."""
    train, validation = (
        np.flatnonzero(np.isin(nodes, part)) for part in (split.train, split.validation)
    )
    labels = graph.labels.copy()
    labels[validation] = whole.labels[nodes[validation]]
    known = dataclasses.replace(graph, labels=labels)
    nobody = np.array([], dtype=np.int64)
    return known, Split(train, validation, nobody)


def scores(model, present, test):
    """Accuracy in percent on test nodes, from features and with links."""
    graph, nodes, truth = present
    where = np.flatnonzero(np.isin(nodes, test))
    p = (from_features(model, graph.features), with_links(model, graph.features, graph.links))
    return [100 * float(np.mean(q[where].argmax(1) == truth[nodes[where]])) for q in p]


def present_at(graph, arrival, stage, labels):
    """All that is there after a stage."""
    nodes = np.flatnonzero(arrival <= stage)
    links = graph.links[(arrival[graph.links] <= stage).all(axis=1)]
    return part_of(graph, nodes, links, labels), nodes


def arriving_at(graph, arrival, stage, labels):
    """What a stage brings: its nodes, their links, and the old nodes at their ends."""
    latest = arrival[graph.links].max(axis=1)
    links = graph.links[latest == stage]
    nodes = np.union1d(np.flatnonzero(arrival == stage), links)
    return part_of(graph, nodes, links, labels)


def run(name, method, seed, device):
    """Scores and seconds by stage and way."""
    graph = load_dataset(name)
    split = named_split(graph, "transductive", seed)
    labels = np.full(graph.n, UNKNOWN)
    labels[split.train] = graph.labels[split.train]
    random = np.random.default_rng(seed)
    rank = random.permutation(graph.n) / graph.n
    arrival = np.maximum(np.ceil((rank - START) / (1 - START) * PARTS), 0).astype(int)
    first, nodes = present_at(graph, arrival, 0, labels)
    known, own = split_of(graph, first, nodes, split)
    model = fit(known, own, method=method, seeds=[seed], device=device).model
    frozen = copy.deepcopy(model)
    memory = make_replay_buffer(known, [own], seed, LIMIT)
    for stage in range(1, PARTS + 1):
        now, nodes = present_at(graph, arrival, stage, labels)
        new = arriving_at(graph, arrival, stage, labels)
        started = time.perf_counter()
        memory = update(model, memory, new, method=method, seed=stage, limit=LIMIT)
        updating = time.perf_counter() - started
        started = time.perf_counter()
        whole = split_of(graph, now, nodes, split)
        anew = fit(*whole, method=method, seeds=[seed], device=device).model
        seconds = time.perf_counter() - started
        for way, found, took in (
            ("none", frozen, 0.0), ("update", model, updating), ("anew", anew, seconds)
        ):  # fmt: skip
            yield stage, way, [*scores(found, (now, nodes, graph.labels), split.test), took]


def rows_of(name, method, device, seeds):
    """Lines of the table: a stage and way each."""
    found = {}
    for seed in seeds:
        for stage, way, values in run(name, method, seed, device):
            found.setdefault((stage, way), []).append(values)
            print(
                name, method, "seed", seed, "part", stage, way, np.round(values, 2), file=sys.stderr
            )
    for (stage, way), values in found.items():
        features, links, took = np.mean(values, axis=0)
        yield {
            "set": name, "part": stage, "way": way, "from features": round(features, 2),
            "with links": round(links, 2), "seconds": round(took, 2),
        }  # fmt: skip


def plot(table, path):
    """Accuracy and time by part."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(row["set"] for row in table))
    figure, axes = pyplot.subplots(2, len(names), figsize=(4.5 * len(names), 6), squeeze=False)
    marks = {"none": ("o", "tab:gray"), "update": ("s", "tab:blue"), "anew": ("^", "tab:orange")}
    for column, name in enumerate(names):
        for way, (mark, color) in marks.items():
            rows = [row for row in table if row["set"] == name and row["way"] == way]
            parts = [row["part"] for row in rows]
            top, bottom = axes[:, column]
            top.plot(parts, [r["with links"] for r in rows], mark + "-", color=color, label=way)
            top.plot(parts, [r["from features"] for r in rows], mark + "--", color=color)
            bottom.plot(parts, [r["seconds"] for r in rows], mark + "-", color=color, label=way)
        top.set(title=name, ylabel="test accuracy, %" if not column else None)
        bottom.set(xlabel="part that arrived", ylabel="seconds" if not column else None)
        for axis in (top, bottom):
            axis.set_xticks(range(1, PARTS + 1))
    axes[1, 0].legend(title="solid: with links\ndashed: from features", fontsize=8, loc="center")
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--method", default="colinkdist", choices=METHODS)
    parser.add_argument("sets", nargs="*", default=SETS)
    asked = parser.parse_args()
    where = find_device("auto").type
    lines = [
        row for name in asked.sets for row in rows_of(name, asked.method, where, range(asked.seeds))
    ]
    command = f"python benchmarks/dynamic.py --method {asked.method} --seeds {asked.seeds} "
    command += " ".join(asked.sets)
    write(f"dynamic-{asked.method}", command, lines)
    plot(lines, RESULTS / f"dynamic-{asked.method}.svg")
