"""What is suspicious about labels that were read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from linkdist.tables.task import MANY, REAL, SEVERAL, is_placeholder


def label_warnings(column: str, counts: Mapping[str, int], forced: bool = False) -> Iterator[str]:
    """What is suspicious about the classes of a label column.

    Parameters
    ----------
    column : str
        The label column.
    counts : mapping of str to int
        The number of rows of each class.
    forced : bool
        Whether the user asked for classification, so that it was not guessed.

    Examples
    --------
    >>> for text in label_warnings("field", {"NA": 9, "art": 1, "math": 5}):
    ...     print(text)
    column 'field': the class 'NA' (9 rows) may mean that the label is unknown. If it does, \
declare it with --unknown NA (in Python, unknown=['NA']).
    column 'field': the class 'art' has one label only, so it cannot be evaluated. Label more rows.
    """
    where = f"column {column!r}:"
    yield from _placeholder_warnings(where, counts)
    rest = [name for name in counts if not is_placeholder(name)]
    if forced and sum(bool(REAL.fullmatch(name)) for name in rest) > max(MANY, len(rest) / 2):
        yield (
            f"{where} {len(rest)} different numbers, such as {rest[0]}, look like a number to "
            "predict, but each becomes a class. --task regression predicts the number."
        )
        return
    several = [name for name in rest if SEVERAL.fullmatch(name)]
    if not forced:  # parts that are classes themselves are hardly parts of a name
        several = [name for name in several if set(re.split(r"\s*[|;]\s*", name)) <= set(rest)]
    if several and (not forced or len(several) > len(rest) / 4):
        yield (
            f"{where} {several[0]!r} looks like several labels, but a row has one class. --task "
            "multilabel gives a row several."
        )
    yield from _rare_warnings(where, {name: counts[name] for name in rest})


def multilabel_warnings(
    columns: Sequence[str], counts: Mapping[str, int], rows: int
) -> Iterator[str]:
    """What is suspicious about the labels of rows that have several.

    Parameters
    ----------
    columns : sequence of str
        The label columns.
    counts : mapping of str to int
        The number of rows with each label.
    rows : int
        The number of rows with known labels.

    Examples
    --------
    >>> list(multilabel_warnings(["even", "loop"], {"even": 5, "loop": 9}, rows=9))
    ["columns 'even', 'loop': all 9 labelled rows have 'loop', so it cannot be evaluated."]
    """
    where = f"{named(columns)}:"
    if len(columns) == 1:
        yield from _placeholder_warnings(where, counts)
    for name, count in counts.items():
        if count in (0, rows):
            have = f"all {rows} labelled rows have" if count else "no row has"
            yield f"{where} {have} {name!r}, so it cannot be evaluated."
    rest = {name: n for name, n in counts.items() if n < rows and not is_placeholder(name)}
    yield from _rare_warnings(where, rest)


def number_warnings(column: str, numbers: npt.NDArray[np.float64]) -> Iterator[str]:
    """What is suspicious about numbers to predict, of which NaN are unknown.

    Examples
    --------
    >>> print(*number_warnings("views", np.array([3.0, 4.0, -1.0, 9.0, -1.0])))
    column 'views': -1 (2 rows) is the only negative number, so it may mean that the number is \
unknown. If it does, declare it with --unknown -1 (in Python, unknown=['-1']).
    """
    negative = numbers[numbers < 0]
    if len(negative) > 1 and (negative == negative[0]).all():
        value = f"{negative[0]:g}"
        yield (
            f"column {column!r}: {value} ({len(negative)} rows) is the only negative number, so it "
            "may mean that the number is unknown. If it does, declare it with --unknown "
            f"{value} (in Python, unknown=[{value!r}])."
        )


def named(columns: Sequence[str]) -> str:
    """The columns in a message.

    Examples
    --------
    >>> named(["even"]), named(["even", "loop"])
    ("column 'even'", "columns 'even', 'loop'")
    """
    return f"column{'s' * (len(columns) > 1)} {', '.join(map(repr, columns))}"


def no_labels(columns: Sequence[str]) -> str:
    """What a message says about label columns without labels.

    Examples
    --------
    >>> no_labels(["field"])
    "column 'field' contains no labels"
    """
    return f"{named(columns)} {'contain' if len(columns) > 1 else 'contains'} no labels"


def _placeholder_warnings(where: str, counts: Mapping[str, int]) -> Iterator[str]:
    for name in filter(is_placeholder, counts):
        yield (
            f"{where} the class {name!r} ({counts[name]} rows) may mean that the label is unknown. "
            f"If it does, declare it with --unknown {name} (in Python, unknown=[{name!r}])."
        )


def _rare_warnings(where: str, counts: Mapping[str, int]) -> Iterator[str]:
    once = [name for name, count in counts.items() if count == 1]
    if once:
        shown = ", ".join(map(repr, once[:5])) + (f" and {len(once) - 5} more" * (len(once) > 5))
        rule = "the class" if len(once) == 1 else "the classes"
        have = "has one label only, so it" if len(once) == 1 else "have one label only, so they"
        yield f"{where} {rule} {shown} {have} cannot be evaluated. Label more rows."
