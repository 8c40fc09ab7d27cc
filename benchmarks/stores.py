"""Whether training from a store reaches what training in memory reaches.

Graphs of the paper, transductive, split of seed 0, ten replicas: in memory, from stores of 1, 4 and
8 parts, and by two of Ray's workers from the one of 4. Same labels, same held-out nodes, same
number of epochs (on cora all of them; on physics the first is mostly the best one); test accuracy
in percent at the epoch that validation nodes choose.
Usage: python benchmarks/stores.py FOLDER [--sets cora=51,...] [--ways memory,1,4,8,ray]
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from measure import write
from scipy import sparse

from linkdist import fit, load_dataset, named_split
from linkdist.data.graph import UNKNOWN
from linkdist.distributed.ray_train import train_by_workers
from linkdist.distributed.survey import PART, survey_with
from linkdist.distributed.trainer import Schedule, train_rounds
from linkdist.model import logits, message_passing
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import make_inputs
from linkdist.pipeline import Options
from linkdist.progress import Callback
from linkdist.store.format import bucket_file, buckets, expected_files, part_file, rows_in
from linkdist.store.journal import open_journal
from linkdist.store.keys import count_loops, pack, sort_unique, unpack
from linkdist.store.reader import Store
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.history import History

SETS = "cora=51,pubmed=10,coauthor-physics=1"
SEEDS = list(range(10))
CPU = torch.device("cpu")


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
            "sizes": tuple(np.bincount(part, minlength=P).tolist()),
            "counts": tuple(rows_in(journal.folder / bucket_file(a, b), 8) for a, b in buckets(P)),
            "loops": loops, "synthetic": True, "columns": None, "source": {},
        }  # fmt: skip
        journal.finish(expected_files(P, "csr", synthetic=True), fields, Callback())
    return Store.open(folder), (part.astype(np.int64) << PART) + row


def accuracies(network, alpha, graph, split):
    """Test accuracy of each replica from features and with links, in percent."""
    z, s = logits(network, make_inputs(graph.features, CPU))
    everyone = Neighbours([graph.edges], graph.n, CPU)
    history = History(graph, [split] * len(SEEDS), CPU)
    for mode, scores in (("features", z), ("links", message_passing(z, s, everyone, alpha))):
        history.record(mode, scores)
        yield 100 * history.best(mode).test


def trained(way, graph, split, epochs, folder):
    """The network and α of ten replicas, trained one way."""
    if way == "memory":
        found = fit(graph, split, seeds=SEEDS, epochs=epochs, device="cpu").model
        return found.network, found.alpha
    labels = np.full(graph.n, UNKNOWN)
    seen = np.r_[split.train, split.validation]
    labels[seen] = graph.labels[seen]
    P = 4 if way == "ray" else int(way)
    store, numbers = stored(graph, labels, P, folder / f"{graph.name}-{P}")
    found = survey_with(store, np.sort(numbers[split.validation]), seed=0)
    if way == "ray":
        options = Options(method="colinkdist", replicas=len(SEEDS), epochs=epochs)
        out = folder / f"{graph.name}-model"
        model = train_by_workers(store.directory, out, options, 10**10, 2, found=found).model
        return model.network, model.alpha
    schedule = Schedule.of(store, epochs, whole=False)
    stage = train_rounds(store, found, schedule, SEEDS, TrainingRun(None, None), device=CPU)
    return stage.network, stage.alpha


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--ways", default="memory,1,4,8,ray")
    asked = parser.parse_args()
    rows, kept = [], asked.folder / "stores.jsonl"
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    for text in asked.sets.split(","):
        name, epochs = text.split("=")
        graph = load_dataset(name)
        split = named_split(graph, "transductive", 0)
        for way in asked.ways.split(","):
            about = {"set": name, "epochs": int(epochs), "way": way}
            row = next((r for r in done if about.items() <= r.items()), None)
            if row is None:
                network, alpha = trained(way, graph, split, int(epochs), asked.folder)
                row = about
                for mode, found in zip(
                    ("from features", "with links"),
                    accuracies(network, alpha, graph, split),
                    strict=True,
                ):
                    row[mode] = f"{found.mean():.2f} ± {found.std(ddof=1):.2f}"
                asked.folder.mkdir(parents=True, exist_ok=True)
                with kept.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(row, file=sys.stderr, flush=True)
            rows.append(row)
    command = "python benchmarks/stores.py FOLDER"
    write("stores", command + ("" if asked.sets == SETS else f" --sets {asked.sets}"), rows)
