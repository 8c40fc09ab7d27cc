"""Encoders turn the columns of a node table into features; their state is plain JSON.

There are four kinds of columns, each with its own encoder::

    numeric      a number, date or Boolean          (x - mean) / deviation, 0 where missing
    categorical  one of a few values                one feature per value: 1 or 0
    text         words                              tf-idf of hashed words, scaled to length 1
    vector       a list of numbers                  each entry as a numeric column, 0 where missing

An encoder is fitted batch by batch with `partial_fit`; `transform` then encodes columns, in
training and in prediction alike. The state contains only numbers and names, so a model directory
contains no code.

Values that cannot be encoded are collected in `Problems`, with their column and row, and reported
in one error. Rows are counted from 1, without the header.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from linkdist.data.graph import FeatureMatrix, FloatArray
from linkdist.tables.schema import (
    Doubles,
    Mask,
    as_lists,
    as_mask,
    as_numbers,
    lengths_of,
    plain,
    text_of,
)
from linkdist.tables.standardise import Moments, parse_statistics, standardise
from linkdist.tables.validation import SHOWN, Problems, collect_problems

CATEGORIES = 1000
"""Maximum number of features of a categorical column, for its most frequent values."""

COUNTED = 100 * CATEGORIES
"""Maximum number of values that are counted at the same time; above it, rare ones are dropped."""

HASHED = 4096
"""Number of features of a text column; words are hashed into this range."""

FAR = float(np.finfo(np.float32).max)
"""A number with a larger absolute value counts as infinite."""

WORD = re.compile(r"\w+")


class Encoder(ABC):
    """Base class of the encoders of one column.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    name : str
        Name of the column.
    width : int
        Number of features.
    """

    kind: ClassVar[str]
    is_sparse: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features."""

    def partial_fit(
        self, column: pa.Array, first_row: int = 1, problems: Problems | None = None
    ) -> Self:
        """Fit the encoder to the next batch of the column.

        Parameters
        ----------
        column : (n,) Arrow array
            The next rows.
        first_row : int
            Row number of the first of them in the table, for messages.
        problems : Problems, optional
            Collects values that cannot be used; by default they raise a `TableError`.
        """
        with collect_problems(problems) as found:
            self.fit_parsed(self.parse_and_prepare(column, first_row, found))
        return self

    def transform(
        self, column: pa.Array, first_row: int = 1, problems: Problems | None = None
    ) -> FeatureMatrix:
        """Encode a batch as (n, width) features, dense or CSR; parameters as in `partial_fit`."""
        with collect_problems(problems) as found:
            features = self.transform_parsed(self.parse(plain(column), first_row, found))
        return features

    def parse_and_prepare(self, column: pa.Array, first_row: int, problems: Problems) -> Any:  # noqa: ANN401
        """Parse a column that the encoder is about to be fitted to."""
        return self.parse(plain(column), first_row, problems)

    @abstractmethod
    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> Any:  # noqa: ANN401
        """Convert a plain column to the form that this encoder computes with."""

    @abstractmethod
    def fit_parsed(self, values: Any) -> None:  # noqa: ANN401
        """Fit the encoder to parsed values."""

    @abstractmethod
    def transform_parsed(self, values: Any) -> FeatureMatrix:  # noqa: ANN401
        """Encode parsed values, which may be overwritten."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The fitted state as JSON values."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, Any]) -> Encoder:
        """Restore an encoder; raises a ValueError, TypeError or KeyError for an invalid state."""

    def _reject(
        self, rule: str, bad: Mask, column: pa.Array, first_row: int, problems: Problems
    ) -> None:
        rows = np.flatnonzero(bad)
        shown = column.take(pa.array(rows[:SHOWN]))
        problems.rows(f"column {self.name!r} must contain {rule}", rows + first_row, shown)

    def _parse_text(self, column: pa.Array, first_row: int, problems: Problems) -> pa.Array:
        """Values as text; lists and structs are a problem."""
        if not pa.types.is_nested(column.type):
            return text_of(column)
        present = as_mask(column.is_valid())
        self._reject("one value per row", present, column, first_row, problems)
        return pa.nulls(len(column), pa.large_string())


class Numeric(Encoder):
    """Standardises numbers.

    Attributes
    ----------
    mean, deviation : float
        Mean and standard deviation of the values that are not missing.

    Examples
    --------
    >>> age = Numeric("age").partial_fit(pa.array([1, 3, None]))
    >>> age.transform(pa.array([1, 3, None, 4])).ravel().tolist()
    [-1.0, 1.0, 0.0, 2.0]
    """

    kind = "numeric"

    def __init__(self, name: str, mean: float = 0.0, deviation: float = 0.0) -> None:
        super().__init__(name)
        self.mean, self.deviation = mean, deviation
        self._moments = Moments()

    @property
    def width(self) -> int:
        """One feature."""
        return 1

    def state(self) -> dict[str, Any]:
        """The fitted state as JSON values."""
        mean, deviation = self.mean, self.deviation
        return {"kind": self.kind, "name": self.name, "mean": mean, "deviation": deviation}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Numeric:
        """Restore an encoder."""
        mean, deviation = parse_statistics([state["mean"]], [state["deviation"]])
        return cls(state["name"], float(mean[0]), float(deviation[0]))

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> Doubles:
        """Numbers as an (n, 1) array, NaN where missing."""
        x, wrong = as_numbers(column)
        self._reject("numbers", wrong, column, first_row, problems)
        far = np.abs(x) > FAR
        self._reject("finite numbers", far, column, first_row, problems)
        return np.where(far, np.nan, x)[:, None]

    def fit_parsed(self, values: Doubles) -> None:
        """Update mean and deviation."""
        self._moments.add(values[~np.isnan(values[:, 0])])
        if self._moments.count:
            self.mean = float(self._moments.mean[0])
            self.deviation = float(self._moments.deviation[0])

    def transform_parsed(self, values: Doubles) -> FloatArray:
        """Standardise numbers, (n, 1)."""
        return standardise(values, np.array([self.mean]), np.array([self.deviation]))


class Categorical(Encoder):
    """One-hot encoding of the most frequent values.

    Attributes
    ----------
    categories : tuple of str
        The values that have a feature, the most frequent first; other values encode to zeros.

    Examples
    --------
    >>> field = Categorical("field").partial_fit(pa.array(["b", "a", "b", None]))
    >>> field.categories
    ('b', 'a')
    >>> field.transform(pa.array(["a", "c", None])).toarray().tolist()
    [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """

    kind = "categorical"
    is_sparse = True

    def __init__(self, name: str, categories: Sequence[str] = ()) -> None:
        super().__init__(name)
        self._categories: tuple[str, ...] | None = tuple(categories)
        self._counts: Counter[str] = Counter()

    @property
    def categories(self) -> tuple[str, ...]:
        """The values that have a feature, the most frequent first."""
        if self._categories is None:  # sorting after every batch would be slow
            self._categories = tuple(_most_frequent(self._counts, CATEGORIES))
        return self._categories

    @property
    def width(self) -> int:
        """One feature per category."""
        return len(self.categories)

    def state(self) -> dict[str, Any]:
        """The fitted state as JSON values."""
        return {"kind": self.kind, "name": self.name, "categories": list(self.categories)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Categorical:
        """Restore an encoder."""
        categories = pa.array(state["categories"], pa.large_string()).to_pylist()
        if None in categories or len(set(categories)) < len(categories):
            raise ValueError("categories must be different texts")
        return cls(state["name"], categories)

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> pa.Array:
        """Values as text."""
        return self._parse_text(column, first_row, problems)

    def fit_parsed(self, values: pa.Array) -> None:
        """Count the values."""
        for pair in pc.value_counts(values.drop_null()).to_pylist():
            self._counts[pair["values"]] += pair["counts"]
        if len(self._counts) > COUNTED:
            kept = _most_frequent(self._counts, COUNTED // 2)
            self._counts = Counter({value: self._counts[value] for value in kept})
        if self._counts:
            self._categories = None

    def transform_parsed(self, values: pa.Array) -> sparse.csr_matrix:
        """One-hot encode text values, (n, width)."""
        known = pa.array(self.categories, pa.large_string())
        place = pc.index_in(values, value_set=known, skip_nulls=True)
        ends = np.concatenate([[0], np.cumsum(as_mask(place.is_valid()))])
        ones = np.ones(ends[-1], dtype=np.float32)
        columns = place.drop_null().to_numpy()
        return sparse.csr_matrix((ones, columns, ends), shape=(len(values), self.width))


class Text(Encoder):
    """Tf-idf of lower-case words, which are hashed into a fixed number of features.

    The feature of a word is its CRC-32 modulo the width, which is the same on every machine. A word
    count is weighted by ln((1 + n) / (1 + f)) + 1, where f of the n rows contain the feature.

    Attributes
    ----------
    rows : int
        n, the number of rows.
    frequencies : (width,) int64 array
        f, the number of rows that contain each feature.

    Examples
    --------
    >>> title = Text("title").partial_fit(pa.array(["Graphs and links", "links"]))
    >>> title.transform(pa.array(["LINKS", ""])).sum(axis=1).tolist()
    [[1.0], [0.0]]
    """

    kind = "text"
    is_sparse = True

    def __init__(
        self, name: str, rows: int = 0, frequencies: Sequence[int] = (0,) * HASHED
    ) -> None:
        super().__init__(name)
        self.rows = rows
        self.frequencies = np.array(frequencies, dtype=np.int64)

    @property
    def width(self) -> int:
        """Number of features that words are hashed into."""
        return len(self.frequencies)

    def state(self) -> dict[str, Any]:
        """The fitted state as JSON values."""
        rows, frequencies = self.rows, self.frequencies.tolist()
        return {"kind": self.kind, "name": self.name, "rows": rows, "frequencies": frequencies}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Text:
        """Restore an encoder."""
        counts = np.asarray(state["frequencies"])
        if counts.ndim != 1 or not len(counts) or not np.issubdtype(counts.dtype, np.integer):
            raise ValueError("frequencies must be a list of whole numbers")
        if type(state["rows"]) is not int or not 0 <= counts.min() <= counts.max() <= state["rows"]:
            raise ValueError("frequencies must lie between 0 and the number of rows")
        return cls(state["name"], state["rows"], counts.tolist())

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> sparse.csr_matrix:
        """Counts of the hashed words, (n, width)."""
        columns: list[int] = []
        ends = [0]
        for text in self._parse_text(column, first_row, problems).to_pylist():
            words = WORD.findall(text.lower()) if text else ()
            columns.extend(crc32(word.encode()) % self.width for word in words)
            ends.append(len(columns))
        ones = np.ones(len(columns), dtype=np.float32)
        counts = sparse.csr_matrix((ones, columns, ends), shape=(len(column), self.width))
        counts.sum_duplicates()
        return counts

    def fit_parsed(self, values: sparse.csr_matrix) -> None:
        """Count the rows that contain each feature."""
        self.rows += values.shape[0]
        self.frequencies += np.bincount(values.indices, minlength=self.width)

    def transform_parsed(self, values: sparse.csr_matrix) -> sparse.csr_matrix:
        """Weight word counts in place and scale rows to length 1."""
        idf = np.log((1 + self.rows) / (1 + self.frequencies)) + 1
        weights = values.data * idf[values.indices]
        row = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
        length = np.sqrt(np.bincount(row, weights**2, minlength=values.shape[0]))
        values.data = (weights / length[row]).astype(np.float32)
        return values


class Vector(Encoder):
    """Standardises lists of numbers, entry by entry; an empty list counts as missing.

    The first list determines the length of all lists.

    Attributes
    ----------
    mean, deviation : (width,) float64 arrays
        Mean and standard deviation of each entry.

    Examples
    --------
    >>> place = Vector("place").partial_fit(pa.array([[0.0, 1.0], [4.0, 3.0], None]))
    >>> place.transform(pa.array([[4.0, 2.0], None])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """

    kind = "vector"

    def __init__(
        self, name: str, mean: Sequence[float] = (), deviation: Sequence[float] = ()
    ) -> None:
        super().__init__(name)
        self.mean = np.array(mean, dtype=np.float64)
        self.deviation = np.array(deviation, dtype=np.float64)
        self._moments = Moments()

    @property
    def width(self) -> int:
        """One feature per entry."""
        return len(self.mean)

    def state(self) -> dict[str, Any]:
        """The fitted state as JSON values."""
        mean, deviation = self.mean.tolist(), self.deviation.tolist()
        return {"kind": self.kind, "name": self.name, "mean": mean, "deviation": deviation}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Vector:
        """Restore an encoder."""
        mean, deviation = parse_statistics(state["mean"], state["deviation"])
        return cls(state["name"], mean.tolist(), deviation.tolist())

    def parse_and_prepare(self, column: pa.Array, first_row: int, problems: Problems) -> Doubles:
        """Parse a column, and take the length of all lists from the first one."""
        column = plain(column)
        lengths = lengths_of(as_lists(column)[0])
        if not self.width and lengths.any():
            self.mean = self.deviation = np.zeros(lengths[lengths > 0][0])
        return self.parse(column, first_row, problems)

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> Doubles:
        """Lists as an (n, width) array, NaN where missing."""
        lists, wrong = as_lists(column)
        self._reject("lists of numbers (CSV cannot store any)", wrong, column, first_row, problems)
        lengths = lengths_of(lists)
        x = np.full((len(lists), self.width), np.nan)
        if not self.width:
            return x
        fits = lengths == self.width
        rule = f"vectors of length {self.width}"
        self._reject(rule, (lengths > 0) & ~fits, column, first_row, problems)
        entries = lists.flatten().to_numpy(zero_copy_only=False)
        x[fits] = entries[np.repeat(fits, lengths)].reshape(-1, self.width)
        bad = np.flatnonzero(fits & ~(np.abs(x) <= FAR).all(axis=1))
        shown = [row[~(np.abs(row) <= FAR)][0].item() for row in x[bad[:SHOWN]]]
        rule = f"column {self.name!r} must contain vectors of finite numbers"
        problems.rows(rule, bad + first_row, shown)
        x[bad] = np.nan
        return x

    def fit_parsed(self, values: Doubles) -> None:
        """Update mean and deviation of each entry."""
        self._moments.add(values[~np.isnan(values).any(axis=1)])
        if self._moments.count:
            self.mean, self.deviation = self._moments.mean, self._moments.deviation

    def transform_parsed(self, values: Doubles) -> FloatArray:
        """Standardise lists, (n, width)."""
        if not values.shape[1]:  # parsed before the first list, so all are missing
            values = np.full((len(values), self.width), np.nan)
        return standardise(values, self.mean, self.deviation)


def _most_frequent(counts: Counter[str], most: int) -> list[str]:
    """The values with the highest counts; equal counts are sorted by name."""
    return sorted(counts, key=lambda value: (-counts[value], value))[:most]
