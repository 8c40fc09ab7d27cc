"""The tables from which a graph is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Tables:
    """A node table and a link table, and the roles of their columns.

    Attributes
    ----------
    nodes, edges : Path
        Parquet or CSV files.
    id, label : str
        Columns of the node table.
    features : sequence of str, optional
        The columns that are features; by default all columns that can be.
    kinds : mapping of str to str
        Columns whose type is given instead of inferred.
    source, target : str, optional
        Columns of the link table; by default its first two.
    strict : bool
        Whether links to unknown nodes, duplicate links and self-loops are errors.
    """

    nodes: Path
    edges: Path
    id: str
    label: str
    features: Sequence[str] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    target: str | None = None
    strict: bool = False
