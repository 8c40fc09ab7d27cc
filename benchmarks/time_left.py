"""How well a training predicts the time that is left.

Three trainings on tables and graphs; when a tenth, a quarter and half of the time is over, the time
left that the bar shows is compared with the time that the rest really took.
Usage: LINKDIST_DATA=DIR python benchmarks/time_left.py
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from graphs import draw, load
from measure import write

from linkdist.data.graph import UNKNOWN, Graph
from linkdist.pipeline import GraphSource, Options, Tables, train
from linkdist.progress import Callback, TimeLeft

PAPERS = Path(__file__).parent.parent / "examples" / "papers"


class Clock(Callback):
    """Keeps the predictions of the stage 'training'."""

    def __init__(self):
        self.seen = []

    def stage(self, name):
        """Start the clock."""
        if name == "training":
            self.left, self.started = TimeLeft(), time.perf_counter()

    def progress(self, done, total):
        """Keep what the bar would show."""
        if hasattr(self, "left"):
            elapsed = time.perf_counter() - self.started
            self.seen.append((elapsed, self.left.seconds(done, total)))


def sources():
    """The trainings: two tables, and two of the paper's graphs with 100 and with 1,500 labels."""
    yield (
        "papers (1,200 nodes)",
        Tables(PAPERS / "nodes.csv", PAPERS / "links.csv", "paper", "field"),
    )
    for name, labels in (("cora", "100"), ("amazon-photo", "20%")):
        graph = load(name)
        train_nodes = draw(graph, labels, 0).train
        known = np.full(graph.n, UNKNOWN)
        known[train_nodes] = graph.labels[train_nodes]
        masked = Graph.build(graph.features, graph.links, known, graph.classes)
        yield f"{name}, {len(train_nodes)} labels", GraphSource(masked)


def main():
    """Measure, and write the table."""
    rows = []
    for name, source in sources():
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder:
            train(source, Path(folder, "model"), Options(device="cpu"), callback=clock)
        total = time.perf_counter() - clock.started
        for share in (0.1, 0.25, 0.5):
            elapsed, left = next(
                (e, left) for e, left in clock.seen if e >= share * total and left is not None
            )
            times = {"takes": total, "after": elapsed, "predicted": left, "real": total - elapsed}
            rows.append({"training": name, **{key: f"{t:.1f} s" for key, t in times.items()}})
    write("time_left", "python benchmarks/time_left.py", rows)


if __name__ == "__main__":
    main()
