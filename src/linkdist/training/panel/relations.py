"""Links of several relations: what each is worth, and a teacher that keeps them apart.

Most teachers do not distinguish relations. They average over all links, where a link of relation k
counts γ_k: the gain in the quality of predictions that the links of k alone give, relative to the
best relation. A relation that says nothing, or misleads, has γ_k = 0. The relational teacher has
its own weights for the neighbours of each head, so that it can use links that join unlike nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import Graph
from linkdist.nn.aggregation import VisibleNeighbours
from linkdist.training.panel.ensemble import Replica, TeacherEnsemble
from linkdist.training.panel.estimators import LabelSpreading
from linkdist.training.panel.likelihood import Array
from linkdist.training.panel.teachers import (
    LINEAR,
    STORED,
    Teacher,
    TeachingContext,
    averaged_rows,
    fit_rows,
    linear_map_of_rows,
    linear_teachers,
    unscaled,
)


class Relational(Teacher):
    """A linear model on the features beside their means over the neighbours of each head.

    Parameters
    ----------
    weights : sequence of (T, d, C) tensors
        Those of the features, then of the means of each head.
    bias : (T, 1, C) tensor
        The bias.
    context : TeachingContext
        The training data.
    """

    def __init__(self, weights: Sequence[Tensor], bias: Tensor, context: TeachingContext) -> None:
        self.weights, self.bias, self.context = weights, bias, context
        self.name = f"{LINEAR[context.graph.task]} on 1-hop averages of each relation"

    def scores(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Scores (T', n, C)."""
        index = torch.as_tensor(views, device=self.bias.device)
        own, *heads = (self.context.project(weight[index]).contiguous() for weight in self.weights)
        z = own + self.bias[index]
        for k, part in enumerate(heads):
            z = z + links.head_mean(k, part)
        return self.context.task.natural(z)


def relational_teachers(context: TeachingContext) -> list[Relational]:
    """Relational teachers, one for each value of C; none if their rows are too large."""
    K, links = len(context.graph.heads), context.seen
    T, m = context.rows.shape
    if T * m * (K + 1) * context.graph.d > STORED[context.device.type]:
        return []
    rows = [averaged_rows(context, 0)]
    for k in range(K):
        both = partial(links.head_mean, k), partial(links.head_mean_transposed, k)
        rows.append(linear_map_of_rows(context, *both))
    stored = [part for part in rows if part is not None]
    if len(stored) <= K:
        return []
    mean, spread = context.centre
    x = torch.cat([(part - mean) / spread for part in stored], dim=-1)
    parameters = fit_rows(context, x, 1)  # (A T, (K + 1) d + 1, C)
    blocks = parameters[:, :-1].split(context.graph.d, dim=1)
    nothing = torch.zeros_like(parameters[:, -1:])
    parts = [unscaled(context, torch.cat([block, nothing], dim=1)) for block in blocks]
    bias = parameters[:, -1:].split(T)
    return [
        Relational(
            [weights[a] for _, weights, _ in parts],
            bias[a] + sum(shift[a] for _, _, shift in parts),
            context,
        )
        for a in range(len(context.penalties))
    ]


def choose_strengths(graph: Graph, replicas: Sequence[Replica], context: TeachingContext) -> Array:
    """γ (T, K) of each view: how much a link of each head counts for the teachers.

    The links of one head alone are used by a linear model on one-hop averages and by label
    spreading; the better of the two counts. Its gain over the features alone, on the validation
    nodes that calibrate a view, is divided by the gain of the best head. Without validation nodes,
    or without any gain, all links count alike.
    """
    K, T = len(graph.heads), len(context.views)
    quality = []
    for k in range(K):
        context.strengths = torch.zeros(T, K, device=context.device)
        context.strengths[:, k] = 1
        groups: list[Sequence[Teacher]] = [*linear_teachers(context, (1,))]
        groups.append([LabelSpreading(context)])
        quality.append(np.max(qualities(graph, replicas, context, groups), axis=0))
    context.strengths = torch.zeros(T, K, device=context.device)
    alone = qualities(graph, replicas, context, linear_teachers(context, (0,)))[0]
    return strengths_of(np.array(quality) - alone, replicas)


def strengths_of(gain: Array, replicas: Sequence[Replica]) -> Array:
    """γ (T, K) of each view, from the gain (K, replicas) of each head on validation nodes."""
    taught = sorted({replica.taught_by for replica in replicas})
    strengths = np.ones((len(taught), len(gain)))
    for t, r in enumerate(taught):
        calibrators = list(replicas[r].calibrated_by)
        total = gain[:, calibrators].sum(axis=1)
        if calibrators and total.max() > 0:
            strengths[t] = np.clip(total / total.max(), 0, 1)
    return strengths


def qualities(
    graph: Graph,
    replicas: Sequence[Replica],
    context: TeachingContext,
    groups: Sequence[Sequence[Teacher]],
) -> Array:
    """The summed quality (groups, replicas) of each group on each replica's validation nodes."""
    ensemble = TeacherEnsemble(graph, replicas, context, groups)
    found = np.zeros((len(groups), len(replicas)))
    for g in range(len(groups)):
        scores = ensemble.predictions(g)
        quality = context.family.quality(scores.scores, scores.labels)
        ends = np.cumsum([len(replicas[r].validation) for r in ensemble.scored])
        parts = np.split(quality, ends[:-1]) if len(ends) else []
        for r, part in zip(ensemble.scored, parts, strict=True):
            found[g, r] = part.sum()
    return found
