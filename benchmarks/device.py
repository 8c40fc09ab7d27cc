"""Training from a store on a GPU: whole, and with two parts on the device at a time.

A graph of planted classes is made with several numbers of parts, 128 features and 40 classes. It is
trained in rounds whose parts come from the disk, and whole, for two epochs each, in a process of
its own. The first epoch also compares every file with its digest, the second one only reads; the
machine's memory may hold the files by then. Links are counted as the loop takes them, both ways.
Accuracy is that of 100,000 nodes from their features.
Usage: python benchmarks/device.py FOLDER [--nodes N] [--links M] [--parts 4,8,16]
"""

import argparse
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import torch
from measure import write

from linkdist.distributed.survey import survey
from linkdist.distributed.trainer import Schedule, batch_for, train_rounds
from linkdist.nn.inputs import make_inputs
from linkdist.store.reader import Store
from linkdist.store.synthetic import Planted, synth
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.loop import find_device

EPOCHS, SHOWN = 2, 100_000


def trained(directory, whole):
    """A line: seconds and speed of each epoch, and what was learnt."""
    store, device, times = Store.open(directory), find_device("cuda"), []
    begun = time.perf_counter()
    found = survey(store, 0.1, 0)
    looked = time.perf_counter()
    schedule = Schedule.of(store, EPOCHS, whole)
    course = TrainingRun(None, lambda *_: times.append(time.perf_counter()))
    batch = batch_for(store, device)
    stage = train_rounds(store, found, schedule, [0], course, device=device, batch=batch)
    ends = [looked, *times[schedule.epoch - 1 :: schedule.epoch]]
    first, second = (after - before for before, after in pairwise(ends))
    with torch.no_grad():
        z, _ = stage.network(make_inputs(store.features(0)[:SHOWN], device))
    hits = z.flatten(0, 2).argmax(-1).cpu().numpy() == store.truth(0)[:SHOWN]
    edges = 2 * store.m - store.loops
    return {"nodes": store.n, "links": store.m, "parts": store.P,
            "way": "whole" if whole else "in rounds", "rounds an epoch": schedule.epoch,
            "batch": batch, "survey, s": round(looked - begun, 1),
            "first epoch, s": round(first, 1), "second epoch, s": round(second, 1),
            "million links a second": round(edges / second / 1e6, 2),
            "accuracy": round(100 * float(hits.mean()), 2),
            "GB on the GPU": round(torch.cuda.max_memory_allocated() / 1e9, 2),
            "GB in memory": round(
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2
            )}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=20_000_000)
    parser.add_argument("--links", type=int, default=200_000_000)
    parser.add_argument("--parts", default="4,8,16")
    asked = parser.parse_args()
    planted, rows = Planted(asked.nodes, asked.links, features=128), []
    parts = [int(P) for P in asked.parts.split(",")]
    # All stores hold as good as the same graph, so one of them is enough to train it whole.
    for P, whole in (*((P, False) for P in parts), (parts[0], True)):
        directory = asked.folder / f"store-{P}"
        if not directory.exists():
            synth(directory, planted, parts=P)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows.append(pool.submit(trained, directory, whole).result())
        print(rows[-1], file=sys.stderr, flush=True)
    write("device", "python benchmarks/device.py FOLDER", rows)


if __name__ == "__main__":
    main()
