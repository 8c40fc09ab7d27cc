"""The two choices about folds, on the half of the nodes that is for choices, seeds 0 to 4.

`labels`: from how many labels on a held-out tenth is better than five folds. `visits`: how often a
student that folds judge visits each node. Each record is appended to the file; `--report FILE`
writes results/folds_choice.md.
Usage: python benchmarks/folds_choice.py --out FILE [--what labels,visits] [--sets ...]
       python benchmarks/folds_choice.py --report FILE
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from few_labels import panel
from graphs import draw, load
from measure import RESULTS, commit, machine

from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import make_inputs
from linkdist.training.loop import find_device

SETS = ("pubmed", "amazon-computers", "coauthor-cs", "coauthor-physics", "twitch-DE", "tolokers")
LABELS = ("300", "1000", "3000")
VISITS = (10, 15, 20, 30)
SEEDS = list(range(5))


def recipes(what):
    """Pairs of a number of labels and what is tried with it."""
    if what == "labels":
        ways = {"five folds": {"few": 10**9}, "held-out tenth": {"few": 0}}
        return [(labels, word, way) for labels in LABELS for word, way in ways.items()]
    return [("100", f"{visits} visits", {"cycles": (visits,)}) for visits in VISITS]


def measured(graph, inputs, every, labels, way):
    """Mean accuracy from features and with links, and the seconds that it took."""
    splits = [draw(graph, labels, seed, False) for seed in SEEDS]
    started = time.perf_counter()
    found = panel(graph, splits, SEEDS, inputs, every, **way)
    took = time.perf_counter() - started
    modes = {mode: found[f"SelfLinkDist, {mode}"] for mode in ("features", "links")}
    return {
        "accuracy": {mode: found["accuracy"] for mode, found in modes.items()},
        "calibration": {mode: found["calibration"] for mode, found in modes.items()},
        "seconds": round(took, 2),
    }


def report(path):
    """Write the table: one row for a number of labels and recipe, one column for a graph."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    sets = [name for name in SETS if any(r["set"] == name for r in records)]
    about = records[0]["machine"]
    place = about["gpu"] if about["gpu"] != "none" else about["cpu"]
    lines = [
        f"`python benchmarks/folds_choice.py` at {records[0]['commit']}, {place}. Accuracy in "
        "percent from features / with links, mean over seeds 0 to 4, on nodes for choices.",
        "",
        "| labels | judged by | " + " | ".join(sets) + " | mean |",
        "|" + " --- |" * (len(sets) + 3),
    ]
    for labels, word in dict.fromkeys((r["labels"], r["recipe"]) for r in records):
        here = {r["set"]: r for r in records if (r["labels"], r["recipe"]) == (labels, word)}
        pairs = {
            name: [np.mean(here[name]["accuracy"][mode]) for mode in ("features", "links")]
            for name in sets
            if name in here
        }
        cells = ["{:.1f} / {:.1f}".format(*pairs[name]) if name in pairs else "–" for name in sets]
        mean = "{:.2f} / {:.2f}".format(*np.mean(list(pairs.values()), axis=0))
        lines.append("| " + " | ".join([labels, word, *cells, mean]) + " |")
    (RESULTS / "folds_choice.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", default="labels,visits")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    if options.report:
        report(options.report)
        return
    device = find_device("auto")
    for name in options.sets.split(","):
        graph = load(name)
        inputs = make_inputs(graph.features, device)
        every = Neighbours([graph.edges], graph.n, device)
        for what in options.what.split(","):
            for labels, word, way in recipes(what):
                found = measured(graph, inputs, every, labels, way)
                record = {"set": name, "labels": labels, "recipe": word, **found,
                          "commit": commit(), "machine": machine()}  # fmt: skip
                with options.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(name, labels, word, found, flush=True)


if __name__ == "__main__":
    main()
