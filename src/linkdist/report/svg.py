"""Building blocks for SVG charts: escaped elements, numbers as text, axes and curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from markupsafe import Markup


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """Return an SVG element. Children and attribute values are escaped unless they are `Markup`.

    Parameters
    ----------
    name : str
        The element's name.
    *children : str
        Text or elements. An element without children is self-closing.
    **attributes : object
        Attribute values. A trailing underscore of a name is dropped, so `class_` gives `class`;
        other underscores become hyphens. Floats are rounded to a tenth of a unit.

    Examples
    --------
    >>> tag("text", "a & b", class_="name", x=1.25)
    Markup('<text class="name" x="1.2">a &amp; b</text>')
    """
    given = Markup("")
    for key, value in attributes.items():
        shown = round(value, 1) if isinstance(value, float) else value
        given += Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), shown)
    if not children:
        return Markup("<{}{}/>").format(name, given)
    return Markup("<{}{}>{}</{}>").format(name, given, Markup("").join(children), name)


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    """Return a line with a CSS class.

    Examples
    --------
    >>> line("grid", 0, 1, 2, 1)
    Markup('<line class="grid" x1="0" y1="1" x2="2" y2="1"/>')
    """
    return tag("line", class_=kind, x1=x1, y1=y1, x2=x2, y2=y2)


def drawing(
    width: float, height: float, uid: str, title: str, description: str, *marks: str
) -> Markup:
    """Return an `<svg>` element with a title and a description for screen readers.

    Parameters
    ----------
    width, height : float
        Size in the drawing's own units. The style sheet finds the width as `--w`.
    uid : str
        An identifier that is unique on the page.
    title, description : str
        Plain text.
    *marks : str
        The elements of the drawing.

    Examples
    --------
    >>> drawing(10, 5, "a", "Dots", "None & none.")[:58]
    Markup('<svg viewBox="0 0 10 5" style="--w: 10px" role="img" aria-')
    """
    return tag(
        "svg",
        tag("title", title, id=f"{uid}-t"),
        tag("desc", description, id=f"{uid}-d"),
        *marks,
        viewBox=f"0 0 {width:g} {height:g}",
        style=f"--w: {width:g}px",
        role="img",
        aria_labelledby=f"{uid}-t {uid}-d",
    )


def plain(value: object) -> str:
    r"""Return text on one line, with unprintable and direction-changing characters replaced.

    Examples
    --------
    >>> plain("a\tb "), plain(chr(0x202E) + "c")
    ('a b', '�c')
    """
    words = " ".join(str(value).split())
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in words)


def short(name: str, most: int) -> str:
    """Return a name with at most `most` characters.

    Examples
    --------
    >>> short("economics", 6), short("maths", 6)
    ('econo…', 'maths')
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


def percent(share: float, digits: int = 1) -> str:
    r"""Return a share as a percentage.

    Examples
    --------
    >>> percent(0.875), percent(0.5, digits=0)
    ('87.5\xa0%', '50\xa0%')
    """
    return f"{100 * share:.{digits}f}\xa0%"


def round_step(span: float, most: float, least: float) -> float:
    """Return the smallest step of 1, 2, 5, 10, ... times `least` that fits at most `most` times.

    Examples
    --------
    >>> round_step(0.13, most=4.5, least=0.01), round_step(200, most=7, least=1)
    (0.05, 50)
    """
    while span / least > most:
        for factor in (2, 5):
            if span / (factor * least) <= most:
                return factor * least
        least *= 10
    return least


