"""Find out how the labels of a training are written, batch by batch.

Everything that `linkdist.tables.task` and `LabelFormat` need is a function of the different labels
and their counts, so a table that is larger than memory gives the same result as one in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import TASKS, Labels, known_labels
from linkdist.errors import check_names
from linkdist.tables.labels import find_classes, sorted_names, without_unknown
from linkdist.tables.parsing import decimal_marks, is_list, is_text, most_frequent_separator
from linkdist.tables.targets import MOST_CLASSES, LabelFormat, are_truths, check_labels
from linkdist.tables.task import TaskGuess, guess_from_counts, several_labels
from linkdist.tables.validation import SHOWN, Problems

DIFFERENT = 100_000
"""Number of different labels after which numbers are no longer collected."""


class SeenLabels:
    """The different labels of one or more tables.

    Parameters
    ----------
    columns : tuple of str
        The label columns.
    task : str or None
        The task, if it is given.
    unknown : collection of str
        Values that mean an unknown label.
    most : int, optional
        The number of different labels from which the task is guessed; by default all. Classes are
        always collected.

    Examples
    --------
    >>> seen = SeenLabels(("genre",), None)
    >>> seen.add(pa.array(["war|drama", "war"]))
    >>> seen.add(pa.array([None, "war|love"]))
    >>> form, guess = seen.format(Problems())
    >>> form.task, form.classes, form.separator
    ('multilabel', ('drama', 'love', 'war'), '|')
    """

    def __init__(
        self,
        columns: tuple[str, ...],
        task: str | None,
        unknown: Collection[str] = (),
        most: int | None = None,
    ) -> None:
        if task is not None:
            check_names("task", [task], TASKS)
        self._columns, self._task, self._unknown, self._most = columns, task, tuple(unknown), most
        self._texts, self._tags = Counter[str](), set[str]()
        self._lists: pa.DataType | None = None
        self._has_point = self._has_comma = False
        self._decided: tuple[LabelFormat, TaskGuess | None] | None = None

    def add(self, labels: pa.Array) -> None:
        """Add the labels of a batch, as `linkdist.tables.targets.label_values` returns them."""
        if is_list(labels.type):
            self._lists = labels.type
            self._add_tags(LabelFormat("multilabel", self._columns, unknown=self._unknown), labels)
        elif is_text(labels.type):
            self._add_texts(without_unknown(labels, self._unknown).drop_null())

    def format(self, problems: Problems) -> tuple[LabelFormat, TaskGuess | None]:
        """The format with its classes, and the guess of the task if it is not given.

        What makes a training impossible is added to `problems`.
        """
        form, guess = self._decided or self._decide()
        if len(self._columns) > 1 and form.task != "multilabel":
            rule = f"{form.task} has one label column"
            problems.add(f"{rule}; found {', '.join(map(repr, self._columns))}")
            return form, guess
        if form.task == "classification":
            if self._lists is not None:
                form.known(pa.nulls(0, self._lists), problems)
            text = pa.array(self._texts, pa.large_string())
            return replace(form, classes=find_classes(text, self._columns[0], problems)), guess
        if form.task == "regression":
            comma = self._has_comma and not self._has_point and self._lists is None
            return replace(form, classes=self._columns, decimal="," if comma else "."), guess
        if form.binary:
            return replace(form, classes=self._columns), guess
        return replace(form, classes=self._classes(form, problems)), guess

    def _add_texts(self, text: pa.Array) -> None:
        point, comma = decimal_marks(text)
        self._has_point, self._has_comma = self._has_point or point, self._has_comma or comma
        task = self._decided[0].task if self._decided else self._task
        if task == "regression":
            return
        if self._decided and task == "multilabel":
            self._add_tags(self._decided[0], text)
            return
        for pair in pc.value_counts(text).to_pylist():
            self._texts[pair["values"]] += pair["counts"]
        if self._most is not None and len(self._texts) > self._most and self._decided is None:
            self._decided = self._decide()

    def _add_tags(self, form: LabelFormat, labels: pa.Array) -> None:
        for row in form.tags(labels, Problems()):
            self._tags.update(row or ())

    def _decide(self) -> tuple[LabelFormat, TaskGuess | None]:
        """The format without its classes, and the guess of the task."""
        guess = None
        if self._task is None:
            guess = guess_from_counts(self._columns, self._texts, self._lists is not None)
        task = guess.task if guess else str(self._task)
        form = LabelFormat(task, self._columns, unknown=self._unknown)
        if task != "multilabel":
            return form, guess
        if len(self._columns) > 1 or (self._lists is None and are_truths(self._texts)):
            return replace(form, binary=True), guess
        if self._lists is None:
            found = several_labels(self._texts)
            mark = found[1] if found else most_frequent_separator(self._texts) or " "
            form = replace(form, separator=mark)
        return form, guess

    def _classes(self, form: LabelFormat, problems: Problems) -> tuple[str, ...]:
        """The classes of lists, or of text with separators."""
        if self._lists is not None:
            form.tags(pa.nulls(0, self._lists), problems)
        self._add_tags(form, pa.array(self._texts, pa.large_string()))
        classes = sorted_names(self._tags)
        if len(classes) <= MOST_CLASSES:
            return classes
        rule = f"column {self._columns[0]!r} must contain at most {MOST_CLASSES} different labels"
        shown = ", ".join(map(repr, classes[:SHOWN]))
        problems.add(f"{rule}; found {len(classes)}, such as {shown}")
        return ()


def find_format(
    columns: tuple[str, ...],
    parts: Sequence[pa.Array],
    task: str | None,
    unknown: Collection[str],
    problems: Problems,
) -> tuple[LabelFormat, TaskGuess | None]:
    """Find out how the labels of a training are written; see `linkdist.tables.task`.

    Parameters
    ----------
    columns : tuple of str
        The label columns.
    parts : sequence of Arrow arrays
        The results of `label_values` for each table with labels.
    task : str or None
        The task, if it is given.
    unknown : collection of str
        Values that mean an unknown label.
    problems : Problems
        Collects what makes a training impossible.

    Returns
    -------
    format : LabelFormat
        The format, with its classes.
    guess : TaskGuess or None
        The guess of the task, if it is not given.

    Examples
    --------
    >>> labels = pa.array(["war|drama", "war", None])
    >>> found, _ = find_format(("genre",), [labels], None, [], Problems())
    >>> found.task, found.classes, found.separator
    ('multilabel', ('drama', 'war'), '|')
    """
    seen = SeenLabels(columns, task, unknown)
    for part in parts:
        seen.add(part)
    return seen.format(problems)


def check_new_labels(
    form: LabelFormat,
    guess: TaskGuess | None,
    labels: Labels,
    before: int,
    problems: Problems,
) -> None:
    """Add a problem if there is nothing to learn, or explain a guess that may be the problem.

    Parameters
    ----------
    form, guess
        As `find_format` returns them.
    labels : array
        The labels of a training, as `linkdist.data.graph.Graph` describes them.
    before : int
        The number of problems before the labels were read.
    problems : Problems
        Collects the problems.

    Examples
    --------
    >>> problems = Problems()
    >>> form = LabelFormat("regression", ("y",), ("y",))
    >>> check_new_labels(form, None, np.array([2.0, 2.0]), 0, problems)
    >>> len(problems)
    1
    """
    if len(problems) == before:
        check_labels(form, labels, problems)
    elif guess is not None and guess.task != "classification" and len(form.columns) == 1:
        problems.add(f"the task is {guess.task}, guessed from {guess.why}")


def different_labels(parts: Iterable[Labels]) -> Labels:
    """Two different known labels; only one if all are equal, none if none is known.

    They are enough for `check_new_labels`.

    Examples
    --------
    >>> different_labels([np.array([np.nan, 2.0, 2.0]), np.array([2.0, 3.0, 4.0])])
    array([2., 3.])
    """
    found: Labels | None = None
    for part in parts:
        known = part[known_labels(part)]
        every = known if found is None else np.concatenate([found, known])
        apart = every != every[:1]
        apart = apart.any(axis=1) if apart.ndim == 2 else apart
        found = every[[0, int(apart.argmax())] if apart.any() else slice(0, 1)]
    return np.empty(0) if found is None else found
