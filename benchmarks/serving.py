"""The service under load from a second process on loopback, both on this machine's cores.

    start   seconds from the command to the first answer, median of five
    rate    the highest rate of single-row requests held for 20 s with a p99 below 20 ms and none
            failed, by bisection; rows a second at 64 rows a request
    swap    minutes of load while a model is put in place every 20 s: failed requests, memory

Two models: papers (a text, a category, a number) and digits (64 numbers).
Usage: python benchmarks/serving.py [start] [rate] [swap] [--minutes 10] [--python PYTHON]
PYTHON is the interpreter of an environment with linkdist-serve; its results are serving-small.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import psutil
from measure import RESULTS, write

from linkdist import load_dataset, pipeline
from linkdist.artifacts.model_dir import Saved, load_model, save_model

HERE = Path(__file__).parent
PAPERS = HERE.parent / "examples" / "papers"
LIMIT = 20.0
"""Milliseconds that the slowest of a hundred requests may take."""


def papers(folder):
    """A model of the example tables, and rows for it."""
    tables = pipeline.Tables(PAPERS / "nodes.csv", PAPERS / "links.csv", "paper", "field")
    pipeline.train(tables, folder / "papers", pipeline.Options(epochs=5, device="cpu"))
    titles = ["photon theory of vacuum", "species and larva", "price of labour", "old empire"]
    return [{"title": titles[k % 4], "venue": "review", "year": 1950 + k % 60} for k in range(64)]


def digits(folder):
    """A model of scikit-learn's digits as a table of 64 numbers, and rows for it."""
    graph = load_dataset("digits")
    x = np.asarray(graph.features, dtype=float)
    names = [f"pixel{k}" for k in range(x.shape[1])]
    labels = [str(y) if k % 5 == 0 else "" for k, y in enumerate(graph.labels)]
    lines = [",".join(["id", "digit", *names])]
    lines += [f"{k},{labels[k]}," + ",".join(f"{v:g}" for v in row) for k, row in enumerate(x)]
    (folder / "nodes.csv").write_text("\n".join(lines))
    links = ["a,b", *(f"{a},{b}" for a, b in graph.links)]
    (folder / "links.csv").write_text("\n".join(links))
    tables = pipeline.Tables(folder / "nodes.csv", folder / "links.csv", "id", "digit")
    pipeline.train(tables, folder / "digits", pipeline.Options(epochs=2, device="cpu"))
    return [dict(zip(names, row.tolist(), strict=True)) for row in x[:64]]


MODELS = {"papers": papers, "digits": digits}


class Service:
    """A running `linkdist serve`."""

    program = (sys.executable, "-m", "linkdist.cli.main")

    def __init__(self, model, workers=1):
        self.started = time.perf_counter()
        asked = [*self.program, "serve", str(model), "--port", "0"]
        self.process = subprocess.Popen(
            [*asked, "--workers", str(workers)], stderr=subprocess.PIPE, text=True
        )
        for line in self.process.stderr:
            if found := re.search(r"at (http\S+)", line):
                self.url = found[1]
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        """Run."""
        return self

    def __exit__(self, *_):
        """End."""
        self.process.terminate()
        self.process.wait()

    def ask(self, body):
        """One request; gives the answer."""
        request = urllib.request.Request(
            f"{self.url}/v1/predict", body, {"Content-Type": "application/json"}
        )
        return json.loads(urllib.request.urlopen(request).read())

    def memory(self):
        """Resident MB of the process and its workers."""
        every = [psutil.Process(self.process.pid)]
        every += every[0].children(recursive=True)
        return sum(one.memory_info().rss for one in every) / 2**20


