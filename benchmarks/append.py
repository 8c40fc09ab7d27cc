"""Growing a store: seconds of `linkdist store append` and of a build from all tables.

The tables are those of benchmarks/building.py. The last rows of the node table are new nodes, one
per cent by default, and so are the last rows of the link table: half of these links have one or two
new nodes, the other half connect old nodes, so that all buckets are written again. The old tables
are built into a store, the new ones are appended, the store is checked, and all tables are built
into another store; each by a process of its own. The two graphs are compared by their counts.
Usage: python benchmarks/append.py FOLDER [--nodes N] [--links M] [--share 0.01] [--memory 2GB]
"""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from subprocess import run

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from building import CHUNK, Stages, ids_of
from measure import write

from linkdist.pipeline import Tables
from linkdist.store.append import append
from linkdist.store.build import build
from linkdist.store.plan import parse_memory
from linkdist.store.verify import check

LINK_KINDS = pa.schema({"a": pa.string(), "b": pa.string()})
NODE_KINDS = pa.schema({"id": pa.string(), "class": pa.string(), "x": pa.list_(pa.float32(), 64)})


def node_rows(random, start, count):
    """Rows of a node table with 64 features and a label on one in a hundred."""
    labels = pa.array(random.integers(40, size=count), mask=random.random(count) > 0.01)
    x = random.standard_normal(count * 64, dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x), 64)
    ids = ids_of(np.arange(start, start + count))
    return pa.table([ids, labels.cast(pa.string()), vectors], schema=NODE_KINDS)


def new_ends(random, old, total, count):
    """Both nodes of new links; each second link has a new node at one end."""
    ends = random.integers(old, size=(2, count))
    ends[0, ::2] = random.integers(old, total, size=len(ends[0, ::2]))
    ends[1, ::2] = random.integers(total, size=len(ends[1, ::2]))
    return ends


def make_tables(folder, n, m, share):
    """Write old and new nodes and links, a chunk at a time; all of them are a folder of links."""
    random = np.random.default_rng(0)
    old_nodes, old_links = n - int(n * share), m - int(m * share)
    folder.mkdir(parents=True, exist_ok=True)

    def write_both(name, kinds, old, total, rows):
        every = folder / f"all_{name}"  # a folder of Parquet files is one table
        every.mkdir(exist_ok=True)
        for which, begin, end in (("old", 0, old), ("new", old, total)):
            path, link = folder / f"{which}_{name}.parquet", every / f"{begin:012}.parquet"
            with pq.ParquetWriter(path, kinds) as file:
                for start in range(begin, end, CHUNK):
                    file.write_table(rows(which, start, min(CHUNK, end - start)))
            link.unlink(missing_ok=True)
            os.link(path, link)

    def links(which, start, count):
        if which == "old":
            ends = random.integers(old_nodes, size=(2, count))
        else:
            ends = new_ends(random, old_nodes, n, count)
        return pa.table([ids_of(end) for end in ends], schema=LINK_KINDS)

    write_both("nodes", NODE_KINDS, old_nodes, n, lambda _, *rows: node_rows(random, *rows))
    write_both("links", LINK_KINDS, old_links, m, links)


def peak_memory():
    """Peak resident memory in MB; getrusage would include that of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024)


def step(folder, name, memory):
    """Run one step; its seconds, and what it did."""
    stages, started, found = Stages(), time.perf_counter(), {}
    if name in ("old", "all"):
        ending = "" if name == "all" else ".parquet"
        tables = (folder / f"{name}_{what}{ending}" for what in ("nodes", "links"))
        tables = Tables(*tables, "id", "class")
        store = build(tables, folder / name, memory=memory, overwrite=True, callback=stages)
    elif name == "append":
        new = folder / "new_nodes.parquet", folder / "new_links.parquet"
        store = append(folder / "old", *new, memory=memory, callback=stages)
        files = store.manifest.files.values()
        found["GB written"] = sum(file.size for file in files if file.generation) / 1e9
    else:
        problems, store = check(folder / "old", stages), None
        found["problems"] = len(problems)
    took = time.perf_counter() - started
    if store is not None:
        size = sum(file.size for file in store.manifest.files.values())
        found |= {"nodes": store.n, "links": store.m, "self-loops": store.loops, "parts": store.P}
        found |= {"labelled": sum(store.manifest.labelled), "GB of the store": size / 1e9}
    return {"seconds": took, **found, "peak MB": peak_memory(), "stages": stages.seconds()}


def measured(folder, name, memory):
    """Run one step in a process of its own; a line of the table."""
    load = os.getloadavg()[0]
    command = [sys.executable, __file__, folder, "--only", name, "--memory", memory]
    out = run(command, check=True, capture_output=True, text=True).stdout
    return {"step": name, "load before": round(load, 1), **json.loads(out.splitlines()[-1])}


TITLES = {
    "old": "build from the old tables",
    "append": "append the new tables",
    "check": "check the appended store",
    "all": "build from all tables",
}


def report(rows, made, asked):
    """Write the table; a last line compares the append with the build."""
    seconds = {row["step"]: row["seconds"] for row in rows}
    stores = {row["step"]: row for row in rows}
    counts = ("nodes", "links", "labelled")
    same = all(stores["append"][key] == stores["all"][key] for key in counts)
    lines = [
        {key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()}
        for row in rows
    ]
    for line in lines:
        line["step"], line["stages"] = (
            TITLES[line["step"]],
            ", ".join(
                f"{name.removesuffix(', s')} {took}" for name, took in line["stages"].items()
            ),
        )
    ratio = seconds["append"] / seconds["all"]
    notes = [
        "",
        f"The append took {100 * ratio:.1f} % of the time of a build from all tables. Nodes, links "
        f"and labels of the two stores are {'equal in number' if same else 'NOT EQUAL'}; "
        f"`store check` found {stores['check']['problems']} problems. Writing the tables took "
        f"{made:.0f} s.",
    ]
    command = f"python benchmarks/append.py FOLDER --nodes {asked.nodes} --links {asked.links}"
    command += f" --share {asked.share} --memory {asked.memory}"
    write(asked.name, command, lines, notes=notes, ratio=round(ratio, 4), same_counts=same)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=20_000_000)
    parser.add_argument("--links", type=int, default=200_000_000)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--name", default="append", help="The name of the files of results.")
    parser.add_argument("--only", choices=list(TITLES))
    asked = parser.parse_args()
    if asked.only:
        print(json.dumps(step(asked.folder, asked.only, parse_memory(asked.memory))))
        sys.exit()
    started = time.perf_counter()
    make_tables(asked.folder, asked.nodes, asked.links, asked.share)
    made, rows = time.perf_counter() - started, []
    for name in ("old", "append", "all", "check"):
        rows.append(measured(asked.folder, name, asked.memory))
        print(json.dumps(rows[-1]), flush=True)
        if name == "all":
            shutil.rmtree(asked.folder / "all")
    report(rows, made, asked)
