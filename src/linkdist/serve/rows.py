"""The JSON of a request, read with care: rows become columns, links become pairs.

A body is believed nothing. All that is wrong with its rows is told at once, by column and row;
rows count from 1, as in a table, and links by position from 0, as in the JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from linkdist.artifacts.manifest import Header
from linkdist.errors import TableError
from linkdist.serve.engine import Links
from linkdist.serve.errors import RefusedError
from linkdist.tables.encoders import FAR
from linkdist.tables.schema import text_of
from linkdist.tables.validation import SHOWN, Problems

KEYS = ("rows", "neighbours", "links")

Columns = dict[str, list[Any]]
"""Values by column, a value a row, in the type of their kind and None where missing.

The key '' holds rows of bare features.
"""


@dataclass(frozen=True)
class Asked:
    """What a request asks.

    Attributes
    ----------
    columns : Columns
        Of its rows, and after them of the neighbours that only lend their word.
    rows : int
        How many rows are to be answered.
    count : int
        How many there are with the neighbours.
    links : (m, 2) array of int
        Pairs of positions.
    """

    columns: Columns
    rows: int
    count: int
    links: Links


def read_request(body: bytes, header: Header, most: int) -> Asked:
    """Read a request's body for a model.

    Parameters
    ----------
    body : bytes
        As it came.
    header : Header
        Of the model that shall answer.
    most : int
        How many rows and neighbours there may be.

    Raises
    ------
    RefusedError
        With all that is wrong.
    """
    request = _object(body)
    rows, neighbours = (_list(request, key, most) for key in KEYS[:2])
    if not rows:
        raise RefusedError(422, "'rows' must hold one row or more; found none.")
    every = rows + neighbours
    if len(every) > most:
        raise RefusedError(
            413,
            f"a request may hold {most:,} rows and neighbours; found {len(every):,}. Send several.",
        )
    columns = _bare(every, header) if header.encoders is None else _named(every, header)
    return Asked(columns, len(rows), len(every), _links(request, len(every), 10 * most))


def _object(body: bytes) -> dict[str, Any]:
    try:
        request = json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise RefusedError(400, "the JSON is nested too deeply; rows are flat.") from None
    except ValueError as error:  # also of bytes that are no UTF-8
        raise RefusedError(400, f"the body must be JSON in UTF-8: {error}.") from None
    if not isinstance(request, dict):
        raise RefusedError(
            422, f"the body must be a JSON object with 'rows'; found {_is(request)}."
        )
    unknown = sorted(request.keys() - set(KEYS))
    if unknown:
        names = ", ".join(map(_quoted, unknown[:5]))
        raise RefusedError(422, f"unknown key {names}; known are {', '.join(KEYS)}.")
    return request


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number; send null where a value is missing")


def _list(request: Mapping[str, Any], key: str, most: int) -> list[Any]:
    value = request.get(key, [])
    if not isinstance(value, list):
        raise RefusedError(422, f"{key!r} must be a list; found {_is(value)}.")
    if len(value) > most:
        found = f"{key!r} holds {len(value):,}"
        raise RefusedError(413, f"{found}; a request may hold {most:,}. Send several.")
    return value


def _links(request: Mapping[str, Any], count: int, most: int) -> Links:
    pairs = _list(request, "links", most)
    bad = [place for place, pair in enumerate(pairs) if not _joins(pair, count)]
    if bad:
        shown = ", ".join(f"link {place} is {_shown(pairs[place])}" for place in bad[:SHOWN])
        raise RefusedError(
            422,
            f"a link must be two positions from 0 to {count - 1}, rows before neighbours; {shown}"
            + (f", {len(bad)} such in all." if len(bad) > SHOWN else "."),
        )
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _joins(pair: object, count: int) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    return all(type(end) is int and 0 <= end < count for end in pair)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _bare(rows: Sequence[Any], header: Header) -> Columns:
    """Rows that are lists of numbers, for a model that knows no columns."""
    d = header.shape.features
    problems = Problems()
    for place, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != d or not all(map(_is_finite, row)):
            rule = f"a row must be a list of {d} finite numbers, since the model knows no columns"
            shown = f"{len(row)} entries" if isinstance(row, list) and len(row) != d else row
            problems.rows(rule, [place + 1], [shown])
    _raise(problems, {})
    return {"": list(rows)}


def _named(rows: Sequence[Any], header: Header) -> Columns:
    """Rows that are objects with a table's columns; what is not there is missing."""
    assert header.encoders is not None
    problems = Problems()
    wrong = {place: row for place, row in enumerate(rows) if not isinstance(row, dict)}
    rule = "a row must be an object with a value a column"
    problems.rows(rule, [place + 1 for place in wrong], list(wrong.values()))
    objects = [row if isinstance(row, dict) else {} for row in rows]
    names = header.encoders.names
    beside = {header.about.get(key) for key in ("id", "label")}
    unknown = {name for row in objects for name in row} - set(names) - beside
    problems.names("column", sorted(unknown), names)
    empty = [
        place
        for place, row in enumerate(objects)
        if place not in wrong and all(row.get(name) is None for name in names)
    ]
    rule = f"a row must have a value in one column or more; columns are {', '.join(names)}"
    problems.rows(rule, [place + 1 for place in empty], [objects[place] for place in empty])
    columns: Columns = {}
    blamed: dict[str, Problems] = {}
    for encoder in header.encoders.columns:
        name, (read, held) = encoder.name, READERS[encoder.kind]
        values = columns[name] = [row.get(name) for row in objects]
        for place, value in enumerate(values):
            if value is None:
                continue
            try:
                values[place] = read(value)
            except (TypeError, ValueError, OverflowError):
                rule = f"{_quoted(name)} must hold {held}"
                blamed.setdefault(name, Problems()).rows(rule, [place + 1], [value])
    _raise(problems, blamed)
    return columns


