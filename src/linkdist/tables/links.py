"""Read link tables into `linkdist.data.links.Links`.

A link table has two columns of ids, which are compared as text, like the ids of a node table. It
may have a column of relations and a column of weights; or there are several tables, one for each
relation. Duplicate links, links to unknown nodes and self-loops are counted and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from linkdist.data.graph import FloatArray, IntArray
from linkdist.data.links import LINKS as UNNAMED
from linkdist.data.links import Links
from linkdist.errors import OptionError, TableError
from linkdist.tables.io import Table, TableLike, open_table
from linkdist.tables.link_columns import RelationColumn, WeightColumn, relation_order
from linkdist.tables.link_report import LinkReport as LinkReport
from linkdist.tables.link_report import check_links as check_links
from linkdist.tables.link_report import merge_reports, option_hints
from linkdist.tables.link_tables import link_tables
from linkdist.tables.parsing import places_among, single_values, text_of
from linkdist.tables.source import Tables
from linkdist.tables.validation import SHOWN, Problems

LINKS = 1 << 20
"""Number of rows in a batch of links; it is large because each batch builds an index of all ids."""


def read_links(
    edges: TableLike,
    ids: pa.Array,
    source: str | None = None,
    target: str | None = None,
    strict: bool = False,
    *,
    relation: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    relations: Sequence[str] | None = None,
) -> tuple[Links, LinkReport]:
    r"""Read one or several link tables.

    Parameters
    ----------
    edges : path or table, mapping of str to table, or list of paths
        Any table that `open_table` opens. Several tables are relations: the keys of a mapping are
        their names; the relation of a file is its name without suffixes.
    ids : (n,) Arrow array
        The ids of the nodes, without duplicates, as in `Nodes`.
    source, target : str, optional
        The columns of the two nodes of a link; by default the first two columns that are neither
        `relation` nor `weight`.
    strict : bool
        Whether unknown nodes, duplicates and self-loops are errors.
    relation : str, optional
        The column with the relation of each link, if there is one table.
    weight : str, optional
        The column with the weight of each link, a positive number or the text of one.
    directed : bool
        Whether links lead from the node in `source` to the node in `target`.
    relations : sequence of str, optional
        The relations of a trained model. Others are errors; not all of them need links.

    Returns
    -------
    links : Links
        Each link once, as positions in `ids`, sorted; undirected links have their smaller position
        first. The weights of duplicates are added up. The relations are those of the model;
        otherwise they are sorted by name, or in the order of the tables.
    report : LinkReport
        Counts of the rows.

    Raises
    ------
    TableError
        If there are no links, if relations or weights are missing or invalid or, with `strict`, any
        other problems. The message lists all problems of all tables.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "links.csv")
    ...     _ = path.write_text("a,b\n7,8\n8,7\n9,9\n")
    ...     links, report = read_links(path, pa.array([7, 8, 9]))
    >>> links.pairs.tolist()
    [[0, 1], [2, 2]]
    >>> print(report)
    2 links from 3 rows; duplicates merged: 1; self-loops kept: 1.
    >>> table = {"a": [7, 7], "b": [8, 9], "kind": ["knows", "cites"], "years": [2, 0.5]}
    >>> links, report = read_links(table, pa.array([7, 8, 9]), relation="kind", weight="years")
    >>> links.relations, links.relation.tolist(), links.weights.tolist()
    (('cites', 'knows'), [0, 1], [0.5, 2.0])
    >>> print(report)
    2 links from 2 rows; links of each relation: cites 1, knows 1; weights from 0.5 to 2.
    """
    known = None if relations is None else tuple(relations)
    tables = named_link_tables(edges, relation, known)
    may_be_empty = known is not None and len(tables) > 1
    how = _Reading(source, target, strict, relation, weight, directed, known, may_be_empty)
    texts, parts, errors = text_of(ids), list[tuple[Links, LinkReport]](), list[str]()
    for name, table in tables.items():
        try:
            parts.append(_read_table(table, name, texts, how))
        except TableError as error:
            errors.append(str(error))
    if not errors and not any(report.kept for _, report in parts):
        errors.append("the link tables have no rows; a graph needs links.")
    if errors:
        raise TableError(" ".join(errors))
    return parts[0] if None in tables else _joined(parts, known)


def named_link_tables(
    edges: TableLike, relation: str | None, known: tuple[str, ...] | None = None
) -> dict[str | None, TableLike]:
    """The link tables by their relations; a single table without one has the name None.

    Parameters
    ----------
    edges, relation
        As in `read_links`.
    known : tuple of str, optional
        The relations of a trained model.

    Raises
    ------
    TableError, OptionError
        If the tables have no valid names, or if relations are given in two ways.

    Examples
    --------
    >>> named_link_tables("links.csv", relation="kind")
    {None: 'links.csv'}
    """
    tables = link_tables(edges, named=relation is None and len(known or UNNAMED) > 1)
    if relation is not None and None not in tables:
        raise OptionError(
            "--relation names a column of a single link table; each of several tables is a "
            f"relation. Found column {relation!r} and the tables {', '.join(map(str, tables))}."
        )
    return tables


def links_of(
    tables: Tables, ids: pa.Array, relations: Sequence[str] | None = None
) -> tuple[Links, LinkReport]:
    """`read_links` with the roles of columns in `tables`."""
    return read_links(
        tables.edges,
        ids,
        tables.source,
        tables.target,
        tables.strict,
        relation=tables.relation,
        weight=tables.weight,
        directed=tables.directed,
        relations=relations,
    )


class _Reading(NamedTuple):
    """How link tables are read: parameters of `read_links`, and whether tables may be empty."""

    source: str | None
    target: str | None
    strict: bool
    relation: str | None
    weight: str | None
    directed: bool
    known: tuple[str, ...] | None
    may_be_empty: bool


class _Rows(NamedTuple):
    """The rows of a link table.

    Attributes
    ----------
    places : (m, 2) int64 array
        The positions of both nodes, -1 if unknown.
    unknown : list of str or None
        The first unknown ids.
    relation : (m,) int64 array, optional
        The position of each row's relation in `relations`, -1 if it is missing.
    weights : (m,) float32 array, optional
        The weight of each row.
    relations : tuple of str
        Names of the relations.
    """

    places: IntArray
    unknown: list[str | None]
    relation: IntArray | None
    weights: FloatArray | None
    relations: tuple[str, ...]

    def links(self, rows: IntArray, directed: bool) -> Links:
        """Some of the rows as links."""
        relation = None if self.relation is None else self.relation[rows]
        weights = None if self.weights is None else self.weights[rows]
        return Links(self.places[rows], relation, weights, self.relations, directed)


def _read_table(
    source: TableLike, name: str | None, ids: pa.Array, how: _Reading
) -> tuple[Links, LinkReport]:
    """Read a link table; `name` is its relation if each table is one."""
    table = open_table(source, "the link table" if name is None else f"the link table {name!r}")
    others = [column for column in (how.relation, how.weight) if column is not None]
    ends, problems = link_ends(table, how.source, how.target, others), Problems()
    rows = _read_rows(table, ends, name, ids, how, problems)

    def pairs(some: IntArray) -> list[list[str]]:
        return [ids.take(pa.array(rows.places[row])).to_pylist() for row in some[:SHOWN]]

    known_both = (rows.places >= 0).all(axis=1)
    there, lost = np.flatnonzero(known_both), np.flatnonzero(~known_both)
    links = rows.links(there, how.directed)
    _, first = np.unique(links.keys(len(ids)), return_index=True)
    kept, again = there[first], np.delete(there, first)  # rows
    loops = np.sort(kept[rows.places[kept, 0] == rows.places[kept, 1]])
    examples = tuple(zip((lost[:SHOWN] + 1).tolist(), rows.unknown, strict=True))
    counts = (len(rows.places), len(kept), len(lost), len(again), len(loops))
    unused = tuple(column for column in table.schema.names if column not in (*ends, *others))
    report = LinkReport(*counts, examples, unused, directed=how.directed)
    if report.total or problems or not how.may_be_empty:
        check_links(
            table.name, ends, report, how.strict,
            (again[:SHOWN] + 1, pairs(again)), (loops[:SHOWN] + 1, pairs(loops)), problems=problems,
        )  # fmt: skip
    if links.weights is None:
        links = rows.links(kept, how.directed)  # in the order of their keys: no second sort
    links, empty = _without_empty(links.merged(len(ids)), how)
    weights = None if links.weights is None or not len(kept) else links.weights
    report = replace(
        report,
        relations=() if how.relation is None else _counts(links),
        left_out=empty,
        weights=None if weights is None else (float(weights.min()), float(weights.max())),
        ends=ends if how.directed else None,
    )
    if how.known is None:
        free = ["weight"] * (how.weight is None)
        free += ["relation"] * (how.relation is None and name is None)
        report = replace(report, hints=option_hints(table, unused, free))
    return links, report


def _read_rows(
    table: Table,
    ends: tuple[str, str],
    name: str | None,
    ids: pa.Array,
    how: _Reading,
    problems: Problems,
) -> _Rows:
    relation = None if how.relation is None else RelationColumn(how.relation, problems)
    weight = None if how.weight is None else WeightColumn(table, how.weight, problems)
    others = [column for column in (relation, weight) if column is not None]
    parts, unknown = [np.empty((0, 2), dtype=np.int64)], list[str | None]()
    columns = [*ends, *(column.name for column in others)]
    for first_row, (sources, targets, *values) in _batches(table, columns, LINKS):
        texts = text_of(sources), text_of(targets)
        parts.append(np.stack([places_among(text, ids) for text in texts], axis=1))
        lost = parts[-1] < 0
        for row in np.flatnonzero(lost.any(axis=1))[: SHOWN - len(unknown)]:
            unknown.append(texts[lost[row].argmax()][int(row)].as_py())
        for column, some in zip(others, values, strict=True):
            column.add(first_row, some)
    places = np.concatenate(parts)
    codes, relations = None, how.known or UNNAMED
    if relation is not None:
        relations = relation_order(relation.counts, how.known, problems)
        numbers = np.array([*map(relations.index, relation.counts), -1])
        codes = numbers[relation.codes()]
    elif name is not None:
        relation_order({name: len(places)}, how.known, problems)
        relations = (name,)
    return _Rows(places, unknown, codes, None if weight is None else weight.weights(), relations)


def _without_empty(links: Links, how: _Reading) -> tuple[Links, tuple[str, ...]]:
    """Leave out relations without links, which cannot be trained; those of a model are kept."""
    if links.relation is None:
        return links, ()
    used = np.unique(links.relation) if how.known is None else np.arange(len(links.relations))
    kept = tuple(links.relations[i] for i in used)
    relation = np.searchsorted(used, links.relation) if len(kept) > 1 else None
    empty = tuple(name for name in links.relations if name not in kept)
    return replace(links, relations=kept, relation=relation), empty


def _counts(links: Links) -> tuple[tuple[str, int], ...]:
    """The relations and their numbers of links."""
    if links.relation is None:
        return ((links.relations[0], len(links.pairs)),)
    counts = np.bincount(links.relation, minlength=len(links.relations)).tolist()
    return tuple(zip(links.relations, counts, strict=True))


def _joined(
    parts: list[tuple[Links, LinkReport]], known: tuple[str, ...] | None
) -> tuple[Links, LinkReport]:
    """Join tables that are relations, in their order or that of a model."""
    order = known or tuple(links.relations[0] for links, _ in parts)
    parts = sorted(parts, key=lambda part: order.index(part[0].relations[0]))
    sizes = [len(links.pairs) for links, _ in parts]
    numbers = [order.index(links.relations[0]) for links, _ in parts]
    weights = [links.weights for links, _ in parts if links.weights is not None]
    links = Links(
        np.concatenate([links.pairs for links, _ in parts]),
        np.repeat(np.array(numbers), sizes) if len(order) > 1 else None,
        np.concatenate(weights) if weights else None,
        order,
        parts[0][0].directed,
    )
    return links, merge_reports({links.relations[0]: report for links, report in parts})


def link_ends(
    table: Table,
    source: str | None = None,
    target: str | None = None,
    others: Sequence[str] = (),
) -> tuple[str, str]:
    r"""Find the columns of the two nodes of a link, by default the first two columns.

    `others` are columns with another role, such as the weights of links.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "links.csv")
    ...     _ = path.write_text("year,a,b\n2020,7,8\n")
    ...     link_ends(open_table(path), target="a")
    ('year', 'a')
    """
    names, problems = table.schema.names, Problems()
    given = [name for name in (source, target) if name is not None]
    problems.names("column", dict.fromkeys([*given, *others]), names)
    rest = [name for name in names if name not in (*given, *others)]
    if source == target is not None or len(given) + len(rest) < 2:
        problems.add(f"links need two columns of ids; found {', '.join(given or rest or names)}")
    if twice := [name for name in dict.fromkeys(others) if [*given, *others].count(name) > 1]:
        problems.add(f"a column of links can have one role; found several for {', '.join(twice)}")
    problems.check(table.name)
    first = rest.pop(0) if source is None else source
    return first, rest.pop(0) if target is None else target


def link_batches(
    table: Table, ends: tuple[str, str], size: int | None = None, others: Sequence[str] = ()
) -> Iterator[tuple[Any, ...]]:
    r"""Read the ids of a link table of any size, batch by batch.

    Parameters
    ----------
    table : Table
        As `open_table` returns it.
    ends : tuple of str
        The columns of the two nodes of a link.
    size : int, optional
        Maximum number of rows in a batch; by default `LINKS`.
    others : sequence of str
        Further columns, such as the weights of links.

    Yields
    ------
    first_row : int
        Row number of the first row of the batch.
    sources, targets : (k,) arrays of large_string
        Ids as text, null where missing.
    *values : (k,) arrays
        The other columns.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "links.csv")
    ...     _ = path.write_text("a,b\n7,8\n8,\n")
    ...     ((row, a, b),) = link_batches(open_table(path), ("a", "b"))
    >>> row, a.to_pylist(), b.to_pylist()
    (1, ['7', '8'], ['8', None])
    """
    for first_row, columns in _batches(table, [*ends, *others], size or LINKS):
        sources, targets, *values = columns
        yield first_row, text_of(sources), text_of(targets), *values


def _batches(
    table: Table, columns: Sequence[str], size: int
) -> Iterator[tuple[int, list[pa.Array]]]:
    """Read columns as text where possible, with the number of the first row of each batch."""
    problems = Problems()
    for first_row, batch in table.numbered_batches(columns, size, as_text=columns):
        yield first_row, [single_values(batch, name, problems) for name in columns]
    problems.check(table.name)
