"""Several graphs: a column of the node table names them, or each is a pair of tables.

A pair is a node table and a link table. The node tables are read as one table, so that encoders are
fitted to all of them; ids may repeat between pairs, and are shown as GRAPH/ID.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import IntArray
from linkdist.data.links import Links
from linkdist.errors import OptionError, TableError
from linkdist.tables.formats import SAMPLE, Csv, JsonLines, Table
from linkdist.tables.io import TableLike, open_table
from linkdist.tables.labels import sorted_names
from linkdist.tables.link_report import LinkReport, merge_reports
from linkdist.tables.link_tables import file_name, is_mapping_of_tables
from linkdist.tables.parsing import is_text, plain, text_of
from linkdist.tables.validation import Problems

ReadLinks: TypeAlias = "Callable[[TableLike, pa.Array], tuple[Links, LinkReport]]"
"""Reads a link table, given the ids of the nodes."""


class GraphTables(Table):
    """Node tables of several graphs, read one after the other.

    Parameters
    ----------
    parts : mapping of str to Table
        The node table of each graph.

    Attributes
    ----------
    graphs : tuple of str
        The names of the graphs, sorted.
    """

    def __init__(self, parts: Mapping[str, Table]) -> None:
        self.name, self._parts = f"{len(parts)} node tables", dict(parts)
        self.graphs = sorted_names(parts)
        problems = Problems()
        self._check_names(problems)
        # What a text file contains is guessed from its first rows, so its types may differ.
        self._any_text = any(isinstance(part, Csv | JsonLines) for part in parts.values())
        self.schema = pa.schema([])
        for one in next(iter(parts.values())).schema:
            if all(one.name in part.schema.names for part in parts.values()):
                self.schema = self.schema.append(self._common(one.name, problems))
        problems.check(self.name)
        rows = [part.rows for part in parts.values()]
        self.rows = None if None in rows else sum(filter(None, rows))
        self._sizes = dict.fromkeys(parts, 0)

    @property
    def groups(self) -> IntArray:
        """The position of each row's graph in `graphs`, after all rows were read."""
        codes = [self.graphs.index(name) for name in self._sizes]
        return np.repeat(np.array(codes, dtype=np.int64), list(self._sizes.values()))

    def place(self, row: int) -> str:
        """The row and the table that it is in."""
        ends = list(accumulate(self._sizes.values()))
        k = int(np.searchsorted(ends, row))
        part = list(self._parts.values())[min(k, len(ends) - 1)]
        return f"row {row - ([0, *ends])[k]} of {part.name}"

    def sample(self) -> pa.Table:
        """The first rows of each table, at most `SAMPLE` in total."""
        size, names = max(1, SAMPLE // len(self._parts)), self.schema.names
        samples = [part.sample().select(names).slice(0, size) for part in self._parts.values()]
        batches = [batch for one in samples for batch in one.to_batches()]
        return pa.Table.from_batches([self._unified(batch) for batch in batches], self.schema)

    def _read(
        self, columns: list[str], size: int, as_text: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        self._sizes = dict.fromkeys(self._parts, 0)
        text = set(as_text) if self._any_text else set()
        for name, part in self._parts.items():
            for batch in part.batches(columns, size, as_text):
                self._sizes[name] += batch.num_rows
                yield self._unified(batch, text)
            if not self._sizes[name]:
                raise TableError(f"{part.name}: the table has no rows.")

    def _explain(self, text: str) -> str:
        return f"cannot be read: {text.rstrip('.')}. A column must have one type in all of them."

    def _check_names(self, problems: Problems) -> None:
        """Add the columns that some tables lack to the problems."""
        parts = self._parts.values()
        for column in dict.fromkeys(name for part in parts for name in part.schema.names):
            lack = [part.name for part in parts if column not in part.schema.names]
            examples = [f"{name} has no {column!r}" for name in lack]
            problems.examples("all must have the same columns;", examples, len(lack))

    def _common(self, column: str, problems: Problems) -> pa.Field:
        """A column with a type that suits all tables."""
        types = {part.name: _plain_type(part, column) for part in self._parts.values()}
        parts = [pa.schema([(column, kind)]) for kind in types.values()]
        try:
            found = pa.unify_schemas(parts, promote_options="permissive").field(0)
            return pa.field(column, pa.large_string()) if is_text(found.type) else found
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            nested = any(pa.types.is_nested(kind) for kind in types.values())
        if nested or not self._any_text:
            found = ", ".join(f"{kind} in {name}" for name, kind in types.items())
            problems.add(f"column {column!r} must have one type in all node tables; found {found}")
        return pa.field(column, pa.large_string())

    def _unified(self, batch: pa.RecordBatch, text: Collection[str] = ()) -> pa.RecordBatch:
        """A batch of one of the tables with types that are the same for all of them."""
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            values, kind = plain(column), self.schema.field(name).type
            if (name in text or is_text(kind)) and not pa.types.is_nested(values.type):
                columns.append(text_of(values))
            else:
                columns.append(values.cast(kind))
        return pa.record_batch(columns, batch.schema.names)


def named_tables(nodes: TableLike) -> dict[str, TableLike]:
    """The node table of each graph, or an empty dict if there is only one node table.

    Parameters
    ----------
    nodes : table, sequence of tables, or mapping of str to table
        Tables without a name are named by their file, or else by their folder.

    Raises
    ------
    OptionError
        If tables have the same name.

    Examples
    --------
    >>> list(named_tables(["data/DE.csv", "data/ES.csv"]))
    ['DE', 'ES']
    >>> list(named_tables(["DE/nodes.csv", "ES/nodes.csv"]))
    ['DE', 'ES']
    >>> named_tables("data/DE.csv"), named_tables({"id": [1, 2], "age": [30, 40]})
    ({}, {})
    """
    if isinstance(nodes, Mapping):
        found = dict(nodes) if len(nodes) > 1 and is_mapping_of_tables(nodes) else {}
        names = list(map(str, found))
    elif isinstance(nodes, list | tuple) and len(nodes) > 1:
        found = dict(enumerate(nodes))
        names = [_stem(one, k) for k, one in found.items()]
        if len(set(names)) < len(names):
            names = [_folder(one, k) for k, one in found.items()]
    else:
        return {}
    if len(set(names)) < len(names) or any("/" in name or not name.strip() for name in names):
        raise OptionError(
            f"node tables must have different names without '/'; found {', '.join(names)}. Rename "
            "the files or, in Python, pass a dict of names and tables."
        )
    return dict(zip(names, found.values(), strict=True))


def only_table(tables: TableLike) -> TableLike:
    """The table in a sequence, or in a mapping of names to tables, of one; anything else as it is.

    Examples
    --------
    >>> only_table(["nodes.csv"]), only_table("nodes.csv")
    ('nodes.csv', 'nodes.csv')
    """
    if isinstance(tables, list | tuple) and len(tables) == 1:
        return tables[0]
    if is_mapping_of_tables(tables) and len(tables) == 1:
        return next(iter(tables.values()))
    return tables


def open_nodes(nodes: TableLike) -> Table:
    """Open a node table, or those of several graphs; parameters as in `named_tables`.

    Examples
    --------
    >>> table = open_nodes({"DE": {"id": [1, 2]}, "ES": {"id": [1]}})
    >>> table.graphs, table.rows
    (('DE', 'ES'), 3)
    """
    parts = named_tables(nodes)
    if not parts:
        return open_table(only_table(nodes), "the node table")
    opened, problems = {}, list[str]()
    for name, part in parts.items():
        try:
            opened[name] = open_table(part, f"the node table {name!r}")
        except TableError as error:
            problems.append(str(error))
    if problems:
        raise TableError(" ".join(problems))
    return GraphTables(opened)


def find_groups(
    names: pa.Array, column: str, problems: Problems
) -> tuple[IntArray, tuple[str, ...]]:
    """The graph of each row, from a column with the names of graphs.

    Parameters
    ----------
    names : (n,) array of large_string
        The name of each row's graph.
    column : str
        The column.
    problems : Problems
        Collects rows without a graph.

    Returns
    -------
    groups : (n,) int64 array
        The position of each row's graph among the graphs.
    graphs : tuple of str
        The names of the graphs, sorted.

    Examples
    --------
    >>> groups, graphs = find_groups(pa.array(["ES", "DE", "ES"]), "country", Problems())
    >>> groups.tolist(), graphs
    ([1, 0, 1], ('DE', 'ES'))
    """
    blank = pc.equal(pc.utf8_trim_whitespace(names), "").fill_null(True)
    missing = np.flatnonzero(blank)
    rule = f"column {column!r} must name the graph of each row"
    problems.rows(rule, missing + 1, [None] * len(missing))
    graphs = sorted_names(names.filter(pc.invert(blank)).unique().to_pylist())
    if 1 < len(names) == len(graphs):
        problems.add(f"column {column!r} must name graphs of several rows; all rows are different")
    place = pc.index_in(names, value_set=pa.array(graphs, names.type)).fill_null(0)
    return place.to_numpy(zero_copy_only=False).astype(np.int64), graphs


def shown_ids(ids: pa.Array, groups: IntArray, graphs: tuple[str, ...]) -> pa.Array:
    """Ids of several pairs of tables as GRAPH/ID, null where an id is missing.

    Examples
    --------
    >>> shown_ids(pa.array([7, 7]), np.array([1, 0]), ("DE", "ES")).to_pylist()
    ['ES/7', 'DE/7']
    """
    names = pa.array(graphs, pa.large_string()).take(pa.array(groups))
    return pc.binary_join_element_wise(names, text_of(ids), pa.scalar("/", pa.large_string()))


def links_of_graphs(edges: TableLike, nodes: TableLike) -> dict[str | None, TableLike]:
    """The link table of each graph; if there is one node table, its links under the name None.

    Parameters
    ----------
    edges : path or table, or as many of them as there are node tables
        The link tables, in the order of the node tables or by the names of the graphs.
    nodes : path or table, or several
        The node tables, as in `named_tables`.

    Raises
    ------
    OptionError
        If there are not as many link tables as node tables.

    Examples
    --------
    >>> links_of_graphs(["d.csv", "e.csv"], ["DE.csv", "ES.csv"])
    {'DE': 'd.csv', 'ES': 'e.csv'}
    >>> links_of_graphs("links.csv", "nodes.csv")
    {None: 'links.csv'}
    """
    names = list(named_tables(nodes))
    if not names:
        return {None: edges}
    if is_mapping_of_tables(edges):
        by_name = {str(name): table for name, table in edges.items()}
        if set(by_name) == set(names):
            return {name: by_name[name] for name in names}
        found = f"tables of {', '.join(map(str, edges))}"
    elif isinstance(edges, list | tuple):
        if len(edges) == len(names):
            return dict(zip(names, edges, strict=True))
        found = str(len(edges))
    else:
        found = "1"
    raise OptionError(
        f"{len(names)} node tables ({', '.join(names)}) need as many link tables, in the same "
        f"order; found {found}."
    )


def read_each(
    tables: Mapping[str | None, TableLike], ids: pa.Array, read: ReadLinks
) -> tuple[Links, LinkReport]:
    """Read the links of all graphs.

    Parameters
    ----------
    tables : mapping of str to table
        The link tables, as `links_of_graphs` returns them.
    ids : (n,) Arrow array
        The ids of the nodes, as in `Nodes`.
    read : callable
        Reads a link table, given the ids of the nodes.

    Returns
    -------
    links : Links
        The links of all graphs.
    report : LinkReport
        Counts of the rows of all link tables.
    """
    if None in tables:
        return read(tables[None], ids)
    parts, reports = list[Links](), dict[str, LinkReport]()
    problems = list[str]()
    for name, table in tables.items():
        rows = np.flatnonzero(pc.starts_with(ids, f"{name}/"))
        own = pc.utf8_slice_codeunits(ids.take(pa.array(rows)), len(str(name)) + 1)
        try:
            links, reports[str(name)] = read(table, own)
            parts.append(replace(links, pairs=rows[links.pairs]))
        except TableError as error:
            problems.append(str(error))
    if problems:
        raise TableError(" ".join(problems))
    return join_links(parts), join_reports(reports)


def join_links(parts: Sequence[Links]) -> Links:
    """The links of several graphs, whose nodes have different numbers.

    Examples
    --------
    >>> parts = [Links(np.array([[0, 1]]), relations=("a",)), Links(np.array([[2, 3]]))]
    >>> joined = join_links(parts)
    >>> joined.relations, joined.relation.tolist()
    (('a', 'links'), [0, 1])
    """
    relations = sorted_names({name for part in parts for name in part.relations})
    relation = weights = None
    if len(relations) > 1 or any(part.relation is not None for part in parts):
        relation = np.concatenate([_relation(part, relations) for part in parts])
    if any(part.weights is not None for part in parts):
        weights = np.concatenate([_weights(part) for part in parts])
    pairs = np.concatenate([part.pairs for part in parts])
    return Links(pairs, relation, weights, relations, any(part.directed for part in parts))


def _relation(links: Links, relations: tuple[str, ...]) -> IntArray:
    places = np.array([relations.index(name) for name in links.relations], dtype=np.int64)
    own = np.zeros(len(links.pairs), dtype=np.int64) if links.relation is None else links.relation
    return places[own]


def _weights(links: Links) -> Any:  # noqa: ANN401
    ones = np.ones(len(links.pairs), dtype=np.float32)
    return ones if links.weights is None else links.weights


def join_reports(reports: dict[str, LinkReport]) -> LinkReport:
    """Counts of the rows of the link tables of several graphs.

    Examples
    --------
    >>> print(join_reports({"DE": LinkReport(3, 2, duplicates=1), "ES": LinkReport(5, 5)}))
    7 links from 8 rows; duplicates merged: 1.
    """
    counts = Counter[str]()
    for report in reports.values():
        counts.update(dict(report.relations))
    nowhere = {name for report in reports.values() for name in report.left_out} - set(counts)
    return replace(
        merge_reports(reports),
        relations=tuple((name, counts[name]) for name in sorted_names(counts)),
        left_out=sorted_names(nowhere),
    )


def _stem(table: TableLike, k: int) -> str:
    return file_name(table) or str(k + 1)


def _folder(table: TableLike, k: int) -> str:
    return str(k + 1) if file_name(table) is None else Path(table).resolve().parent.name


def _plain_type(table: Table, column: str) -> pa.DataType:
    return plain(pa.nulls(0, table.schema.field(column).type)).type
