"""Reproduce the tables of the paper; an interrupted run can be continued.

The records of a training are written to their own file under `DIR/cells/` when it ends, and
`DIR/results.json` collects all of them. Both are replaced atomically, so the command can be killed
at any moment; the next run skips the cells that are done. A cell is done if its records are valid,
have the requested seeds and were made by this version of the program.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch

import linkdist
from linkdist._files import replace_text, sweep
from linkdist.data.datasets import DATASETS, PAPER_DATASETS, load_dataset
from linkdist.data.graph import Graph
from linkdist.data.splits import SETTINGS
from linkdist.errors import DataError, OptionError, check_names, check_seeds
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.paper.protocol import Entry, make_task, run_task
from linkdist.paper.published import METHODS, TRAININGS
from linkdist.paper.records import read_records, read_run
from linkdist.progress import Callback, Progress
from linkdist.training.loop import find_device


@dataclass(frozen=True)
class Plan:
    """The cells to reproduce.

    Attributes
    ----------
    out : Path
        The folder for the results.
    datasets : sequence of str or None
        Names of data sets; None means all of the paper's data sets that are available.
    settings, methods : sequence of str
        Names of settings and methods, as in the paper.
    runs, seed : int
        Number of runs for each cell, and the random seed of the first run.
    device : {'auto', 'cpu', 'cuda'}
        The device to train on.
    data : Path or None
        The folder with the raw files.
    """

    out: Path
    datasets: Sequence[str] | None = None
    settings: Sequence[str] = SETTINGS
    methods: Sequence[str] = METHODS
    runs: int = 10
    seed: int = 0
    device: str = "auto"
    data: Path | None = None

    @property
    def seeds(self) -> list[int]:
        """The random seed of each run."""
        return list(range(self.seed, self.seed + self.runs))

    def check(self) -> None:
        """Raise an OptionError if the plan is invalid."""
        for option in ("datasets", "settings", "methods"):
            names = getattr(self, option)
            if names is not None and not names:
                raise OptionError(f"--{option} must name one or more; found none.")
        check_names("data set", self.datasets or (), DATASETS)
        check_names("setting", self.settings, SETTINGS)
        check_names("method", self.methods, METHODS)
        check_seeds(self.seed, self.runs, "--runs")
        find_device(self.device)


def reproduce(plan: Plan, callback: Callback | None = None) -> list[Entry]:
    """Train all cells of a plan that are not done yet.

    Parameters
    ----------
    plan : Plan
        The cells to reproduce.
    callback : Callback, optional
        Receives progress and messages.

    Returns
    -------
    list of dict
        All records in `plan.out`, including those of earlier calls.
    """
    callback = callback or Callback()
    plan.check()
    started = time.perf_counter()
    graphs, not_run = _load_all(plan, callback)
    _make_folder(plan.out)
    cells = _cells(plan, graphs)
    stored, errors = _read_cells(plan.out)
    todo = [cell for cell in cells if not cell.is_done(stored.get(cell.path, []))]
    _check_cells(errors, todo)
    datasets = {*graphs, *(record["dataset"] for part in stored.values() for record in part)}
    not_run = {**read_run(plan.out / "run.json").not_run, **not_run}
    about = _about(plan, {name: why for name, why in not_run.items() if name not in datasets})
    callback.start(len(cells), len(cells) - len(todo))
    device = find_device(plan.device)
    for name, of_graph in itertools.groupby(todo, key=lambda cell: cell.dataset):
        inputs = make_inputs(graphs[name].features, device)
        for cell in of_graph:
            callback.stage(cell.name)
            new = cell.train(graphs[name], inputs, callback.progress)
            # First the description: if the process is killed, no record may be without one.
            seconds = round(time.perf_counter() - started, 1)
            _write_json(plan.out / "run.json", {**about, "seconds_total": seconds})
            stored[cell.path] = cell.merge(stored.get(cell.path, []), new)
            _write_json(cell.path, stored[cell.path])
            _write_results(plan.out, stored)
            callback.finished(new)
    return _write_results(plan.out, stored)


@dataclass(frozen=True)
class Cell:
    """One training of a plan, and the file with its records."""

    plan: Plan
    dataset: str
    setting: str
    training: str

    @property
    def name(self) -> str:
        """The name of the cell, such as 'cora transductive CoLinkDist'."""
        return f"{self.dataset} {self.setting} {self.training}"

    @property
    def path(self) -> Path:
        """The path of the file with the records."""
        return self.plan.out / "cells" / f"{self.name.replace(' ', '.')}.json"

    @property
    def methods(self) -> list[str]:
        """The methods of the plan that come from this training."""
        return [method for method in TRAININGS[self.training] if method in self.plan.methods]

    def is_done(self, stored: Sequence[Entry]) -> bool:
        """Return whether the stored records include all requested methods and seeds."""
        version = linkdist.__version__
        done = {r["method"] for r in self._same_seeds(stored) if r.get("version") == version}
        return done.issuperset(self.methods)

    def train(self, graph: Graph, inputs: Inputs, progress: Progress) -> list[Entry]:
        """Train, and return the records of the requested methods."""
        plan = self.plan
        task = make_task(graph, self.setting, plan.seeds, inputs, plan.data, progress)
        version = {"version": linkdist.__version__}
        return [r | version for r in run_task(self.training, self.methods, task)]

    def merge(self, stored: Sequence[Entry], new: Sequence[Entry]) -> list[Entry]:
        """Return new records and the stored ones of the training's other methods."""
        others = [r for r in self._same_seeds(stored) if r["method"] not in self.methods]
        return [*others, *new]

    def _same_seeds(self, stored: Sequence[Entry]) -> list[Entry]:
        return [r for r in stored if r.get("seeds") == self.plan.seeds]


