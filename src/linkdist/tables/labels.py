"""Convert labels, which are read as text, to class numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.errors import TableError
from linkdist.tables.parsing import places_among
from linkdist.tables.validation import SHOWN, Problems

INTEGER = re.compile(r"-?[0-9]{1,18}")


def sorted_classes(text: pa.Array) -> tuple[str, ...]:
    """The classes among labels; integers are sorted by value, other names alphabetically.

    Among integers, -1 is not a class: it marks an unknown label.

    Examples
    --------
    >>> sorted_classes(pa.array(["10", "9", "-1", None]))
    ('9', '10')
    """
    found = set(text.drop_null().unique().to_pylist())
    return sorted_names(found - {str(UNKNOWN)} if _are_integers(found) else found)


def sorted_names(names: Collection[str]) -> tuple[str, ...]:
    """Different names; integers are sorted by value, other names alphabetically.

    Examples
    --------
    >>> sorted_names(["10", "9"]), sorted_names(["b", "10", "9"])
    (('9', '10'), ('10', '9', 'b'))
    """
    if _are_integers(names):
        return tuple(sorted(set(names), key=lambda name: (int(name), name)))
    return tuple(sorted(set(names)))


def find_classes(text: pa.Array, column: str, problems: Problems) -> tuple[str, ...]:
    """The classes among the labels of a column; fewer than two are a problem.

    Examples
    --------
    >>> problems = Problems()
    >>> find_classes(pa.array(["a", "a", None]), "field", problems)
    ('a',)
    >>> problems.check()
    Traceback (most recent call last):
    linkdist.errors.TableError: column 'field' must contain labels of two classes or more; all \
are 'a'.
    """
    classes = sorted_classes(text)
    if not classes:
        problems.add(f"column {column!r} contains no labels; training needs some")
    elif len(classes) == 1:
        rule = f"column {column!r} must contain labels of two classes or more"
        problems.add(f"{rule}; all are {classes[0]!r}")
    return classes


def encode_labels(text: pa.Array, classes: tuple[str, ...]) -> tuple[IntArray, dict[str, int]]:
    """Labels as class numbers, and the counts of labels that are not among the classes.

    Examples
    --------
    >>> y, unknown = encode_labels(pa.array(["b", None, "c"], pa.large_string()), ("a", "b"))
    >>> y.tolist(), unknown
    ([1, -1, -1], {'c': 1})
    """
    y = places_among(text, pa.array(classes, pa.large_string()))
    outside = pc.value_counts(text.filter(pa.array(y == UNKNOWN)).drop_null()).to_pylist()
    unknown = {pair["values"]: pair["counts"] for pair in outside}
    if _are_integers(classes):
        unknown.pop(str(UNKNOWN), None)
    return y, dict(sorted(unknown.items()))


def without_unknown(text: pa.Array, unknown: Collection[str]) -> pa.Array:
    """Labels with null instead of blanks and of the values that mean an unknown label.

    Examples
    --------
    >>> without_unknown(pa.array(["math", "NA", "  "]), ["NA"]).to_pylist()
    ['math', None, None]
    """
    given = pc.is_in(text, value_set=pa.array(list(unknown), text.type))
    blank = pc.equal(pc.utf8_trim_whitespace(text), "")
    return pc.if_else(pc.or_(given, blank), None, text)


def check_known_classes(column: str, new: Mapping[str, int]) -> None:
    """Raise a `TableError` if labels are classes that a model does not know, given with counts.

    Examples
    --------
    >>> check_known_classes("field", {"law": 3})
    Traceback (most recent call last):
    linkdist.errors.TableError: column 'field' contains classes that the model does not know: \
'law' (3 rows). Leave these labels empty, or train a new model on all data.
    """
    if new:
        names = ", ".join(f"{name!r} ({rows} rows)" for name, rows in list(new.items())[:SHOWN])
        more = f" and {len(new) - SHOWN} more" * (len(new) > SHOWN)
        raise TableError(
            f"column {column!r} contains classes that the model does not know: {names}{more}. "
            "Leave these labels empty, or train a new model on all data."
        )


def _are_integers(labels: Collection[str]) -> bool:
    return all(INTEGER.fullmatch(label) for label in labels)
