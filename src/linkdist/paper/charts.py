"""Every run of a data set as a dot: a strip plot in hand-made SVG.

A panel is one data set; a lane in it is one method. The upper half of a lane holds ours, a dot a
run and an upright line at their mean; the lower half holds the paper's, a hollow diamond with a
whisker of one standard deviation to each side. The halves never share a height, so neither hides
the other. Each panel has its own scale: what matters is the distance between ours and theirs, and
on one scale for all it would be too small to see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from linkdist.paper.published import Published, group_of
from linkdist.report.svg import drawing, line, round_step

WIDTH, LEFT, RIGHT, TOP, LANE, GAP, FOOT = 300, 92, 8, 6, 25, 7, 20

PLOT_CSS = """
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 265px), 1fr));
  gap: 1.5rem 1.25rem; margin-top: 1rem }
.panels figure { margin: 0; break-inside: avoid }
.panels figcaption { font-weight: 600; font-size: .9rem; margin-bottom: .1rem }
svg .group { stroke: var(--muted); stroke-width: 1; stroke-dasharray: 1 3; opacity: .7 }
svg .run { fill: var(--above); fill-opacity: .5 }
svg .mean { stroke: var(--ink); stroke-width: 1.8; stroke-linecap: round }
svg .theirs { stroke: var(--below); stroke-width: 1.3; fill: none }
svg .diamond { fill: var(--page) }
.legend svg { width: 34px; height: 16px; flex: none }
"""


class Lane(NamedTuple):
    """One method's runs on one data set, and the published number if there is one."""

    method: str
    scores: Sequence[float]
    mean: float
    published: Published | None


