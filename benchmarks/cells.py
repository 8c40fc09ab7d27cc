"""Benchmarks that are made of many cells: computed by several processes, kept, and resumed.

A script names its cells, computes one at a time and turns all of them into a table:

    run("regression", jobs, compute, table)

A job is a dictionary of words and numbers, with the keys 'seed' and 'method'. Jobs of the methods
in `OURS` run on the device, a few at a time, beside those of the rivals, each of which has one
core. Each result is written to the file at once: a run that was killed continues where it stopped.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from measure import about, commit, write

OURS = ("SelfLinkDist", "GCN")
"""Methods that train a network on the device."""


@dataclass(frozen=True)
class Setting:
    """How cells are computed.

    Attributes
    ----------
    device : {'auto', 'cpu', 'cuda'}
        Where networks are trained.
    epochs : int, optional
        Number of epochs, for short trials.
    before : Path, optional
        Another source tree, to compare with.
    """

    device: str
    epochs: int | None
    before: Path | None = None


def run(name, jobs, compute, table, doc=None, alone=False):
    """Parse the command line; compute the cells that are missing, or write the table.

    `jobs(seeds)` lists the jobs, `compute(job, setting)` gives the scores of one as a dictionary
    and `table(cells)` gives rows and lines for below them. With `alone`, one job runs at a time.
    """
    asked = _parse(doc)
    asked.alone = alone
    kept = json.loads(asked.out.read_text()) if asked.out.exists() else {"cells": []}
    if asked.table:
        rows, notes = table(kept["cells"])
        if any("epochs" in cell for cell in kept["cells"]):
            notes = ["", "**Some cells are short trials; these numbers say nothing.**", *notes]
        measured = {**kept["about"], "commit": ", ".join(_commits(kept["cells"]))}
        return write(name, measured["command"], rows, measured, notes, cells=kept["cells"])
    found = {_key(cell, cell["job"]) for cell in kept["cells"]}
    trial = {} if asked.epochs is None else {"epochs": asked.epochs}
    every = [
        job | trial
        for job in jobs(_seeds(asked.seeds))
        if asked.only in job["method"] and asked.sets in job.get("set", "")
    ]
    missing = [job for job in every if _key(job, job) not in found]
    print(f"{len(every) - len(missing)} cells are there, {len(missing)} are missing", flush=True)
    if missing:
        kept["about"] = about(_command(name, kept))
    return _compute_all(missing, compute, asked, kept)


def _command(name, kept):
    """All commands that cells were computed by, without the paths of this machine."""
    words, given = iter(sys.argv[1:]), []
    for word in words:
        if word in ("--out", "--before"):
            next(words)
        else:
            given.append(f"'{word}'" if " " in word else word)
    earlier = kept["about"]["command"].split("; ") if "about" in kept else []
    return "; ".join(
        dict.fromkeys([*earlier, " ".join(["python", f"benchmarks/{name}.py", *given])])
    )


def _parse(doc):
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--seeds", default="1000-1009")
    parser.add_argument("--out", type=Path, required=True, help="The JSON file of the cells.")
    parser.add_argument("--table", action="store_true", help="Write the table from the file.")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", default="", help="Methods whose name contains this.")
    parser.add_argument("--sets", default="", help="Sets whose name contains this.")
    parser.add_argument("--epochs", type=int, help="For short trials; the default is what counts.")
    parser.add_argument("--before", type=Path, help="Another source tree, to compare with.")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--workers", type=int, default=cores, help="Processes of the rivals.")
    parser.add_argument("--side-by-side", type=int, default=max(1, min(4, cores // 4)),
                        help="Trainings on the device at the same time.")  # fmt: skip
    return parser.parse_args()


def _seeds(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _key(cell, keys):
    return tuple((key, cell[key]) for key in sorted(keys))


def _commits(cells):
    return sorted({cell["commit"] for cell in cells})


def _compute_all(jobs, compute, asked, kept):
    """Compute cells in two pools, and write each when it is there."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes that start from here on
    setting, named = Setting(asked.device, asked.epochs, asked.before), commit()
    side_by_side = 1 if asked.alone else asked.side_by_side
    ours = [job for job in jobs if asked.alone or job["method"] in OURS]
    rivals = [job for job in jobs if job not in ours]
    spawn = multiprocessing.get_context("spawn")
    started, failed = time.perf_counter(), []
    with (
        ProcessPoolExecutor(side_by_side, spawn) as device,
        ProcessPoolExecutor(asked.workers, spawn) as cores,
    ):
        waiting = {device.submit(_timed, compute, job, setting): job for job in ours}
        waiting |= {cores.submit(_timed, compute, job, setting): job for job in rivals}
        for done, future in enumerate(as_completed(waiting), start=1):
            job = waiting[future]
            try:
                scores, seconds = future.result()
            except Exception as error:
                failed.append(f"{job}: {type(error).__name__}: {error}")
                print(failed[-1], file=sys.stderr, flush=True)
                continue
            cell = {**job, "job": sorted(job), **scores, "seconds": seconds, "commit": named}
            kept["cells"].append(cell)
            _write(asked.out, kept)
            left = (time.perf_counter() - started) / done * (len(waiting) - done)
            words = ", ".join(f"{value}" for value in job.values())
            shown = ", ".join(f"{key} {value}" for key, value in scores.items())
            print(f"{done} of {len(waiting)}, {left:.0f} s left: {words}: {shown}", flush=True)
    if failed:
        sys.exit(f"{len(failed)} cells failed; the same command computes them again.")


def _timed(compute, job, setting):
    from threadpoolctl import threadpool_limits

    started = time.perf_counter()
    with threadpool_limits(1):
        scores = compute(job, setting)
    rounded = {key: round(value, 5) if isinstance(value, float) else value
               for key, value in scores.items()}  # fmt: skip
    return rounded, round(time.perf_counter() - started, 2)


def _write(path, kept):
    new = path.with_suffix(".new")
    new.write_text(json.dumps(kept, indent=1) + "\n")
    new.replace(path)


def scores_of(cells, score, **chosen):
    """A score by seed, of the cells with the chosen settings."""
    rows = [cell for cell in cells if all(cell.get(key) == chosen[key] for key in chosen)]
    return {cell["seed"]: cell[score] for cell in rows if score in cell}


def spread(scores, digits=2, median=False):
    """Mean ± standard deviation of scores by seed, and perhaps their median."""
    values = list(scores.values())
    if not values:
        return "–"
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    text = f"{statistics.fmean(values):.{digits}f} ± {deviation:.{digits}f}"
    return f"{text} ({statistics.median(values):.{digits}f})" if median else text


def ahead(ours, theirs):
    """The mean lead, and in how many of the seeds that both have the first is ahead."""
    leads = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    return statistics.fmean(leads), sum(lead > 0 for lead in leads), len(leads)


def best_of(rivals):
    """The name of the rival with the highest mean score, of a dictionary of scores by seed."""
    there = {name: scores for name, scores in rivals.items() if scores}
    return max(there, key=lambda name: statistics.fmean(there[name].values())) if there else None
