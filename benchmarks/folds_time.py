"""Seconds of a default training from 100 labels: folds, estimates and baselines included.

pubmed, coauthor-cs and a made graph of 22,000 nodes, 170,000 links and 4,700 sparse features, by
`LinkDistClassifier().fit`, on a machine that does nothing else. Writes results/folds_time.md.
Usage: python benchmarks/folds_time.py
"""

import time

import numpy as np
import torch
from graphs import draw, load
from measure import RESULTS, commit, machine
from scipy import sparse

from linkdist import LinkDistClassifier
from linkdist.data.graph import Graph


def made(n=22_000, m=170_000, d=4_700, C=4, seed=0):
    """Nodes of four classes whose words and links tell a little of them."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, C, n)
    rows = np.repeat(np.arange(n), 14)
    own = random.integers(0, d // C, len(rows)) + labels[rows] * (d // C)
    words = np.where(random.random(len(rows)) < 0.3, own, random.integers(0, d, len(rows)))
    ones = np.ones(len(rows), dtype=np.float32)
    features = sparse.csr_matrix((ones, (rows, words)), (n, d))
    features.data[:] = 1
    pairs = random.integers(0, n, (3 * m, 2))
    like = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    links = pairs[like | (random.random(3 * m) < 0.15)][:m]
    return Graph.build(features, links, labels, name="made")


def main():
    rows = []
    for name in ("pubmed", "coauthor-cs", "made"):
        graph = made() if name == "made" else load(name)
        split = draw(graph, "100", seed=0, final=False)
        y = np.full(graph.n, -1)
        y[split.train] = graph.labels[split.train]
        started = time.perf_counter()
        model = LinkDistClassifier(device="cpu", random_state=0)
        model.fit(graph.features, y, edges=graph.links)
        took = time.perf_counter() - started
        new = model.estimates_.new_rows
        rows.append([name, graph.n, len(graph.links), graph.d, f"{took:.0f}",
                     f"{100 * new[0].value:.0f} / {100 * new[1].value:.0f}"])  # fmt: skip
        print(rows[-1], flush=True)
    head = ["graph", "nodes", "links", "features", "seconds", "estimate, features / links"]
    about = machine()
    lines = [
        f"`python benchmarks/folds_time.py` at {commit()}; {about['cpu']}; "
        f"PyTorch {about['torch']}.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + " --- |" * len(head),
        *("| " + " | ".join(map(str, row)) + " |" for row in rows),
    ]
    (RESULTS / "folds_time.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