class Scale(NamedTuple):
    """Where an accuracy lies on the x axis."""

    low: float
    high: float

    @classmethod
    def around(cls, lanes: Sequence[Lane]) -> Scale:
        """Take in all that is drawn, with a little room; at least one point wide."""
        values = [value for lane in lanes for value in (*lane.scores, lane.mean)]
        for cell in (lane.published for lane in lanes):
            if cell:
                values += [cell.mean - cell.std, cell.mean + cell.std]
        low, high = min(values), max(values)
        room = max(0.04 * (high - low), (1 - (high - low)) / 2)
        return cls(low - room, high + room)

    def __call__(self, value: float) -> float:
        """Return x, to a tenth of a unit."""
        share = (value - self.low) / (self.high - self.low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def ticks(self) -> list[str]:
        """Return two to seven round accuracies, as they are written."""
        step = round_step(self.high - self.low, most=7, least=0.1)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [f"{i * step:.{1 if step < 1 else 0}f}" for i in range(first, last + 1)]


def strip_plots(columns: Mapping[str, Sequence[Lane]], uid: str) -> str:
    """Draw a panel for each data set that has a lane, under the key to them all.

    Parameters
    ----------
    columns : mapping of str to sequence of Lane
        The data sets and their methods, from the top down.
    uid : str
        A name that no other group of panels on the page has.

    Examples
    --------
    >>> columns = {"digits": [Lane("MLP", [90.0], 90.0, None)], "cora": []}
    >>> strip_plots(columns, "a").count("<figure>")
    1
    """
    figures = [
        f"<figure><figcaption>{escape(dataset)}</figcaption>"
        f"{strip_plot(dataset, lanes, f'{uid}-{i}')}</figure>"
        for i, (dataset, lanes) in enumerate(columns.items())
        if lanes
    ]
    return f'{_legend()}<div class="panels">{"".join(figures)}</div>'


def strip_plot(dataset: str, lanes: Sequence[Lane], uid: str) -> str:
    """Draw one data set's panel.

    Parameters
    ----------
    dataset : str
        The panel's title.
    lanes : sequence of Lane
        The methods, from the top down; at least one.
    uid : str
        A name that no other panel of the page has, for the labels that point into it.

    Returns
    -------
    str
        An SVG element, to be set into a page that has `PLOT_CSS`.

    Examples
    --------
    >>> panel = strip_plot("digits", [Lane("MLP", [90.0, 91.0], 90.5, None)], "a")
    >>> panel.count('class="run"')
    2
    """
    scale = Scale.around(lanes)
    tops = _tops(lanes)
    bottom = tops[-1] + LANE
    rows = "".join(_lane(lane, top, scale) for lane, top in zip(lanes, tops, strict=True))
    title = f"Accuracy of every run on {dataset}"
    told = " ".join(_sentence(lane) for lane in lanes)
    marks = f"{_axis(scale, bottom)}{_separators(tops)}{rows}"
    return drawing(WIDTH, bottom + FOOT, uid, title, told, marks)


def _legend() -> str:
    marks = {
        "one run": "".join(_dot(x, y) for x, y in ((8, 9), (16, 6), (25, 10))),
        "our mean": _mean(17, 8),
        "published mean ± standard deviation": _theirs(4, 17, 30, 8),
    }
    items = (
        f'<li><svg viewBox="0 0 34 16" aria-hidden="true">{mark}</svg>{words}</li>'
        for words, mark in marks.items()
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _tops(lanes: Sequence[Lane]) -> list[int]:
    """Stack the lanes, with a gap where the group changes."""
    tops = [TOP]
    for above, lane in pairwise(lanes):
        gap = 0 if lane.method in group_of(above.method) else GAP
        tops.append(tops[-1] + LANE + gap)
    return tops


def _separators(tops: Sequence[int]) -> str:
    starts = [top for above, top in pairwise(tops) if top - above > LANE]
    return "".join(line("group", 0, y, WIDTH, y) for y in (top - GAP / 2 for top in starts))


def _axis(scale: Scale, bottom: int) -> str:
    return "".join(
        f"{line('grid', x, TOP, x, bottom)}"
        f'<text class="tick" x="{x}" y="{bottom + 14}">{tick}</text>'
        for tick, x in ((tick, scale(float(tick))) for tick in scale.ticks())
    )


def _lane(lane: Lane, top: int, scale: Scale) -> str:
    ours, theirs = top + 9, top + 19
    # The golden ratio spreads any number of runs evenly, and the same way each time.
    jitter = [round(7 * (i * 0.618034 % 1 - 0.5), 1) for i in range(len(lane.scores))]
    marks = [_dot(scale(x), ours + dy) for x, dy in zip(lane.scores, jitter, strict=True)]
    marks.append(_mean(scale(lane.mean), ours))
    if cell := lane.published:
        low, high = scale(cell.mean - cell.std), scale(cell.mean + cell.std)
        marks.append(_theirs(low, scale(cell.mean), high, theirs))
    name = f'<text class="name" x="{LEFT - 8}" y="{top + 16}">{escape(lane.method)}</text>'
    return f"<g><title>{escape(_sentence(lane))}</title>{name}{''.join(marks)}</g>"


def _sentence(lane: Lane) -> str:
    theirs = lane.published
    known = f"published {theirs.mean:.2f} ± {theirs.std:.2f}" if theirs else "not published"
    runs = f"{len(lane.scores)} run{'s' * (len(lane.scores) != 1)}"
    return f"{lane.method}: mean {lane.mean:.2f} of {runs}, {known}."


def _dot(x: float, y: float) -> str:
    return f'<circle class="run" cx="{x}" cy="{round(y, 1)}" r="2.6"/>'


def _mean(x: float, y: float) -> str:
    return line("mean", x, y - 6, x, y + 6)


def _theirs(low: float, x: float, high: float, y: float) -> str:
    whisker = f"M{low} {y - 2.5}v5M{low} {y}H{high}M{high} {y - 2.5}v5"
    diamond = f"M{x} {y - 4}l4 4l-4 4l-4 -4z"
    return f'<path class="theirs" d="{whisker}"/><path class="theirs diamond" d="{diamond}"/>'
