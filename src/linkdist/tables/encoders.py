"""Encoders turn the columns of a node table into features; their state is plain JSON.

Each kind of column has its own encoder::

    numeric      a number or a Boolean              (x - mean) / deviation, 0 where missing
    date         a date or timestamp                age, time of year, of the week and of the day
    vector       a list of numbers                  each entry as a numeric column, 0 where missing
    embedding    text, through a model of the user  its vectors, each entry as a numeric column
    categorical  one of a few values                one feature per value: 1 or 0
    text         words                              tf-idf of frequent words, scaled to length 1
    tags         a list of words                    tf-idf of tags (`tags:binary`: 1 or 0)

Categories and tags are encoded in `linkdist.tables.bag_encoders`, text in
`linkdist.tables.text_encoders`, embeddings in `linkdist.tables.embedding`, the others in this
module. An encoder is fitted batch by batch with `partial_fit`; `transform` then encodes columns, in
training and in prediction alike. The state contains only numbers, names, words and categories, so a
model directory contains no code.

Values that cannot be encoded are collected in `Problems`, with their column and row, and reported
in one error. A few numbers or dates that cannot be parsed count as missing; they are tallied there,
like missing and unseen values. Rows are counted from 1, without the header.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from linkdist.data.graph import FeatureMatrix, FloatArray
from linkdist.tables.parsing import (
    DATE_FORMATS,
    Doubles,
    Mask,
    as_lists,
    as_mask,
    as_numbers,
    as_seconds,
    find_decimal,
    is_text,
    lengths_of,
    plain,
    suitable_formats,
    text_of,
)
from linkdist.tables.standardise import Moments, parse_statistics, standardise
from linkdist.tables.validation import SHOWN, Problems, collect_problems

FAR = float(np.finfo(np.float32).max)
"""A number with a larger absolute value counts as infinite."""

TOLERATED = 0.1
"""If at most this share of the values so far cannot be parsed, they count as missing."""

MAY = datetime(2004, 5, 31, tzinfo=UTC)
"""The example of a date in messages: day and month cannot be confused."""

PERIODS = (365.2425 * 86400.0, 7 * 86400.0, 86400.0)
"""Seconds in a year, a week and a day."""

DIGITS = 9
"""Points on the circles of the year, the week and the day have this number of digits."""


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

    def prepare(self, sample: pa.Array) -> Self:
        """Infer how values are written from the first rows, before the encoder is fitted."""
        return self

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
            values = self.parse(plain(column), first_row, found)
            self.count_unseen(values, found)
            features = self.transform_parsed(values)
        return features

    def example(self) -> Any:  # noqa: ANN401
        """A value of the column as JSON, for documentation."""
        return "some words"

    def count_unseen(self, values: Any, problems: Problems) -> None:  # noqa: ANN401, B027
        """Tally parsed values that training did not see; numbers have none."""

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

    def _count(self, missing: int, rows: int, problems: Problems) -> None:
        problems.tallies[self.name].add(rows, missing)

    def _drop_or_reject(
        self, rule: str, wrong: Mask, column: pa.Array, first_row: int, problems: Problems
    ) -> None:
        """Tally values that cannot be parsed or, if they are many, report a problem."""
        count, tally = int(wrong.sum()), problems.tallies[self.name]
        if tally.unsuitable + count > TOLERATED * (tally.rows - tally.missing):
            self._reject(rule, wrong, column, first_row, problems)
        elif count:
            examples = column.take(pa.array(np.flatnonzero(wrong)[:SHOWN]))
            problems.tallies[self.name].add(0, 0, unsuitable=count, examples=examples)

    def _parse_text(self, column: pa.Array, first_row: int, problems: Problems) -> pa.Array:
        """Values as text; lists and structs are a problem."""
        if not pa.types.is_nested(column.type):
            text = text_of(column)
            self._count(text.null_count, len(text), problems)
            return text
        present = as_mask(column.is_valid())
        self._reject("one value per row", present, column, first_row, problems)
        return pa.nulls(len(column), pa.large_string())


class Numeric(Encoder):
    """Standardises numbers.

    Attributes
    ----------
    mean, deviation : float
        Mean and standard deviation of the values that are not missing.
    decimal : {'.', ','}
        The decimal separator in text.

    Examples
    --------
    >>> age = Numeric("age").partial_fit(pa.array([1, 3, None]))
    >>> age.transform(pa.array([1, 3, None, 4])).ravel().tolist()
    [-1.0, 1.0, 0.0, 2.0]
    """

    kind = "numeric"

    def __init__(
        self, name: str, mean: float = 0.0, deviation: float = 0.0, decimal: str = "."
    ) -> None:
        super().__init__(name)
        self.mean, self.deviation, self.decimal = mean, deviation, decimal
        self._moments = Moments()

    @property
    def width(self) -> int:
        """One feature."""
        return 1

    def state(self) -> dict[str, Any]:
        """The fitted state as JSON values."""
        state = {"kind": self.kind, "name": self.name, "mean": self.mean}
        state["deviation"] = self.deviation
        return state if self.decimal == "." else {**state, "decimal": self.decimal}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Numeric:
        """Restore an encoder."""
        mean, deviation = parse_statistics([state["mean"]], [state["deviation"]])
        decimal = state.get("decimal", ".")
        if decimal not in (".", ","):
            raise ValueError("the decimal separator must be a point or a comma")
        return cls(state["name"], float(mean[0]), float(deviation[0]), decimal)

    def example(self) -> float:
        """The mean."""
        return float(f"{self.mean:.4g}")

    def prepare(self, sample: pa.Array) -> Self:
        """Find the decimal separator."""
        sample = plain(sample)
        self.decimal = find_decimal(sample) if is_text(sample.type) else "."
        return self

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> Doubles:
        """Numbers as an (n, 1) array, NaN where missing."""
        x, wrong = as_numbers(column, self.decimal)
        far = np.abs(x) > FAR
        self._count(int((np.isnan(x) & ~wrong).sum()), len(x), problems)
        self._drop_or_reject("numbers", wrong, column, first_row, problems)
        self._drop_or_reject("finite numbers", far, column, first_row, problems)
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


class Standardised(Encoder):
    """Base class of encoders that standardise several features of a value.

    Attributes
    ----------
    mean, deviation : (width,) float64 arrays
        Mean and standard deviation of each feature.
    """

    def __init__(
        self, name: str, mean: Sequence[float] = (), deviation: Sequence[float] = ()
    ) -> None:
        super().__init__(name)
        self.mean = np.array(mean, dtype=np.float64)
        self.deviation = np.array(deviation, dtype=np.float64)
        self._moments = Moments()

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.mean)

    def state(self) -> dict[str, Any]:
        """The fitted state as JSON values."""
        mean, deviation = self.mean.tolist(), self.deviation.tolist()
        return {"kind": self.kind, "name": self.name, "mean": mean, "deviation": deviation}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restore an encoder."""
        mean, deviation = parse_statistics(state["mean"], state["deviation"])
        return cls(state["name"], mean.tolist(), deviation.tolist())

    def fit_parsed(self, values: Doubles) -> None:
        """Update mean and deviation of each feature."""
        known = ~np.isnan(values).any(axis=1)
        self._moments.add(values if known.all() else values[known])
        if self._moments.count:
            self.mean, self.deviation = self._moments.mean, self._moments.deviation

    def transform_parsed(self, values: Doubles) -> FloatArray:
        """Standardise the features, (n, width)."""
        if values.shape[1] != self.width:  # parsed before the first value, so all are missing
            values = np.full((len(values), self.width), np.nan)
        return standardise(values, self.mean, self.deviation)


