"""The comparison of a table with the training as one self-contained web page."""

from __future__ import annotations

from functools import partial

from markupsafe import Markup

from linkdist.inference.drift_report import Drift, DriftReport
from linkdist.report._jinja import render
from linkdist.report.svg import Axis, drawing, line, percent, plain, short, tag

MOST_CHARTS = 60
"""Columns with a chart of their own, the worst first."""

WIDTH, LEFT, RIGHT, ROW, FOOT = 460, 140, 16, 24, 26
NAME = 17
"""Number of characters of a name beside a chart."""

SCALE = 1.0
"""The largest PSI on the axis of the overview; longer bars are cut off, and their text is not."""


def render_drift(model: str, table: str, report: DriftReport) -> str:
    """Render the page.

    Parameters
    ----------
    model, table : str
        Names of the model and of the table.
    report : DriftReport
        The result of `linkdist.inference.drift.compare`.

    Returns
    -------
    str
        An HTML document without external resources.

    Examples
    --------
    >>> render_drift("papers", "new.csv", DriftReport(10, "features", 0.2, []))[:15]
    '<!doctype html>'
    """
    shown = report.columns[:MOST_CHARTS]
    return render(
        "drift.html",
        model=plain(model),
        table=plain(table),
        report=report,
        overview=draw_overview(shown, report.threshold) if shown else "",
        charts=[(one, plain(one.name), draw_bins(one, f"bins-{k}")) for k, one in enumerate(shown)],
        left_out=len(report.columns) - len(shown),
    )


def draw_overview(columns: list[Drift], threshold: float) -> Markup:
    """Draw the PSI of each column as a bar, with the threshold."""
    x = Axis(0, max(SCALE, 1.2 * threshold), LEFT, 640 - 70, 0.2)
    foot = 8 + ROW * len(columns)
    marks = [
        x.draw_x(foot + 18, lambda tick: f"{tick:g}", (4, foot)),
        line("limit", x(threshold), 4, x(threshold), foot),
    ]
    for k, one in enumerate(columns):
        y, end = 8 + ROW * k, x(min(one.psi, x.high))
        kind = "now alarm" if one.alarms else "now"
        marks += [
            _name(one.name, y + 15),
            tag("rect", class_=kind, x=x(0), y=y + 3, width=max(end - x(0), 0.5), height=ROW - 8),
            tag("text", f"{one.psi:.2f}{' ▲' * bool(one.alarms)}", x=end + 6, y=y + 15),
        ]
    text = "; ".join(f"{one.name} {one.psi:.2f}" for one in columns)
    return drawing(640, foot + FOOT, "overview", "PSI by column", f"{text}.", *marks)


def draw_bins(one: Drift, uid: str) -> Markup:
    """Draw the share of rows in each bin: in the training above, in the table below."""
    bins = [row for row in zip(one.labels, one.before, one.now, strict=True) if row[1] or row[2]]
    largest = max((max(before, now) for _, before, now in bins), default=1.0)
    x = Axis.rounded([0, largest], LEFT, WIDTH - RIGHT, most=4, least=0.01)
    foot = 8 + ROW * len(bins)
    marks = [x.draw_x(foot + 18, partial(percent, digits=0), (4, foot))]
    for k, (label, before, now) in enumerate(bins):
        y = 8 + ROW * k
        shares = f"{label}: {percent(before)} in the training, {percent(now)} in the table"
        bars = [
            tag("rect", class_=kind, x=x(0), y=top, width=max(x(share) - x(0), 0.5), height=8)
            for kind, share, top in (("before", before, y + 3), ("now", now, y + 12))
        ]
        marks += [_name(label, y + 15), tag("g", tag("title", plain(shares)), *bars)]
    title = f"Shares of rows by {plain(one.name)}"
    return drawing(WIDTH, foot + FOOT, uid, title, f"PSI {one.psi:.2f}.", *marks)


def _name(name: str, y: float) -> Markup:
    name = plain(name)
    whole = [tag("title", name)] if len(name) > NAME else []
    return tag("text", short(name, NAME), *whole, class_="name", x=LEFT - 8, y=y)
