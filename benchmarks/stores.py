"""Whether the default method from a store reaches what it reaches in memory.

Graphs of the paper, transductive, with the labels of the training nodes alone (20 of each class),
so that folds choose and estimate. In memory; from stores of 1, 4 and 8 parts, all of them part by
part; and by two and four processes that share the parts of a store of four, as Ray's workers do.
Test accuracy and the estimate for new rows in percent, the mean over seeds, and the differences to
memory on the same seeds with their standard errors. All ways have the same folds.

The way `again` is memory with other initial weights and draws of batches. Its difference is what
chance alone does, and so the measure for the others. Seed 0 was used while the code was written.
A seed is measured in all ways before the next one starts. Several processes can share a folder if
their seeds or sets differ; what it has already is not measured again.
Usage: python benchmarks/stores.py FOLDER [--sets cora,...] [--ways memory,again,1,4,8,2w,4w]
       [--seeds 1210-1239] [--device cpu] [--table]
"""

import argparse
import json
import os
import shutil
import socket
import sys
import time
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from measure import write
from scipy import sparse
from torch import distributed, multiprocessing

from linkdist import fit, load_dataset, named_split
from linkdist.data.graph import UNKNOWN
from linkdist.data.splits import Split
from linkdist.distributed.group import ProcessGroup, SingleProcess
from linkdist.distributed.panel.fitting import Resources, fit_store
from linkdist.distributed.survey import PART
from linkdist.progress import Callback
from linkdist.store.format import bucket_file, buckets, expected_files, part_file, rows_in
from linkdist.store.journal import open_journal
from linkdist.store.keys import count_loops, pack, sort_unique, unpack
from linkdist.store.reader import Store
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.options import Options
from linkdist.training.panel import learning

SETS, WAYS = "cora,pubmed,coauthor-physics", "memory,again,1,4,8,2w,4w"
SCORES = ("from features", "with links", "estimate, features", "estimate, links")
ROOM = 500_000_000
BATCH = 1024


def stored(graph, labels, P, folder):
    """A graph as a store of P parts, nodes drawn at random; and the nodes' parts and rows."""
    part = np.random.default_rng(0).permutation(graph.n) % P
    row = np.empty(graph.n, dtype=np.int64)
    for p in range(P):
        row[part == p] = np.arange((part == p).sum())
    with open_journal(folder, {"graph": graph.name, "P": P}, overwrite=True) as journal:
        for p in range(P):
            mine = np.flatnonzero(part == p)
            x = sparse.csr_matrix(graph.features[mine])
            for name, kind in (("data", "float32"), ("indices", "int32"), ("indptr", "int64")):
                array = getattr(x, name).astype(kind)
                journal.save(part_file(p, f"features.{name}.npy"), array)
            journal.save(part_file(p, "labels.npy"), labels[mine].astype(np.int32))
            journal.save(part_file(p, "truth.npy"), graph.labels[mine].astype(np.int32))
        loops = 0
        ends = graph.links[np.arange(len(graph.links))[:, None],
                           np.argsort(part[graph.links], axis=1, kind="stable")]  # fmt: skip
        for a, b in buckets(P):
            here = ends[(part[ends[:, 0]] == a) & (part[ends[:, 1]] == b)]
            keys = sort_unique(pack(row[here[:, 0]], row[here[:, 1]], within=a == b))
            loops += count_loops(keys) if a == b else 0
            journal.save(bucket_file(a, b), unpack(keys))
        known = labels[labels != UNKNOWN]
        fields = {
            "kind": "csr", "d": graph.d, "task": graph.task, "classes": graph.classes,
            "label_format": {}, "hashed": P, "directed": False, "weighted": False,
            "labelled": tuple(np.bincount(known, minlength=graph.C).tolist()),
            "label_rows": [np.flatnonzero((part == p) & (labels != UNKNOWN)).tolist()
                           for p in range(P)],
            "sizes": tuple(np.bincount(part, minlength=P).tolist()),
            "counts": tuple(rows_in(journal.folder / bucket_file(a, b), 8) for a, b in buckets(P)),
            "loops": loops, "synthetic": True, "columns": None, "source": {},
        }  # fmt: skip
        journal.finish(expected_files(P, "csr", synthetic=True), fields, Callback())
    return Store.open(folder), (part.astype(np.int64) << PART) + row


def resources(folder, device, group):
    """What each process may use."""
    run = TrainingRun(None, None)
    return Resources(folder, device, ROOM, BATCH, group, run, Callback())


