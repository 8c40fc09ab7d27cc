"""Columns of requests become features: as `Encoders.encode` has it, but for few rows at a time.

A table has many rows and brings its columns in Arrow's form. A request has one row, and numbers
that were read already; so numeric columns are standardised all at once, without a detour.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from linkdist.artifacts.manifest import Header
from linkdist.data.graph import FeatureMatrix, FloatArray
from linkdist.serve.errors import RefusedError
from linkdist.serve.rows import Columns, told
from linkdist.tables.encoders import Encoder, Numeric, standardised
from linkdist.tables.validation import Problems

TYPES = {
    "categorical": pa.large_string(),
    "text": pa.large_string(),
    "vector": pa.list_(pa.float64()),
}


def features_of(columns: Columns, header: Header) -> FeatureMatrix:
    """The features of columns that `read_request` gave, of one request or of several joined.

    Raises
    ------
    RefusedError
        Where a value does not fit its column.
    """
    if header.encoders is None:
        return np.array(columns[""], dtype=np.float32)
    blocks: list[FeatureMatrix] = []
    blamed: dict[str, str] = {}
    for is_numeric, group in groupby(header.encoders.columns, lambda one: one.kind == "numeric"):
        if is_numeric:
            blocks.append(_numbers(list(group), columns))
            continue
        for encoder in group:
            problems = Problems()
            values = pa.array(columns[encoder.name], TYPES[encoder.kind])
            blocks.append(encoder.encode(values, problems=problems))
            if problems:
                blamed[encoder.name] = told(problems)
    if blamed:
        raise RefusedError(422, " ".join(blamed.values()), blamed)
    return header.encoders.side_by_side(blocks, blocks[0].shape[0])


def _numbers(encoders: Sequence[Encoder], columns: Columns) -> FloatArray:
    """Numeric columns side by side; None becomes NaN, which stands for missing."""
    x = np.array([columns[one.name] for one in encoders], dtype=np.float64).T  # (n, width)
    numeric = [one for one in encoders if isinstance(one, Numeric)]
    mean = np.array([one.mean for one in numeric])
    return standardised(x, mean, np.array([one.deviation for one in numeric]))
