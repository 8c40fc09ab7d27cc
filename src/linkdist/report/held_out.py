"""Predictions of validation nodes, as the model would decide them.

Thresholds of labels and factors of classes are chosen on validation nodes. So that they do not look
better than they are, those of a node are chosen without it, as in the estimates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linkdist.data.graph import Labels
from linkdist.report.score_text import MODES, measure_named
from linkdist.training.decisions import class_factors
from linkdist.training.fit import Fit
from linkdist.training.measures import Array, measure_for
from linkdist.training.panel.decision import decided, with_factors
from linkdist.training.panel.ensemble import Predictions
from linkdist.training.panel.estimates import Estimates
from linkdist.training.panel.families import family_of


class HeldOut(NamedTuple):
    """Predictions of validation nodes in one mode.

    Attributes
    ----------
    values : (N, C) array
        Probabilities or numbers. A class is predicted if its probability is the largest, one of
        several labels if its probability is at least 0.5.
    labels : (N, ...) array
        The true labels.
    ranked : (N, C) array
        What the model itself returns for such a node, to rank nodes by. It differs from `values`
        where the decision for a node was chosen without it.
    """

    values: Array
    labels: Labels
    ranked: Array


def held_out_predictions(result: Fit, task: str) -> dict[str, HeldOut]:
    """Predictions of validation nodes for each mode; empty if the training has none."""
    predictions = result.predictions.get("new row") or result.predictions.get("validation")
    if not predictions:
        return {}
    chosen_by = result.estimates.measure if result.estimates else None
    measure = measure_for(task, "micro-f1" if task == "multilabel" else chosen_by)
    family, found = family_of(task), {}
    factors = _chosen_factors(result, task, predictions["features"])
    for mode in MODES:
        part = predictions[mode]
        own = part if factors is None else with_factors(part, factors)
        values = family.mean(_normalised(decided(task, measure, family, part), part, task))
        found[mode] = HeldOut(values, part.labels, family.mean(own.scores))
    return found


def _normalised(shifted: Predictions, part: Predictions, task: str) -> Array:
    """Scores; log-probabilities of classes whose sum is 1 after a decision shifted them."""
    if task != "classification" or shifted is part:
        return shifted.scores
    return shifted.scores - np.logaddexp.reduce(shifted.scores, axis=1, keepdims=True)


def _chosen_factors(result: Fit, task: str, features: Predictions) -> Array | None:
    """Factors of classes that these predictions chose; factors that were given are in them."""
    if task != "classification" or result.decision.factors is None:
        return None
    factors = np.array(result.decision.factors)
    chosen = class_factors(np.exp(features.scores), features.labels)
    return factors if np.allclose(factors, chosen) else None


def chosen_scores(estimates: Estimates | None) -> dict[str, float]:
    """The estimated scores of the measure that the model was chosen by, with their names.

    Examples
    --------
    >>> from linkdist.training.panel.estimates import Score
    >>> ours = [Score("", 0.8, 0.7, 0.9, False), Score("", 0.85, 0.75, 0.95, True)]
    >>> chosen_scores(Estimates(20, "folds", ours, [], [], [], measure="roc-auc"))
    {'ROC AUC from features': 0.8, 'ROC AUC with links': 0.85}
    """
    if estimates is None:
        return {}
    title = measure_named(estimates.measure).title
    names = [f"{title} {mode}" for mode in MODES.values()]
    return dict(zip(names, (score.value for score in estimates.new_rows), strict=True))
