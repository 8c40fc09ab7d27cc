"""Read the link tables of a prediction or an update in the same way as those of the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from linkdist.data.links import LINKS
from linkdist.errors import OptionError, TableError
from linkdist.tables.graphs import links_of_graphs
from linkdist.tables.io import Table, open_table
from linkdist.tables.link_columns import TRAINED
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


def trained_link_tables(tables: Tables, about: About | None) -> dict[str | None, Tables]:
    """The tables of each graph, with link tables that are read as in the training.

    Parameters
    ----------
    tables : Tables
        The tables of one graph, which has the name None, or of several.
    about : mapping, optional
        What the model directory records of the training; None for a new training.

    Raises
    ------
    TableError, OptionError
        As in `with_trained_columns` and `linkdist.tables.graphs.links_of_graphs`.
    """
    edges_of = links_of_graphs(tables.edges, tables.nodes)
    each = {name: replace(tables, edges=edges) for name, edges in edges_of.items()}
    if about is None:
        return each
    return {name: with_trained_columns(own, about) for name, own in each.items()}


def with_trained_columns(tables: Tables, about: About, origin: str = TRAINED) -> Tables:
    """Tables whose link tables are read with the columns and the direction of the training.

    A column of the training is used where `tables` names none and the link tables have it.

    Parameters
    ----------
    tables : Tables
        The tables.
    about : mapping
        What the model directory records of the training.
    origin : str
        What messages say about it.

    Raises
    ------
    TableError
        If there is no column of relations or of weights, or if there are several link tables, but
        the model was trained without relations.
    OptionError
        If links are to have directions, relations or weights, but those of the training had none.

    Examples
    --------
    >>> tables = Tables({"id": [1, 2]}, {"to": [1], "of": [2], "kind": ["knows"]}, "id", "label")
    >>> about = {"source": "of", "relation": "kind", "relations": ["cites", "knows"]}
    >>> found = with_trained_columns(tables, about)
    >>> found.source, found.target, found.relation, found.weight, found.directed
    ('of', None, 'kind', None, False)
    """
    _check_options(tables, about, origin)
    column = tables.relation or about.get("relation")
    named = column is None and len(trained_relations(about)) > 1
    given = link_tables(tables.edges, named=named)
    opened = {name: open_table(table, "the link table") for name, table in given.items()}

    def role(name: str) -> str | None:
        """The column of the training, if all link tables have it."""
        trained: str | None = about.get(name)
        there = all(trained in table.schema.names for table in opened.values())
        return trained if there else None

    _check_columns(tables, opened, about, origin)
    return replace(
        tables,
        edges=opened.get(None, opened),
        source=tables.source or role("source"),
        target=tables.target or role("target"),
        relation=tables.relation or (about.get("relation") if None in opened else None),
        weight=tables.weight or about.get("weight"),
        directed=bool(about.get("directed")),
    )


def _check_options(tables: Tables, about: About, origin: str) -> None:
    """Raise an error if links are to have what those of the training did not have."""
    given = {
        "--directed": ("undirected links", tables.directed and not about.get("directed")),
        "--relation": ("links without relations", tables.relation and not _has_relations(about)),
        "--weight": ("links without weights", tables.weight and not about.get("weight")),
    }
    if wrong := {option: links for option, (links, found) in given.items() if found}:
        trained = " and ".join(wrong.values())
        raise OptionError(f"{origin} with {trained}; leave out {', '.join(wrong)}.")


def _check_columns(
    tables: Tables, opened: Mapping[str | None, Table], about: About, origin: str
) -> None:
    """Raise an error if link tables lack columns of the training, or if there are too many."""
    if None not in opened and not _has_relations(about):
        rule = f"{origin} without relations, so it takes one link table"
        raise TableError(f"{rule}; found {', '.join(map(str, opened))}.")
    problems = []
    for name, table in opened.items():
        relation = about.get("relation") if name is None and not tables.relation else None
        roles = {"relations": relation, "weights": None if tables.weight else about.get("weight")}
        columns = {role: column for role, column in roles.items() if column is not None}
        lack = [role for role, column in columns.items() if column not in table.schema.names]
        if lack:
            rule = " and ".join(f"the {role} in column {columns[role]!r}" for role in lack)
            found = ", ".join(table.schema.names)
            advice = f"Add {'this column' if len(lack) == 1 else 'these columns'}."
            trained = f"{origin} with {rule}"
            problems.append(f"{table.name}: {trained}; found only {found}. {advice}")
    if problems:
        raise TableError(" ".join(problems))


def _has_relations(about: About) -> bool:
    return about.get("relation") is not None or trained_relations(about) != LINKS
