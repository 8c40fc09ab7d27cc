"""Rows of a table as the inputs of an ONNX file with columns."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from linkdist.artifacts.onnx_graph.columns import separator_of
from linkdist.artifacts.onnx_graph.graph import Array
from linkdist.data.graph import FeatureMatrix
from linkdist.tables.bag_encoders import Categorical, Tags, Vocabulary
from linkdist.tables.encoders import Date, Encoder, Numeric, Vector
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.parsing import as_tags, is_list, plain, text_of
from linkdist.tables.text_encoders import Text
from linkdist.tables.validation import Problems

Feed: TypeAlias = dict[str, Array]
"""The inputs of an ONNX file by name."""

LATEST = 10.0**10
"""A date in the year 2286, in seconds: made rows have none that Arrow cannot represent."""


def column_inputs(encoders: FeatureEncoder, batch: pa.RecordBatch) -> Feed:
    """The inputs of an ONNX file for rows of a table; see `linkdist.artifacts.onnx_graph.columns`.

    Examples
    --------
    >>> from linkdist.tables.feature_encoder import make_feature_encoder
    >>> encoders = make_feature_encoder({"age": "numeric", "town": "categorical"})
    >>> batch = pa.record_batch({"age": ["7", "NA"], "town": ["Ulm", None]})
    >>> {name: values.tolist() for name, values in column_inputs(encoders, batch).items()}
    {'age': [7.0, nan], 'town': ['Ulm', '']}
    """
    problems = Problems()
    return {
        column.name: _input(column, plain(batch.column(column.name)), problems)
        for column in encoders.columns
    }


def _input(column: Encoder, values: pa.Array, problems: Problems) -> Array:
    if isinstance(column, Numeric | Date):
        parsed: Array = column.parse(values, 1, problems)
        return parsed[:, 0]
    if isinstance(column, Vector):
        return np.asarray(column.parse(values, 1, problems), dtype=np.float32)
    if isinstance(column, Tags):
        between = separator_of(column) or ""
        if is_list(values.type) or between not in (column.separator, " "):
            return _strings([between.join(row) for row in as_tags(values, column.separator)])
    return _strings(text_of(values).fill_null("").to_pylist())


def _strings(texts: list[str]) -> Array:
    return np.array(texts, dtype=object)


def made_rows(encoders: FeatureEncoder, features: FeatureMatrix) -> pa.RecordBatch:
    """Rows of a table whose features are like these, with missing and unknown values among them.

    A model directory contains features of nodes, but not their rows.

    Parameters
    ----------
    encoders : FeatureEncoder
        The encoders of a model.
    features : (n, d) array or CSR matrix
        Features.
    """
    starts = np.cumsum([0, *(column.width for column in encoders.columns)])
    rows: dict[str, pa.Array] = {}
    for i, column in enumerate(encoders.columns):
        block = features[:, starts[i] : starts[i + 1]]
        x = np.asarray(block if isinstance(block, np.ndarray) else block.toarray())
        missing = np.arange(len(x)) % 10 == i % 10
        rows[column.name] = _made_column(column, x, missing)
    return pa.record_batch(rows)


def _made_column(column: Encoder, x: Array, missing: Array) -> pa.Array:
    if isinstance(column, Numeric | Date | Vector):
        return _made_numbers(column, x.astype(np.float64), missing)
    if isinstance(column, Categorical):
        best = x.argmax(axis=1) if column.width else np.zeros(len(x), dtype=int)
        names = [*column.categories, "?"]
        return pa.array([names[k] for k in best], pa.string(), mask=missing)
    assert isinstance(column, Vocabulary)
    words = np.array([*column.frequencies], dtype=object)
    bags = [words[row > 0].tolist() for row in x]
    if isinstance(column, Text):  # twice the first word, a letter in upper case, an unknown word
        texts = [" ".join([*bag[:1], "?", *bag]).capitalize() for bag in bags]
        return pa.array(texts, pa.string(), mask=missing)
    rows = [None if gap else bag for bag, gap in zip(bags, missing, strict=True)]
    return pa.array(rows, pa.list_(pa.string()))


def _made_numbers(column: Numeric | Date | Vector, x: Array, missing: Array) -> pa.Array:
    numbers = column.mean + column.deviation * x  # (n, width)
    if isinstance(column, Numeric):
        return pa.array(numbers[:, 0], mask=missing)
    if isinstance(column, Date):
        seconds = np.clip(numbers[:, 0], -LATEST, LATEST).astype(np.int64)
        return pa.array(seconds, pa.timestamp("s"), mask=missing)
    vectors = numbers.astype(np.float32).tolist()
    rows = [None if gap else row for row, gap in zip(vectors, missing, strict=True)]
    return pa.array(rows, pa.list_(pa.float32()))
