"""Seconds of SelfLinkDist and of CoLinkDist, validation nodes given, one after the other.

The paper's seven sets, transductive. Run it on a machine that does nothing else. Each record is
appended to the file; `past_the_paper_report.py` reads results/past-the-paper/seconds.jsonl.
Usage: python benchmarks/past_the_paper_time.py --out FILE [--replicas 10] [--repeats 3]
       [--sets ...]
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from graphs import PAPER, load
from measure import commit, machine

from linkdist.data.splits import named_split
from linkdist.nn.inputs import make_inputs
from linkdist.training.fit import fit
from linkdist.training.loop import find_device


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(PAPER))
    parser.add_argument("--replicas", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    device = find_device("auto")
    seeds = list(range(options.replicas))

    def seconds(graph, inputs, splits, method):
        started = time.perf_counter()
        fit(graph, splits, "transductive", method=method, seeds=seeds, inputs=inputs,
            device=device.type)  # fmt: skip
        if device.type == "cuda":
            torch.cuda.synchronize()
        return round(time.perf_counter() - started, 2)

    for place, name in enumerate(options.sets.split(",")):
        graph = load(name)
        inputs = make_inputs(graph.features, device)
        splits = [named_split(graph, "transductive", seed) for seed in seeds]
        methods = ("selflinkdist", "colinkdist")
        if place == 0:  # what is compiled once does not count
            for method in methods:
                seconds(graph, inputs, splits, method)
        took = {method: [] for method in methods}
        for _ in range(options.repeats):
            for method in methods:
                took[method].append(seconds(graph, inputs, splits, method))
        median = {method: statistics.median(took[method]) for method in methods}
        record = {
            "set": name,
            "replicas": options.replicas,
            "seconds": took,
            "ratio": round(median["selflinkdist"] / median["colinkdist"], 2),
            "commit": commit(),
            "machine": machine(),
        }
        print(name, median, record["ratio"], flush=True)
        with options.out.open("a") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
