"""Strip plots: all runs on a data set, method by method, in inline SVG.

A panel shows one data set and a lane one method. The upper half of a lane has a dot for each run
and a vertical line at their mean; the lower half has the published mean as a hollow diamond, with
whiskers of one standard deviation. Each panel has its own scale, because the differences between
our results and the published ones would be invisible on a common scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from linkdist.paper.published import Published, group_of
from linkdist.report.svg import Axis, drawing, line, tag

WIDTH, LEFT, RIGHT, TOP, LANE, GAP, FOOT = 300, 92, 8, 6, 25, 7, 20


class Lane(NamedTuple):
    """The runs of a method on a data set, and the published result if there is one."""

    method: str
    scores: Sequence[float]
    mean: float
    published: Published | None


def accuracy_axis(lanes: Sequence[Lane]) -> Axis:
    """Return an axis that includes everything in the lanes.

    Examples
    --------
    >>> accuracy_axis([Lane("MLP", [80.0, 90.0], 85.0, None)]).ticks()
    [80.0, 82.0, 84.0, 86.0, 88.0, 90.0]
    """
    values = [value for lane in lanes for value in (*lane.scores, lane.mean)]
    for cell in (lane.published for lane in lanes):
        if cell:
            values += [cell.mean - cell.std, cell.mean + cell.std]
    return Axis.padded(values, LEFT, WIDTH - RIGHT, most=7, least=0.1)


def strip_plot(dataset: str, lanes: Sequence[Lane], uid: str) -> Markup:
    """Draw the panel of one data set.

    Parameters
    ----------
    dataset : str
        The title of the panel.
    lanes : sequence of Lane
        The methods from top to bottom; at least one.
    uid : str
        An identifier that is unique on the page.

    Returns
    -------
    Markup
        An SVG element. Its style is in `templates/paper.css`.

    Examples
    --------
    >>> panel = strip_plot("digits", [Lane("MLP", [90.0, 91.0], 90.5, None)], "a")
    >>> panel.count('class="run"')
    2
    """
    axis = accuracy_axis(lanes)
    digits = 1 if axis.step < 1 else 0
    tops = _tops(lanes)
    bottom = tops[-1] + LANE
    gaps = [top - GAP / 2 for above, top in pairwise(tops) if top - above > LANE]
    return drawing(
        WIDTH,
        bottom + FOOT,
        uid,
        f"Accuracy of all runs on {dataset}",
        " ".join(_describe(lane) for lane in lanes),
        axis.draw_x(bottom + 14, lambda tick: f"{tick:.{digits}f}", grid=(TOP, bottom)),
        *(line("group", 0, y, WIDTH, y) for y in gaps),
        *(_lane(lane, top, axis) for lane, top in zip(lanes, tops, strict=True)),
    )


def legend() -> list[tuple[Markup, str]]:
    """Return each kind of mark with its meaning.

    Examples
    --------
    >>> [meaning for _, meaning in legend()]
    ['one run', 'our mean', 'published mean ± standard deviation']
    """
    runs = Markup("").join(_dot(x, y) for x, y in ((8, 9), (16, 6), (25, 10)))
    return [
        (runs, "one run"),
        (_mean(17, 8), "our mean"),
        (_published(4, 17, 30, 8), "published mean ± standard deviation"),
    ]


def _tops(lanes: Sequence[Lane]) -> list[int]:
    """Return the upper edges of the lanes, with a gap between groups of methods."""
    tops = [TOP]
    for above, lane in pairwise(lanes):
        gap = 0 if lane.method in group_of(above.method) else GAP
        tops.append(tops[-1] + LANE + gap)
    return tops


def _lane(lane: Lane, top: int, axis: Axis) -> Markup:
    ours, theirs = top + 9, top + 19
    # Multiples of the golden ratio spread any number of runs evenly and reproducibly.
    jitter = [7 * (i * 0.618034 % 1 - 0.5) for i in range(len(lane.scores))]
    marks = [_dot(axis(x), ours + dy) for x, dy in zip(lane.scores, jitter, strict=True)]
    marks.append(_mean(axis(lane.mean), ours))
    if cell := lane.published:
        low, high = axis(cell.mean - cell.std), axis(cell.mean + cell.std)
        marks.append(_published(low, axis(cell.mean), high, theirs))
    name = tag("text", lane.method, class_="name", x=LEFT - 8, y=top + 16)
    return tag("g", tag("title", _describe(lane)), name, *marks)


def _describe(lane: Lane) -> str:
    theirs = lane.published
    published = f"published {theirs.mean:.2f} ± {theirs.std:.2f}" if theirs else "not published"
    runs = f"{len(lane.scores)} run{'s' * (len(lane.scores) != 1)}"
    return f"{lane.method}: mean {lane.mean:.2f} of {runs}, {published}."


def _dot(x: float, y: float) -> Markup:
    return tag("circle", class_="run", cx=x, cy=y, r=2.6)


def _mean(x: float, y: float) -> Markup:
    return line("mean", x, y - 6, x, y + 6)


def _published(low: float, x: float, high: float, y: float) -> Markup:
    whisker = f"M{low} {y - 2.5}v5M{low} {y}H{high}M{high} {y - 2.5}v5"
    diamond = f"M{x} {y - 4}l4 4l-4 4l-4 -4z"
    return tag("path", class_="theirs", d=whisker) + tag("path", class_="theirs diamond", d=diamond)
