"""What every benchmark shares: fair timing, the machine in words, results as JSON and table."""

import json
import os
import platform
import statistics
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"


def machine():
    """What this machine is, without saying where."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":")[1].strip() if names else cpu
    return {
        "cpu": f"{cpu}, {os.cpu_count()} cores, {torch.get_num_threads()} threads used",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def commit():
    """The commit that is measured."""
    if named := os.environ.get("LINKDIST_COMMIT"):
        return named
    # Results that another benchmark has just written do not change what is measured.
    changed = _git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return _git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


def _git(*asked):
    root = Path(__file__).parent.parent
    done = subprocess.run(["git", *asked], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def interleaved(ways, repeats, warm_up=2, burst=1):
    """Median seconds of each way, measured in turn, so that a busy moment hits all alike.

    `ways` maps a name to a function without arguments. A turn calls it `burst` times, for what is
    so short that another way's traces in the cache would be most of its time.
    """
    times = {name: [] for name in ways}
    for turn in range(warm_up + repeats):
        for name, way in ways.items():
            started = time.perf_counter()
            for _ in range(burst):
                way()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn >= warm_up:
                times[name].append((time.perf_counter() - started) / burst)
    return {name: statistics.median(values) for name, values in times.items()}


def about(command):
    """The command, the commit, the date and the machine of a measurement."""
    return {
        "command": command,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
    }


def write(name, command, rows, measured=None, notes=(), **more):
    """Leave rows of a benchmark as JSON and as a Markdown table.

    `measured` is what `about` gave where the rows were measured, if that was another machine;
    `notes` are lines below the table, `more` goes into the JSON.
    """
    RESULTS.mkdir(exist_ok=True)
    measured = measured or about(command)
    whole = json.dumps({**measured, "rows": rows, **more}, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(whole + "\n")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [
        f"`{command}` at {measured['commit']}, {measured['date']}; {measured['machine']['cpu']}; "
        f"GPU: {measured['machine']['gpu']}; PyTorch {measured['machine']['torch']}.",
        "",
        f"| {' | '.join(columns)} |",
        f"|{' --- |' * len(columns)}",
        *(f"| {' | '.join(str(row.get(c, '')) for c in columns)} |" for row in rows),
        *notes,
    ]
    table = "\n".join(lines) + "\n"
    (RESULTS / f"{name}.md").write_text(table)
    print(table)
