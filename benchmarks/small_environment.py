"""Size and start of two environments that serve: linkdist[serve], and linkdist-serve.

Both are installed into new virtual environments without pip, from this repository and with
constraints.txt, unless their interpreters are named. A start lasts from the command until /readyz
answers; the two programs are started in turn.
    MB                 size of the environment by du, in 10^6 bytes
    start, s           wall-clock seconds of a start, the median and the slowest
    processor, s       seconds that the process computed until then, the median
    memory, MB         resident memory then
Usage: python benchmarks/small_environment.py [--repeats 11] [--full PYTHON] [--small PYTHON]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil
from measure import write
from serving import Service, papers

ROOT = Path(__file__).parent.parent
NAMES = {
    "linkdist[serve]": (f"{ROOT}[serve]", "linkdist.cli.main"),
    "linkdist-serve": (str(ROOT / "packages" / "linkdist-serve"), "linkdist.cli.serve_main"),
}
"""What pip installs for a distribution, and the module of its program."""


def install(folder, requirement):
    """A new environment with a distribution; gives its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    asked = ["--python", python, "install", "-q", "-c", ROOT / "constraints.txt", requirement]
    subprocess.run([sys.executable, "-m", "pip", *asked], check=True)
    return python


def environment(python):
    """Size in MB, and the number of distributions."""
    folder = Path(python).parent.parent.resolve()
    size = subprocess.run(["du", "-sk", folder], capture_output=True, text=True, check=True)
    packages = len([*folder.glob("lib/python*/site-packages/*.dist-info")])
    return {"MB": round(1024 * int(size.stdout.split()[0]) / 1e6), "packages": packages}


def start(program, model):
    """One start: wall-clock seconds, processor seconds, resident MB."""
    Service.program = program
    with Service(model) as service:
        urllib.request.urlopen(f"{service.url}/readyz").read()
        wall, process = time.perf_counter() - service.started, psutil.Process(service.process.pid)
        times = process.cpu_times()
        return wall, times.user + times.system, process.memory_info().rss / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--full", help="an interpreter that has linkdist[serve]")
    parser.add_argument("--small", help="an interpreter that has linkdist-serve")
    asked = parser.parse_args()
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        papers(folder)
        programs = {}
        for (what, (needs, module)), given in zip(
            NAMES.items(), (asked.full, asked.small), strict=True
        ):
            python = given or install(folder / module, needs)
            programs[what] = (str(python), "-P", "-m", module)
        found = {what: [] for what in programs}
        for turn in range(asked.repeats + 1):
            for what, program in programs.items():
                one = start(program, folder / "papers")
                if turn:  # the first start reads files that are not in memory yet
                    found[what].append(one)
        rows = []
        for what, starts in found.items():
            wall, processor, memory = zip(*starts, strict=True)
            rows.append({
                "distribution": what, **environment(programs[what][0]),
                "start, s": round(statistics.median(wall), 2), "slowest": round(max(wall), 2),
                "processor, s": round(statistics.median(processor), 2),
                "memory, MB": round(statistics.median(memory)),
            })  # fmt: skip
        write(
            "small_environment",
            f"python benchmarks/small_environment.py --repeats {asked.repeats}",
            rows,
        )


if __name__ == "__main__":
    main()
