"""The properties of predictions and labels that are counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from linkdist.data.graph import FloatArray, Labels, known_labels
from linkdist.tables.column_values import Values
from linkdist.tables.prediction_columns import Mask, PredictionColumns
from linkdist.tables.targets import LabelFormat

NOTHING = "(no label)"
"""What counts as the label of a row without one, which is not a missing value."""


def prediction_values(
    columns: PredictionColumns, p: FloatArray, linked: Mask | None = None
) -> dict[str, Values]:
    """The properties of predictions.

    Parameters
    ----------
    columns : PredictionColumns
        Turns probabilities into labels.
    p : (n, C) array
        Probabilities; for regression, numbers (n, 1).
    linked : (n,) array of bool, optional
        Which rows have links.

    Returns
    -------
    dict of str to Values
        For regression the number, otherwise the class or the labels, and the confidence: the
        probability of the class or, of several labels, the mean probability of being right.

    Examples
    --------
    >>> columns = PredictionColumns.of({"label": "field"}, ("art", "math"))
    >>> found = prediction_values(columns, np.array([[0.25, 0.75]]))
    >>> found["predicted class"].to_pylist(), found["confidence"].tolist()
    (['math'], [0.75])
    """
    if columns.task == "regression":
        return {"predicted value": p[:, 0].astype(np.float64)}
    if columns.task == "multilabel":
        names = np.array(columns.form.classes)
        labels = [names[row].tolist() or [NOTHING] for row in columns.decided(p, linked)]
        certain = np.maximum(p, 1 - p).mean(axis=1)
        return {"predicted labels": labels, "confidence": certain.astype(np.float64)}
    classes = pa.array(columns.form.classes, pa.large_string()).take(pa.array(p.argmax(axis=1)))
    return {"predicted class": classes, "confidence": p.max(axis=1).astype(np.float64)}


def label_values(form: LabelFormat, labels: Labels) -> Values:
    """Labels as values that can be counted; unknown ones are missing.

    Parameters
    ----------
    form : LabelFormat
        The task and the classes.
    labels : array
        As `LabelFormat.encode` returns them.

    Examples
    --------
    >>> form = LabelFormat("classification", ("field",), ("art", "math"))
    >>> label_values(form, np.array([1, -1])).to_pylist()
    ['math', None]
    """
    known = known_labels(labels)
    if form.task == "regression":
        return np.where(known, labels, np.nan).astype(np.float64)
    if form.task == "multilabel":
        names = np.array(form.classes)
        rows = [names[row == 1].tolist() or [NOTHING] for row in labels]
        return [row if is_known else [] for row, is_known in zip(rows, known, strict=True)]
    classes = pa.array(form.classes, pa.large_string())
    return classes.take(pa.array(np.where(known, labels, 0), mask=~known))
