"""From two tables to a store, in memory that does not grow with the graph.

    surveying    the node table is read, encoders learn, classes are found; parts are planned
    nodes        it is read again, each node goes to its part
    ids          each part's ids are put in order; none may stand twice
    links        the link table is read, each link goes to its bucket
    buckets      each bucket's ids become rows

What comes out is what `read_nodes`, `read_links` and `with_own_loops` give for the same tables,
in another order of nodes. After each piece of work the journal is told; what is killed goes on with
the next piece. Surveying alone begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from linkdist.data.graph import UNKNOWN, FeatureMatrix, IntArray
from linkdist.errors import OptionError, TableError, check_names
from linkdist.progress import Callback
from linkdist.store.build_log import Journal, open_journal
from linkdist.store.manifest import (
    DENSE,
    VERSION,
    bucket_file,
    buckets,
    expected_files,
    part_file,
)
from linkdist.store.npy import rows_in
from linkdist.store.partition import Layout, as_float16, part_sizes, sort_ids, write_nodes
from linkdist.store.plan import (
    COPIES,
    HELD_PARTS,
    MEMORY,
    check_parts,
    parse_memory,
    parts_for,
)
from linkdist.store.reader import Store
from linkdist.store.resolve_links import RECORD, report_of, resolve, scatter
from linkdist.tables.encoders import Encoders, Text
from linkdist.tables.io import BATCH, open_table
from linkdist.tables.links import LINKS, LinkReport, check_links, link_batches, link_ends
from linkdist.tables.nodes import Survey, encoded_nodes, stand_once, survey_nodes
from linkdist.tables.schema import Guess
from linkdist.tables.source import Tables
from linkdist.tables.validation import Problems

LEAST, MOST = 1 << 20, 1 << 27
"""Bytes that are gathered before they are written: a sixteenth of the memory, within these."""

ID = 32
"""Bytes that an id is taken to have."""

SORTED = 64 + 2 * ID
"""Bytes that a node takes while its part's ids are put in order."""


