"""Add the labels of a second table, such as one that `linkdist suggest` wrote, to the nodes."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from linkdist.tables.io import TableLike, open_table
from linkdist.tables.labels import sorted_classes, without_unknown
from linkdist.tables.parsing import as_mask, places_among, single_values, text_of
from linkdist.tables.validation import SHOWN, Problems


def add_labels(
    text: pa.Array,
    ids: pa.Array,
    labels: TableLike,
    columns: tuple[str, str],
    unknown: Collection[str] = (),
) -> pa.Array:
    """Fill in the labels of nodes.

    Parameters
    ----------
    text : (n,) array of large_string
        Labels of the node table, null where unknown.
    ids : (n,) array
        Ids of the nodes.
    labels : path or table
        A table with ids and labels; rows without a label are skipped.
    columns : tuple of str
        The columns of ids and labels.
    unknown : collection of str
        Values of the label column that mean an unknown label.

    Raises
    ------
    TableError
        Lists all ids that are unknown or occur with several labels.

    Examples
    --------
    >>> nodes = pa.array(["art", None, None], pa.large_string())
    >>> more = {"id": [9, 8], "field": ["math", None]}
    >>> add_labels(nodes, pa.array([7, 8, 9]), more, ("id", "field")).to_pylist()
    ['art', None, 'math']
    """
    table, problems = open_table(labels, "the label table"), Problems()
    problems.names("column", columns, table.schema.names)
    problems.check(table.name)
    batches = [
        [text_of(single_values(batch, name, problems)) for name in columns]
        for batch in table.batches(columns, as_text=columns)
    ]
    problems.check(table.name)
    none = pa.array([], pa.large_string())
    given, new = (pa.concat_arrays([none, *(batch[i] for batch in batches)]) for i in (0, 1))
    new = without_unknown(new, unknown)
    rows = np.flatnonzero(as_mask(new.is_valid()))
    given, new = given.take(pa.array(rows)), new.drop_null()
    place = places_among(given, text_of(ids))
    lost = np.flatnonzero(place < 0)
    rule = f"column {columns[0]!r} must contain ids of the node table"
    problems.rows(rule, rows[lost] + 1, given.take(pa.array(lost[:SHOWN])))
    found = text.to_pylist()
    classes = {*sorted_classes(pa.concat_arrays([text, new]))}  # among integers, without -1
    for i, label in zip(place.tolist(), new.to_pylist(), strict=True):
        if i < 0 or label not in classes:
            continue
        if found[i] in classes - {label}:
            problems.add(f"node {ids[i].as_py()!r} has the labels {found[i]!r} and {label!r}")
        else:
            found[i] = label
    problems.check(table.name)
    return pa.array(found, pa.large_string())
