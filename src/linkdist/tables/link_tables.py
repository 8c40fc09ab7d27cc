"""Several link tables: each is a relation, named by the user or by its file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from linkdist.data.links import MOST_RELATIONS
from linkdist.errors import TableError
from linkdist.tables.io import READ, Table, TableLike

RULE = "several link tables must be files, whose names are the relations, or a mapping of names"


def link_tables(edges: TableLike, named: bool = False) -> dict[str | None, TableLike]:
    """Name link tables by their relations; a single table has no relation, so its name is None.

    Parameters
    ----------
    edges : path, table, mapping of str to table, or list of paths
        A link table; or a table for each relation, or files whose names are the relations.
    named : bool
        Whether a single table must have a relation, too.

    Raises
    ------
    TableError
        If a table has no name, if two have the same, or if there are more than `MOST_RELATIONS`.

    Examples
    --------
    >>> link_tables("cites.csv")
    {None: 'cites.csv'}
    >>> link_tables(["cites.csv", "old/knows.csv.gz"])
    {'cites': 'cites.csv', 'knows': 'old/knows.csv.gz'}
    >>> link_tables({"from": [1, 2], "to": [2, 3]})
    {None: {'from': [1, 2], 'to': [2, 3]}}
    >>> sorted(link_tables({"cites": {"from": [1], "to": [2]}}))
    ['cites']
    """
    if is_mapping_of_tables(edges):
        pairs = list(edges.items())
    else:
        tables = list(edges) if isinstance(edges, list | tuple) else [edges]
        if len(tables) == 1 and not named:
            return {None: tables[0]}
        pairs = [(file_name(table), table) for table in tables]
    wrong = [type(table).__name__ for name, table in pairs if not isinstance(name, str)]
    if wrong or not pairs:
        found = ", ".join(dict.fromkeys(wrong)) or "no table"
        raise TableError(f"{RULE} to tables; found {found}.")
    if len(pairs) > MOST_RELATIONS:
        raise TableError(f"there can be {MOST_RELATIONS} relations; found {len(pairs)} tables.")
    names = [name for name, _ in pairs]
    if again := [str(table) for name, table in pairs if names.count(name) > 1]:
        rule = "the names of the files are the relations, so they must be different"
        raise TableError(f"{rule}; found {', '.join(again)}. Rename them.")
    return dict(pairs)


def is_mapping_of_tables(edges: TableLike) -> bool:
    """Whether this is a mapping of names to tables; a table may be a mapping of columns."""
    return isinstance(edges, Mapping) and bool(edges) and all(map(_is_table, edges.values()))


def _is_table(value: Any) -> bool:  # noqa: ANN401
    """Whether a value is a table, not a column: lists, arrays and series of values are columns."""
    if isinstance(value, str | os.PathLike | Mapping | Table):
        return True
    # Of the type: a pandas series has its labels as attributes.
    has = {name for name in ("columns", "schema", "__len__") if hasattr(type(value), name)}
    return bool(has - {"__len__"}) or (not has and hasattr(value, "__arrow_c_stream__"))


def file_name(table: TableLike) -> str | None:
    """The name of a file without its suffixes; None for a table in memory."""
    if not isinstance(table, str | os.PathLike):
        return None
    path = Path(table)
    while path.suffix.lower() in (".gz", *READ):
        path = path.with_suffix("")
    return path.name
