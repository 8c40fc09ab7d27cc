"""Baselines that are not among the teachers: the largest class or the mean, and CoLinkDist."""

from __future__ import annotations

import itertools

import numpy as np

from linkdist.model import logits, message_passing
from linkdist.nn.network import ForkedMLP
from linkdist.progress import Progress
from linkdist.training.link_task import Tally, coefficients, loop_on_links
from linkdist.training.panel.ensemble import Predictions, TeacherEnsemble, rows_of

TICKS = 10
"""How often the training of a baseline reports its progress."""
VISITS = 10
"""How often CoLinkDist visits each node: a short schedule, since it is only a baseline."""


def largest_class(ensemble: TeacherEnsemble) -> Predictions:
    """Predict the most frequent class, or the mean, of the known labels of each replica."""
    C, scores = ensemble.graph.C, [np.empty((0, ensemble.graph.C))]
    for replica in (ensemble.replicas[r] for r in ensemble.scored):
        labels = replica.view.labels[replica.view.train]
        if ensemble.graph.task == "regression":
            simplest = np.array([labels.mean()])
        else:
            simplest = ensemble.family.prior(labels, C)
        scores.append(np.broadcast_to(simplest, (len(replica.validation), C)))
    return Predictions(np.concatenate(scores), ensemble.labels(ensemble.scored))


def colinkdist(
    ensemble: TeacherEnsemble, progress: Progress | None = None, visits: int = VISITS
) -> dict[str, Predictions]:
    """CoLinkDist on the views of the scored replicas, from features and with links.

    The result is empty if a view has no link at a labelled node: the paper's loss needs one.
    """
    graph, context = ensemble.graph, ensemble.context
    replicas = [ensemble.replicas[r] for r in ensemble.scored]
    views, seeds = [replica.view for replica in replicas], [replica.seed for replica in replicas]
    tallies = [Tally.of(view) for view in views]
    if not views or any(tally.of_ends.sum() == 0 for tally in tallies):
        return {}
    weights = coefficients(tallies, None, context.device)
    K = len(graph.heads)
    network = ForkedMLP(graph.d, graph.C, seeds, K=K).to(context.device)
    epochs = visits / graph.degree
    loop = loop_on_links(
        network, context.inputs, views, seeds, weights, "colinkdist", epochs=epochs
    )
    ticks = itertools.count(1)
    loop.run(
        epochs,
        evaluate=lambda: progress(min(next(ticks), TICKS), TICKS) if progress else None,
        evaluations=max(1, round(TICKS / epochs)),
    )
    z, s = logits(network, context.inputs)
    taught = [ensemble.view_of[r] for r in ensemble.scored]
    links = context.among([replica.present for replica in replicas], taught)
    alpha = weights.alpha.unsqueeze(1).repeat(1, K) / K
    modes = {"CoLinkDist": z, "CoLinkDist, with links": message_passing(z, s, links, alpha)}
    labels, nodes = ensemble.labels(ensemble.scored), [replica.validation for replica in replicas]
    return {
        name: Predictions(np.concatenate(rows_of(scores.log_softmax(-1), nodes)), labels)
        for name, scores in modes.items()
    }
