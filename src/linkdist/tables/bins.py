"""The bins of a column, into which its rows are counted.

Each row falls into one bin, so that counts are those of independent rows and can be compared by a
chi-square test::

    numbers   between two deciles of the training, below all its numbers, above all its numbers
    values    one of the most frequent values, or another one
    words     the rarest of some frequent words that the row contains, or none of them

The last bin is that of missing values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data.graph import IntArray
from linkdist.tables.column_values import Bags, Values
from linkdist.tables.parsing import Doubles, as_mask

PARTS = 10
"""Number of bins between the smallest and the largest number of the training."""

NAMED = 20
"""Maximum number of bins for values, and for words."""

WORDS = 200
"""Maximum number of words whose rows are counted one by one."""

LONGEST = 100
"""Maximum length of a value with a bin; longer ones count as others."""

COMMON = 0.15
"""A word of more rows has a bin only if there are few others: it would take most rows."""

MISSING = "missing"


@dataclass(frozen=True)
class Bins(ABC):
    """The bins of a column."""

    @property
    @abstractmethod
    def labels(self) -> list[str]:
        """A name for each bin; the last is that of missing values."""

    @abstractmethod
    def place(self, values: Any) -> IntArray:  # noqa: ANN401
        """The bin (n,) of each row."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The bins as JSON values."""

    def count(self, values: Values) -> IntArray:
        """Number of rows in each bin."""
        return np.bincount(self.place(values), minlength=len(self.labels))


@dataclass(frozen=True)
class NumberBins(Bins):
    """Bins of numbers; one contains the numbers above an edge and up to the next.

    Attributes
    ----------
    edges : tuple of float
        In increasing order.
    are_dates : bool
        Whether the numbers are seconds since 1970.

    Examples
    --------
    >>> bins = NumberBins((0.0, 1.0))
    >>> bins.place(np.array([0.0, 0.5, 1.0, 7.0, np.nan])).tolist()
    [0, 1, 1, 2, 3]
    """

    edges: tuple[float, ...]
    are_dates: bool = False

    @property
    def labels(self) -> list[str]:
        """Ranges of numbers."""
        if not self.edges:
            return ["all", MISSING]
        least = float(np.nextafter(self.edges[0], np.inf))  # the first edge is just below it
        edges = (least, *self.edges[1:])
        shown = [_date(edge) if self.are_dates else _number(edge) for edge in edges]
        between = [low if low == high else f"{low} to {high}" for low, high in pairwise(shown)]
        return [f"below {shown[0]}", *between, f"above {shown[-1]}", MISSING]

    def place(self, values: Doubles) -> IntArray:
        """The bin of each number."""
        edges = np.array(self.edges, dtype=np.float64)
        inside = np.searchsorted(edges, values, side="left")
        return np.where(np.isnan(values), len(edges) + 1, inside)

    def state(self) -> dict[str, Any]:
        """The bins as JSON values."""
        return {"edges": list(self.edges), **({"dates": True} if self.are_dates else {})}


@dataclass(frozen=True)
class ValueBins(Bins):
    """Bins of values or, if rows have several, of words.

    Attributes
    ----------
    names : tuple of str
        The values or words with a bin. A row with several words counts in the bin of the first.
    kind : {'values', 'words'}
        Whether a row has one value or several words.

    Examples
    --------
    >>> ValueBins(("b", "a")).place(pa.array(["a", "c", None])).tolist()
    [1, 2, 3]
    >>> ValueBins(("b", "a"), "words").place([["c", "a", "b"], []]).tolist()
    [0, 3]
    """

    names: tuple[str, ...]
    kind: str = "values"

    @property
    def labels(self) -> list[str]:
        """The values, and 'other'; for words, 'none of these'."""
        return [*self.names, "other" if self.kind == "values" else "none of these", MISSING]

    def place(self, values: pa.Array | Bags) -> IntArray:
        """The bin of each row."""
        other = len(self.names)
        if isinstance(values, list):
            rank = {name: i for i, name in enumerate(self.names)}
            first = (min((rank.get(word, other) for word in row), default=other) for row in values)
            found = np.fromiter(first, np.int64, len(values))
            missing = np.fromiter((not row for row in values), bool, len(values))
        else:
            known = pa.array(self.names, values.type)
            place = pc.index_in(values, value_set=known, skip_nulls=True)
            found, missing = place.fill_null(other).to_numpy(), as_mask(values.is_null())
        return np.where(missing, other + 1, found).astype(np.int64)

    def state(self) -> dict[str, Any]:
        """The bins as JSON values."""
        return {"names": list(self.names), "kind": self.kind}


