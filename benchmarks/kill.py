"""What a kill leaves: train, update and predict end by SIGKILL at random moments.

Each time a good model directory, or a good file of predictions, is there already and is about to
be replaced. Afterwards it must be the old one or the new one, to the byte. A killed training then
goes on with --resume and must end with the weights of one that was never killed.

This process has imported LinkDist and runs nothing of it, so that what it forks is as good as a
new process without the seconds that imports take. Usage: python benchmarks/kill.py [KILLS]
"""

import csv
import gc
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import torch
from measure import write

from linkdist import pipeline
from linkdist.artifacts.model_dir import load_model
from linkdist.cli import main as cli
from linkdist.kernels import numba_ops
from linkdist.kernels._openmp import compiled
from linkdist.training.checkpoint import TrainingRun

import_module("torch._dynamo")  # else every child would
LOOPS = [loop.function for loop in vars(numba_ops).values() if isinstance(loop, compiled)]
"""The compiled loops: else every child would load them."""
gc.freeze()  # else every child would copy what it collects

FORK = multiprocessing.get_context("fork")
PAPERS = Path(__file__).parents[1] / "examples" / "papers"
NODES, ROWS, EPOCHS = 240, 20_000, 2
ANY, WRITING = "at any moment", "while it writes"
KEPT = ("weights.safetensors", "replay.safetensors")
"""What is the same in every training of the same data: the header has its seconds."""
LATER = {"report.html", "model.onnx", "curve.svg"}
"""What is written after the model: a kill in between leaves a model without it."""


def in_child(target, *args, limit=None, begun=lambda: True):
    """Call in a forked process, which is killed some seconds after it has begun something.

    Gives its exit code and the seconds that it had from then on.
    """
    process = FORK.Process(target=_quietly, args=(target, args))
    process.start()
    while process.is_alive() and not begun():
        time.sleep(0.0002)
    started = time.perf_counter()
    process.join(limit)
    seconds = time.perf_counter() - started
    process.kill()
    process.join()
    return process.exitcode, seconds


def _quietly(target, args):
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        for number in (1, 2):
            os.dup2(nowhere.fileno(), number)
    torch.set_num_threads(1)  # threads that wait for each other make no even pace
    target(*args)


def command(*args):
    """The command line, for `in_child`."""
    sys.argv = ["linkdist", *map(str, args)]
    cli.main()


def run(*args):
    """A command that is not killed."""
    code, _ = in_child(command, *args)
    if code != 0:
        raise SystemExit(f"linkdist {' '.join(map(str, args))}: exit code {code}")


@dataclass
class Case:
    """A command and what it replaces: a directory or a file."""

    name: str
    args: list
    target: Path
    resumes: bool = False

    def __post_init__(self):
        """Run it once: what it replaces is old, what it leaves is new, and how long it takes."""
        self.old = self.content()
        writes = []

        def watch():
            if self.aside():
                writes.append(time.perf_counter())

        started = time.perf_counter()
        in_child(command, *self.args, begun=watch)
        ended = time.perf_counter()
        self.seconds = {ANY: ended - started, WRITING: writes[-1] - writes[0]}
        self.new = self.content()

    def content(self):
        """The files of the target."""
        paths = self.target.iterdir() if self.target.is_dir() else [self.target]
        return {path.name: path.read_bytes() for path in paths}

    def reset(self):
        """Put the old one back."""
        if self.target.is_dir():
            shutil.rmtree(self.target)
            self.target.mkdir()
        for name, data in self.old.items():
            inside = self.target / name if self.target.is_dir() else self.target
            inside.write_bytes(data)

    def found(self):
        """Whether the target is old, new or neither."""
        if self.target.is_dir() and in_child(load_model, self.target)[0] != 0:
            return "broken"
        there = self.content()
        if there == self.old:
            return "old"
        kept = [name for name in self.new if name in KEPT or not self.target.is_dir()]
        whole = there.keys() - LATER == self.new.keys() - LATER
        same = whole and all(there[name] == self.new[name] for name in kept)
        return "new" if same else "broken"

    def aside(self, known=frozenset()):
        """Which half-written files lie beside the target, but for those known."""
        name = re.compile(re.escape(f".{self.target.name}.") + r"[0-9a-f]{32}(\.old)?")
        there = {path.name for path in self.target.parent.iterdir() if name.fullmatch(path.name)}
        return there - known

    def left(self):
        """What is there of the target under hidden names, checkpoints included."""
        hidden = [path.name for path in self.target.parent.glob(".*")]
        return [name for name in hidden if name.lstrip(".").startswith(f"{self.target.name}.")]


