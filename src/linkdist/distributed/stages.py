"""What a training on a store keeps on disk until it is finished: its arrays and its checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from torch import Tensor

from linkdist.distributed.panel.projection import WIDTH
from linkdist.errors import OptionError
from linkdist.store.plan import format_memory
from linkdist.store.reader import Store
from linkdist.training.checkpoint import Keeper, State
from linkdist.training.panel.replicas import FOLDS

DIGITS = 16
"""Number of digits of the digest in the name of a folder."""


class Staged(Keeper):
    """A checkpoint beside a folder of arrays, which are removed together.

    Parameters
    ----------
    keeper : Keeper
        The checkpoint.
    folder : Path
        The folder of all trainings of a model directory; this training has a folder in it.
    """

    def __init__(self, keeper: Keeper, folder: Path) -> None:
        self.keeper, self.parent, self.training = keeper, folder, keeper.training
        self.folder = folder / self.training[:DIGITS]

    def save(self, epochs: int, tensors: Mapping[str, Tensor]) -> None:
        """Store the state after some slices."""
        self.keeper.save(epochs, tensors)

    def epochs(self) -> int | None:
        """The finished slices; 0 if there are arrays only."""
        found = self.keeper.epochs()
        return 0 if found is None and self.folder.exists() else found

    def load(self) -> State | None:
        """The finished slices and the state."""
        return self.keeper.load()

    def remove(self) -> None:
        """Remove the checkpoint, and the arrays of this and of other trainings."""
        self.keeper.remove()
        shutil.rmtree(self.parent, ignore_errors=True)

    @property
    def shown(self) -> str:
        """The file as messages name it."""
        return self.keeper.shown

    def _open(self) -> IO[bytes]:
        return self.keeper._open()


def array_bytes(store: Store, replicas: int, folds: bool) -> int:
    """Approximate bytes on disk of the arrays of a training.

    Parameters
    ----------
    store : Store
        The graph.
    replicas : int
        Number of networks that are kept.
    folds : bool
        Whether folds of the labels are trained as well.
    """
    K, width = len(store.heads), min(store.d, WIDTH)
    views = FOLDS + 1 if folds else 1
    students = 2 * FOLDS * folds + replicas
    averages = views * (3 * width + 2 * K) + 3 * width  # the features, and two steps
    spreading = (2 * views + 2) * (store.C + 1)
    return 2 * store.n * (averages + spreading + students * store.C * (1 + K))


def check_disk(store: Store, folder: Path, replicas: int, folds: bool) -> None:
    """Raise an error if the arrays of a training do not fit on the disk."""
    needed = array_bytes(store, replicas, folds)
    there = next(path for path in (folder, *folder.parents) if path.exists())
    own = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    free = shutil.disk_usage(there).free
    if needed > free + own:
        raise OptionError(
            f"training on {store.directory} writes about {format_memory(needed)} to {folder}, "
            f"which are removed at the end; {format_memory(free)} are free. Free some space, or "
            "write the model to another disk."
        )
