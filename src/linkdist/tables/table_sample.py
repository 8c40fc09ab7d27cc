"""A random sample of the rows of a table that is read in batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SAMPLED = 10_000
"""Maximum number of training rows that the summary of a model describes."""


class TableSample:
    """Keeps all rows while they are few, and a uniform random sample of them later.

    Each row has a random key, and the rows with the smallest keys are kept. The sample does not
    depend on how the rows are divided into batches.

    Parameters
    ----------
    columns : sequence of str
        The columns to keep.
    most : int
        The size of the sample.

    Examples
    --------
    >>> sample = TableSample(["age"], most=3)
    >>> for start in range(0, 100, 10):
    ...     sample.add(pa.record_batch({"age": list(range(start, start + 10))}))
    >>> sample.table().num_rows
    3
    """

    def __init__(self, columns: Sequence[str], most: int) -> None:
        self._columns, self._most = list(columns), most
        self._random = np.random.default_rng(0)
        self._keys: list[npt.NDArray[np.float64]] = []
        self._batches: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch, which may lack some of the columns."""
        present = [name for name in self._columns if name in batch.schema.names]
        self._keys.append(self._random.random(batch.num_rows))
        self._batches.append(pa.Table.from_batches([batch]).select(present))
        if sum(map(len, self._keys)) > 2 * self._most:
            self._prune()

    def table(self) -> pa.Table:
        """The rows of the sample, in the order in which they arrived."""
        if not self._batches:
            return pa.table({})
        self._prune()
        return self._batches[0]

    def _prune(self) -> None:
        keys = np.concatenate(self._keys)
        rows = pa.concat_tables(self._batches, promote_options="permissive")
        if len(keys) > self._most:
            kept = np.sort(np.argpartition(keys, self._most)[: self._most])
            # `take` copies the rows, so that the batches they came from can be freed.
            keys, rows = keys[kept], rows.take(pa.array(kept))
        self._keys, self._batches = [keys], [rows]
