"""Build a store from two tables, in memory that does not grow with the graph.

    surveying    read the node table, fit the encoders, find the classes, choose the number of parts
    nodes        read it again and append each node to its part
    ids          sort the ids of each part; duplicates are errors
    links        read the link table and write each link to its bucket
    buckets      replace the ids of each bucket by rows

The result is the graph that `read_nodes`, `read_links` and `with_own_loops` give for the same
tables, with the nodes in another order. The journal records every finished piece of work; after a
kill the build continues with the next piece. Only the survey starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linkdist._version import __version__
from linkdist.errors import OptionError, TableError, check_names
from linkdist.progress import Callback
from linkdist.store.format import DENSE, VERSION, expected_files, part_file
from linkdist.store.journal import Journal, open_journal
from linkdist.store.partition import Batch, Layout, as_float16, part_sizes, sort_ids, write_nodes
from linkdist.store.plan import COPIES, HELD_PARTS, MEMORY, check_parts, parse_memory, parts_for
from linkdist.store.reader import Store
from linkdist.store.resolve_links import RECORD, count_links, report_of, resolve, write_runs
from linkdist.tables.bag_encoders import Vocabulary
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.io import BATCH, open_table
from linkdist.tables.links import LINKS, LinkReport, check_links, link_batches, link_ends
from linkdist.tables.node_table import add_duplicates
from linkdist.tables.nodes import Survey, encoded_nodes, survey_nodes
from linkdist.tables.schema import Guess
from linkdist.tables.source import LINK_ROLES, ROLES, Tables
from linkdist.tables.targets import LabelFormat, count_labels
from linkdist.tables.task import TaskGuess
from linkdist.tables.validation import Problems

MIN_BUFFER, MAX_BUFFER = 1 << 20, 1 << 27
"""Bytes that are collected before they are written: a sixteenth of the memory, within these."""

ID_BYTES = 32
"""Assumed number of bytes of an id."""

SORT_BYTES = 64 + 2 * ID_BYTES
"""Bytes that a node needs while the ids of its part are sorted."""


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
    r"""Build a store from tables; after a kill, the same call continues where it stopped.

    Parameters
    ----------
    tables : Tables
        The data.
    out : Path
        The directory of the store.
    parts : int, optional
        Number of parts; by default the smallest number that fits the memory.
    memory : int, optional
        Bytes that building, and later training, may use; by default 2 GB.
    dtype : {'float16', 'float32'}
        Type of dense features; sparse features are float32.
    overwrite : bool
        Whether an existing store may be replaced.
    callback : Callback, optional
        Receives progress and messages.

    Raises
    ------
    TableError, OptionError, StoreError
        With all problems, and what to do.

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
        check_parts(parts, links=1 << 62)  # the number of links is not known yet
    # The memory only determines the number of parts: if that is given, any memory may continue.
    planned = {"parts": parts, "memory": memory if parts is None else None, "dtype": dtype}
    request = _describe(tables) | planned
    ends = link_ends(open_table(tables.edges), tables.source, tables.target)
    budget = max(MIN_BUFFER, min(MAX_BUFFER, memory // 16))
    with open_journal(out, request, overwrite) as journal:
        work = _Build(tables, ends, journal, callback or Callback(), budget)
        survey, layout = work.plan(parts, memory, dtype)
        work.callback.columns(survey.guesses)
        fields = journal.state.get("finishing")
        if fields is None:
            work.write_nodes(survey, layout)
            report = work.write_links(layout)
            work.callback.links(report)
            fields = work.fields(survey, layout, report)
        names = expected_files(layout.P, layout.kind, synthetic=False)
        journal.finish(names, fields, work.callback)
    return Store.open(out)


def _describe(tables: Tables) -> dict[str, Any]:
    """The tables in their present state: name, size and time of the files, and all options."""
    if tables.labels is not None or tables.text_encoder is not None:
        raise OptionError("a store takes its labels and its text from the node table alone.")
    if tables.graph is not None or isinstance(tables.nodes, list | tuple | dict):
        raise OptionError("a store contains one graph, from one node table and one link table.")
    refused = [f"--{role}" for role in LINK_ROLES if getattr(tables, role)]
    refused += ["several --edges"] * isinstance(tables.edges, list | dict)
    if refused:
        rule = "relations, weights and directions of links are for training on tables"
        raise OptionError(f"{rule}, so a store does not take {', '.join(refused)}.")
    fields = asdict(tables) | {"version": VERSION, "program": __version__}
    for name in ("nodes", "edges"):
        path = Path(fields[name])
        open_table(path)  # raises an error if it cannot be read
        status = path.stat()
        fields[name] = [str(path.resolve()), status.st_size, status.st_mtime_ns]
    return fields


@dataclass(frozen=True)
class _Build:
    """The steps of a build; each continues where the journal says that it stopped."""

    tables: Tables
    ends: tuple[str, str]
    journal: Journal
    callback: Callback
    budget: int

    def plan(self, parts: int | None, memory: int, dtype: str) -> tuple[Survey, Layout]:
        """Survey the tables and choose the layout, unless the journal has both."""
        state = self.journal.state
        if "surveyed" not in state:
            self._survey(parts, memory, dtype)
        rows, written, encoders, guesses, guess = state["surveyed"]
        lists = {name: tuple(written[name]) for name in ("columns", "classes", "unknown")}
        survey = Survey(
            rows,
            LabelFormat(**written | lists),
            FeatureEncoder.from_state(encoders),
            {name: Guess(**one) for name, one in guesses.items()},
            None if guess is None else TaskGuess(*guess),
        )
        return survey, Layout(*state["layout"])

    def _survey(self, parts: int | None, memory: int, dtype: str) -> None:
        tables, progress = self.tables, self.callback.progress
        self.callback.stage("surveying nodes")
        survey = survey_nodes(
            tables.nodes, tables.id, tables.label, tables.kinds, tables.features, progress,
            tables.unknown, tables.task,
        )  # fmt: skip
        self.callback.stage("counting links")
        links = _count_rows(tables.edges, progress)
        if not links:
            check_links(tables.edges, self.ends, LinkReport(total=0, kept=0))
        kind = "csr" if survey.encoders.is_sparse else dtype
        if parts is None:
            # Building holds one part at a time, training holds several.
            held = max(COPIES[kind] * _node_bytes(survey, kind), SORT_BYTES / HELD_PARTS)
            parts = parts_for(survey.rows, held, links, memory)
        check_parts(parts, links)
        guesses = {name: asdict(guess) for name, guess in survey.guesses.items()}
        form = survey.label_format
        self.journal.commit(
            surveyed=[survey.rows, asdict(form), survey.encoders.state(), guesses, survey.guess],
            links=links, needed=_needed(survey, links),
            layout=[parts, survey.encoders.d, kind, form.task, len(form.classes)],
        )  # fmt: skip

    def write_nodes(self, survey: Survey, layout: Layout) -> None:
        """Write the parts."""
        tables, journal, state = self.tables, self.journal, self.journal.state
        if "sorted" not in state:
            self.callback.stage("writing nodes")
            batches = self._batches(survey, layout, state.get("rows", 0))
            write_nodes(journal, batches, layout, self.budget, self._progress(survey.rows))
            if state["rows"] != survey.rows:
                raise TableError(
                    f"{tables.nodes} had {survey.rows} rows and then {state['rows']}: it changed "
                    "while it was read. Start again when no other program writes to it."
                )
        self.callback.stage("sorting ids")
        sort_ids(journal, layout, self._progress(layout.P))
        if state["duplicate_ids"]:
            problems = Problems()
            first = state["first_duplicate_ids"]
            add_duplicates(problems, tables.id, first, state["duplicate_ids"])
            problems.check(str(tables.nodes))

    def _batches(self, survey: Survey, layout: Layout, skip: int) -> Iterator[Batch]:
        """Batches of nodes, with features as they are stored."""
        tables, row = self.tables, skip + 1
        x: Any
        for ids, y, x in encoded_nodes(tables.nodes, tables.id, tables.label, survey, skip, BATCH):
            if layout.kind == "csr":
                x.sum_duplicates()
            elif layout.kind == "float16":
                x = as_float16(x, tables.nodes, row, survey.encoders)
            yield ids, y, x
            row += len(ids)

    def write_links(self, layout: Layout) -> LinkReport:
        """Write the buckets."""
        tables, journal, P = self.tables, self.journal, layout.P
        self.callback.stage("reading links")
        size = min(LINKS, self.budget // RECORD)
        batches = link_batches(open_table(tables.edges), self.ends, size)
        write_runs(journal, batches, P, self.budget, self._progress(journal.state["links"]))
        self.callback.stage("resolving links")
        progress = self._progress(P * (P + 1) // 2)
        resolve(journal, P, part_sizes(journal, layout), tables.strict, progress)
        return report_of(journal, tables, self.ends, P)

    def fields(self, survey: Survey, layout: Layout, report: LinkReport) -> dict[str, Any]:
        """The fields of the manifest, except the files."""
        folder, state, tables = self.journal.folder, self.journal.state, self.tables
        encoders = survey.encoders.state()
        return {
            "kind": layout.kind,
            "d": layout.d,
            "task": layout.task,
            "classes": survey.classes,
            "labelled": count_known(folder, layout.P, survey.classes),
            "label_format": survey.label_format.state(),
            "sizes": part_sizes(self.journal, layout),
            "hashed": layout.P,
            "counts": count_links(folder, layout.P),
            "loops": state["loops"] + state["isolated"],
            "directed": False,
            "weighted": False,
            "synthetic": False,
            "columns": {**{role: getattr(tables, role) for role in ROLES}, "encoders": encoders},
            "source": {
                "nodes": Path(tables.nodes).name,
                "edges": Path(tables.edges).name,
                "links": str(report),
                "isolated": state["isolated"],
            },
        }

    def _progress(self, total: int) -> Callable[[int], None]:
        return lambda done: self.callback.progress(done, total)


def count_known(folder: Path, P: int, classes: tuple[str, ...]) -> list[int]:
    """The number of known labels of each class, from the files of the parts."""
    counts = np.zeros(len(classes), dtype=np.int64)
    for part in range(P):
        y = np.load(folder / part_file(part, "labels.npy"))
        counts += np.array(list(count_labels(y, classes).values()), dtype=np.int64)
    return list(map(int, counts))


def _count_rows(path: Path, progress: Callable[[int, int], None]) -> int:
    table = open_table(path)
    if table.rows is not None:
        return table.rows
    rows = 0
    for batch in table.batches(table.schema.names[:1], LINKS):
        rows += batch.num_rows
        progress(rows, 0)
    return rows


def _node_bytes(survey: Survey, kind: str) -> float:
    """Bytes of the features and the label of an average node in memory."""
    form = survey.label_format
    label = 4 * len(form.classes) if form.task == "multilabel" else 4
    if kind != "csr":
        return survey.encoders.d * np.dtype(kind).itemsize + label
    return 8 * sum(_entries(column) for column in survey.encoders.columns) + 8 + label


def _entries(column: Any) -> float:  # noqa: ANN401
    """The largest number of non-zero features that a column gives an average node."""
    if isinstance(column, Vocabulary):
        return sum(column.frequencies.values()) / max(column.rows, 1)
    return 1 if column.is_sparse else column.width


def _needed(survey: Survey, links: int) -> float:
    """Approximate number of bytes of the store while it is built."""
    kind = "csr" if survey.encoders.is_sparse else "float32"
    return survey.rows * (_node_bytes(survey, kind) + 2 * ID_BYTES + 24) + links * (RECORD + 8)
