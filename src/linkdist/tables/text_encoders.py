"""Encoders of text: tf-idf of words.

Words are in lower case and consist of letters, digits and underscores. Both rules are also those of
the operators of ONNX Runtime, so that an exported model can take the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa

from linkdist.data import sparse
from linkdist.tables.bag_encoders import Vocabulary, idf_of, parse_frequencies, tf_idf
from linkdist.tables.encoders import Encoder
from linkdist.tables.validation import Problems

WORDS = 8192
"""Maximum number of features of a text column, for its most frequent words."""

LONGEST = 64
"""Longer words have no feature: they are usually data, such as keys, and may take much memory."""

WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; every letter is converted on its own.

    Examples
    --------
    >>> words_of("Links, and GRAPHS_2!")
    ['links', 'and', 'graphs_2']
    """
    # Python makes two characters of the first letter, and two different ones of the second.
    return WORD.findall(text.replace("İ", "i").replace("Σ", "σ").lower())


class WordCounts(NamedTuple):
    """The words of a batch of n rows.

    Attributes
    ----------
    words : list of str
        The different words, k of them.
    counts : (n, k) CSR matrix
        How often each row contains each word.
    """

    words: list[str]
    counts: sparse.csr_matrix


class Text(Vocabulary):
    """Tf-idf of the most frequent words, scaled to length 1; other words count as absent.

    A word count is weighted by ln((1 + n) / (1 + f)) + 1, where f of the n rows contain the word.

    Examples
    --------
    >>> title = Text("title").partial_fit(pa.array(["Graphs and links", "links"]))
    >>> title.frequencies
    {'links': 2, 'and': 1, 'graphs': 1}
    >>> title.transform(pa.array(["LINKS", "new", ""])).toarray().tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    kind = "text"
    most = WORDS

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Encoder:
        """Restore an encoder; older models have hashed words."""
        if isinstance(state["frequencies"], list):
            return HashedText.from_state(state)
        return cls(state["name"], *parse_frequencies(state))

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> WordCounts:
        """Count the words of each row."""
        return _word_counts(self._parse_text(column, first_row, problems))

    def fit_parsed(self, values: WordCounts) -> None:
        """Count the rows that contain each word."""
        rows = np.bincount(values.counts.indices, minlength=len(values.words)).tolist()
        pairs = zip(values.words, rows, strict=True)
        counts = {word: count for word, count in pairs if len(word) <= LONGEST}
        self._count_rows(values.counts.shape[0], counts)

    def count_unseen(self, values: WordCounts, problems: Problems) -> None:
        """Tally rows with words of which none has a feature."""
        known = np.array([word in self.frequencies for word in values.words], dtype=bool)
        row = np.repeat(np.arange(values.counts.shape[0]), np.diff(values.counts.indptr))
        unseen = np.diff(values.counts.indptr) > 0
        unseen[row[known[values.counts.indices]]] = False
        new = dict.fromkeys(values.counts.indices[unseen[row]].tolist())
        examples = [values.words[i] for i in new]
        problems.tallies[self.name].add(0, 0, unseen=int(unseen.sum()), examples=examples)

    def transform_parsed(self, values: WordCounts) -> sparse.csr_matrix:
        """Weight the counts of known words and scale rows to length 1, (n, width)."""
        place, idf = self.features
        places = np.array([place.get(word, -1) for word in values.words], dtype=np.int64)
        columns = places[values.counts.indices]
        known = columns >= 0
        ends = np.concatenate([[0], np.cumsum(known)])[values.counts.indptr]
        entries = (values.counts.data[known], columns[known], ends)
        counts = sparse.csr_matrix(entries, shape=(len(ends) - 1, self.width))
        counts.sort_indices()
        return tf_idf(counts, idf)


class HashedText(Encoder):
    """Tf-idf of words that are hashed into a fixed number of features, as in older models.

    The feature of a word is its CRC-32 modulo the width.

    Attributes
    ----------
    rows : int
        n, the number of rows.
    frequencies : (width,) int64 array
        f, the number of rows that contain each feature.

    Examples
    --------
    >>> title = HashedText("title", rows=2, frequencies=[1, 2])
    >>> title.transform(pa.array(["LINKS", ""])).sum(axis=1).tolist()
    [[1.0], [0.0]]
    """

    kind = "text"
    is_sparse = True

    def __init__(self, name: str, rows: int, frequencies: Sequence[int]) -> None:
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
    def from_state(cls, state: Mapping[str, Any]) -> HashedText:
        """Restore an encoder."""
        counts = np.asarray(state["frequencies"])
        if counts.ndim != 1 or not len(counts) or not np.issubdtype(counts.dtype, np.integer):
            raise ValueError("frequencies must be a list of whole numbers")
        if type(state["rows"]) is not int or not 0 <= counts.min() <= counts.max() <= state["rows"]:
            raise ValueError("frequencies must lie between 0 and the number of rows")
        return cls(state["name"], state["rows"], counts.tolist())

    def rows_with(self, word: str) -> int:
        """Number of training rows that contain a word, or one with the same feature."""
        return int(self.frequencies[self._feature(word)])

    def _feature(self, word: str) -> int:
        return crc32(word.encode()) % self.width

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> sparse.csr_matrix:
        """Counts of the hashed words, (n, width)."""
        columns: list[int] = []
        ends = [0]
        for text in self._parse_text(column, first_row, problems).to_pylist():
            # Not `words_of`: the words must be those of the training.
            words = WORD.findall(text.lower()) if text else ()
            columns.extend(map(self._feature, words))
            ends.append(len(columns))
        return _csr(columns, ends, self.width)

    def fit_parsed(self, values: sparse.csr_matrix) -> None:
        """Count the rows that contain each feature."""
        self.rows += values.shape[0]
        self.frequencies += np.bincount(values.indices, minlength=self.width)

    def transform_parsed(self, values: sparse.csr_matrix) -> sparse.csr_matrix:
        """Weight word counts in place and scale rows to length 1."""
        return tf_idf(values, idf_of(self.rows, self.frequencies))


def _word_counts(texts: pa.Array) -> WordCounts:
    places: dict[str, int] = {}
    columns: list[int] = []
    ends = [0]
    for text in texts.to_pylist():
        words = words_of(text) if text else ()
        columns.extend(places.setdefault(word, len(places)) for word in words)
        ends.append(len(columns))
    return WordCounts(list(places), _csr(columns, ends, len(places)))


def _csr(columns: list[int], ends: list[int], width: int) -> sparse.csr_matrix:
    """Counts of the columns that each row lists."""
    ones = np.ones(len(columns), dtype=np.float32)
    counts = sparse.csr_matrix((ones, columns, ends), shape=(len(ends) - 1, width))
    counts.sum_duplicates()
    return counts
