"""Features averaged over hops, and labels spread along links, for all nodes of a store.

The teachers of a graph in memory average the features of labelled nodes only, which needs all nodes
at once. Here the features of all nodes are averaged once, and every teacher reads them: over one
hop, over two, and by personalised PageRank, as in `training.panel.teachers.averaged`. Labels spread
as in `training.panel.estimators.LabelSpreading`.

A view may hide nodes. A hidden node contributes to no average and passes on no label, but it has
averages itself, over its visible neighbours: that is how a new row is predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import IntArray
from linkdist.distributed.panel.columns import Columns
from linkdist.distributed.panel.workshop import Hidden, Rows, Seen, Update, Workshop
from linkdist.training.panel.estimators import SPREADING, STEPS
from linkdist.training.panel.teachers import HOPS, RESTART

ONE, TWO, MANY = HOPS[1:]
STEPS_OF_VIEW = 2 + MANY
"""Number of arrays that `average_hops` writes for each block."""


@dataclass(frozen=True)
class Blocks:
    """An array whose columns are divided into blocks.

    Attributes
    ----------
    parts : sequence of Columns
        The blocks.
    """

    parts: Sequence[Columns]

    @property
    def width(self) -> int:
        """Number of columns of all blocks."""
        return sum(part.width for part in self.parts)

    def rows(self, nodes: IntArray) -> Tensor:
        """The values (k, width) of some nodes, given by sorted node numbers."""
        return torch.cat([block.rows(nodes) for block in self.parts], dim=1)

    def read(self, part: int, rows: slice, device: torch.device) -> Tensor:
        """The values of some rows of a part on a device, in float32."""
        found = [block.read(part)[rows].to(device).float() for block in self.parts]
        return torch.cat(found, dim=1)


def degrees(workshop: Workshop, name: str, hidden: Hidden) -> Columns:
    """The number of visible neighbours of each node, or the sum of their weights, for each head."""
    adjacency = workshop.adjacency
    found = workshop.columns(name, len(adjacency.heads), "float32")

    def visible(part: int) -> Tensor:
        ones = torch.ones(workshop.store.manifest.sizes[part], 1, dtype=torch.float16)
        ones[torch.from_numpy(np.asarray(hidden.get(part, []), dtype=np.int64))] = 0
        return ones.to(workshop.device)

    def count(a: int) -> Tensor:
        return torch.cat([adjacency.sums(a, visible, head) for head in adjacency.heads], dim=1)

    workshop.fill(found, count)
    return found


class Means:
    """Sums over neighbours, divided by degrees."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def smooth(self, rows: Rows, sums: Tensor) -> Tensor:
        """The mean of a node and its neighbours."""
        return sums.add_(rows.own).div_(self.seen.total(rows) + 1)

    def mean(self, rows: Rows, sums: Tensor) -> Tensor:
        """The mean over neighbours, 0 without any."""
        return sums.div_(self.seen.total(rows).clamp(min=1e-12))


def average_hops(workshop: Workshop, base: Blocks, seen: Seen, name: str) -> dict[int, Blocks]:
    """The averages of features over 1, 2 and many hops, for one view.

    Parameters
    ----------
    workshop : Workshop
        Writes the arrays.
    base : Blocks
        The features.
    seen : Seen
        What the view sees of the links.
    name : str
        The name of the view, for its files.
    """
    means, found = Means(seen), dict[int, list[Columns]]()
    for b, x in enumerate(base.parts):
        one, two, many = (workshop.columns(f"{name}.hop{h}.{b}", x.width) for h in HOPS[1:])
        workshop.propagate(x, one, seen, means.smooth)
        workshop.propagate(one, two, seen, means.smooth)
        workshop.recur(x, many, MANY, seen, _restarted(x, means))
        for hop, columns in zip(HOPS[1:], (one, two, many), strict=True):
            found.setdefault(hop, []).append(columns)
    return {hop: Blocks(blocks) for hop, blocks in found.items()}


def _restarted(x: Columns, means: Means) -> Update:
    """A step of personalised PageRank, which returns to a node's own features."""

    def update(rows: Rows, sums: Tensor) -> Tensor:
        return means.smooth(rows, sums).mul_(1 - RESTART).add_(rows.of(x), alpha=RESTART)

    return update


def average_heads(workshop: Workshop, base: Blocks, seen: Seen, name: str) -> list[Blocks]:
    """The means over the neighbours of each head, 0 without any."""

    def mean_of(head: int) -> Update:
        def update(rows: Rows, sums: Tensor) -> Tensor:
            return sums.div_(rows.of(seen.degree)[:, head : head + 1].clamp(min=1e-12))

        return update

    found = []
    for head in workshop.adjacency.heads:
        blocks = []
        for b, x in enumerate(base.parts):
            blocks.append(workshop.columns(f"{name}.head{head}.{b}", x.width))
            workshop.propagate(x, blocks[-1], seen, mean_of(head), head)
        found.append(Blocks(blocks))
    return found


def average_neighbours(workshop: Workshop, base: Blocks, seen: Seen, name: str) -> list[Blocks]:
    """The means over neighbours, and the means of these, without a node's own features."""
    means, found = Means(seen), [list[Columns](), list[Columns]()]
    for b, x in enumerate(base.parts):
        first, second = (workshop.columns(f"{name}.mean{h}.{b}", x.width) for h in (1, 2))
        workshop.propagate(x, first, seen, means.mean)
        workshop.propagate(first, second, seen, means.mean)
        for columns, blocks in zip((first, second), found, strict=True):
            blocks.append(columns)
    return [Blocks(blocks) for blocks in found]


def _block(known: Callable[[int], Tensor], block: slice, part: int) -> Tensor:
    return known(part)[:, block]


def spread(
    workshop: Workshop,
    known: Callable[[int], Tensor],
    width: int,
    seen: Seen,
    name: str,
) -> Blocks:
    """Labels spread along links, f ← a · (neighbours' mean of f) + (1 - a) · y, for one view.

    Parameters
    ----------
    workshop : Workshop
        Writes the arrays.
    known : callable
        Returns y (n_p, width) of a part: the known labels, 0 where they are unknown.
    width : int
        Number of columns of y.
    seen, name
        As in `average_hops`.
    """
    means, start, found = Means(seen), 0, []
    for b, size in enumerate(workshop.widths(width)):
        block, (y, to) = slice(start, start + size), (
            workshop.columns(f"{name}.{what}.{b}", size) for what in ("labels", "flow")
        )  # fmt: skip
        workshop.fill(y, partial(_block, known, block))

        def update(rows: Rows, sums: Tensor, y: Columns = y) -> Tensor:
            return means.mean(rows, sums).mul_(SPREADING).add_(rows.of(y), alpha=1 - SPREADING)

        workshop.recur(y, to, STEPS, seen, update)
        found.append(to)
        start += size
    return Blocks(found)
