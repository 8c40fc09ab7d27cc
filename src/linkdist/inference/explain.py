"""Explain predictions: what each part of a row contributes.

The explained quantity is the log-odds of a class or label, ln(p / (1 - p)), or the predicted
number. Its base is the prediction of a row without values and without links. Contributions are
Shapley values (`linkdist.inference.shapley`): base + sum of the contributions = the prediction. A
positive contribution speaks for the class.

Long texts, many tags and many neighbours have more parts than can be computed at once. The parts
whose removal changes the prediction most are then explained one by one, and the rest together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import expit

from linkdist.errors import OptionError, TableError, check_names
from linkdist.inference.explain_parts import Name, RowParts
from linkdist.inference.heads import Heads, Neighbours
from linkdist.inference.shapley import Mask, Values, shapley_values
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.prediction_columns import PredictionColumns

MOST = 32
"""Number of parts that are explained one by one, if there are more words, tags and neighbours."""

SCREENED = 256
"""Number of words, tags and neighbours whose removal is tried; the heaviest ones."""

ROWS = 512
"""Number of subsets of the parts that are computed for a row."""

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
        parts = RowParts.of(encoders, rows.slice(row, 1))
        yield from _explain_row(row, _Game(heads, parts, near), columns, chosen)


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
class _Game:
    """A row, its parts and its neighbours, and what a network predicts for some of them."""

    heads: Heads
    row: RowParts
    near: Neighbours | None

    @property
    def names(self) -> list[Name]:
        return self.row.names + ([] if self.near is None else self.near.names)

    def value(self, present: Mask) -> Values:
        """The log-odds or numbers (V, C) of subsets (V, G)."""
        G = len(self.row.names)
        own, _ = self.heads.outputs(self.row.features(present[:, :G]))
        scores = self.heads.combined(own, present[:, G:], self.near)
        if not np.isfinite(scores).all():
            raise TableError(TOO_LARGE)
        return self.heads.explained(scores)

    def grouped(self, kept: npt.NDArray[np.int64]) -> _Game:
        """The same row, where all words, tags and neighbours but the kept ones are grouped."""
        G = len(self.row.names)
        near = None if self.near is None else self.near.grouped(kept[kept >= G] - G)
        return _Game(self.heads, self.row.grouped(kept[kept < G]), near)

    def weights(self) -> Values:
        if self.near is None:
            return self.row.weights
        total = self.near.weights.sum(axis=1)
        return np.concatenate([self.row.weights, total / total.sum()])


def _explain_row(
    row: int, game: _Game, columns: PredictionColumns, chosen: list[int] | None
) -> Iterator[Explanation]:
    linked = game.near is not None
    game = _with_few_parts(game, columns, chosen)
    G = len(game.names)
    pairs = max(1, ROWS // max(1, 2 * G))
    base, total, contributions = shapley_values(game.value, G, pairs)
    is_number = columns.task == "regression"
    for k in chosen or _predicted(total, columns, linked):
        found = contributions[:, k]
        order = np.argsort(-np.abs(found), kind="stable")
        ordered = [(game.names[i], float(found[i])) for i in order]
        yield Explanation(
            row=row,
            label=columns.form.classes[k],
            score=float(total[k]),
            base=float(base[k]),
            parts=tuple(Part(name.kind, name.column, name.value, x) for name, x in ordered),
            probability=None if is_number else float(expit(total[k])),
            base_probability=None if is_number else float(expit(base[k])),
            mode="links" if linked else "features",
        )


def _predicted(total: Values, columns: PredictionColumns, linked: bool) -> list[int]:
    """The classes that are predicted, the most probable one first."""
    order = np.argsort(-total, kind="stable")
    if columns.task != "multilabel":
        return [int(order[0])]
    decided = columns.decided(expit(total)[None], np.array([linked]))[0]
    return [int(k) for k in order if decided[k]] or [int(order[0])]


def _with_few_parts(game: _Game, columns: PredictionColumns, chosen: list[int] | None) -> _Game:
    """Group words, tags and neighbours whose removal changes little, if there are many parts."""
    if len(game.names) <= MOST:
        return game
    game = game.grouped(_strongest(game, game.weights(), SCREENED))
    G = len(game.names)
    if G <= MOST:
        return game
    values = game.value(~np.eye(G + 1, G, dtype=bool))  # the last row has all parts
    classes = chosen or _predicted(values[-1], columns, game.near is not None)
    change = np.abs(values[:-1, classes] - values[-1, classes]).max(axis=1)
    return game.grouped(_strongest(game, change, MOST))


def _strongest(game: _Game, weights: Values, most: int) -> npt.NDArray[np.int64]:
    """The positions of all columns, and of the heaviest words, tags and neighbours."""
    weights = np.where([name.kind == "column" for name in game.names], np.inf, weights)
    return np.sort(np.argsort(-weights, kind="stable")[:most])
