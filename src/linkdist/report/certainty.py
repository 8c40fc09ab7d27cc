"""The section of the report about certainty: unanswered rows and conformal sets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from markupsafe import Markup

from linkdist.report.score_text import MODES
from linkdist.report.svg import Axis, drawing, percent, tag
from linkdist.tables.certainty import Certainty, HeldOut

ABSTAINED = (0.0, 0.1, 0.2, 0.3, 0.5)
"""The shares of unanswered rows in a table."""
FEWEST = 20
"""Number of answers below which an accuracy is not drawn."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 640, 300, 64, 148, 22, 46
_whole_percent = partial(percent, digits=0)


def certainty_data(about: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of the template; none if the model has no scores of held-out labels."""
    certainty = Certainty.read(about.get("certainty"))
    if certainty is None or certainty.labels <= FEWEST:
        return {"certainty": None}
    held = {mode: getattr(certainty, mode) for mode in MODES}
    return {
        "certainty": certainty,
        "certainty_chart": answer_chart(held),
        "answers": [
            (1 - share, [(one.accuracy_of(share), one.least(share)) for one in held.values()])
            for share in ABSTAINED
        ],
        "sets": list(zip(*(one.sets for one in held.values()), strict=True)),
    }


def answer_chart(held: Mapping[str, HeldOut]) -> Markup:
    """Draw the accuracy of the answers over the share of rows that are answered.

    Parameters
    ----------
    held : mapping of str to HeldOut
        Predictions of held-out labels, for each mode.

    Examples
    --------
    >>> import numpy as np
    >>> one = HeldOut.of(np.full((30, 2), 0.5), np.zeros(30, dtype=int))
    >>> answer_chart({"features": one, "links": one}).count("<polyline")
    2
    """
    points = {
        mode: [
            (share, value)
            for share, value in zip(one.shares.tolist(), one.accuracy.tolist(), strict=True)
            if share * one.n >= FEWEST
        ]
        for mode, one in held.items()
    }
    x = Axis(0, 1, LEFT, WIDTH - RIGHT, 0.2)
    accuracies = [value for part in points.values() for _, value in part]
    y = Axis.rounded(accuracies, HEIGHT - FOOT, TOP, 6, least=0.01)
    ends = _apart({mode: y(part[-1][1]) for mode, part in points.items()})
    lines = [_line(mode, part, x, y, ends[mode]) for mode, part in points.items()]
    axes = [
        y.draw_y(LEFT, WIDTH - RIGHT, _whole_percent),
        x.draw_x(HEIGHT - FOOT + 18, _whole_percent),
        tag("text", "share of rows that are answered →", class_="side y", x=WIDTH - RIGHT,
            y=HEIGHT - 6),
        tag("text", "accuracy of the answers ↑", class_="side", x=LEFT, y=12),
    ]  # fmt: skip
    description = " ".join(
        f"{MODES[mode].capitalize()}: {percent(one.accuracy_of(0.5))} if half of the rows are "
        f"answered, {percent(one.accuracy_of(0.2))} if 80 % are, {percent(one.accuracy[-1])} if "
        "all are."
        for mode, one in held.items()
    )
    title = "Accuracy by share of rows that are answered"
    return drawing(WIDTH, HEIGHT, "answers", title, description, *axes, *lines)


def _line(mode: str, points: list[tuple[float, float]], x: Axis, y: Axis, height: float) -> Markup:
    """A curve, which ends at all rows, with its name."""
    drawn = " ".join(f"{x(share)},{y(value)}" for share, value in points)
    return tag(
        "g",
        tag("polyline", class_="run", points=drawn),
        tag("text", MODES[mode], class_="word", x=x(1) + 9, y=height + 4),
        class_=mode,
    )


def _apart(heights: Mapping[str, float], room: float = 22) -> dict[str, float]:
    """The heights of two names, moved apart until they do not overlap."""
    (upper, high), (lower, low) = sorted(heights.items(), key=lambda one: one[1])
    overlap = max(0.0, room - (low - high)) / 2
    return {upper: high - overlap, lower: low + overlap}
