"""Workers and machines that are lost in the middle of a training by Ray.

A store of planted classes is trained by two workers three times: as it is; with one worker killed
by SIGKILL in mid-epoch; and on a local cluster of two nodes, of which one is removed. Each training
must end by itself. Accuracy is that of unlabelled nodes, whose classes are known here.
Usage: python benchmarks/faults.py FOLDER
"""

import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
from measure import RESULTS, write

from linkdist.data.graph import UNKNOWN
from linkdist.distributed.ray_train import train_by_workers
from linkdist.model import from_features
from linkdist.pipeline import Options
from linkdist.progress import Callback
from linkdist.store.synthetic import Planted, synth

PLANTED = Planted(40_000, 400_000, features=32, classes=8, labelled=0.02)
EPOCHS, PARTS, FAULT = 4, 4, 0.4


class Fault(Callback):
    """Does harm once the training is so far."""

    def __init__(self, harm):
        self.harm, self.at = harm, None

    def progress(self, done, total):
        """Begin the harm, in the middle of the rounds that follow."""
        if self.harm and total == EPOCHS * PARTS * (PARTS + 1) // 2 and done >= FAULT * total:
            self.at, harm, self.harm = done, self.harm, None
            threading.Timer(1.0, harm).start()


def accuracy(model, store):
    """Percent of the unlabelled nodes that are told right from features."""
    hits = []
    for part in range(store.P):
        p = from_features(model, store.features(part).astype(np.float32))
        right = p.argmax(1) == store.truth(part)
        hits.append(right[store.labels(part) == UNKNOWN])
    return 100 * np.concatenate(hits).mean()


def run(what, folder, store, harm_of=None):
    """Train once; a line of the table, and the log."""
    out = folder / what.replace(" ", "-")
    log = Path(f"{out}.log")
    log.unlink(missing_ok=True)
    fault = Fault(harm_of and (lambda: harm_of(log)))
    started = time.perf_counter()
    options = Options(method="colinkdist", epochs=EPOCHS)
    saved = train_by_workers(store.directory, out, options, 10**9, 2, callback=fault, saved=0)
    took = time.perf_counter() - started
    text = log.read_text()
    lost = re.search(r"lost after round (\d+)", text)
    again = re.findall(r"(\d+) workers begin at round (\d+)", text)[-1]
    return {
        "what": what, "seconds": round(took, 1), "lost after round": int(lost[1]) if lost else "",
        "went on at round": int(again[1]) if lost else "", "with workers": int(again[0]),
        "accuracy": round(accuracy(saved.model, store), 2),
    }, text  # fmt: skip


def kill_a_worker(log):
    """SIGKILL for the second worker."""
    pid = re.findall(r"worker 2 of 2, process (\d+)", log.read_text())[-1]
    os.kill(int(pid), signal.SIGKILL)


def main():
    import ray
    from ray.cluster_utils import Cluster

    folder = Path(sys.argv[1]).resolve()
    store = synth(folder / "store", PLANTED, parts=PARTS, overwrite=True)
    rows, logs = [], []
    for what, harm in (("no fault", None), ("a worker killed", kill_a_worker)):
        row, log = run(what, folder, store, harm)
        rows.append(row)
        logs.append(log)
    node = {"num_cpus": 2, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    second = cluster.add_node(**node)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    row, log = run(
        "a node removed", folder, store, lambda _: cluster.remove_node(second, allow_graceful=False)
    )
    ray.shutdown()
    cluster.shutdown()
    rows.append(row)
    logs.append(log)
    write("faults", "python benchmarks/faults.py FOLDER", rows)
    with (RESULTS / "faults.md").open("a") as file:
        for row, text in zip(rows, logs, strict=True):
            file.write(f"\nThe log, {row['what']}:\n\n```\n{text}```\n")


if __name__ == "__main__":
    main()
