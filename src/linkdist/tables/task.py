"""Guess what the labels of a table are: classes, a number to predict, or several classes of a row.

The rules, of which the first that holds decides:

1. Several label columns, or a column of lists: multilabel.
2. Text in which | or ; separates labels, in more than a quarter of the labels or of the different
   labels, if some of the parts occur in several of the different labels; also text such as
   ['drama', 'war'], which pandas writes for lists: multilabel.
3. More than 20 different decimal numbers, if they are more than half of the different labels:
   regression. Words among them are then an error, not a class.
4. Nothing but whole numbers (and fewer decimal ones), of which more than 50, and more than a tenth
   of the number of labels, are different; or more than 20, and more than half of the number of
   labels, so that classes would have less than two labels: regression, unless they look like class
   numbers or ids. They do if the column is named like an id, if they have leading zeros, or if they
   start at 0 or 1 and at least half of the numbers up to the largest occur.
5. Everything else: classification.

A wrong guess is worse than a question, so the guess is shown before training, with the option that
changes it, and the words that often mean an unknown label, such as NA, do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import UNKNOWN
from linkdist.tables.parsing import Doubles, as_numbers, as_tags, find_decimal, is_list
from linkdist.tables.schema import ID_NAME

REAL = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?", re.IGNORECASE)

SEVERAL = re.compile(r"[^|;]+([|;][^|;]+)+")

LISTED = re.compile(r"\[.*\]", re.DOTALL)
"""A list as pandas writes it to CSV."""

CODE = re.compile(r"[-+]?0\d+")
"""A whole number with leading zeros."""

PLACEHOLDERS = {"na", "n/a", "nan", "none", "null", "unknown", "?", "-", "missing", "tbd"}
"""Names of classes, in lower case, that often mean that the label is unknown."""

MANY = 20
"""With more distinct decimal numbers than this, the column is probably a regression target."""

MANY_WHOLE = 50
"""The same for whole numbers, which are often class numbers."""


class TaskGuess(NamedTuple):
    """A guess of the task.

    Attributes
    ----------
    task : str
        One of `linkdist.data.graph.TASKS`.
    why : str
        What the guess is based on and what changes it, for the user.
    """

    task: str
    why: str


def guess_task(columns: Sequence[str], labels: pa.Array) -> TaskGuess:
    """Guess the task from all labels of a table.

    Parameters
    ----------
    columns : sequence of str
        The label columns.
    labels : Arrow array
        The labels as text, null where unknown; or lists, or a struct with a field for each column.

    Examples
    --------
    >>> guess_task(["field"], pa.array(["math", "art", None])).task
    'classification'
    >>> guess_task(["margin"], pa.array([f"{i / 8 + 0.01}" for i in range(30)])).why
    "column 'margin', which contains 30 different decimal numbers; --task classification makes \
each number a class"
    """
    lists = is_list(labels.type)
    pairs = [] if lists or len(columns) > 1 else pc.value_counts(labels).to_pylist()
    return guess_from_counts(columns, {one["values"]: one["counts"] for one in pairs}, lists)


def guess_from_counts(
    columns: Sequence[str], labels: Mapping[str, int], lists: bool = False
) -> TaskGuess:
    """Guess the task from the different labels of a table.

    Parameters
    ----------
    columns : sequence of str
        The label columns.
    labels : mapping of str to int
        The number of rows of each label, if there is one column of text.
    lists : bool
        Whether labels are lists.

    Examples
    --------
    >>> guess_from_counts(["field"], {"math": 4, "art": 3}).task
    'classification'
    """
    if len(columns) > 1:
        return TaskGuess("multilabel", f"{len(columns)} label columns")
    where = f"column {columns[0]!r}"
    if lists:
        return TaskGuess("multilabel", f"{where}, which contains lists")
    counts = {name: count for name, count in labels.items() if not is_placeholder(name)}
    if found := several_labels(counts):
        example, mark = found
        why = f"in which {mark!r} separates labels, such as {example!r}"
        return TaskGuess(
            "multilabel", f"{where}, {why}; --task classification makes each text a class"
        )
    kind, found_numbers = _numbers(columns[0], counts)
    if kind is not None:
        why = f"which contains {found_numbers} different {kind} numbers"
        return TaskGuess(
            "regression", f"{where}, {why}; --task classification makes each number a class"
        )
    advice = "; --task regression predicts the number" * (found_numbers > MANY)
    return TaskGuess("classification", f"{where}{advice}")


def is_placeholder(label: str | None) -> bool:
    """Whether a label often means that the label is unknown.

    Examples
    --------
    >>> is_placeholder("NA"), is_placeholder("math")
    (True, False)
    """
    return label is None or label.strip().lower() in PLACEHOLDERS


def several_labels(counts: Mapping[str, int]) -> tuple[str, str] | None:
    """An example of a text with several labels and their separator, if the texts are such.

    Examples
    --------
    >>> several_labels({"drama|war": 5, "war": 5})
    ('drama|war', '|')
    >>> several_labels({"Law; Economics": 5, "Physics": 5}) is None
    True
    """
    if counts and all(map(LISTED.fullmatch, counts)):
        several, mark = list(counts), ","
    else:
        several = [name for name in counts if SEVERAL.fullmatch(name)]
        rows = sum(counts[name] for name in several)
        if 4 * len(several) <= len(counts) and 4 * rows <= sum(counts.values()):
            return None
        with_mark = {mark: sum(counts[name] for name in several if mark in name) for mark in "|;"}
        mark = max(with_mark, key=lambda one: with_mark[one])
    parts = [part for row in as_tags(pa.array(counts), mark) for part in row]
    if len(set(parts)) == len(parts):  # each part belongs to one text, like a part of its name
        return None
    return max(several, key=lambda name: (counts[name], name)), mark


def _numbers(column: str, counts: Mapping[str, int]) -> tuple[str | None, int]:
    """The kind of numbers to predict, if labels are such, and the number of different ones."""
    names = pa.array(counts, pa.large_string())
    x, wrong = as_numbers(names, find_decimal(names))
    is_number = ~(wrong | np.isnan(x))
    is_decimal = is_number & ((x != np.round(x)) | np.array([*map(_has_point, counts)], dtype=bool))
    decimals = int(is_decimal.sum())
    if decimals > max(MANY, len(names) / 2):
        return "decimal", decimals
    if wrong.any():
        return None, 0
    different = len(np.unique(x[is_number]))
    labels = sum(counts.values())
    are_many = different > max(MANY_WHOLE, labels / 10) or different > max(MANY, labels / 2)
    are_codes = bool(ID_NAME.fullmatch(column)) or any(map(CODE.fullmatch, counts))
    if not are_many or are_codes or _are_class_numbers(x[is_number]):
        return None, different
    return "whole", different


def _has_point(name: str) -> bool:
    return bool(REAL.fullmatch(name))


def _are_class_numbers(x: Doubles) -> bool:
    """Whether whole numbers start at 0 or 1 and at least half of those up to the largest occur."""
    x = np.unique(x[x != UNKNOWN])
    return bool(x[0] in (0, 1) and x[-1] < 2 * len(x) and (x == np.round(x)).all())
