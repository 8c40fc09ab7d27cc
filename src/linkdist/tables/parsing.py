"""Convert the values of columns to text, numbers, points in time, lists and tags."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import IntArray
from linkdist.tables.validation import Problems

MISSING = ("", "#n/a", "-nan", "n/a", "na", "nan", "none", "null")
"""Texts that mean a missing value in a column of numbers or dates, in lower case."""

TRUTH = {"true": 1.0, "false": 0.0}

SECONDS = {"day": 86400.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Times and durations are converted to seconds, whatever their unit."""

CURRENCY = r"(?:[$€£¥₹]|USD|EUR|GBP|CHF|JPY|INR|CNY)"

MONEY = re.compile(rf"([-+]?)\s*{CURRENCY}?\s*([-+]?)(\d[\d.,'’\s]*?)\s*(?:%|{CURRENCY})?")
"""An amount of money or a percentage: sign, sign after the currency, digits with separators."""

GROUPS = {".", ",", "'", "\u2019", " ", "\u00a0", "\u202f"}
"""What may separate groups of three digits: also the blanks and the apostrophe of typesetting."""

DATE_FORMATS = (
    "ISO",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d.%m.%Y",
    "%Y/%m/%d",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M",
    "%d.%m.%Y %H:%M",
    "%d %b %Y",
    "%b %d, %Y",
    "%d %B %Y",
    "%B %d, %Y",
)
"""Formats of dates in text; of two that suit a column, the earlier one is used."""

SEPARATORS = ("|", ";", ",")
"""What may separate tags; without any of them, blanks do."""

EDGES = " []'\"\n"
"""What is removed around tags in text: pandas writes a list to CSV as ['a', 'b']."""

Doubles: TypeAlias = npt.NDArray[np.float64]

