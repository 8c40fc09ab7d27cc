"""Convert the labels of a table to arrays, for each of the three tasks.

=============== ============================================ =====================================
task            how labels are written                       what they become
=============== ============================================ =====================================
classification  a name or a number                           (n,) class numbers
regression      a number, as in a column of numbers          (n,) numbers, NaN where unknown
multilabel      a column of 0 and 1 for each class; or one   (n, C) 0 and 1
                column of lists or separated text
=============== ============================================ =====================================

A `LabelFormat` says how labels are written. It is found once, in training
(`linkdist.tables.label_survey`), and kept with the model: a later table may not show whether 1.200
is more than a thousand, or what separates labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import UNKNOWN, Labels, known_labels
from linkdist.tables.encoders import FAR
from linkdist.tables.label_warnings import named, no_labels
from linkdist.tables.labels import encode_labels, without_unknown
from linkdist.tables.parsing import (
    Mask,
    as_mask,
    as_numbers,
    as_tags,
    is_list,
    is_number,
    is_text,
    places_among,
    plain,
    single_values,
    text_of,
)
from linkdist.tables.validation import SHOWN, Problems

TRUTH = {"1": 1, "0": 0, "1.0": 1, "0.0": 0, "true": 1, "false": 0, "yes": 1, "no": 0}
"""What says in text, in lower case, whether a row has a class."""

MOST_CLASSES = 1000
"""Maximum number of classes of a row: each has a column in the array of labels."""

LabelColumns: TypeAlias = "str | Sequence[str] | None"


def label_columns(label: LabelColumns) -> tuple[str, ...]:
    """The label columns as a tuple.

    Examples
    --------
    >>> label_columns("field"), label_columns(["even", "loop"]), label_columns(None)
    (('field',), ('even', 'loop'), ())
    """
    if label is None:
        return ()
    return (label,) if isinstance(label, str) else tuple(label)


def label_values(batch: pa.RecordBatch, columns: Sequence[str], problems: Problems) -> pa.Array:
    """The labels of a batch as they are written, which `LabelFormat.encode` takes.

    Returns
    -------
    (k,) Arrow array
        Text, null where a label is missing; lists, if the column has such; or, if there are several
        columns, a struct of texts.

    Examples
    --------
    >>> batch = pa.record_batch({"even": [1, None], "loop": [True, False]})
    >>> label_values(batch, ["even"], Problems()).to_pylist()
    ['1', None]
    >>> label_values(batch, ["even", "loop"], Problems()).to_pylist()
    [{'even': '1', 'loop': 'true'}, {'even': None, 'loop': 'false'}]
    """
    if len(columns) == 1 and columns[0] in batch.schema.names:
        column = plain(batch.column(columns[0]))
        if is_list(column.type):
            return column
    texts = [text_of(single_values(batch, name, problems)) for name in columns]
    if len(texts) > 1:
        return pa.StructArray.from_arrays(texts, list(columns))
    return texts[0] if texts else pa.nulls(batch.num_rows, pa.large_string())


@dataclass(frozen=True)
class LabelFormat:
    """How the labels of a table are written.

    Attributes
    ----------
    task : {'classification', 'regression', 'multilabel'}
        What the labels are.
    columns : tuple of str
        The label columns.
    classes : tuple of str
        Names of the classes; for regression, the label column.
    unknown : tuple of str
        Values that mean an unknown label.
    decimal : {'.', ','}
        The decimal separator of numbers in text.
    separator : str or None
        What separates the classes of a row in text; None if they are in lists.
    binary : bool
        Whether each class is a column of 0 and 1, instead of a word in a list.

    Examples
    --------
    >>> margin = LabelFormat("regression", ("margin",), ("margin",), decimal=",")
    >>> margin.encode(pa.array(["3,5", None, "1.200"]))[0].tolist()
    [3.5, nan, 1200.0]
    >>> genre = LabelFormat("multilabel", ("genre",), ("drama", "war"), separator="|")
    >>> labels, unknown = genre.encode(pa.array(["war|drama", "war", None, "pop"]))
    >>> labels.tolist(), unknown
    ([[1, 1], [0, 1], [-1, -1], [-1, -1]], {'pop': 1})
    """

    task: str
    columns: tuple[str, ...]
    classes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    decimal: str = "."
    separator: str | None = None
    binary: bool = False

    @classmethod
    def of(cls, about: Mapping[str, Any], classes: tuple[str, ...]) -> LabelFormat:
        """The format of a model's labels, from what the model directory says about the training.

        Examples
        --------
        >>> LabelFormat.of({"label": "field"}, ("art", "math")).task
        'classification'
        """
        task, columns = about.get("task") or "classification", label_columns(about.get("label"))
        unknown, written = tuple(about.get("unknown") or ()), about.get("label_format") or {}
        return cls(task, columns, classes, unknown, **written)

    def state(self) -> dict[str, Any]:
        """What `of` needs besides the task, the columns and the classes, as JSON values."""
        if self.task == "regression":
            return {"decimal": self.decimal}
        if self.task == "multilabel":
            return {"separator": self.separator, "binary": self.binary}
        return {}

    def encode(
        self, labels: pa.Array, first_row: int = 1, problems: Problems | None = None
    ) -> tuple[Labels, dict[str, int]]:
        """Convert labels to an array.

        Parameters
        ----------
        labels : (n,) Arrow array
            The result of `label_values`.
        first_row : int
            Row number of the first label in the table, for messages.
        problems : Problems, optional
            Collects labels that cannot be read; by default they raise a `TableError`.

        Returns
        -------
        labels : (n,) int64, (n,) float64 or (n, C) int64 array
            As `linkdist.data.graph.Graph` describes it.
        unknown : dict of str to int
            Classes that are not among `classes`, with the number of their rows, whose labels are
            unknown.
        """
        found = Problems() if problems is None else problems
        result: tuple[Labels, dict[str, int]]
        if self.task == "classification":
            result = encode_labels(self.known(labels, found), self.classes)
        elif self.task == "regression":
            result = self._numbers(labels, first_row, found), {}
        elif self.binary:
            result = self._from_columns(labels, first_row, found), {}
        else:
            result = self._from_lists(labels, found)
        if problems is None:
            found.check()
        return result

    def known(self, labels: pa.Array, problems: Problems) -> pa.Array:
        """Labels of one column as text, null where unknown; lists are a problem."""
        if not is_text(labels.type):
            problems.add(f"{named(self.columns)} must contain one value per row; it contains lists")
            labels = pa.nulls(len(labels), pa.large_string())
        return without_unknown(labels, self.unknown)

    def _numbers(
        self, labels: pa.Array, first_row: int, problems: Problems
    ) -> npt.NDArray[np.float64]:
        text = self.known(labels, problems)
        x, wrong = as_numbers(text, self.decimal)
        means_unknown, _ = as_numbers(pa.array(self.unknown, pa.large_string()), self.decimal)
        x = np.where(np.isin(x, means_unknown), np.nan, x)
        rule = f"{named(self.columns)} must contain"
        words = "numbers, or nothing where the number is unknown (--unknown declares other values)"
        for broken, kind in ((wrong, words), (np.abs(x) > FAR, "finite numbers")):
            rows = np.flatnonzero(broken)
            problems.rows(f"{rule} {kind}", rows + first_row, text.take(pa.array(rows[:SHOWN])))
        return x

    def _from_columns(
        self, labels: pa.Array, first_row: int, problems: Problems
    ) -> npt.NDArray[np.int64]:
        y = np.full((len(labels), len(self.columns)), UNKNOWN, dtype=np.int64)
        missing = np.zeros_like(y, dtype=bool)
        for k, name in enumerate(self.columns):
            text = without_unknown(_column(labels, k), self.unknown)
            place = places_among(_folded(text), pa.array(TRUTH, pa.large_string()))
            y[:, k] = np.array([*TRUTH.values(), UNKNOWN])[place]
            missing[:, k] = as_mask(text.is_null())
            rows = np.flatnonzero((place < 0) & ~missing[:, k])
            rule = f"column {name!r} must contain 0 or 1, true or false, or yes or no"
            problems.rows(rule, rows + first_row, text.take(pa.array(rows[:SHOWN])))
        rows = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
        examples = [
            f"{problems.place(i + first_row)} lacks {', '.join(map(repr, self._where(missing[i])))}"
            for i in rows[:SHOWN].tolist()
        ]
        rule = f"{named(self.columns)} must all have a value in a row, or none of them;"
        problems.examples(rule, examples, len(rows))
        y[(y == UNKNOWN).any(axis=1)] = UNKNOWN
        return y

    def _where(self, mask: Mask) -> list[str]:
        return [name for name, one in zip(self.columns, mask, strict=True) if one]

    def _from_lists(
        self, labels: pa.Array, problems: Problems
    ) -> tuple[npt.NDArray[np.int64], dict[str, int]]:
        rows = self.tags(labels, problems)
        place = {name: k for k, name in enumerate(self.classes)}
        y = np.zeros((len(rows), len(place)), dtype=np.int64)
        new = Counter[str]()
        for i, row in enumerate(rows):
            others = () if row is None else [tag for tag in row if tag not in place]
            new.update(others)
            if row is None or others:
                y[i] = UNKNOWN
            else:
                y[i, [place[tag] for tag in row]] = 1
        return y, dict(sorted(new.items()))

    def tags(self, labels: pa.Array, problems: Problems) -> list[list[str] | None]:
        """The classes of each row, or None where they are unknown."""
        if is_text(labels.type):
            labels = without_unknown(labels, self.unknown)
        elif is_list(labels.type) and not (
            is_text(kind := labels.type.value_type) or is_number(kind)
        ):
            problems.add(f"{named(self.columns)} must contain lists of names; it contains {kind}")
            labels = pa.nulls(len(labels), pa.large_string())
        known, unknown = as_mask(labels.is_valid()), set(self.unknown)
        rows = [[tag for tag in row if tag.strip()] for row in as_tags(labels, self.separator)]
        return [
            row if is_known and unknown.isdisjoint(row) else None
            for row, is_known in zip(rows, known, strict=True)
        ]


def check_labels(form: LabelFormat, labels: Labels, problems: Problems) -> None:
    """Add a problem if there is nothing to learn from the labels of a training.

    Examples
    --------
    >>> problems = Problems()
    >>> form = LabelFormat("regression", ("y",), ("y",))
    >>> check_labels(form, np.array([2.0, np.nan, 2.0]), problems)
    >>> problems.check()
    Traceback (most recent call last):
    linkdist.errors.TableError: column 'y' must contain different numbers; all are 2.
    """
    if form.task == "classification":
        return  # `find_classes` has checked the classes
    known = labels[known_labels(labels)]
    where = named(form.columns)
    if not len(known) or not form.classes:
        problems.add(f"{no_labels(form.columns)}; training needs some")
    elif not (known == known[0]).all():
        return
    elif form.task == "regression":
        problems.add(f"{where} must contain different numbers; all are {known[0]:g}")
    else:
        names = [name for name, one in zip(form.classes, known[0], strict=True) if one]
        have = f"all have {', '.join(map(repr, names))}" if names else "none has any"
        problems.add(f"{where} must contain different labels in different rows; {have}")


def count_labels(labels: Labels, classes: tuple[str, ...]) -> dict[str, int]:
    """The number of labels of each class; for regression, of known numbers.

    Examples
    --------
    >>> count_labels(np.array([1, 0, 1, -1]), ("a", "b"))
    {'a': 1, 'b': 2}
    >>> count_labels(np.array([[1, 0], [1, 1], [-1, -1]]), ("a", "b"))
    {'a': 2, 'b': 1}
    """
    known = labels[known_labels(labels)]
    if labels.dtype.kind == "f":
        return dict.fromkeys(classes, len(known))
    counts = known.sum(axis=0) if labels.ndim == 2 else np.bincount(known, minlength=len(classes))
    return dict(zip(classes, counts.tolist(), strict=True))


def _column(labels: pa.Array, k: int) -> pa.Array:
    return labels.field(k) if pa.types.is_struct(labels.type) else labels


def _folded(text: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_trim_whitespace(text)).cast(pa.large_string())


def are_truths(labels: Collection[str]) -> bool:
    """Whether all labels of one column say whether a row has a class.

    Examples
    --------
    >>> are_truths(["Yes", "no"]), are_truths(["yes", "maybe"]), are_truths([])
    (True, False, False)
    """
    folded = _folded(pa.array(labels, pa.large_string())).to_pylist()
    return bool(folded) and set(folded) <= set(TRUTH)
