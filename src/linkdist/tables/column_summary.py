"""Small summaries of the columns and predictions of a training, and counts to compare with them.

A summary has bins for each column and the number of training rows in each, the share of values that
only one row has, pairs of related columns, and the same bins for predictions. It contains no row.
Counts of other rows have the same shape, and are added up batch by batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from linkdist.data.graph import IntArray
from linkdist.errors import ModelError
from linkdist.tables.agreement import COLUMNS, Array, Pair, find_pairs, informative_words, moments
from linkdist.tables.bins import (
    Bins,
    bins_from_state,
    count_words,
    fit_bins,
    frequent_words,
    word_bins,
)
from linkdist.tables.column_values import Values, column_values, unseen_shares
from linkdist.tables.encoders import Encoder
from linkdist.tables.feature_encoder import FeatureEncoder

LABEL = "label"
"""The kind of the column of labels, which is compared only where a table has one."""

KEY = "summary"
"""Where the description of a model has its summary."""

INVALID = (LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """A column of the training.

    Attributes
    ----------
    name, kind : str
        The column, and the kind of its encoder.
    bins : Bins
        Its bins.
    counts : (B,) int array
        Number of training rows in each bin.
    unseen : (3,) array or None
        `moments` of `unseen_shares` of the training; None for numbers and labels.
    words : tuple of str
        The words of most rows, if the column has words.
    word_counts : (W,) int array
        Number of training rows with each of these words.
    """

    name: str
    kind: str
    bins: Bins
    counts: IntArray
    unseen: Array | None = None
    words: tuple[str, ...] = ()
    word_counts: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def state(self) -> dict[str, Any]:
        """The summary as JSON values."""
        words = {"words": list(self.words), "word_counts": self.word_counts.tolist()}
        return {
            "name": self.name, "kind": self.kind, "bins": self.bins.state(),
            "counts": self.counts.tolist(), "unseen": _listed(self.unseen),
            **(words if self.words else {}),
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ColumnSummary:
        """Restore a summary; raises a ValueError, TypeError or KeyError for an invalid state."""
        bins, words = bins_from_state(state["bins"]), tuple(map(str, state.get("words", ())))
        return cls(
            str(state["name"]), str(state["kind"]), bins,
            _counts(state["counts"], len(bins.labels)),
            None if state["unseen"] is None else _sums(state["unseen"]),
            words, _counts(state.get("word_counts", []), len(words)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class PredictionSummary:
    """A property of predictions, such as the confidence.

    Attributes
    ----------
    name : str
        The property.
    bins : Bins
        Its bins.
    references : tuple of (B,) int arrays
        Counts for rows that the networks had not seen and, as rows of the training have other
        predictions, for rows of the training.
    """

    name: str
    bins: Bins
    references: tuple[IntArray, ...]


@dataclass(frozen=True, eq=False)
class Summary:
    """Summaries of all columns and of the predictions of a training.

    Attributes
    ----------
    columns : tuple of ColumnSummary
        The feature columns, and then the labels, of kind `LABEL`.
    pairs : tuple of (Pair, (3,) array)
        Related columns, and the sums of their agreement.
    predictions : dict of str to tuple of PredictionSummary
        For each mode, 'features' and 'links'; empty if unknown.
    """

    columns: tuple[ColumnSummary, ...]
    pairs: tuple[tuple[Pair, Array], ...] = ()
    predictions: Mapping[str, tuple[PredictionSummary, ...]] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        """The summary as JSON values."""
        columns = [one.state() for one in self.columns]
        pairs = [{**pair.state(), "sums": _listed(sums)} for pair, sums in self.pairs]
        predictions = {
            mode: [
                {"name": one.name, "bins": one.bins.state(),
                 "references": [counts.tolist() for counts in one.references]}
                for one in found
            ]
            for mode, found in self.predictions.items()
        }  # fmt: skip
        return {"columns": columns, "pairs": pairs, "predictions": predictions}


def _listed(sums: Array | None) -> list[float] | None:
    return None if sums is None else [round(value, 4) for value in sums.tolist()]


def summarise_columns(
    encoders: FeatureEncoder, rows: pa.Table, label: str = "", labels: Values | None = None
) -> Summary:
    """Summarise the columns of a training.

    Parameters
    ----------
    encoders : FeatureEncoder
        The fitted encoders.
    rows : Table
        Rows of the training, or a random sample of them.
    label : str, optional
        The label column.
    labels : Values, optional
        The labels of the rows, missing where they are unknown.

    Examples
    --------
    >>> from linkdist.tables.feature_encoder import make_feature_encoder
    >>> encoders, rows = make_feature_encoder({"age": "numeric"}), pa.table({"age": [1, 3, None]})
    >>> (age,) = summarise_columns(encoders, rows).columns
    >>> dict(zip(age.bins.labels, age.counts.tolist()))
    {'below 1': 0, '1': 1, '1 to 3': 1, 'above 3': 0, 'missing': 1}
    """
    columns, values = list[ColumnSummary](), list[Values]()
    for encoder in encoders.columns:
        values.append(own := column_values(encoder, rows[encoder.name]))
        unseen = unseen_shares(encoder, own, of_training=True)
        sums = None if unseen is None else moments(unseen)
        bins = fit_bins(own, encoder.kind == "date")
        words = frequent_words(own) if isinstance(own, list) else ()
        in_rows = count_words(own if isinstance(own, list) else [], words)
        counts = bins.count(own)
        columns.append(
            ColumnSummary(encoder.name, encoder.kind, bins, counts, sums, words, in_rows)
        )
    if labels is not None:
        values.append(labels)
        bins = fit_bins(labels)
        columns.append(ColumnSummary(label, LABEL, bins, _known(bins.count(labels))))
    places = [one.bins.place(own) for one, own in zip(columns, values, strict=True)]
    columns = _with_informative_words(columns, values, places)
    places = [one.bins.place(own) for one, own in zip(columns, values, strict=True)]
    pairs = find_pairs(places, [len(one.counts) for one in columns])
    return Summary(tuple(columns), tuple(pairs))


def _with_informative_words(
    columns: Sequence[ColumnSummary], values: Sequence[Values], places: Sequence[IntArray]
) -> list[ColumnSummary]:
    """The same columns, with bins for words that depend on other columns."""
    sizes, found = [len(one.counts) for one in columns], list[ColumnSummary]()
    for k, (one, own) in enumerate(zip(columns, values, strict=True)):
        if not isinstance(own, list) or not one.words:
            found.append(one)
            continue
        others = [j for j in range(min(len(columns), COLUMNS)) if j != k]
        words = informative_words(
            own, one.words, [places[j] for j in others], [sizes[j] for j in others]
        )
        bins = word_bins(own, words)
        found.append(replace(one, bins=bins, counts=bins.count(own)))
    return found


def _in_bins(places: IntArray, bins: Bins) -> IntArray:
    return np.bincount(places, minlength=len(bins.labels))


def _known(counts: IntArray) -> IntArray:
    """Counts of known labels: how many are unknown is no property of the data."""
    return np.append(counts[:-1], 0)


def summarise_predictions(references: Sequence[Mapping[str, Values]]) -> list[dict[str, Any]]:
    """Summarise predictions, as JSON values of `Summary.predictions` of one mode.

    Parameters
    ----------
    references : sequence of mapping of str to Values
        Properties of predictions for one or more groups of rows. The first group chooses the bins.

    Examples
    --------
    >>> summarise_predictions([{"label": pa.array(["a", "b", "a"])}])[0]["references"]
    [[2, 1, 0, 0]]
    """
    found = []
    for name, values in references[0].items():
        bins = fit_bins(values)
        counts = [bins.count(group[name]).tolist() for group in references]
        found.append({"name": name, "bins": bins.state(), "references": counts})
    return found


def read_summary(about: Mapping[str, Any], encoders: FeatureEncoder | None) -> Summary:
    """Read the summary of a model.

    Parameters
    ----------
    about : mapping
        The description of the model; see `linkdist.artifacts.manifest.Header`.
    encoders : FeatureEncoder or None
        The encoders of the model.

    Raises
    ------
    ModelError
        If the model has no summary, or an invalid one.

    Examples
    --------
    >>> read_summary({}, None)
    Traceback (most recent call last):
    linkdist.errors.ModelError: this model has no summary of its training columns, because it was \
