"""The parts of a row: its columns, the words of its texts, its tags.

A part is present or absent. An absent column counts as missing, and an absent word or tag as not
written. The features of a row without some parts are those that the encoders compute from the
remaining values, so the tf-idf of the remaining words changes as well.

A text may have thousands of words. Those that weigh little are then one part, 'other words'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.data import sparse
from linkdist.data.graph import FeatureMatrix, FloatArray
from linkdist.inference.shapley import Mask, Values
from linkdist.tables.bag_encoders import Tags
from linkdist.tables.encoders import Encoder
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.parsing import plain, text_of
from linkdist.tables.text_encoders import HashedText, Text, words_of
from linkdist.tables.validation import Problems

Places: TypeAlias = npt.NDArray[np.int64]

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


def group_parts(names: list[Name], weights: Values, most: int) -> tuple[Places, Places, list[Name]]:
    """Make the parts that weigh least one part.

    Parameters
    ----------
    names : list of Name
        The parts, of one kind and column.
    weights : (g,) array
        What they weigh.
    most : int
        The number of parts that there may be.

    Returns
    -------
    kept, rest : arrays of int
        The positions of the parts that stay, and of those that are one part.
    names : list of Name
        The new parts; the last one is the rest.

    Examples
    --------
    >>> names = [Name("tag", "genre", value) for value in ("war", "love", "art")]
    >>> kept, rest, new = group_parts(names, np.array([1.0, 3.0, 2.0]), 2)
    >>> kept.tolist(), rest.tolist(), new[1]
    ([1], [0, 2], Name(kind='tags', column='genre', value='2 other tags'))
    """
    order = np.argsort(-weights, kind="stable")
    kept, rest = np.sort(order[: most - 1]), np.sort(order[most - 1 :])
    kind, column, _ = names[0]
    others = Name(f"{kind}s", column, f"{len(rest)} other {kind}s")
    return kept, rest, [*(names[i] for i in kept.tolist()), others]


class ColumnParts(ABC):
    """The parts of one value.

    Attributes
    ----------
    names : list of Name
        The g parts. What has no feature, such as a missing value or an unknown word, is no part.
    """

    names: list[Name]

    @abstractmethod
    def features(self, present: Mask) -> FeatureMatrix:
        """The features (V, width) of the value with some of its parts (V, g)."""


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
        self._both = _dense(encoder.transform(both, problems=Problems()))
        known = (self._both[0] != self._both[1]).any()
        self.names = [Name("column", encoder.name, _shown(value))] if known else []

    def features(self, present: Mask) -> FeatureMatrix:
        """The features of the value, or of a missing one."""
        return self._both[present.any(axis=1).astype(np.int64)]


class Words(ColumnParts):
    """The different words of a text.

    A text is encoded as a vector of length 1 in which every word has its own share, so the vector
    of fewer words is what remains of it, scaled to length 1 again.

    Examples
    --------
    >>> from linkdist.tables.feature_encoder import ENCODERS
    >>> title = ENCODERS["text"]("title").partial_fit(pa.array(["graphs and links", "links"]))
    >>> words = Words(title, pa.array(["Links, LINKS and graphs"]), most=3)
    >>> [name.value for name in words.names]
    ['links', 'and', 'graphs']
    >>> without = words.features(np.array([[True, False, True]])).toarray()
    >>> bool(np.allclose(without, title.transform(pa.array(["links links graphs"])).toarray()))
    True
    """

    def __init__(self, encoder: Text | HashedText, value: pa.Array, most: int) -> None:
        self._width = encoder.width
        text = text_of(value)[0].as_py() or ""
        times = Counter(words_of(text))
        # The text, then its words alone, each of which has one feature or none.
        texts = pa.array([text, *times], pa.large_string())
        encoded: Any = encoder.transform(texts, problems=Problems())
        first = encoded.indptr[1]
        has_feature = np.diff(encoded.indptr)[1:] > 0
        known = [word for word, has in zip(times, has_feature.tolist(), strict=True) if has]
        self._columns, places = np.unique(encoded.indices, return_inverse=True)
        place, whole = places[first:], encoded[:1].toarray()[0, self._columns]
        counts = np.array([times[word] for word in known], dtype=np.float64)
        # Words that are hashed to the same feature share it.
        shares = whole[place] * counts / np.bincount(place, counts)[place]
        self.names = [Name("word", encoder.name, word) for word in known]
        self._shares = self._grouped(place, shares, most)
        # What the encoder finds in the text but not in its words: it may read rare letters in
        # another way.
        rest = np.where(np.isin(np.arange(len(whole)), place), 0, whole)
        if rest.any():
            self.names.append(Name("words", encoder.name, "other words"))
            self._shares = np.concatenate([self._shares, rest[None]])

    def _grouped(self, place: Places, shares: Values, most: int) -> Values:
        """The share of each part in each feature of the text, (g, features)."""
        part = np.arange(len(place))
        if len(place) > most:
            kept, rest, self.names = group_parts(self.names, shares, most)
            part[kept], part[rest] = np.arange(most - 1), most - 1
        each = np.zeros((len(self.names), len(self._columns)))
        np.add.at(each, (part, place), shares)
        return each

    def features(self, present: Mask) -> sparse.csr_matrix:
        """The tf-idf of the words that are present."""
        rest = present @ self._shares
        length = np.sqrt((rest**2).sum(axis=1, keepdims=True))
        rest = np.divide(rest, length, out=rest, where=length > 0)
        row, column = np.nonzero(rest)
        ends = np.cumsum(np.bincount(row, minlength=len(present)))
        entries = (rest[row, column].astype(np.float32), self._columns[column], [0, *ends])
        return sparse.csr_matrix(entries, shape=(len(present), self._width))


class TagParts(ColumnParts):
    """The different tags of a row.

    Examples
    --------
    >>> genre = Tags("genre").partial_fit(pa.array([["war", "love"], ["war"]]))
    >>> tags = TagParts(genre, pa.array([["love", "war", "unknown"]]), most=3)
    >>> [name.value for name in tags.names]
    ['love', 'war']
    >>> tags.features(np.array([[False, True]])).toarray().tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, encoder: Tags, value: pa.Array, most: int) -> None:
        self._encoder = encoder
        (tags,) = encoder.parse(value, 1, Problems())
        known = [tag for tag in dict.fromkeys(tags) if tag in encoder.frequencies]
        self.names = [Name("tag", encoder.name, tag) for tag in known]
        self._tags = [[tag] for tag in known]
        if len(known) > most:  # rare tags weigh most in tf-idf
            weights = -np.array([encoder.frequencies[tag] for tag in known], dtype=np.float64)
            kept, rest, self.names = group_parts(self.names, weights, most)
            self._tags = [
                *(self._tags[i] for i in kept.tolist()),
                [known[i] for i in rest.tolist()],
            ]

    def features(self, present: Mask) -> sparse.csr_matrix:
        """The features of the tags that are present."""
        rows = [[tag for i in np.flatnonzero(row) for tag in self._tags[i]] for row in present]
        return self._encoder.transform_parsed(rows)


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
        self._columns = [_column_parts(one, value, most) for one, value in values]
        self._ends = np.cumsum([len(column.names) for column in self._columns])
        self.names = [name for column in self._columns for name in column.names]

    def features(self, present: Mask) -> FeatureMatrix:
        """The features (V, d) of the row with some of its parts (V, G)."""
        masks = np.split(present, self._ends[:-1], axis=1)
        blocks = [one.features(mask) for one, mask in zip(self._columns, masks, strict=True)]
        return self._encoders.concatenate(blocks, len(present))


def _column_parts(encoder: Encoder, value: pa.Array, most: int) -> ColumnParts:
    if isinstance(encoder, Text | HashedText) and not pa.types.is_nested(value.type):
        return Words(encoder, value, most)
    return TagParts(encoder, value, most) if isinstance(encoder, Tags) else Whole(encoder, value)


def _dense(features: Any) -> FloatArray:  # noqa: ANN401
    dense: FloatArray = features.toarray() if sparse.issparse(features) else features
    return dense


def _shown(value: pa.Array) -> str:
    """A value as text of limited length."""
    if pa.types.is_nested(value.type):
        text = str(value[0].as_py())
    else:
        text = text_of(value)[0].as_py() or ""
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
