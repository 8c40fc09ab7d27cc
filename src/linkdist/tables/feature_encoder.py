"""Encode all feature columns of a node table together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from linkdist.data import sparse
from linkdist.data.graph import FeatureMatrix, stacked
from linkdist.errors import ModelError, check_names
from linkdist.tables.bag_encoders import BinaryTags, Categorical, Tags, Text
from linkdist.tables.embedding import Embedding, TextEncoder
from linkdist.tables.encoders import Date, Encoder, Numeric, Vector
from linkdist.tables.schema import KINDS
from linkdist.tables.validation import Problems, collect_problems

ENCODERS: dict[str, type[Encoder]] = {
    encoder.kind: encoder
    for encoder in (Numeric, Date, Categorical, Text, Tags, BinaryTags, Vector, Embedding)
}
"""The encoder of each kind of column."""


class FeatureEncoder:
    """Encodes the columns of a table; the features of the columns are concatenated in order.

    Parameters
    ----------
    columns : sequence of Encoder
        One encoder per column, with different names.

    Examples
    --------
    >>> encoder = make_feature_encoder({"age": "numeric", "field": "categorical"})
    >>> batch = pa.record_batch({"age": [1, 3], "field": ["a", "b"]})
    >>> encoder.partial_fit(batch).transform(batch).toarray().tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    def __init__(self, columns: Sequence[Encoder]) -> None:
        self.columns = tuple(columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def d(self) -> int:
        """Number of features."""
        return sum(column.width for column in self.columns)

    @property
    def is_sparse(self) -> bool:
        """Whether the features are a CSR matrix."""
        return any(column.is_sparse for column in self.columns)

    def text_columns(self, schema: pa.Schema) -> list[str]:
        """The columns that are read as text from CSV: all but times that are used as numbers."""
        return [
            one.name
            for one in self.columns
            if one.name in schema.names
            and not (one.kind == "numeric" and pa.types.is_temporal(schema.field(one.name).type))
        ]

    def with_text_encoder(self, text_encoder: TextEncoder | None) -> Self:
        """Set the model that computes the features of text columns, which no state contains."""
        for column in self.columns:
            if isinstance(column, Embedding):
                column.encoder = text_encoder
        return self

    def partial_fit(
        self, batch: pa.RecordBatch, first_row: int = 1, problems: Problems | None = None
    ) -> Self:
        """Fit the encoders to the next batch; parameters as in `Encoder.partial_fit`."""
        with collect_problems(problems) as found:
            for encoder, column in self._columns(batch, found):
                encoder.partial_fit(column, first_row, found)
        return self

    def fit_transform(
        self, batches: Iterable[tuple[int, pa.RecordBatch]], problems: Problems | None = None
    ) -> FeatureMatrix:
        """Fit the encoders to all batches and encode them; every value is parsed once.

        Parameters
        ----------
        batches : iterable of (int, RecordBatch)
            Batches of n rows in total, with the row numbers of their first rows.
        problems : Problems, optional
            Collects values that cannot be encoded; by default they raise a `TableError`.

        Returns
        -------
        (n, d) float32 array or CSR matrix
            As `transform` returns it.

        Examples
        --------
        >>> age = make_feature_encoder({"age": "numeric"})
        >>> age.fit_transform([(1, pa.record_batch({"age": [1, 3]}))]).tolist()
        [[-1.0], [1.0]]
        """
        parsed = []
        with collect_problems(problems) as found:
            for first_row, batch in batches:
                values = []
                for encoder, column in self._columns(batch, found):
                    values.append((encoder, encoder.parse_and_prepare(column, first_row, found)))
                    encoder.fit_parsed(values[-1][1])
                parsed.append((batch.num_rows, values))
        blocks = [self.concatenate([], 0)]
        for n, values in parsed:
            blocks.append(self.concatenate([one.transform_parsed(x) for one, x in values], n))
        return stacked(blocks[1:] or blocks)

    def transform(
        self, batch: pa.RecordBatch, first_row: int = 1, problems: Problems | None = None
    ) -> FeatureMatrix:
        """Encode a batch.

        Parameters
        ----------
        batch : RecordBatch of n rows
            Must have all columns in `names`, in any order.
        first_row : int
            Row number of its first row in the table, for messages.
        problems : Problems, optional
            Collects values that cannot be encoded; by default they raise a `TableError`.

        Returns
        -------
        (n, d) float32 array or CSR matrix
            CSR if a column is categorical, text or tags, otherwise dense.

        Raises
        ------
        TableError
            Lists all missing columns and all values that cannot be encoded.
        """
        with collect_problems(problems) as found:
            pairs = self._columns(batch, found)
            blocks = [encoder.transform(column, first_row, found) for encoder, column in pairs]
        return self.concatenate(blocks, batch.num_rows)

    def concatenate(self, blocks: Sequence[FeatureMatrix], n: int) -> FeatureMatrix:
        """Concatenate the features of n rows, given by column or group of columns in order."""
        if self.is_sparse:
            parts = [sparse.csr_matrix(block) for block in blocks]
            empty = sparse.csr_matrix((n, 0), dtype=np.float32)
            return sparse.hstack([empty, *parts], format="csr", dtype=np.float32)
        return np.concatenate([np.empty((n, 0), dtype=np.float32), *blocks], axis=1)

    def describe(self) -> list[dict[str, Any]]:
        """Name, kind and an example of each column, for documentation.

        Examples
        --------
        >>> make_feature_encoder({"title": "text"}).describe()
        [{'name': 'title', 'kind': 'text', 'example': 'some words'}]
        """
        return [
            {"name": one.name, "kind": one.kind, "example": one.example()} for one in self.columns
        ]

    def state(self) -> list[dict[str, Any]]:
        """The fitted state as JSON values."""
        return [column.state() for column in self.columns]

    @classmethod
    def from_state(cls, state: Any) -> FeatureEncoder:  # noqa: ANN401
        """Restore an encoder from the state that `state` returned.

        Raises
        ------
        ModelError
            If the state is invalid.

        Examples
        --------
        >>> saved = make_feature_encoder({"age": "numeric"}).state()
        >>> FeatureEncoder.from_state(saved).names
        ('age',)
        """
        try:
            columns = [ENCODERS[column["kind"]].from_state(column) for column in state]
            names = [column.name for column in columns]
            if not all(type(name) is str for name in names) or len(set(names)) < len(names):
                raise ValueError("columns must have different names")
        except (KeyError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            found = f"{type(error).__name__}: {error}"
            advice = "Get a new copy of the model."
            raise ModelError(f"the state of the columns is damaged ({found}). {advice}") from error
        return cls(columns)

    def _columns(self, batch: pa.RecordBatch, problems: Problems) -> list[tuple[Encoder, pa.Array]]:
        problems.names("column", self.names, batch.schema.names)
        known = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
        return [(column, known[column.name]) for column in self.columns if column.name in known]


def make_feature_encoder(
    kinds: Mapping[str, str],
    sample: pa.Table | None = None,
    text_encoder: TextEncoder | None = None,
) -> FeatureEncoder:
    """Create an encoder that is not fitted yet.

    Parameters
    ----------
    kinds : mapping of str to str
        The kind of each column, one of `KINDS`, in the order of the features.
    sample : Table, optional
        The first rows, from which the encoders infer how numbers, dates and tags are written.
    text_encoder : TextEncoder, optional
        Computes the features of text columns, instead of tf-idf.

    Examples
    --------
    >>> make_feature_encoder({"age": "number"})
    Traceback (most recent call last):
    linkdist.errors.OptionError: unknown kind of column 'number' (near: numeric); choose from \
numeric, date, categorical, text, tags, tags:binary, vector.
    """
    check_names("kind of column", dict.fromkeys(kinds.values()), KINDS)
    if text_encoder is not None:
        embedded = {name: "embedding" for name, kind in kinds.items() if kind == "text"}
        kinds = {**kinds, **embedded}
    encoders = [ENCODERS[kind](name) for name, kind in kinds.items()]
    for encoder in encoders:
        if sample is not None and encoder.name in sample.column_names:
            encoder.prepare(sample[encoder.name])
    return FeatureEncoder(encoders).with_text_encoder(text_encoder)