trained from a store, from arrays or by an older version. Train again from tables.
    """
    state = about.get(KEY)
    if state is None or encoders is None:
        raise ModelError(
            "this model has no summary of its training columns, because it was trained from a "
            "store, from arrays or by an older version. Train again from tables."
        )
    try:
        return _parse(state, encoders.names)
    except INVALID as error:
        found = f"the summary of the training columns is damaged ({error})"
        raise ModelError(f"{found}. Get a new copy of the model.") from error


def _parse(state: Mapping[str, Any], names: Sequence[str]) -> Summary:
    columns = [ColumnSummary.from_state(one) for one in state["columns"]]
    if tuple(one.name for one in columns if one.kind != LABEL) != tuple(names):
        raise ValueError("it has other columns than the model")
    sizes = [len(one.counts) for one in columns]
    pairs = [(Pair.from_state(one, sizes), _sums(one["sums"])) for one in state["pairs"]]
    predictions = {
        str(mode): tuple(
            PredictionSummary(
                str(one["name"]), bins := bins_from_state(one["bins"]),
                tuple(_counts(counts, len(bins.labels)) for counts in one["references"]),
            )
            for one in found
        )
        for mode, found in state["predictions"].items()
    }  # fmt: skip
    return Summary(tuple(columns), tuple(pairs), predictions)


def _counts(values: Any, size: int) -> IntArray:  # noqa: ANN401
    if len(values) != size or not all(
        type(count) is int and 0 <= count < 2**53 for count in values
    ):
        raise ValueError("there must be a count for each bin and each word")
    return np.array(values, dtype=np.int64)


def _sums(values: Any) -> Array:  # noqa: ANN401
    sums = np.array(values, dtype=np.float64)
    if sums.shape != (3,) or not np.isfinite(sums).all():
        raise ValueError("sums must be three numbers")
    return sums


class Counts:
    """Counts of rows in the bins of a summary.

    Parameters
    ----------
    summary : Summary
        The summary of a model.
    encoders : sequence of Encoder
        The encoders of its columns.
    mode : {'features', 'links'}
        How the rows are predicted.

    Attributes
    ----------
    rows : int
        Number of rows.
    columns, words : lists of int arrays
        Number of rows in each bin and with each word of each column.
    unseen : (C, 3) array
        `moments` of `unseen_shares` of each column; zeros for numbers.
    pairs : (P, 3) array
        Sums of the agreement of related columns.
    predictions : list of (B,) int arrays
        Number of rows in each bin of each property of predictions.

    Examples
    --------
    >>> from linkdist.tables.feature_encoder import make_feature_encoder
    >>> encoders, rows = make_feature_encoder({"age": "numeric"}), pa.table({"age": [1, 3, None]})
    >>> counts = Counts(summarise_columns(encoders, rows), encoders.columns)
    >>> counts.add({"age": pa.array([2, 9, 9])})
    >>> counts.columns[0].tolist()
    [0, 0, 1, 2, 0]
    """

    def __init__(
        self, summary: Summary, encoders: Sequence[Encoder], mode: str = "features"
    ) -> None:
        self.summary, self.mode, self._encoders = summary, mode, encoders
        self.rows = 0
        self.columns = [np.zeros_like(one.counts) for one in summary.columns]
        self.words = [np.zeros_like(one.word_counts) for one in summary.columns]
        self.unseen = np.zeros((len(summary.columns), 3))
        self.pairs = np.zeros((len(summary.pairs), 3))
        found = summary.predictions.get(mode, ())
        self.predictions = [np.zeros_like(one.references[0]) for one in found]

    def add(self, columns: Mapping[str, pa.Array], labels: Values | None = None) -> None:
        """Count rows.

        Parameters
        ----------
        columns : mapping of str to (n,) Arrow array
            The feature columns.
        labels : Values, optional
            Labels, missing where they are unknown.
        """
        places = []
        for k, encoder in enumerate(self._encoders):
            values = column_values(encoder, columns[encoder.name])
            places.append(self.summary.columns[k].bins.place(values))
            self.columns[k] += np.bincount(places[-1], minlength=len(self.columns[k]))
            if isinstance(values, list):
                self.words[k] += count_words(values, self.summary.columns[k].words)
            unseen = unseen_shares(encoder, values)
            if unseen is not None:
                self.unseen[k] += moments(unseen)
        n = len(places[0]) if places else 0
        if len(self.columns) > len(places):
            bins = self.summary.columns[-1].bins
            unknown = np.full(n, len(bins.labels) - 1)
            places.append(unknown if labels is None else bins.place(labels))
            self.columns[-1] += _known(_in_bins(places[-1], bins))
        for k, (pair, _) in enumerate(self.summary.pairs):
            self.pairs[k] += pair.sums(places)
        self.rows += n

    def add_predictions(self, predicted: Mapping[str, Values]) -> None:
        """Count properties of predictions; see `linkdist.tables.prediction_values`."""
        for k, one in enumerate(self.summary.predictions.get(self.mode, ())):
            if one.name in predicted:
                self.predictions[k] += one.bins.count(predicted[one.name])

    def add_counts(self, other: Counts) -> None:
        """Add counts of the same summary."""
        self.rows += other.rows
        for own, more in zip(
            [*self.columns, *self.words, *self.predictions],
            [*other.columns, *other.words, *other.predictions],
            strict=True,
        ):
            own += more
        self.unseen += other.unseen
        self.pairs += other.pairs
