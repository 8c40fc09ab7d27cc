"""Explain predictions: what each part of a row contributes.

The explained quantity is the log-odds of a class or label, ln(p / (1 - p)), or the predicted
number. Its base is the prediction of a row without values and without links. Contributions add up:
base + sum of the contributions = the prediction. A positive contribution speaks for the class.

1. The columns, and the links of each relation, share the difference from the base by their Shapley
   values (`linkdist.inference.shapley`).
2. A word, tag or neighbour contributes what the prediction loses if it is removed from the row.
   What the words of a column contribute beyond that is a part of its own, 'words together': many
   words often say the same, so removing one of them changes little.

The words could share the contribution of their column by Shapley values, too. These average over
rows of very few words. Such rows are unlike those of the training, and the network normalises its
hidden units, so they distort the values: on real texts, the word with the largest value was often
not the one whose removal changes the prediction most (`benchmarks/results/explain.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from linkdist.errors import OptionError, TableError, check_names
from linkdist.inference.explain_parts import Name, RowParts
from linkdist.inference.heads import Heads, Neighbours, expit
from linkdist.inference.shapley import Mask, Values, shapley_values
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.prediction_columns import PredictionColumns

MOST = 256
"""Number of words and tags of a column, and neighbours of a relation, that are removed singly."""

TOO_LARGE = "the values are too large: the model gives no prediction. Use smaller numbers."


@dataclass(frozen=True)
class Part:
    """A part of a row, and what it contributes.

    Attributes
    ----------
    kind, column, value : str
        See `linkdist.inference.explain_parts.Name`.
    contribution : float
        The share of the part in the difference between the prediction and the base.
    """

    kind: str
    column: str
    value: str
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """Why a row is predicted as it is.

    Attributes
    ----------
    row : int
        The position of the row among those that are explained.
    label : str
        The class or label that is explained; for regression, the name of the number.
    score : float
        The log-odds of the label, or the predicted number: `base` plus all contributions.
    base : float
        The same without any part.
    parts : tuple of Part
        The parts, the largest absolute contribution first. Parts without a feature, such as missing
        values and unknown words, are left out.
    probability, base_probability : float or None
        The probabilities that the log-odds `score` and `base` stand for; None for regression.
    mode : {'features', 'links'}
        Whether the row has links.
    """

    row: int
    label: str
    score: float
    base: float
    parts: tuple[Part, ...]
    probability: float | None
    base_probability: float | None
    mode: str


def explain(
    heads: Heads,
    encoders: FeatureEncoder,
    columns: PredictionColumns,
    rows: pa.RecordBatch,
    neighbours: Sequence[Neighbours | None] | None = None,
    labels: Sequence[str] | None = None,
) -> Iterator[Explanation]:
    """Explain the predictions of rows.

    Parameters
    ----------
    heads : Heads
        The network.
    encoders : FeatureEncoder
        The encoders of its columns.
    columns : PredictionColumns
        Decides which labels are predicted.
    rows : RecordBatch of n rows
        The columns of the encoders.
    neighbours : sequence of Neighbours, optional
        The neighbours of each row; None for a row without links.
    labels : sequence of str, optional
        The classes or labels to explain. By default, the predicted class; of several labels, all
        that are predicted or, if there is none, the most probable one.

    Yields
    ------
    Explanation
        One for each row and label, in the order of the rows.

    Raises
    ------
    OptionError
        If a label is unknown, or if the model predicts a number.
    TableError
        If a row has values that are too large for the network.
    """
    chosen = chosen_labels(columns, labels)
    for row in range(rows.num_rows):
        near = None if neighbours is None else neighbours[row]
        parts = RowParts(encoders, rows.slice(row, 1), MOST)
        yield from _explain_row(row, _Row(heads, parts, near), columns, chosen)


def chosen_labels(columns: PredictionColumns, labels: Sequence[str] | None) -> list[int] | None:
    """The positions of labels among the classes of a model.

    Examples
    --------
    >>> chosen_labels(PredictionColumns.of({"task": "classification"}, ("art", "math")), ["math"])
    [1]
    """
    if not labels:
        return None
    if columns.task == "regression":
        raise OptionError(
            "the model predicts a number, so there is no class to explain; leave the class out."
        )
    check_names("class", labels, columns.form.classes)
    return [columns.form.classes.index(label) for label in dict.fromkeys(labels)]


@dataclass(frozen=True, eq=False)
class _Row:
    """A row, its parts and its neighbours, and what a network predicts for some of them."""

    heads: Heads
    own: RowParts
    near: Neighbours | None

    @property
    def names(self) -> list[Name]:
        return self.own.names + ([] if self.near is None else self.near.names)

    def value(self, present: Mask) -> Values:
        """The log-odds or numbers (V, C) of the row with some of its parts (V, G)."""
        G = len(self.own.names)
        own, _ = self.heads.outputs(self.own.features(present[:, :G]))
        scores = self.heads.combined(own, present[:, G:], self.near)
        if not np.isfinite(scores).all():
            raise TableError(TOO_LARGE)
        return self.heads.explained(scores)


def _explain_row(
    number: int, row: _Row, columns: PredictionColumns, chosen: list[int] | None
) -> Iterator[Explanation]:
    """The explanations of one row."""
    linked, is_number = row.near is not None, columns.task == "regression"
    base, total, names, contributions = _contributions(row)
    for k in chosen or _predicted(total, columns, linked):
        found = contributions[:, k]
        order = np.argsort(-np.abs(found), kind="stable").tolist()
        yield Explanation(
            row=number,
            label=columns.form.classes[k],
            score=float(total[k]),
            base=float(base[k]),
            parts=tuple(_part(names[i], found[i]) for i in order),
            probability=None if is_number else float(expit(total[k])),
            base_probability=None if is_number else float(expit(base[k])),
            mode="links" if linked else "features",
        )


def _contributions(row: _Row) -> tuple[Values, Values, list[Name], Values]:
    """Base (C,), prediction (C,), parts, and their contributions (parts, C)."""
    names = row.names
    keys = [(name.kind.startswith("neighbour"), name.column) for name in names]
    sources = list(dict.fromkeys(keys))
    source = np.array([sources.index(key) for key in keys], dtype=np.int64)
    base, total, shares = shapley_values(lambda on: row.value(on[:, source]), len(sources))
    several = np.flatnonzero(np.bincount(source, minlength=len(sources))[source] > 1)
    contributions = shares[source]
    if len(several):
        without = np.ones((len(several), len(names)), dtype=bool)
        without[np.arange(len(several)), several] = False
        contributions[several] = total - row.value(without)
    for k in np.unique(source[several]).tolist():
        mine = np.flatnonzero(source == k)
        kind = names[mine[0]].kind.removesuffix("s")
        names = [*names, Name("together", sources[k][1], f"{kind}s together")]
        rest = shares[k] - contributions[mine].sum(axis=0)
        contributions = np.concatenate([contributions, rest[None]])
    return base, total, names, contributions


def _predicted(total: Values, columns: PredictionColumns, linked: bool) -> list[int]:
    """The classes that are predicted, the most probable one first."""
    order = np.argsort(-total, kind="stable")
    if columns.task != "multilabel":
        return [int(order[0])]
    decided = columns.decided(expit(total)[None], np.array([linked]))[0]
    return [int(k) for k in order if decided[k]] or [int(order[0])]


def _part(name: Name, contribution: np.float64) -> Part:
    return Part(name.kind, name.column, name.value, float(contribution))
