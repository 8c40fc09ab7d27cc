"""The report of a trained model as one self-contained web page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np

from linkdist.data.graph import IntArray
from linkdist.report import charts, relations, score_chart, score_text, task_charts
from linkdist.report._jinja import render
from linkdist.report.certainty import certainty_data
from linkdist.report.metrics import Metrics, ValidationMetrics, row_shares
from linkdist.report.pair_counts import PairCounts, cells
from linkdist.report.score_text import interval_text, measure_named, named
from linkdist.report.svg import evaluation_unit, percent, plain, short
from linkdist.report.task_html import task_data
from linkdist.report.task_metrics import TaskMetrics
from linkdist.training.measures import wilson

METHODS = {"linkdist": "LinkDist", "colinkdist": "CoLinkDist", "selflinkdist": "SelfLinkDist"}

FEW_NODES, FEW_LINKS = 50, 100
"""Below these numbers the page says that a share is unreliable."""

FEW_EVALUATIONS = 3
"""SelfLinkDist has no learning curve with fewer evaluations than this."""


MOST_LISTED = 200
"""Largest number of classes in the table of scores."""


def render_report(name: str, metrics: Metrics | TaskMetrics, about: Mapping[str, Any]) -> str:
    """Render the report of a model.

    Parameters
    ----------
    name : str
        The name of the model.
    metrics : Metrics or TaskMetrics
        The result of `linkdist.report.metrics.compute_metrics`.
    about : mapping
        Facts about the training. The keys 'label', 'method', 'epochs', 'seconds' and 'date' are
        shown if they are present. If `about['data']` has the size of a sample, the page says so.

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
    facts = {key: about.get(key) for key in ("method", "epochs", "seconds", "date")}
    facts["label"] = named(about["label"]) if about.get("label") else None
    estimates = metrics.estimates
    special = (
        task_data(metrics) if isinstance(metrics, TaskMetrics) else _class_data(metrics, about)
    )
    return render(
        "report.html",
        **_printable({"name": name, **facts}),
        metrics=metrics,
        data={"sample": None, **about.get("data", {})},
        methods=METHODS,
        estimates=estimates,
        measure=measure_named(estimates.measure if estimates else None),
        tiles=_tiles(metrics),
        relations=_relations(metrics),
        charts=charts,
        task_charts=task_charts,
        score_chart=score_chart,
        texts=score_text,
        validation=metrics.validation,
        **special,
    )


def _class_data(metrics: Metrics, about: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of the templates about classes."""
    shown = shown_classes(metrics.labelled)
    data = {
        "task": "classification",
        "links": _links(metrics, shown),
        "shown": shown,
        "few_links": FEW_LINKS,
        "groups": metrics.classes,
    }
    if metrics.validation:
        data |= _validation(metrics, metrics.validation, shown, about)
    return data


def _relations(metrics: Metrics | TaskMetrics) -> dict[str, Any]:
    """The table of relations; without rows if there is one relation."""
    estimates = metrics.estimates
    measure = measure_named(estimates.measure if estimates else None)
    found = [(one.name, one.alpha, one.without) for one in metrics.relations]
    with_links = estimates.new_rows[1].value if estimates else None
    return {
        "rows": relations.relation_rows(found, with_links, measure),
        "nothing": relations.carry_nothing(found),
        "how_to_read": relations.HOW_TO_READ,
    }


def _printable(value: Any) -> Any:  # noqa: ANN401
    """Return the same value with each text on one line and without unprintable characters."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = map(_printable, value)
        return value._make(parts) if hasattr(value, "_make") else type(value)(parts)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{name: _printable(part) for name, part in vars(value).items()})
    return value


def _tiles(metrics: Metrics | TaskMetrics) -> list[tuple[str, str, str]]:
    """Return name, value and note of the scores at the top of the page."""
    if estimates := metrics.estimates:
        measure = measure_named(estimates.measure)
        note = f"for {estimates.rows}; 90\xa0% interval "
        return [
            (
                f"{measure.title} {charts.MODES['links' if score.links else 'features']}",
                score_text.score_text(score.value, measure),
                note + interval_text(score.low, score.high, measure),
            )
            for score in estimates.new_rows
        ]
    tiles = []
    if isinstance(metrics, Metrics) and (validation := metrics.validation):
        for mode, found in validation.modes.items():
            low, high = wilson(found.accuracy, validation.nodes, z=1.96)
            note = f"95\xa0% interval {100 * low:.0f} to {percent(high, 0)}"
            tiles.append((f"accuracy {charts.MODES[mode]}", percent(found.accuracy), note))
    return tiles