Mask: TypeAlias = npt.NDArray[np.bool_]


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Decode a column that is stored in chunks, as a dictionary, run-length or extension array."""
    if isinstance(column, pa.ChunkedArray):
        return plain(column.combine_chunks())
    if isinstance(column, pa.ExtensionArray):
        return plain(column.storage)
    if pa.types.is_dictionary(column.type):
        return plain(column.dictionary_decode())
    if pa.types.is_run_end_encoded(column.type):
        return plain(pc.run_end_decode(column))
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column


def text_of(column: pa.Array) -> pa.Array:
    """Convert values to text, as ids and categories are compared.

    Parameters
    ----------
    column : (n,) Arrow array
        Must not contain lists or structs.

    Returns
    -------
    (n,) array of large_string
        Null where a value is null, NaN or an empty text.

    Examples
    --------
    >>> text_of(pa.array([1.0, float("nan"), 2.5])).to_pylist()
    ['1', None, '2.5']
    >>> text_of(pa.array(["007", ""])).to_pylist()
    ['007', None]
    """
    values = plain(column)
    if pa.types.is_floating(values.type):
        values = values.cast(pa.float64())
        values = pc.if_else(pc.is_nan(values), None, values)
    elif pa.types.is_timestamp(values.type):  # in UTC: a machine may not know the time zone
        values = values.view(pa.timestamp(values.type.unit))
    try:
        text = values.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        text = pa.array([_spelled(value) for value in values], pa.large_string())
    return pc.if_else(pc.equal(text, ""), None, text)


def as_mask(column: pa.Array) -> Mask:
    """Convert a column of Booleans to a NumPy array."""
    mask: Mask = column.to_numpy(zero_copy_only=False).astype(bool)
    return mask


def single_values(batch: pa.RecordBatch, name: str | None, problems: Problems) -> pa.Array:
    """A column of single values; nulls if the column is missing, which is reported elsewhere.

    Examples
    --------
    >>> single_values(pa.record_batch({"age": [1, 2]}), "name", Problems()).null_count
    2
    """
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.string())
    column = plain(batch.column(name))
    if pa.types.is_nested(column.type):
        problems.add(f"column {name!r} must contain one value per row; it contains {column.type}")
        return pa.nulls(batch.num_rows, pa.string())
    return column


def places_among(text: pa.Array, known: pa.Array) -> IntArray:
    """Positions of texts among known ones, -1 if unknown.

    Examples
    --------
    >>> places_among(pa.array(["b", None, "x"]), pa.array(["a", "b"])).tolist()
    [1, -1, -1]
    """
    places = pc.index_in(text, value_set=known, skip_nulls=True).fill_null(-1)
    found: IntArray = places.to_numpy().astype(np.int64)
    return found


# Numbers.


def as_numbers(column: pa.Array, decimal: str = ".") -> tuple[Doubles, Mask]:
    """Convert a column to numbers, NaN where missing, and a mask of values that are not numbers.

    Parameters
    ----------
    column : (n,) Arrow array
        Numbers, Booleans, times, durations, or text, which may contain amounts of money.
    decimal : {'.', ','}
        The decimal separator in text.

    Examples
    --------
    >>> as_numbers(pa.array(["$1,200.50", "7 %", "n/a", "many"]))[0].tolist()
    [1200.5, 7.0, nan, nan]
    >>> as_numbers(pa.array(["1.200,50 €", "3,5"]), decimal=",")[0].tolist()
    [1200.5, 3.5]
    """
    kind = column.type
    scale = 1.0
    wrong = np.zeros(len(column), dtype=bool)
    if is_text(kind):
        column, wrong = _parsed(column, decimal)
    elif pa.types.is_temporal(kind):
        scale = SECONDS["day" if pa.types.is_date32(kind) else getattr(kind, "unit", "ms")]
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not is_number(kind):
        wrong = as_mask(column.is_valid())
        column = pa.nulls(len(column))
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values * scale, wrong


def find_decimal(text: pa.Array) -> str:
    """The decimal separator of numbers in text: a comma if some have a decimal comma.

    Examples
    --------
    >>> find_decimal(pa.array(["3,5", "1.200"])), find_decimal(pa.array(["1,200"]))
    (',', '.')
    """
    point, comma = decimal_marks(text)
    return "," if comma and not point else "."


def decimal_marks(text: pa.Array) -> tuple[bool, bool]:
    """Whether some numbers in text can only have a decimal point, and some a decimal comma.

    Examples
    --------
    >>> decimal_marks(pa.array(["1,200.5", "7"])), decimal_marks(pa.array(["3,5"]))
    ((True, False), (False, True))
    """
    comma = re.compile(r"[^,]*?(?:\d,\d{1,2}|\d,\d{4,}|\.\d{3},\d+)\D*")
    point = re.compile(r"[^.]*,\d{3}\.\d*\D*")
    with_comma = text.filter(pc.match_substring(text, ",")).to_pylist()
    return any(map(point.fullmatch, with_comma)), any(map(comma.fullmatch, with_comma))


def _parsed(column: pa.Array, decimal: str) -> tuple[pa.Array, Mask]:
    """Convert text to numbers, with a mask of texts that are not numbers."""
    text = _without_missing(column)
    if decimal == ".":
        try:
            return text.cast(pa.float64()), np.zeros(len(text), dtype=bool)
        except pa.ArrowInvalid:
            pass
    numbers = pa.array([_number(value, decimal) for value in text.to_pylist()], pa.float64())
    return numbers, as_mask(pc.and_(numbers.is_null(), text.is_valid()))


def _without_missing(column: pa.Array) -> pa.Array:
    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array(MISSING, text.type))
    return pc.if_else(missing, None, text)


def _number(text: str | None, decimal: str) -> float | None:
    if text is None or "_" in text:
        return None
    if decimal == ".":
        try:
            return float(text)
        except ValueError:
            pass
    if (truth := TRUTH.get(text.lower())) is not None:
        return truth
    amount = MONEY.fullmatch(text)
    if amount is None or (amount[1] and amount[2]):
        return None
    for group in GROUPS - {decimal}:
        point, comma = re.escape(decimal), re.escape(group)
        if re.fullmatch(rf"(?:\d+|\d{{1,3}}(?:{comma}\d{{3}})+)(?:{point}\d*)?", amount[3]):
            digits = amount[3].replace(group, "").replace(decimal, ".")
            return float(f"{amount[1]}{amount[2]}{digits}")
    return None


# Points in time.


def as_seconds(column: pa.Array, format: str = "ISO") -> tuple[Doubles, Mask]:
    """Convert dates and timestamps to seconds since 1970 (UTC), with a mask of other values.

    Parameters
    ----------
    column : (n,) Arrow array
        Dates, timestamps or text.
    format : str
        The format of text, one of `DATE_FORMATS`.

    Examples
    --------
    >>> as_seconds(pa.array(["1970-01-02", "soon"]))
    (array([86400.,    nan]), array([False,  True]))
    >>> as_seconds(pa.array(["02.01.1970"]), "%d.%m.%Y")[0].tolist()
    [86400.0]
    """
    if not is_text(column.type):
        if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            return as_numbers(column)
        return np.full(len(column), np.nan), as_mask(column.is_valid())
    text = _without_missing(column)
    if format != "ISO":
        stamps = pc.strptime(text, format=format, unit="s", error_is_null=True)
        valid = pc.equal(_days(text, format), pc.day(stamps))
        seconds = pc.if_else(valid, stamps, None).cast(pa.int64()).cast(pa.float64())
    else:
        seconds = pa.array([_iso_seconds(value) for value in text.to_pylist()], pa.float64())
    wrong = as_mask(pc.and_(seconds.is_null(), text.is_valid()))
    return seconds.to_numpy(zero_copy_only=False), wrong


def _days(text: pa.Array, format: str) -> pa.Array:
    """The days of dates as they are written, null where the year does not have four digits.

    Arrow reads 30 February as 1 March, and 5/31/04 as a date of the year 4.
    """
    parts = {"%d": r"(?P<day>\d{1,2})", "%Y": r"\d{4}", "%b": r"\w+", "%B": r"\w+", ".": r"\."}
    pattern = re.sub(r"%\w|\.", lambda code: parts.get(code[0], r"\d+"), format)
    return pc.struct_field(pc.extract_regex(text, f"^{pattern}$"), "day").cast(pa.int64())


def suitable_formats(text: pa.Array, share: float) -> list[str]:
    """The formats in which at least this share of the texts are dates, the best first.

    Examples
    --------
    >>> suitable_formats(pa.array(["02/01/1970", "02/13/1970"]), share=0.5)
    ['%m/%d/%Y', '%d/%m/%Y']
    """
    given = len(_without_missing(text).drop_null())
    fits = {form: given - int(as_seconds(text, form)[1].sum()) for form in DATE_FORMATS}
    suitable = [form for form, count in fits.items() if given and count >= share * given]
    return sorted(suitable, key=lambda form: -fits[form])


def _iso_seconds(text: str | None) -> float | None:
    # A year alone, or digits such as 20040531, are more often numbers than dates.
    if text is None or "-" not in text[4:5]:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


# Lists and tags.


def as_lists(column: pa.Array) -> tuple[pa.Array, Mask]:
    """Convert a column to lists of numbers, null where missing, and a mask of unsuitable values."""
    target = pa.large_list(pa.float64())
    if is_list(column.type) and is_number(column.type.value_type):
        return column.cast(target, safe=False), np.zeros(len(column), dtype=bool)
    return pa.nulls(len(column), target), as_mask(column.is_valid())


def lengths_of(lists: pa.Array) -> npt.NDArray[np.int64]:
    """The length of each list, 0 where it is missing."""
    lengths: npt.NDArray[np.int64] = pc.list_value_length(lists).fill_null(0).to_numpy()
    return lengths


def as_tags(column: pa.Array, separator: str | None) -> list[list[str]]:
    """Convert lists, or text with a separator (None for blanks), to lists of different tags.

    Examples
    --------
    >>> as_tags(pa.array(["drama|war", None, "war"]), "|")
    [['drama', 'war'], [], ['war']]
    >>> as_tags(pa.array([[3, 5, 3], []]), None)
    [['3', '5'], []]
    """
    if is_list(column.type):
        values: Sequence[Any] = column.to_pylist()
        rows = ((str(tag) for tag in row or () if tag is not None) for row in values)
        return [list(dict.fromkeys(row)) for row in rows]
    tags = []
    for text in text_of(column).to_pylist():
        parts = [part.strip(EDGES) for part in (text or "").split(separator)]
        tags.append([part for part in dict.fromkeys(parts) if part])
    return tags


def find_separator(text: pa.Array) -> str | None:
    """The separator of tags in text that most rows contain; None for blanks.

    Examples
    --------
    >>> find_separator(pa.array(["drama|war", "war|love, lost", "war"]))
    '|'
    """
    return most_frequent_separator(Counter(value for value in text.to_pylist() if value))


def most_frequent_separator(counts: Mapping[str, int]) -> str | None:
    """The separator that most rows contain, given the number of rows of each text.

    Examples
    --------
    >>> most_frequent_separator({"drama|war": 1, "love, lost": 2})
    ','
    """
    rows = {
        mark: sum(count for text, count in counts.items() if mark in text) for mark in SEPARATORS
    }
    best = max(SEPARATORS, key=lambda mark: rows[mark])
    return best if rows[best] else None


# Types.


def is_number(kind: pa.DataType) -> bool:
    """Whether values are numbers or Booleans."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in (*tests, pa.types.is_boolean, pa.types.is_null))


def is_text(kind: pa.DataType) -> bool:
    """Whether values are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists."""
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _spelled(value: pa.Scalar) -> str | None:
    """Convert a value to text if Arrow cannot."""
    found = value.as_py()
    if isinstance(found, bytes):
        return found.decode(errors="backslashreplace")
    return None if found is None else str(found)
