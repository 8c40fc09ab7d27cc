"""A random sample of the rows of a table that is read in batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.data.graph import IntArray

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
    >>> sample.table()["age"].to_pylist() == sample.rows().tolist(), len(sample.rows())
    (True, 3)
    """

    def __init__(self, columns: Sequence[str], most: int) -> None:
        self._columns, self._most = list(columns), most
        self._random = np.random.default_rng(0)
        self._seen = 0
        self._keys: list[npt.NDArray[np.float64]] = []
        self._rows: list[IntArray] = []
        self._batches: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch, which may lack some of the columns."""
        present = [name for name in self._columns if name in batch.schema.names]
        self._keys.append(self._random.random(batch.num_rows))
        self._rows.append(np.arange(self._seen, self._seen + batch.num_rows))
        self._seen += batch.num_rows
        self._batches.append(pa.Table.from_batches([batch]).select(present))
        if sum(map(len, self._keys)) > 2 * self._most:
            self._prune()

    def table(self) -> pa.Table:
        """The rows of the sample, in the order in which they arrived."""
        self._prune()
        return self._batches[0] if self._batches else pa.table({})

    def rows(self) -> IntArray:
        """The position of each row of the sample among all rows."""
        self._prune()
        return self._rows[0] if self._rows else np.empty(0, np.int64)

    def _prune(self) -> None:
        if not self._batches:
            return
        keys, rows = np.concatenate(self._keys), np.concatenate(self._rows)
        table = pa.concat_tables(self._batches, promote_options="permissive")
        if len(keys) > self._most:
            kept = np.sort(np.argpartition(keys, self._most)[: self._most])
            # `take` copies the rows, so that the batches they came from can be freed.
            keys, rows, table = keys[kept], rows[kept], table.take(pa.array(kept))
        self._keys, self._rows, self._batches = [keys], [rows], [table]
