"""Parts of Markdown pages, from values that were read from a file and may be anything."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from linkdist.report.score_text import UNDEFINED
from linkdist.training.measures import Measure

About: TypeAlias = Mapping[str, Any]


def as_list(value: object) -> list[Any]:
    """Return a list; an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def pairs(values: object) -> str:
    """Return a list of names and values.

    Examples
    --------
    >>> print(pairs({"rows_read": 1200, "data": {"links": 3}}))
    - rows read: 1,200
    - data, links: 3
    """
    rows = flat(as_mapping(values))
    return "\n".join(f"- {text(key)}: {text(number_text(value))}" for key, value in rows)


def as_mapping(value: object) -> About:
    """Return a mapping; an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def flat(values: About, prefix: str = "") -> list[tuple[str, Any]]:
    """Return pairs of key and value without missing values; nested mappings are flattened."""
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        title = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            rows += flat(value, f"{title}, ")
        elif isinstance(value, list | tuple):
            rows.append((title, ", ".join(number_text(part) for part in value)))
        elif value is not None:
            rows.append((title, value))
    return rows


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "---:") -> str:
    """Return a table; its cells are Markdown.

    Examples
    --------
    >>> print(table(["", "rows"], [["a", "1"]]))
    |  | rows |
    | --- | ---: |
    | a | 1 |
    """
    rule = ["---", *[align] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def share(value: object, measure: Measure) -> str:
    """Return a score: a percentage, or a number in the unit of the labels.

    Examples
    --------
    >>> from linkdist.report.score_text import measure_named
    >>> share(0.8125, measure_named("accuracy")), share(0.8125, measure_named("r2"))
    ('81.2%', '0.812')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return UNDEFINED
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.1%}" if measure.percent else text(measure.text(value))
    return text(number_text(value))


def number_text(value: object) -> str:
    """Return a number in a usual form, or anything else as it is."""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return f"{value:,}" if type(value) is int else str(value)


def text(value: object) -> str:
    """Escape text for Markdown, on one line."""
    return re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", " ".join(str(value).split()))


def code(value: object) -> str:
    """Return a name as code, or as escaped text if it contains backticks or bars."""
    plain = " ".join(str(value).split())
    return text(value) if "`" in plain or "|" in plain else f"`{plain}`"
