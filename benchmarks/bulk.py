"""Bulk prediction: `linkdist predict` on a table of ten million rows, and on a hundredth of it.

Rows a second, the start of Python included, and peak resident memory of the process, medians of
three runs in turn: an allocator's peak differs by some percent from run to run. The table has
eight numeric columns and a category; the model is trained on a small one. Streaming means that the
longer table needs no more memory. Usage: python benchmarks/bulk.py [ROWS]
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import write

PROGRAM = "from linkdist.cli.main import main; main()"
BLOCK = 100_000
SMALL = 100_000


def block(random, first, rows):
    """Some rows: three classes that differ in the first two columns."""
    label = random.integers(0, 3, rows)
    columns = {f"x{i}": random.normal(size=rows) + label * (i < 2) for i in range(8)}
    place = pa.array(random.choice(["north", "south", "east", "west"], rows))
    ids = pa.array(np.arange(first, first + rows))
    return pa.table({"id": ids, "label": label.astype(str), "place": place, **columns})


def make(path, rows):
    """A Parquet file, written block by block."""
    random = np.random.default_rng(0)
    first = block(random, 0, min(rows, BLOCK))
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for start in range(BLOCK, rows, BLOCK):
            writer.write_table(block(random, start, min(BLOCK, rows - start)))


def measured(arguments):
    """Seconds and peak memory in MB of a command in a process of its own."""
    started = time.perf_counter()
    watch = (
        "import json,resource,subprocess,sys;"
        "subprocess.run([sys.executable,'-c',*sys.argv[1:]],check=True,stdout=sys.stderr);"
        "print(json.dumps(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))"
    )
    command = [sys.executable, "-c", watch, PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - started, json.loads(done.stdout) / 1024


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        make(base / "small.parquet", 2000)
        links = "a,b\n" + "".join(f"{i},{(i * 7) % 2000}\n" for i in range(2000))
        (base / "links.csv").write_text(links)
        train = ["train", "--nodes", base / "small.parquet", "--edges", base / "links.csv"]
        measured([*train, "--id", "id", "--label", "label", "--epochs", 3, "--out", base / "model"])
        sizes = {SMALL: [], asked: []}
        for rows in sizes:
            make(base / f"{rows}.parquet", rows)
        for rows, runs in [*sizes.items()] * 3:
            out = base / "predictions.parquet"
            runs.append(
                measured(["predict", base / "model", base / f"{rows}.parquet", "--out", out])
            )
            assert pq.ParquetFile(out).metadata.num_rows == rows
        table = []
        for rows, runs in sizes.items():
            seconds, memory = (statistics.median(part) for part in zip(*runs, strict=True))
            table.append(
                {
                    "rows": rows,
                    "seconds": round(seconds, 1),
                    "rows a second": round(rows / seconds),
                    "peak memory, MB": round(memory),
                    "of the runs": ", ".join(str(round(m)) for _, m in runs),
                }
            )
    write("bulk", f"python benchmarks/bulk.py {asked}", table)
