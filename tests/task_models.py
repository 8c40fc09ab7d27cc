"""Small models of every task, with relations, directions and weights, without a training."""

import numpy as np
import torch

from linkdist.data.links import Links
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP

TASKS = {
    "classification": ("left", "middle", "right"),
    "multilabel": ("even", "loop"),
    "regression": ("margin",),
}
RELATIONS = ("cites", "knows", "sells")

DECISIONS = {
    "classification": {},
    "multilabel": {"thresholds": {"features": [0.3, 0.6], "links": [0.7, 0.4]}},
    "regression": {"widths": {"features": 2.5, "links": 0.75}, "coverage": 0.9},
}


def task_model(task, relations=("links",), directed=False, R=2, d=4):
    """A model with random weights whose heads all differ, and α and κ that differ."""
    K = len(relations) * (2 if directed else 1)
    network = ForkedMLP(d, len(TASKS[task]), range(R), hidden=12, K=K)
    random = torch.manual_seed(K)
    with torch.no_grad():
        for part in network.state_dict().values():
            part.add_(torch.rand(part.shape, generator=random))
    alpha = 0.2 + torch.rand(R, K, generator=random)
    kappa = torch.linspace(0.5, 0.8, R)
    return Model(network, alpha, TASKS[task], kappa, task, relations, directed)


def about_task(task, **more):
    """What the model directory of such a model says about its training."""
    decision = {"decision": DECISIONS[task]} if DECISIONS[task] else {}
    return {"id": "node", "label": "target", "task": task, **decision, **more}


def random_links(n, relations=("links",), directed=False, weighted=False, count=12, seed=0):
    """Links between the first n - 1 of n nodes, with duplicates and self-loops."""
    random = np.random.default_rng(seed)
    pairs = random.integers(0, n - 1, (count, 2))
    pairs[-2:] = pairs[0], [1, 1]
    several = len(relations) > 1
    relation = random.integers(0, len(relations), count) if several else None
    weights = random.uniform(0.1, 9, count).astype(np.float32) if weighted else None
    if several:
        relation[-2] = relation[0]
    return Links(pairs, relation, weights, relations, directed)
