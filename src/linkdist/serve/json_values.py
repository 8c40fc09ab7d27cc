"""JSON values read by the rules for the cells of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from linkdist.tables.encoders import FAR
from linkdist.tables.parsing import as_numbers, text_of

DATE = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)
TIME = re.compile(r"\d\d:\d\d(:\d\d)?", re.ASCII)
TRUTH = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}


def read_numbers(values: list[Any]) -> list[int]:
    """Read text in a numeric column in place; return where it is neither number nor date.

    A table reads text by `as_numbers`, too, and dates, times and truth values by Arrow's CSV
    reader. Those formats are written out here, since Arrow reads whole columns only.
    """
    places = [place for place, value in enumerate(values) if isinstance(value, str)]
    if not places:
        return []
    texts = [values[place] for place in places]
    numbers, is_wrong = as_numbers(pa.array(texts, pa.string()))
    wrong = []
    read = zip(places, texts, numbers.tolist(), is_wrong.tolist(), strict=True)
    for place, text, number, is_text in read:
        value = _seconds(text.strip()) if is_text else number
        if value is None or abs(value) > FAR:
            wrong.append(place)
        else:
            values[place] = value
    return wrong


def _seconds(text: str) -> float | None:
    """Read a date as seconds since 1970, a time as seconds since midnight, a truth value as 0, 1.

    Examples
    --------
    >>> [_seconds(text) for text in ("1970-01-02", "00:01", "true", "soon")]
    [86400.0, 60.0, 1.0, None]
    """
    if TIME.fullmatch(text):
        text = f"1970-01-01 {text}"
    if not DATE.fullmatch(text):
        return TRUTH.get(text)
    try:
        date = datetime.fromisoformat(text)
    except ValueError:  # such as the 31st of February
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def spell(values: Sequence[Any]) -> list[str | None]:
    """Numbers and truth values as text, as a table spells them."""
    spelled = [str(value).lower() if isinstance(value, int) else value for value in values]
    places = [place for place, value in enumerate(values) if isinstance(value, float)]
    if places:
        texts = text_of(pa.array([values[place] for place in places], pa.float64())).to_pylist()
        for place, text in zip(places, texts, strict=True):
            spelled[place] = text
    return spelled
