"""A model that follows its graph: new nodes and links arrive, old ones are rehearsed.

Training on links needs no more than links and the features at their ends. So a model can be brought
up to date by further optimisation on what is new, beside a sample of what was there before, its
`Memory`, without touching every node again. α, β and the class weights come from the counts of all
that was ever seen. An update takes a fixed share of the steps that training anew on everything
would take, averages the weights on its way, and ends with the average that does best on the nodes
that a replica held out, which may be the state it began with. A network that taught itself goes on
as CoLinkDist: its own word of new nodes, as targets, held it back.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.errors import GraphError
from linkdist.model import Model
from linkdist.nn.averaging import Average
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.progress import Progress
from linkdist.training.coefficients import Tally, coefficients
from linkdist.training.loop import BATCH, loop_on_links
from linkdist.training.replay import LIMIT, Mask, Memory, joined, resampled, whole_view
from linkdist.training.stages import Snapshot

SHARE = 0.06
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
    method : {'selflinkdist', 'colinkdist', 'linkdist'}
        As in training; SelfLinkDist goes on as CoLinkDist.
    seed : int, optional
        Of the order of links, Dropout and the new memory.
    epochs : int, optional
        Passes over new and remembered links; by default as many as make a small
        share of the steps of training anew.
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
    both = joined(memory, graph)
    whole, held = both
    new = resampled(memory, graph, both, seed, limit)
    network = model.network
    device, R = network.first.weight.device, network.first.weight.shape[0]
    views = [replace(whole_view(whole), labels=_without(whole.labels, row)) for row in held]
    seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(R)]
    by = coefficients([new.tally] * R, None, device)
    inputs = make_inputs(whole.features, device)
    average = Average(network)
    itself = method == "selflinkdist"
    loss = "colinkdist" if itself else method
    loop = loop_on_links(network, inputs, views, seeds, by, loss, rate=RATE, average=average)
    total = epochs if epochs is not None else _epochs(memory.schedule, new.tally, loop.steps)
    judge = Judge(average.network, inputs, whole.labels, held)

    def after_epoch(epoch: int) -> None:
        judge.look()
        if progress is not None:
            progress(epoch + 1, total)

    judge.look()
    loop.run(total, after_epoch)
    judge.restore()
    network.load_state_dict(average.network.state_dict())
    if not itself:  # whose α was chosen, not counted
        with torch.no_grad():
            model.alpha.copy_(by.alpha)
    return new


class Judge:
    """Keeps the best state of each replica, by its accuracy on the nodes that it holds out.

    Without held-out nodes it keeps nothing, and the last state stays.
    """

    def __init__(self, network: ForkedMLP, inputs: Inputs, labels: IntArray, held: Mask) -> None:
        self.network, self.inputs = network, inputs
        nodes = np.flatnonzero(held.any(axis=0))
        where = torch.from_numpy(nodes).to(inputs.device)
        self.rows = where.expand(len(held), 1, -1)
        self.truth = torch.from_numpy(labels[nodes]).to(inputs.device)
        self.counts = torch.from_numpy(held[:, nodes]).to(inputs.device)
        self.best = torch.full((len(held),), -1, device=inputs.device)
        self.kept = Snapshot(network)

    @torch.no_grad()
    def look(self) -> None:
        """Score the present state and keep it where it is the best; the later of two equals."""
        if not self.rows.numel():
            return
        z, _ = self.network(self.inputs, self.rows)
        hits = ((z.squeeze(1).argmax(-1) == self.truth) & self.counts).sum(-1)
        self.kept.keep(hits >= self.best)
        self.best = torch.maximum(self.best, hits)

    def restore(self) -> None:
        """Put the best state back."""
        if self.rows.numel():
            self.kept.restore()


def _without(labels: IntArray, held: Mask) -> IntArray:
    """Labels, those of held-out nodes unknown."""
    return np.where(held, UNKNOWN, labels)


def _epochs(schedule: int, tally: Tally, steps: int) -> int:
    anew = schedule * (tally.ends // 2) / BATCH  # steps
    return max(1, round(SHARE * anew / steps))
