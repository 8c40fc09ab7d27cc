"""The groups of methods that are measured together.

A group computes the records of several methods for all seeds of one graph and number of labels,
because they share work: a student needs its teacher, self-training its logistic regression.
"""

import time
from functools import partial

import torch

from rivals import ours
from rivals.linear import linear, self_training
from rivals.names import LINKED, OURS
from rivals.networks import Trainer
from rivals.propagation import correct_and_smooth, propagation
from rivals.trees import averaged_trees, spread_then_trees, trees


def _of_each_seed(compute):
    """A group that computes the methods of one problem after the other.

    `compute(problem, device)` yields names and chosen models.
    """

    def group(problems, device):
        records = {}
        for problem in problems:
            started = time.perf_counter()
            for name, chosen in compute(problem, device):
                took = time.perf_counter() - started
                found = problem.test_score(chosen.test_predictions(problem))
                record = records.setdefault(name, {"scores": [], "settings": [], "seconds": []})
                record["scores"].append(round(found, 4))
                record["settings"].append(chosen.setting)
                record["seconds"].append(round(took, 3))
                started = time.perf_counter()
        return records

    return group


def _linear(problem, device):
    base = linear(problem)
    yield "linear model", base
    if problem.graph.task != "regression":
        yield "self-training", self_training(problem, base)


def _networks(problem, device):
    trainer = Trainer(problem, device)
    mlp = trainer.supervised("MLP")
    yield "MLP", mlp
    for teacher, student in (("GraphSAGE", "GLNN"), ("GCN", "GCN2MLP")):
        chosen = trainer.supervised(teacher)
        yield teacher, chosen
        yield student, trainer.student(chosen)
    if problem.graph.task != "regression":
        yield "Correct & Smooth", correct_and_smooth(problem, mlp, device)


def _alone(name, method, problem, device):
    yield name, method(problem)


def _ours(method, names, problems, device):
    """The records of our methods, whose seeds are trained together."""
    if method == "colinkdist" and problems[0].graph.task == "regression":
        return {}
    found = ours.trained(problems, method, device)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = [round(found.seconds / len(problems), 3)] * len(problems)
    p = ours.test_predictions(found, problems, device)
    return {
        name: {
            "scores": [
                round(problem.test_score(part), 4)
                for problem, part in zip(problems, p[mode], strict=True)
            ],
            "settings": [{}] * len(problems),
            "seconds": seconds,
        }
        for mode, name in names.items()
    }


GROUPS = {
    "selflinkdist": partial(_ours, "selflinkdist", {"features": OURS, "links": LINKED}),
    "colinkdist": partial(_ours, "colinkdist", {"features": "CoLinkDist"}),
    "networks": _of_each_seed(_networks),
    "linear": _of_each_seed(_linear),
    "trees": _of_each_seed(partial(_alone, "LightGBM", trees)),
    "averages": _of_each_seed(partial(_alone, "LightGBM on averages", averaged_trees)),
    "spreading": _of_each_seed(
        partial(_alone, "label spreading, then LightGBM", spread_then_trees)
    ),
    "propagation": _of_each_seed(partial(_alone, "label propagation", propagation)),
}
