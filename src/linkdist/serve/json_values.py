"""JSON values as the columns of a table, so that the encoders of tables read them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from linkdist.tables.bag_encoders import Tags
from linkdist.tables.encoders import FAR, Encoder, Numeric
from linkdist.tables.parsing import as_numbers, as_tags, text_of

DATE = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)
TIME = re.compile(r"\d\d:\d\d(:\d\d)?", re.ASCII)


def as_column(encoder: Encoder, values: Sequence[Any]) -> pa.Array:
    """Return the column of a table that contains these values.

    Parameters
    ----------
    encoder : Encoder
        The encoder of the column.
    values : sequence of JSON values
        Of the types that the request schema allows; None where missing.

    Examples
    --------
    >>> as_column(Numeric("price", decimal=","), ["3,5", 2, None]).to_pylist()
    [3.5, 2.0, None]
    >>> as_column(Tags("genre", separator="|"), ["war|love", [7, "war"]]).to_pylist()
    [['war', 'love'], ['7', 'war']]
    """
    if isinstance(encoder, Numeric):
        return _numbers(values, encoder.decimal)
    if isinstance(encoder, Tags):
        values = [_tags(value, encoder.separator) for value in values]
    elif encoder.kind != "vector":
        values = _spell(values)
    return pa.array(values, column_type(encoder))


def column_type(encoder: Encoder) -> pa.DataType:
    """Return the Arrow type of a column."""
    if encoder.kind == "numeric":
        return pa.float64()
    if encoder.kind == "vector":
        return pa.list_(pa.float64())
    return pa.list_(pa.large_string()) if isinstance(encoder, Tags) else pa.large_string()


def are_clean(encoder: Encoder, values: Sequence[Any], known: Collection[str]) -> bool:
    """Whether no value is missing, unseen, unsuitable or written in another way.

    Such values need no further check, which would take longer than the prediction of a row.

    Parameters
    ----------
    encoder, values
        As in `as_column`.
    known : collection of str
        The categories or tags of the column.
    """
    if encoder.kind == "numeric":
        return all(type(value) is float and -FAR <= value <= FAR for value in values)
    if encoder.kind == "categorical":
        return all(type(value) is str and value in known for value in values)
    if encoder.kind == "text":
        return all(type(value) is str and value for value in values)
    if isinstance(encoder, Tags):
        return all(type(row) is list and row and all(tag in known for tag in row) for row in values)
    return encoder.kind == "vector" and all(values)


def _numbers(values: Sequence[Any], decimal: str) -> pa.Array:
    """Numbers or, if there is other text, all values as text.

    A table reads text by `as_numbers`, too, and dates and times by Arrow's CSV reader. Those
    formats are written out here, since Arrow reads whole columns only.
    """
    texts = [value if isinstance(value, str) else None for value in values]
    read, is_wrong = as_numbers(pa.array(texts, pa.string()), decimal)
    numbers = [
        (None if np.isnan(x) else x) if isinstance(value, str) else value
        for value, x in zip(values, read.tolist(), strict=True)
    ]
    for place in np.flatnonzero(is_wrong).tolist():
        numbers[place] = _seconds(values[place].strip())
        is_wrong[place] = numbers[place] is None
    if not is_wrong.any():
        return pa.array(numbers, pa.float64())
    spelled = [
        value if wrong else _decimal(x, decimal)
        for value, x, wrong in zip(values, numbers, is_wrong, strict=True)
    ]
    return pa.array(spelled, pa.large_string())


def _decimal(number: float | None, decimal: str) -> str | None:
    """A number as text with the decimal separator of the column."""
    if number is None:
        return None
    return np.format_float_positional(number, trim="-").replace(".", decimal)


def _seconds(text: str) -> float | None:
    """Read a date as seconds since 1970 and a time as seconds since midnight.

    Examples
    --------
    >>> [_seconds(text) for text in ("1970-01-02", "00:01", "soon")]
    [86400.0, 60.0, None]
    """
    if TIME.fullmatch(text):
        text = f"1970-01-01 {text}"
    if not DATE.fullmatch(text):
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError:  # such as the 31st of February
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _tags(value: str | list[Any] | None, separator: str | None) -> list[str] | None:
    if isinstance(value, str):
        return as_tags(pa.array([value]), separator)[0]
    return None if value is None else [str(tag) for tag in value if tag is not None]


def _spell(values: Sequence[Any]) -> list[str | None]:
    """Numbers and truth values as text, as a table spells them."""
    spelled = [str(value).lower() if isinstance(value, int) else value for value in values]
    places = [place for place, value in enumerate(values) if isinstance(value, float)]
    if places:
        texts = text_of(pa.array([values[place] for place in places], pa.float64())).to_pylist()
        for place, text in zip(places, texts, strict=True):
            spelled[place] = text
    return spelled