def loaded(service, body, rate, seconds, connections=64):
    """A run of load in its own process; gives what it says."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(body)
        asked = [f"{service.url}/v1/predict", file.name, rate, seconds, connections]
        done = subprocess.run(
            [sys.executable, HERE / "load.py", *map(str, asked)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    found = json.loads(done.stdout)
    failed = sum(n for status, n in found["statuses"].items() if status != "200")
    print({key: found[key] for key in ("rate", "p50", "p99", "max")}, failed, file=sys.stderr)
    return {**found, "failed": failed}


def body_of(rows):
    """Rows as a request."""
    return json.dumps({"rows": rows}).encode()


def start(folder, rows):
    """Seconds to the first answer."""
    for name, found in rows.items():
        took = []
        for _ in range(5):
            with Service(folder / name) as service:
                service.ask(body_of(found[:1]))
                took.append(time.perf_counter() - service.started)
        values = {"median": round(statistics.median(took), 2), "slowest": round(max(took), 2)}
        yield {"what": "start to first answer, s", "model": name, "workers": 1, **values}


def highest(service, body):
    """The highest rate that is held, to 50 requests a second; measured again at the end."""
    low, high = 0, 6400
    while high - low > 50:
        rate = (low + high) // 2
        found = loaded(service, body, rate, 5)
        good = not found["failed"] and found["p99"] < LIMIT
        low, high = (rate, high) if good else (low, rate)
    while low > 0:
        found = loaded(service, body, low, 20)
        if not found["failed"] and found["p99"] < LIMIT:
            return found
        low -= 50
    raise SystemExit("no rate is held")


def rates(folder, rows):
    """Single rows at a rate, and many rows as fast as they go."""
    for name, found in rows.items():
        for workers in (1, 2):
            with Service(folder / name, workers) as service:
                loaded(service, body_of(found[:1]), 200, 3)
                top = highest(service, body_of(found[:1]))
                kept = {key: top[key] for key in ("p50", "p99", "p99.9", "max")}
                about = {"model": name, "workers": workers}
                yield {"what": "single rows a second, p99 < 20 ms", **about,
                       "rate": top["rate"], **kept}  # fmt: skip
                many = loaded(service, body_of(found), 0, 20, connections=8)
                kept = {key: many[key] for key in ("p50", "p99", "p99.9", "max")}
                yield {"what": "rows a second, 64 a request", **about,
                       "rate": round(64 * many["rate"]), **kept}  # fmt: skip


def swap(folder, rows, minutes, every=20, rate=400):
    """Load while models change; the curve of memory and p99."""
    name = "papers"
    one = load_model(folder / name)
    series, versions = [], set()
    with Service(folder / name) as service:
        service.ask(body_of(rows[name][:1]))
        result = {}
        seconds = 60 * minutes
        load_it = threading.Thread(
            target=lambda: result.update(loaded(service, body_of(rows[name][:1]), rate, seconds))
        )
        load_it.start()
        began, turn = time.perf_counter(), 0
        while load_it.is_alive():
            load_it.join(2)
            at = time.perf_counter() - began
            series.append((round(at, 1), round(service.memory(), 1)))
            versions.add(service.ask(body_of(rows[name][:1]))["version"])
            if at // every > turn and at < seconds - 5:
                turn += 1
                about = {**one.about, "turn": turn}
                save_model(
                    folder / name, Saved(one.model, one.encoders, about, one.replay, one.onnx)
                )
    settled = [mb for at, mb in series if at > min(60, seconds / 4)]
    plot_swap(series, result, every)
    yield {
        "minutes": minutes, "rate": rate, "swaps": turn, "versions seen": len(versions),
        "answered": result["answered"], "failed": result["failed"],
        "p50": result["p50"], "p99": result["p99"], "max": result["max"],
        "MB after a minute": settled[0], "MB at the end": settled[-1], "MB at most": max(settled),
    }  # fmt: skip


def plot_swap(series, result, every):
    """Memory and p99 over time, with the swaps."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(8, 5), sharex=True)
    at, mb = zip(*series, strict=True)
    top.plot([t / 60 for t in at], mb)
    top.set(ylabel="resident MB", ylim=(0, 1.25 * max(mb)))
    p99 = result["p99_by_second"]
    bottom.plot([k / 60 for k in range(len(p99))], p99, linewidth=0.8)
    bottom.set(ylabel="p99 of each second, ms", xlabel="minutes", ylim=(0, None))
    for axis in (top, bottom):
        for k in range(every, int(at[-1]), every):
            axis.axvline(k / 60, color="0.85", linewidth=0.8, zorder=0)
    top.set_title("A model is put in place at every line", fontsize=10)
    figure.tight_layout()
    figure.savefig(RESULTS / "serving-swap.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["start", "rate", "swap"])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--python", help="an interpreter that has linkdist-serve")
    asked = parser.parse_args()
    name, option = "serving", ""
    if asked.python:
        Service.program = (asked.python, "-P", "-m", "linkdist.cli.serve_main")
        name, option = "serving-small", " --python PYTHON"
    os.environ["OMP_WAIT_POLICY"] = "passive"
    folder = Path(tempfile.mkdtemp())
    try:
        rows = {name: make(folder) for name, make in MODELS.items()}
        if "start" in asked.parts or "rate" in asked.parts:
            lines = [*start(folder, rows)] if "start" in asked.parts else []
            lines += [*rates(folder, rows)] if "rate" in asked.parts else []
            write(name, f"python benchmarks/serving.py start rate{option}", lines)
        if "swap" in asked.parts:
            lines = [*swap(folder, rows, asked.minutes)]
            command = f"python benchmarks/serving.py swap --minutes {asked.minutes:g}{option}"
            write(name.replace("serving", "serving-swap"), command, lines)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
