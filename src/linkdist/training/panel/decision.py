"""What follows from probabilities: decisions that validation nodes choose.

A regression has prediction intervals, several labels have thresholds, and a model that is chosen by
macro F1 has factors of the class probabilities. Classes have conformal sets, and a confidence below
which a row is left unanswered. All of them come from predictions of validation nodes. For
estimates, the thresholds and factors of a node are chosen without it, for this model and for the
baselines alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import logit

from linkdist.data.graph import Labels
from linkdist.tables.certainty import Certainty
from linkdist.training.decisions import class_factors, conformal_width, label_thresholds
from linkdist.training.measures import Measure
from linkdist.training.panel.ensemble import Predictions
from linkdist.training.panel.families import Family
from linkdist.training.panel.likelihood import Array

COVERAGE = 0.9
"""The share of numbers that prediction intervals contain."""
PARTS = 5
"""Number of parts of the validation nodes: the decision of a part is chosen on the others."""
MODES = ("features", "links")


@dataclass(frozen=True)
class Decision:
    """How predictions are turned into decisions.

    Attributes
    ----------
    widths : mapping of str to float, optional
        Half the width of the prediction intervals of a regression, for each mode.
    thresholds : mapping of str to list of float, optional
        The probability from which each of several labels is predicted, for each mode.
    factors : list of float, optional
        Factors of the class probabilities, which the weights of the model contain.
    certainty : Certainty, optional
        What conformal sets of classes and unanswered rows are made from.
    """

    widths: Mapping[str, float] | None = None
    thresholds: Mapping[str, list[float]] | None = None
    factors: list[float] | None = None
    certainty: Certainty | None = None

    def as_json(self) -> dict[str, Any]:
        """The decision as JSON values, without `certainty`, which has its own place in a model.

        An infinite width becomes null when it is written.
        """
        parts = {one.name: getattr(self, one.name) for one in fields(self)}
        del parts["certainty"]
        found = {name: value for name, value in parts.items() if value is not None}
        # Readers without PyTorch, such as a service, say what share of numbers intervals contain.
        return {**found, "coverage": COVERAGE} if self.widths else found


def decide(
    task: str,
    measure: Measure,
    family: Family,
    predictions: Mapping[str, Predictions],
    factors: Array | None = None,
) -> Decision:
    """The decision from predictions of validation nodes in both modes.

    Parameters
    ----------
    task : str
        The task.
    measure : Measure
        What the model is chosen by.
    family : Family
        Turns scores into probabilities or numbers.
    predictions : mapping of str to Predictions
        Predictions of 'features' and 'links'.
    factors : (C,) array, optional
        Factors of the classes that are given, instead of chosen.
    """
    values = {mode: family.mean(predictions[mode].scores) for mode in MODES}
    labels = predictions["features"].labels
    if task == "regression":
        residuals = {mode: labels - found[:, 0] for mode, found in values.items()}
        return Decision(
            widths={mode: conformal_width(r, COVERAGE) for mode, r in residuals.items()}
        )
    if task == "multilabel":
        chosen = {mode: label_thresholds(found, labels) for mode, found in values.items()}
        return Decision(thresholds={mode: part.tolist() for mode, part in chosen.items()})
    if factors is None and measure.name == "macro-f1":
        factors = class_factors(values["features"], labels)
    return Decision(factors=None if factors is None else factors.tolist())


def decided(task: str, measure: Measure, family: Family, predictions: Predictions) -> Predictions:
    """Predictions whose decision is that of 0.5 or of the largest probability.

    The decision of each node is chosen on other nodes. Measures that do not depend on a decision
    leave predictions as they are.
    """
    scores, labels = predictions
    if not measure.name.endswith("f1") or len(labels) < 2 * PARTS:
        return predictions
    part = np.random.default_rng(0).permutation(len(labels)) % PARTS
    shifted = scores.copy()
    for k in range(PARTS):
        rest = part != k
        shifted[~rest] += _shift(task, family.mean(scores[rest]), labels[rest])
    return Predictions(shifted, labels)


def _shift(task: str, p: Array, labels: Labels) -> Array:
    """What to add to scores, from the probabilities and labels of other nodes."""
    if task == "multilabel":
        shift: Array = -logit(np.clip(label_thresholds(p, labels), 1e-6, 1 - 1e-6))
        return shift
    return np.log(class_factors(p, labels))


def with_factors(predictions: Predictions, factors: Array) -> Predictions:
    """Class probabilities multiplied by factors (C,)."""
    scores = predictions.scores + np.log(factors)
    scores = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    return Predictions(scores, predictions.labels)
