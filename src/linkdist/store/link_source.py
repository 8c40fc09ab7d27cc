"""The link tables of a build or an append: their relations, their weights and their rows.

Rows are read batch by batch. They have one number in all tables: those of the second table follow
those of the first. Relations and weights are checked in a first pass, because the numbers of the
relations depend on all rows, and because an error should come before the long work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.data.links import LINKS as UNNAMED
from linkdist.errors import TableError
from linkdist.progress import Progress
from linkdist.tables.io import Table, TableLike, open_table
from linkdist.tables.link_columns import BUILT, RelationColumn, WeightColumn, relation_order
from linkdist.tables.links import (
    LINKS,
    LinkReport,
    check_links,
    link_batches,
    link_ends,
    named_link_tables,
)
from linkdist.tables.parsing import places_among, single_values, text_of
from linkdist.tables.source import Tables
from linkdist.tables.validation import Problems

CHANGED = "it changed while it was read. Start again when no other program writes to it."


@dataclass(frozen=True)
class LinkFile:
    """A link table.

    Attributes
    ----------
    name : str or None
        Its relation, if each table is one.
    source : path or table
        The file; an append also takes a table in memory.
    ends : tuple of str
        The columns of the two nodes of a link.
    relation, weight : str or None
        The columns of relations and weights.
    """

    name: str | None
    source: TableLike
    ends: tuple[str, str]
    relation: str | None
    weight: str | None

    @cached_property
    def table(self) -> Table:
        """The open table."""
        name = "the link table" if self.name is None else f"the link table {self.name!r}"
        return open_table(self.source, name)

    @property
    def path(self) -> Path:
        """The file, or what messages call the table."""
        return Path(self.table.name)

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return [*self.ends, *self.others]

    @property
    def others(self) -> list[str]:
        """The columns of relations and weights."""
        return [name for name in (self.relation, self.weight) if name is not None]


@dataclass(frozen=True)
class LinkPlan:
    """What the links of a store are.

    Attributes
    ----------
    rows : tuple of int
        Number of rows of each table.
    relations : tuple of str
        Names of the relations.
    directed, weighted : bool
        Whether links have a direction, and whether they have weights.
    """

    rows: tuple[int, ...]
    relations: tuple[str, ...]
    directed: bool
    weighted: bool

    @property
    def total(self) -> int:
        """Number of rows of all tables."""
        return sum(self.rows)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The number of rows before each table."""
        return np.cumsum([0, *self.rows])[:-1]


class LinkRows(NamedTuple):
    """Some rows of a link table.

    Attributes
    ----------
    row : int
        The number of the first one, counted from 1 through all tables.
    sources, targets : (k,) arrays of large_string
        Ids, null where missing.
    relation : (k,) uint64 array or int
        The position of the relation of each row, or of all rows.
    weights : (k,) float32 array or None
        The weights.
    """

    row: int
    sources: pa.Array
    targets: pa.Array
    relation: npt.NDArray[np.uint64] | int
    weights: npt.NDArray[np.float32] | None


def open_links(tables: Tables, known: tuple[str, ...] | None = None) -> list[LinkFile]:
    """Open the link tables, as `linkdist.tables.links.read_links` does.

    Parameters
    ----------
    tables : Tables
        The tables.
    known : tuple of str, optional
        The relations of a store to which the links are appended.

    Raises
    ------
    TableError, OptionError
        Lists the problems of all tables.
    """
    files, errors = list[LinkFile](), list[TableError]()
    others = [name for name in (tables.relation, tables.weight) if name is not None]
    for name, path in named_link_tables(tables.edges, tables.relation, known).items():
        try:
            ends = link_ends(open_table(path), tables.source, tables.target, others)
            files.append(LinkFile(name, path, ends, tables.relation, tables.weight))
        except TableError as error:
            errors.append(error)
    raise_all(errors)
    return files


def raise_all(errors: list[TableError]) -> None:
    """Raise the errors of several tables as one, if there are any.

    Examples
    --------
    >>> raise_all([])
    """
    if errors:
        # A table that the system could not read keeps what is built; see `open_journal`.
        causes = (error.__cause__ for error in errors)
        system = next((cause for cause in causes if isinstance(cause, OSError)), None)
        raise TableError(" ".join(map(str, errors))) from system


