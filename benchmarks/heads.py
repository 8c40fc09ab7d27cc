"""What relations cost: time of a step and peak memory by their number, and beside an older commit.

- growth: K = 1, 4 and 16 relations with the same number of links in all;
- before: K = 1 here and in the source tree of `--before`, and this tree twice, which shows how far
  two measurements of the same code differ.

Each variant is a process of `steps.py`; they take steps in turn, so that a busy moment hits all
alike. Medians. `git archive af58256 src | tar -x -C DIR` makes a tree for `--before DIR/src`.
Usage: python benchmarks/heads.py --out FILE.json [--before DIR] [--table]
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

from cells import run

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
RELATIONS = (1, 4, 16)
METHODS = ("linkdist", "colinkdist", "selflinkdist")
FEATURES = ("dense", "sparse")
WARM_UP, TURNS, STEPS = 10, {"cpu": 30, "cuda": 100}, {"cpu": 5, "cuda": 50}


def jobs(_):
    """The jobs; they have no seed."""
    return [
        {"part": part, "features": kind, "method": method, "seed": 0}
        for part in ("growth", "before")
        for kind in FEATURES
        for method in METHODS
    ]


def compute(job, setting):
    """Medians of the variants of a job."""
    import torch

    device = setting.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    arguments = (job["method"], job["features"], device)
    if job["part"] == "growth":
        return in_turn({f"K = {K}": (SOURCE, K) for K in RELATIONS}, *arguments, setting.epochs)
    trees = {"here": (SOURCE, 1), "here again": (SOURCE, 1)}
    if setting.before:
        trees["before"] = (setting.before, 1)
    return in_turn(trees, *arguments, setting.epochs)


def in_turn(variants, method, kind, device, turns=None):
    """Milliseconds of a step, peak memory in MiB and number of weights of each variant."""
    running = {name: _start(*variant, method, kind, device) for name, variant in variants.items()}
    times = {name: [] for name in variants}
    found = {}
    try:
        for name, process in running.items():
            file, weights = process.stdout.readline().split()
            source = variants[name][0].resolve()
            if not Path(file).resolve().is_relative_to(source):
                raise RuntimeError(f"{name} must import from {source}; found {file}")
            found[f"{name}, weights"] = int(weights)
            _take(process, WARM_UP)
        for _ in range(turns or TURNS[device]):
            for name, process in running.items():
                seconds, peak = _take(process, STEPS[device])
                times[name].append(1000 * seconds / STEPS[device])
                found[f"{name}, MiB"] = peak
    finally:
        for process in running.values():
            process.stdin.close()
            process.wait()
    return found | {f"{name}, ms": statistics.median(times[name]) for name in times}


def _start(source, K, method, kind, device):
    """Start a process of steps that imports from a source tree."""
    command = [sys.executable, str(HERE / "steps.py"), method, str(K), kind, device]
    there = {**os.environ, "PYTHONPATH": str(source)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, env=there, text=True, **pipes)


def _take(process, steps):
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    seconds, peak = map(float, process.stdout.readline().split())
    return seconds, peak


def table(cells):
    """A row for each job and variant, with ratios to K = 1 or to the older commit."""
    rows = []
    for cell in cells:
        names = [key.removesuffix(", ms") for key in cell if key.endswith(", ms")]
        first = "before" if "before" in names else names[0]
        for name in names:
            ratios = {
                word: cell[f"{name}, {unit}"] / cell[f"{first}, {unit}"]
                for word, unit in (("time", "ms"), ("memory", "MiB"), ("weights", "weights"))
            }
            rows.append({
                "method": cell["method"], "features": cell["features"], "variant": name,
                "ms a step": f"{cell[f'{name}, ms']:.3f}",
                "peak memory, MiB": f"{cell[f'{name}, MiB']:.0f}",
                "weights": cell[f"{name}, weights"],
                **{f"{word}, ratio to K = 1 or before": f"{ratio:.3f}"
                   for word, ratio in ratios.items()},
            })  # fmt: skip
    about = (
        "20,000 nodes, 200,000 links in all, batches of 1,024, one replica. Memory is that of all "
        "tensors on a GPU, and that of the process on a CPU."
    )
    return rows, ["", about]


if __name__ == "__main__":
    run("heads", jobs, compute, table, __doc__, alone=True)
