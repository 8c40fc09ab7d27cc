"""The tables from which a graph is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from linkdist.tables.embedding import TextEncoder
from linkdist.tables.io import TableLike

ROLES = ("id", "label", "unknown", "source", "target")
"""What a model directory records of `Tables`, so that later tables are read in the same way."""


@dataclass(frozen=True)
class Tables:
    """A node table and a link table, and the roles of their columns.

    Attributes
    ----------
    nodes, edges : path or table
        Tables that `linkdist.tables.io.open_table` opens.
    id, label : str
        Columns of the node table.
    features : sequence of str, optional
        The columns that are features; by default all columns that can be.
    kinds : mapping of str to str
        Columns whose kind is given instead of inferred.
    source, target : str, optional
        Columns of the link table; by default its first two.
    strict : bool
        Whether warnings, links to unknown nodes, duplicate links and self-loops are errors.
    unknown : sequence of str
        Values of the label column that mean an unknown label.
    labels : path or table, optional
        A table of ids and labels, under the same names, that adds labels to the node table.
    text_encoder : TextEncoder, optional
        Computes the features of text columns, instead of tf-idf.
    """

    nodes: TableLike
    edges: TableLike
    id: str
    label: str
    features: Sequence[str] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    target: str | None = None
    strict: bool = False
    unknown: Sequence[str] = ()
    labels: TableLike = None
    text_encoder: TextEncoder | None = None
