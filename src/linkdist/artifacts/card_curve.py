"""The chart of the validation accuracy beside the model card, as an SVG file."""

from __future__ import annotations

from markupsafe import Markup

from linkdist.artifacts.markdown import About
from linkdist.report.svg import Frame, curve, evaluation_unit, tag

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


def card_curve(about: About) -> str:
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
    curves = _curves(about)
    if not curves:
        return ""
    unit, many = _unit(about), len(curves) > 1
    x, y, axes = CARD.axes([values for values, _ in curves], unit, 4.5, "{:.0%}".format)
    lines = [
        curve("run", values, x, y)
        + tag("circle", class_="best", cx=x(best + 1), cy=y(values[best]), r=4)
        for values, best in curves
    ]
    values, best = curves[0]
    at, accuracy = x(best + 1), values[best]
    side = "end" if at > CARD.width / 2 else "start"
    value = "" if many else f"{accuracy:.1%}"
    svg = tag(
        "svg",
        tag("title", describe_curve(about), id="title"),
        tag("style", Markup(STYLE)),
        tag("text", f"Validation accuracy by {unit}", class_="title", x=CARD.left, y=18),
        axes,
        tag("g", *lines, class_="many" if many else "one"),
        tag("text", value, class_="word", x=at, y=y(accuracy) - 9, text_anchor=side),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {CARD.width} {CARD.height}",
        width=CARD.width,
        height=CARD.height,
        role="img",
        aria_labelledby="title",
    )
    return f"{svg}\n"


def describe_curve(about: About) -> str:
    """Describe the chart in words; empty if there is no curve.

    Examples
    --------
    >>> describe_curve({"curve": [[0.5, 0.75, 0.7]]})
    'Validation accuracy by epoch. Selected: 75.0% at epoch 2 of 3.'
    """
    curves = _curves(about)
    if not curves:
        return ""
    unit = _unit(about)
    selected = [f"{values[best]:.1%} at {unit} {best + 1}" for values, best in curves]
    shown = ", ".join(selected[:10]) + (", …" if len(selected) > 10 else "")
    replicas = "" if len(curves) == 1 else f" of {len(curves)} replicas"
    evaluations = max(len(values) for values, _ in curves)
    return f"Validation accuracy by {unit}{replicas}. Selected: {shown} of {evaluations}."


def _curves(about: About) -> list[tuple[list[float], int]]:
    """Return accuracies and the index of the kept one; replicas without validation have none."""
    curves = about.get("curve") or []
    kept = about.get("kept") or [None] * len(curves)
    return [
        (values, values.index(max(values)) if number is None else number - 1)
        for values, number in zip(curves, kept, strict=True)
        if values and all(value is not None and 0 <= value <= 1 for value in values)
    ]


def _unit(about: About) -> str:
    return evaluation_unit(about.get("epochs"), len(about["curve"][0]))
