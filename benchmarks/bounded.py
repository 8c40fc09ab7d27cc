"""Memory that does not grow with the graph: 20 million nodes, 200 million links, --memory 1GB.

Each line is a process of its own, whose peak resident memory is the system's account of it. The
store is made; some rounds are trained from it, links and parts read from the disk meanwhile; and
beside that, in turn, a graph that fits into memory is trained whole: 2 million nodes with as many
features, so that neither lies in a cache. Links are counted as the loop takes them, both ways.
Usage: python benchmarks/bounded.py FOLDER [--nodes N] [--links M] [--turns 2]
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from measure import write

from linkdist.distributed.survey import survey
from linkdist.distributed.trainer import Schedule, check_memory, fits_whole, train_rounds
from linkdist.store.plan import parse_memory
from linkdist.store.reader import Store
from linkdist.store.synthetic import Planted, synth
from linkdist.training.checkpoint import TrainingRun

MEMORY = "1GB"
ROUNDS = 6  # after the sixth the network is looked at
SMALL = (2_000_000, 2_000_000)


def made(folder, n, m):
    """Make a store; how large it is."""
    started = time.perf_counter()
    store = synth(folder, Planted(n, m), memory=parse_memory(MEMORY), overwrite=True)
    took = time.perf_counter() - started
    size = sum(file.size for file in store.manifest.files.values())
    return {"what": "make the store", "nodes": store.n, "links": store.m, "parts": store.P,
            "GB on disk": round(size / 1e9, 2), "seconds": round(took, 1)}  # fmt: skip


def trained(folder, whole):
    """Train some rounds of a store, or all of a small one at once; how fast."""
    store, times = Store.open(folder), []
    if not whole:
        check_memory(store, parse_memory(MEMORY))
        assert not fits_whole(store, parse_memory(MEMORY), torch.device("cpu"))
    started = time.perf_counter()
    found = survey(store, 0.1, 0)
    looked = time.perf_counter() - started
    schedule = Schedule.of(store, 1, whole)
    course = TrainingRun(None, lambda *_: times.append(time.perf_counter()))
    begun = time.perf_counter()
    stop = None if whole else ROUNDS
    train_rounds(store, found, schedule, [0], course, device=torch.device("cpu"), stop=stop)
    rounds = schedule.rounds[:stop]
    counts, loops = store.counts, store.loops if whole else 0
    # The first round waits for its own parts, and compiles; a single one has nobody to hide behind.
    first = 0 if whole else 1
    edges = 2 * sum(int(counts[b]) for r in rounds[first:] for b in r.buckets) - loops
    took = times[-1] - (begun if whole else times[0])
    return {"what": "train it whole, in memory" if whole else f"train {ROUNDS} rounds from disk",
            "nodes": store.n, "links": store.m, "parts": store.P, "survey, s": round(looked, 1),
            "seconds": round(took, 1),
            "thousand links a second": round(edges / took / 1e3, 1)}  # fmt: skip


def asked_for(*words):
    """A line from a process of its own, with its peak memory."""
    command = [sys.executable, __file__, *map(str, words)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=20_000_000)
    parser.add_argument("--links", type=int, default=200_000_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--only")
    asked = parser.parse_args()
    large, small = asked.folder / "large", asked.folder / "small"
    if asked.only:
        row = (
            made(asked.folder, asked.nodes, asked.links)
            if asked.only == "made"
            else trained(asked.folder, asked.only == "whole")
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({**row, "peak MB": round(peak / 1024)}))
        return
    sizes = ("--nodes", asked.nodes, "--links", asked.links)
    rows = [asked_for(large, "--only", "made", *sizes)]
    asked_for(small, "--only", "made", "--nodes", SMALL[0], "--links", SMALL[1])
    for turn in range(asked.turns):
        for folder, way in ((large, "rounds"), (small, "whole")):
            rows.append({**asked_for(folder, "--only", way), "turn": turn + 1})
            print(rows[-1], file=sys.stderr, flush=True)
    write("bounded", "python benchmarks/bounded.py FOLDER", rows)


if __name__ == "__main__":
    main()
