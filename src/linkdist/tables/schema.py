"""Infer the kinds of columns from the first rows of a table."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.tables.parsing import (
    MISSING,
    as_numbers,
    as_tags,
    find_decimal,
    find_separator,
    is_list,
    is_number,
    is_text,
    lengths_of,
    plain,
    suitable_formats,
    text_of,
)
from linkdist.tables.validation import show_value

KINDS = ("numeric", "date", "categorical", "text", "tags", "tags:binary", "vector")

ID_NAME = re.compile(r"(.*[ _-])?(id|key|uid|index|number|no|nr)", re.IGNORECASE)
"""Names of columns that often contain ids."""

MOSTLY = 0.9
"""Text is a column of numbers or dates if at least this share of its values are."""


@dataclass(frozen=True)
class Guess:
    """The inferred kind of a column.

    Attributes
    ----------
    kind : str or None
        One of `KINDS`, or None if the column cannot be a feature.
    why : str
        The reason, for the user.
    example : str
        A value of the column.
    warning : str
        What the user should check, if anything.
    """

    kind: str | None
    why: str
    example: str = ""
    warning: str = ""


def guess(schema: pa.Schema, sample: pa.Table, leave_out: Collection[str]) -> dict[str, Guess]:
    """Infer the kind of each column.

    Parameters
    ----------
    schema : Schema
        The columns of the table and their types.
    sample : Table
        The first rows of the table.
    leave_out : collection of str
        Columns that are not features.

    Examples
    --------
    >>> sample = pa.table({"id": [1, 2], "age": [30, 40], "title": ["A tale", "Of two"]})
    >>> for name, found in guess(sample.schema, sample, ["id"]).items():
    ...     print(f"{name}: {found.kind}, {found.why}")
    age: numeric, contains int64
    title: text, 2 different values in the first 2 rows
    """
    fields = [field for field in schema if field.name not in leave_out]
    return {one.name: _guess(one.name, one.type, plain(sample[one.name])) for one in fields}


def _guess(name: str, kind: pa.DataType, values: pa.Array) -> Guess:
    present = _present(values)
    if not len(present):
        return Guess(None, "has no values in the first rows")
    example = show_value(present[0])
    if is_text(values.type):
        return _guess_text(present, example)
    contains = f"contains {kind}"
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        return Guess("date", contains, example)
    if is_number(values.type) or pa.types.is_temporal(values.type):
        return Guess("numeric", contains, example, _looks_like_an_id(name, values))
    if is_list(values.type):
        return _guess_list(present, contains, example)
    return Guess(None, f"{contains}, which cannot be a feature", example)


def _present(values: pa.Array) -> pa.Array:
    """The values that are not missing."""
    if not is_text(values.type):
        return values.drop_null()
    text = text_of(values).drop_null()
    trimmed = pc.utf8_lower(pc.utf8_trim_whitespace(text))
    return text.filter(pc.invert(pc.is_in(trimmed, value_set=pa.array(MISSING, text.type))))


def _guess_text(text: pa.Array, example: str) -> Guess:
    rows, distinct = len(text), len(text.unique())
    decimal = find_decimal(text)
    numbers = rows - int(as_numbers(text, decimal)[1].sum())
    if numbers >= MOSTLY * rows:
        comma = " with a decimal comma" if decimal == "," else ""
        return Guess("numeric", f"numbers{comma}, written as text", example)
    if formats := suitable_formats(text, MOSTLY):
        why = f"dates, written as {_readable(formats[0])}"
        return Guess("date", why, example, _either(formats))
    why = f"{distinct} different values in the first {rows} rows"
    if _are_tags(text):
        return Guess("tags", f"separated by {find_separator(text)!r}", example)
    mixed = f"{numbers} of {rows} values are numbers, the others are text" * (numbers > rows / 2)
    if distinct <= min(50, rows / 2):
        return Guess("categorical", why, example, mixed)
    if distinct == rows >= 10 and not pc.any(pc.match_substring_regex(text, r"\s")).as_py():
        why = "one word, different in every row, like an id"
        return Guess(None, why, example, f"{why}, so it is left out. Name its kind to use it")
    return Guess("text", why, example, mixed)


def _guess_list(lists: pa.Array, contains: str, example: str) -> Guess:
    kind = lists.type.value_type
    if is_number(kind):
        lengths = np.unique(lengths_of(lists))
        if not pa.types.is_integer(kind) or len(lengths[lengths > 0]) <= 1:
            return Guess("vector", contains, example)
    if is_text(kind) or pa.types.is_integer(kind):
        return Guess("tags", contains, example)
    return Guess(None, f"{contains}, which cannot be a feature", example)


def _are_tags(text: pa.Array) -> bool:
    """Whether most texts are several words of a small vocabulary, such as drama|war."""
    separator = find_separator(text)
    if separator not in ("|", ";"):
        return False
    tags = [tag for row in as_tags(text, separator) for tag in row]
    return len(tags) >= 1.5 * len(text) and len(set(tags)) <= len(tags) / 2


def _looks_like_an_id(name: str, values: pa.Array) -> str:
    """A warning if whole numbers count the rows, or differ in every row and are named so."""
    if not pa.types.is_integer(values.type) or values.null_count or len(values) < 3:
        return ""
    if ID_NAME.fullmatch(name) and len(values.unique()) == len(values):
        return "different in every row, and named like an id; consider leaving it out"
    steps = np.diff(values.to_numpy())
    return "looks like a row number; consider leaving it out" if (steps == 1).all() else ""


def _either(formats: list[str]) -> str:
    """A warning if dates may be read in two ways."""
    both = [form for form in formats if form.startswith(("%m/%d", "%d/%m"))]
    if len(both) < 2:
        return ""
    return "the dates may start with the month or the day; write them as 2004-05-31 to be sure"


def _readable(format: str) -> str:
    """The format of a date for people.

    Examples
    --------
    >>> _readable("%d.%m.%Y %H:%M")
    'day.month.year hour:minute'
    """
    names = {"%Y": "year", "%m": "month", "%d": "day", "%H": "hour", "%M": "minute"}
    names |= {"%b": "month", "%B": "month", "ISO": "year-month-day"}
    for code, name in names.items():
        format = format.replace(code, name)
    return format
