"""All problems of a table in one message, with column, row and value.

Rows count from 1, the table's header aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.errors import OptionError, TableError, check_names

SHOWN = 5
"""How many examples of a problem a message gives."""

Rows: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]


class Problems:
    """All that is wrong with a table, for one message.

    Examples
    --------
    >>> problems = Problems()
    >>> problems.names("column", ["aged"], ["id", "age"])
    >>> problems.rows("column 'age' must hold numbers", [3, 8], ["old", "young"])
    >>> problems.check("nodes.csv")
    Traceback (most recent call last):
    linkdist.errors.TableError: nodes.csv: unknown column 'aged' (near: age); known are id, age. \
column 'age' must hold numbers; row 3 has 'old', row 8 has 'young'.
    """

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = {}

    def __bool__(self) -> bool:
        """Whether anything was noted."""
        return bool(self._examples)

    def add(self, rule: str) -> None:
        """Note a problem that has no row."""
        self._examples.setdefault(rule.rstrip("."), [])

    def names(self, what: str, asked: Iterable[str], known: Iterable[str]) -> None:
        """Note names that are not known, as `check_names` tells of them."""
        try:
            check_names(what, asked, known)
        except OptionError as error:
            self.add(str(error))

    def rows(self, rule: str, rows: Rows, values: Sequence[Any], total: int | None = None) -> None:
        """Note the rows that break a rule, with what they hold instead; `total` counts others too.

        Of many rows and values it takes the first ones, so more need not be given.
        """
        if len(rows) == 0:
            return
        examples = self._examples.setdefault(rule, [])
        self._found[rule] += len(rows) if total is None else total
        for row, value in zip(rows[: SHOWN - len(examples)], values, strict=False):
            examples.append(f"row {row} has {_shown(value)}")

    def check(self, where: str = "") -> None:
        """Raise a `TableError` if anything was noted, `where` before it."""
        if self:
            sentences = [self._sentence(rule) for rule in self._examples]
            raise TableError(f"{where}: {' '.join(sentences)}".removeprefix(": "))

    def _sentence(self, rule: str) -> str:
        examples = self._examples[rule]
        parts = [", ".join([f"{rule}; {examples[0]}", *examples[1:]])] if examples else [rule]
        if self._found[rule] > len(examples):
            parts.append(f"{self._found[rule]} such in all")
        return f"{', '.join(parts)}."


@contextmanager
def gathered(problems: Problems | None) -> Iterator[Problems]:
    """Problems to note in: those given, or new ones that are raised at the end."""
    if problems is not None:
        yield problems
    else:
        own = Problems()
        yield own
        own.check()


def _shown(value: Any) -> str:  # noqa: ANN401
    """A value as a message shows it."""
    try:
        text = repr(value.as_py() if isinstance(value, pa.Scalar) else value)
    except (ValueError, KeyError, OverflowError):  # a date that Python has none of
        text = f"a {value.type}"
    return text if len(text) <= 60 else f"{text[:57]}..."