def survey_links(
    files: list[LinkFile],
    directed: bool,
    progress: Progress,
    known: tuple[str, ...] | None = None,
) -> LinkPlan:
    """Count the rows, find the relations, and check relations and weights.

    Parameters
    ----------
    files : list of LinkFile
        The tables.
    directed : bool
        Whether links have a direction.
    progress : callable
        Receives the number of rows that are read, and of all rows of a table.
    known : tuple of str, optional
        The relations of a store to which the links are appended. Others are errors, and tables may
        be empty.

    Raises
    ------
    TableError
        Lists the problems of all tables.
    """
    rows, errors = list[int](), list[TableError]()
    relations = UNNAMED if files[0].name is None else tuple(str(file.name) for file in files)
    for file in files:
        problems, counts = Problems(), dict[str, int]()
        try:
            rows.append(_survey(file, counts, problems, progress))
            if file.relation is not None:
                relations = relation_order(counts, known, problems, BUILT)
            elif known is not None and file.name is not None:
                relation_order({file.name: rows[-1]}, known, problems, BUILT)
            if problems or (known is None and not rows[-1]):
                kept = LinkReport(total=rows[-1], kept=rows[-1])
                check_links(file.path, file.ends, kept, problems=problems)
        except TableError as error:
            errors.append(error)
    raise_all(errors)
    return LinkPlan(tuple(rows), known or relations, directed, files[0].weight is not None)


def _survey(file: LinkFile, counts: dict[str, int], problems: Problems, progress: Progress) -> int:
    """The number of rows of a table; adds the rows of each relation to `counts`."""
    table, rows = file.table, 0
    if not file.others and table.rows is not None:
        return table.rows
    relation = None if file.relation is None else RelationColumn(file.relation, problems)
    weight = None if file.weight is None else WeightColumn(table, file.weight, problems)
    names = file.others or table.schema.names[:1]
    for first_row, batch in table.numbered_batches(names, LINKS, as_text=names):
        if relation is not None:
            relation.count(first_row, single_values(batch, relation.name, problems))
        if weight is not None:
            weight.read(first_row, single_values(batch, weight.name, problems))
        rows += batch.num_rows
        progress(rows, table.rows or 0)
    if relation is not None:
        counts |= relation.counts
    return rows


def link_rows(files: list[LinkFile], plan: LinkPlan, size: int, done: int) -> Iterator[LinkRows]:
    """Read the rows of all tables after the first `done` rows.

    Parameters
    ----------
    files, plan
        As `open_links` and `survey_links` return them.
    size : int
        Maximum number of rows in a batch.
    done : int
        Number of rows to skip.

    Raises
    ------
    TableError
        If a table changed since the survey.
    """
    for number, (file, start) in enumerate(zip(files, plan.starts.tolist(), strict=True)):
        if done >= start + plan.rows[number]:
            continue
        reader, rows = _Columns(file, plan.relations), 0
        for row, sources, targets, *values in link_batches(
            file.table, file.ends, size, file.others
        ):
            rows += len(sources)
            skip = max(0, done + 1 - row - start)
            if skip < len(sources):
                cut = (array.slice(skip) for array in (sources, targets, *values))
                yield reader.rows(row + skip, start, *cut)
        if rows != plan.rows[number]:
            found = f"{file.path} had {plan.rows[number]} rows and then {rows}"
            raise TableError(f"{found}: {CHANGED}")


class _Columns:
    """Reads the relations and weights of a table."""

    def __init__(self, file: LinkFile, relations: tuple[str, ...]) -> None:
        self._file, self._problems = file, Problems()
        self._number = 0 if file.name is None else relations.index(file.name)
        self._known = pa.array(relations, pa.large_string())
        self._weight = None
        if file.weight is not None:
            self._weight = WeightColumn(file.table, file.weight, self._problems)

    def rows(
        self, row: int, start: int, sources: pa.Array, targets: pa.Array, *values: pa.Array
    ) -> LinkRows:
        """A batch; `start` is the number of rows before the table."""
        relation: npt.NDArray[np.uint64] | int = self._number
        if self._file.relation is not None:
            places = places_among(text_of(values[0]), self._known)
            if (places < 0).any():
                raise TableError(f"{self._file.path} has other relations than before: {CHANGED}")
            relation = places.astype(np.uint64)
        weights = None if self._weight is None else self._weight.read(row, values[-1])
        self._problems.check(self._file.table.name)
        return LinkRows(row + start, sources, targets, relation, weights)
