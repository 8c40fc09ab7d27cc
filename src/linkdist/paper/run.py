"""Every asked cell of the paper's tables, kill-proof.

A training's records go to a file of their own under `DIR/cells/` the moment it ends, and
`DIR/results.json` is put together from those files. Both are written aside and renamed, so the
command can be killed at any moment; started again, it finds the cells that are done and goes on
with the others. Done is a cell whose records can be read and are of the asked seeds and of this
version of the program.
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
from collections.abc import Collection, Sequence
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
    """Train every asked cell that is not done yet.

    Parameters
    ----------
    plan : Plan
        What is asked for.
    callback : Callback, optional
        Receives progress and messages.

    Returns
    -------
    list of dict
        All records in `plan.out`, those of earlier calls too.
    """
    callback = callback or Callback()
    plan.check()
    started = time.perf_counter()
    graphs, not_run = _load_all(plan, callback)
    _make_folder(plan.out)
    cells = _cells(plan, graphs)
    todo = [cell for cell in cells if not cell.is_done()]
    there = {*graphs, *(record["dataset"] for record in _read_all(plan.out, todo))}
    about = _about(plan, _left_out(plan.out, not_run, there))
    callback.start(len(cells), len(cells) - len(todo))
    device = find_device(plan.device)
    for name, of_graph in itertools.groupby(todo, key=lambda cell: cell.dataset):
        inputs = make_inputs(graphs[name].features, device)
        for cell in of_graph:
            callback.stage(cell.name)
            new = cell.train(graphs[name], inputs, callback.progress)
            # Before the records: a kill between the two must not leave these undescribed.
            _write_run(plan.out, about, started)
            cell.keep(new)
            _write_results(plan.out, todo)
            callback.finished(new)
    return _write_results(plan.out, todo)


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
        ours = [r for r in self._kept() if r.get("version") == linkdist.__version__]
        return set(self.methods) <= {record["method"] for record in ours}

    def train(self, graph: Graph, inputs: Inputs, progress: Progress) -> list[Entry]:
        """Train, and give the records of the asked methods."""
        plan = self.plan
        task = make_task(graph, self.setting, plan.seeds, inputs, plan.data, progress)
        version = {"version": linkdist.__version__}
        return [r | version for r in run_task(self.training, self.methods, task)]

    def keep(self, records: list[Entry]) -> None:
        """Write the records, beside those of the training's other method."""
        others = [r for r in self._kept() if r["method"] not in self.methods]
        _write_json(self.path, others + records)

    def _kept(self) -> list[Entry]:
        """The records of the asked seeds; a broken file has none, and is written anew."""
        try:
            records = _read_cell(self.path)
        except DataError:
            return []
        return [r for r in records if r.get("seeds") == self.plan.seeds]


def _cells(plan: Plan, graphs: Collection[str]) -> list[Cell]:
    return [
        Cell(plan, name, setting, training)
        for name in graphs
        for setting in dict.fromkeys(plan.settings)
        for training, methods in TRAININGS.items()
        if set(methods) & set(plan.methods)
    ]


def _load_all(plan: Plan, callback: Callback) -> tuple[dict[str, Graph], dict[str, str]]:
    """The graphs; where none was named, those that cannot be had are left out with a reason."""
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
        advice = "Name the folder that holds their raw files with --data."
        raise DataError(f"none of the paper's data sets can be had. {advice}")
    return graphs, not_run


def _make_folder(out: Path) -> None:
    cells = out / "cells"
    try:
        cells.mkdir(parents=True, exist_ok=True)
        sweep(out)
        sweep(cells)
    except OSError as error:
        raise OptionError(
            f"--out must be a folder that can be written; {out} cannot ({error.strerror})."
        ) from error


def _read_cell(path: Path) -> list[Entry]:
    """A cell's records as they were written; a DataError says all that is wrong with them."""
    read_records(path)
    records: list[Entry] = json.loads(path.read_text("utf-8"))
    return records


def _read_all(out: Path, todo: Collection[Cell]) -> list[Entry]:
    """What all files hold, in the paper's order; only one yet to be written may be broken."""
    records: list[Entry] = []
    for path in (out / "cells").glob("*.json"):
        try:
            records += _read_cell(path)
        except DataError as error:
            if path not in {cell.path for cell in todo}:
                raise DataError(f"{error} Ask for that cell too, or remove the file.") from error
    order = {name: i for i, name in enumerate((*DATASETS, *SETTINGS, *METHODS))}
    keys = ("setting", "dataset", "method")
    records.sort(key=lambda r: [order.get(r[key], len(order)) for key in keys])
    return records


def _write_results(out: Path, todo: Collection[Cell]) -> list[Entry]:
    records = _read_all(out, todo)
    _write_json(out / "results.json", records)
    return records


def _write_run(out: Path, about: dict[str, Any], started: float) -> None:
    seconds = round(time.perf_counter() - started, 1)
    _write_json(out / "run.json", {**about, "seconds_total": seconds})


def _write_json(path: Path, value: object) -> None:
    replace_text(path, json.dumps(value, indent=1) + "\n")


def _left_out(out: Path, not_run: dict[str, str], there: Collection[str]) -> dict[str, str]:
    """Why data sets are missing, by this call and earlier ones; not of those that are there."""
    reasons = {**read_run(out / "run.json").not_run, **not_run}
    return {name: reason for name, reason in reasons.items() if name not in there}


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
    source = Path(__file__)
    git = ["git", "-C", str(source.parent)]
    # A repository may lie around an installed package too; its commit says nothing of this code.
    is_ours = [*git, "ls-files", "--error-unmatch", source.name]
    try:
        subprocess.run(is_ours, capture_output=True, check=True)
        asked = [*git, "describe", "--always", "--dirty"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
