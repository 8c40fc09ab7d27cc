"""A model that follows its graph: new nodes and links arrive, old ones are rehearsed.

Training on links needs no more than links and the features at their ends. So a model can be brought
up to date by further optimisation on what is new, beside a sample of what was there before, its
`Memory`, without touching every node again. α, β and the class weights come from the counts of all
that was ever seen. An update takes a fixed share of the steps that training anew on everything
would take.
"""

from __future__ import annotations

import numpy as np
import torch

from linkdist.coefficients import Tally, coefficients
from linkdist.errors import GraphError
from linkdist.fitting import Progress
from linkdist.graph import Graph
from linkdist.inference import Model
from linkdist.inputs import make_inputs
from linkdist.memory import LIMIT, Memory, joined_graph, resampled, whole_view
from linkdist.training import BATCH, loop_on_links

SHARE = 0.125
"""Steps of an update, as a share of training anew."""
RATE = 0.003
"""Adam's learning rate in an update: the weights are good already."""


def update(
    model: Model,
    memory: Memory,
    graph: Graph,
    *,
    method: str = "colinkdist",
    seed: int = 0,
    epochs: int | None = None,
    limit: int = LIMIT,
    progress: Progress | None = None,
) -> Memory:
    """Train a model further, in place, on new nodes and links beside its memory.

    Parameters
    ----------
    model : Model
        Its network is trained, its α replaced.
    memory : Memory
        Of what it was trained on.
    graph : Graph
        What is new: nodes, links among them, labels where known. Old nodes that new links lead
        to come along as nodes.
    method : {'colinkdist', 'linkdist'}
        As in training.
    seed : int, optional
        Of the order of links, Dropout and the new memory.
    epochs : int, optional
        Passes over new and remembered links; by default as many as make an eighth of the steps
        of training anew.
    limit : int, optional
        How many links the new memory holds.
    progress : callable, optional
        Called with epochs done and epochs in all.

    Returns
    -------
    Memory
        Of everything, the new included.
    """
    if graph.classes != model.classes:
        raise GraphError(
            f"an update must have the model's classes {', '.join(model.classes)}; "
            f"found {', '.join(graph.classes)}."
        )
    joined = joined_graph(memory.graph, graph)
    tally = memory.tally + Tally.of(whole_view(graph))
    network = model.network
    device, R = network.first.weight.device, network.first.weight.shape[0]
    view = whole_view(joined)
    seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(R)]
    by = coefficients([tally] * R, None, device)
    inputs = make_inputs(joined.features, device)
    loop = loop_on_links(network, inputs, [view] * R, seeds, by, method, rate=RATE)
    total = epochs if epochs is not None else _epochs(memory.schedule, tally, loop.steps)
    loop.run(total, None if progress is None else lambda epoch: progress(epoch + 1, total))
    with torch.no_grad():
        model.alpha.copy_(by.alpha)
    sample = resampled(memory, graph, joined, seed, limit)
    return Memory(sample, tally, memory.schedule)


def _epochs(schedule: int, tally: Tally, steps: int) -> int:
    anew = schedule * (tally.ends // 2) / BATCH  # steps
    return max(1, round(SHARE * anew / steps))