def _number(value: Any) -> float:  # noqa: ANN401
    """A number, or a date in seconds since 1970, as a table's columns are read."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            date = datetime.fromisoformat(value)
            value = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if not isinstance(value, int | float):
        raise TypeError
    number = float(value)
    if not abs(number) <= FAR:
        raise ValueError
    return number


def _word(value: Any) -> str:  # noqa: ANN401
    """A single value as text, as a table's column is read."""
    if isinstance(value, str):
        value.encode()  # a lone surrogate is no text
        return value
    if not isinstance(value, bool | int | float) or not _is_finite(value):
        raise TypeError
    if type(value) is int:
        return str(value)
    spelled: str = text_of(pa.array([value]))[0].as_py()
    return spelled


def _vector(value: Any) -> list[float]:  # noqa: ANN401
    if not isinstance(value, list) or not all(map(_is_finite, value)):
        raise TypeError
    return [float(part) for part in value]


READERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "numeric": (_number, "finite numbers, or dates like 2004-05-31"),
    "categorical": (_word, "one value a row"),
    "text": (_word, "text"),
    "vector": (_vector, "lists of finite numbers"),
}


def _is_finite(value: object) -> bool:
    if isinstance(value, bool | int):
        return abs(value) <= FAR
    return isinstance(value, float) and math.isfinite(value)


def _raise(problems: Problems, blamed: Mapping[str, Problems]) -> None:
    """Refuse the request if anything was noted."""
    columns = {name: text for name, found in blamed.items() if (text := told(found))}
    sentences = [told(problems), *columns.values()]
    text = " ".join(part for part in sentences if part)
    if text:
        raise RefusedError(422, text, columns)


def told(problems: Problems) -> str:
    """All that was noted, in one text; none where nothing was."""
    try:
        problems.check()
    except TableError as error:
        return str(error)
    return ""


def _quoted(name: str) -> str:
    return repr(name) if len(name) <= 60 else f"{name[:57]!r}..."


def _is(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "a truth value"}
    return "null" if value is None else kinds.get(type(value), "a number")
