"""The service of this commit, of the small environment and of an older source tree, in turn.

A process of its own sends single rows as fast as they are answered, on eight connections. Each tree
serves a model that it trained itself: older trees cannot read newer models.
Usage: python benchmarks/serving_before.py --before FOLDER [--python PYTHON] [--repeats 3]
FOLDER is the `src` of the older tree, PYTHON the interpreter of an environment with linkdist-serve.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import write

ROOT = Path(__file__).parent.parent
HERE = str(ROOT / "src")
PAPERS = ROOT / "examples" / "papers"
BODY = {"rows": [{"title": "photon theory of vacuum", "venue": "review", "year": 1974}]}
SECONDS, CONNECTIONS = 4, 8


def train(source, out):
    tables = ["--nodes", PAPERS / "nodes.csv", "--edges", PAPERS / "links.csv"]
    names = ["--id", "paper", "--label", "field", "--method", "colinkdist", "--epochs", "3"]
    command = [sys.executable, "-P", "-m", "linkdist.cli.main", "train", *tables, *names]
    subprocess.run([*command, "--out", out, "--quiet"], env=environment(source), check=True)


def environment(source):
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}


def rate(program, source, model, body):
    """What a service answers to a closed loop of requests."""
    command = [*program, "serve", model, "--port", "0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment(source)
    ) as service:
        found = next(filter(None, (re.search(r"at (http\S+)", line) for line in service.stderr)))
        load = [sys.executable, ROOT / "benchmarks" / "load.py", f"{found[1]}/v1/predict", body]
        done = subprocess.run(
            [*load, "0", str(SECONDS), str(CONNECTIONS)], capture_output=True, text=True, check=True
        )
        service.terminate()
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", required=True)
    parser.add_argument("--python")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    full = [sys.executable, "-P", "-m", "linkdist.cli.main"]
    ways = {"before": (full, asked.before), "now": (full, HERE)}
    if asked.python:
        ways["now, linkdist-serve"] = ([asked.python, "-P", "-m", "linkdist.cli.serve_main"], "")
    with tempfile.TemporaryDirectory() as folder:
        body, models = Path(folder, "body.json"), {}
        body.write_text(json.dumps(BODY))
        for source in (asked.before, HERE):
            models[source] = Path(folder, str(len(models)))
            train(source, models[source])
        found = {name: [] for name in ways}
        for _ in range(asked.repeats):
            for name, (program, source) in ways.items():
                found[name].append(rate(program, source, models[source or HERE], body))
    rows = [
        {
            "service": name,
            "requests a second, median": round(statistics.median(one["rate"] for one in each)),
            "slowest": round(min(one["rate"] for one in each)),
            "fastest": round(max(one["rate"] for one in each)),
            "p50, ms": statistics.median(one["p50"] for one in each),
            "p99, ms": statistics.median(one["p99"] for one in each),
        }
        for name, each in found.items()
    ]
    command = f"python benchmarks/serving_before.py --before SRC --repeats {asked.repeats}"
    write("serving_before", command + (" --python PYTHON" if asked.python else ""), rows)


if __name__ == "__main__":
    main()
