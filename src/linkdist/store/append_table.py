"""The link tables of an append: their rows as hashes of ids, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.progress import Progress
from linkdist.store.keys import Keys, hash64
from linkdist.store.link_source import (
    LinkFile,
    LinkPlan,
    LinkRows,
    link_rows,
    open_links,
    survey_links,
)
from linkdist.store.partition import grouped
from linkdist.store.reader import Store
from linkdist.tables.io import TableLike
from linkdist.tables.link_columns import BUILT
from linkdist.tables.links import LINKS
from linkdist.tables.parsing import as_mask
from linkdist.tables.source import Tables
from linkdist.tables.trained_columns import with_trained_columns


@dataclass(frozen=True)
class Chunk:
    """Some rows of link tables.

    Attributes
    ----------
    keys : (m, 2) uint64 array
        The hashes of the ids of the rows that have two.
    rows : (m,) uint64 array
        The numbers of these rows, counted from 1 through all tables.
    relation : (m,) uint8 array
        The positions of their relations.
    weights : (m,) float32 array
        Their weights; 1 if links have no weights.
    missing : (k,) uint64 array
        The numbers of the rows that lack an id.
    """

    keys: Keys
    rows: Keys
    relation: npt.NDArray[np.uint8]
    weights: npt.NDArray[np.float32]
    missing: Keys

    @classmethod
    def joined(cls, parts: list[Chunk]) -> Chunk:
        """Join chunks; without any, the result is empty."""
        none = np.empty(0, np.uint64)
        return cls(
            np.concatenate([np.empty((0, 2), np.uint64), *(part.keys for part in parts)]),
            np.concatenate([none, *(part.rows for part in parts)]),
            np.concatenate([np.empty(0, np.uint8), *(part.relation for part in parts)]),
            np.concatenate([np.empty(0, np.float32), *(part.weights for part in parts)]),
            np.concatenate([none, *(part.missing for part in parts)]),
        )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows) + len(self.missing)


@dataclass(frozen=True)
class NewLinks:
    """The link tables of an append, which may be none, and what their links are."""

    files: list[LinkFile]
    plan: LinkPlan

    @classmethod
    def none(cls, store: Store) -> NewLinks:
        """No link tables, for an append that has nodes only."""
        return cls([], LinkPlan((), store.relations, store.directed, store.weighted))

    @classmethod
    def open(
        cls,
        edges: TableLike,
        source: str | None,
        target: str | None,
        store: Store,
        progress: Progress,
    ) -> NewLinks:
        """Open link tables, which are read as those of the store, and check their columns.

        Raises
        ------
        TableError, OptionError
            If columns are missing, or with all relations and weights that the store cannot have.
        """
        tables = Tables(None, edges, "", "", source=source, target=target)
        tables = with_trained_columns(tables, store.about, BUILT)
        files = open_links(tables, store.relations)
        return cls(files, survey_links(files, store.directed, progress, store.relations))

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Read the tables in chunks of about `size` rows, or more if a batch is larger."""
        batches = link_rows(self.files, self.plan, min(LINKS, size), done=0)
        return map(Chunk.joined, grouped(map(_hashed, batches), len, size))


def _hashed(batch: LinkRows) -> Chunk:
    ends = batch.sources, batch.targets
    there = as_mask(pc.and_(ends[0].is_valid(), ends[1].is_valid()))
    rows = np.arange(batch.row, batch.row + len(there), dtype=np.uint64)
    keys = [hash64(text.filter(pa.array(there))) for text in ends]
    relation = np.broadcast_to(np.asarray(batch.relation, np.uint8), len(there))[there]
    weights = np.ones(len(there), np.float32) if batch.weights is None else batch.weights
    return Chunk(np.stack(keys, axis=1), rows[there], relation, weights[there], rows[~there])
