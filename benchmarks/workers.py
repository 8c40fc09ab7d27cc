"""Two of Ray's workers against one, on two cores: how much faster, and where the rest goes.

A worker has one thread. The store is of planted classes; links are counted as the loop takes them,
both ways, from the first round's end to the last one's. Communication is what a step of two workers
takes more with the averaging of gradients than without, in the same two processes.
Usage: python benchmarks/workers.py FOLDER [--turns 2]
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
from measure import write
from torch import distributed, multiprocessing

from linkdist.distributed.group import ProcessGroup
from linkdist.distributed.loader import Loader, rounds_of
from linkdist.distributed.ray_train import train_by_workers
from linkdist.distributed.survey import survey
from linkdist.distributed.trainer import Schedule
from linkdist.nn.network import ForkedMLP
from linkdist.pipeline import Options
from linkdist.progress import Callback
from linkdist.store.reader import Store
from linkdist.store.synthetic import Planted, synth
from linkdist.training.link_task import coefficients, loss_on_links
from linkdist.training.loop import BATCH, Loop, training_context

PLANTED = Planted(100_000, 400_000, labelled=0.05)
PARTS, STEPS = 4, 150


class Times(Callback):
    """When rounds were over, as seen from here."""

    def __init__(self):
        self.seen = {}

    def stage(self, name):
        """Only rounds count, not what is done before."""
        self.seen = {}

    def progress(self, done, total):
        """So many rounds are over now."""
        self.seen.setdefault(done, time.perf_counter())


def speed(store, found, folder, workers):
    """Thousand links a second of so many workers."""
    times = Times()
    options = Options(method="colinkdist", epochs=3)
    train_by_workers(store.directory, folder / f"model-{workers}", options, 10**9, workers,
                     callback=times, found=found, threads=1)  # fmt: skip
    rounds = [r.buckets[0] for r in Schedule.of(store, 3, whole=False, beside=True).rounds]
    seen = {done: at for done, at in times.seen.items() if done}
    first, last = min(seen), max(seen)
    edges = 2 * sum(int(store.counts[bucket]) for bucket in rounds[first:last])
    return edges / (seen[last] - seen[first]) / 1e3


def step_times(rank, address, directory, out):
    """Seconds of a step with and without averaging, of one of two workers."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    store, group = Store.open(directory), ProcessGroup()
    (fed,) = Loader(store, {}, torch.device("cpu")).read(rounds_of(store.P, 0)[1 + rank :][:1])
    network = ForkedMLP(store.d, store.C, [0])
    by = coefficients([survey(store, 0.1, 0).tally])
    found = {}
    for turn in range(3):
        for name, used in (("averaged", group.wrap(network)), ("alone", network)):
            loss = loss_on_links(used, fed.inputs, fed.seen, by, "colinkdist")
            loop = Loop(
                used, loss, [fed.seen.edges.shape[1]], [0], BATCH // 2, steps=group.max_steps
            )
            with training_context(loop.device):
                each = loop.epoch(turn)
                for _ in range(10):
                    next(each)
                distributed.barrier()
                started = time.perf_counter()
                for _ in range(STEPS):
                    next(each)
                found.setdefault(name, []).append((time.perf_counter() - started) / STEPS)
            distributed.barrier()
    torch.save({name: statistics.median(times) for name, times in found.items()}, f"{out}/{rank}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--turns", type=int, default=2)
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    store = synth(folder / "store", PLANTED, parts=PARTS, overwrite=True)
    found = survey(store, 0.1, 0)
    (folder / "meeting").unlink(missing_ok=True)
    address = f"file://{folder}/meeting"
    multiprocessing.spawn(step_times, (address, store.directory, folder), nprocs=2)
    steps = [torch.load(folder / str(rank)) for rank in range(2)]
    speeds = {1: [], 2: []}
    for _ in range(asked.turns):
        for workers in speeds:
            speeds[workers].append(speed(store, found, folder, workers))
            print(workers, speeds[workers][-1], file=sys.stderr, flush=True)
    one, two = (statistics.median(speeds[workers]) for workers in (1, 2))
    averaged, alone = (max(step[name] for step in steps) for name in ("averaged", "alone"))
    write("workers", "python benchmarks/workers.py FOLDER", [{
        "thousand links a second, one worker": round(one, 1),
        "two workers": round(two, 1),
        "times": round(two / one, 2),
        "efficiency": f"{two / one / 2:.0%}",
        "ms a step of two": round(1e3 * averaged, 2),
        "without averaging": round(1e3 * alone, 2),
        "communication": f"{1 - alone / averaged:.0%}",
    }])  # fmt: skip
