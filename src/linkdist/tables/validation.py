"""Collect all problems of a table into one error message, with columns, rows and values.

Rows are counted from 1, without the header.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.errors import OptionError, TableError, check_names

SHOWN = 5
"""Maximum number of examples of a problem in a message."""

Rows: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]


@dataclass
class Tally:
    """The values of a column that were missing, unseen or invalid.

    Attributes
    ----------
    rows : int
        Number of values in the column.
    missing, unseen, unsuitable : int
        Number of missing values, of values that training did not see, and of values that do not
        suit the kind of the column and count as missing.
    examples : list of str
        Examples of unseen and unsuitable values, each once.
    """

    rows: int = 0
    missing: int = 0
    unseen: int = 0
    unsuitable: int = 0
    examples: list[str] = field(default_factory=list)

    def add(
        self,
        rows: int,
        missing: int,
        unseen: int = 0,
        unsuitable: int = 0,
        examples: Any = (),  # noqa: ANN401
    ) -> None:
        """Add the counts of a batch."""
        self.rows += rows
        self.missing += missing
        self.unseen += unseen
        self.unsuitable += unsuitable
        if len(self.examples) < SHOWN:
            shown = dict.fromkeys([*self.examples, *map(show_value, examples[:SHOWN])])
            self.examples = list(shown)[:SHOWN]


class Problems:
    """Collects the problems of a table for one error message.

    Values that are no problem but not used as they are, such as missing ones, are counted in
    `tallies`.

    Parameters
    ----------
    place : callable, optional
        Returns what messages call a row, given its number; by default 'row 7'.

    Examples
    --------
    >>> problems = Problems()
    >>> problems.names("column", ["aged"], ["id", "age"])
    >>> problems.rows("column 'age' must contain numbers", [3, 8], ["old", "young"])
    >>> problems.check("nodes.csv")
    Traceback (most recent call last):
    linkdist.errors.TableError: nodes.csv: unknown column 'aged' (near: age); choose from id, age. \
column 'age' must contain numbers; row 3 has 'old', row 8 has 'young'.
    """

    def __init__(self, place: Callable[[int], str] = "row {}".format) -> None:
        self.place = place
        self._found: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = {}
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)

    def __len__(self) -> int:
        """Number of different problems."""
        return len(self._examples)

    def add(self, rule: str) -> None:
        """Add a problem that does not belong to a row."""
        self._examples.setdefault(rule.rstrip("."), [])

    def names(self, what: str, given: Iterable[str], known: Iterable[str]) -> None:
        """Add unknown names, with the message of `check_names`."""
        try:
            check_names(what, given, known)
        except OptionError as error:
            self.add(str(error))

    def rows(self, rule: str, rows: Rows, values: Sequence[Any], total: int | None = None) -> None:
        """Add rows that break a rule, with their values.

        Only the first values are shown, so the others need not be passed; `total` is the number of
        rows if there are more than `rows`.
        """
        shown = zip(rows[:SHOWN], values, strict=False)
        examples = [f"{self.place(int(row))} {_found(value)}" for row, value in shown]
        self.examples(f"{rule};", examples, len(rows) if total is None else total)

    def examples(self, rule: str, examples: Sequence[str], total: int) -> None:
        """Add a problem that was found `total` times, with its first examples."""
        if total:
            kept = self._examples.setdefault(rule, [])
            kept.extend(examples[: SHOWN - len(kept)])
            self._found[rule] += total

    def check(self, where: str = "") -> None:
        """Raise a `TableError` if there are any problems; the message starts with `where`."""
        if self:
            sentences = [self._sentence(rule) for rule in self._examples]
            raise TableError(f"{where}: {' '.join(sentences)}".removeprefix(": "))

    def _sentence(self, rule: str) -> str:
        examples = self._examples[rule]
        more = self._found[rule] > len(examples)
        parts = [*examples, *([f"{self._found[rule]} in total"] if more else [])]
        return f"{rule} {', '.join(parts)}".rstrip() + "."

    def notices(self) -> list[str]:
        """A sentence for each column with values that were missing, unseen or invalid.

        Examples
        --------
        >>> problems = Problems()
        >>> problems.tallies["venue"].add(rows=748, missing=3, unseen=1, examples=["blog"])
        >>> print(*problems.notices())
        column 'venue': of 748 values, 3 are missing and 1 is unknown to the model ('blog').
        """
        sentences = []
        for name, tally in self.tallies.items():
            parts = [
                f"{count} {'is' if count == 1 else 'are'} {what}"
                for count, what in (
                    (tally.missing, "missing"),
                    (tally.unsuitable, "unsuitable (read as missing)"),
                    (tally.unseen, "unknown to the model"),
                )
                if count
            ]
            shown = f" ({', '.join(tally.examples)})" if tally.examples else ""
            if parts:
                found = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
                values = "1 value" if tally.rows == 1 else f"{tally.rows} values"
                sentences.append(f"column {name!r}: of {values}, {found}{shown}.")
        return sentences


@contextmanager
def collect_problems(problems: Problems | None) -> Iterator[Problems]:
    """Collect in `problems` or, if it is None, raise an error with all problems at the end."""
    if problems is not None:
        yield problems
    else:
        own = Problems()
        yield own
        own.check()


def _found(value: object) -> str:
    empty = not value.is_valid if isinstance(value, pa.Scalar) else value is None
    return "is empty" if empty else f"has {show_value(value)}"


def show_value(value: Any) -> str:  # noqa: ANN401
    """A value as it appears in a message, with at most 60 characters.

    Examples
    --------
    >>> show_value(pa.scalar("old"))
    "'old'"
    """
    try:
        text = repr(value.as_py() if isinstance(value, pa.Scalar) else value)
    except (ValueError, KeyError, OverflowError):  # a date that Python cannot represent
        text = f"a {value.type}"
    return text if len(text) <= 60 else f"{text[:57]}..."