def _validation(
    metrics: Metrics, validation: ValidationMetrics, shown: Sequence[int], about: Mapping[str, Any]
) -> dict[str, Any]:
    modes, estimates = validation.modes, metrics.estimates
    scores = modes["features"].scores
    present = np.flatnonzero(scores.support)
    order = present[np.argsort(scores.f1[present], kind="stable")]
    evaluations = len(validation.curves["features"])
    # SelfLinkDist evaluates once per cycle, and the chart of estimates has its accuracy already.
    flat = estimates and evaluations < FEW_EVALUATIONS
    return {
        **certainty_data(about),
        "unit": None if flat else evaluation_unit(about.get("epochs"), evaluations),
        "few_nodes": validation.nodes < FEW_NODES,
        "scores": scores,
        "listed": sorted(np.argsort(-scores.support, kind="stable")[:MOST_LISTED].tolist()),
        "best": order[-1],
        "worst": order[0],
        # In folds each label is predicted once, whatever the number of replicas.
        "repeated": metrics.replicas > 1 and not (estimates and estimates.by == "folds"),
        "confusion": _confusion(metrics.classes, validation, shown),
        "reliability_charts": {
            mode: charts.reliability_diagram(found.reliability, mode)
            for mode, found in modes.items()
        },
        "ranking_charts": {
            mode: task_charts.precision_recall_curve(
                found.ranking.curve,
                found.ranking.share,
                metrics.classes[found.ranking.positive],
                found.ranking.chosen,
                mode,
            )
            for mode, found in modes.items()
            if found.ranking
        },
    }


def _confusion(
    classes: Sequence[str], validation: ValidationMetrics, shown: Sequence[int]
) -> dict[str, Any]:
    names, axes, drawn = _names(classes, shown), ("true", "predicted"), {}
    for mode, found in validation.modes.items():
        counts = combine_classes(found.confusion, shown)
        labels = [[f"{n:,}" if n else "" for n in row] for row in counts.tolist()]
        uid, title = f"confusion-{mode}", f"Confusion matrix, {charts.MODES[mode]}"
        errors = _errors(found.confusion, classes)
        shares = row_shares(counts)
        drawn[mode] = charts.heat_map(
            names, shares, labels, axes, uid, title, errors, two_tones=True
        )
    return {
        "charts": drawn,
        "errors": _errors(validation.modes["features"].confusion, classes),
        "layout": "pair" if len(names) <= 12 else "stack",
    }


def _errors(confusion: PairCounts, classes: Sequence[str]) -> str:
    """Describe the most frequent errors."""
    row, column, count = cells(confusion)
    wrong = np.flatnonzero(row != column)
    if not len(wrong):
        return "all predictions are correct."
    most = wrong[np.argsort(-count[wrong], kind="stable")[:3]].tolist()
    named = ", ".join(
        f"{short(classes[row[k]], 40)} predicted as {short(classes[column[k]], 40)} ({count[k]:,})"
        for k in most
    )
    often = ", most often " if len(wrong) > len(most) else ": "
    return f"{count[wrong].sum():,} of {count.sum():,} predictions are wrong{often}{named}."


def _links(metrics: Metrics, shown: Sequence[int]) -> dict[str, Any]:
    """Return homophily of the known classes or, if no link joins two of them, of predictions."""
    known = metrics.known_links.links > 0
    found = metrics.known_links if known else metrics.predicted_links
    whose = "known" if known else "predicted"
    names, shares = _names(metrics.classes, shown), row_shares(combine_classes(found.counts, shown))
    labels = [[f"{100 * share:.0f}" if share >= 0.005 else "" for share in row] for row in shares]
    axes, title = ("node", "neighbours"), f"Classes that links join, {whose} classes"
    share = f"{percent(found.share)} of {found.links:,} links join equal classes."
    return {
        "found": found,
        "whose": whose,
        "lift": (found.share - found.chance) / max(1 - found.chance, 1e-9),
        "chart": charts.heat_map(
            names, shares, labels, axes, "homophily", title, share, two_tones=False
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
    return sorted(np.argsort(-labelled, kind="stable")[: charts.SHOWN].tolist())


def _names(classes: Sequence[str], shown: Sequence[int]) -> list[str]:
    return [classes[c] for c in shown] + ["other"] * (len(shown) < len(classes))


def combine_classes(counts: PairCounts, shown: Sequence[int]) -> IntArray:
    """Sum the classes of a matrix (C, C) that are not shown in a last row and column.

    Examples
    --------
    >>> combine_classes(np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), [0]).tolist()
    [[1, 5], [11, 28]]
    """
    C = counts.shape[0]
    place = np.full(C, len(shown))
    place[list(shown)] = np.arange(len(shown))
    K = len(shown) + (len(shown) < C)
    combined = np.zeros((K, K), dtype=np.int64)
    row, column, count = cells(counts)
    np.add.at(combined, (place[row], place[column]), count)
    return combined
