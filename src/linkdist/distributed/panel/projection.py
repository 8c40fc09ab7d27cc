"""The columns that are averaged over hops: the features, or `WIDTH` combinations of them.

Averaging takes a pass over the links for each hop, with all columns of all nodes on disk. Few dense
features are averaged as they are. More than `WIDTH` are first projected on the directions in which
rows differ most (a truncated singular value decomposition). The directions are orthonormal, so
penalties of linear models mean the same.

Rows are prepared as in `training.panel.teachers.TeachingContext`: sparse rows are scaled to unit
length, dense columns have mean 0 and rows of unit length on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from linkdist.data.graph import FeatureMatrix
from linkdist.distributed.panel.averages import Blocks
from linkdist.distributed.panel.workshop import Hidden, Workshop
from linkdist.store.reader import Store

WIDTH = 256
"""Largest number of columns that are averaged."""
ROWS = 200_000
"""Number of rows that determine the directions, if there are as many."""
ROUNDS = 5
"""Number of iterations of the decomposition."""
CHUNK = 1 << 22
"""Number of values that are converted at once."""
ROUNDING = 1e-13
"""The share of the mean square below which a variance is a rounding error."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Projection:
    """How columns are made from features.

    Attributes
    ----------
    mean, spread : (d,) arrays
        What dense columns are centred and divided by; 0 and 1 if they stay as they are.
    length : float, optional
        What sparse rows are divided by; by default their own length.
    directions : (d, WIDTH) array, optional
        The directions; by default the columns themselves.
    """

    mean: Floats
    spread: Floats
    length: float | None = None
    directions: Floats | None = None

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.mean) if self.directions is None else self.directions.shape[1]

    def prepared(self, x: FeatureMatrix) -> FeatureMatrix:
        """Rows before they are projected."""
        if not sparse.issparse(x):
            return (np.asarray(x, np.float32) - self.mean) / self.spread
        return sparse.diags(_inverse_lengths(x, self.length)) @ x

    def __call__(self, x: FeatureMatrix) -> Floats:
        """The columns (k, width) of some rows.

        Examples
        --------
        >>> plain = Projection(np.zeros(2, np.float32), np.ones(2, np.float32))
        >>> plain(sparse.csr_matrix([[3.0, 4.0]]))
        array([[0.6, 0.8]], dtype=float32)
        """
        rows: Any = self.prepared(x)
        if self.directions is not None:
            rows = rows @ self.directions
        dense = rows.toarray() if sparse.issparse(rows) else rows
        return np.asarray(dense, np.float32)


def _inverse_lengths(x: sparse.csr_matrix, length: float | None) -> Floats:
    if length is not None:
        return np.full(x.shape[0], 1 / length, np.float32)
    own = np.sqrt(np.asarray(x.multiply(x).sum(1))).ravel()
    inverse: Floats = np.divide(1, own, out=np.zeros_like(own), where=own > 0).astype(np.float32)
    return inverse


@dataclass(frozen=True)
class Moments:
    """Count, sum and sum of squares of dense columns.

    Attributes
    ----------
    n : int
        Number of rows.
    sums, squares : (d,) arrays
        The sums.
    """

    n: int
    sums: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]

    @classmethod
    def of(cls, x: npt.NDArray[Any]) -> Moments:
        """The moments of some rows (k, d)."""
        step = max(1, CHUNK // max(x.shape[1], 1))
        sums, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
        for start in range(0, len(x), step):
            part = x[start : start + step].astype(np.float64)
            sums += part.sum(axis=0)
            squares += (part**2).sum(axis=0)
        return cls(len(x), sums, squares)

    def plus(self, other: Moments) -> Moments:
        """The moments with other rows added."""
        return Moments(self.n + other.n, self.sums + other.sums, self.squares + other.squares)

    def standard(self) -> tuple[Floats, Floats]:
        """Mean, and deviation times √d, with which rows have unit length on average."""
        mean = self.sums / max(self.n, 1)
        square = self.squares / max(self.n, 1)
        # A constant column has a small variance by rounding, and would be divided by it.
        constant = square - mean**2 <= ROUNDING * square
        deviation = np.where(constant, 1, np.sqrt(np.maximum(square - mean**2, 0)))
        spread = deviation * np.sqrt(len(mean))
        return mean.astype(np.float32), spread.astype(np.float32)


def moments_of(store: Store, hidden: Hidden) -> Moments:
    """The moments of the dense features of all nodes except those in hidden rows."""
    total = Moments(0, np.zeros(store.d), np.zeros(store.d))
    for part in range(store.P):
        x = np.asarray(store.features(part))
        # Subtracting the hidden rows afterwards would leave their rounding errors.
        x[hidden.get(part, [])] = 0
        found = Moments.of(x)
        n = found.n - len(hidden.get(part, []))
        total = total.plus(Moments(n, found.sums, found.squares))
    return total


def find_projection(
    store: Store, hidden: Hidden, length: float | None, moments: Moments | None, seed: int = 0
) -> Projection:
    """The projection of the features of a store.

    Parameters
    ----------
    store : Store
        The graph.
    hidden : mapping
        Rows of each part that any view hides: they do not count.
    length : float, optional
        What sparse rows are divided by.
    moments : Moments, optional
        Those of dense features, without the hidden rows.
    seed : int, optional
        Random seed.
    """
    plain = np.zeros(store.d, np.float32), np.ones(store.d, np.float32)
    if store.d <= WIDTH:
        return Projection(*plain, length)
    if moments is not None:
        plain = moments.standard()
    start = Projection(*plain, length)
    return Projection(*plain, length, _directions(store, start, hidden, seed))


def _directions(store: Store, projection: Projection, hidden: Hidden, seed: int) -> Floats:
    """The first right singular vectors (d, WIDTH) of prepared rows, by subspace iteration."""
    random = np.random.default_rng(seed)
    found = np.linalg.qr(random.standard_normal((store.d, WIDTH)))[0].astype(np.float32)
    parts = np.flatnonzero(np.cumsum(store.sizes) - store.sizes < ROWS).tolist()
    for _ in range(ROUNDS):
        product = np.zeros_like(found)
        for part in parts:
            x: Any = store.features(part)
            kept = np.setdiff1d(np.arange(x.shape[0]), hidden.get(part, []))[:ROWS]
            step = max(1, CHUNK // store.d) if not sparse.issparse(x) else len(kept)
            for start in range(0, len(kept), max(step, 1)):
                rows = projection.prepared(x[kept[start : start + step]])
                product += rows.T @ (rows @ found)
        found = np.linalg.qr(product)[0].astype(np.float32)
    return found


def write_columns(workshop: Workshop, projection: Projection) -> Blocks:
    """Write the columns of all nodes, in blocks."""
    ends = np.cumsum([0, *workshop.widths(projection.width)])
    blocks = []
    for b, (start, end) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        columns = workshop.columns(f"features.{b}", end - start)
        workshop.fill(columns, partial(_columns, workshop.store, projection, slice(start, end)))
        blocks.append(columns)
    return Blocks(blocks)


def _columns(store: Store, projection: Projection, block: slice, part: int) -> Tensor:
    x: Any = store.features(part)
    if store.kind == "float16" and projection.directions is None:
        return torch.from_numpy(x[:, block])
    out = torch.empty(x.shape[0], block.stop - block.start, dtype=torch.float16)
    step = max(1, CHUNK // max(projection.width, 1))
    for row in range(0, x.shape[0], step):
        values = projection(x[row : row + step])[:, block]
        out[row : row + step] = torch.from_numpy(values).clamp(-65504, 65504)
    return out
