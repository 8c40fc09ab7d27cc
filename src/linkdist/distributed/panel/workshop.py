"""Steps over the links of a store that write arrays: what all stages share.

A step computes one array from another, part by part. The processes of a group share the parts. A
recursion of many steps keeps the last array only, so that after a kill it continues with the step
that was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import IntArray
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.panel.adjacency import Adjacency, Visible
from linkdist.distributed.panel.columns import Columns
from linkdist.progress import Callback
from linkdist.store.reader import Store

Hidden: TypeAlias = Mapping[int, IntArray]
"""The rows of each part that a view hides."""
Update: TypeAlias = Callable[[int, Tensor, Tensor], Tensor]
"""From a part, its values and the sums over their neighbours to the next values (n_p, width)."""
HELD_BYTES = 8
"""Bytes in memory for each value of a block: x in float16, its sum in float32, the result."""


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
            self._report(1)
        self.group.wait()

    def _report(self, parts: int) -> None:
        """Report that some more parts are written."""
        self._done += parts
        self.callback.progress(min(self._done, self._total), self._total)

    def propagate(self, x: Columns, to: Columns, hidden: Hidden, update: Update) -> None:
        """One step over the links: write the update of every node."""
        read = Visible(x, hidden, self.device, self.room)
        own = Visible(x, {}, self.device, 0)
        self.fill(to, lambda a: update(a, own(a).float(), self.adjacency.sums(a, read)))

    def recur(self, x: Columns, to: Columns, steps: int, hidden: Hidden, update: Update) -> None:
        """Some steps over the links: write the result of the last one."""
        between = [
            self.columns(f"{to.folder.name}.step{step}", to.width, lasting=False)
            for step in range(1, steps)
        ]
        arrays = [x, *between, to]
        done = self.group.share(lambda: _last_complete(arrays))
        if done:
            self._report(done * self.store.P)
        for old in arrays[1:done]:  # a kill may have come before they were removed
            old.remove()
        for step in range(done + 1, steps + 1):
            self.propagate(arrays[step - 1], arrays[step], hidden, update)
            if step > 1:
                arrays[step - 1].remove()


def _last_complete(arrays: list[Columns]) -> int:
    """The last step whose array is complete; 0 is the first array."""
    return max((step for step, one in enumerate(arrays) if step and not one.missing()), default=0)
