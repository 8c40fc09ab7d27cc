"""What a column's values are, for counting: numbers, one value per row, or several words.

=================== ========================================================================
kind of column      what is counted
=================== ========================================================================
numeric, date       the number; for a date, seconds since 1970
vector              the distance from the training mean: the root of the mean square of the
                    standardised entries
categorical         the value
text, embedding     the words
tags, tags:binary   the tags
=================== ========================================================================
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkdist.tables.bag_encoders import Categorical, Tags
from linkdist.tables.embedding import Embedding
from linkdist.tables.encoders import Encoder, Vector
from linkdist.tables.parsing import Doubles, as_mask, plain, text_of
from linkdist.tables.text_encoders import HashedText, Text, words_of
from linkdist.tables.validation import Problems

Bags: TypeAlias = list[list[str]]
Values: TypeAlias = Doubles | pa.Array | Bags
"""(n,) numbers with NaN where missing, (n,) text values with nulls, or n lists of words."""


def column_values(encoder: Encoder, column: pa.Array | pa.ChunkedArray) -> Values:
    """The values of a column.

    Parameters
    ----------
    encoder : Encoder
        The encoder of the column.
    column : (n,) Arrow array
        A column that the encoder can encode.

    Returns
    -------
    (n,) float64 array, (n,) Arrow array of text or list of n lists of str
        NaN, null or an empty list where the value is missing. A word is listed once per row.

    Examples
    --------
    >>> from linkdist.tables.encoders import Numeric
    >>> column_values(Numeric("age"), pa.array(["3", None])).tolist()
    [3.0, nan]
    >>> column_values(Text("title"), pa.array(["Links, links"]))
    [['links']]
    """
    column = plain(column)
    if isinstance(encoder, Text | HashedText | Embedding):
        return [list(dict.fromkeys(words_of(text or ""))) for text in text_of(column).to_pylist()]
    values = encoder.parse(column, 1, Problems())
    if isinstance(encoder, Tags):
        return [list(dict.fromkeys(row)) for row in values]
    if isinstance(encoder, Categorical):
        return values
    if not isinstance(encoder, Vector):
        numbers: Doubles = values[:, 0]
        return numbers
    missing = np.isnan(values).any(axis=1) | (values.shape[1] != encoder.width)
    squares = np.square(encoder.transform_parsed(values).astype(np.float64))
    return np.where(missing, np.nan, np.sqrt(squares.mean(axis=1)))


def unseen_shares(encoder: Encoder, values: Values, of_training: bool = False) -> Doubles | None:
    """The share of each row's values that training did not see.

    Rows of the training itself are treated as if each had been left out: a value is unseen if no
    other row has it. This estimates the share among new rows without a second table.

    Parameters
    ----------
    encoder : Encoder
        The encoder of the column.
    values : Values
        As `column_values` returns them.
    of_training : bool
        Whether these are rows of the training.

    Returns
    -------
    (n,) float64 array or None
        NaN where the value is missing; None for numbers and embedded text, which have no known
        values.

    Examples
    --------
    >>> field = Categorical("field").partial_fit(pa.array(["a", "a", "b"]))
    >>> unseen_shares(field, pa.array(["a", "c", None], pa.large_string())).tolist()
    [0.0, 1.0, nan]
    >>> unseen_shares(field, pa.array(["a", "a", "b"], pa.large_string()), True).tolist()
    [0.0, 0.0, 1.0]
    """
    if isinstance(encoder, Categorical):
        return _unseen_categories(encoder, values, of_training)
    if not isinstance(encoder, Text | HashedText | Tags):
        return None
    rows = cast(Bags, values)
    words = {word for row in rows for word in row}
    unseen = {word for word in words if encoder.rows_with(word) <= of_training}
    shares = [sum(word in unseen for word in row) / len(row) if row else np.nan for row in rows]
    return np.array(shares, dtype=np.float64)


def _unseen_categories(encoder: Categorical, values: pa.Array, of_training: bool) -> Doubles:
    known = set(encoder.categories)
    if of_training:
        counts = Counter(values.drop_null().to_pylist())
        known = {value for value in known if counts[value] > 1}
    is_known = pc.is_in(values, value_set=pa.array(sorted(known), pa.large_string()))
    return np.where(as_mask(values.is_valid()), ~as_mask(is_known), np.nan)
