"""Charts of predicted numbers, of several labels and of a rare class.

Colour is never the only distinction, as in `linkdist.report.charts`: rows outside their prediction
interval are hollow, and lines are dashed or named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from markupsafe import Markup

from linkdist.report.charts import MODES, SHOWN
from linkdist.report.number_axis import number_axis, tick_text, unit_of
from linkdist.report.score_chart import EDGE, LANE, WIDTH
from linkdist.report.svg import Axis, drawing, line, percent, plain, short, tag
from linkdist.report.task_evaluation import number
from linkdist.training.decisions import OperatingPoint
from linkdist.training.measures import Array

POINTS = 2000
"""The most rows of a chart; of more rows it shows a random sample."""
SIDE, TOP, FOOT, RIGHT = 340, 30, 44, 24
"""The size of a square plot and the margins around it."""
BARS = 31
"""Number of bars of a histogram; it is odd, so that one of them is around 0."""
TALL = 200
"""Height of the histogram's plot."""
_whole_percent = partial(percent, digits=0)


# Numbers ------------------------------------------------------------------------------------------


def number_chart(
    truth: Array,
    predicted: Array,
    name: str,
    width: float | None = None,
    mode: str = "features",
    seed: int = 0,
) -> Markup:
    """Draw true over predicted numbers, a dot per row, with the band of prediction intervals.

    Parameters
    ----------
    truth, predicted : (N,) arrays
        The numbers; rows with an unknown one are left out.
    name : str
        What the numbers are.
    width : float, optional
        Half the width of the prediction intervals; rows outside of theirs are hollow.
    mode : {'features', 'links'}, optional
        The mode of prediction, for the title.
    seed : int, optional
        Random seed of the sample of rows.

    Examples
    --------
    >>> svg = number_chart(np.array([1.0, 2.0, 9.0]), np.array([1.2, 2.1, 3.0]), "price", 0.5)
    >>> svg.count("<circle"), svg.count('class="out"')
    (3, 1)
    """
    known = np.isfinite(truth) & np.isfinite(predicted)
    y, p = truth[known], predicted[known]
    count, inside = len(y), np.abs(y - p) <= (np.inf if width is None else width)
    share = float(inside.mean()) if count else 0.0
    if count > POINTS:
        rows = np.random.default_rng(seed).choice(count, POINTS, replace=False)
        y, p, inside = y[rows], p[rows], inside[rows]
    unit, both = unit_of(y, p), [*y.tolist(), *p.tolist()] or [0.0]
    scaled = [value / unit for value in both]
    upright = number_axis(scaled, TOP + SIDE, TOP, 6)
    text = tick_text(upright, unit)
    left = 20 + 7 * max(len(text(tick)) for tick in upright.ticks())
    across = upright._replace(start=left, end=left + SIDE)
    band = _band(across, upright, width / unit) if width and np.isfinite(width) else Markup("")
    name = plain(name)
    note = "" if width is None else "○ outside the prediction interval"
    marks = [
        band,
        upright.draw_y(left, left + SIDE, text),
        across.draw_x(TOP + SIDE + 18, text),
        line("ideal", left, TOP + SIDE, left + SIDE, TOP),
        *(
            _dots(across, upright, y / unit, p / unit, inside == kind, kind)
            for kind in (True, False)
        ),
        tag("text", note, class_="side y scored", x=left + SIDE - 6, y=TOP + SIDE - 8),
        tag("text", f"true {short(name, 30)} ↑", class_="side", x=left, y=14),
        tag(
            "text",
            f"predicted {short(name, 30)} →",
            class_="side y",
            x=left + SIDE,
            y=TOP + SIDE + 38,
        ),
    ]
    description = f"{count:,} rows, of which {len(y):,} are drawn."
    if width is not None:
        description += (
            f" {percent(share)} of the rows lie within the interval of {number(width)} below to "
            f"{number(width)} above their prediction."
        )
    size = (left + SIDE + max(RIGHT, left // 2), TOP + SIDE + FOOT)
    title = f"True and predicted {name}, {MODES[mode]}"
    return drawing(*size, f"numbers-{mode}", title, description, *marks)


def _band(x: Axis, y: Axis, width: float) -> Markup:
    """The stripe around the diagonal that the prediction intervals cover, cut off at the frame."""
    low, high, w = x.low, x.high, min(width, x.high - x.low)
    above = [(low, low), (low, low + w), (high - w, high)]
    corners = above + [(high - (a - low), high - (b - low)) for a, b in above]
    points = " ".join(f"{x(a)},{y(b)}" for a, b in corners)
    return tag("polygon", class_="band features", points=points)


def _dots(x: Axis, y: Axis, truth: Array, predicted: Array, shown: Array, inside: bool) -> Markup:
    tone, kind = ("features", "dot") if inside else ("links", "out")
    places = zip(predicted[shown].tolist(), truth[shown].tolist(), strict=True)
    circles = [tag("circle", class_=kind, cx=x(a), cy=y(b), r=3) for a, b in places]
    return tag("g", *circles, class_=tone) if circles else Markup("")


def residual_histogram(residuals: Array, name: str, width: float | None = None) -> Markup:
    """Draw how many rows have which error, with lines at the ends of the prediction interval.

    Parameters
    ----------
    residuals : (N,) array
        True - predicted numbers. The outermost bars also contain the largest errors.
    name : str
        What the numbers are.
    width : float, optional
        Half the width of the prediction intervals.

    Examples
    --------
    >>> residual_histogram(np.array([-1.0, 0.0, 0.1, 2.0]), "price", 1.5).count("<rect")
    4
    """
    errors = residuals[np.isfinite(residuals)]
    ends = [0.0 if width is None or not np.isfinite(width) else width]
    far = max(float(np.quantile(np.abs(errors), 0.99)), *ends) if len(errors) else ends[0]
    unit = unit_of(np.array([far]))
    far = 1.1 * far / unit or 1.0
    edges = np.linspace(-far, far, BARS + 1)
    counts = np.histogram(np.clip(errors / unit, -far, far), edges)[0]
    outside = int((np.abs(errors / unit) > far).sum())
    left, foot = 64, TOP + TALL
    x = Axis(-far, far, left, WIDTH - EDGE, number_axis([-far, far], 0, 1, 7).step)
    y = Axis.rounded([0, max(int(counts.max()), 1)], foot, TOP, most=4, least=1)
    text = tick_text(x, unit)
    bars = [_bar(x, y, edges[i], edges[i + 1], int(n), text) for i, n in enumerate(counts) if n]
    limits = [
        line("ideal", x(end / unit), TOP, x(end / unit), foot) for w in ends if w for end in (-w, w)
    ]
    names = [
        tag("text", "interval", class_="tick side", x=x(end / unit), y=TOP - 8)
        for w in ends if w for end in (-w, w)
    ]  # fmt: skip
    name = plain(name)
    marks = [
        y.draw_y(left, WIDTH - EDGE, lambda tick: f"{tick:,.0f}"),
        x.draw_x(foot + 18, text),
        tag("g", *bars, class_="features"),
        line("zero", x(0), TOP, x(0), foot),
        *limits,
        *names,
        tag("text", "rows ↑", class_="side", x=EDGE - 12, y=14),
        tag(
            "text",
            f"true − predicted {short(name, 30)} →",
            class_="side y",
            x=WIDTH - EDGE,
            y=foot + 38,
        ),
    ]
    description = f"{len(errors):,} rows."
    if len(errors):
        middle = number(float(np.median(errors)))
        description += f" The median error is {middle}, the mean {number(float(errors.mean()))}."
    if outside:
        description += f" {outside:,} larger errors are in the outermost bars."
    title = f"Errors of the predicted {name}"
    return drawing(WIDTH, foot + FOOT, "residuals", title, description, *marks)


def _bar(
    x: Axis, y: Axis, low: float, high: float, count: int, text: Callable[[float], str]
) -> Markup:
    top, base = y(count), y(0)
    return tag(
        "rect",
        tag("title", f"{count:,} rows around {text((low + high) / 2)}"),
        class_="bar tall",
        x=x(low) + 0.5,
        y=top,
        width=x(high) - x(low) - 1,
        height=base - top,
    )


# A rare class -------------------------------------------------------------------------------------


def precision_recall_curve(
    points: Sequence[OperatingPoint],
    share: float,
    name: str,
    chosen: OperatingPoint | None = None,
    mode: str = "features",
) -> Markup:
    """Draw precision over recall, with the operating point in use and the line of a random order.

    Parameters
    ----------
    points : sequence of OperatingPoint
        The result of `linkdist.training.decisions.operating_points`.
    share : float
        The share of positive rows, which is the precision of a random order.
    name : str
        The name of the positive class.
    chosen : OperatingPoint, optional
        The point in use.
    mode : {'features', 'links'}, optional
        The mode of prediction, for the title.

    Examples
    --------
    >>> points = [OperatingPoint(0.9, 1.0, 0.5, 0.1), OperatingPoint(0.2, 0.4, 1.0, 0.5)]
    >>> precision_recall_curve(points, 0.2, "fraud", points[0]).count("<circle")
    1
    """
    left = 56
    x, y = Axis(0, 1, left, left + SIDE, 0.25), Axis(0, 1, TOP + SIDE, TOP, 0.25)
    name = plain(name)
    # Steps, so that the area below them is the average precision.
    starts = [0.0, *(point.recall for point in points)]
    curve = " ".join(
        f"{x(start)},{y(point.precision)} {x(point.recall)},{y(point.precision)}"
        for start, point in zip(starts, points, strict=False)
    )
    random = f"random order, {percent(share)}"
    marks = [
        y.draw_y(left, left + SIDE, _whole_percent),
        x.draw_x(TOP + SIDE + 18, _whole_percent),
        line("ideal", left, y(share), left + SIDE, y(share)),
        tag("text", random, class_="side", x=left + 6, y=y(share) + (-6 if share < 0.9 else 15)),
        tag("g", tag("polyline", class_="run", points=curve), class_="features"),
        *([_chosen(chosen, x, y)] if chosen else []),
        tag("text", "precision ↑", class_="side", x=left, y=14),
        tag("text", "recall →", class_="side y", x=left + SIDE, y=TOP + SIDE + 38),
    ]
    described = [_point_text(point) for point in points[:: max(1, len(points) // 5)]]
    if chosen:
        described.append(f"In use: {_point_text(chosen)}")
    size = (left + SIDE + RIGHT, TOP + SIDE + FOOT)
    title = f"Precision and recall of {name}, {MODES[mode]}"
    return drawing(*size, f"precision-recall-{mode}", title, " ".join(described), *marks)


def _chosen(point: OperatingPoint, x: Axis, y: Axis) -> Markup:
    """A dot and its threshold, above the falling curve if there is room, and below it if not."""
    at, height, below = x(point.recall), y(point.precision), point.recall > 0.65
    return tag(
        "g",
        tag("title", _point_text(point)),
        tag("circle", class_="best", cx=at, cy=height, r=6),
        tag(
            "text",
            f"threshold {point.threshold:.3g}",
            class_="word scored y" if below else "word scored",
            x=at - 8 if below else at + 8,
            y=height + (20 if below else -10),
        ),
        class_="links",
    )


def _point_text(point: OperatingPoint) -> str:
    return (
        f"Threshold {number(point.threshold)}: precision {percent(point.precision)}, recall "
        f"{percent(point.recall)}, {percent(point.share)} of the rows."
    )


# Several labels -----------------------------------------------------------------------------------


class LabelScores(Protocol):
    """The scores of a label or a class."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def rows(self) -> int:
        """Number of rows that have it."""

    @property
    def precision(self) -> float:
        """The share of predictions that are right."""

    @property
    def recall(self) -> float:
        """The share of its rows that are found."""

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""


def label_bars(labels: Sequence[LabelScores]) -> Markup:
    """Draw a bar of F1 for each label, the best first; of many labels, those with the most rows.

    Parameters
    ----------
    labels : sequence of LabelEvaluation or ClassEvaluation
        Scores of each label.

    Examples
    --------
    >>> from linkdist.report.task_evaluation import LabelEvaluation
    >>> even = LabelEvaluation("even", 9, 0.5, 0.8, 0.6, (0.4, 0.8), 0.69)
    >>> label_bars([even]).count("<rect")
    1
    """
    kept = sorted(labels, key=lambda one: -one.rows)[:SHOWN]
    kept.sort(key=lambda one: -one.f1)
    axis = Axis(0, 1, EDGE, WIDTH - EDGE, 0.25)
    height = LANE * len(kept)
    rows = [_label_bar(one, axis, LANE * i) for i, one in enumerate(kept)]
    description = " ".join(f"{_label_text(one)}." for one in kept)
    if len(kept) < len(labels):
        description += f" {len(labels) - len(kept)} labels with fewer rows are not drawn."
    grid = axis.draw_x(height + 20, _whole_percent, grid=(0, height + 4))
    return drawing(WIDTH, height + 30, "labels", "F1 of each label", description, grid, *rows)


def _label_bar(one: LabelScores, axis: Axis, top: float) -> Markup:
    y = top + 21
    count = f"{one.rows:,} row" + "s" * (one.rows != 1)
    return tag(
        "g",
        tag("title", _label_text(one)),
        line("track", axis.start, y + 5, axis.end, y + 5),
        tag(
            "rect",
            class_="bar tall",
            x=axis(0),
            y=y,
            width=max(axis(one.f1) - axis(0), 1),
            height=10,
        ),
        tag("text", f"{short(plain(one.name), 40)} ({count})", class_="who", x=EDGE, y=top + 15),
        tag("text", percent(one.f1), class_="y word scored", x=WIDTH - EDGE, y=top + 15),
        class_="features",
    )


def _label_text(one: LabelScores) -> str:
    return (
        f"{plain(one.name)}: F1 {percent(one.f1)}, precision {percent(one.precision)}, recall "
        f"{percent(one.recall)}, {one.rows:,} rows"
    )
