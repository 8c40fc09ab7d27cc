"""The report of a trained model as one self-contained web page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from linkdist.data.graph import IntArray
from linkdist.report._jinja import duration, render
from linkdist.report.charts import (
    DARK,
    DRAWN,
    LIGHT,
    MODES,
    SHOWN,
    accuracy_curve,
    class_mark,
    draw_map,
    heat_map,
    interval_text,
    reliability_diagram,
    score_chart,
    score_groups,
)
from linkdist.report.hidden_map import HiddenMap
from linkdist.report.metrics import ClassScores, Metrics, ValidationMetrics, row_shares
from linkdist.report.svg import evaluation_unit, percent, plain, short
from linkdist.training.panel.estimates import Estimates, Score, interval

METHODS = {"linkdist": "LinkDist", "colinkdist": "CoLinkDist", "selflinkdist": "SelfLinkDist"}

FEW_NODES, FEW_LINKS = 50, 100
"""Below these numbers the page says that a share is unreliable."""

FEW_EVALUATIONS = 3
"""SelfLinkDist has no learning curve with fewer evaluations than this."""


def render_report(name: str, metrics: Metrics, about: Mapping[str, Any]) -> str:
    """Render the report of a model.

    Parameters
    ----------
    name : str
        The name of the model.
    metrics : Metrics
        The result of `linkdist.report.metrics.compute_metrics`.
    about : mapping
        Facts about the training. The keys 'label', 'method', 'epochs', 'seconds' and 'date' are
        shown if they are present.

    Returns
    -------
    str
        An HTML document without external resources.

    Examples
    --------
    >>> from linkdist.report.metrics import homophily, least_certain
    >>> p, labels, links = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]), np.array([[0, 1]])
    >>> joined, uncertain = homophily(links, labels, C=2), least_certain(p, labels, ["x", "y"])
    >>> metrics = Metrics(
    ...     ("a", "b"), 2, np.array([1, 1]), 1, None, joined, joined, None, uncertain
    ... )
    >>> render_report("papers", metrics, {})[:15]
    '<!doctype html>'
    """
    metrics = _printable(metrics)
    shown = shown_classes(metrics.labelled)
    validation, estimates, seconds = metrics.validation, metrics.estimates, about.get("seconds")
    method = about.get("method", "")
    data: dict[str, Any] = {
        "name": plain(name),
        "label": plain(about.get("label") or ""),
        "method": plain(METHODS.get(method, method)),
        "epochs": about.get("epochs"),
        "date": plain(about.get("date") or ""),
        "seconds": None if seconds is None else duration(seconds),
        "metrics": metrics,
        "modes": MODES,
        "validation": validation,
        "estimates": estimates,
        "accuracies": _accuracies(metrics),
        "links": _links(metrics, shown),
        "map": _map(metrics.map, metrics.classes, shown) if metrics.map else None,
        "few_links": FEW_LINKS,
        "light": LIGHT,
        "dark": DARK,
    }
    if estimates:
        data |= {
            "score_chart": score_chart(estimates),
            "score_groups": score_groups(estimates),
            "interval_text": interval_text,
            "drawn": DRAWN,
            "estimate_nodes": estimates.labels,
            "teachers": sorted(estimates.teachers.items(), key=lambda item: -item[1]),
        }
    if validation:
        data |= _validation(metrics, validation, shown, about.get("epochs"))
    return render("report.html", **data)


def _printable(metrics: Metrics) -> Metrics:
    """Return the same metrics with names on one line and without unprintable characters."""
    found = metrics.map
    return replace(
        metrics,
        classes=tuple(map(plain, metrics.classes)),
        map=found._replace(ids=[plain(id) for id in found.ids]) if found else None,
        uncertain=[node._replace(id=plain(node.id)) for node in metrics.uncertain],
        estimates=_printable_estimates(metrics.estimates) if metrics.estimates else None,
    )


def _printable_estimates(estimates: Estimates) -> Estimates:
    def named(scores: Sequence[Score]) -> list[Score]:
        return [replace(score, name=plain(score.name)) for score in scores]

    return replace(
        estimates,
        new_rows=named(estimates.new_rows),
        known_rows=named(estimates.known_rows),
        baselines=named(estimates.baselines),
        verdict=list(map(plain, estimates.verdict)),
        warnings=list(map(plain, estimates.warnings)),
        teachers={plain(name): share for name, share in estimates.teachers.items()},
    )


def _accuracies(metrics: Metrics) -> list[dict[str, Any]]:
    """Return the accuracies at the top of the page, with their intervals."""
    if metrics.estimates:
        rows = metrics.estimates.rows
        return [
            {
                "mode": "links" if score.links else "features",
                "value": score.accuracy,
                "note": f"for {rows}; 90\xa0% interval {interval_text(score)}",
            }
            for score in metrics.estimates.new_rows
        ]
    accuracies: list[dict[str, Any]] = []
    if metrics.validation is None:
        return accuracies
    for mode, found in metrics.validation.modes.items():
        low, high = interval(found.accuracy, metrics.validation.nodes, z=1.96)
        note = f"95\xa0% interval {100 * low:.0f} to {percent(high, 0)}"
        accuracies.append({"mode": mode, "value": found.accuracy, "note": note})
    return accuracies


def _validation(
    metrics: Metrics, validation: ValidationMetrics, shown: Sequence[int], epochs: int | None
) -> dict[str, Any]:
    modes = validation.modes
    scores = modes["features"].scores
    present = np.flatnonzero(scores.support)
    order = present[np.argsort(scores.f1[present], kind="stable")].tolist()
    worst, best = (
        {"name": metrics.classes[c], "f1": float(scores.f1[c])} for c in (order[0], order[-1])
    )
    # SelfLinkDist evaluates once per cycle, and the chart of estimates has its accuracy already.
    flat = metrics.estimates and len(validation.curves["features"]) < FEW_EVALUATIONS
    folds = metrics.estimates is not None and metrics.estimates.by == "folds"
    return {
        "curve": None if flat else _curve(validation, epochs),
        "few_nodes": validation.nodes < FEW_NODES,
        "predictions": int(scores.support.sum()),
        # In folds each label is predicted once, whatever the number of replicas.
        "repeated": metrics.replicas > 1 and not folds,
        "best": best,
        "worst": worst,
        "class_rows": [
            {
                "name": name,
                "support": int(scores.support[c]),
                "modes": [_class_scores(found.scores, c) for found in modes.values()],
            }
            for c, name in enumerate(metrics.classes)
        ],
        "confusion": _confusion(metrics.classes, validation, shown),
        "calibration": {
            mode: {
                "confidence": np.average(
                    found.reliability.confidence, weights=found.reliability.counts
                ),
                "accuracy": found.accuracy,
                "error": found.reliability.error,
            }
            for mode, found in modes.items()
        },
        "reliability_charts": {
            mode: reliability_diagram(found.reliability, mode) for mode, found in modes.items()
        },
    }


def _curve(validation: ValidationMetrics, epochs: int | None) -> dict[str, Any]:
    evaluations = len(validation.curves["features"])
    unit = evaluation_unit(epochs, evaluations)
    first, last = int(validation.best.min()) + 1, int(validation.best.max()) + 1
    return {
        "unit": unit,
        "evaluations": f"{evaluations:,}",
        "selected": f"{unit} {first:,}" if first == last else f"{unit}s {first:,} to {last:,}",
        "chart": accuracy_curve(validation, unit),
    }


def _class_scores(scores: ClassScores, c: int) -> tuple[float | None, ...]:
    """Return precision, recall and F1 of a class; None where the denominator is 0."""
    support, predicted = scores.support[c], scores.predicted[c]
    values = (scores.precision[c], predicted), (scores.recall[c], support)
    f1 = (scores.f1[c], support + predicted)
    return tuple(float(value) if n else None for value, n in (*values, f1))


def _confusion(
    classes: Sequence[str], validation: ValidationMetrics, shown: Sequence[int]
) -> dict[str, Any]:
    names, charts = _names(classes, shown), {}
    for mode, found in validation.modes.items():
        counts = combine_classes(found.confusion, shown)
        labels = [[f"{n:,}" if n else "" for n in row] for row in counts.tolist()]
        charts[mode] = heat_map(
            names,
            row_shares(counts),
            labels,
            ("true", "predicted"),
            f"confusion-{mode}",
            f"Confusion matrix, {MODES[mode]}",
            _errors(found.confusion, classes),
            two_tones=True,
        )
    return {
        "charts": charts,
        "errors": _errors(validation.modes["features"].confusion, classes),
        "layout": "pair" if len(names) <= 12 else "stack",
    }


def _errors(confusion: IntArray, classes: Sequence[str]) -> str:
    """Describe the most frequent errors."""
    wrong = confusion - np.diag(confusion.diagonal())
    if not wrong.any():
        return "all predictions are correct."
    order = np.argsort(-wrong, axis=None, kind="stable")[:3].tolist()
    pairs = [divmod(at, len(classes)) for at in order if wrong.flat[at]]
    named = ", ".join(
        f"{short(classes[i], 40)} predicted as {short(classes[j], 40)} ({wrong[i, j]:,})"
        for i, j in pairs
    )
    often = ", most often " if np.count_nonzero(wrong) > len(pairs) else ": "
    return f"{wrong.sum():,} of {confusion.sum():,} predictions are wrong{often}{named}."


def _map(found: HiddenMap, classes: Sequence[str], shown: Sequence[int]) -> dict[str, Any]:
    legend = [(class_mark(i, 8, 8, known=True), short(classes[c], 40)) for i, c in enumerate(shown)]
    if others := len(classes) - len(shown):
        legend.append((class_mark(None, 8, 8, known=True), f"{others} other classes"))
    hollow = class_mark(0, 8, 8, known=False)
    legend.append((hollow, "hollow: predicted class, the label is unknown"))
    chart = draw_map(found, classes, shown)
    return {"method": found.method, "ids": found.ids, "chart": chart, "legend": legend}


def _links(metrics: Metrics, shown: Sequence[int]) -> dict[str, Any]:
    """Return homophily of the known classes or, if no link joins two of them, of predictions."""
    known = metrics.known_links.links > 0
    found = metrics.known_links if known else metrics.predicted_links
    whose = "known" if known else "predicted"
    shares = row_shares(combine_classes(found.counts, shown))
    labels = [[f"{100 * share:.0f}" if share >= 0.005 else "" for share in row] for row in shares]
    accuracy = {}
    if metrics.validation:
        accuracy = {mode: m.accuracy for mode, m in metrics.validation.modes.items()}
    return {
        "found": found,
        "whose": whose,
        "lift": (found.share - found.chance) / max(1 - found.chance, 1e-9),
        "gain": 100 * (accuracy["links"] - accuracy["features"]) if accuracy else 0.0,
        "chart": heat_map(
            _names(metrics.classes, shown),
            shares,
            labels,
            ("node", "neighbours"),
            "homophily",
            f"Classes that links join, {whose} classes",
            f"{percent(found.share)} of {found.links:,} links join equal classes.",
            two_tones=False,
        ),
    }


# More classes than a chart can distinguish --------------------------------------------------------


def shown_classes(labelled: IntArray) -> list[int]:
    """Return the classes that are shown separately: those with the most labels.

    Examples
    --------
    >>> shown_classes(np.array([3, 0, 5]))
    [0, 1, 2]
    """
    return sorted(np.argsort(-labelled, kind="stable")[:SHOWN].tolist())


def _names(classes: Sequence[str], shown: Sequence[int]) -> list[str]:
    return [classes[c] for c in shown] + ["other"] * (len(shown) < len(classes))


def combine_classes(counts: IntArray, shown: Sequence[int]) -> IntArray:
    """Sum the classes of a matrix (C, C) that are not shown in a last row and column.

    Examples
    --------
    >>> combine_classes(np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), [0]).tolist()
    [[1, 5], [11, 28]]
    """
    place = np.full(len(counts), len(shown))
    place[list(shown)] = np.arange(len(shown))
    K = len(shown) + (len(shown) < len(counts))
    combined = np.zeros((K, K), dtype=counts.dtype)
    np.add.at(combined, (place[:, None], place[None, :]), counts)
    return combined