def kill(case, times, moments, when):
    """Kill a command at random moments, of all its time or while it writes; count what is found."""
    counts = Counter()
    for _ in range(times):
        case.reset()
        before = case.aside()
        limit = moments.uniform(0, 1.1 * case.seconds[when])
        begun = partial(case.aside, before) if when == WRITING else (lambda: True)
        code, _ = in_child(command, *case.args, limit=limit, begun=begun)
        counts["in time"] += code == -signal.SIGKILL
        counts["failed"] += code not in (0, -signal.SIGKILL)
        counts["writing"] += bool(case.aside(before))
        counts[case.found()] += 1
        if case.resumes and when == ANY:
            case.reset()
            run(*case.args, "--resume")
            counts["resumed"] += case.found() == "new"
    case.reset()
    run(*case.args)
    return {
        "command": case.name,
        "killed": when,
        "seconds of that": round(case.seconds[when], 3),
        "times": times,
        "before its end": counts["in time"],
        "half-written file aside": counts["writing"],
        "old found": counts["old"],
        "new found": counts["new"],
        "neither": counts["broken"] + counts["failed"],
        "same weights by --resume": counts["resumed"] if case.resumes and when == ANY else "",
        "works afterwards": "yes" if case.found() == "new" else "no",
        "left then": len(case.left()),
    }


def tables(folder):
    """Small tables: some papers with their links, and a long one to predict."""
    rows = {}
    for name in ("nodes", "links"):
        with (PAPERS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            rows[name] = list(csv.DictReader(file))
    rows["nodes"] = rows["nodes"][:NODES]
    known = {row["paper"] for row in rows["nodes"]}
    rows["links"] = [link for link in rows["links"] if known.issuperset(link.values())]
    rows["many"] = [rows["nodes"][i % NODES] for i in range(ROWS)]
    for name, lines in rows.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)


def training(folder, seed, epochs=EPOCHS):
    """Arguments of a short training."""
    about = ["--nodes", folder / "nodes.csv", "--edges", folder / "links.csv", "--id", "paper"]
    quick = ["--held-out", 0, "--epochs", epochs]  # folds take longer and write nothing else
    return ["train", *about, "--label", "field", *quick, "--seed", seed]


def rows(times, seed=0):
    """The table: a row a command."""
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables(folder)
        model, other, out = folder / "model", folder / "other", folder / "predictions.parquet"
        run(*training(folder, 0), "--out", model)
        run(*training(folder, 1), "--out", other)
        run("predict", other, folder / "many.csv", "--out", out)
        used = shutil.copytree(model, folder / "used")
        predict = ["predict", used, folder / "many.csv", "--out", out]
        links = ["--nodes", folder / "nodes.csv", "--edges", folder / "links.csv"]
        update = ["update", model, *links, "--out", model, "--epochs", 2]
        train = [*training(folder, 2), "--out", other, "--force"]
        cases = [
            Case("predict", predict, out),
            Case("update", update, model),
            Case("train", train, other, resumes=True),
        ]
        return [kill(case, times, moments, when) for case in cases for when in (ANY, WRITING)]


def suicidal(log, epoch):
    """Note each epoch, and end the process at one of them."""
    real = TrainingRun.after

    def after(run, done, total, tensors):
        real(run, done, total, tensors)
        with log.open("a") as file:
            file.write(f"{done}\n")
        if done == epoch:
            os.kill(os.getpid(), signal.SIGKILL)

    TrainingRun.after = after


def resumed(epochs, total):
    """Kill a training after some epochs, each time resumed: exit codes, epochs done, the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables(folder)
        run(*training(folder, 0, total), "--out", folder / "undisturbed")
        log, out = folder / "log", folder / "model"
        data = pipeline.Tables(folder / "nodes.csv", folder / "links.csv", "paper", "field")
        options = pipeline.Options(epochs=total, held_out=0)

        def train(epoch, resume):
            suicidal(log, epoch)
            pipeline.train(data, out, options, resume=resume)

        codes = [in_child(train, epoch, i > 0)[0] for i, epoch in enumerate([*epochs, None])]
        files = [(folder / model / KEPT[0]).read_bytes() for model in ("undisturbed", "model")]
        return {
            "codes": codes,
            "epochs": [int(line) for line in log.read_text().split()],
            "same": files[0] == files[1],
            "beside": sorted(path.name for path in folder.iterdir() if path.name.startswith(".")),
        }


if __name__ == "__main__":
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    write("kill", " ".join(["python benchmarks/kill.py", *sys.argv[1:]]), rows(times))
