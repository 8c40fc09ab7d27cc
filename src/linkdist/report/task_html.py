"""The variables of the report's templates for numbers and for several labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkdist.report import charts, task_charts
from linkdist.report.task_evaluation import number
from linkdist.report.task_metrics import TaskMetrics
from linkdist.training.measures import Array

CLEAR, SOME = 0.4, 0.1
"""From these correlations on, the page says that neighbours are informative, or somewhat so."""


def task_data(metrics: TaskMetrics) -> dict[str, Any]:
    """The variables of the templates; see `linkdist.report.html.render_report`."""
    return {
        "task": metrics.task,
        "number": number,
        "joined": _joined(metrics),
        "groups": metrics.groups,
        "shown": list(range(min(len(metrics.groups), charts.SHOWN))),
        **_number_charts(metrics),
        **_label_charts(metrics),
    }


def _number_charts(metrics: TaskMetrics) -> dict[str, Any]:
    modes = metrics.validation.numbers if metrics.validation else {}
    if not modes:
        return {}
    name, own = metrics.classes[0], modes["features"]
    return {
        "number_charts": {
            mode: task_charts.number_chart(found.truth, found.predicted, name, found.width, mode)
            for mode, found in modes.items()
        },
        "residuals": task_charts.residual_histogram(own.truth - own.predicted, name, own.width),
        "spread": _spread(own.truth),
    }


def _spread(truth: Array) -> str:
    """The range of most of the true numbers."""
    low, high = np.quantile(truth, [0.05, 0.95])
    return f"{number(float(low))} to {number(float(high))}"


def _label_charts(metrics: TaskMetrics) -> dict[str, Any]:
    modes = metrics.validation.labels if metrics.validation else {}
    if not modes:
        return {}
    own = modes["features"].labels
    there = [one for one in own if one.rows] or list(own)
    return {
        "label_chart": task_charts.label_bars(own),
        "best": max(there, key=lambda one: one.f1),
        "worst": min(there, key=lambda one: one.f1),
    }


def _joined(metrics: TaskMetrics) -> dict[str, Any]:
    """What the correlation of labels over links says about links."""
    known = metrics.correlation[~np.isnan(metrics.correlation)]
    if not len(known):
        return {"known": False}
    strongest = float(known[np.abs(known).argmax()])
    mean = float(known.mean())
    if abs(strongest) >= CLEAR:
        outcome = "neighbours are informative, and links can help"
    elif abs(strongest) >= SOME:
        outcome = "neighbours are somewhat informative, and links may help"
    else:
        outcome = "neighbours carry little information, and links will hardly help"
    return {"known": True, "mean": mean, "strongest": strongest, "outcome": outcome}
