"""The default method from a store, end to end: seconds, links a second and memory of each stage.

A graph with planted classes is made with each number of parts and trained by a process of its own;
its peak resident memory is the system's account of it. A pass over the links takes each link in
both directions, and both are counted. Accuracy is that of nodes without a label, whose classes are
known here, from features (60 % is the best possible), and the estimate with links.
`--steps` shortens the recursions of averaging and spreading. Every step has the same arrays,
so the memory is that of a whole training, but accuracies mean nothing.
Usage: python benchmarks/scale.py FOLDER [--nodes N] [--links M] [--parts 8,16] [--memory 1GB]
       [--device cpu] [--epochs E] [--steps S] [--keep]
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from measure import write

from linkdist.data.graph import UNKNOWN
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.panel import averages
from linkdist.distributed.panel.fitting import Resources, fit_store
from linkdist.distributed.pipeline import node_batch, room_on
from linkdist.model import from_features
from linkdist.progress import Callback
from linkdist.store.plan import parse_memory
from linkdist.store.reader import Store
from linkdist.store.synthetic import Planted, synth
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.options import Options

SCORED = 200_000


def passes(stage):
    """Passes over the links of a stage; the first of averaging counts degrees."""
    return {
        "reading the links": 1,
        "averaging features": 3 + averages.MANY,
        "spreading labels": averages.STEPS,
        "writing targets": 1,
    }.get(stage)


class Stages(Callback):
    """Measures the time of each stage."""

    def __init__(self, store, device):
        self.store, self.device, self.rows, self.name = store, device, [], None

    def stage(self, name):
        """End the present stage."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self.name:
            took, count = now - self.began, passes(self.name)
            row = {"stage": self.name, "seconds": round(took, 1), "passes": count}
            links = 2 * self.store.m * count if count else None
            row["million links a second"] = round(links / took / 1e6, 2) if links else None
            row["peak MB"] = round(peak())
            if self.device.type == "cuda":
                row["GB on the GPU"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
            self.rows.append(row)
            print(row, file=sys.stderr, flush=True)
        self.name, self.began = name, now


def peak():
    """Peak resident memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def trained(folder, memory, device, epochs):
    """Train a store; the rows of its stages, and the result."""
    store, device = Store.open(folder), torch.device(device)
    empty = peak()
    stages, work = Stages(store, device), folder.with_name(f"{folder.name}.work")
    shutil.rmtree(work, ignore_errors=True)
    options, batch = Options(epochs=epochs), node_batch(store, device)
    room = room_on(device, None if memory is None else parse_memory(memory))
    run = TrainingRun(None, None)
    started = time.perf_counter()
    where = Resources(work, device, room, batch, SingleProcess(), run, stages)
    result, _ = fit_store(store, options, where)
    stages.stage(None)
    took = time.perf_counter() - started
    nodes = result.epochs * store.n
    stages.rows[-1]["million nodes a second"] = round(nodes / stages.rows[-1]["seconds"] / 1e6, 3)
    x, y = store.features(0)[:SCORED].astype(np.float32), store.truth(0)[:SCORED]
    unknown = store.labels(0)[:SCORED] == UNKNOWN
    right = from_features(result.model.to(torch.device("cpu")), x).argmax(1) == y
    total = {
        "stage": "all",
        "seconds": round(took, 1),
        "passes over nodes": result.epochs,
        "peak MB": round(peak()),
        "MB before": round(empty),
        "accuracy": round(100 * right[unknown].mean(), 2),
        "estimate": round(100 * result.estimates.new_rows[0].value, 2),
        "estimate with links": round(100 * result.estimates.new_rows[1].value, 2),
    }
    shutil.rmtree(work, ignore_errors=True)
    about = {"nodes": store.n, "links": store.m, "parts": store.P}
    return [{**about, **row} for row in [*stages.rows, total]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=20_000_000)
    parser.add_argument("--links", type=int, default=200_000_000)
    parser.add_argument("--parts", default="0", help="0: as many as suit the memory")
    parser.add_argument("--memory")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--only", action="store_true")
    asked = parser.parse_args()
    if asked.only:
        if asked.steps:
            averages.MANY = averages.STEPS = asked.steps
        rows = trained(asked.folder, asked.memory, asked.device, asked.epochs)
        print(json.dumps(rows))
        return
    rows = []
    for parts in map(int, asked.parts.split(",")):
        folder = asked.folder / f"store-{parts}"
        if not (folder / "manifest.json").exists():
            memory = parse_memory(asked.memory or "2GB")
            synth(folder, Planted(asked.nodes, asked.links), parts=parts or None, memory=memory)
        words = ["--device", asked.device]
        for name in ("memory", "epochs", "steps"):
            if getattr(asked, name):
                words += [f"--{name}", str(getattr(asked, name))]
        command = [sys.executable, __file__, str(folder), "--only", *words]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows += json.loads(done.stdout.splitlines()[-1])
        if not asked.keep:
            shutil.rmtree(folder)
        name = f"scale-{'memory' if asked.steps else asked.device}"
        words = " ".join(sys.argv[2:])
        write(name, f"python benchmarks/scale.py FOLDER {words}".strip(), rows)


if __name__ == "__main__":
    main()
