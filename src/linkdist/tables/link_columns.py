"""Read the relations and the weights of links from columns, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from linkdist.data.graph import FloatArray, IntArray
from linkdist.data.links import MOST_RELATIONS
from linkdist.tables.formats import Table
from linkdist.tables.parsing import as_numbers, find_decimal, is_text, places_among, plain, text_of
from linkdist.tables.validation import SHOWN, Problems

TRAINED, BUILT = "the model was trained", "the store was built"
"""What messages say about the origin of columns and relations that are given."""

LIGHTEST, HEAVIEST = 1e-30, 1e30
"""Weights in this range can be added up and divided in single precision."""


class RelationColumn:
    """A column with the names of relations.

    Parameters
    ----------
    name : str
        The column.
    problems : Problems
        Collects the rows without a relation.

    Examples
    --------
    >>> column = RelationColumn("kind", Problems())
    >>> column.add(1, pa.array(["knows", "cites", "knows"]))
    >>> column.counts, column.codes().tolist()
    ({'knows': 2, 'cites': 1}, [0, 1, 0])
    """

    def __init__(self, name: str, problems: Problems) -> None:
        self.name, self._problems = name, problems
        self.counts: dict[str, int] = {}
        """Number of rows of each relation, in the order in which the relations appear."""
        self._parts = [np.empty(0, dtype=np.int64)]

    def add(self, first_row: int, values: pa.Array) -> None:
        """Add a batch, whose first row has the number `first_row`."""
        texts = self.count(first_row, values)
        self._parts.append(places_among(texts, pa.array(list(self.counts), pa.large_string())))

    def count(self, first_row: int, values: pa.Array) -> pa.Array:
        """Count the relations of a batch without keeping them; returns their names."""
        texts = text_of(values)
        for pair in texts.drop_null().value_counts():
            text, count = pair["values"].as_py(), pair["counts"].as_py()
            self.counts[text] = self.counts.get(text, 0) + count
        missing = np.flatnonzero(texts.is_null())
        rule = f"column {self.name!r} must contain a relation in every row"
        shown = [None] * min(len(missing), SHOWN)
        self._problems.rows(rule, missing[:SHOWN] + first_row, shown, len(missing))
        return texts

    def codes(self) -> IntArray:
        """The position of each row's relation in `counts`, -1 if it is missing."""
        return np.concatenate(self._parts)


class WeightColumn:
    """A column with the weights of links: positive numbers, or texts of them.

    Parameters
    ----------
    table : Table
        The link table, whose first rows tell the decimal separator.
    name : str
        The column.
    problems : Problems
        Collects the rows without a valid weight.

    Examples
    --------
    >>> from linkdist.tables.io import open_table
    >>> table, problems = open_table({"years": ["2", "0,5", "-1", "long", ""]}), Problems()
    >>> column = WeightColumn(table, "years", problems)
    >>> for batch in table.batches():
    ...     column.add(1, batch["years"])
    >>> column.weights()[:2]
    array([2. , 0.5], dtype=float32)
    >>> problems.check("links.csv")
    Traceback (most recent call last):
    linkdist.errors.TableError: links.csv: column 'years' must contain a weight in every row; row \
5 is empty. column 'years' must contain positive numbers from 1e-30 to 1e+30; row 3 has -1.0, row \
4 has 'long'.
    """

    def __init__(self, table: Table, name: str, problems: Problems) -> None:
        self.name, self._problems = name, problems
        first = plain(table.sample()[name])
        self._decimal = find_decimal(first) if is_text(first.type) else "."
        self._parts = [np.empty(0, dtype=np.float32)]

    def add(self, first_row: int, values: pa.Array) -> None:
        """Add a batch, whose first row has the number `first_row`."""
        self._parts.append(self.read(first_row, values))

    def read(self, first_row: int, values: pa.Array) -> FloatArray:
        """The weights of a batch, which are not kept."""
        if pa.types.is_temporal(values.type):  # its numbers would depend on the unit
            values = text_of(values)
        numbers, unreadable = as_numbers(values, self._decimal)
        missing = np.isnan(numbers) & ~unreadable
        wrong = ~missing & ~((numbers >= LIGHTEST) & (numbers <= HEAVIEST))
        rules = {
            f"column {self.name!r} must contain a weight in every row": missing,
            f"column {self.name!r} must contain positive numbers from {LIGHTEST:g} to "
            f"{HEAVIEST:g}": wrong,
        }
        for rule, mask in rules.items():
            rows = np.flatnonzero(mask)
            shown = [
                None if missing[row] else values[row] if unreadable[row] else float(numbers[row])
                for row in rows[:SHOWN].tolist()
            ]
            self._problems.rows(rule, rows[:SHOWN] + first_row, shown, len(rows))
        with np.errstate(over="ignore"):  # numbers that do not fit were reported above
            return numbers.astype(np.float32)

    def weights(self) -> FloatArray:
        """The weight of each row."""
        return np.concatenate(self._parts)


def relation_order(
    counts: Mapping[str, int],
    known: tuple[str, ...] | None,
    problems: Problems,
    origin: str = TRAINED,
) -> tuple[str, ...]:
    """The relations in their final order: that of a model, or sorted by name.

    Parameters
    ----------
    counts : mapping of str to int
        Number of rows of each relation.
    known : tuple of str, optional
        The relations of a model or a store.
    problems : Problems
        Collects relations that are not among them; without them, too many relations.
    origin : str
        What messages say about the origin of the relations.

    Examples
    --------
    >>> problems = Problems()
    >>> relation_order({"knows": 3, "likes": 1}, ("cites", "knows"), problems)
    ('cites', 'knows', 'likes')
    >>> problems.check("links.csv")
    Traceback (most recent call last):
    linkdist.errors.TableError: links.csv: the model was trained with the relations cites, knows; \
found others: 'likes' (1 row).
    """
    if known is not None:
        others = Counter({name: count for name, count in counts.items() if name not in known})
        if others:
            rule = f"{origin} with the relations {', '.join(known)}; found others"
            problems.add(f"{rule}: {_most_frequent(others)}")
        return (*known, *others)
    if len(counts) > MOST_RELATIONS:
        rule = f"links can have {MOST_RELATIONS} relations; found {len(counts)}"
        advice = "Merge the rare ones, or choose another column"
        problems.add(f"{rule}, most often {_most_frequent(Counter(counts))}. {advice}")
    return tuple(sorted(counts))


def _most_frequent(counts: Counter[str]) -> str:
    shown = [f"{name!r} ({n} row{'s' * (n != 1)})" for name, n in counts.most_common(SHOWN)]
    more = len(counts) - len(shown)
    return ", ".join(shown) + f" and {more} more" * (more > 0)
