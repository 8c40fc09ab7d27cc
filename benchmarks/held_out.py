"""How many labels to hold out: the measurement behind `LinkDistClassifier(held_out=...)`.

A user has 20 labels a class (transductive), or labels on 60 % of the nodes, and no validation set.
A share of the labels is kept aside to choose the epoch, and teaches nothing; 0 trains on all labels
to the end of the schedule. Test accuracy, mean over ten splits (seeds 0 to 9).
Usage: python benchmarks/held_out.py [--method colinkdist] [SET ...]
"""

import argparse

import numpy as np
from measure import write

from linkdist import Split, fit, load_dataset, named_split
from linkdist.nn.inputs import make_inputs
from linkdist.training.fit import METHODS
from linkdist.training.loop import find_device

SETS = ("cora", "citeseer", "pubmed", "amazon-photo", "amazon-computers", "coauthor-cs")
SETTINGS = {"20 a class": "transductive", "60 % of nodes": "full-supervised"}
SHARES = (0.0, 0.1, 0.2, 0.5)
SEEDS = range(10)


def held_out(graph, split, share, seed):
    """The labels that are held out, a share of each class."""
    random, held = np.random.default_rng(seed), []
    for c in range(graph.C):
        nodes = random.permutation(split.train[graph.labels[split.train] == c])
        held.append(nodes[: min(round(share * len(nodes)), max(len(nodes) - 1, 0))])
    return random.permutation(np.concatenate(held))


def splits_of(graph, labels, share):
    """Splits whose validation nodes come out of the training labels, as many in each."""
    drawn = [named_split(graph, SETTINGS[labels], seed) for seed in SEEDS]
    held = [held_out(graph, split, share, seed) for seed, split in enumerate(drawn)]
    least = min(map(len, held))
    return [
        Split(np.setdiff1d(split.train, h[:least]), np.sort(h[:least]), split.test)
        for split, h in zip(drawn, held, strict=True)
    ]


def accuracies(result):
    """Test accuracy in percent by mode, at the chosen epoch or at the last."""
    for mode in ("features", "mean"):
        test = result.history.best(mode).test if result.history.chooses else None
        yield 100 * np.mean(test if test is not None else result.history.curve(mode)[-1, 1])


def row(name, labels, inputs, graph, method):
    """One line of the table."""
    line = {"set": name, "labels": labels}
    for share in SHARES:
        splits, where = splits_of(graph, labels, share), inputs.device.type
        result = fit(graph, splits, SETTINGS[labels], method=method, seeds=list(SEEDS),
                     inputs=inputs, device=where)  # fmt: skip
        line[f"{share:.0%}"] = " / ".join(f"{a:.2f}" for a in accuracies(result))
    return line


def rows_of(name, method):
    """Lines of the table: a number of labels each."""
    graph = load_dataset(name)
    inputs = make_inputs(graph.features, find_device("auto"))
    return [row(name, labels, inputs, graph, method) for labels in SETTINGS]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", choices=METHODS, default="colinkdist")
    parser.add_argument("sets", nargs="*", default=SETS)
    asked = parser.parse_args()
    table = [line for name in asked.sets for line in rows_of(name, asked.method)]
    plain = asked.method == "colinkdist"
    command = "python benchmarks/held_out.py" + ("" if plain else f" --method {asked.method}")
    write("held_out" if plain else f"held_out-{asked.method}", command, table)
