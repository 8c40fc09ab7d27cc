"""The teachers of the panel for a store.

They are those of a graph in memory (`training.panel.teachers`, `.estimators`), and are fitted to
labelled rows of the sample in the same way. What differs is where averages over links come from:
from the arrays of `averages`, which contain all nodes. So a teacher predicts the rows of the
sample, to be calibrated and weighted, and the rows of any part, to make targets.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from linkdist.data.graph import FeatureMatrix, IntArray
from linkdist.distributed.panel.averages import Blocks
from linkdist.nn.aggregation import VisibleNeighbours
from linkdist.training.panel.estimators import (
    Estimator,
    boosting_template,
    spread_scores,
)
from linkdist.training.panel.teachers import (
    Linear,
    Teacher,
    TeachingContext,
    fit_rows,
    linear_teachers,
    unscaled,
)


@dataclass(frozen=True)
class ViewArrays:
    """The arrays of a view: averages over hops, spread labels, and means over neighbours.

    Attributes
    ----------
    hops : mapping of int to Blocks
        Features averaged over 1, 2 and many hops.
    flow : Blocks
        Labels that spread along links.
    prior : (1, C) tensor
        The mean label.
    scale : float
        What the spread labels were multiplied by, so that float16 represents them.
    means : sequence of Blocks
        Means over neighbours, and the means of these; only for gradient boosting.
    """

    hops: Mapping[int, Blocks]
    flow: Blocks
    prior: Tensor
    scale: float = 1.0
    means: Sequence[Blocks] = ()


@dataclass(frozen=True)
class PartRows:
    """Some rows of a part.

    Attributes
    ----------
    part : int
        The part.
    rows : slice
        The rows.
    features : (k, d) array or CSR matrix
        Their features.
    device : torch.device
        Where they are predicted.
    """

    part: int
    rows: slice
    features: Any
    device: torch.device

    def read(self, blocks: Blocks) -> Tensor:
        """Their rows of an array."""
        return blocks.read(self.part, self.rows, self.device)


class StoreTeacher(Teacher):
    """A teacher that can predict any rows of a store."""

    @abstractmethod
    def part_scores(self, view: int, links: int, rows: PartRows) -> Tensor:
        """Scores (k, C) of some rows of a part.

        Parameters
        ----------
        view : int
            The view whose parameters are used.
        links : int
            The view whose averages are used: another one may see more nodes.
        rows : PartRows
            The rows.
        """


class OnFeatures(Linear, StoreTeacher):
    """A linear model on features."""

    def part_scores(self, view: int, links: int, rows: PartRows) -> Tensor:
        """Scores (k, C)."""
        context, weight = self.context, self.weight[view]
        if sparse.issparse(rows.features):
            z = torch.from_numpy(rows.features @ weight.cpu().numpy()).to(weight)
            z = z * _scale(context, rows.features).to(weight)
        else:
            z = torch.from_numpy(rows.features).to(weight.device).float() @ weight
        return context.task.natural(z + self.bias[view])


def _scale(context: TeachingContext, x: sparse.csr_matrix) -> Tensor:
    """The factors (k, 1) of `TeachingContext.scale` for other rows."""
    if context.graph.task == "regression":
        return context.scale[:1]
    length = np.sqrt(np.asarray(x.multiply(x).sum(1)))
    inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
    return torch.from_numpy(inverse.astype(np.float32))


class OnAverages(Linear, StoreTeacher):
    """A linear model on features averaged over hops.

    Parameters
    ----------
    fitted : tuple
        C, W (T, f, C) and b (T, 1, C).
    hop : int
        The number of hops.
    context : TeachingContext
        The sample.
    arrays : sequence of ViewArrays
        One for each view.
    rows : sequence of (k, f) tensors
        The averages of the labelled rows for each view.
    labelled : (k,) int array
        The labelled rows.
    """

    def __init__(
        self,
        fitted: tuple[float, Tensor, Tensor],
        hop: int,
        context: TeachingContext,
        arrays: Sequence[ViewArrays],
        rows: Sequence[Tensor],
        labelled: IntArray,
    ) -> None:
        super().__init__(hop, *fitted, context)
        self.arrays, self.rows, self.labelled = arrays, rows, labelled

    def scores(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Scores (T', n, C) of the sample; 0 for rows that are not labelled."""
        graph, device = self.context.graph, self.weight.device
        found = torch.zeros(len(views), graph.n, graph.C, device=device)
        at = torch.from_numpy(self.labelled).to(device)
        for row, view in zip(found, views, strict=True):
            row[at] = self._natural(view, self.rows[view])
        return found

    def part_scores(self, view: int, links: int, rows: PartRows) -> Tensor:
        """Scores (k, C)."""
        return self._natural(view, rows.read(self.arrays[links].hops[self.hops]))

    def _natural(self, view: int, rows: Tensor) -> Tensor:
        z = rows.to(self.weight) @ self.weight[view] + self.bias[view]
        return self.context.task.natural(z)


