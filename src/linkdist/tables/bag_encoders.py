"""Encoders of words: categories, text and tags become sparse features."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.data import sparse
from linkdist.tables.encoders import Encoder
from linkdist.tables.parsing import (
    SEPARATORS,
    as_mask,
    as_tags,
    find_separator,
    is_list,
    is_text,
    plain,
)
from linkdist.tables.validation import Problems

CATEGORIES = 1000
"""Maximum number of features of a categorical column, for its most frequent values."""

TAGS = 4096
"""Maximum number of features of a column of tags, for its most frequent tags."""

COUNTED = 100 * CATEGORIES
"""Maximum number of values that are counted at the same time; above it, rare ones are dropped."""

HASHED = 4096
"""Number of features of a text column; words are hashed into this range."""

WORD = re.compile(r"\w+")


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

    def example(self) -> str:
        """The most frequent value."""
        return next(iter(self.categories), "a")

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> pa.Array:
        """Values as text."""
        return self._parse_text(column, first_row, problems)

    def fit_parsed(self, values: pa.Array) -> None:
        """Count the values."""
        for pair in pc.value_counts(values.drop_null()).to_pylist():
            self._counts[pair["values"]] += pair["counts"]
        self._counts = _limited(self._counts)
        if self._counts:
            self._categories = None

    def count_unseen(self, values: pa.Array, problems: Problems) -> None:
        """Tally values without a feature."""
        known = pc.is_in(values, value_set=pa.array(self.categories, pa.large_string()))
        new = values.filter(pc.invert(known)).drop_null()
        problems.tallies[self.name].add(0, 0, unseen=len(new), examples=new.unique())

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
        return _tf_idf(values, self.rows, self.frequencies)


class Tags(Encoder):
    """Tf-idf of the most frequent tags, scaled to length 1.

    Attributes
    ----------
    rows : int
        n, the number of rows.
    frequencies : dict of str to int
        f, the number of rows that contain each tag, the most frequent first.
    separator : str or None
        What separates tags in text; None for blanks.

    Examples
    --------
    >>> rows = pa.array(["war|drama", "war"])
    >>> genre = Tags("genre").prepare(rows).partial_fit(rows)
    >>> genre.transform(pa.array(["war", "pop"])).toarray().tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """

    kind = "tags"
    is_sparse = True

    def __init__(
        self,
        name: str,
        rows: int = 0,
        frequencies: Mapping[str, int] | None = None,
        separator: str | None = None,
    ) -> None:
        super().__init__(name)
        self.rows, self.separator = rows, separator
        self._counts = Counter(frequencies or {})
        self._frequencies: dict[str, int] | None = dict(frequencies or {})

    @property
    def frequencies(self) -> dict[str, int]:
        """The number of rows that contain each tag, the most frequent first."""
        if self._frequencies is None:  # sorting after every batch would be slow
            kept = _most_frequent(self._counts, TAGS)
            self._frequencies = {tag: self._counts[tag] for tag in kept}
        return self._frequencies

    @property
    def width(self) -> int:
        """One feature per tag."""
        return len(self.frequencies)

    def state(self) -> dict[str, Any]:
        """The fitted state as JSON values."""
        found = {"rows": self.rows, "frequencies": self.frequencies, "separator": self.separator}
        return {"kind": self.kind, "name": self.name, **found}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Tags:
        """Restore an encoder."""
        counts, rows = dict(state["frequencies"]), state["rows"]
        if not all(type(count) is int for count in (*counts.values(), rows)):
            raise TypeError("frequencies must be whole numbers")
        if not all(0 <= count <= rows for count in counts.values()):
            raise ValueError("frequencies must lie between 0 and the number of rows")
        if state["separator"] not in (None, *SEPARATORS):
            raise ValueError("the separator of tags is unknown")
        return cls(state["name"], rows, counts, state["separator"])

    def example(self) -> list[str]:
        """The most frequent tags."""
        return list(self.frequencies)[:2]

    def prepare(self, sample: pa.Array) -> Self:
        """Find the separator of tags in text."""
        sample = plain(sample)
        self.separator = find_separator(sample) if is_text(sample.type) else None
        return self

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> list[list[str]]:
        """The tags of each row."""
        if not (is_list(column.type) or is_text(column.type) or column.null_count == len(column)):
            present = as_mask(column.is_valid())
            self._reject("lists or separated text", present, column, first_row, problems)
            return [[]] * len(column)
        tags = as_tags(column, self.separator)
        self._count(sum(not row for row in tags), len(tags), problems)
        return tags

    def fit_parsed(self, values: list[list[str]]) -> None:
        """Count the rows that contain each tag."""
        self.rows += len(values)
        self._counts.update(tag for row in values for tag in row)
        self._counts = _limited(self._counts)
        self._frequencies = None

    def count_unseen(self, values: list[list[str]], problems: Problems) -> None:
        """Tally rows with a tag that has no feature."""
        new = [tag for row in values for tag in row if tag not in self.frequencies]
        rows = sum(any(tag not in self.frequencies for tag in row) for row in values)
        problems.tallies[self.name].add(0, 0, unseen=rows, examples=list(dict.fromkeys(new)))

    def transform_parsed(self, values: list[list[str]]) -> sparse.csr_matrix:
        """Weight the tags and scale rows to length 1, (n, width)."""
        place = {tag: i for i, tag in enumerate(self.frequencies)}
        rows = [[place[tag] for tag in row if tag in place] for row in values]
        ends = np.cumsum([0, *map(len, rows)])
        columns = np.array([i for row in rows for i in row], dtype=np.int64)
        weights = np.ones(len(columns), dtype=np.float32)
        bags = sparse.csr_matrix((weights, columns, ends), shape=(len(values), self.width))
        return self._weighted(bags)

    def _weighted(self, bags: sparse.csr_matrix) -> sparse.csr_matrix:
        return _tf_idf(bags, self.rows, np.array(list(self.frequencies.values())))


class BinaryTags(Tags):
    """One feature for each of the most frequent tags: 1 or 0.

    Examples
    --------
    >>> genre = BinaryTags("genre").partial_fit(pa.array([["war", "drama"], ["war"]]))
    >>> genre.transform(pa.array([["drama", "war"]])).toarray().tolist()
    [[1.0, 1.0]]
    """

    kind = "tags:binary"

    def _weighted(self, bags: sparse.csr_matrix) -> sparse.csr_matrix:
        return bags


def _tf_idf(
    counts: sparse.csr_matrix, rows: int, frequencies: npt.NDArray[np.int64]
) -> sparse.csr_matrix:
    """Weight counts by ln((1 + n) / (1 + f)) + 1 in place, and scale rows to length 1."""
    idf = np.log((1 + rows) / (1 + frequencies)) + 1
    weights = counts.data * idf[counts.indices]
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    length = np.sqrt(np.bincount(row, weights**2, minlength=counts.shape[0]))
    counts.data = (weights / length[row]).astype(np.float32)
    return counts


def _limited(counts: Counter[str]) -> Counter[str]:
    """Drop the rarest values if there are too many."""
    if len(counts) <= COUNTED:
        return counts
    return Counter({value: counts[value] for value in _most_frequent(counts, COUNTED // 2)})


def _most_frequent(counts: Counter[str], most: int) -> list[str]:
    """The values with the highest counts; equal counts are sorted by name."""
    return sorted(counts, key=lambda value: (-counts[value], value))[:most]