def _cells(plan: Plan, graphs: Collection[str]) -> list[Cell]:
    return [
        Cell(plan, name, setting, training)
        for name in graphs
        for setting in dict.fromkeys(plan.settings)
        for training, methods in TRAININGS.items()
        if set(methods) & set(plan.methods)
    ]


def _load_all(plan: Plan, callback: Callback) -> tuple[dict[str, Graph], dict[str, str]]:
    """Load the graphs; unavailable ones are skipped with a reason unless they were named."""
    if plan.datasets is not None:
        return {name: load_dataset(name, plan.data) for name in dict.fromkeys(plan.datasets)}, {}
    graphs, not_run = {}, {}
    for name in PAPER_DATASETS:
        try:
            graphs[name] = load_dataset(name, plan.data)
        except DataError as error:
            callback.skipped(name, str(error))
            not_run[name] = "file not available"
    if not graphs:
        advice = "Name the folder with their raw files with --data."
        raise DataError(f"none of the paper's data sets is available. {advice}")
    return graphs, not_run


def _make_folder(out: Path) -> None:
    cells = out / "cells"
    try:
        cells.mkdir(parents=True, exist_ok=True)
        sweep(out)
        sweep(cells)
    except OSError as error:
        found = f"{out} is not ({error.strerror})"
        raise OptionError(f"--out must be a writable folder; {found}.") from error


def _read_cells(out: Path) -> tuple[dict[Path, list[Entry]], dict[Path, DataError]]:
    """Return the records of all cell files, and the errors of invalid files, by path."""
    stored, errors = {}, {}
    for path in (out / "cells").glob("*.json"):
        try:
            stored[path] = _read_cell(path)
        except DataError as error:
            errors[path] = error
    return stored, errors


def _read_cell(path: Path) -> list[Entry]:
    """Return the records of a file as they were written."""
    read_records(path)  # raises an error that lists all problems
    records: list[Entry] = json.loads(path.read_text("utf-8"))
    return records


def _check_cells(errors: Mapping[Path, DataError], todo: Collection[Cell]) -> None:
    """Raise an error for an invalid file that will not be replaced."""
    for path in errors.keys() - {cell.path for cell in todo}:
        advice = "Include that cell in the run, or remove the file."
        raise DataError(f"{errors[path]} {advice}") from errors[path]


def _write_results(out: Path, stored: Mapping[Path, list[Entry]]) -> list[Entry]:
    """Write all records in the paper's order."""
    order = {name: i for i, name in enumerate((*DATASETS, *SETTINGS, *METHODS))}
    keys = ("setting", "dataset", "method")
    records = [record for path in sorted(stored) for record in stored[path]]
    records.sort(key=lambda r: [order.get(r[key], len(order)) for key in keys])
    _write_json(out / "results.json", records)
    return records


def _write_json(path: Path, value: object) -> None:
    replace_text(path, json.dumps(value, indent=1) + "\n")


def _about(plan: Plan, not_run: dict[str, str]) -> dict[str, Any]:
    on_gpu = find_device(plan.device).type == "cuda"
    return {
        "command": shlex.join(["linkdist", *sys.argv[1:]]),
        "commit": _commit(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": f"{os.cpu_count()} cores, {platform.machine()}",
            "accelerator": torch.cuda.get_device_name() if on_gpu else "none used",
            "system": platform.system(),
        },
        "versions": {
            "linkdist": linkdist.__version__,
            "python": platform.python_version(),
            **{library.__name__: library.__version__ for library in (torch, np, scipy)},
        },
        "not_run": not_run,
    }


def _commit() -> str:
    """Return the commit of this code; without git, LINKDIST_COMMIT names it."""
    if named := os.environ.get("LINKDIST_COMMIT"):
        return named
    source = Path(__file__)

    def git(*words: str) -> str:
        command = ["git", "-C", str(source.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # An installed package may be inside an unrelated repository.
        git("ls-files", "--error-unmatch", source.name)
        return git("describe", "--always", "--dirty")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
