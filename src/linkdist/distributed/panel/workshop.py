"""Steps over the links of a store that write arrays: what all stages share.

A step computes one array from another, part by part. The processes of a group share the parts. A
recursion of many steps keeps the last array only, so that after a kill it continues with the step
that was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import IntArray
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.memory import release_unused
from linkdist.distributed.panel.adjacency import Adjacency, Visible
from linkdist.distributed.panel.columns import LARGEST, Columns, HeldColumns
from linkdist.progress import Callback
from linkdist.store.reader import Store

Hidden: TypeAlias = Mapping[int, IntArray]
"""The rows of each part that a view hides."""
Update: TypeAlias = "Callable[[Rows, Tensor], Tensor]"
"""From rows and the sums over their neighbours, which it may overwrite, to their next values."""
CHUNK = {"cpu": 1 << 20, "cuda": 1 << 30}
"""Number of values that are updated at once."""
HELD_BYTES = 8
"""Bytes in memory for each value of a block: x in float16, its sum in float32, the result."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a part.

    Attributes
    ----------
    part : int
        The part.
    rows : slice
        The rows.
    device : torch.device
        Where their values are needed.
    x : Columns
        The array of a step.
    """

    part: int
    rows: slice
    device: torch.device
    x: Columns

    @property
    def own(self) -> Tensor:
        """Their values (k, width) before the step."""
        return self.of(self.x)

    def of(self, columns: Columns) -> Tensor:
        """Their values (k, width) in an array, in float32."""
        return columns.read(self.part)[self.rows].to(self.device).float()


@dataclass(frozen=True)
class Seen:
    """What a view sees of the links.

    Attributes
    ----------
    hidden : mapping
        The rows that it hides.
    degree : Columns
        The number of visible neighbours of each node, or the sum of their weights, for each head.
    strengths : sequence of float, optional
        How much a link of each head counts in averages over all links; by default 1.
    """

    hidden: Hidden
    degree: Columns
    strengths: Sequence[float] | None = None

    def total(self, rows: Rows) -> Tensor:
        """The degree (k, 1) of some nodes, over all heads."""
        degree = rows.of(self.degree)
        if self.strengths is not None:
            degree = degree * torch.tensor(self.strengths, device=rows.device)
        return degree.sum(1, keepdim=True)


@dataclass
class Workshop:
    """Writes arrays with one row for each node.

    Attributes
    ----------
    folder : Path
        Where the arrays are.
    adjacency : Adjacency
        The links.
    group : SingleProcess
        The processes that share the parts.
    room : int
        Bytes that a step may hold.
    callback : Callback
        Receives the progress.
    """

    folder: Path
    adjacency: Adjacency
    group: SingleProcess
    room: int
    callback: Callback
    _done: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    @property
    def store(self) -> Store:
        """The graph."""
        return self.adjacency.store

    @property
    def device(self) -> torch.device:
        """Where sums are computed."""
        return self.adjacency.device

    def begin(self, stage: str, arrays: int) -> None:
        """Start a stage that writes some arrays."""
        self.callback.stage(stage)
        self._done, self._total = 0, arrays * self.store.P

    def columns(
        self, name: str, width: int, kind: str = "float16", lasting: bool = True
    ) -> Columns:
        """The array with a name."""
        return Columns(self.folder / name, self.store.manifest.sizes, width, kind, lasting)

    def widths(self, width: int) -> list[int]:
        """The widths of the blocks into which columns are divided so that a block fits."""
        most = max(1, self.room // (HELD_BYTES * max(self.store.manifest.sizes)))
        blocks = -(-width // most)
        return [len(part) for part in np.array_split(np.arange(width), blocks)]

    def fill(self, columns: Columns, compute: Callable[[int], Tensor]) -> None:
        """Write the missing parts of an array; each process writes its own."""
        rank, size = self.group.rank, self.group.size
        for part in range(self.store.P):
            if part % size == rank and not columns.has(part):
                columns.write(part, compute(part))
                release_unused()
            self._report(1)
        self.group.wait()

    def _report(self, parts: int) -> None:
        """Report that some more parts are written."""
        self._done += parts
        self.callback.progress(min(self._done, self._total), self._total)

    def propagate(
        self, x: Columns, to: Columns, seen: Seen, update: Update, head: int | None = None
    ) -> None:
        """One step over the links: write the update of every node.

        Parameters
        ----------
        x, to : Columns
            The present array, and the next one.
        seen : Seen
            What is visible, and how much links count.
        update : callable
            Makes the next values of a part.
        head : int, optional
            The head whose links are used; by default all links.
        """
        read = Visible(x, seen.hidden, self.device, self.room)
        step = max(1, CHUNK[self.device.type] // x.width)

        def compute(a: int) -> Tensor:
            sums = self.adjacency.sums(a, read, head, seen.strengths)
            found = torch.empty(sums.shape, dtype=torch.float16, device=self.device)
            for start in range(0, len(sums), step):
                rows = Rows(a, slice(start, start + step), self.device, x)
                values = update(rows, sums[rows.rows])
                found[rows.rows] = values.clamp_(-LARGEST, LARGEST)
            return found

        self.fill(to, compute)

    def recur(self, x: Columns, to: Columns, steps: int, seen: Seen, update: Update) -> None:
        """Some steps over the links: write the result of the last one."""
        between = [self._step(to, step) for step in range(1, steps)]
        arrays = [x, *between, to]
        done = self.group.share(lambda: _last_complete(arrays))
        if done:
            self._report(done * self.store.P)
        for old in arrays[1:done]:  # a kill may have come before they were removed
            old.remove()
        for step in range(done + 1, steps + 1):
            self.propagate(arrays[step - 1], arrays[step], seen, update)
            if step > 1:
                arrays[step - 1].remove()

    def _step(self, to: Columns, step: int) -> Columns:
        """The array of a step; on a GPU with room for it, it stays there."""
        name, sizes = f"{to.folder.name}.step{step}", to.sizes
        alone = self.group.size == 1 and self.device.type == "cuda"
        if alone and 4 * to.nbytes <= self.room:
            return HeldColumns(self.folder / name, sizes, to.width)
        return self.columns(name, to.width, lasting=False)


def _last_complete(arrays: list[Columns]) -> int:
    """The last step whose array is complete; 0 is the first array."""
    return max((step for step, one in enumerate(arrays) if step and not one.missing()), default=0)
