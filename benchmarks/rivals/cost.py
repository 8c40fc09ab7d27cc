"""What SelfLinkDist and its rivals cost: training, predictions, memory, and what is deployed.

Each method runs in a process of its own (`deployed.py`) on two cores, three times; the medians are
kept. No process is started for a method after a minute. A run that was stopped continues
where it was.
Usage: python benchmarks/rivals/cost.py [--out results/rivals] [--sets pubmed,tolokers]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rivals.names import CLASSES, TITLES

RUNS, LONG, CORES = 3, 60, 2
COLUMNS = {
    "training_s": "training, s",
    "one_row_ms": "one row, ms",
    "million_rows_s": "a million rows, s",
    "memory_mb": "peak memory, MB",
    "model_mb": "model, MB",
    "data_mb": "data at hand, MB",
}
NOTES = """
Training includes the search of settings, with 10 % of the rows labelled. Networks of rivals were
timed for 20 epochs in one setting, times ten for 200 epochs and times three for all settings.
SelfLinkDist and CoLinkDist have one setting.

'One row' includes what a service would fetch from arrays in memory: for methods with links the
features of two hops, for SelfLinkDist those of one hop, for label propagation and Correct & Smooth
the whole graph, whose labels they spread. 'A million rows' is measured on 50,000 repeated rows, or
on the graph's own nodes with links, and scaled.

Peak memory is that of the whole process in training; the line below each table says how much the
imported packages and the graph take before. 'Data at hand' are the features and links that a
prediction with links needs. All methods are measured in Python, SelfLinkDist and CoLinkDist in
PyTorch.
"""


def measure(name, method):
    """The medians of up to three processes."""
    script = Path(__file__).with_name("deployed.py")
    threads = {"OMP_NUM_THREADS": str(CORES), "OMP_WAIT_POLICY": "passive"}
    runs, started = [], time.perf_counter()
    while len(runs) < RUNS and time.perf_counter() - started < LONG:
        done = subprocess.run(
            [sys.executable, str(script), name, method],
            env={**os.environ, **threads},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    found = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    return {"set": name, "method": method, "runs": len(runs), **found}


def table(kept):
    """The page: a table for each graph, in the order of the classes of information."""
    about = kept["about"]
    lines = [
        "# Cost",
        "",
        f"`python benchmarks/rivals/cost.py` at {about['commit']}, {about['date']}; "
        f"{about['machine']['cpu'].split(',')[0]}, {CORES} cores; PyTorch "
        f"{about['machine']['torch']}.",
        *NOTES.splitlines(),
        "",
    ]
    for name in dict.fromkeys(row["set"] for row in kept["rows"]):
        rows = {row["method"]: row for row in kept["rows"] if row["set"] == name}
        lines += [f"## {name}", "", f"| knows | method | {' | '.join(COLUMNS.values())} |",
                  "|" + " --- |" * (len(COLUMNS) + 2)]  # fmt: skip
        for number, methods in CLASSES.items():
            for method in methods:
                if method in rows:
                    cells = [f"{rows[method][key]:,}" for key in COLUMNS]
                    lines.append(f"| {TITLES[number].lower()} | {method} | {' | '.join(cells)} |")
        before = statistics.median(row["memory_before_mb"] for row in rows.values())
        lines += ["", f"Memory before training: about {before:,.0f} MB.", ""]
    return "\n".join(lines)


def write(out, kept):
    """Write the rows and the page."""
    new = out / "cost.json.new"
    new.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    new.replace(out / "cost.json")
    (out / "cost.md").write_text(table(kept))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    root = Path(__file__).parents[2]
    parser.add_argument("--out", type=Path, default=root / "results" / "rivals")
    parser.add_argument("--sets", default="pubmed,tolokers")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / "cost.json"
    from measure import about

    kept = json.loads(path.read_text()) if path.exists() else {"rows": []}
    kept = {"about": about("python benchmarks/rivals/cost.py"), "rows": kept["rows"]}
    done = {(row["set"], row["method"]) for row in kept["rows"]}
    for name in asked.sets.split(","):
        for method in (method for methods in CLASSES.values() for method in methods):
            if (name, method) not in done:
                kept["rows"].append(measure(name, method))
                write(asked.out, kept)
                print(kept["rows"][-1], flush=True)


if __name__ == "__main__":
    main()
