"""The encoders of columns as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from linkdist.data.graph import FeatureMatrix, stacked
from linkdist.tables.embedding import TextEncoder
from linkdist.tables.feature_encoder import FeatureEncoder, make_feature_encoder
from linkdist.tables.io import TableLike, open_table
from linkdist.tables.parsing import is_number
from linkdist.tables.schema import guess
from linkdist.tables.validation import Problems


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns the columns of a table into features, as `linkdist train` does.

    Parameters
    ----------
    kinds : mapping of str to str, optional
        Columns whose kind is given instead of inferred, one of `linkdist.tables.schema.KINDS`.
    text_encoder : object with `encode(list of str) -> (n, k) array`, optional
        Computes the features of text columns, instead of tf-idf.

    Attributes
    ----------
    encoder_ : FeatureEncoder
        The fitted encoders.
    kinds_ : dict of str to str
        The kind of each column that is used.
    feature_names_in_ : (c,) array of str
        The columns of the table.
    n_features_in_ : int
        Number of columns of the table.

    Examples
    --------
    >>> encoder = TableEncoder().fit({"age": [1, 3], "size": [2.0, None]})
    >>> encoder.transform({"size": [2.0], "age": [3]}).tolist()
    [[1.0, 0.0]]
    """

    def __init__(
        self, *, kinds: Mapping[str, str] | None = None, text_encoder: TextEncoder | None = None
    ) -> None:
        self.kinds = kinds
        self.text_encoder = text_encoder

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Infer the kinds of the columns and fit their encoders.

        Parameters
        ----------
        X : path or table
            A pandas or Polars frame, an Arrow table or a file.
        y : ignored
        """
        self._fit_transform(X)
        return self

    def fit_transform(self, X: TableLike, y: object = None, **params: Any) -> FeatureMatrix:  # noqa: ANN401
        """Fit the encoders and encode the table; every value is parsed once."""
        return self._fit_transform(X)

    def transform(self, X: TableLike) -> FeatureMatrix:
        """Encode a table with the columns of `fit`, in any order, as (n, d) array or CSR matrix."""
        check_is_fitted(self)
        table, problems = open_table(X), Problems()
        encoder: FeatureEncoder = self.encoder_
        problems.names("column", encoder.names, table.schema.names)
        problems.check(table.name)
        batches = table.numbered_batches(encoder.names, as_text=encoder.text_columns(table.schema))
        blocks = [encoder.transform(batch, row, problems) for row, batch in batches]
        problems.check(table.name)
        none = np.empty((0, encoder.d), dtype=np.float32)
        return stacked(blocks or [encoder.concatenate([none], 0)])

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Names of the features: the column and, if it has several, a number."""
        check_is_fitted(self)
        names = [
            column.name if column.width == 1 else f"{column.name}_{i}"
            for column in self.encoder_.columns
            for i in range(column.width)
        ]
        return np.array(names, dtype=object)

    def _fit_transform(self, X: TableLike) -> FeatureMatrix:
        table, problems = open_table(X), Problems()
        sample = table.sample()
        given = dict(self.kinds or {})
        problems.names("column", given, table.schema.names)
        problems.check(table.name)
        found = {name: one.kind for name, one in guess(table.schema, sample, ()).items()}
        kinds = {**{name: kind for name, kind in found.items() if kind}, **given}
        encoder = make_feature_encoder(kinds, sample, self.text_encoder)
        batches = table.numbered_batches(encoder.names, as_text=encoder.text_columns(table.schema))
        features = encoder.fit_transform(batches, problems)
        problems.check(table.name)
        self.encoder_, self.kinds_ = encoder, kinds
        self.feature_names_in_ = np.array(table.schema.names, dtype=object)
        self.n_features_in_ = len(table.schema.names)
        return features


def needs_encoding(X: Any) -> bool:  # noqa: ANN401
    """Whether X is a table with columns that are not numbers, or with missing values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> needs_encoding(pa.table({"age": [1, 2]})), needs_encoding(pa.table({"age": [1, None]}))
    (False, True)
    >>> needs_encoding([[1, 2]])
    False
    """
    if not (hasattr(X, "columns") and (hasattr(X, "__arrow_c_stream__") or hasattr(X, "dtypes"))):
        return False
    if hasattr(X, "reset_index"):
        X = X.reset_index(drop=True)
        if not all(isinstance(name, str) for name in X.columns):
            return False
    table = open_table(X)
    if not all(is_number(field.type) for field in table.schema):
        return True
    return any(column.null_count for batch in table.batches() for column in batch.columns)
