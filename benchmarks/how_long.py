"""How long a default training takes: seconds and peak memory, from 1,000 to 1,000,000 nodes.

Made graphs of eight classes with ten links for each node, half of them within a class, and either
64 dense columns or 14 of 2,000 words for each node. 200 labels or a tenth of the nodes are known.
The training is that of `linkdist train`: folds or held-out labels, estimates and baselines
included, from arrays in memory. Then all nodes are predicted in both modes.

Rows are written one by one, and those that are there already are not measured again. Peak memory
is that of the whole process, of which the program itself takes about 0.4 GB.
Usage: python benchmarks/how_long.py [--device cpu] [--sizes 1000,10000] [--largest 100000]
"""

import argparse
import gc
import json
import resource
import time
from itertools import product
from pathlib import Path

import numpy as np
import torch
from measure import RESULTS, write
from scipy import sparse

from linkdist.data.graph import Graph
from linkdist.data.splits import Split
from linkdist.training.fit import fit

SIZES = (1_000, 10_000, 100_000, 1_000_000)
COLUMNS = ("64 dense", "2,000 words")
LABELS = ("200", "10 %")
KEY = ("nodes", "columns", "labels")
CLASSES, LINKS, DENSE, WORDS, WORDS_OF_A_NODE = 8, 10, 64, 2_000, 14


def made(n, columns, seed=0):
    """A graph whose columns and links say a little of the class of a node."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, n)
    features = dense(labels, random) if columns == COLUMNS[0] else words(labels, random)
    return Graph.build(features, pairs(labels, random), labels, name="made")


def dense(labels, random):
    """Noise around the mean of each class: (n, 64) float32."""
    means = 0.25 * random.standard_normal((CLASSES, DENSE), dtype=np.float32)
    return means[labels] + random.standard_normal((len(labels), DENSE), dtype=np.float32)


def words(labels, random):
    """Words, of which three in ten are of the class: (n, 2000) CSR."""
    rows = np.repeat(np.arange(len(labels)), WORDS_OF_A_NODE)
    share = WORDS // CLASSES
    own = random.integers(0, share, len(rows)) + labels[rows] * share
    word = np.where(random.random(len(rows)) < 0.3, own, random.integers(0, WORDS, len(rows)))
    ones = np.ones(len(rows), dtype=np.float32)
    x = sparse.csr_matrix((ones, (rows, word)), (len(labels), WORDS))
    x.data[:] = 1
    return x


def pairs(labels, random):
    """Ten links for each node, every second one to a node of the same class: (10 n, 2)."""
    n = len(labels)
    order = np.argsort(labels, kind="stable")
    count = np.bincount(labels, minlength=CLASSES)
    start = np.cumsum(count) - count
    source = np.repeat(np.arange(n), LINKS)
    of_class = labels[source]
    place = start[of_class] + random.integers(0, 1 << 40, len(source)) % count[of_class]
    anywhere = random.integers(0, n, len(source))
    return np.stack([source, np.where(np.arange(len(source)) % 2, order[place], anywhere)], axis=1)


def known(n, labels, seed=1):
    """The labelled nodes as a split without validation and test nodes."""
    count = n // 10 if labels == "10 %" else int(labels)
    none = np.array([], dtype=np.int64)
    return Split(np.sort(np.random.default_rng(seed).permutation(n)[:count]), none, none)


def row(nodes, columns, labels, device):
    """Train and predict once."""
    graph = made(nodes, columns)
    forget_peak(device)
    result, training = timed(
        lambda: fit(graph, known(nodes, labels), device=device, baselines=True), device
    )
    _, alone = timed(lambda: result.model.predict_proba(graph.features), device)
    _, linked = timed(lambda: result.model.predict_proba(graph.features, graph.links), device)
    found = {
        **{"nodes": nodes, "links": len(graph.links), "columns": columns, "labels": labels},
        **{"training, s": training, "prediction from features, s": alone},
        **{"prediction with links, s": linked, "peak GB": peak()},
    }
    if device == "cuda":
        found["peak GB on the GPU"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    return found


def timed(work, device):
    """The result of a function, and the seconds that it took."""
    started = time.perf_counter()
    result = work()
    if device == "cuda":
        torch.cuda.synchronize()
    return result, round(time.perf_counter() - started, 2)


def forget_peak(device):
    """Let the peak of memory start again, so that a row does not show that of an earlier one."""
    gc.collect()
    if Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5")
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak():
    """Peak resident memory in GB since `forget_peak`, or of the process where that is unknown."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    of_row = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    kilobytes = of_row[0] if of_row else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(kilobytes * 1024 / 1e9, 2)


def key(row):
    """What a row measures; sorts by size."""
    return row["nodes"], COLUMNS.index(row["columns"]), LABELS.index(row["labels"])


def measured(name, device, sizes):
    """Measure the rows that the result file does not have yet, and write it after each."""
    path = RESULTS / f"{name}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    there = {key(row) for row in rows}
    wanted = [dict(zip(KEY, one, strict=True)) for one in product(sizes, COLUMNS, LABELS)]
    wanted = [one for one in wanted if key(one) not in there]
    if wanted:
        row(SIZES[0], COLUMNS[0], LABELS[0], device)  # compiles what all others use
    for one in wanted:
        rows.append(row(**one, device=device))
        write(name, f"python benchmarks/how_long.py --device {device}", sorted(rows, key=key))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    asked = parser.parse_args()
    sizes = [int(size) for size in asked.sizes.split(",") if int(size) <= asked.largest]
    measured(f"how_long-{asked.device}", asked.device, sizes)


if __name__ == "__main__":
    main()
