"""The columns of a table of predictions, for each of the three tasks.

=============== ====================================================================================
task            columns
=============== ====================================================================================
classification  `label`, `confidence` (the probability of the label) and `p_<class>` for each class
regression      `predicted`, and `low` and `high`, the ends of the prediction interval
multilabel      `labels`, with lists or separated text; or a column of 0 and 1 for each label, as in
                the training. Then `p_<label>` for each label
=============== ====================================================================================

Training chooses the widths of prediction intervals and the thresholds of labels twice: for
predictions from features and with links. A row without links is predicted from its features, so it
takes those of features even if other rows have links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.data.graph import FloatArray
from linkdist.errors import ModelError, TableError
from linkdist.tables.targets import LabelFormat
from linkdist.tables.validation import SHOWN

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

MODES = ("features", "links")
BETWEEN = "|"
"""What separates labels in a CSV file if the training had lists, which CSV does not have."""


@dataclass(frozen=True, eq=False)
class PredictionColumns:
    """What predictions become: decisions, and the columns of a table.

    Attributes
    ----------
    form : LabelFormat
        The task, the classes, and how the labels of the training are written.
    widths : (2,) array
        Half the width of prediction intervals, from features and with links; NaN if unknown.
    thresholds : (2, C) array
        The probability from which on each of several labels is predicted, likewise.

    Examples
    --------
    >>> about = {"task": "regression", "decision": {"widths": {"features": 2.0, "links": 0.5}}}
    >>> columns = PredictionColumns.of(about | {"label": "margin"}, ("margin",))
    >>> columns.interval(np.array([[3.0], [3.0]]), np.array([False, True])).tolist()
    [[1.0, 5.0], [2.5, 3.5]]
    """

    form: LabelFormat
    widths: Array = field(default_factory=lambda: np.full(2, np.nan))
    thresholds: Array = field(default_factory=lambda: np.full((2, 1), 0.5))

    @classmethod
    def of(
        cls, about: Mapping[str, Any], classes: Sequence[str], task: str | None = None
    ) -> PredictionColumns:
        """The columns of a model's predictions, from what its directory says about the training.

        Parameters
        ----------
        about : mapping
            See `linkdist.artifacts.model_dir.Saved`.
        classes : sequence of str
            Names of the C classes.
        task : str, optional
            What the model predicts; by default as in `about`.

        Raises
        ------
        ModelError
            If there is not a threshold for each class.
        """
        decision = about.get("decision") or {}
        form = LabelFormat.of({**about, "task": task or about.get("task")}, tuple(classes))
        widths, thresholds = np.full(2, np.nan), np.full((2, len(classes)), 0.5)
        try:
            for k, mode in enumerate(MODES):
                given = (decision.get("widths") or {}).get(mode)
                # An infinite width is null in a model directory.
                widths[k] = np.nan if given is None or not np.isfinite(given) else given
                thresholds[k] = (decision.get("thresholds") or {}).get(mode, 0.5)
        except (TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                "the thresholds or intervals of the model are not valid: there must be one for "
                f"each of {len(classes)} classes ({error}). Train again."
            ) from error
        return cls(form, widths, thresholds)

    @property
    def task(self) -> str:
        """What the model predicts."""
        return self.form.task

    @property
    def names(self) -> list[str]:
        """Names of the columns, without that of the ids."""
        if self.task == "regression":
            return ["predicted", "low", "high"]
        p = [f"p_{name}" for name in self.form.classes]
        if self.task == "classification":
            return ["label", "confidence", *p]
        return [*(self.form.classes if self.form.binary else ["labels"]), *p]

    def schema(self, id_name: str, id_type: pa.DataType, lists: bool = True) -> pa.Schema:
        """The columns of a table.

        Parameters
        ----------
        id_name, id_type : str, DataType
            The name and the type of the column of ids.
        lists : bool
            Whether the table can have lists; otherwise labels are separated text.

        Raises
        ------
        TableError
            If two columns have the same name.

        Examples
        --------
        >>> form = LabelFormat("multilabel", ("even", "loop"), ("even", "loop"), binary=True)
        >>> PredictionColumns(form).schema("image", pa.int64()).names
        ['image', 'even', 'loop', 'p_even', 'p_loop']
        """
        names, classes = self.names, self.form.classes
        if id_name in names:
            advice = f"Rename it; the columns of predictions are {', '.join(names)}."
            raise TableError(f"{id_name!r} cannot be the name of the column of ids. {advice}")
        if again := sorted({name for name in names if names.count(name) > 1}):
            rule = "columns of predictions must have different names"
            raise TableError(f"{rule}; found several {', '.join(again)}. Rename the labels.")
        types: list[pa.DataType] = [pa.float32()] * len(names)
        if self.task == "classification":
            types[0] = pa.string()
        elif self.task == "multilabel" and self.form.binary:
            types[: len(classes)] = [pa.int8()] * len(classes)
        elif self.task == "multilabel":
            in_lists = lists and self.form.separator is None
            types[0] = pa.list_(pa.string()) if in_lists else pa.string()
        return pa.schema(list(zip([id_name, *names], [id_type, *types], strict=True)))

    def batch(
        self, ids: pa.Array, values: FloatArray, schema: pa.Schema, linked: Mask | None = None
    ) -> pa.RecordBatch:
        """Rows of a table.

        Parameters
        ----------
        ids : (n,) Arrow array
            Ids.
        values : (n, C) array
            Probabilities; for regression, numbers (n, 1).
        schema : Schema
            The result of `schema`.
        linked : (n,) array of bool, optional
            Which rows have links; by default none.

        Raises
        ------
        TableError
            If a prediction is not a finite number.
        """
        _check_finite(ids, values)
        columns: list[Any]
        if self.task == "regression":
            ends = self.interval(values, linked).T
            columns = [values[:, 0], *(pa.array(end, mask=np.isnan(end)) for end in ends)]
        elif self.task == "classification":
            best = pa.array(values.argmax(axis=1))
            names = pa.array(self.form.classes, pa.string())
            columns = [names.take(best), values.max(axis=1), *values.T]
        else:
            decided = self.decided(values, linked)
            columns = [*self._written(decided, schema.types[1]), *values.T]
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column)
            for column in [ids, *columns]
        ]
        cast = [array.cast(kind) for array, kind in zip(arrays, schema.types, strict=True)]
        return pa.record_batch(cast, schema=schema)

    def _written(self, decided: Mask, kind: pa.DataType) -> list[pa.Array]:
        """Labels in the way of the training."""
        if self.form.binary:
            return [pa.array(column.astype(np.int8)) for column in decided.T]
        return [self.label_lists(decided, in_lists=pa.types.is_list(kind))]

    def label_lists(self, decided: Mask, in_lists: bool = False) -> pa.Array:
        """The names of the labels of each row, as separated text or in lists.

        Parameters
        ----------
        decided : (n, C) array of bool
            Which labels a row has.
        in_lists : bool
            Whether to return lists.
        """
        names = np.array(self.form.classes)
        rows = [names[row].tolist() for row in decided]
        if in_lists:
            return pa.array(rows, pa.list_(pa.string()))
        return pa.array([(self.form.separator or BETWEEN).join(row) for row in rows], pa.string())

    def decided(self, p: npt.ArrayLike, linked: Mask | None = None) -> Mask:
        """Which labels are predicted, (n, C), from their probabilities (n, C).

        Examples
        --------
        >>> decision = {"thresholds": {"features": [0.5, 0.2], "links": [0.7, 0.2]}}
        >>> columns = PredictionColumns.of({"task": "multilabel", "decision": decision}, "ab")
        >>> columns.decided([[0.6, 0.3]], np.array([True])).tolist()
        [[False, True]]
        """
        p = np.asarray(p, dtype=np.float64)
        found: Mask = p >= self.thresholds[_mode(linked, len(p))]
        return found

    def interval(self, values: npt.ArrayLike, linked: Mask | None = None) -> Array:
        """The ends (n, 2) of the prediction intervals of numbers (n, 1); NaN if unknown."""
        middle = np.asarray(values, dtype=np.float64).reshape(-1)
        half = self.widths[_mode(linked, len(middle))]
        return np.stack([middle - half, middle + half], axis=1)

    def lacks_intervals(self, linked: Mask | None = None) -> bool:
        """Whether some rows have no prediction interval."""
        modes = [0] if linked is None else np.unique(_mode(linked, len(linked)))
        return bool(np.isnan(self.widths[modes]).any())


NO_INTERVALS = (
    "the model has no prediction intervals, because its training had too few validation rows. "
    "Train on more labels, and hold some out"
)


def _check_finite(ids: pa.Array, values: FloatArray) -> None:
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        shown = ", ".join(str(ids[int(row)]) for row in bad[:SHOWN]) + ", ..." * (len(bad) > SHOWN)
        rule = "the model gives no finite prediction, because their numbers are too large"
        raise TableError(f"{rule}, for {len(bad)} rows with the ids {shown}. Correct them.")


def _mode(linked: Mask | None, n: int) -> npt.NDArray[np.int64]:
    """The mode of each row, a position in `MODES`."""
    return np.zeros(n, dtype=np.int64) if linked is None else linked.astype(np.int64)
