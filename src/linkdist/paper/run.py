"""Every asked cell of the paper's tables, kill-proof.

A training's records go to a file of their own under `DIR/cells/` the moment it ends, and
`DIR/results.json` is put together from those files. Both are written aside and renamed, so the
command can be killed at any moment; started again, it finds the cells that are done and goes on
with the others.
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
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch

import linkdist
from linkdist.datasets import DATASETS, PAPER_DATASETS, load
from linkdist.errors import DataError, OptionError, check_names
from linkdist.files import replace_text
from linkdist.fitting import Progress
from linkdist.graph import Graph
from linkdist.inputs import Inputs, make_inputs
from linkdist.paper.protocol import Entry, make_task, run_task
from linkdist.paper.published import METHODS, TRAININGS
from linkdist.splits import SETTINGS
from linkdist.training import find_device


@dataclass(frozen=True)
class Plan:
    """What is asked for.

    Attributes
    ----------
    out : Path
        The folder that gets the results.
    datasets : sequence of str or None
        None is all of the paper's sets whose files can be had.
    settings, methods : sequence of str
        By the paper's names.
    runs, seed : int
        Runs a cell, and the first one's seed.
    device : str
        'auto', 'cpu' or 'cuda'.
    data : Path or None
        Where the raw files are.
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
        """A seed a run."""
        return list(range(self.seed, self.seed + self.runs))

    def check(self) -> None:
        """Refuse what cannot be done, before anything is."""
        check_names("data set", self.datasets or (), DATASETS)
        check_names("setting", self.settings, SETTINGS)
        check_names("method", self.methods, METHODS)
        if self.runs < 1:
            raise OptionError(f"--runs must be 1 or more; found {self.runs}.")
        if self.seed < 0:
            raise OptionError(f"--seed must be 0 or more; found {self.seed}.")
        find_device(self.device)


class Watcher:
    """What a run tells whoever watches; does nothing unless told otherwise."""

    def start(self, cells: int, done: int) -> None:
        """Say how many trainings there are and how many are done already."""

    def cell(self, name: str) -> None:
        """Say that a training begins."""

    def epoch(self, done: int, total: int) -> None:
        """Say how far the training is."""

    def finished(self, records: list[Entry]) -> None:
        """Say that a training ended, with its records."""

    def skipped(self, dataset: str, reason: str) -> None:
        """Say that a data set is left out."""


def reproduce(plan: Plan, watcher: Watcher | None = None) -> list[Entry]:
    """Train every asked cell that is not done yet.

    Parameters
    ----------
    plan : Plan
        What is asked for.
    watcher : Watcher, optional
        Whom to tell.

    Returns
    -------
    list of dict
        All records in `plan.out`, those of earlier calls too.
    """
    watcher = watcher or Watcher()
    plan.check()
    started = time.perf_counter()
    graphs, not_run = _load_all(plan, watcher)
    _make_folder(plan.out / "cells")
    cells = [
        Cell(plan, name, setting, training)
        for name in graphs
        for setting in plan.settings
        for training, methods in TRAININGS.items()
        if set(methods) & set(plan.methods)
    ]
    open_cells = [cell for cell in cells if not cell.is_done()]
    watcher.start(len(cells), len(cells) - len(open_cells))
    about = _about(plan, not_run)
    device = find_device(plan.device)
    for name, of_graph in itertools.groupby(open_cells, key=lambda cell: cell.dataset):
        inputs = make_inputs(graphs[name].features, device)
        for cell in of_graph:
            watcher.cell(cell.name)
            records = cell.run(graphs[name], inputs, watcher.epoch)
            _write_results(plan.out, about, time.perf_counter() - started)
            watcher.finished(records)
    return _write_results(plan.out, about, time.perf_counter() - started)


@dataclass(frozen=True)
class Cell:
    """One training of a plan, and the file that holds its records."""

    plan: Plan
    dataset: str
    setting: str
    training: str

    @property
    def name(self) -> str:
        """Such as 'cora transductive CoLinkDist'."""
        return f"{self.dataset} {self.setting} {self.training}"

    @property
    def path(self) -> Path:
        """Where the records are kept."""
        return self.plan.out / "cells" / f"{self.name.replace(' ', '.')}.json"

    @property
    def methods(self) -> list[str]:
        """The asked methods that come from this training."""
        return [method for method in TRAININGS[self.training] if method in self.plan.methods]

    def is_done(self) -> bool:
        """Whether the records of all asked methods and runs are there."""
        if not self.path.exists():
            return False
        records = json.loads(self.path.read_text())
        there = {r["method"] for r in records if r["seeds"] == self.plan.seeds}
        return set(self.methods) <= there

    def run(self, graph: Graph, inputs: Inputs, progress: Progress) -> list[Entry]:
        """Train, and keep the records."""
        plan = self.plan
        task = make_task(graph, self.setting, plan.seeds, inputs, plan.data, progress)
        records = run_task(self.training, self.methods, task)
        replace_text(self.path, json.dumps(records, indent=1) + "\n")
        return records


def _load_all(plan: Plan, watcher: Watcher) -> tuple[dict[str, Graph], dict[str, str]]:
    """The graphs; where none was named, those that cannot be had are left out with a reason."""
    if plan.datasets is not None:
        return {name: load(name, plan.data) for name in plan.datasets}, {}
    graphs, not_run = {}, {}
    for name in PAPER_DATASETS:
        try:
            graphs[name] = load(name, plan.data)
        except DataError as error:
            watcher.skipped(name, str(error))
            not_run[name] = "file not available"
    return graphs, not_run


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"--out must be a folder that can be written; {path.parent} cannot ({error.strerror})."
        ) from error


def _write_results(out: Path, about: dict[str, Any], seconds: float) -> list[Entry]:
    order = {name: i for i, name in enumerate((*DATASETS, *SETTINGS, *METHODS))}
    records = [r for path in (out / "cells").glob("*.json") for r in json.loads(path.read_text())]
    records.sort(key=lambda r: [order[r[key]] for key in ("setting", "dataset", "method")])
    replace_text(out / "results.json", json.dumps(records, indent=1) + "\n")
    about = {**about, "seconds_total": round(seconds, 1)}
    replace_text(out / "run.json", json.dumps(about, indent=1) + "\n")
    return records


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
            "torch": torch.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "not_run": not_run,
    }


def _commit() -> str:
    """The commit this code is at; LINKDIST_COMMIT names it where there is no git to ask."""
    named = os.environ.get("LINKDIST_COMMIT")
    if named:
        return named
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
