"""Arrays with one row for each node of a store, in a file for each part.

A stage of a training writes such arrays, and later stages read them. A file is complete or does not
exist, so after a kill the files that exist are those that need not be computed again. Files are
mapped into memory: what is not read is not loaded, and what was read can be dropped by the system.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from linkdist._files import replacing, unwritable
from linkdist.data.graph import IntArray
from linkdist.distributed.survey import part_rows
from linkdist.errors import OptionError, StoreError
from linkdist.store.format import HEADER, npy_header

LARGEST = 65504.0
"""The largest float16."""


def make_folder(folder: Path) -> None:
    """Create a folder, if it does not exist; raise an OptionError if that fails.

    Examples
    --------
    >>> make_folder(Path("/dev/null/arrays"))
    Traceback (most recent call last):
    linkdist.errors.OptionError: /dev/null/arrays cannot be written: Not a directory. Choose an \
existing folder with write permission.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error


class Columns:
    """An array (n, width) on disk.

    Parameters
    ----------
    folder : Path
        The folder of its files, which is created with the first of them.
    sizes : sequence of int
        Number of nodes of each part.
    width : int
        Number of columns.
    kind : {'float16', 'float32'}
        The type of the numbers.
    lasting : bool
        Whether files are synced to disk; an array that is soon removed need not be.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     columns = Columns(Path(folder, "means"), [2, 3], width=1)
    ...     columns.write(1, torch.tensor([[1.0], [2.0], [3.0]]))
    ...     columns.missing(), columns.read(1).flatten().tolist()
    ([0], [1.0, 2.0, 3.0])
    """

    def __init__(
        self,
        folder: Path,
        sizes: Sequence[int],
        width: int,
        kind: str = "float16",
        lasting: bool = True,
    ) -> None:
        self.folder, self.sizes, self.width, self.kind = folder, list(sizes), width, kind
        self.lasting = lasting

    @property
    def nbytes(self) -> int:
        """Number of bytes on disk."""
        return sum(self.sizes) * self.width * np.dtype(self.kind).itemsize

    def missing(self) -> list[int]:
        """The parts that are not written yet."""
        return [part for part in range(len(self.sizes)) if not self.has(part)]

    def has(self, part: int) -> bool:
        """Whether a part is written."""
        try:
            return self._path(part).stat().st_size == self._size(part)
        except OSError:
            return False

    def write(self, part: int, values: Tensor) -> None:
        """Write a part (n_p, width), from any device and type.

        Raises
        ------
        StoreError
            If the file cannot be written, for example because the disk is full. The parts that
            were written before stay.
        """
        if self.kind == "float16" and values.dtype != torch.float16:
            values = values.clamp(-LARGEST, LARGEST)
        array = values.to(getattr(torch, self.kind)).cpu().contiguous().numpy()
        try:
            make_folder(self.folder)
            with replacing(self._path(part), self.lasting) as file:
                file.write(npy_header(self._shape(part), self.kind))
                file.write(array.data)
        except OptionError as error:
            raise StoreError(
                f"{error} What is done is kept: the same command with --resume continues."
            ) from error

    def read(self, part: int) -> Tensor:
        """A part (n_p, width); changes of it are not written to the file."""
        shape, path = self._shape(part), self._path(part)
        if 0 in shape:
            return torch.empty(shape, dtype=getattr(torch, self.kind))
        try:
            array = np.memmap(path, self.kind, "c", HEADER, shape)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{path} was removed or changed while training used it. The same command with "
                "--resume computes it again."
            ) from error
        return torch.from_numpy(array)

    def rows(self, nodes: IntArray) -> Tensor:
        """The rows (k, width) of some nodes in float32; `nodes` are sorted node numbers."""
        found = [self.read(part)[torch.from_numpy(rows)].float() for part, rows in part_rows(nodes)]
        return torch.cat([torch.empty(0, self.width), *found])

    def remove(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, part: int) -> Path:
        return self.folder / f"{part:04}.npy"

    def _shape(self, part: int) -> tuple[int, int]:
        return self.sizes[part], self.width

    def _size(self, part: int) -> int:
        rows, width = self._shape(part)
        return HEADER + rows * width * np.dtype(self.kind).itemsize


class HeldColumns(Columns):
    """An array that stays in memory, on the device where it was computed."""

    def __init__(self, folder: Path, sizes: Sequence[int], width: int) -> None:
        super().__init__(folder, sizes, width)
        self.held: dict[int, Tensor] = {}

    def has(self, part: int) -> bool:
        """Whether a part is there."""
        return part in self.held

    def write(self, part: int, values: Tensor) -> None:
        """Keep a part (n_p, width)."""
        self.held[part] = values.half()

    def read(self, part: int) -> Tensor:
        """A part (n_p, width)."""
        return self.held[part].clone()

    def remove(self) -> None:
        """Free the memory."""
        self.held.clear()
