"""Read the link tables of a prediction or an update in the same way as those of the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from linkdist.data.links import LINKS
from linkdist.errors import OptionError, TableError
from linkdist.progress import Callback
from linkdist.tables.io import Table, open_table
from linkdist.tables.link_tables import link_tables
from linkdist.tables.source import Tables

About: TypeAlias = Mapping[str, Any]
"""What a model directory records; see `linkdist.tables.source.LINK_ROLES`."""


def trained_relations(about: About) -> tuple[str, ...]:
    """The relations that a model was trained with.

    Examples
    --------
    >>> trained_relations({"relations": ["cites", "knows"]}), trained_relations({})
    (('cites', 'knows'), ('links',))
    """
    return tuple(about.get("relations") or LINKS)


def with_trained_columns(tables: Tables, about: About, callback: Callback | None = None) -> Tables:
    """Tables whose link tables are read with the columns and the direction of the training.

    A column of the training is used where `tables` names none and the link tables have it.

    Parameters
    ----------
    tables : Tables
        The tables.
    about : mapping
        What the model directory records of the training.
    callback : Callback, optional
        Receives a note if links have no weights, but those of the training had.

    Raises
    ------
    TableError
        If there is no column of relations, or if there are several link tables, but the model was
        trained without relations.
    OptionError
        If links are to be directed, but those of the training were not.

    Examples
    --------
    >>> tables = Tables({"id": [1, 2]}, {"to": [1], "of": [2], "kind": ["knows"]}, "id", "label")
    >>> about = {"source": "of", "relation": "kind", "relations": ["cites", "knows"]}
    >>> found = with_trained_columns(tables, about)
    >>> found.source, found.target, found.relation, found.weight, found.directed
    ('of', None, 'kind', None, False)
    """
    if tables.directed and not about.get("directed"):
        raise OptionError("the model was trained with undirected links; leave out --directed.")
    column = tables.relation or about.get("relation")
    named = column is None and len(trained_relations(about)) > 1
    given = link_tables(tables.edges, named=named)
    opened = {name: open_table(table, "the link table") for name, table in given.items()}

    def role(name: str) -> str | None:
        """The column of the training, if all link tables have it."""
        trained: str | None = about.get(name)
        there = all(trained in table.schema.names for table in opened.values())
        return trained if there else None

    return replace(
        tables,
        edges=opened.get(None, opened),
        source=tables.source or role("source"),
        target=tables.target or role("target"),
        relation=tables.relation or _relation(opened, about),
        weight=tables.weight or _weight(opened, about, callback or Callback()),
        directed=bool(about.get("directed")),
    )


def _relation(opened: Mapping[str | None, Table], about: About) -> str | None:
    """The column of relations; None if each table is a relation, or if there are none."""
    table, column = opened.get(None), about.get("relation")
    if table is None and trained_relations(about) == LINKS:
        rule = "the model was trained without relations, so it takes one link table"
        raise TableError(f"{rule}; found {', '.join(map(str, opened))}.")
    if table is None or column is None:
        return None
    if column not in table.schema.names:
        found = ", ".join(table.schema.names)
        rule = f"the model was trained with the relations in column {column!r}"
        raise TableError(f"{table.name}: {rule}; found only {found}.")
    return str(column)


def _weight(opened: Mapping[str | None, Table], about: About, callback: Callback) -> str | None:
    """The column of weights; None, with a note, if no table has that of the training."""
    column = about.get("weight")
    if column is None or any(column in table.schema.names for table in opened.values()):
        return column
    callback.note(
        f"The model was trained with the weights in column {column!r}. The link table has no such "
        "column, so all links have the same weight."
    )
    return None
