"""An open node table: its columns, their encoders, and its problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from linkdist.progress import Progress
from linkdist.tables.embedding import TextEncoder
from linkdist.tables.feature_encoder import FeatureEncoder, make_feature_encoder
from linkdist.tables.io import BATCH, Table
from linkdist.tables.parsing import text_of
from linkdist.tables.schema import Guess, guess
from linkdist.tables.targets import LabelColumns, label_columns
from linkdist.tables.validation import SHOWN, Problems, show_value


class NodeTable:
    """An open node table, its encoder, and its problems.

    Attributes
    ----------
    columns : list of str
        The columns to read, without those that the table does not have.
    id : str or None
        The column of ids.
    labels : tuple of str
        The label columns.
    encoder, present : FeatureEncoder
        The encoder of all feature columns, and of those that the table has.
    guesses : dict of str to Guess
        The inferred kinds of columns; empty if an encoder was passed.
    """

    def __init__(
        self,
        table: Table,
        id: str | None,
        label: LabelColumns,
        encoder: FeatureEncoder | None = None,
        kinds: Mapping[str, str] | None = None,
        features: Sequence[str] | None = None,
        text_encoder: TextEncoder | None = None,
        problems: Problems | None = None,
        graph: str | None = None,
    ) -> None:
        self.problems = Problems(table.place) if problems is None else problems
        self._table, self.id, self.labels = table, id, label_columns(label)
        self.guesses = {}
        roles = [("ids", id), *(("labels", name) for name in self.labels), ("graphs", graph)]
        keys = [name for _, name in roles if name is not None]
        if encoder is None:
            _check_roles([(role, name) for role, name in roles if name is not None], self.problems)
            sample = table.sample()
            self.guesses = _guess_kinds(
                table, sample, keys, graph, kinds or {}, features, self.problems
            )
            used = {name: found.kind for name, found in self.guesses.items() if found.kind}
            encoder = make_feature_encoder(used, sample, text_encoder)
        wanted = dict.fromkeys([*keys, *encoder.names])
        self.problems.names("column", wanted, table.schema.names)
        self.columns = [name for name in wanted if name in table.schema.names]
        if not self.columns:
            self.problems.check(table.name)
        self.encoder = encoder
        self.present = FeatureEncoder([one for one in encoder.columns if one.name in self.columns])

    def batches(
        self, size: int = BATCH, progress: Progress | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read batches with the row numbers of their first rows."""
        keys = set(self.columns) - set(self.present.names)
        as_text = [*keys, *self.present.text_columns(self._table.schema)]
        for first_row, batch in self._table.numbered_batches(self.columns, size, as_text):
            yield first_row, batch
            if progress is not None:
                progress(first_row - 1 + batch.num_rows, self._table.rows or 0)

    def check_rows(self, rows: int) -> None:
        """Raise an error if there are no rows."""
        if not rows:
            self.problems.add("the table has no rows")
            self.problems.check(self._table.name)

    @property
    def has_labels(self) -> bool:
        """Whether there are label columns, and the table has all of them."""
        return bool(self.labels) and set(self.labels) <= set(self.columns)

    def check(self) -> None:
        """Raise an error with all problems, if there are any."""
        # A missing feature column is a problem already.
        if not self.present.d and len(self.present.columns) == len(self.encoder.columns):
            self.problems.add("there is no feature column; name some columns and their kinds")
        self.problems.check(self._table.name)


def _check_roles(roles: Sequence[tuple[str, str]], problems: Problems) -> None:
    """Add columns that have two roles, such as ids and labels, to the problems."""
    seen: dict[str, str] = {}
    for role, name in roles:
        if seen.get(name) == role:
            problems.add(f"a label column must be named once; found {name!r} twice")
        elif name in seen:
            problems.add(f"{seen[name]} and {role} must be two columns; both are {name!r}")
        seen[name] = role


def _guess_kinds(
    table: Table,
    sample: pa.Table,
    keys: Sequence[str],
    graph: str | None,
    kinds: Mapping[str, str],
    features: Sequence[str] | None,
    problems: Problems,
) -> dict[str, Guess]:
    """Infer the kind of each column; `features` and `kinds` take precedence."""
    named = list(dict.fromkeys([*(features or ()), *kinds]))
    problems.names("column", named, table.schema.names)
    for name in named:
        if name in keys:
            what = "the graphs" if name == graph else "ids or labels"
            problems.add(f"column {name!r} contains {what} and cannot be a feature")
    guesses = guess(table.schema, sample, keys)
    for name in kinds:
        if name in guesses:
            guesses[name] = replace(guesses[name], kind=kinds[name], why="as requested", warning="")
    if features is None:
        return guesses
    guesses = {name: guesses[name] for name in named if name in guesses}
    for name, found in guesses.items():
        if found.kind is None:
            problems.add(f"column {name!r} cannot be a feature: it {found.why}")
    return guesses


def check_ids(ids: pa.Array, name: str, problems: Problems) -> None:
    """Add missing and duplicate ids to the problems.

    Examples
    --------
    >>> problems = Problems()
    >>> check_ids(pa.array([7, 8, 7]), "paper", problems)
    >>> problems.check()
    Traceback (most recent call last):
    linkdist.errors.TableError: column 'paper' contains duplicate ids: '7' in rows 1 and 3.
    """
    text = text_of(ids)
    check_missing(text, name, problems)
    rows = np.flatnonzero(text.is_valid())
    codes = text.drop_null().dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    same = codes[order][1:] == codes[order][:-1]
    pairs = np.stack([rows[order[1:][same]], rows[order[:-1][same]]], axis=1)  # later, earlier
    first = pairs[np.argsort(pairs[:, 0])[:SHOWN]]
    shown = [(later + 1, text[later], earlier + 1) for later, earlier in first.tolist()]
    add_duplicates(problems, name, shown, len(pairs))


def add_duplicates(
    problems: Problems, name: str, first: Iterable[tuple[int, object, int]], total: int
) -> None:
    """Add duplicate ids to the problems, given as row, id and earlier row.

    Examples
    --------
    >>> problems = Problems()
    >>> add_duplicates(problems, "paper", [], 0)
    >>> bool(problems)
    False
    """
    examples = [
        f"{show_value(id)} in {_both_rows(earlier, later, problems)}"
        for later, id, earlier in first
    ]
    problems.examples(f"column {name!r} contains duplicate ids:", examples, total)


def _both_rows(earlier: int, later: int, problems: Problems) -> str:
    places = problems.place(earlier), problems.place(later)
    if places == (f"row {earlier}", f"row {later}"):
        return f"rows {earlier} and {later}"
    return " and ".join(places)


def check_missing(ids: pa.Array, name: str, problems: Problems, first_row: int = 1) -> None:
    """Add missing ids to the problems."""
    missing = np.flatnonzero(ids.is_null())
    rule = f"column {name!r} must contain an id in each row"
    problems.rows(rule, missing + first_row, [None] * len(missing))
