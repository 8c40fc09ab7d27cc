"""The chart of estimated scores: this model beside baselines, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from markupsafe import Markup

from linkdist.report.number_axis import number_axis, tick_text, unit_of
from linkdist.report.score_text import MODES, interval_text, is_number, measure_named, score_text
from linkdist.report.svg import Axis, drawing, line, percent, short, tag
from linkdist.training.measures import Measure
from linkdist.training.panel.estimates import Estimates, Score

DRAWN = 8
"""Number of baselines in the chart; the table lists all of them."""
BASELINES = "Baselines, "
LOWEST = -1.0
"""R² has no lower limit; below this value the chart ends."""
WIDTH, EDGE, LANE, OVER = 640, 28, 38, 34
"""Width, horizontal margin, height of a score and height of a group's title."""


def score_groups(estimates: Estimates) -> dict[str, list[Score]]:
    """Group the scores under titles; empty groups are left out.

    Examples
    --------
    >>> ours = [Score("this model, from features", 0.8, 0.7, 0.9, False)]
    >>> score_groups(Estimates(20, "folds", ours, [], [], []))["This model, new rows"][0].name
    'from features'
    """
    new, known = (
        [replace(score, name=score.name.removeprefix("this model, ")) for score in scores]
        for scores in (estimates.new_rows, estimates.known_rows)
    )
    groups = [
        (f"This model, {estimates.rows}", new),
        ("This model, rows of the table", known),
        (BASELINES + estimates.rows, estimates.baselines),
    ]
    return {title: scores for title, scores in groups if scores}


def score_chart(estimates: Estimates) -> Markup:
    """Draw scores with their 90 % intervals: this model, then the best baselines.

    Names are above their lines, so that long names can be read on a phone. A score that is not
    defined has no dot.

    Examples
    --------
    >>> ours = [Score("this model, from features", 0.8, 0.7, 0.9, False)]
    >>> score_chart(Estimates(20, "folds", ours, [], [], [])).count("<circle")
    1
    """
    measure = measure_named(estimates.measure)
    groups = {title: scores[:DRAWN] for title, scores in score_groups(estimates).items()}
    every = [score for scores in groups.values() for score in scores]
    axis, unit, label = _axis(every, measure)
    row = partial(_row, measure=measure, axis=axis, unit=unit)
    rows, y = [], 0
    for title, scores in groups.items():
        tone = "rest" if title.startswith(BASELINES) else "features"
        rows.append(tag("text", title, class_="group", x=EDGE, y=y + 22))
        y += OVER
        for score in scores:
            rows.append(row(score, tone, y))
            y += LANE
    ours, guide = estimates.new_rows[0].value, Markup("")
    if is_number(ours):
        at = _place(axis, ours / unit)
        guide = tag("g", line("guide", at, OVER, at, y), class_="features")
    grid = axis.draw_x(y + 20, label, grid=(OVER, y))
    description = " ".join(
        f"{title}: {'; '.join(_text(score, measure) for score in scores)}."
        for title, scores in groups.items()
    )
    name = measure.title[:1].upper() + measure.title[1:]
    title = f"{name} of this model and of baselines"
    return drawing(WIDTH, y + 30, "scores", title, description, grid, guide, *rows)


def is_cut(estimates: Estimates) -> bool:
    """Whether the chart has scores or intervals beyond its lowest value.

    Examples
    --------
    >>> ours = [Score("this model, from features", -2.0, -3.0, -1.0, False)]
    >>> is_cut(Estimates(20, "folds", ours, [], [], [], measure="r2"))
    True
    """
    drawn = [score for scores in score_groups(estimates).values() for score in scores[:DRAWN]]
    return any(min(score.low, score.value) < LOWEST for score in drawn)


def _axis(scores: list[Score], measure: Measure) -> tuple[Axis, float, Callable[[float], str]]:
    """The axis, the unit of its values, and the text of a tick."""
    ends = [end for one in scores for end in (one.value, one.low, one.high) if is_number(end)]
    if measure.higher_is_better:
        lowest = max(min([*ends, 1.0]), 0.0 if measure.percent else LOWEST)
        axis = Axis.rounded([lowest, 1.0], EDGE, WIDTH - EDGE, most=6, least=0.01)
        return axis, 1.0, partial(percent, digits=0) if measure.percent else tick_text(axis, 1.0)
    unit = unit_of(np.array(ends))
    axis = number_axis([0.0, *(end / unit for end in ends)], EDGE, WIDTH - EDGE, most=6)
    return axis, unit, tick_text(axis, unit)


def _place(axis: Axis, value: float) -> float:
    """The place of a value; at the end of the axis if it lies beyond."""
    return axis(min(max(value, axis.low), axis.high))


def _row(score: Score, tone: str, top: float, measure: Measure, axis: Axis, unit: float) -> Markup:
    name, y = f"{short(score.name, 40)}{_needs(score)}", top + 26
    marks = []
    if is_number(score.low) and is_number(score.high):
        ends = (_place(axis, end / unit) for end in (score.low, score.high))
        marks.append(line("span", next(ends), y, next(ends), y))
    if is_number(score.value):
        marks.append(tag("circle", class_="best", cx=_place(axis, score.value / unit), cy=y, r=5.5))
    value = score_text(score.value, measure)
    return tag(
        "g",
        tag("title", _text(score, measure)),
        line("track", axis.start, y, axis.end, y),
        *marks,
        tag("text", name, class_="who", x=EDGE, y=top + 15),
        tag("text", value, class_="y word scored", x=WIDTH - EDGE, y=top + 15),
        class_=tone,
    )


def _text(score: Score, measure: Measure) -> str:
    interval = interval_text(score.low, score.high, measure)
    value = score_text(score.value, measure)
    return f"{score.name}{_needs(score)} {value}, 90\xa0% interval {interval}"


def _needs(score: Score) -> str:
    return " (needs links)" if score.links and score.name != MODES["links"] else ""
