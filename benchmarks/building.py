"""From tables to a store: seconds and peak memory of `linkdist store build`.

Two Parquet tables are made: nodes with text ids, 64 numeric features in one vector column and a
label on one in a hundred; links by ids, drawn at random. Then they are built into a store by a
process of its own, whose peak resident memory is the system's account of it.
Usage: python benchmarks/building.py FOLDER [--nodes N] [--links M] [--memory 500MB]
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from subprocess import run

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import write

from linkdist.pipeline import Tables
from linkdist.progress import Callback
from linkdist.store.build import build
from linkdist.store.plan import parse_memory

CHUNK = 1 << 18


def ids_of(numbers):
    """Text such as n000123."""
    text = pa.array(numbers).cast(pa.string())
    return pa.compute.binary_join_element_wise("n", pa.compute.utf8_lpad(text, 9, "0"), "")


def make_tables(folder, n, m):
    """Write both tables, a chunk at a time."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    kinds = {"id": pa.string(), "class": pa.string(), "x": pa.list_(pa.float32(), 64)}
    with pq.ParquetWriter(folder / "nodes.parquet", pa.schema(kinds)) as file:
        for start in range(0, n, CHUNK):
            count = min(CHUNK, n - start)
            y = random.integers(40, size=count)
            labels = pa.array(y, mask=random.random(count) > 0.01).cast(pa.string())
            x = random.normal(size=count * 64).astype(np.float32)
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(x), 64)
            ids = ids_of(np.arange(start, start + count))
            file.write_table(pa.table([ids, labels, vectors], schema=pa.schema(kinds)))
    kinds = pa.schema({"a": pa.string(), "b": pa.string()})
    with pq.ParquetWriter(folder / "links.parquet", kinds) as file:
        for start in range(0, m, CHUNK):
            ends = random.integers(n, size=(2, min(CHUNK, m - start)))
            file.write_table(pa.table([ids_of(end) for end in ends], schema=kinds))


class Stages(Callback):
    """Seconds of each stage."""

    def __init__(self):
        self.begun = []

    def stage(self, name):
        """A stage begins."""
        self.begun.append((name, time.perf_counter()))

    def seconds(self):
        """By stage, rounded."""
        ends = [at for _, at in self.begun[1:]] + [time.perf_counter()]
        pairs = zip(self.begun, ends, strict=True)
        return {f"{name}, s": round(end - at, 1) for (name, at), end in pairs}


def built(folder, memory):
    """Build the store; a line of the table."""
    stages, started = Stages(), time.perf_counter()
    tables = Tables(folder / "nodes.parquet", folder / "links.parquet", "id", "class")
    store = build(tables, folder / "store", memory=memory, overwrite=True, callback=stages)
    took = time.perf_counter() - started
    size = sum(file.size for file in store.manifest.files.values())
    return {
        "nodes": store.n, "links": store.m, "parts": store.P,
        "GB of tables": round(sum(p.stat().st_size for p in folder.glob("*.parquet")) / 1e9, 2),
        "GB of the store": round(size / 1e9, 2), "seconds": round(took, 1), **stages.seconds(),
        "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=5_000_000)
    parser.add_argument("--links", type=int, default=25_000_000)
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--only", action="store_true")
    asked = parser.parse_args()
    if asked.only:
        print(json.dumps(built(asked.folder, parse_memory(asked.memory))))
        sys.exit()
    make_tables(asked.folder, asked.nodes, asked.links)
    command = [sys.executable, __file__, asked.folder, "--only", "--memory", asked.memory]
    out = run(command, check=True, capture_output=True, text=True).stdout
    row = {"--memory": asked.memory, **json.loads(out.splitlines()[-1])}
    write("building", "python benchmarks/building.py FOLDER", [row])
