"""The parts of a row: its columns, the words of its texts, its tags.

A part is present or absent. An absent column counts as missing, and an absent word or tag as not
written. The features of a row without some parts are those that the encoders compute from the
remaining values, so the tf-idf of the remaining words changes as well.

A text may have thousands of words. Those that weigh little are then one part, 'other words'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from scipy import sparse

from linkdist.data.graph import FeatureMatrix
from linkdist.inference.shapley import Mask, Values
from linkdist.tables.bag_encoders import Tags, Text
from linkdist.tables.encoders import Encoder
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.parsing import plain, text_of
from linkdist.tables.validation import Problems

WIDTH = 60
"""Characters of a value that are shown."""


class Name(NamedTuple):
    """What a part is called.

    Attributes
    ----------
    kind : {'column', 'word', 'words', 'tag', 'tags', 'neighbour', 'neighbours'}
        What the part is; the plural is for several that are one part together.
    column : str
        The column; of a neighbour, the relation of the link.
    value : str
        The value of the column, the word, the tag, or the id of the neighbour.
    """

    kind: str
    column: str
    value: str


def group_parts(
    names: list[Name], weights: Values, most: int
) -> tuple[sparse.csr_matrix, list[Name]]:
    """Make the parts that weigh least one part.

    Parameters
    ----------
    names : list of Name
        The g parts, of one kind and column.
    weights : (g,) array
        What they weigh.
    most : int
        The number of parts that there may be.

    Returns
    -------
    sums : (most, g) CSR matrix
        Adds what belongs to the g parts up to what belongs to the new parts.
    names : list of Name
        The new parts.

    Examples
    --------
    >>> names = [Name("tag", "genre", value) for value in ("war", "love", "art")]
    >>> sums, new = group_parts(names, np.array([1.0, 3.0, 2.0]), 2)
    >>> new[1]
    Name(kind='tags', column='genre', value='2 other tags')
    >>> sums.toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    kept = np.sort(np.argsort(-weights, kind="stable")[: most - 1])
    place = np.full(len(names), most - 1)
    place[kept] = np.arange(most - 1)
    ones = np.ones(len(names), dtype=np.float32)
    sums = sparse.csr_matrix((ones, (place, np.arange(len(names)))), (most, len(names)))
    kind = f"{names[0].kind}s"
    rest = Name(kind, names[0].column, f"{len(names) - most + 1} other {kind}")
    return sums, [*(names[i] for i in kept.tolist()), rest]


class ColumnParts(ABC):
    """The parts of one value.

    Attributes
    ----------
    names : list of Name
        The g parts.
    weights : (g,) array
        How much of the features of the whole value each part makes; positive.
    """

    names: list[Name]
    weights: Values

    @abstractmethod
    def features(self, present: Mask) -> FeatureMatrix:
        """The features (V, width) of the value with some of its parts (V, g)."""

    def grouped(self, most: int) -> ColumnParts:
        """The same value with this number of parts: those that weigh little are one part."""
        return self


class Whole(ColumnParts):
    """A value that is one part: a number, a date, a category, a vector. None if it is missing.

    Examples
    --------
    >>> from linkdist.tables.encoders import Numeric
    >>> age = Whole(Numeric("age", mean=30.0, deviation=2.0), pa.array([33]))
    >>> age.names[0].value, age.features(np.array([[True], [False]])).tolist()
    ('33', [[1.5], [0.0]])
    """

    def __init__(self, encoder: Encoder, value: pa.Array) -> None:
        both = pa.concat_arrays([pa.nulls(1, value.type), value])
        # The table was checked as a whole: a value that cannot be read counts as missing.
        self._both: Any = encoder.transform(both, problems=Problems())
        known = abs(self._both[1] - self._both[0]).max() > 0 if encoder.width else False
        self.names = [Name("column", encoder.name, _shown(value))] if known else []
        self.weights = np.ones(len(self.names))

    def features(self, present: Mask) -> FeatureMatrix:
        """The features of the value, or of a missing one."""
        features: FeatureMatrix = self._both[present.any(axis=1).astype(np.int64)]
        return features


