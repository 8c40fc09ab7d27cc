"""Baselines of the panel's estimates, scored on the same validation nodes.

The linear teachers and label spreading are baselines too. This module adds the largest class, and
CoLinkDist, the paper's method, on a short schedule.
"""

from __future__ import annotations

import numpy as np

from linkdist.model import logits, message_passing
from linkdist.nn.network import ForkedMLP
from linkdist.training.link_task import Tally, coefficients, loop_on_links
from linkdist.training.panel.ensemble import Predictions, TeacherEnsemble, rows_of
from linkdist.training.panel.teachers import masks

LARGEST = "largest class"
VISITS = 10
"""How often CoLinkDist visits each node: a short schedule, since it is only a baseline."""


def largest_class(ensemble: TeacherEnsemble) -> Predictions:
    """Predict the most frequent class among the known labels of each replica."""
    C, found = ensemble.graph.C, [np.empty((0, ensemble.graph.C))]
    for place in ensemble.scored:
        replica = ensemble.replicas[place]
        counts = np.bincount(replica.view.labels[replica.view.train], minlength=C)
        shares = np.log((counts + 1.0) / (counts + 1.0).sum())
        found.append(np.broadcast_to(shares, (len(replica.validation), C)))
    return Predictions(np.concatenate(found), ensemble.labels(ensemble.scored))


def colinkdist(ensemble: TeacherEnsemble, visits: int = VISITS) -> dict[str, Predictions]:
    """CoLinkDist on the views of the scored replicas, from features and with links.

    The result is empty if a view has no link at a labelled node: the paper's loss needs one.
    """
    graph, device = ensemble.graph, ensemble.context.device
    replicas = [ensemble.replicas[place] for place in ensemble.scored]
    views = [replica.view for replica in replicas]
    tallies = [Tally.of(view) for view in views]
    if not views or any(tally.of_ends.sum() == 0 for tally in tallies):
        return {}
    by, seeds = coefficients(tallies, None, device), [replica.seed for replica in replicas]
    network = ForkedMLP(graph.d, graph.C, seeds).to(device)
    epochs = visits / graph.degree
    inputs = ensemble.context.inputs
    loop = loop_on_links(network, inputs, views, seeds, by, "colinkdist", epochs=epochs)
    loop.run(epochs)
    z, s = logits(network, inputs)
    present = masks([replica.present for replica in replicas], graph.n).to(device)
    linked = message_passing(z, s, ensemble.context.among(present), by.alpha)
    labels, nodes = ensemble.labels(ensemble.scored), [replica.validation for replica in replicas]
    both = {"CoLinkDist": z, "CoLinkDist, with links": linked}
    return {
        name: Predictions(np.concatenate(rows_of(scores.log_softmax(-1), nodes)), labels)
        for name, scores in both.items()
    }
