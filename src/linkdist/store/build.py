"""Build a store from tables, in memory that does not grow with the graph.

    surveying    read the node table, fit the encoders, find the classes; find the relations of
                 links and check their weights; choose the number of parts
    nodes        read it again and append each node to its part
    ids          sort the ids of each part; duplicates are errors
    links        read the link tables and write each link to its bucket
    buckets      replace the ids of each bucket by rows

The result is the graph that `read_nodes`, `read_links` and `with_own_loops` give for the same
tables, with the nodes in another order. The journal records every finished piece of work; after a
kill the build continues with the next piece. Only the survey starts over.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from linkdist._version import __version__
from linkdist.data.graph import known_labels
from linkdist.errors import OptionError, TableError, check_names
from linkdist.progress import Callback
from linkdist.store.format import DENSE, MOST_LABEL_ROWS, VERSION, expected_files, part_file
from linkdist.store.journal import Journal, open_journal
from linkdist.store.keys import hash64, part_of
from linkdist.store.link_counts import report_of
from linkdist.store.link_runs import record_bytes, write_runs
from linkdist.store.link_source import LinkFile, LinkPlan, link_rows, open_links, survey_links
from linkdist.store.partition import (
    Batch,
    Layout,
    as_float16,
    part_sizes,
    sort_ids,
    work_file,
    write_nodes,
)
from linkdist.store.plan import COPIES, HELD_PARTS, MEMORY, check_parts, parse_memory, parts_for
from linkdist.store.reader import Store
from linkdist.store.resolve_links import HashIndex, count_links, mean_weight, resolve
from linkdist.tables.bag_encoders import Vocabulary
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.io import BATCH, open_table
from linkdist.tables.link_tables import is_mapping_of_tables
from linkdist.tables.links import LINKS, LinkReport, named_link_tables
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
    files = open_links(tables)
    budget = max(MIN_BUFFER, min(MAX_BUFFER, memory // 16))
    with open_journal(out, request, overwrite) as journal:
        work = _Build(tables, files, journal, callback or Callback(), budget)
        survey, layout = work.plan(parts, memory, dtype)
        work.callback.columns(survey.guesses)
        if survey.guess is not None:
            work.callback.note(f"Task: {survey.guess.task} (guessed from {survey.guess.why})")
        fields = journal.state.get("finishing")
        if fields is None:
            work.write_nodes(survey, layout)
            plan, report = work.write_links(layout)
            work.callback.links(report)
            fields = work.fields(survey, layout, plan, report)
        K = len(fields["relations"]) * (1 + fields["directed"])
        names = expected_files(layout.P, layout.kind, False, K, fields["weighted"])
        journal.finish(names, fields, work.callback)
    return Store.open(out)


def _describe(tables: Tables) -> dict[str, Any]:
    """The tables in their present state: name, size and time of the files, and all options."""
    _check_tables(tables)
    links = named_link_tables(tables.edges, tables.relation)
    files = [(None, tables.nodes), *links.items()]
    if not all(isinstance(path, str | os.PathLike) for _, path in files):
        advice = "Write it to a Parquet file first."
        raise OptionError(f"a store is built from files; found a table in memory. {advice}")
    fields = asdict(replace(tables, nodes=None, edges=None))
    fields |= {"version": VERSION, "program": __version__, "files": []}
    for name, path in files:
        open_table(path)  # raises an error if it cannot be read
        fields["files"].append([name, _state(Path(path))])
    return fields


def _state(path: Path) -> list[list[Any]]:
    """Name, size and time of a file, or of those of a folder or a glob."""
    if path.is_dir():
        paths = sorted(path.iterdir())
    else:
        paths = [path] if path.exists() else sorted(map(Path, glob.glob(str(path))))  # noqa: PTH207
    status = [one.stat() for one in paths]
    pairs = zip(paths, status, strict=True)
    return [[str(one.resolve()), found.st_size, found.st_mtime_ns] for one, found in pairs]


def _check_tables(tables: Tables) -> None:
    """Raise an error with everything that a store cannot contain."""
    refused = {
        "--graph": tables.graph is not None,
        "several --nodes": isinstance(tables.nodes, list | tuple)
        or is_mapping_of_tables(tables.nodes),
        "--labels": tables.labels is not None,
        "a text encoder": tables.text_encoder is not None,
    }
    if found := [name for name, given in refused.items() if given]:
        rule = "a store contains one graph, with labels and text from its only node table"
        raise OptionError(f"{rule}; found {', '.join(found)}. Leave them out.")


@dataclass(frozen=True)
class _Build:
    """The steps of a build; each continues where the journal says that it stopped."""

    tables: Tables
    files: list[LinkFile]
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
        plan = survey_links(self.files, tables.directed, progress)
        kind = "csr" if survey.encoders.is_sparse else dtype
        if parts is None:
            # Building holds one part at a time, training holds several.
            held = max(COPIES[kind] * _node_bytes(survey, kind), SORT_BYTES / HELD_PARTS)
            parts = parts_for(survey.rows, held, plan.total, memory)
        check_parts(parts, plan.total)
        guesses = {name: asdict(guess) for name, guess in survey.guesses.items()}
        form = survey.label_format
        self.journal.commit(
            surveyed=[survey.rows, asdict(form), survey.encoders.state(), guesses, survey.guess],
            plan=[plan.rows, plan.relations], needed=_needed(survey, plan),
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

    @property
    def links(self) -> LinkPlan:
        """What the links are, from the survey."""
        rows, relations = map(tuple, self.journal.state["plan"])
        return LinkPlan(rows, relations, self.tables.directed, self.tables.weight is not None)

    def write_links(self, layout: Layout) -> tuple[LinkPlan, LinkReport]:
        """Write the buckets."""
        journal, state, P, plan = self.journal, self.journal.state, layout.P, self.links
        self.callback.stage("reading links")
        size = min(LINKS, self.budget // record_bytes(plan.weighted))
        batches = link_rows(self.files, plan, size, state.get("read", 0))
        write_runs(journal, batches, P, plan, self.budget, self._progress(plan.total))
        self.callback.stage("resolving links")
        progress, strict = self._progress(P * (P + 1) // 2), self.tables.strict
        plan = resolve(journal, P, part_sizes(journal, layout), plan, strict, progress)
        index = HashIndex(journal.folder)

        def is_node(text: str) -> bool:
            keys = hash64(pa.array([text], pa.large_string()))
            return bool(index.find(int(part_of(keys, P)[0]), keys)[0] >= 0)

        return plan, report_of(self.files, plan, state["lost"], state["links"], is_node, strict)

    def fields(
        self, survey: Survey, layout: Layout, plan: LinkPlan, report: LinkReport
    ) -> dict[str, Any]:
        """The fields of the manifest, except the files."""
        folder, links, tables = self.journal.folder, self.journal.state["links"], self.tables
        roles = {role: getattr(tables, role) for role in (*ROLES, *LINK_ROLES)}
        if report.ends is not None:
            # A later table may have its columns in another order, which would turn the links round.
            roles["source"], roles["target"] = report.ends
        return {
            "kind": layout.kind,
            "d": layout.d,
            "task": layout.task,
            "classes": survey.classes,
            "labelled": count_known(folder, layout.P, survey.classes),
            "label_rows": label_rows(folder, layout.P),
            "label_format": survey.label_format.state(),
            "sizes": part_sizes(self.journal, layout),
            "hashed": layout.P,
            "counts": count_links(folder, layout.P),
            "loops": sum(links["loops"]) + links["isolated"],
            "own_loops": _own_loops(links) if plan.weighted else None,
            "relations": plan.relations,
            "directed": plan.directed,
            "weighted": plan.weighted,
            "synthetic": False,
            "columns": {**roles, "encoders": survey.encoders.state()},
            "source": {
                "nodes": Path(tables.nodes).name,
                "edges": ", ".join(file.path.name for file in self.files),
                "links": str(report),
                "isolated": links["isolated"],
            },
        }

    def _progress(self, total: int) -> Callable[[int], None]:
        return lambda done: self.callback.progress(done, total)


def _own_loops(links: dict[str, Any]) -> list[Any]:
    """The number of self-loops of nodes without links, and their weight."""
    return [links["isolated"], mean_weight(links)]


def count_known(folder: Path, P: int, classes: tuple[str, ...]) -> list[int]:
    """The number of known labels of each class, from the files of the parts."""
    counts = np.zeros(len(classes), dtype=np.int64)
    for part in range(P):
        y = np.load(folder / part_file(part, "labels.npy"))
        counts += np.array(list(count_labels(y, classes).values()), dtype=np.int64)
    return list(map(int, counts))


def label_rows(folder: Path, P: int) -> list[list[int]] | None:
    """The rows in the table of the labelled nodes of each part; None if there are many."""
    found = []
    for part in range(P):
        y = np.load(folder / part_file(part, "labels.npy"))
        origin = np.fromfile(folder / work_file(part, "origin"), np.int64)
        found.append(origin[known_labels(y)].tolist())
    return found if sum(map(len, found)) <= MOST_LABEL_ROWS else None


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


def _needed(survey: Survey, plan: LinkPlan) -> float:
    """Approximate number of bytes of the store while it is built."""
    kind = "csr" if survey.encoders.is_sparse else "float32"
    nodes = survey.rows * (_node_bytes(survey, kind) + 2 * ID_BYTES + 24)
    return nodes + plan.total * (record_bytes(plan.weighted) + 8 + 5 * plan.weighted)
