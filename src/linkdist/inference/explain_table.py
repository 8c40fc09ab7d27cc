"""Explain rows of a table: find them, their links and their neighbours.

Only the explained rows and their neighbours are encoded. With links, or to find rows by their ids,
the ids of the whole table are read first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import FeatureMatrix, IntArray
from linkdist.data.links import Links
from linkdist.errors import OptionError, TableError
from linkdist.inference.explain import MOST, Explanation, chosen_labels, explain
from linkdist.inference.heads import Heads, NearRows, Neighbours
from linkdist.inference.table import Described, batch_ids, read_table_links, table_columns
from linkdist.progress import Callback
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.graphs import open_nodes
from linkdist.tables.io import Table, TableLike
from linkdist.tables.node_table import NodeTable
from linkdist.tables.parsing import single_values, text_of
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.tables.source import Tables
from linkdist.tables.trained_columns import trained_link_tables, trained_relations
from linkdist.tables.validation import SHOWN, Problems


class Explained(NamedTuple):
    """An explanation, and the id of its row.

    Attributes
    ----------
    id : str
        The id; the number of the row, if the table has no ids.
    explanation : Explanation
        The explanation.
    """

    id: str
    explanation: Explanation


def explain_table(
    heads: Heads,
    columns: PredictionColumns,
    model: Described,
    nodes: TableLike,
    edges: TableLike = None,
    *,
    ids: Sequence[str] | None = None,
    rows: int | None = None,
    labels: Sequence[str] | None = None,
    callback: Callback | None = None,
) -> Iterator[Explained]:
    """Explain the predictions of some rows of a table.

    Parameters
    ----------
    heads : Heads
        The network.
    columns : PredictionColumns
        Decides which labels are predicted.
    model : Described
        Says how the tables are read, such as the header of a model directory.
    nodes : path or table
        A table with the columns of the model.
    edges : path or table, mapping of str to table, or list of paths, optional
        Links between these nodes: a table, or one for each relation of the model.
    ids : sequence of str, optional
        The ids of the rows to explain.
    rows : int, optional
        How many rows to explain, the first ones; by default all, or those with `ids`.
    labels : sequence of str, optional
        The classes to explain; by default those that are predicted.
    callback : Callback, optional
        Receives progress and messages.

    Yields
    ------
    Explained
        One for each row and class.

    Raises
    ------
    TableError
        Lists all problems of the tables.
    OptionError
        If there is no row with one of the ids, or no such class.
    """
    callback = callback or Callback()
    chosen_labels(columns, labels)
    table, (id, encoders) = open_nodes(nodes), table_columns(model)
    neighbours: list[Neighbours | None] | None = None
    if edges is None and not ids:
        known = id if id in table.schema.names else None
        found, batch, _ = _read(table, known, encoders, rows, callback)
        wanted = np.arange(batch.num_rows)
    else:
        tables, all_ids = Tables(nodes, edges, id, ""), _read_ids(table, id, callback)
        wanted = np.arange(len(all_ids)) if not ids else _places_of(all_ids, ids, id)
        near = _near_rows(model, table, tables, all_ids, wanted[:rows], callback)
        places = np.union1d(wanted[:rows], near.positions)
        found, batch, features = _read(table, id, encoders, places, callback)
        wanted = np.searchsorted(places, wanted[:rows])
        outputs, near = heads.outputs(features)[1], near.among(places)
        neighbours = [near.neighbours(i, outputs, found, MOST) for i in range(len(wanted))]
    callback.stage("explaining")
    chosen = batch.take(pa.array(wanted))
    for one in explain(heads, encoders, columns, chosen, neighbours, labels):
        callback.progress(one.row + 1, len(wanted))
        yield Explained(found[int(wanted[one.row])], one)


def _read_ids(table: Table, id: str, callback: Callback) -> pa.Array:
    """The ids of all rows, as in predictions."""
    callback.stage("reading ids")
    problems = Problems(table.place)
    problems.names("column", [id], table.schema.names)
    problems.check(table.name)
    ids = list[pa.Array]()
    for first_row, batch in table.numbered_batches([id], as_text=[id]):
        ids.append(batch_ids(table, single_values(batch, id, problems), first_row - 1))
    problems.check(table.name)
    if not ids:
        raise TableError(f"{table.name}: the table has no rows.")
    return pa.concat_arrays(ids)


def _places_of(all_ids: pa.Array, ids: Sequence[str], column: str) -> IntArray:
    """The rows with these ids, in the order of the ids."""
    texts = text_of(all_ids)
    places = [np.flatnonzero(pc.equal(texts, id).fill_null(False)) for id in dict.fromkeys(ids)]
    unknown = [
        repr(id) for id, place in zip(dict.fromkeys(ids), places, strict=True) if not len(place)
    ]
    if unknown:
        shown = ", ".join(unknown[:SHOWN]) + ", ..." * (len(unknown) > SHOWN)
        raise OptionError(f"there is no row with the id {shown} in column {column!r}.")
    return np.concatenate(places)


def _near_rows(
    model: Described,
    table: Table,
    tables: Tables,
    all_ids: pa.Array,
    wanted: IntArray,
    callback: Callback,
) -> NearRows:
    """The rows that are linked with the wanted ones."""
    if tables.edges is None:
        return NearRows.of(Links(np.empty((0, 2), np.int64)), len(all_ids), wanted)
    each, relations = trained_link_tables(tables, model.about), trained_relations(model.about)
    links = read_table_links(table, each, relations, all_ids, tables.id, callback)
    return NearRows.of(links, len(all_ids), wanted)


def _read(
    table: Table,
    id: str | None,
    encoders: FeatureEncoder,
    places: IntArray | int | None,
    callback: Callback,
) -> tuple[list[str], pa.RecordBatch, FeatureMatrix]:
    """Read and encode some rows: their ids, the columns of the encoders, and the features.

    Parameters
    ----------
    places : (k,) array of int, or int, optional
        The positions of the rows, sorted; or how many rows, the first ones; by default all.
    """
    nodes = NodeTable(table, id, None, encoders)
    nodes.check()
    numbers, ids, batches = list[int](), list[str](), list[pa.RecordBatch]()
    for first_row, batch in nodes.batches():
        rows = np.arange(first_row - 1, first_row - 1 + batch.num_rows)
        kept = rows[
            np.isin(rows, places) if isinstance(places, np.ndarray) else rows <= _last(places)
        ]
        taken = pa.array(kept - rows[0])
        own = batch_ids(table, single_values(batch, id, nodes.problems), first_row - 1)
        texts = text_of(own.take(taken)).to_pylist()
        ids += [text or f"row {row + 1}" for text, row in zip(texts, kept.tolist(), strict=True)]
        numbers += (kept + 1).tolist()
        batches.append(batch.select(encoders.names).take(taken))
        if rows[-1] >= _last(places):
            break
    nodes.check_rows(len(ids))
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    problems = Problems(lambda row: table.place(numbers[row - 1]))
    features = encoders.transform(whole, 1, problems)
    problems.check(table.name)
    for notice in problems.notices():
        callback.note(notice)
    return ids, whole, features


def _last(places: IntArray | int | None) -> float:
    """The position of the last row to read."""
    if places is None:
        return np.inf
    return places - 1 if isinstance(places, int) else float(places.max(initial=-1))


def parts_table(explained: Iterable[Explained]) -> pa.Table:
    """Explanations as a table, with a row for the base and for each part.

    Examples
    --------
    >>> from linkdist.inference.explain import Part
    >>> part = Part("word", "title", "photon", 1.5)
    >>> one = Explanation(0, "physics", 1.0, -0.5, (part,), 0.73, 0.38, "features")
    >>> parts_table([Explained("P1", one)]).select(["kind", "value", "contribution"]).to_pylist()
    [{'kind': 'base', 'value': '', 'contribution': -0.5}, \
{'kind': 'word', 'value': 'photon', 'contribution': 1.5}]
    """
    rows = [
        (id, one.label, *part)
        for id, one in explained
        for part in (("base", "", "", one.base), *(astuple(part) for part in one.parts))
    ]
    names = ("id", "label", "kind", "column", "value", "contribution")
    types = [*[pa.string()] * 5, pa.float64()]
    schema = pa.schema(list(zip(names, types, strict=True)))
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
