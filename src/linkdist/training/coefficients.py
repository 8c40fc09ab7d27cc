"""What the loss takes from a view: α, β1, β2 and the class weights.

They are shares of counts, and counts can be added up: those of a graph that grows are the sum of
those of its parts, so that nobody has to look at the old part again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from linkdist.data.graph import IntArray
from linkdist.data.splits import View
from linkdist.errors import GraphError
from linkdist.nn.losses import Coefficients


@dataclass(frozen=True)
class Tally:
    """Counts of a view.

    Attributes
    ----------
    nodes, ends : int
        How many nodes there are, and how many ends the directed edges have.
    of_nodes, of_ends : (C,) int arrays
        How many training nodes each class has, and how many ends of edges touch them.
    """

    nodes: int
    ends: int
    of_nodes: IntArray
    of_ends: IntArray

    @classmethod
    def of(cls, view: View) -> Tally:
        """Count a view.

        Examples
        --------
        >>> from linkdist.data.graph import Graph
        >>> from linkdist.data.splits import Split, observe
        >>> graph = Graph.build([[1.0], [2.0], [3.0]], [(0, 1), (1, 2)], [0, 1, 0])
        >>> view = observe(graph, Split(*map(np.array, ([0], [1], [2]))), "transductive")
        >>> Tally.of(view)
        Tally(nodes=3, ends=8, of_nodes=array([1, 0]), of_ends=array([2, 0]))
        """
        ends = view.labels[view.edges]  # (e', 2)
        of_nodes = np.bincount(view.labels[view.train], minlength=view.C)
        of_ends = np.bincount(ends[ends >= 0], minlength=view.C)
        return cls(len(view.nodes), ends.size, of_nodes, of_ends)

    def __add__(self, other: Tally) -> Tally:
        """The counts of two parts together."""
        return Tally(
            self.nodes + other.nodes,
            self.ends + other.ends,
            self.of_nodes + other.of_nodes,
            self.of_ends + other.of_ends,
        )


def coefficients(
    views: Sequence[View | Tally], beta: float | None = None, device: torch.device | None = None
) -> Coefficients:
    """What the loss takes from each view.

    With r_n the share of nodes that are training nodes and r_e the share of edge endpoints that
    are: α = 1 - r_e; β1 = r_n and β2 = r_e, or β1 + β2 = `beta` in that ratio. Class weights
    w_c ∝ (training nodes of class c) / (their endpoints in the edges), scaled to sum to C.

    Examples
    --------
    >>> coefficients([Tally(3, 8, np.array([1, 0]), np.array([2, 0]))]).alpha
    tensor([0.7500])
    """
    tallies = [view if isinstance(view, Tally) else Tally.of(view) for view in views]
    rows = [_coefficients(tally, beta) for tally in tallies]
    alpha, beta1, beta2, weights = (
        torch.tensor(np.array(part), dtype=torch.float32, device=device)
        for part in zip(*rows, strict=True)
    )
    return Coefficients(alpha, beta1, beta2, weights)


def _coefficients(
    of: Tally, beta: float | None
) -> tuple[float, float, float, npt.NDArray[np.float64]]:
    known, labelled = int(of.of_ends.sum()), int(of.of_nodes.sum())
    if known == 0:
        raise GraphError(
            f"training needs a link that touches a labelled node; found {labelled} "
            f"labelled nodes and {of.ends // 2} directed edges that touch none of them. "
            "Add labels or links."
        )
    r_n, r_e = labelled / of.nodes, known / of.ends
    beta1, beta2 = (r_n, r_e) if beta is None else beta * np.array([r_n, r_e]) / (r_n + r_e)
    some = of.of_ends > 0
    weights = np.divide(of.of_nodes, of.of_ends, out=np.zeros(len(some)), where=some)
    return 1 - r_e, beta1, beta2, weights * len(some) / weights.sum()
