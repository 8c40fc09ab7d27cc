"""The tables from which a graph is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from linkdist.tables.embedding import TextEncoder
from linkdist.tables.io import TableLike

ROLES = ("id", "label", "unknown", "source", "target", "task", "graph")
"""What a model directory records of `Tables`, so that later tables are read in the same way."""

LINK_ROLES = ("relation", "weight", "directed")
"""What it records of the links as well."""


@dataclass(frozen=True)
class Tables:
    """A node table and link tables, and the roles of their columns.

    Attributes
    ----------
    nodes : path or table
        A table that `linkdist.tables.io.open_table` opens; or several, each with a graph
        (`linkdist.tables.graphs`).
    edges : path or table, mapping of str to table, or list of paths
        The link table; or a table for each relation, as `linkdist.tables.links.read_links` takes
        them. If there are several node tables, the link table of each of them.
    id : str
        The column of ids.
    label : str or sequence of str
        The column of labels, or several columns of 0 and 1.
    features : sequence of str, optional
        The columns that are features; by default all columns that can be.
    kinds : mapping of str to str
        Columns whose kind is given instead of inferred.
    source, target : str, optional
        Columns of the link tables; by default their first two without another role.
    strict : bool
        Whether warnings, links to unknown nodes, duplicate links and self-loops are errors.
    unknown : sequence of str
        Values of the label column that mean an unknown label.
    labels : path or table, optional
        A table of ids and labels, under the same names, that adds labels to the node table. The ids
        of several node tables are GRAPH/ID.
    text_encoder : TextEncoder, optional
        Computes the features of text columns, instead of tf-idf.
    relation : str, optional
        The column of the link table with the relation of each link.
    weight : str, optional
        The column of the link tables with the weight of each link.
    directed : bool
        Whether links lead from `source` to `target`.
    task : {'classification', 'regression', 'multilabel'}, optional
        What the labels are; by default it is guessed (`linkdist.tables.task`).
    graph : str, optional
        The column of the node table with the names of graphs, if there are several.
    """

    nodes: TableLike
    edges: TableLike
    id: str
    label: str | Sequence[str]
    features: Sequence[str] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    target: str | None = None
    strict: bool = False
    unknown: Sequence[str] = ()
    labels: TableLike = None
    text_encoder: TextEncoder | None = None
    relation: str | None = None
    weight: str | None = None
    directed: bool = False
    task: str | None = None
    graph: str | None = None
