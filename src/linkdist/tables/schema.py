"""Infer the kinds of columns, and convert their values to numbers, lists or text."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import IntArray
from linkdist.tables.validation import Problems

KINDS = ("numeric", "categorical", "text", "vector")

MISSING = ("", "#n/a", "-nan", "n/a", "na", "nan", "none", "null")
"""Texts that mean a missing value in a numeric column, in lower case."""

SECONDS = {"day": 86400.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Dates and times are converted to seconds, whatever their unit."""

Doubles: TypeAlias = npt.NDArray[np.float64]

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Guess:
    """The inferred kind of a column.

    Attributes
    ----------
    kind : str or None
        One of `KINDS`, or None if the column cannot be a feature.
    why : str
        The reason, for the user.
    """

    kind: str | None
    why: str


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
    return {field.name: _guess(field.type, sample[field.name]) for field in fields}


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


def as_numbers(column: pa.Array) -> tuple[Doubles, Mask]:
    """Convert a column to numbers, NaN where missing, and a mask of unsuitable values."""
    kind = column.type
    scale = 1.0
    wrong = np.zeros(len(column), dtype=bool)
    if _is_text(kind):
        column, wrong = _parsed(column)
    elif _is_time(kind):
        scale = SECONDS["day" if pa.types.is_date32(kind) else getattr(kind, "unit", "ms")]
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not _is_number(kind):
        wrong = as_mask(column.is_valid())
        column = pa.nulls(len(column))
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values * scale, wrong


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


def _parsed(column: pa.Array) -> tuple[pa.Array, Mask]:
    """Convert text to numbers, with a mask of texts that are not numbers."""
    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array(MISSING, text.type))
    text = pc.if_else(missing, None, text)
    try:
        return text.cast(pa.float64()), np.zeros(len(text), dtype=bool)
    except pa.ArrowInvalid:
        numbers = pa.array([_number(value) for value in text.to_pylist()], pa.float64())
        return numbers, as_mask(pc.and_(numbers.is_null(), text.is_valid()))


def _number(text: str | None) -> float | None:
    if text is None or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def as_lists(column: pa.Array) -> tuple[pa.Array, Mask]:
    """Convert a column to lists of numbers, null where missing, and a mask of unsuitable values."""
    target = pa.large_list(pa.float64())
    if _is_vector(column.type):
        return column.cast(target, safe=False), np.zeros(len(column), dtype=bool)
    return pa.nulls(len(column), target), as_mask(column.is_valid())


def lengths_of(lists: pa.Array) -> npt.NDArray[np.int64]:
    """The length of each list, 0 where it is missing."""
    lengths: npt.NDArray[np.int64] = pc.list_value_length(lists).fill_null(0).to_numpy()
    return lengths


def _guess(kind: pa.DataType, sample: pa.ChunkedArray) -> Guess:
    values = plain(sample)
    there = text_of(values).drop_null() if _is_text(values.type) else values.drop_null()
    if not len(there):
        return Guess(None, "has no values in the first rows")
    if _is_number(values.type) or _is_time(values.type):
        return Guess("numeric", f"contains {kind}")
    if _is_vector(values.type):
        return Guess("vector", f"contains {kind}")
    if not _is_text(values.type):
        return Guess(None, f"contains {kind}, which cannot be a feature")
    distinct = len(there.unique())
    why = f"{distinct} different values in the first {len(there)} rows"
    return Guess("categorical" if distinct <= min(50, len(there) / 2) else "text", why)


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in (*tests, pa.types.is_boolean, pa.types.is_null))


def _is_time(kind: pa.DataType) -> bool:
    tests = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration)
    return any(test(kind) for test in tests)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_vector(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests) and _is_number(kind.value_type)


def _spelled(value: pa.Scalar) -> str | None:
    """Convert a value to text if Arrow cannot."""
    found = value.as_py()
    if isinstance(found, bytes):
        return found.decode(errors="backslashreplace")
    return None if found is None else str(found)