class Date(Standardised):
    """Age, and the time of the year, of the week and of the day, as points on circles.

    Attributes
    ----------
    format : str
        How dates are written in text; ISO dates may be mixed with it.

    Examples
    --------
    >>> day = Date("day").prepare(pa.array(["05/31/2004"]))
    >>> day.format
    '%m/%d/%Y'
    >>> x = day.partial_fit(pa.array(["05/31/2004", "06/02/2004"])).transform(pa.array([None]))
    >>> x.shape
    (1, 7)
    """

    kind = "date"
    format = "ISO"

    def __init__(
        self,
        name: str,
        mean: Sequence[float] = (0.0,) * (1 + 2 * len(PERIODS)),
        deviation: Sequence[float] = (0.0,) * (1 + 2 * len(PERIODS)),
    ) -> None:
        super().__init__(name, mean, deviation)

    def state(self) -> dict[str, Any]:
        """The fitted state as JSON values."""
        return {**super().state(), "format": self.format}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restore an encoder."""
        date = super().from_state(state)
        if state["format"] not in DATE_FORMATS or date.width != 1 + 2 * len(PERIODS):
            raise ValueError("the format of dates is unknown")
        date.format = state["format"]
        return date

    def example(self) -> str:
        """The mean, in the format of the column."""
        try:
            return self._spelled(datetime.fromtimestamp(self.mean[0], UTC))
        except (ValueError, OverflowError, OSError):  # a date that Python cannot represent
            return self._spelled(MAY)

    def _spelled(self, moment: datetime) -> str:
        return moment.strftime("%Y-%m-%d" if self.format == "ISO" else self.format)

    def prepare(self, sample: pa.Array) -> Self:
        """Find the format of dates in text."""
        sample = plain(sample)
        if is_text(sample.type):
            self.format = next(iter(suitable_formats(sample, 1 - TOLERATED)), "ISO")
        return self

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> Doubles:
        """Features of each date, (n, 7), NaN where missing."""
        seconds, wrong = as_seconds(column, self.format)
        if self.format != "ISO" and wrong.any():  # ISO dates cannot be mistaken for others
            iso, wrong_iso = as_seconds(column, "ISO")
            seconds, wrong = np.where(wrong, iso, seconds), wrong & wrong_iso
        self._count(int((np.isnan(seconds) & ~wrong).sum()), len(seconds), problems)
        rule = f"dates such as {self._spelled(MAY)}"
        self._drop_or_reject(rule, wrong, column, first_row, problems)
        # Equal points must be equal numbers: what differs by rounding would be standardised, too.
        angles = [2 * np.pi * (seconds % period) / period for period in PERIODS]
        circles = [wave(angle).round(DIGITS) for angle in angles for wave in (np.sin, np.cos)]
        return np.stack([seconds, *circles], axis=1)


class Vector(Standardised):
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

    def example(self) -> list[float]:
        """A vector of zeros."""
        return [0.0] * self.width

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
        self._count(int((lengths_of(lists) == 0).sum()), len(lists), problems)
        self._reject("lists of numbers (CSV cannot store any)", wrong, column, first_row, problems)
        lengths = lengths_of(lists)
        if not self.width:
            return np.empty((len(lists), 0))
        fits = lengths == self.width
        rule = f"vectors of length {self.width}"
        self._reject(rule, (lengths > 0) & ~fits, column, first_row, problems)
        entries = lists.flatten().to_numpy(zero_copy_only=False)
        x: Doubles
        if fits.all():
            x = entries.reshape(-1, self.width)
        else:
            x = np.full((len(lists), self.width), np.nan)
            x[fits] = entries[np.repeat(fits, lengths)].reshape(-1, self.width)
        bad = np.flatnonzero(fits & ~(np.abs(x) <= FAR).all(axis=1))
        shown = [row[~(np.abs(row) <= FAR)][0].item() for row in x[bad[:SHOWN]]]
        rule = f"column {self.name!r} must contain vectors of finite numbers"
        problems.rows(rule, bad + first_row, shown)
        if len(bad):
            x = x.copy()  # the table may be in read-only memory
            x[bad] = np.nan
        return x
