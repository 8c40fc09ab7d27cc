"""Training from a store on a GPU: whole, and with two parts on the device at a time.

A graph of planted classes is made with several numbers of parts, 128 features and 40 classes. It is
trained in rounds whose parts come from the disk, and whole from the first of the stores. The stores
are generated and surveyed at the same time, then trained one after the other, each in a process of
its own, and removed. The first epoch in rounds also compares every file with its digest, later ones
only read; the machine's memory may hold the files by then. Links are counted as the loop takes
them, both ways, in the last epoch. Accuracy is that of 100,000 nodes from their features.
Usage: python benchmarks/device.py FOLDER [--nodes N] [--links M] [--parts 4,8,16] [--epochs E]
"""

import argparse
import resource
import shutil
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

SHOWN = 100_000
SPEED = "million links a second"


def generated(directory, planted, parts):
    """The survey of a store, and the seconds that it took; the store is generated if missing."""
    begun = time.perf_counter()
    store = Store.open(directory) if directory.exists() else synth(directory, planted, parts=parts)
    made = time.perf_counter()
    found = survey(store, 0.1, 0)
    return found, made - begun, time.perf_counter() - made


def trained(directory, found, whole, epochs):
    """A line: seconds and speed of the epochs, and what was learnt."""
    store, device = Store.open(directory), find_device("cuda")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    schedule, batch = Schedule.of(store, epochs, whole), batch_for(store, device)
    ends = [time.perf_counter()]

    def progress(done, total):
        if done % schedule.epoch == 0:
            torch.cuda.synchronize()  # the host is ahead of the GPU
            ends.append(time.perf_counter())

    course = TrainingRun(None, progress)
    stage = train_rounds(store, found, schedule, [0], course, device=device, batch=batch)
    seconds = [after - before for before, after in pairwise(ends)]
    with torch.no_grad():
        z, _ = stage.network(make_inputs(store.features(0)[:SHOWN], device))
    hits = z.flatten(0, 2).argmax(-1).cpu().numpy() == store.truth(0)[:SHOWN]
    edges = 2 * store.m - store.loops
    return {"nodes": store.n, "links": store.m, "parts": store.P,
            "way": "whole" if whole else "in rounds", "rounds an epoch": schedule.epoch,
            "batch": batch, "first epoch, s": round(seconds[0], 1),
            "last epoch, s": round(seconds[-1], 1),
            SPEED: round(edges / seconds[-1] / 1e6, 2),
            "accuracy": round(100 * float(hits.mean()), 2),
            "GB on the GPU": round(torch.cuda.max_memory_allocated() / 1e9, 2),
            "GB in memory": round(
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2
            )}  # fmt: skip


def say(line):
    print(line, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=20_000_000)
    parser.add_argument("--links", type=int, default=200_000_000)
    parser.add_argument("--parts", default="4,8,16")
    parser.add_argument("--epochs", type=int, default=2)
    asked = parser.parse_args()
    planted, rows = Planted(asked.nodes, asked.links, features=128), []
    stores = {int(P): asked.folder / f"store-{P}" for P in asked.parts.split(",")}
    spawn = get_context("spawn")
    with ProcessPoolExecutor(len(stores), mp_context=spawn) as pool:
        jobs = {P: pool.submit(generated, path, planted, P) for P, path in stores.items()}
        surveys = {}
        for P, job in jobs.items():
            surveys[P], making, surveying = job.result()
            say(f"{P} parts: generated in {making:.1f} s, surveyed in {surveying:.1f} s")
    for P, directory in stores.items():
        # All stores hold as good as the same graph, so one of them is enough to train it whole.
        ways = (False, True) if next(iter(stores)) == P else (False,)
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            for whole in ways:
                job = pool.submit(trained, directory, surveys[P], whole, asked.epochs)
                rows.append(job.result())
                say(rows[-1])
        shutil.rmtree(directory)
    most = next(row[SPEED] for row in rows if row["way"] == "whole")
    rows = [{**row, "of whole, %": round(100 * row[SPEED] / most, 1)} for row in rows]
    write("device", "python benchmarks/device.py FOLDER", rows)


if __name__ == "__main__":
    main()
