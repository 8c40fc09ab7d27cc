"""Measure SelfLinkDist beside its rivals; the protocol is in `protocol.py`.

A task is a graph, a number of labels, a group of methods and some of the seeds. Tasks run in two
pools of processes: networks on the device, a few at a time, and the others with one core each, the
longest first. A task writes a file when it has finished; the same command continues where a run has
stopped.
Usage: python benchmarks/rivals/run.py --out FOLDER [--sets ...] [--labels ...] [--groups ...]
       [--seeds 1300-1309] [--minutes ...] [--list]; then python benchmarks/rivals/report.py FOLDER
"""

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rivals.estimates import seconds_of
from rivals.protocol import LABELS, SETS, label_counts
from rivals.records import Task, tasks_in, write_records

GROUPS = {
    "device": ("selflinkdist", "colinkdist", "networks"),
    "cores": ("linear", "trees", "averages", "spreading", "propagation"),
}
DEVICE_WORKERS = 6
TOGETHER = {"selflinkdist": 10, "colinkdist": 10}
"""Seeds of a task: ours trains ten at once, of the others five keep tasks short."""


def tasks_of(sets, labels, groups, seeds):
    """All tasks of a plan, the longest first."""
    found = [
        Task(name, count, group, some)
        for name in sets
        for count in label_counts(name)
        if count in labels
        for group in groups
        if name != "counties" or group != "colinkdist"
        for some in _in_parts(tuple(seeds), TOGETHER.get(group, 5))
    ]
    return sorted(found, key=seconds_of, reverse=True)


def _in_parts(seeds, size):
    return [seeds[start : start + size] for start in range(0, len(seeds), size)]


def compute(task, folder, device, named):
    """Measure one task, and write its records."""
    started = time.perf_counter()
    # Imported here because the process that gives out tasks needs none of it.
    import torch
    from measure import machine
    from threadpoolctl import threadpool_limits

    from rivals import methods
    from rivals.protocol import Problem, draw, load_set, measure_of

    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    graph = load_set(task.name)
    problems = [Problem(graph, draw(graph, task.labels, seed), seed) for seed in task.seeds]
    with threadpool_limits(1):
        records = methods.GROUPS[task.group](problems, torch.device(device))
    about = {"measure": measure_of(graph), "commit": named,
             "machine": machine(), "device": device,
             "nodes": [len(part) for part in _parts(problems[0].split)]}  # fmt: skip
    write_records(task, folder, about, records)
    if device == "cuda":
        torch.cuda.empty_cache()
    return round(time.perf_counter() - started, 1)


def _parts(split):
    return split.train, split.validation, split.test


class Pool:
    """Processes that take the tasks of some groups, one after the other."""

    def __init__(self, tasks, workers, device):
        self.tasks, self.workers, self.device = tasks, workers, device
        spawn = multiprocessing.get_context("spawn")
        self.executor = ProcessPoolExecutor(workers, spawn)
        self.running = {}

    def start(self, folder, named):
        """Start tasks until every process has one."""
        while self.tasks and len(self.running) < self.workers:
            task = self.tasks.pop(0)
            future = self.executor.submit(compute, task, folder, self.device, named)
            self.running[future] = task


def run(tasks, asked, named):
    """Measure tasks until they are done or the time is over; the list of failures."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes that start from here on
    pools = [
        Pool([t for t in tasks if t.group in GROUPS["device"]], asked.device_workers, asked.device),
        Pool([t for t in tasks if t.group in GROUPS["cores"]], asked.workers, "cpu"),
    ]
    started, done, failed = time.perf_counter(), 0, []
    end = started + 60 * asked.minutes
    while True:
        if time.perf_counter() < end:
            for pool in pools:
                pool.start(asked.out, named)
        futures = [future for pool in pools for future in pool.running]
        if not futures:
            break
        finished, _ = wait(futures, return_when=FIRST_COMPLETED)
        for future in finished:
            done += 1
            pool = next(pool for pool in pools if future in pool.running)
            task = pool.running.pop(future)
            note = _outcome(future, task, failed)
            spent = time.perf_counter() - started
            print(f"{done} of {len(tasks)}, {spent:.0f} s, {_left(pools):.0f} s left: {note}",
                  flush=True)  # fmt: skip
    for pool in pools:
        pool.executor.shutdown()
    return failed


def _outcome(future, task, failed):
    words = f"{task.name}, {task.labels} labels, {task.group}"
    if error := future.exception():
        failed.append(f"{words}: {type(error).__name__}: {error}")
        return failed[-1]
    return f"{words}: {future.result()} s, estimated {seconds_of(task):.0f}"


def _left(pools):
    """The estimated seconds until the slower pool has finished."""
    return max(
        sum(map(seconds_of, [*pool.tasks, *pool.running.values()])) / pool.workers for pool in pools
    )


def parse(words=None):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    every = [group for groups in GROUPS.values() for group in groups]
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--labels", default=",".join(LABELS))
    parser.add_argument("--groups", default=",".join(every))
    parser.add_argument("--seeds", default="1300-1309")
    parser.add_argument("--minutes", type=float, default=float("inf"),
                        help="Start no task after so many minutes.")  # fmt: skip
    parser.add_argument("--device", default=None, help="'cuda' or 'cpu'.")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--workers", type=int, default=max(1, cores - DEVICE_WORKERS))
    parser.add_argument(
        "--device-workers", type=int, default=max(1, min(DEVICE_WORKERS, cores - 1))
    )
    parser.add_argument("--list", action="store_true", help="Print the tasks and measure nothing.")
    asked = parser.parse_args(words)
    first, _, last = asked.seeds.partition("-")
    asked.seeds = range(int(first), int(last or first) + 1)
    return asked


def main():
    asked = parse()
    names = (text.split(",") for text in (asked.sets, asked.labels, asked.groups))
    plan = tasks_of(*names, asked.seeds)
    there = tasks_in(asked.out)
    missing = [task for task in plan if task not in there]
    print(f"{len(plan) - len(missing)} of {len(plan)} tasks are there", flush=True)
    if asked.list:
        for task in missing:
            print(f"{seconds_of(task):7.1f} s  {task.name}, {task.labels} labels, {task.group}")
        for kind, groups in GROUPS.items():
            total = sum(seconds_of(task) for task in missing if task.group in groups)
            print(f"{total:7.0f} s in all: {kind}")
        return
    import torch
    from measure import commit

    asked.device = asked.device or ("cuda" if torch.cuda.is_available() else "cpu")
    asked.out.mkdir(parents=True, exist_ok=True)
    if failed := run(missing, asked, commit()):
        sys.exit("\n".join([*failed, f"{len(failed)} failed; the same command tries them again."]))


if __name__ == "__main__":
    main()