class Bag(ColumnParts):
    """A value of several parts whose order does not matter.

    Attributes
    ----------
    counts : (g, k) CSR matrix
        How often each part contains each of k words or tags.
    """

    counts: sparse.csr_matrix
    kind: str

    def _set(self, column: str, words: Sequence[str], counts: sparse.csr_matrix) -> None:
        """Keep the words that have a feature, and how much they weigh in the whole value."""
        self.counts = counts
        whole = self.features(np.ones((1, len(words)), dtype=bool))
        alone = self._encoded(counts)
        weights = np.asarray(abs(alone) @ abs(whole).T.toarray(), dtype=np.float64)[:, 0]
        known = np.flatnonzero(weights > 0)
        self.counts, self.weights = counts[known], weights[known]
        self.names = [Name(self.kind, column, words[i]) for i in known.tolist()]

    @abstractmethod
    def _encoded(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        """The features of rows of words, given by their counts."""

    def features(self, present: Mask) -> FeatureMatrix:
        """The features of the parts that are present: their counts add up."""
        return self._encoded(sparse.csr_matrix(present, dtype=np.float32) @ self.counts)

    def grouped(self, most: int) -> Self:
        """The same value with this number of parts: those that weigh little are one part."""
        if len(self.names) <= most:
            return self
        sums, self.names = group_parts(self.names, self.weights, most)
        self.counts, self.weights = sparse.csr_matrix(sums @ self.counts), sums @ self.weights
        return self


class Words(Bag):
    """The different words of a text.

    Examples
    --------
    >>> title = Text("title").partial_fit(pa.array(["graphs and links", "links"]))
    >>> words = Words(title, pa.array(["Links, LINKS and graphs"]))
    >>> [name.value for name in words.names]
    ['links', 'and', 'graphs']
    >>> without = words.features(np.array([[True, False, True]]))
    >>> bool(np.allclose((without - title.transform(pa.array(["links links graphs"]))).data, 0))
    True
    """

    kind = "word"

    def __init__(self, encoder: Text, value: pa.Array) -> None:
        self._encoder = encoder
        times = Counter(encoder.words(text_of(value)[0].as_py() or ""))
        counts = encoder.parse(pa.array(times, pa.large_string()), 1, Problems())
        counts.data *= np.repeat(np.array(list(times.values())), np.diff(counts.indptr))
        self._set(encoder.name, list(times), counts)

    def _encoded(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        return self._encoder.transform_parsed(counts.copy())  # overwrites its argument


class TagParts(Bag):
    """The different tags of a row.

    Examples
    --------
    >>> genre = Tags("genre").partial_fit(pa.array([["war", "love"], ["war"]]))
    >>> tags = TagParts(genre, pa.array([["love", "war", "unknown"]]))
    >>> [name.value for name in tags.names]
    ['love', 'war']
    >>> tags.features(np.array([[False, True]])).toarray().tolist()
    [[1.0, 0.0]]
    """

    kind = "tag"

    def __init__(self, encoder: Tags, value: pa.Array) -> None:
        self._encoder = encoder
        (tags,) = encoder.parse(value, 1, Problems())
        self._tags = list(dict.fromkeys(tags))
        self._set(encoder.name, self._tags, sparse.identity(len(self._tags), format="csr"))

    def _encoded(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        rows = np.split(counts.indices, counts.indptr[1:-1])
        tags = [[self._tags[i] for i in row] for row in rows[: counts.shape[0]]]
        return self._encoder.transform_parsed(tags)


class RowParts:
    """All parts of a row that have features, in the order of the columns.

    Parameters
    ----------
    encoders : FeatureEncoder
        The encoders of the model.
    row : RecordBatch of one row
        The values of its columns.
    most : int
        Number of parts that a column may have.

    Attributes
    ----------
    names : list of Name
        The G parts.

    Examples
    --------
    >>> from linkdist.tables.feature_encoder import make_feature_encoder
    >>> table = pa.record_batch({"title": ["links", "a graph"], "year": [1990, None]})
    >>> encoders = make_feature_encoder({"title": "text", "year": "numeric"}).partial_fit(table)
    >>> [part.value for part in RowParts(encoders, table.slice(1)).names]
    ['a', 'graph']
    """

    def __init__(self, encoders: FeatureEncoder, row: pa.RecordBatch, most: int = 256) -> None:
        self._encoders = encoders
        values = ((one, plain(row.column(one.name))) for one in encoders.columns)
        self._columns = [_column_parts(one, value).grouped(most) for one, value in values]
        self._ends = np.cumsum([len(column.names) for column in self._columns])
        self.names = [name for column in self._columns for name in column.names]

    def features(self, present: Mask) -> FeatureMatrix:
        """The features (V, d) of the row with some of its parts (V, G)."""
        masks = np.split(present, self._ends[:-1], axis=1)
        blocks = [one.features(mask) for one, mask in zip(self._columns, masks, strict=True)]
        return self._encoders.concatenate(blocks, len(present))


def _column_parts(encoder: Encoder, value: pa.Array) -> ColumnParts:
    if isinstance(encoder, Text) and not pa.types.is_nested(value.type):
        return Words(encoder, value)
    return TagParts(encoder, value) if isinstance(encoder, Tags) else Whole(encoder, value)


def _shown(value: pa.Array) -> str:
    """A value as text of limited length."""
    if pa.types.is_nested(value.type):
        text = str(value[0].as_py())
    else:
        text = text_of(value)[0].as_py() or ""
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
