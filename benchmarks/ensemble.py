"""Ten replicas as an ensemble against one: accuracy and calibration on the paper's sets.

Transductive, the paper's splits for seeds 0 to 4; on each split ten replicas train side by side.
'One' is the mean over the replicas; 'ten' averages their probabilities. Log-loss in nats; expected
calibration error over 15 equal bins of confidence. Usage: python benchmarks/ensemble.py [SET ...]
"""

import sys

import numpy as np
from measure import write

from linkdist import fit, load_dataset, named_split
from linkdist.model import logits, message_passing
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import make_inputs
from linkdist.training.loop import find_device

SETS = (
    *("cora", "citeseer", "pubmed", "amazon-photo"),
    *("amazon-computers", "coauthor-cs", "coauthor-physics"),
)
SPLITS, REPLICAS, BINS = 5, 10, 15


def scores(p, y):
    """Accuracy in percent, log-loss, expected calibration error of probabilities (n, C)."""
    confidence, hit = p.max(1), p.argmax(1) == y
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gap = [abs(hit[bins == b].mean() - confidence[bins == b].mean()) for b in np.unique(bins)]
    share = [np.mean(bins == b) for b in np.unique(bins)]
    own = np.maximum(p[np.arange(len(y)), y], 1e-12)
    return np.array([100 * hit.mean(), -np.log(own).mean(), np.dot(gap, share)])


def probabilities(graph, split, seed, device):
    """By mode, of every replica (R, test nodes, C)."""
    seeds = [1000 * seed + r for r in range(REPLICAS)]
    inputs = make_inputs(graph.features, device)
    model = fit(graph, split, seeds=seeds, device=device.type, inputs=inputs).model
    z, s = logits(model.network, inputs)
    neighbours = Neighbours([graph.edges], graph.n, device)
    passed = message_passing(z, s, neighbours, model.alpha)
    modes = {"features": z, "links": passed}
    return {mode: x[:, split.test].softmax(-1).cpu().numpy() for mode, x in modes.items()}


def rows_of(name, device):
    """Lines of the table: a mode each."""
    graph, found = load_dataset(name), {}
    for seed in range(SPLITS):
        split = named_split(graph, "transductive", seed)
        y = graph.labels[split.test]
        for mode, p in probabilities(graph, split, seed, device).items():
            one = np.mean([scores(member, y) for member in p], axis=0)
            found.setdefault(mode, []).append([one, scores(p.mean(0), y)])
    for mode, all_ in found.items():
        one, ten = np.mean(all_, axis=0)
        yield {
            "set": name,
            "mode": mode,
            "accuracy, one": round(one[0], 2),
            "accuracy, ten": round(ten[0], 2),
            "log-loss, one": round(one[1], 3),
            "log-loss, ten": round(ten[1], 3),
            "calibration error, one": round(one[2], 3),
            "calibration error, ten": round(ten[2], 3),
        }


if __name__ == "__main__":
    where = find_device("auto")
    table = [row for name in sys.argv[1:] or SETS for row in rows_of(name, where)]
    write("ensemble", "python benchmarks/ensemble.py", table)
