"""Several relations of links: what each is worth, and a teacher that keeps them apart.

As in memory (`training.panel.relations`), averages over all links count a link of head k with γ_k,
the gain that its links alone give over features. Here the gain is that of a linear model on
one-hop averages; label spreading along each head would need 30 passes over the links for each. The
relational teacher is a linear model on the features beside their means over the neighbours of each
head.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import IntArray
from linkdist.distributed.panel.averages import Blocks
from linkdist.distributed.panel.columns import Columns
from linkdist.distributed.panel.sample import Sample
from linkdist.distributed.panel.teachers import (
    OnAverages,
    PartRows,
    feature_teachers,
    fit_linear_rows,
)
from linkdist.training.panel.likelihood import Array
from linkdist.training.panel.relations import qualities, strengths_of
from linkdist.training.panel.teachers import LINEAR, STORED, TeachingContext


def choose_strengths(
    context: TeachingContext,
    sample: Sample,
    base: Blocks,
    heads: Sequence[Sequence[Blocks]],
    degrees: Sequence[Columns],
    standard: tuple[Tensor, Tensor],
) -> Array:
    """γ (T, K) of each view: how much a link of each head counts for the teachers.

    Parameters
    ----------
    context : TeachingContext
        The sample.
    sample : Sample
        The labelled rows and the replicas.
    base : Blocks
        The features.
    heads : sequence of sequences of Blocks
        For each view, the means over the neighbours of each head.
    degrees : sequence of Columns
        For each view, the degrees of each head.
    standard : pair of (T, 1, f) tensors
        What columns are centred and divided by in each view.
    """
    labelled = sample.labelled
    numbers = sample.numbers(labelled)
    own, device = base.rows(numbers), context.device
    quality = []
    for k in range(len(heads[0])):
        rows = []
        for means, degree in zip(heads, degrees, strict=True):
            count = degree.rows(numbers)[:, k : k + 1]
            rows.append(((own + count * means[k].rows(numbers)) / (count + 1)).to(device))
        fitted = fit_linear_rows(context, rows, labelled, standard)
        teachers = [OnAverages(one, 1, context, (), rows, labelled) for one in fitted]
        quality.append(qualities(context.graph, sample.replicas, context, [teachers])[0])
    alone = qualities(context.graph, sample.replicas, context, [feature_teachers(context)])[0]
    return strengths_of(np.array(quality) - alone, sample.replicas)


class OnHeads(OnAverages):
    """A linear model on the features beside their means over the neighbours of each head."""

    def __init__(
        self,
        fitted: tuple[float, Tensor, Tensor],
        context: TeachingContext,
        columns: Sequence[Sequence[Blocks]],
        rows: Sequence[Tensor],
        labelled: IntArray,
    ) -> None:
        super().__init__(fitted, 1, context, (), rows, labelled)
        self.columns = columns
        self.name = f"{LINEAR[context.graph.task]} on 1-hop averages of each relation"

    def part_scores(self, view: int, links: int, rows: PartRows) -> Tensor:
        """Scores (k, C)."""
        columns = torch.cat([rows.read(blocks) for blocks in self.columns[links]], dim=1)
        return self._natural(view, columns)


def relational_teachers(
    context: TeachingContext,
    sample: Sample,
    base: Blocks,
    heads: Sequence[Sequence[Blocks]],
    standard: tuple[Tensor, Tensor],
) -> list[OnHeads]:
    """Relational teachers, one for each value of C; none if their rows are too large."""
    numbers, K = sample.numbers(sample.labelled), len(heads[0])
    if len(heads) * len(numbers) * (K + 1) * base.width > STORED[context.device.type]:
        return []
    columns = [[base, *means] for means in heads]
    rows = [torch.cat([one.rows(numbers) for one in each], dim=1) for each in columns]
    rows = [part.to(context.device) for part in rows]
    tiled = tuple(part.repeat(1, 1, K + 1) for part in standard)
    fitted = fit_linear_rows(context, rows, sample.labelled, (tiled[0], tiled[1]))
    return [OnHeads(one, context, columns, rows, sample.labelled) for one in fitted]
