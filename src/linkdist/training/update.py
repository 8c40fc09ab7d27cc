"""Update a model with new nodes and links, beside a replay buffer of old ones.

Training on links only needs links and the features at their ends. So a model can be updated by
training on the new links together with a sample of the old ones, its `ReplayBuffer`, without
reading every node again. α, β and the class weights come from the counts of all data so far. An
update takes a fixed share of the steps of a new training, averages the weights, and ends with the
average that has the highest accuracy on the validation nodes of each replica; this may be the
initial state. A SelfLinkDist model is updated by CoLinkDist: its own predictions of new nodes, as
targets, made it worse.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.errors import GraphError
from linkdist.model import Model
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.nn.optim import Average
from linkdist.progress import Progress
from linkdist.training.history import Snapshot
from linkdist.training.link_task import Tally, coefficients, loop_on_links
from linkdist.training.loop import BATCH
from linkdist.training.replay import LIMIT, Mask, ReplayBuffer, joined, resampled, whole_view

SHARE = 0.06
"""Number of steps of an update, as a share of those of a new training."""
RATE = 0.003
"""Adam's learning rate in an update, lower than in training: the weights are good already."""


def update(
    model: Model,
    buffer: ReplayBuffer,
    graph: Graph,
    *,
    method: str = "colinkdist",
    seed: int = 0,
    epochs: int | None = None,
    limit: int = LIMIT,
    progress: Progress | None = None,
) -> ReplayBuffer:
    """Train a model further, in place, on new nodes and links and on its replay buffer.

    Parameters
    ----------
    model : Model
        Its weights are updated in place, and its α is replaced.
    buffer : ReplayBuffer
        A sample of the data that the model was trained on.
    graph : Graph
        The new nodes, the links among them, and the known labels. Old nodes at new links are
        included as nodes.
    method : {'selflinkdist', 'colinkdist', 'linkdist'}
        The method of the training; SelfLinkDist is updated by CoLinkDist.
    seed : int, optional
        Random seed for the order of links, Dropout and the new replay buffer.
    epochs : int, optional
        Passes over new and old links; by default a small share of the steps of a new training.
    limit : int, optional
        Number of links in the new replay buffer.
    progress : callable, optional
        Called with the number of completed epochs and the total number of epochs.

    Returns
    -------
    ReplayBuffer
        A sample of all data, including the new.
    """
    if graph.classes != model.classes:
        raise GraphError(
            f"an update must have the model's classes {', '.join(model.classes)}; "
            f"found {', '.join(graph.classes)}."
        )
    both = joined(buffer, graph)
    whole, held = both
    new = resampled(buffer, graph, both, seed, limit)
    network = model.network
    device, R = network.first.weight.device, network.first.weight.shape[0]
    views = [
        replace(whole_view(whole), labels=np.where(row, UNKNOWN, whole.labels)) for row in held
    ]
    seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(R)]
    by = coefficients([new.tally] * R, None, device)
    inputs = make_inputs(whole.features, device)
    average = Average(network)
    itself = method == "selflinkdist"
    loss = "colinkdist" if itself else method
    loop = loop_on_links(network, inputs, views, seeds, by, loss, rate=RATE, average=average)
    total = epochs if epochs is not None else _epochs(buffer.schedule, new.tally, loop.steps)
    selection = Selection(average.network, inputs, whole.labels, held)

    def after_epoch(epoch: int) -> None:
        selection.evaluate()
        if progress is not None:
            progress(epoch + 1, total)

    selection.evaluate()
    loop.run(total, after_epoch)
    selection.restore()
    network.load_state_dict(average.network.state_dict())
    if not itself:  # calibration chose the α of SelfLinkDist
        with torch.no_grad():
            model.alpha.copy_(by.alpha)
    return new


class Selection:
    """Keeps the best weights of each replica by its accuracy on its validation nodes.

    Without validation nodes, the last weights stay.
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
    def evaluate(self) -> None:
        """Score the current weights, and keep them if they are at least as good as the best."""
        if not self.rows.numel():
            return
        z, _ = self.network(self.inputs, self.rows)
        hits = ((z.squeeze(1).argmax(-1) == self.truth) & self.counts).sum(-1)
        self.kept.keep(hits >= self.best)
        self.best = torch.maximum(self.best, hits)

    def restore(self) -> None:
        """Copy the best weights back into the network."""
        if self.rows.numel():
            self.kept.restore()


def _epochs(schedule: int, tally: Tally, steps: int) -> int:
    new_training = schedule * (tally.ends // 2) / BATCH  # steps
    return max(1, round(SHARE * new_training / steps))
