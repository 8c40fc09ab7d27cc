"""Training on a quiet and on a busy machine, with several settings of OpenMP's waiting threads.

A training of digits on two cores is timed in processes of its own, in turn for each setting, first
alone and then beside two processes that never stop computing on the same cores.
Usage: python benchmarks/busy.py [--repeats 3] [--settings library;spinning]
"""

import argparse
import os
import statistics
import subprocess
import sys

from measure import write

CORES = 2
SETTINGS = {
    "library": {},  # what linkdist sets itself: they sleep
    "spinning": {"LINKDIST_LATE": "yes"},  # PyTorch is imported first, so linkdist sets nothing
    "spinning 1,000 times": {"GOMP_SPINCOUNT": "1000"},
    "spinning 10,000 times": {"GOMP_SPINCOUNT": "10000"},
}
TRAINING = """
import os, sys, time
if os.environ.get("LINKDIST_LATE"):
    import torch
import numpy as np
import linkdist
from linkdist import Split, fit, load_dataset
graph = load_dataset("digits")
order = np.random.default_rng(0).permutation(graph.n)
none = np.array([], dtype=np.int64)
split = Split(np.sort(order[:170]), none, none)
def run(epochs):
    fit(graph, split, method=sys.argv[1], seeds=[0], epochs=epochs, device="cpu")
run(1)
started = time.perf_counter()
run(int(sys.argv[2]))
print(time.perf_counter() - started)
"""
WORK = {"colinkdist": "8"}


def pinned():
    """Limit a process to the first cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def seconds(setting, method):
    """The time of one training in a process of its own."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OMP", "GOMP"))}
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, method, WORK[method]],
        env={**clean, **SETTINGS[setting], "OMP_NUM_THREADS": str(CORES)},
        capture_output=True, text=True, check=True, preexec_fn=pinned,
    )  # fmt: skip
    return float(done.stdout)


def main():
    """Measure, and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--settings", default=";".join(SETTINGS))
    options = parser.parse_args()
    names = options.settings.split(";")
    times = {}
    for state in ("quiet", "busy"):
        others = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=pinned)
            for _ in range(CORES if state == "busy" else 0)
        ]
        for _ in range(options.repeats):
            for name in names:
                for method in WORK:
                    times.setdefault((method, name, state), []).append(seconds(name, method))
        for process in others:
            process.kill()
    rows = []
    for method in WORK:
        for name in names:
            quiet, busy = (statistics.median(times[method, name, s]) for s in ("quiet", "busy"))
            row = {"method": method, "threads that wait": name, "quiet": f"{quiet:.1f} s"}
            rows.append({**row, "busy": f"{busy:.1f} s", "slower by": f"{busy / quiet:.1f}"})
    write("busy", " ".join(["python benchmarks/busy.py", *sys.argv[1:]]), rows)


if __name__ == "__main__":
    main()