def work(rank, size, port, store, folder, seed, device):
    """Train as one of several processes; the first saves the result."""
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=size)
    torch.set_num_threads(1)
    own = resources(folder, torch.device(device), ProcessGroup())
    result, _ = fit_store(Store.open(store), Options(seed=seed), own)
    if rank == 0:
        torch.save((result.model.to(torch.device("cpu")), result.estimates), folder / "result")
    distributed.destroy_process_group()


def from_store(way, graph, labels, seed, folder, device):
    """The model and the estimates of a training on a store."""
    P = 4 if way.endswith("w") else int(way)
    store, _ = stored(graph, labels, P, folder / "store")
    arrays = folder / "arrays"
    if not way.endswith("w"):
        own = resources(arrays, torch.device(device), SingleProcess())
        result, _ = fit_store(store, Options(seed=seed), own)
        return result.model, result.estimates
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    size = int(way[:-1])
    given = (size, port, store.directory, arrays, seed, device)
    multiprocessing.spawn(work, given, nprocs=size)
    return torch.load(arrays / "result", weights_only=False)


def measured(name, way, seed, folder, device):
    """Test accuracies and estimates of one training."""
    graph = load_dataset(name)
    split = named_split(graph, "transductive", seed)
    none = np.array([], dtype=np.int64)
    started = time.perf_counter()
    if way in ("memory", "again"):
        # In the order of the rows, as labels of a table are, so that all ways have the same folds.
        known = Split(np.sort(split.train), none, none)
        with mock.patch.object(learning, "FRESH", learning.FRESH << (way == "again")):
            own = fit(graph, known, seeds=[seed], device=device)
        model, estimates = own.model, own.estimates
    else:
        labels = np.full(graph.n, UNKNOWN)
        labels[split.train] = graph.labels[split.train]
        model, estimates = from_store(way, graph, labels, seed, folder, device)
        shutil.rmtree(folder)
    took, model = time.perf_counter() - started, model.to(torch.device("cpu"))
    found = {"seconds": took}
    for mode, links in (("from features", None), ("with links", graph.links)):
        right = model.predict_proba(graph.features, links).argmax(1) == graph.labels
        found[mode] = 100 * right[split.test].mean()
    for mode, score in zip(("features", "links"), estimates.new_rows, strict=True):
        found[f"estimate, {mode}"] = 100 * score.value
    return found


def table(records):
    """A row for each set and way: means over its seeds, and differences to memory on these."""
    rows = []
    for name, way in dict.fromkeys((r["set"], r["way"]) for r in records):
        base = {r["seed"]: r for r in records if (r["set"], r["way"]) == (name, "memory")}
        own = {r["seed"]: r for r in records if (r["set"], r["way"]) == (name, way)}
        seeds = sorted(base.keys() & own.keys())
        if not seeds:
            continue
        row = {"set": name, "way": way, "seeds": len(seeds)}
        for score in SCORES:
            found = np.array([own[seed][score] for seed in seeds])
            row[score] = round(found.mean(), 1)
            if way != "memory":
                apart = found - [base[seed][score] for seed in seeds]
                row[f"{score}, minus memory"] = with_error(apart)
        rows.append(row)
    return rows


def with_error(values):
    """A mean and its standard error, as text; for one value only the mean."""
    error = f" ± {values.std(ddof=1) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{values.mean():+.1f}{error}"


def in_order(record):
    """Sets and ways in the order of their lists."""
    return SETS.split(",").index(record["set"]), WAYS.split(",").index(record["way"])


def read(folder):
    """The records of all processes that used a folder."""
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=in_order)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--ways", default=WAYS)
    parser.add_argument("--seeds", default="1210-1239")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--table", action="store_true", help="Write the table, measure nothing.")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    first, _, last = asked.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    done = {(r["set"], r["way"], r["seed"]) for r in read(asked.folder)}
    wanted = product(seeds, asked.sets.split(","), asked.ways.split(","))
    for seed, name, way in () if asked.table else wanted:
        if (name, way, seed) in done:
            continue
        scratch = asked.folder / f"{name}-{way}-{seed}"
        found = measured(name, way, seed, scratch, asked.device)
        row = {"set": name, "way": way, "seed": seed, "device": asked.device, **found}
        with (asked.folder / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, file=sys.stderr, flush=True)
    records = read(asked.folder)
    command = f"python benchmarks/stores.py FOLDER --seeds {asked.seeds}"
    write("stores_folds", command, table(records), records=records)


if __name__ == "__main__":
    main()