def averaged_teachers(
    context: TeachingContext,
    hop: int,
    arrays: Sequence[ViewArrays],
    numbers: IntArray,
    labelled: IntArray,
    standard: tuple[Tensor, Tensor],
) -> list[OnAverages]:
    """Linear models on averages over some hops, one for each value of C.

    Parameters
    ----------
    context : TeachingContext
        The sample.
    hop : int
        The number of hops.
    arrays : sequence of ViewArrays
        One for each view.
    numbers, labelled : int arrays
        The labelled rows: their numbers in the store, and their places in the sample.
    standard : pair of (T, 1, f) tensors
        What columns are centred and divided by in each view.
    """
    rows = [view.hops[hop].rows(numbers).to(context.device) for view in arrays]
    fitted = fit_linear_rows(context, rows, labelled, standard)
    return [OnAverages(one, hop, context, arrays, rows, labelled) for one in fitted]


def fit_linear_rows(
    context: TeachingContext,
    rows: Sequence[Tensor],
    labelled: IntArray,
    standard: tuple[Tensor, Tensor],
) -> list[tuple[float, Tensor, Tensor]]:
    """C with W (T, f, C) and b (T, 1, C) for each penalty, fitted to labelled rows.

    Parameters
    ----------
    context : TeachingContext
        The sample.
    rows : sequence of (k, f) tensors
        The columns of the labelled rows in each view.
    labelled : (k,) int array
        Their places in the sample.
    standard : pair of (T, 1, f) tensors
        What columns are centred and divided by in each view.
    """
    (mean, spread), (T, m) = standard, context.rows.shape
    x = torch.zeros(T, m, rows[0].shape[1], device=context.device)
    place = np.zeros(context.graph.n, dtype=np.int64)
    place[labelled] = np.arange(len(labelled))
    for t, view in enumerate(context.views):
        x[t, : len(view.train)] = rows[t][torch.from_numpy(place[view.train]).to(context.device)]
    parameters = fit_rows(context, (x - mean) / spread, 1)  # (A T, f + 1, C)
    return list(zip(*unscaled(context, parameters, (mean, spread)), strict=True))


class Spreading(StoreTeacher):
    """Labels that spread along links."""

    name = "label spreading"

    def __init__(
        self,
        context: TeachingContext,
        arrays: Sequence[ViewArrays],
        numbers: IntArray,
        labelled: IntArray,
    ) -> None:
        self.context, self.arrays, self.labelled = context, arrays, labelled
        self.rows = [view.flow.rows(numbers) for view in arrays]

    def scores(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Scores (T', n, C) of the sample; 0 for rows that are not labelled."""
        graph, device = self.context.graph, self.context.device
        found = torch.zeros(len(views), graph.n, graph.C, device=device)
        at = torch.from_numpy(self.labelled).to(device)
        for row, view in zip(found, views, strict=True):
            row[at] = self._scores(view, self.rows[view])
        return found

    def part_scores(self, view: int, links: int, rows: PartRows) -> Tensor:
        """Scores (k, C)."""
        return self._scores(view, rows.read(self.arrays[view].flow))

    def _scores(self, view: int, flow: Tensor) -> Tensor:
        device, own = self.context.device, self.arrays[view]
        flow = flow.to(device) / own.scale
        return spread_scores(flow, own.prior.to(device), self.context.graph.task)


class Boosting(Estimator, StoreTeacher):
    """Gradient boosting on features and, with two hops, on their means over neighbours."""

    def __init__(
        self,
        context: TeachingContext,
        hops: int,
        arrays: Sequence[ViewArrays],
        numbers: IntArray,
        labelled: IntArray,
    ) -> None:
        self.arrays, self.numbers, self.labelled = arrays, numbers, labelled
        kind = "2-hop averages" if hops else "features"
        template = boosting_template(context)
        super().__init__(context, template, f"gradient boosting on {kind}", hops)

    def _columns(self, links: VisibleNeighbours) -> Sequence[FeatureMatrix]:
        """The columns of the sample for each view; those of rows without a label are 0."""
        graph = self.context.graph
        if not self.hops:
            return [graph.features] * len(links.visible)
        return [self._of_view(view) for view in range(len(self.arrays))]

    def _of_view(self, view: int) -> FeatureMatrix:
        graph = self.context.graph
        own = np.asarray(graph.features)
        means = [blocks.rows(self.numbers).numpy() for blocks in self.arrays[view].means]
        found = np.zeros((graph.n, own.shape[1] * (1 + len(means))), np.float32)
        found[self.labelled] = np.concatenate([own[self.labelled], *means], axis=1)
        return found

    def scores(self, views: Sequence[int], links: VisibleNeighbours) -> Tensor:
        """Scores (T', n, C) of the sample."""
        columns = self._columns(links)
        chosen = [columns[view if self.hops else 0] for view in views]
        return self.predict(views, chosen)

    def part_scores(self, view: int, links: int, rows: PartRows) -> Tensor:
        """Scores (k, C)."""
        columns = [np.asarray(rows.features, np.float32)]
        if self.hops:
            columns += [rows.read(blocks).cpu().numpy() for blocks in self.arrays[links].means]
        return self.predict([view], [np.concatenate(columns, axis=1)])[0]


def feature_teachers(context: TeachingContext) -> list[OnFeatures]:
    """Linear models on features, one for each value of C."""
    return [
        OnFeatures(0, one.strength, one.weight, one.bias, context)
        for one in linear_teachers(context, (0,))[0]
    ]
