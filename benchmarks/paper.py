"""The whole paper: wall time of `linkdist reproduce` for everything, from start to report.

Minutes on an H200, hours on two CPU cores; so it runs only where there is a GPU, or when asked with
--anywhere. Usage: python benchmarks/paper.py [--anywhere] [--out DIR, to keep the tables]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from measure import write

PROGRAM = "from linkdist.cli.main import main; main()"


def measured(out):
    """The line of the table: a run in a process of its own, the start of Python included."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", PROGRAM, "reproduce", "--out", out], check=True)
    seconds = time.perf_counter() - started
    records = json.loads(Path(out, "results.json").read_text())
    return {
        "device": records[0]["device"],
        "sets": len({record["dataset"] for record in records}),
        "cells": len(records),
        "runs": sum(len(record["seeds"]) for record in records),
        "seconds, start to report": round(seconds, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anywhere", action="store_true")
    parser.add_argument("--out")
    asked = parser.parse_args()
    if torch.cuda.is_available() or asked.anywhere:
        with tempfile.TemporaryDirectory() as folder:
            row = measured(asked.out or str(Path(folder, "paper")))
        write("paper", "python benchmarks/paper.py", [row])
    else:
        print("no GPU: the whole paper is left out; --anywhere measures it all the same.")
