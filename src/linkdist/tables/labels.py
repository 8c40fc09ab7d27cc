"""Convert labels, which are read as text, to class numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.errors import TableError
from linkdist.tables.parsing import places_among
from linkdist.tables.validation import SHOWN

INTEGER = re.compile(r"-?[0-9]{1,18}")

REAL = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?", re.IGNORECASE)

SEVERAL = re.compile(r"[^|;]+([|;][^|;]+)+")

PLACEHOLDERS = {"na", "n/a", "nan", "none", "null", "unknown", "?", "-", "missing", "tbd"}
"""Names of classes, in lower case, that often mean that the label is unknown."""

MANY = 20
"""With more distinct decimal numbers than this, the column is probably a regression target."""


def sorted_classes(text: pa.Array) -> tuple[str, ...]:
    """The classes among labels; integers are sorted by value, other names alphabetically.

    Among integers, -1 is not a class: it marks an unknown label.

    Examples
    --------
    >>> sorted_classes(pa.array(["10", "9", "-1", None]))
    ('9', '10')
    """
    found = set(text.drop_null().unique().to_pylist())
    if _are_integers(found):
        return tuple(sorted(found - {str(UNKNOWN)}, key=lambda label: (int(label), label)))
    return tuple(sorted(found))


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


def label_warnings(column: str, counts: dict[str, int]) -> Iterator[str]:
    """What is suspicious about the classes of a label column.

    Parameters
    ----------
    column : str
        The label column.
    counts : dict of str to int
        The number of rows of each class.

    Examples
    --------
    >>> for text in label_warnings("field", {"NA": 9, "art": 1, "math": 5}):
    ...     print(text)
    column 'field': the class 'NA' (9 rows) may mean that the label is unknown. If it does, \
declare it with --unknown NA (in Python, unknown=['NA']).
    column 'field': the class 'art' has one label only, so it cannot be evaluated. Label more rows.
    """
    where = f"column {column!r}:"
    names = [name for name in counts if name.strip().lower() in PLACEHOLDERS]
    for name in names:
        yield (
            f"{where} the class {name!r} ({counts[name]} rows) may mean that the label is unknown. "
            f"If it does, declare it with --unknown {name} (in Python, unknown=[{name!r}])."
        )
    rest = [name for name in counts if name not in names]
    if sum(bool(REAL.fullmatch(name)) for name in rest) > max(MANY, len(rest) / 2):
        yield (
            f"{where} {len(rest)} different numbers, such as {rest[0]}, look like a number to "
            "predict, but each becomes a class. Group them into a few classes."
        )
        return
    several = [name for name in rest if SEVERAL.fullmatch(name)]
    if len(several) > len(rest) / 4:
        yield (
            f"{where} {several[0]!r} looks like several labels, but a row has one class. Keep one "
            "label for each row."
        )
    once = [name for name in rest if counts[name] == 1]
    if once:
        shown = ", ".join(map(repr, once[:5])) + (f" and {len(once) - 5} more" * (len(once) > 5))
        rule = "the class" if len(once) == 1 else "the classes"
        have = "has one label only, so it" if len(once) == 1 else "have one label only, so they"
        yield f"{where} {rule} {shown} {have} cannot be evaluated. Label more rows."


def _are_integers(labels: Collection[str]) -> bool:
    return all(INTEGER.fullmatch(label) for label in labels)