class Axis(NamedTuple):
    """A linear map from values to coordinates, with round ticks.

    Attributes
    ----------
    low, high : float
        The values at both ends.
    start, end : float
        Their coordinates.
    step : float
        The distance between two ticks.

    Examples
    --------
    >>> upwards = Axis.rounded([0.52, 0.93], 200, 0, most=5, least=0.01)
    >>> upwards.low, upwards.high, upwards(0.75), upwards.ticks()
    (0.5, 1.0, 100.0, [0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    >>> Axis.padded([50.0], 0, 100, most=7, least=0.1)[:2]
    (49.5, 50.5)
    """

    low: float
    high: float
    start: float
    end: float
    step: float

    @classmethod
    def rounded(
        cls, values: Iterable[float], start: float, end: float, most: float, least: float
    ) -> Axis:
        """Return an axis whose ends are ticks and which is at least one step long."""
        known = list(values)
        low, high = min(known), max(known)
        step = round_step(high - low, most, least)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if first == last:
            # One step below rather than above: there is no accuracy over 100 %.
            first, last = (first - 1, first) if first > 0 else (first, first + 1)
        return cls(first * step, last * step, start, end, step)

    @classmethod
    def padded(
        cls, values: Iterable[float], start: float, end: float, most: float, least: float
    ) -> Axis:
        """Return an axis that ends shortly outside the values and is at least 1 long."""
        known = list(values)
        span = max(known) - min(known)
        room = max(0.04 * span, (1 - span) / 2)
        low, high = min(known) - room, max(known) + room
        return cls(low, high, start, end, round_step(high - low, most, least))

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value, rounded to a tenth of a unit."""
        share = (value - self.low) / (self.high - self.low)
        return round(float(self.start + share * (self.end - self.start)), 1)

    def ticks(self) -> list[float]:
        """Return the multiples of the step from end to end."""
        first = math.ceil(self.low / self.step - 1e-9)
        last = math.floor(self.high / self.step + 1e-9)
        return [round(i * self.step, 9) for i in range(first, last + 1)]

    def draw_x(
        self,
        y: float,
        label: Callable[[float], str],
        grid: tuple[float, float] | None = None,
        ticks: Sequence[float] | None = None,
    ) -> Markup:
        """Return tick labels at height `y`; `grid` gives the two ends of vertical grid lines."""
        return Markup("").join(
            (line("grid", self(tick), grid[0], self(tick), grid[1]) if grid else Markup(""))
            + tag("text", label(tick), class_="tick", x=self(tick), y=y)
            for tick in (self.ticks() if ticks is None else ticks)
        )

    def draw_y(self, left: float, right: float, label: Callable[[float], str]) -> Markup:
        """Return horizontal grid lines from `left` to `right`, with labels on their left."""
        return Markup("").join(
            line("grid", left, self(tick), right, self(tick))
            + tag("text", label(tick), class_="y", x=left - 8, y=self(tick) + 4)
            for tick in self.ticks()
        )


class Frame(NamedTuple):
    """The size of a chart of validation accuracy, and the margins around its plot area."""

    width: int
    height: int
    left: int
    right: int
    top: int
    foot: int

    def axes(
        self,
        curves: Sequence[Sequence[float]],
        unit: str,
        most: float,
        label: Callable[[float], str],
    ) -> tuple[Axis, Axis, Markup]:
        """Return the axes of evaluations, counted from 1, and of accuracies, and draw both."""
        evaluations, end = max(map(len, curves)), self.width - self.right
        step = round_step(evaluations, most=7, least=1)
        x = Axis(1, max(evaluations, 1.5), self.left, end, step)
        y = Axis.rounded(chain(*curves), self.height - self.foot, self.top, most, least=0.01)
        ticks = [1, *(tick for tick in x.ticks() if x(tick) - self.left > 25)]
        drawn = (
            y.draw_y(self.left, end, label)
            + x.draw_x(self.height - self.foot + 18, lambda tick: f"{tick:,.0f}", ticks=ticks)
            + tag("text", unit, class_="tick", x=(self.left + end) / 2, y=self.height - 6)
        )
        return x, y, drawn


def curve(kind: str, values: Iterable[float], x: Axis, y: Axis) -> Markup:
    """Return a line through the accuracy of each evaluation."""
    points = " ".join(f"{x(i)},{y(value)}" for i, value in enumerate(values, start=1))
    return tag("polyline", class_=kind, points=points)


def evaluation_unit(epochs: int | None, evaluations: int) -> str:
    """Return 'epoch' if there is one evaluation per epoch, else 'evaluation'.

    Examples
    --------
    >>> evaluation_unit(200, 200), evaluation_unit(30, 2)
    ('epoch', 'evaluation')
    """
    return "epoch" if epochs in (None, evaluations) else "evaluation"
