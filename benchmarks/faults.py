"""Faults in the middle of a training of the default method on a store by Ray workers.

A store of planted classes is trained by one process, by two workers without a fault, and by two
workers with each of these faults: a worker killed by SIGKILL in each stage; a node of a local
cluster removed; a place of checkpoints that fails for some seconds; a disk that is full when
targets are written, after which the same command runs again with --resume. Accuracy is that of
unlabelled nodes, whose classes are known here.
Usage: python benchmarks/faults.py FOLDER
"""

import re
import shutil
import sys
import threading
import time
from pathlib import Path

import harm
import numpy as np
from measure import RESULTS, write

from linkdist.data.graph import UNKNOWN
from linkdist.distributed import ray_train
from linkdist.distributed.pipeline import train_store
from linkdist.errors import LinkDistError
from linkdist.model import from_features
from linkdist.pipeline import Options
from linkdist.progress import Callback
from linkdist.store.synthetic import Planted, synth

# With more than 64 features there is no gradient boosting, which would take most of the time.
PLANTED = Planted(40_000, 400_000, features=72, classes=8, labelled=0.05)
PARTS, MEMORY, VISITS = 4, 50_000_000, 8
OPTIONS = Options(held_out=0.2, epochs=VISITS)
KILLS = {
    "reading the links": harm.KilledInStage("reading the links", 0),
    "averaging features": harm.KilledInStage("averaging features"),
    "spreading labels": harm.KilledInStage("spreading labels"),
    "writing targets": harm.KilledInStage("writing targets"),
    "training": harm.KilledAfter(VISITS * PARTS // 2),
}
WORK = ray_train.run_worker


class AtStage(Callback):
    """Calls a function once, when a stage starts."""

    def __init__(self, name, call):
        self.name, self.call = name, call

    def stage(self, name):
        """A stage starts."""
        if name == self.name and self.call is not None:
            threading.Thread(target=self.call).start()
            self.call = None


def accuracy(model, store):
    """Percent of the unlabelled nodes that are predicted correctly from features."""
    hits = []
    for part in range(store.P):
        p = from_features(model, store.features(part).astype(np.float32))
        right = p.argmax(1) == store.truth(part)
        hits.append(right[store.labels(part) == UNKNOWN])
    return round(100 * np.concatenate(hits).mean(), 2)


def train(store, out, **options):
    """Train by two workers; the seconds, and the model or the error that ended it."""
    started = time.perf_counter()
    try:
        saved = ray_train.train_by_workers(
            store.directory, out, OPTIONS, MEMORY, 2, saved=0, **options
        )
        found = saved.model
    except LinkDistError as error:
        found = error
    return round(time.perf_counter() - started, 1), found


def run(what, folder, store, *faults, callback=None):
    """Train with faults, and again if they end the training; a row of the table, and the log."""
    out, happened = folder / re.sub(r"\W+", "-", what), folder / "happened"
    log = Path(f"{out}.log")
    log.unlink(missing_ok=True)
    shutil.rmtree(happened, ignore_errors=True)
    happened.mkdir()
    ray_train.run_worker = harm.harmful(WORK, happened, *faults) if faults else WORK
    seconds, found = train(store, out, callback=callback)
    ended = isinstance(found, LinkDistError)
    if ended:
        (happened / "free").touch()
        again, model = train(store, out, resume=True)
    text = log.read_text()
    sign = re.search("was lost|could not be written|cannot be written", text)
    stage = re.findall("stage: (.*)", text[: sign.start()])[-1] if sign else ""
    workers, slices = re.findall(r"(\d+) workers? begins? at slice (\d+)", text)[-1]
    result = f"continued by itself, workers: {workers}, after slice {slices}" if sign else ""
    if "written again" in text:
        result = f"waited; {text.count('next attempt')} failed writes"
    if ended:
        place = re.sub(r"\S*/", "", str(found))
        result = f"ended with the sentence '{place}'; continued with --resume"
    return {
        "fault": what, "stage": stage,
        "seconds": f"{seconds} + {again}" if ended else seconds, "result": result,
        "accuracy": accuracy(model if ended else found, store),
    }, text  # fmt: skip


def one_process(folder, store):
    """The row of a training by one process."""
    out, started = folder / "one", time.perf_counter()
    saved = train_store(store.directory, out, OPTIONS, MEMORY, force=True)
    seconds = round(time.perf_counter() - started, 1)
    return {"fault": "none, one process", "stage": "", "seconds": seconds, "result": "",
            "accuracy": accuracy(saved.model, store)}, ""  # fmt: skip


def node_removed(folder, store):
    """The row of a training on a local cluster of two nodes with one core each."""
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    second = cluster.add_node(**node)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    remove = AtStage("averaging features", lambda: cluster.remove_node(second, False))
    try:
        return run("a node removed", folder, store, callback=remove)
    finally:
        ray.shutdown()
        cluster.shutdown()


def main():
    folder = Path(sys.argv[1]).resolve()
    store = synth(folder / "store", PLANTED, parts=PARTS, overwrite=True)
    found = [one_process(folder, store), run("none, two workers", folder, store)]
    for stage, fault in KILLS.items():
        found.append(run(f"a worker killed, {stage}", folder, store, fault))
    fails = harm.CheckpointsFail(5.0)
    found.append(run("checkpoints fail for 5 s", folder, store, fails))
    found.append(run("the disk is full", folder, store, harm.DiskFull("targets")))
    found.append(node_removed(folder, store))
    rows = [row for row, _ in found]
    write("faults", "python benchmarks/faults.py FOLDER", rows)
    with (RESULTS / "faults.md").open("a") as file:
        for row, text in found:
            if text:
                file.write(f"\nThe log, {row['fault']}:\n\n```\n{shown(text)}```\n")


def shown(text):
    """A log without the paths of this machine."""
    return re.sub(r"/\S*/", "", text)


if __name__ == "__main__":
    main()