def frequent_words(rows: Bags) -> tuple[str, ...]:
    """The words of most rows, the most frequent first.

    Examples
    --------
    >>> frequent_words([["a", "b"], ["b"]])
    ('b', 'a')
    """
    return tuple(_ordered(Counter(word for row in rows for word in row))[:WORDS])


def count_words(rows: Bags, names: Sequence[str]) -> IntArray:
    """Number of rows with each of some words; a row has a word once.

    Examples
    --------
    >>> count_words([["a", "b"], ["b", "c"]], ["b", "a"]).tolist()
    [2, 1]
    """
    rank = {name: i for i, name in enumerate(names)}
    found = [rank[word] for row in rows for word in row if word in rank]
    return np.bincount(np.array(found, dtype=np.int64), minlength=len(names))


def fit_bins(values: Values, are_dates: bool = False) -> Bins:
    """Choose the bins of a column.

    Parameters
    ----------
    values : Values
        Rows of the training; see `linkdist.tables.column_values`.
    are_dates : bool
        Whether numbers are seconds since 1970.

    Examples
    --------
    >>> fit_bins(np.array([3.0, 3.0, 4.0])).labels
    ['below 3', '3', '3 to 4', 'above 4', 'missing']
    >>> fit_bins([["a", "b"], ["b"], ["b"]]).labels
    ['a', 'b', 'none of these', 'missing']
    """
    if isinstance(values, np.ndarray):
        return NumberBins(_edges(values[~np.isnan(values)]), are_dates)
    if isinstance(values, list):
        return word_bins(values)
    counts = Counter(values.drop_null().to_pylist())
    return ValueBins(tuple(_ordered(counts)[:NAMED]))


def _edges(numbers: Doubles) -> tuple[float, ...]:
    if not len(numbers):
        return ()
    # Quantiles that are numbers of the column, so that a frequent number is the end of its bin.
    shares = np.arange(1, PARTS + 1) / PARTS
    inner = set(np.quantile(numbers, shares, method="inverted_cdf").tolist())
    return (float(np.nextafter(numbers.min(), -np.inf)), *sorted(inner))


def _number(edge: float) -> str:
    return f"{edge:.4g}" if abs(edge) < 1000 else f"{edge:.7g}"


def _date(edge: float) -> str:
    seconds = int(np.clip(edge, -6e10, 2.5e11))  # years of four digits
    return str(np.datetime64(seconds, "s").astype("datetime64[D]"))


def word_bins(rows: Bags, first: Sequence[str] = ()) -> ValueBins:
    """Bins of words: those that are given, as far as there is room, and frequent ones.

    Examples
    --------
    >>> word_bins([["a", "b"], ["b", "c"]], ["c"]).names
    ('a', 'c', 'b')
    """
    counts = Counter(word for row in rows for word in row)
    ordered = _ordered(counts)
    rare = [word for word in ordered if counts[word] <= COMMON * len(rows)]
    common = [word for word in reversed(ordered) if counts[word] > COMMON * len(rows)]
    chosen = list(dict.fromkeys([*first, *rare, *common]))[:NAMED]
    # A row counts for its rarest word; otherwise a common one would take most rows.
    return ValueBins(tuple(sorted(chosen, key=lambda word: (counts[word], word))), "words")


def _ordered(counts: Counter[str]) -> list[str]:
    """Values that are not too long, the most frequent first; equal counts are sorted by name."""
    return sorted((v for v in counts if len(v) <= LONGEST), key=lambda v: (-counts[v], v))


def bins_from_state(state: Mapping[str, Any]) -> Bins:
    """Restore bins; raises a ValueError, TypeError or KeyError for an invalid state.

    Examples
    --------
    >>> bins_from_state(NumberBins((0.0, 1.0)).state())
    NumberBins(edges=(0.0, 1.0), are_dates=False)
    """
    if "edges" in state:
        edges = tuple(map(float, state["edges"]))
        if any(not low < high for low, high in pairwise(edges)) or not np.isfinite(edges).all():
            raise ValueError("the edges of bins must be increasing numbers")
        return NumberBins(edges, state.get("dates") is True)
    names, kind = tuple(state["names"]), state["kind"]
    if not all(type(name) is str for name in names) or kind not in ("values", "words"):
        raise ValueError("the bins of a column must be names of values or words")
    return ValueBins(names, kind)
