"""Training on a quiet and on a busy machine, with several settings of OpenMP's waiting threads.

A training of digits on two cores is timed in processes of its own, in turn for each setting, first
alone and then beside two processes that never stop computing on the same cores.
Usage: python benchmarks/busy.py [--repeats 5] [--settings default,library,passive] [--out FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from measure import commit, machine

CORES = 2
SETTINGS = {
    "library": {},  # what linkdist sets itself
    "default": {"LINKDIST_SPIN": "default"},  # what OpenMP does by default
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "spin 1000": {"GOMP_SPINCOUNT": "1000"},
    "spin 10000": {"GOMP_SPINCOUNT": "10000"},
    "spin 100000": {"GOMP_SPINCOUNT": "100000"},
}
TRAINING = """
import os, sys, time
spin = os.environ.pop("LINKDIST_SPIN", None)
if spin:
    import torch  # before linkdist, so that its settings come too late
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
WORK = {"colinkdist": "40", "selflinkdist": "30"}


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
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = options.settings.split(",")
    times = {}
    for state in ("quiet", "busy"):
        spinning = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=pinned)
            for _ in range(CORES if state == "busy" else 0)
        ]
        for _ in range(options.repeats):
            for name in names:
                for method in WORK:
                    times.setdefault((method, name, state), []).append(seconds(name, method))
        for process in spinning:
            process.kill()
    rows = []
    for method in WORK:
        for name in names:
            quiet, busy = (statistics.median(times[method, name, s]) for s in ("quiet", "busy"))
            rows.append({"method": method, "setting": name, "quiet": round(quiet, 2),
                         "busy": round(busy, 2), "times": round(busy / quiet, 2)})  # fmt: skip
            print(f"| {method} | {name} | {quiet:.2f} s | {busy:.2f} s | {busy / quiet:.1f} |")
    if options.out:
        about = {"command": " ".join(sys.argv), "commit": commit(), "machine": machine()}
        options.out.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
