"""The columns of a table of predictions, for each of the three tasks.

=============== ====================================================================================
task            columns
=============== ====================================================================================
classification  `label`, `confidence` (the probability of the label) and `p_<class>` for each
                class. If they are asked for, `set` has the classes of a conformal set, and `label`
                is empty for the least certain rows (`linkdist.tables.certainty`)
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
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.data.graph import FloatArray
from linkdist.errors import ModelError, OptionError, TableError
from linkdist.tables.certainty import MODES as MODES
from linkdist.tables.certainty import PLAIN, Caution, Certainty
from linkdist.tables.targets import LabelFormat
from linkdist.tables.validation import SHOWN

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

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
    certainty : Certainty, optional
        What sets and unanswered rows are made from; None if the model does not have it.
    caution : Caution
        Which sets there are, and which share of rows is left unanswered.

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
    certainty: Certainty | None = None
    caution: Caution = PLAIN

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
        # An update changes the weights, and what was measured before says nothing about them.
        measured = None if about.get("updates") else about.get("certainty")
        return cls(form, widths, thresholds, Certainty.read(measured))

    def cautious(self, caution: Caution) -> PredictionColumns:
        """The same columns with conformal sets, or without labels of the least certain rows.

        Raises
        ------
        OptionError
            If a share is not between 0 and 1, or if rows do not have one class each.
        ModelError
            If the model does not have the scores that this needs.

        Examples
        --------
        >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
        >>> certainty = Certainty.of({"features": p, "links": p}, np.array([0, 0, 0, 1]))
        >>> columns = PredictionColumns.of({"certainty": certainty.state()}, "ab")
        >>> columns = columns.cautious(Caution(sets=0.7, abstain=0.25))
        >>> columns.names
        ['label', 'confidence', 'set', 'p_a', 'p_b']
        >>> columns.sets(p).tolist()
        [[True, False], [True, True], [True, False], [False, True]]
        >>> columns.answered(p).tolist()
        [True, False, True, True]
        """
        caution.check()
        if caution == PLAIN:
            return self
        if self.task != "classification":
            raise OptionError(NOT_CLASSES[self.task])
        if self.certainty is None:
            raise ModelError(NO_CERTAINTY)
        return replace(self, caution=caution)

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
            return ["label", "confidence", *(["set"] if self.caution.sets else []), *p]
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
        if self.caution.sets and not lists and any(BETWEEN in name for name in classes):
            rule = f"{BETWEEN} separates the classes of a set in text, so no class may contain it"
            raise TableError(f"{rule}. Write Parquet, which has lists, or rename the classes.")
        types: list[pa.DataType] = [pa.float32()] * len(names)
        texts = pa.list_(pa.string()) if lists and self.form.separator is None else pa.string()
        if self.task == "classification":
            types[0] = pa.string()
            types[2] = texts if self.caution.sets else types[2]
        elif self.task == "multilabel" and self.form.binary:
            types[: len(classes)] = [pa.int8()] * len(classes)
        elif self.task == "multilabel":
            types[0] = texts
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
            best = pa.array(values.argmax(axis=1), mask=~self.answered(values, linked))
            names = pa.array(self.form.classes, pa.string())
            columns = [names.take(best), values.max(axis=1), *values.T]
            if self.caution.sets:
                in_lists = pa.types.is_list(schema.types[3])
                columns.insert(2, self.label_lists(self.sets(values, linked), in_lists))
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
        found: Mask = p >= self.thresholds[modes_of(linked, len(p))]
        return found

    def sets(self, p: npt.ArrayLike, linked: Mask | None = None) -> Mask:
        """Which classes (n, C) are in the conformal set of each row, from probabilities (n, C)."""
        p = np.asarray(p, dtype=np.float64)
        assert self.certainty is not None
        assert self.caution.sets is not None
        found: Mask = (
            p >= self.certainty.thresholds(self.caution.sets)[modes_of(linked, len(p)), None]
        )
        found[np.arange(len(p)), p.argmax(axis=1)] = True
        return found

    def answered(self, p: npt.ArrayLike, linked: Mask | None = None) -> Mask:
        """Which rows (n,) are certain enough to be answered, from probabilities (n, C)."""
        p = np.asarray(p, dtype=np.float64)
        if self.certainty is None or self.caution.abstain is None:
            return np.ones(len(p), dtype=bool)
        least = self.certainty.least(self.caution.abstain)
        certain: Mask = p.max(axis=1) >= least[modes_of(linked, len(p))]
        return certain

    def answered_text(self, rows: npt.NDArray[np.int64], answered: npt.NDArray[np.int64]) -> str:
        """What is answered and how often it is right; empty if all rows are answered.

        Parameters
        ----------
        rows, answered : (2,) arrays of int
            Number of rows, and of those that are answered, from features and with links.
        """
        if self.certainty is None or self.caution.abstain is None:
            return ""
        return self.certainty.answered_text(self.caution.abstain, rows, answered)

    def too_few(self) -> str:
        """A sentence if there are too few labels for the sets that are asked for, else empty."""
        if self.certainty is None or self.caution.sets is None:
            return ""
        return self.certainty.too_few(self.caution.sets)

    def interval(self, values: npt.ArrayLike, linked: Mask | None = None) -> Array:
        """The ends (n, 2) of the prediction intervals of numbers (n, 1); NaN if unknown."""
        middle = np.asarray(values, dtype=np.float64).reshape(-1)
        half = self.widths[modes_of(linked, len(middle))]
        return np.stack([middle - half, middle + half], axis=1)

    def lacks_intervals(self, linked: Mask | None = None) -> bool:
        """Whether some rows have no prediction interval."""
        modes = [0] if linked is None else np.unique(modes_of(linked, len(linked)))
        return bool(np.isnan(self.widths[modes]).any())


NO_INTERVALS = (
    "the model has no prediction intervals, because its training had too few validation rows. "
    "Train on more labels, and hold some out"
)
NO_CERTAINTY = (
    "the model has no scores of labels that training had not seen, which sets and unanswered rows "
    "are made from: it was trained by an older version, by another method than SelfLinkDist or "
    "without validation rows, or it was updated. Train again with the default method."
)
NOT_CLASSES = {
    "regression": "sets and unanswered rows are for classes; this model predicts a number, whose "
    "prediction interval is in the columns low and high.",
    "multilabel": "sets and unanswered rows are for one class per row; this model predicts several "
    "labels, each from a threshold of its probability on.",
}
"""Why predictions of other tasks have no sets."""


def _check_finite(ids: pa.Array, values: FloatArray) -> None:
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        shown = ", ".join(str(ids[int(row)]) for row in bad[:SHOWN]) + ", ..." * (len(bad) > SHOWN)
        rule = "the model gives no finite prediction, because their numbers are too large"
        raise TableError(f"{rule}, for {len(bad)} rows with the ids {shown}. Correct them.")


def modes_of(linked: Mask | None, n: int) -> npt.NDArray[np.int64]:
    """The mode of each row, a position in `MODES`."""
    return np.zeros(n, dtype=np.int64) if linked is None else linked.astype(np.int64)
