"""Validation accuracy over training: the chart of the report and the chart of the model card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from linkdist.report.svg import Axis, drawing, percent, round_step, tag

if TYPE_CHECKING:  # The HTTP service imports this module for the model card, without PyTorch.
    from linkdist.data.graph import IntArray
    from linkdist.report.hidden_map import Array
    from linkdist.report.metrics import ValidationMetrics

MODES = {"features": "from features", "links": "with links"}


class Frame(NamedTuple):
    """The size of a chart and the margins around its plot area."""

    width: int
    height: int
    left: int
    right: int
    top: int
    foot: int

    def axes(self, values: Iterable[float], evaluations: int, most: float) -> tuple[Axis, Axis]:
        """Return the axes of evaluations, counted from 1, and of accuracies."""
        step = round_step(evaluations, most=7, least=1)
        x = Axis(1, max(evaluations, 1.5), self.left, self.width - self.right, step)
        y = Axis.rounded(values, self.height - self.foot, self.top, most, least=0.01)
        return x, y

    def draw(self, x: Axis, y: Axis, unit: str, label: Callable[[float], str]) -> Markup:
        """Return both axes with their labels."""
        ticks = [1, *(tick for tick in x.ticks() if x(tick) - self.left > 25)]
        middle = (self.left + self.width - self.right) / 2
        return (
            y.draw_y(self.left, self.width - self.right, label)
            + x.draw_x(self.height - self.foot + 18, lambda tick: f"{tick:,.0f}", ticks=ticks)
            + tag("text", unit, class_="tick", x=middle, y=self.height - 6)
        )


def evaluation_unit(epochs: int | None, evaluations: int) -> str:
    """Return 'epoch' if there is one evaluation per epoch, else 'evaluation'.

    Examples
    --------
    >>> evaluation_unit(200, 200), evaluation_unit(30, 2)
    ('epoch', 'evaluation')
    """
    return "epoch" if epochs in (None, evaluations) else "evaluation"


def _polyline(kind: str, values: Iterable[float], x: Axis, y: Axis) -> Markup:
    points = " ".join(f"{x(i)},{y(value)}" for i, value in enumerate(values, start=1))
    return tag("polyline", class_=kind, points=points)


# The chart of the report --------------------------------------------------------------------------

PAGE = Frame(640, 300, 64, 148, 16, 46)


def accuracy_curve(validation: ValidationMetrics, unit: str) -> Markup:
    """Draw validation accuracy: a line per mode, and a thin line per replica if there are several.

    Parameters
    ----------
    validation : ValidationMetrics
        The curves and the selected evaluations.
    unit : {'epoch', 'evaluation'}
        The label of the horizontal axis.

    Examples
    --------
    >>> import numpy as np
    >>> from linkdist.report.metrics import ValidationMetrics, evaluate
    >>> modes = dict.fromkeys(MODES, evaluate(np.eye(2), np.array([0, 1])))
    >>> curves = dict.fromkeys(MODES, np.array([[0.5], [1.0]]))
    >>> validation = ValidationMetrics(2, curves, np.array([1]), modes)
    >>> accuracy_curve(validation, "epoch").count("<polyline")
    2
    """
    curves = validation.curves
    evaluations = len(curves["features"])
    values = [value for curve in curves.values() for value in curve.ravel().tolist()]
    x, y = PAGE.axes(values, evaluations, most=6)
    heights = _spread({mode: y(curve[-1].mean()) for mode, curve in curves.items()}, 22)
    lines = [
        tag(
            "g",
            *_mode_lines(curve, validation.best, x, y),
            tag("text", MODES[mode], class_="word", x=x(evaluations) + 9, y=heights[mode] + 4),
            class_=mode,
        )
        for mode, curve in curves.items()
    ]
    description = " ".join(
        f"Prediction {label}: {percent(curves[mode][0].mean())} at the first {unit}, "
        f"{percent(curves[mode][-1].mean())} at the last {unit}, "
        f"{percent(validation.modes[mode].accuracy)} with the selected weights."
        for mode, label in MODES.items()
    )
    axes = PAGE.draw(x, y, unit, lambda tick: percent(tick, 0))
    title = f"Validation accuracy by {unit}"
    return drawing(PAGE.width, PAGE.height, "curve", title, description, axes, *lines)


def _mode_lines(curve: Array, best: IntArray, x: Axis, y: Axis) -> list[Markup]:
    """Return the mean of a curve (evaluations, R), each replica, and dots at selected weights."""
    replicas = [_polyline("run each", values, x, y) for values in curve.T if curve.shape[1] > 1]
    dots = [
        tag("circle", class_="best", cx=x(at + 1), cy=y(curve[at, r]), r=4.5)
        for r, at in enumerate(best.tolist())
    ]
    return [*replicas, _polyline("run", curve.mean(axis=1), x, y), *dots]


def _spread(places: Mapping[str, float], room: float) -> dict[str, float]:
    """Move labels apart until they do not overlap."""
    moved = dict(places)
    for above, below in pairwise(sorted(places, key=places.__getitem__)):
        overlap = room - (moved[below] - moved[above])
        if overlap > 0:
            moved[above], moved[below] = moved[above] - overlap / 2, moved[below] + overlap / 2
    return moved


# The chart of the model card ----------------------------------------------------------------------

CARD = Frame(640, 260, 52, 18, 34, 40)

# Colours of medium lightness, because a picture in a README is seen on white and on dark pages.
STYLE = """
text { font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #74797f }
.title { font-size: 13px; font-weight: 600 }
.y { text-anchor: end; font-variant-numeric: tabular-nums } .tick { text-anchor: middle }
.grid { stroke: #808080; stroke-opacity: .25 }
.run { fill: none; stroke: #2b7fd4; stroke-width: 2; stroke-linejoin: round }
.many .run { stroke-width: 1.3; stroke-opacity: .75 }
.best { fill: #c2620c } .word { fill: #c2620c; font-weight: 600 }
"""


class Line(NamedTuple):
    """The accuracies of a replica and the index of the evaluation whose weights it kept."""

    values: list[float]
    best: int

    @property
    def accuracy(self) -> float:
        """The accuracy of the kept weights."""
        return self.values[self.best]


def card_curve(about: Mapping[str, Any]) -> str:
    """Draw the validation accuracy of each replica as a standalone SVG file.

    Parameters
    ----------
    about : mapping
        Its 'curve' has one list of accuracies for each replica. 'kept', if present, has the number
        of the evaluation that each replica kept, counted from 1.

    Returns
    -------
    str
        SVG; empty if there is no curve.

    Examples
    --------
    >>> card_curve({"curve": [[0.5, 0.75, 0.7]]}).count('class="best"')
    1
    >>> card_curve({})
    ''
    """
    lines = _lines(about)
    if not lines:
        return ""
    unit, evaluations = _unit(about), max(len(line.values) for line in lines)
    values = [value for line in lines for value in line.values]
    x, y = CARD.axes(values, evaluations, most=4.5)
    marks = [
        mark
        for line in lines
        for mark in (
            _polyline("run", line.values, x, y),
            tag("circle", class_="best", cx=x(line.best + 1), cy=y(line.accuracy), r=4),
        )
    ]
    first = lines[0]
    at = x(first.best + 1)
    side = "end" if at > CARD.width / 2 else "start"
    value = f"{first.accuracy:.1%}" if len(lines) == 1 else ""
    svg = tag(
        "svg",
        tag("title", describe_curve(about), id="title"),
        tag("style", Markup(STYLE)),
        tag("text", f"Validation accuracy by {unit}", class_="title", x=CARD.left, y=18),
        CARD.draw(x, y, unit, lambda tick: f"{tick:.0%}"),
        tag("g", *marks, class_="many" if len(lines) > 1 else "one"),
        tag("text", value, class_="word", x=at, y=y(first.accuracy) - 9, text_anchor=side),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {CARD.width} {CARD.height}",
        width=CARD.width,
        height=CARD.height,
        role="img",
        aria_labelledby="title",
    )
    return f"{svg}\n"


def describe_curve(about: Mapping[str, Any]) -> str:
    """Describe the chart of the model card in words; empty if there is no curve.

    Examples
    --------
    >>> describe_curve({"curve": [[0.5, 0.75, 0.7]]})
    'Validation accuracy by epoch. Selected: 75.0% at epoch 2 of 3.'
    """
    lines, unit = _lines(about), _unit(about)
    if not lines:
        return ""
    best = [f"{line.accuracy:.1%} at {unit} {line.best + 1}" for line in lines]
    shown = ", ".join(best[:10]) + (", …" if len(best) > 10 else "")
    replicas = "" if len(lines) == 1 else f" of {len(lines)} replicas"
    evaluations = max(len(line.values) for line in lines)
    return f"Validation accuracy by {unit}{replicas}. Selected: {shown} of {evaluations}."


def _lines(about: Mapping[str, Any]) -> list[Line]:
    """Return the curves that consist of numbers; replicas without validation nodes have none."""
    curves: Sequence[Sequence[float | None]] = about.get("curve") or []
    kept: Sequence[int | None] = about.get("kept") or [None] * len(curves)
    lines = []
    for curve, number in zip(curves, kept, strict=True):
        values = [value for value in curve if value is not None and 0 <= value <= 1]
        if values and len(values) == len(curve):
            first = values.index(max(values))
            lines.append(Line(values, first if number is None else number - 1))
    return lines


def _unit(about: Mapping[str, Any]) -> str:
    return evaluation_unit(about.get("epochs"), len((about.get("curve") or [[]])[0]))