def build(
    tables: Tables,
    out: Path | str,
    *,
    parts: int | None = None,
    memory: int | None = None,
    dtype: str = "float16",
    overwrite: bool = False,
    callback: Callback | None = None,
) -> Store:
    r"""Build a store from tables; killed and asked for the same again, it goes on where it was.

    Parameters
    ----------
    tables : Tables
        The data.
    out : Path
        The store's directory.
    parts : int, optional
        How many; by default as few as suit the memory.
    memory : int, optional
        Bytes that building and then training shall take at most; by default 2 GB.
    dtype : {'float16', 'float32'}
        Of dense features; sparse ones are float32.
    overwrite : bool
        Whether a store that is there may be replaced.
    callback : Callback, optional
        Receives progress and messages.

    Raises
    ------
    TableError, OptionError, StoreError
        With what is wrong and what to do.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     nodes, edges = Path(folder, "nodes.csv"), Path(folder, "links.csv")
    ...     _ = nodes.write_text("paper,field,age\n7,math,1\n8,art,3\n9,,2\n")
    ...     _ = edges.write_text("a,b\n7,8\n8,7\n")
    ...     store = build(Tables(nodes, edges, "paper", "field"), Path(folder, "store"))
    ...     store.ids(0).to_pylist(), store.links(0, 0).tolist()
    (['7', '8', '9'], [[0, 1], [2, 2]])
    """
    check_names("type of features", [dtype], DENSE)
    memory = parse_memory(MEMORY) if memory is None else memory
    if memory < 1:
        raise OptionError(f"memory must be 1 byte or more; found {memory}.")
    if parts is not None:
        check_parts(parts, links=1 << 62)  # their number alone; of links we know nothing yet
    callback = callback or Callback()
    budget = max(LEAST, min(MOST, memory // 16))
    # Of memory only the number of parts depends: where that is given, any memory goes on.
    planned = {"parts": parts, "memory": memory if parts is None else None}
    asked = _asked(tables) | planned | {"dtype": dtype}
    ends = link_ends(tables.edges, tables.source, tables.target)
    with open_journal(out, asked, overwrite) as journal:
        survey, layout = _plan(journal, tables, ends, parts, memory, dtype, callback)
        callback.columns(survey.guesses)
        fields = journal.finishing
        if fields is None:
            journal.needed = _needed(survey, journal.state["links"])
            _write_nodes(journal, tables, survey, layout, budget, callback)
            report = _write_links(journal, tables, ends, layout, budget, callback)
            callback.links(report)
            fields = _fields(journal, tables, survey, layout, report)
        journal.finish(expected_files(layout.P, layout.kind, made=False), fields, callback)
    return Store.open(out)


def _asked(tables: Tables) -> dict[str, Any]:
    """All that a store depends on: the tables as they are now, and what is asked of them."""
    asked = asdict(tables) | {"version": VERSION, "program": version("linkdist")}
    for name in ("nodes", "edges"):
        path = Path(asked[name])
        open_table(path)  # one that cannot be read is told of
        status = path.stat()
        asked[name] = [str(path.resolve()), status.st_size, status.st_mtime_ns]
    return asked


def _plan(
    journal: Journal,
    tables: Tables,
    ends: tuple[str, str],
    parts: int | None,
    memory: int,
    dtype: str,
    callback: Callback,
) -> tuple[Survey, Layout]:
    """Survey the tables, or take from the journal what was found then."""
    state = journal.state
    if "survey" not in state:
        callback.stage("surveying nodes")
        survey = survey_nodes(
            tables.nodes, tables.id, tables.label, tables.kinds, tables.features, callback.progress
        )
        callback.stage("counting links")
        links = _count_rows(tables.edges, callback)
        if not links:
            check_links(tables.edges, ends, LinkReport(total=0, kept=0))
        sparse = any(column.is_sparse for column in survey.encoders.columns)
        kind = "csr" if sparse else dtype
        if parts is None:
            # Building holds one part where training holds several.
            held = max(COPIES[kind] * _node_bytes(survey, kind), SORTED / HELD_PARTS)
            parts = parts_for(survey.rows, held, links, memory)
        check_parts(parts, links)
        journal.needed = _needed(survey, links)
        found = {
            "rows": survey.rows,
            "classes": survey.classes,
            "encoders": survey.encoders.state(),
            "guesses": {name: [found.kind, found.why] for name, found in survey.guesses.items()},
        }
        journal.note(survey=found, links=links, layout=[parts, survey.encoders.d, kind])
    found = state["survey"]
    guesses = {name: Guess(*guess) for name, guess in found["guesses"].items()}
    encoders = Encoders.from_state(found["encoders"])
    survey = Survey(found["rows"], tuple(found["classes"]), encoders, guesses)
    return survey, Layout(*state["layout"])


def _count_rows(path: Path, callback: Callback) -> int:
    table = open_table(path)
    if table.rows is not None:
        return table.rows
    rows = 0
    for batch in table.batches(table.schema.names[:1], LINKS):
        rows += batch.num_rows
        callback.progress(rows, 0)
    return rows


def _node_bytes(survey: Survey, kind: str) -> float:
    """Bytes of an average node's features and label in a part that is held."""
    if kind != "csr":
        return survey.encoders.d * np.dtype(kind).itemsize + 4
    entries = sum(_entries(column) for column in survey.encoders.columns)
    return 8 * entries + 8 + 4


def _entries(column: Any) -> float:  # noqa: ANN401
    """How many features of a column an average node has, at most."""
    if isinstance(column, Text):
        return float(column.frequencies.sum()) / max(column.rows, 1)
    return 1 if column.is_sparse else column.width


def _needed(survey: Survey, links: int) -> float:
    """Bytes that the store takes while it is built, about."""
    kind = "csr" if any(column.is_sparse for column in survey.encoders.columns) else "float32"
    return survey.rows * (_node_bytes(survey, kind) + 2 * ID + 24) + links * (RECORD + 8)


def _write_nodes(
    journal: Journal,
    tables: Tables,
    survey: Survey,
    layout: Layout,
    budget: int,
    callback: Callback,
) -> None:
    if journal.state.get("sorted", -1) < 0:
        callback.stage("writing nodes")
        batches = _stored(tables, survey, layout, journal.state.get("rows", 0))
        write_nodes(journal, batches, layout, budget, _teller(callback, survey.rows))
        if journal.state["rows"] != survey.rows:
            raise TableError(
                f"{tables.nodes} had {survey.rows} rows and then {journal.state['rows']}: it "
                "changed while it was read. Begin again when nothing writes to it."
            )
    callback.stage("sorting ids")
    sort_ids(journal, layout, _teller(callback, layout.P))
    if journal.state["twice"]:
        problems, first = Problems(), journal.state["twice_first"]
        rows, values = [row for row, _ in first], [value for _, value in first]
        problems.rows(stand_once(tables.id), rows, values, journal.state["twice"])
        problems.check(str(tables.nodes))


def _write_links(
    journal: Journal,
    tables: Tables,
    ends: tuple[str, str],
    layout: Layout,
    budget: int,
    callback: Callback,
) -> LinkReport:
    callback.stage("reading links")
    batches = link_batches(tables.edges, ends, min(LINKS, budget // RECORD))
    scatter(journal, batches, layout.P, budget, _teller(callback, journal.state["links"]))
    callback.stage("resolving links")
    tell = _teller(callback, layout.P * (layout.P + 1) // 2)
    resolve(journal, layout.P, part_sizes(journal, layout.P), tables.strict, tell)
    return report_of(journal, tables.edges, ends, layout.P, tables.strict)


def _stored(
    tables: Tables, survey: Survey, layout: Layout, skip: int
) -> Iterator[tuple[pa.Array, IntArray, FeatureMatrix]]:
    """Batches of nodes, features in the form that is stored."""
    row = skip + 1
    x: Any
    for ids, y, x in encoded_nodes(tables.nodes, tables.id, tables.label, survey, skip, BATCH):
        if layout.kind == "csr":
            x.sum_duplicates()
        elif layout.kind == "float16":
            x = as_float16(x, tables.nodes, row, survey.encoders)
        yield ids, y, x
        row += len(ids)


def _fields(
    journal: Journal,
    tables: Tables,
    survey: Survey,
    layout: Layout,
    report: LinkReport,
) -> dict[str, Any]:
    """What the manifest says, but for the files."""
    labelled = np.zeros(len(survey.classes), dtype=np.int64)
    for part in range(layout.P):
        y = np.load(journal.folder / part_file(part, "labels.npy"))
        labelled += np.bincount(y[y != UNKNOWN], minlength=len(labelled))
    pairs = buckets(layout.P)
    return {
        "kind": layout.kind,
        "d": layout.d,
        "classes": survey.classes,
        "labelled": tuple(labelled.tolist()),
        "sizes": tuple(part_sizes(journal, layout.P)),
        "counts": tuple(rows_in(journal.folder / bucket_file(a, b), 8) for a, b in pairs),
        "loops": journal.state["loops"] + journal.state["alone"],
        "made": False,
        "columns": {
            "id": tables.id,
            "label": tables.label,
            "encoders": survey.encoders.state(),
        },
        "source": {
            "nodes": Path(tables.nodes).name,
            "edges": Path(tables.edges).name,
            "links": str(report),
            "alone": journal.state["alone"],
        },
    }


def _teller(callback: Callback, total: int) -> Callable[[int], None]:
    return lambda done: callback.progress(done, total)
