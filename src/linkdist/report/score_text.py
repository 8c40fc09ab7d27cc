"""Scores as text, for the page, the model card and the command line.

Shares such as accuracy, F1 and ROC AUC are percentages. R² is a number, and the mean absolute error
a number in the unit of the labels. The model card reads stored scores, in which a value that is not
defined is None.
"""

from __future__ import annotations

import math

from linkdist.report.svg import percent
from linkdist.training.measures import MEASURES, Measure

KNOWN = {measure.name: measure for measures in MEASURES.values() for measure in measures}
UNDEFINED = "undefined"
MODES = {"features": "from features", "links": "with links"}
"""The modes of prediction, in sentences."""


def measure_named(name: object) -> Measure:
    """The measure with a name that was stored; accuracy if there is no such measure.

    Examples
    --------
    >>> measure_named("roc-auc").title, measure_named(None).title
    ('ROC AUC', 'accuracy')
    """
    return KNOWN.get(str(name), KNOWN["accuracy"])


def is_number(value: object) -> bool:
    """Whether a stored score is defined.

    Examples
    --------
    >>> is_number(0.5), is_number(None), is_number(float("nan"))
    (True, False, False)
    """
    return isinstance(value, int | float) and not math.isnan(value)


def score_text(value: float | None, measure: Measure) -> str:
    r"""A score.

    Examples
    --------
    >>> score_text(0.825, measure_named("accuracy")), score_text(0.825, measure_named("r2"))
    ('82.5\xa0%', '0.825')
    >>> score_text(12345.6, measure_named("mae")), score_text(None, measure_named("mae"))
    ('12,346', 'undefined')
    """
    if value is None or not is_number(value):
        return UNDEFINED
    return percent(value) if measure.percent else measure.text(value)


def interval_text(low: float | None, high: float | None, measure: Measure) -> str:
    r"""An interval of a score.

    Examples
    --------
    >>> interval_text(0.701, 0.9, measure_named("accuracy"))
    '70.1 to 90.0\xa0%'
    >>> interval_text(0.701, 0.9, measure_named("r2")), interval_text(None, None, KNOWN["r2"])
    ('0.701 to 0.900', 'undefined')
    """
    if low is None or high is None or not (is_number(low) and is_number(high)):
        return UNDEFINED
    first = f"{100 * low:.1f}" if measure.percent else measure.text(low)
    return f"{first} to {score_text(high, measure)}"


def gain_text(gain: float | None, measure: Measure) -> str:
    """A difference of scores with its sign.

    Examples
    --------
    >>> gain_text(0.0312, measure_named("accuracy")), gain_text(-0.5, measure_named("r2"))
    ('+3.1 points', '−0.500')
    >>> gain_text(1e-9, measure_named("accuracy")), gain_text(None, measure_named("r2"))
    ('0.0 points', 'undefined')
    """
    if gain is None or not is_number(gain):
        return UNDEFINED
    if measure.points(abs(gain)) == measure.points(0.0):
        return measure.points(0.0)
    return ("+" if gain > 0 else "−") + measure.points(abs(gain))


def named(label: object, most: int = 5) -> str:
    """The column or the columns with the labels, in a sentence.

    Examples
    --------
    >>> named("field"), named(["even", "loop"]), named(list("abcdefg"), most=2)
    ('field', 'even and loop', 'a, b and 5 more')
    """
    if not isinstance(label, list | tuple):
        return str(label)
    names = [str(name) for name in label]
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
