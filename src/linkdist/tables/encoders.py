"""Columns of a node table become features; what that takes is kept as JSON.

A column is of one of four kinds, and a kind has its encoder::

    numeric      a number, a date, a truth value    (x - mean) / deviation, 0 where missing
    categorical  one value of a few                 a feature a value: 1 where it is, else 0
    text         words                              hashed words by tf-idf, of length 1
    vector       a list of numbers                  each entry as a numeric column, 0 where missing

An encoder sees its column batch by batch, settles, and encodes from then on, in training and in
prediction alike. Its state is numbers and names only, so that a model's directory holds no code.

What cannot be encoded is gathered in `Problems`, with column, row and value, and raised as one
error. Rows count from 1, the table's header aside.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from linkdist.data.graph import FeatureMatrix, FloatArray
from linkdist.errors import ModelError, check_names
from linkdist.tables.schema import (
    KINDS,
    Doubles,
    Mask,
    as_lists,
    as_mask,
    as_numbers,
    lengths_of,
    plain,
    text_of,
)
from linkdist.tables.validation import SHOWN, Problems, gathered

CATEGORIES = 1000
"""How many values of a categorical column get a feature: the most frequent."""

COUNTED = 100 * CATEGORIES
"""How many values are counted at once; beyond, the rarer half is forgotten."""

HASHED = 4096
"""How many features the words of a text column are hashed into."""

FAR = float(np.finfo(np.float32).max)
"""A number farther from 0 counts as infinite."""

LIMIT = 1e6
"""A number that lies more deviations from the mean counts as so many."""

WORD = re.compile(r"\w+")


class Encoder(ABC):
    """One column's way to features.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    name : str
        The column's.
    width : int
        How many features it gives; known once settled.
    """

    kind: ClassVar[str]
    is_sparse: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features."""

    def see(self, column: pa.Array, first_row: int = 1, problems: Problems | None = None) -> None:
        """Learn from a batch of the column.

        Parameters
        ----------
        column : (n,) Arrow array
            The next rows.
        first_row : int
            The number of the first of them in the table, for messages.
        problems : Problems, optional
            Where to note what cannot be used; by default it is raised.
        """
        with gathered(problems) as found:
            self._learn(self._read(plain(column), first_row, found))

    def settle(self) -> None:  # noqa: B027 - a kind that has nothing to settle needs none
        """Make ready to encode, after the last batch."""

    def encode(
        self, column: pa.Array, first_row: int = 1, problems: Problems | None = None
    ) -> FeatureMatrix:
        """The (n, width) features of a batch, dense or CSR; parameters as in `see`."""
        with gathered(problems) as found:
            features = self._encode(self._read(plain(column), first_row, found))
        return features

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What `restore` needs, as plain JSON."""

    @classmethod
    @abstractmethod
    def restore(cls, state: Mapping[str, Any]) -> Encoder:
        """An encoder from its state; a ValueError, TypeError or KeyError if it is none."""

    @abstractmethod
    def _read(self, column: pa.Array, first_row: int, problems: Problems) -> Any:  # noqa: ANN401
        """The column in the form that this kind works on; what does not fit is missing."""

    @abstractmethod
    def _learn(self, values: Any) -> None: ...  # noqa: ANN401

    @abstractmethod
    def _encode(self, values: Any) -> FeatureMatrix: ...  # noqa: ANN401

    def _refuse(
        self, rule: str, bad: Mask, column: pa.Array, first_row: int, problems: Problems
    ) -> None:
        rows = np.flatnonzero(bad)
        shown = column.take(pa.array(rows[:SHOWN]))
        problems.rows(f"column {self.name!r} must hold {rule}", rows + first_row, shown)


class Numeric(Encoder):
    """Numbers, standardised.

    Attributes
    ----------
    mean, deviation : float
        Of the values that are there.

    Examples
    --------
    >>> age = Numeric("age")
    >>> age.see(pa.array([1, 3, None]))
    >>> age.settle()
    >>> age.encode(pa.array([1, 3, None, 4])).ravel().tolist()
    [-1.0, 1.0, 0.0, 2.0]
    """

    kind = "numeric"

    def __init__(self, name: str, mean: float = 0.0, deviation: float = 0.0) -> None:
        super().__init__(name)
        self.mean, self.deviation = mean, deviation
        self._moments = _Moments()

    @property
    def width(self) -> int:
        """One feature."""
        return 1

    def settle(self) -> None:
        """Make ready to encode, after the last batch."""
        if self._moments.count:
            self.mean = float(self._moments.mean[0])
            self.deviation = float(self._moments.deviation[0])

    def state(self) -> dict[str, Any]:
        """Name, mean and deviation."""
        return {
            "kind": self.kind,
            "name": self.name,
            "mean": self.mean,
            "deviation": self.deviation,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Numeric:
        """An encoder from its state."""
        mean, deviation = _statistics([state["mean"]], [state["deviation"]])
        return cls(state["name"], float(mean[0]), float(deviation[0]))

    def _read(self, column: pa.Array, first_row: int, problems: Problems) -> Doubles:
        x, wrong = as_numbers(column)
        self._refuse("numbers", wrong, column, first_row, problems)
        far = np.abs(x) > FAR
        self._refuse("finite numbers", far, column, first_row, problems)
        return np.where(far, np.nan, x)[:, None]  # (n, 1)

    def _learn(self, values: Doubles) -> None:
        self._moments.add(values[~np.isnan(values[:, 0])])

    def _encode(self, values: Doubles) -> FloatArray:
        return standardised(values, np.array([self.mean]), np.array([self.deviation]))


class Categorical(Encoder):
    """One-hot over the values seen, the most frequent first.

    Attributes
    ----------
    categories : tuple of str
        The values that have a feature, as text; all others encode to zeros.

    Examples
    --------
    >>> field = Categorical("field")
    >>> field.see(pa.array(["b", "a", "b", None]))
    >>> field.settle()
    >>> field.categories
    ('b', 'a')
    >>> field.encode(pa.array(["a", "c", None])).toarray().tolist()
    [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """

    kind = "categorical"
    is_sparse = True

    def __init__(self, name: str, categories: Sequence[str] = ()) -> None:
        super().__init__(name)
        self.categories = tuple(categories)
        self._counts: Counter[str] = Counter()

    @property
    def width(self) -> int:
        """A feature a category."""
        return len(self.categories)

    def settle(self) -> None:
        """Make ready to encode, after the last batch."""
        if self._counts:
            self.categories = tuple(_most_frequent(self._counts, CATEGORIES))
            self._counts.clear()

    def state(self) -> dict[str, Any]:
        """Name and categories."""
        return {"kind": self.kind, "name": self.name, "categories": list(self.categories)}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Categorical:
        """An encoder from its state."""
        categories = pa.array(state["categories"], pa.large_string()).to_pylist()
        if None in categories or len(set(categories)) < len(categories):
            raise ValueError("categories must be text, each once")
        return cls(state["name"], categories)

    def _read(self, column: pa.Array, first_row: int, problems: Problems) -> pa.Array:
        return _single(self, column, first_row, problems)

    def _learn(self, values: pa.Array) -> None:
        for pair in pc.value_counts(values.drop_null()).to_pylist():
            self._counts[pair["values"]] += pair["counts"]
        if len(self._counts) > COUNTED:
            kept = _most_frequent(self._counts, COUNTED // 2)
            self._counts = Counter({value: self._counts[value] for value in kept})

    def _encode(self, values: pa.Array) -> sparse.csr_matrix:
        known = pa.array(self.categories, pa.large_string())
        place = pc.index_in(values, value_set=known, skip_nulls=True)
        ends = np.concatenate([[0], np.cumsum(as_mask(place.is_valid()))])
        ones = np.ones(ends[-1], dtype=np.float32)
        columns = place.drop_null().to_numpy()
        return sparse.csr_matrix((ones, columns, ends), shape=(len(values), self.width))


class Text(Encoder):
    """Words, lower-cased and hashed, weighted by tf-idf.

    A word's column is its CRC-32 modulo the width, on any machine the same. With f the number of
    rows that hold a column's words, of n in all, a count weighs ln((1 + n) / (1 + f)) + 1.

    Attributes
    ----------
    rows : int
        n.
    frequencies : (width,) int64 array
        f.

    Examples
    --------
    >>> title = Text("title")
    >>> title.see(pa.array(["Graphs and links", "links"]))
    >>> title.encode(pa.array(["LINKS", ""])).sum(axis=1).tolist()
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
        """As many features as words are hashed into."""
        return len(self.frequencies)

    def state(self) -> dict[str, Any]:
        """Name and the rows counted."""
        frequencies = self.frequencies.tolist()
        return {
            "kind": self.kind,
            "name": self.name,
            "rows": self.rows,
            "frequencies": frequencies,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Text:
        """An encoder from its state."""
        counts = np.asarray(state["frequencies"])
        if counts.ndim != 1 or not len(counts) or not np.issubdtype(counts.dtype, np.integer):
            raise ValueError("frequencies must be a list of whole numbers")
        if type(state["rows"]) is not int or not 0 <= counts.min() <= counts.max() <= state["rows"]:
            raise ValueError("frequencies must lie between 0 and the number of rows")
        return cls(state["name"], state["rows"], counts.tolist())

    def _read(self, column: pa.Array, first_row: int, problems: Problems) -> sparse.csr_matrix:
        columns: list[int] = []
        ends = [0]
        for text in _single(self, column, first_row, problems).to_pylist():
            words = WORD.findall(text.lower()) if text else ()
            columns.extend(crc32(word.encode()) % self.width for word in words)
            ends.append(len(columns))
        ones = np.ones(len(columns), dtype=np.float32)
        counts = sparse.csr_matrix((ones, columns, ends), shape=(len(column), self.width))
        counts.sum_duplicates()
        return counts

    def _learn(self, values: sparse.csr_matrix) -> None:
        self.rows += values.shape[0]
        self.frequencies += np.bincount(values.indices, minlength=self.width)

    def _encode(self, values: sparse.csr_matrix) -> sparse.csr_matrix:
        idf = np.log((1 + self.rows) / (1 + self.frequencies)) + 1
        weights = values.data * idf[values.indices]
        row = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
        length = np.sqrt(np.bincount(row, weights**2, minlength=values.shape[0]))
        values.data = (weights / length[row]).astype(np.float32)
        return values


class Vector(Encoder):
    """Lists of numbers of one length, each entry standardised; an empty list is a missing one.

    Attributes
    ----------
    mean, deviation : (width,) float64 arrays
        Of each entry.

    Examples
    --------
    >>> place = Vector("place")
    >>> place.see(pa.array([[0.0, 1.0], [4.0, 3.0], None]))
    >>> place.settle()
    >>> place.encode(pa.array([[4.0, 2.0], None])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """

    kind = "vector"

    def __init__(
        self, name: str, mean: Sequence[float] = (), deviation: Sequence[float] = ()
    ) -> None:
        super().__init__(name)
        self.mean = np.array(mean, dtype=np.float64)
        self.deviation = np.array(deviation, dtype=np.float64)
        self._moments = _Moments()

    @property
    def width(self) -> int:
        """A feature an entry."""
        return len(self.mean)

    def see(self, column: pa.Array, first_row: int = 1, problems: Problems | None = None) -> None:
        """Learn from a batch of the column; the first vector says how long all are."""
        lengths = lengths_of(as_lists(plain(column))[0])
        if not self.width and lengths.any():
            self.mean = self.deviation = np.zeros(lengths[lengths > 0][0])
        super().see(column, first_row, problems)

    def settle(self) -> None:
        """Make ready to encode, after the last batch."""
        if self._moments.count:
            self.mean, self.deviation = self._moments.mean, self._moments.deviation

    def state(self) -> dict[str, Any]:
        """Name, means and deviations."""
        mean, deviation = self.mean.tolist(), self.deviation.tolist()
        return {"kind": self.kind, "name": self.name, "mean": mean, "deviation": deviation}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Vector:
        """An encoder from its state."""
        mean, deviation = _statistics(state["mean"], state["deviation"])
        return cls(state["name"], mean.tolist(), deviation.tolist())

    def _read(self, column: pa.Array, first_row: int, problems: Problems) -> Doubles:
        lists, wrong = as_lists(column)
        self._refuse("lists of numbers (CSV holds none)", wrong, column, first_row, problems)
        lengths = lengths_of(lists)
        x = np.full((len(lists), self.width), np.nan)
        if not self.width:
            return x
        fits = lengths == self.width
        rule = f"vectors of length {self.width}"
        self._refuse(rule, (lengths > 0) & ~fits, column, first_row, problems)
        entries = lists.flatten().to_numpy(zero_copy_only=False)
        x[fits] = entries[np.repeat(fits, lengths)].reshape(-1, self.width)
        bad = np.flatnonzero(fits & ~(np.abs(x) <= FAR).all(axis=1))
        shown = [row[~(np.abs(row) <= FAR)][0].item() for row in x[bad[:SHOWN]]]
        rule = f"column {self.name!r} must hold vectors of finite numbers"
        problems.rows(rule, bad + first_row, shown)
        x[bad] = np.nan
        return x

    def _learn(self, values: Doubles) -> None:
        self._moments.add(values[~np.isnan(values).any(axis=1)])

    def _encode(self, values: Doubles) -> FloatArray:
        return standardised(values, self.mean, self.deviation)


CLASSES: dict[str, type[Encoder]] = {
    encoder.kind: encoder for encoder in (Numeric, Categorical, Text, Vector)
}


class Encoders:
    """The encoders of a table's columns; their features stand side by side in this order.

    Parameters
    ----------
    columns : sequence of Encoder
        Of different names.

    Examples
    --------
    >>> encoders = make_encoders({"age": "numeric", "field": "categorical"})
    >>> batch = pa.record_batch({"age": [1, 3], "field": ["a", "b"]})
    >>> encoders.see(batch)
    >>> encoders.settle()
    >>> encoders.encode(batch).toarray().tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    def __init__(self, columns: Sequence[Encoder]) -> None:
        self.columns = tuple(columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @property
    def d(self) -> int:
        """Number of features of a node."""
        return sum(column.width for column in self.columns)

    def see(
        self, batch: pa.RecordBatch, first_row: int = 1, problems: Problems | None = None
    ) -> None:
        """Learn from a batch; see `Encoder.see`."""
        with gathered(problems) as found:
            for encoder, column in self._columns(batch, found):
                encoder.see(column, first_row, found)

    def settle(self) -> None:
        """Make ready to encode, after the last batch."""
        for column in self.columns:
            column.settle()

    def encode(
        self, batch: pa.RecordBatch, first_row: int = 1, problems: Problems | None = None
    ) -> FeatureMatrix:
        """The features of a batch.

        Parameters
        ----------
        batch : RecordBatch of n rows
            With all columns of `names`, in any order.
        first_row : int
            The number of its first row in the table, for messages.
        problems : Problems, optional
            Where to note what cannot be encoded; by default it is raised.

        Returns
        -------
        (n, d) float32 array or CSR matrix
            Dense where all columns are numeric or vectors.

        Raises
        ------
        TableError
            With every column that is missing and the values that do not fit.
        """
        with gathered(problems) as found:
            pairs = self._columns(batch, found)
            blocks = [encoder.encode(column, first_row, found) for encoder, column in pairs]
        return self.side_by_side(blocks, batch.num_rows)

    def side_by_side(self, blocks: Sequence[FeatureMatrix], n: int) -> FeatureMatrix:
        """The features of n rows from those of columns, or of groups of columns, in their order."""
        if any(column.is_sparse for column in self.columns):
            parts = [sparse.csr_matrix(block) for block in blocks]
            empty = sparse.csr_matrix((n, 0), dtype=np.float32)
            return sparse.hstack([empty, *parts], format="csr", dtype=np.float32)
        return np.concatenate([np.empty((n, 0), dtype=np.float32), *blocks], axis=1)

    def state(self) -> list[dict[str, Any]]:
        """What `from_state` needs, as plain JSON."""
        return [column.state() for column in self.columns]

    @classmethod
    def from_state(cls, state: Any) -> Encoders:  # noqa: ANN401
        """Encoders from their state, as JSON gives it back.

        Raises
        ------
        ModelError
            If it is no such state.

        Examples
        --------
        >>> saved = make_encoders({"age": "numeric"}).state()
        >>> Encoders.from_state(saved).names
        ('age',)
        """
        try:
            columns = [CLASSES[column["kind"]].restore(column) for column in state]
            names = [column.name for column in columns]
            if not all(type(name) is str for name in names) or len(set(names)) < len(names):
                raise ValueError("columns must have names, each its own")
        except (KeyError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            found = f"{type(error).__name__}: {error}"
            advice = "Take the model from its source again."
            raise ModelError(f"the state of the columns is damaged ({found}). {advice}") from error
        return cls(columns)

    def _columns(self, batch: pa.RecordBatch, problems: Problems) -> list[tuple[Encoder, pa.Array]]:
        problems.names("column", self.names, batch.schema.names)
        known = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
        return [(column, known[column.name]) for column in self.columns if column.name in known]


def make_encoders(kinds: Mapping[str, str]) -> Encoders:
    """Encoders that have seen nothing yet.

    Parameters
    ----------
    kinds : mapping of str to str
        A kind of `KINDS` for each column, in the features' order.

    Examples
    --------
    >>> make_encoders({"age": "number"})
    Traceback (most recent call last):
    linkdist.errors.OptionError: unknown kind of column 'number' (near: numeric); known are \
numeric, categorical, text, vector.
    """
    check_names("kind of column", dict.fromkeys(kinds.values()), KINDS)
    return Encoders([CLASSES[kind](name) for name, kind in kinds.items()])


class _Moments:
    """Mean and deviation of rows that come in batches, merged as Chan et al. do.

    Numbers are taken relative to the first row, which makes a constant's deviation exactly 0.
    """

    def __init__(self) -> None:
        self.count = 0

    def add(self, x: Doubles) -> None:
        """Take in the rows of x, (k, width)."""
        if not x.size:
            return
        if not self.count:
            self._first, self._mean, self._squares = (
                x[0],
                np.zeros(x.shape[1]),
                np.zeros(x.shape[1]),
            )
        x = x - self._first
        mean = x.mean(axis=0)
        total, apart = self.count + len(x), mean - self._mean
        self._squares += ((x - mean) ** 2).sum(axis=0) + apart**2 * self.count * len(x) / total
        self._mean += apart * len(x) / total
        self.count = total

    @property
    def mean(self) -> Doubles:
        mean: Doubles = self._first + self._mean
        return mean

    @property
    def deviation(self) -> Doubles:
        deviation: Doubles = np.sqrt(self._squares / self.count)
        return deviation


def standardised(x: Doubles, mean: Doubles, deviation: Doubles) -> FloatArray:
    """(x - mean) / deviation: 0 where x is missing or the column constant, never infinite."""
    with np.errstate(over="ignore"):
        z = np.divide(x - mean, deviation, out=np.zeros_like(x), where=deviation > 0)
    features: FloatArray = np.clip(np.nan_to_num(z), -LIMIT, LIMIT).astype(np.float32)
    return features


def _statistics(mean: Any, deviation: Any) -> tuple[Doubles, Doubles]:  # noqa: ANN401
    """Means and deviations out of JSON, or a ValueError."""
    both = np.array([mean, deviation], dtype=np.float64)
    if both.ndim != 2 or not np.isfinite(both).all() or (both[1] < 0).any():
        raise ValueError("mean and deviation must be finite numbers")
    return both[0], both[1]


def _most_frequent(counts: Counter[str], most: int) -> list[str]:
    """The values with the highest counts, those of one count by name."""
    return sorted(counts, key=lambda value: (-counts[value], value))[:most]


def _single(encoder: Encoder, column: pa.Array, first_row: int, problems: Problems) -> pa.Array:
    """A column's single values as text; lists and structs are a problem."""
    if not pa.types.is_nested(column.type):
        return text_of(column)
    there = as_mask(column.is_valid())
    encoder._refuse("one value a row", there, column, first_row, problems)
    return pa.nulls(len(column), pa.large_string())
