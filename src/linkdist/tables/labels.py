"""Convert labels, which are read as text, to class numbers."""

from __future__ import annotations

import re
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.tables.schema import places_among

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


def _are_integers(labels: Collection[str]) -> bool:
    return all(INTEGER.fullmatch(label) for label in labels)
