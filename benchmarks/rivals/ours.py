"""SelfLinkDist and CoLinkDist with their defaults; all seeds are replicas of one training.

For two classes and for numbers, the option `metric` of SelfLinkDist is the measure that is
reported, so that it chooses by the same measure as all rivals.
"""

import torch

from linkdist.model import logits
from linkdist.nn.aggregation import relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.training.fit import fit


def trained(problems, method, device):
    """The replicas of a method, one for each problem of the same graph."""
    graph, seeds = problems[0].graph, [problem.seed for problem in problems]
    inputs = make_inputs(graph.features, device)
    metric = problems[0].measure if method == "selflinkdist" else None
    splits = [problem.split for problem in problems]
    return fit(
        graph,
        splits,
        "production",
        method=method,
        seeds=seeds,
        inputs=inputs,
        device=device.type,
        metric=None if metric == "accuracy" else metric,
    )


@torch.no_grad()
def test_predictions(found, problems, device):
    """Predictions of each problem's test nodes, from features and with links."""
    graph, model = problems[0].graph, found.model
    z, s = logits(model.network, found.inputs)
    linked = model.with_neighbours(z, s, relations_of(graph, graph.n, device))
    return {
        mode: [
            model.output.mean(outputs[r])[problem.split.test].cpu().numpy()
            for r, problem in enumerate(problems)
        ]
        for mode, outputs in (("features", z), ("links", linked))
    }
