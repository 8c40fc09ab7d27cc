"""The drawings of a model's report, in hand-made SVG.

Whatever a colour says, a mark's shape, a place or a word says too. Classes take turns in seven
colours and three shapes, which gives 21 marks that differ; a filled mark is a known label, a
hollow one a prediction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import pairwise

import numpy as np

from linkdist.data.graph import IntArray
from linkdist.report.metrics import BINS, Array, HeldOut, HiddenMap, Reliability
from linkdist.report.svg import Axis, drawing, line, percent, round_step, short
from linkdist.training.panel.estimates import Estimates, Score

MODES = {"features": "from features", "links": "with links"}

SHOWN = 20
"""Classes with a mark, a row and a column of their own; the others are one."""

LIGHT = ("#0072b2", "#d9600a", "#00896a", "#b8458c", "#45a3d9", "#8f7400", "#6d2140")
DARK = ("#4a94e0", "#f58a3c", "#2fbf97", "#ec93c8", "#a3daf8", "#d9c84a", "#c4607c")
SHAPES = 3


def _tones(colours: Iterable[str]) -> str:
    return "; ".join(f"--c{i}: {colour}" for i, colour in enumerate(colours))


CHART_CSS = (
    f"""
:root {{ {_tones(LIGHT)}; --deep: var(--ink) }}
@media (prefers-color-scheme: dark) {{ :root {{ {_tones(DARK)}; --deep: var(--page) }} }}
@media print {{ :root {{ {_tones(LIGHT)}; --deep: var(--ink) }} }}
"""
    + "".join(f".c{i} {{ --tone: var(--c{i}) }}\n" for i in range(len(LIGHT)))
    + """
.features { --tone: var(--above) } .links { --tone: var(--below) } .rest { --tone: var(--muted) }
figure svg { width: var(--w); max-width: 100% }
.heat { overflow-x: auto } .heat svg { min-width: calc(.8 * var(--w)) }
svg text { font-size: 12px } svg .y { text-anchor: end; font-variant-numeric: tabular-nums }
svg .run { fill: none; stroke: var(--tone); stroke-width: 2.2; stroke-linejoin: round }
svg .each { stroke-width: 1; stroke-opacity: .35 }
svg .best { fill: var(--tone); stroke: var(--page); stroke-width: 1.5 }
svg .word { fill: var(--tone); font-weight: 600 }
svg .cell { stroke: var(--page); stroke-width: 1.5; fill: var(--tone) }
svg .in { text-anchor: middle; fill: var(--ink); font-variant-numeric: tabular-nums }
svg .mid { fill: var(--deep) } svg .over { fill: var(--page); font-weight: 600; letter-spacing: 0 }
svg .name, svg .head { fill: var(--ink); font-size: 12px }
svg .ideal { stroke: var(--muted); stroke-dasharray: 3 3 } svg .side { font-style: italic }
svg .track { stroke: var(--line) } svg .guide { stroke: var(--tone); stroke-dasharray: 2 4 }
svg .span { stroke: var(--tone); stroke-width: 8; stroke-opacity: .35 }
svg .who { fill: var(--ink) } svg .group { fill: var(--ink); font-weight: 600 }
svg .who, svg .group, svg .scored { paint-order: stroke; stroke: var(--page); stroke-width: 5px;
  stroke-linejoin: round }
svg .gap { stroke: var(--tone); stroke-width: 2 } svg .bin { fill: var(--tone) }
svg .bar { fill: var(--muted); fill-opacity: .35 } svg .small { font-size: 10px }
svg .mark { stroke: var(--tone); stroke-width: 1.2 } svg .known { fill: var(--tone) }
svg .mark:not(.known) { fill: var(--page); fill-opacity: .6 }
svg .known { stroke: var(--page); stroke-width: .6 }
svg .label { fill: var(--ink); font-size: 13px; font-weight: 600; text-anchor: middle;
  paint-order: stroke; stroke: var(--page); stroke-width: 4px; stroke-linejoin: round }
.legend svg { width: 16px; height: 16px; flex: none }
@media (max-width: 40rem) { .wide svg text { font-size: 17px } }
"""
)


# Accuracy by look ---------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 640, 300, 64, 148, 16, 46


def accuracy_curve(held: HeldOut, unit: str) -> str:
    """Held-out accuracy at each look, a line a mode and a thin one a replica.

    Parameters
    ----------
    held : HeldOut
        Its curves and the looks that were chosen.
    unit : str
        What a look is called.

    Examples
    --------
    >>> from linkdist.report.metrics import judge
    >>> modes = dict.fromkeys(MODES, judge(np.eye(2), np.array([0, 1])))
    >>> curves = dict.fromkeys(MODES, np.array([[0.5], [1.0]]))
    >>> held = HeldOut(2, curves, np.array([1]), modes)
    >>> accuracy_curve(held, "epoch").count("<polyline")
    2
    """
    values = np.concatenate([curve.ravel() for curve in held.curves.values()]).tolist()
    looks = len(held.curves["features"])
    across = Axis(1, max(looks, 2), LEFT, WIDTH - RIGHT, round_step(looks, most=7, least=1))
    up = Axis.around(values, HEIGHT - FOOT, TOP, most=6, least=0.01)
    ends = _apart({mode: up(curve[-1].mean()) for mode, curve in held.curves.items()}, 22)
    lines = [
        f'<g class="{mode}">{_mode_lines(curve, held.chosen, across, up)}<text class="word" '
        f'x="{across(looks) + 9}" y="{ends[mode] + 4:.1f}">{MODES[mode]}</text></g>'
        for mode, curve in held.curves.items()
    ]
    told = " ".join(
        f"Prediction {words}: {percent(held.curves[mode][0].mean())} at the first {unit}, "
        f"{percent(held.curves[mode][-1].mean())} at the last, "
        f"{percent(held.modes[mode].accuracy)} at the {unit} that was kept."
        for mode, words in MODES.items()
    )
    title = f"Accuracy on held-out nodes by {unit}"
    marks = f"{_curve_axes(across, up, looks, unit)}{''.join(lines)}"
    return drawing(WIDTH, HEIGHT, "curve", title, told, marks)


def _mode_lines(curve: Array, chosen: IntArray, across: Axis, up: Axis) -> str:
    """A mode's curve (looks, R): the mean, each replica, and dots at the looks that were kept."""

    def path(kind: str, values: Array) -> str:
        points = " ".join(f"{across(i + 1)},{up(value)}" for i, value in enumerate(values))
        return f'<polyline class="{kind}" points="{points}"/>'

    thin = [path("run each", values) for values in curve.T] if curve.shape[1] > 1 else []
    dots = [
        f'<circle class="best" cx="{across(look + 1)}" cy="{up(curve[look, r])}" r="4.5"/>'
        for r, look in enumerate(chosen)
    ]
    return "".join([*thin, path("run", curve.mean(axis=1)), *dots])


def _curve_axes(across: Axis, up: Axis, looks: int, unit: str) -> str:
    marks = []
    for tick in up.ticks():
        marks.append(line("grid", LEFT, up(tick), WIDTH - RIGHT, up(tick)))
        marks.append(f'<text class="y" x="{LEFT - 8}" y="{up(tick) + 4}">{percent(tick, 0)}</text>')
    step = int(across.step)
    for look in sorted({1, *range(step, looks + 1, step)}):
        if look == 1 or across(look) - LEFT > 25:
            place = f'x="{across(look)}" y="{HEIGHT - FOOT + 20}"'
            marks.append(f'<text class="tick" {place}>{look:,}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    marks.append(f'<text class="tick" x="{middle}" y="{HEIGHT - 5}">{unit}</text>')
    return "".join(marks)


def _apart(places: Mapping[str, float], room: float) -> dict[str, float]:
    """The same places, moved until they are as far apart as words need."""
    order = sorted(places, key=places.__getitem__)
    moved = dict(places)
    for above, below in pairwise(order):
        lack = room - (moved[below] - moved[above])
        if lack > 0:
            moved[above], moved[below] = moved[above] - lack / 2, moved[below] + lack / 2
    return moved


# Scores beside baselines --------------------------------------------------------------------------

DRAWN = 8
"""Baselines that have a line; a table names them all."""
BASELINES = "Baselines, "
EDGE, LANE, OVER = 28, 38, 34
"""Room at both sides, the height of a score's line and that of a group's title."""


def groups_of(known: Estimates) -> dict[str, list[Score]]:
    """All scores under the titles of their groups, as they are shown; no group is empty.

    Examples
    --------
    >>> ours = [Score("this model, from features", 0.8, 0.7, 0.9, False)]
    >>> groups_of(Estimates(20, "folds", ours, [], [], []))["This model, new rows"][0].name
    'from features'
    """
    mine, table = (
        [_without_owner(score) for score in scores] for scores in (known.new_rows, known.known_rows)
    )
    groups = {f"This model, {known.rows}": mine, BASELINES + known.rows: known.baselines}
    if table:
        first, rest = list(groups.items())
        groups = dict([first, ("This model, rows of the table", table), rest])
    return {title: scores for title, scores in groups.items() if scores}


def _without_owner(score: Score) -> Score:
    """A score whose group says already that it is this model's."""
    return replace(score, name=score.name.removeprefix("this model, "))


def score_chart(known: Estimates) -> str:
    """Accuracies as dots on their 90 % intervals, this model's above those of baselines.

    Names stand above their lines, not beside them: so they can be long, and are read on a phone.

    Parameters
    ----------
    known : Estimates
        With a score at least.

    Examples
    --------
    >>> ours = [Score("this model, from features", 0.8, 0.7, 0.9, False)]
    >>> score_chart(Estimates(20, "folds", ours, [], [], [])).count("<circle")
    1
    """
    groups = {title: scores[:DRAWN] for title, scores in groups_of(known).items()}
    lowest = min(score.low for scores in groups.values() for score in scores)
    across = Axis.around([lowest, 1.0], EDGE, WIDTH - EDGE, most=6, least=0.01)
    rows, y = [], 0
    for title, scores in groups.items():
        tone = "rest" if title.startswith(BASELINES) else "features"
        rows.append(f'<text class="group" x="{EDGE}" y="{y + 22}">{title}</text>')
        y += OVER
        for score in scores:
            rows.append(_score_line(score, tone, across, y))
            y += LANE
    axis = _score_axis(across, known.new_rows[0].accuracy, y)
    told = " ".join(
        f"{title}: {'; '.join(_score_in_words(score) for score in scores)}."
        for title, scores in groups.items()
    )
    title = "Accuracy of this model and of baselines"
    return drawing(WIDTH, y + 30, "scores", title, told, f"{axis}{''.join(rows)}")


def _score_line(score: Score, tone: str, across: Axis, top: float) -> str:
    name, middle = f"{short(score.name, 40)}{_needs(score)}", top + 26
    return (
        f'<g class="{tone}"><title>{escape(_score_in_words(score))}</title>'
        f"{line('track', across.start, middle, across.end, middle)}"
        f"{line('span', across(score.low), middle, across(score.high), middle)}"
        f'<circle class="best" cx="{across(score.accuracy)}" cy="{middle}" r="5.5"/>'
        f'<text class="who" x="{EDGE}" y="{top + 15}">{escape(name)}</text>'
        f'<text class="y word scored" x="{WIDTH - EDGE}" y="{top + 15}">'
        f"{percent(score.accuracy)}</text></g>"
    )


def _score_axis(across: Axis, ours: float, bottom: float) -> str:
    marks = []
    for tick in across.ticks():
        marks.append(line("grid", across(tick), OVER, across(tick), bottom))
        place = f'x="{across(tick)}" y="{bottom + 20}"'
        marks.append(f'<text class="tick" {place}>{percent(tick, 0)}</text>')
    guide = line("guide", across(ours), OVER, across(ours), bottom)
    return f'{"".join(marks)}<g class="features">{guide}</g>'


def _score_in_words(score: Score) -> str:
    share = percent(score.accuracy)
    return f"{score.name}{_needs(score)} {share}, 90\xa0% interval {between(score)}"


def _needs(score: Score) -> str:
    """A warning beside baselines; of this model the name says it."""
    return " (needs links)" if score.links and score.name != MODES["links"] else ""


def between(score: Score) -> str:
    r"""A score's interval in words.

    Examples
    --------
    >>> between(Score("features", 0.8, 0.701, 0.9, False))
    '70.1 to 90.0\xa0%'
    """
    return f"{100 * score.low:.1f} to {percent(score.high)}"


# Heat maps ----------------------------------------------------------------------------------------


def heat_map(
    names: Sequence[str],
    shares: Array,
    words: Sequence[Sequence[str]],
    corner: tuple[str, str],
    told: tuple[str, str, str],
    two_tones: bool,
) -> str:
    """A matrix as squares, the darker the larger a cell's share of its row.

    Parameters
    ----------
    names : sequence of str
        Of the K rows and columns.
    shares : (K, K) array
        From 0 to 1.
    words : K sequences of K str
        What stands in the cells.
    corner : tuple of str
        What a row and what a column is.
    told : tuple of str
        A name of its own on the page, a title, a description.
    two_tones : bool
        Whether cells off the diagonal are mistakes, in another colour.

    Examples
    --------
    >>> told = ("eye", "A matrix", "Two are right.")
    >>> words = [["1", ""], ["", "1"]]
    >>> heat_map(["a", "b"], np.eye(2), words, ("is", "taken for"), told, True).count("<rect")
    4
    """
    K = len(names)
    cell = min(max(round(340 / K), 30), 60)
    left = 22 + 7.2 * max(len(corner[0]) + 1, *(len(short(name, 14)) for name in names))
    flat = max(map(len, names)) * 7.2 < cell - 4
    top = 44 if flat else 34 + 5.4 * max(len(short(name, 14)) for name in names)
    cells = "".join(
        _cell(left + j * cell, top + i * cell, cell, shares[i, j], words[i][j],
              "links" if two_tones and i != j else "features")
        for i in range(K) for j in range(K)
    )  # fmt: skip
    rows = "".join(
        f'<text class="name" x="{left - 8:.1f}" y="{top + (i + 0.5) * cell + 4:.1f}">'
        f"{escape(short(name, 14))}{_full(name, 14)}</text>"
        for i, name in enumerate(names)
    )
    heads = "".join(
        _head(short(name, 14), _full(name, 14), left + (j + 0.5) * cell, top - 9, flat)
        for j, name in enumerate(names)
    )
    what = (
        f'<text class="name side" x="{left - 8:.1f}" y="{top - 9:.1f}">{corner[0]} ↓</text>'
        f'<text class="side" x="{left:.1f}" y="12">{corner[1]} →</text>'
    )
    width = left + K * cell + (4 if flat else 58)
    uid, title, description = told
    marks = f"{what}{heads}{rows}{cells}"
    return drawing(round(width), round(top + K * cell + 4), uid, title, description, marks)


def _cell(x: float, y: float, size: int, share: float, word: str, tone: str) -> str:
    strength = 0.1 + 0.9 * share if share > 0 else 0.03
    kind = "in over" if strength > 0.85 else "in mid" if strength > 0.55 else "in"
    font = min(13, 1.5 * size / max(len(word), 1))
    return (
        f'<rect class="cell {tone}" x="{x:.1f}" y="{y:.1f}" width="{size}" height="{size}" '
        f'fill-opacity="{strength:.2f}"/><text class="{kind}" x="{x + size / 2:.1f}" '
        f'y="{y + size / 2 + font / 3:.1f}" style="font-size: {font:.3g}px">{word}</text>'
    )


def _head(name: str, full: str, x: float, y: float, flat: bool) -> str:
    kind = "tick head" if flat else "head"
    turned = "" if flat else f' transform="rotate(-45 {x:.1f} {y:.1f})"'
    inner = f"{escape(name)}{full}"
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{turned}>{inner}</text>'


def _full(name: str, most: int) -> str:
    return f"<title>{escape(name)}</title>" if len(name) > most else ""


# Reliability --------------------------------------------------------------------------------------

SIDE, MARGIN, BARS = 270, 52, 50


def reliability_diagram(found: Reliability, mode: str) -> str:
    """Accuracy over confidence, a dot a bin; below it, how many nodes each bin has.

    Examples
    --------
    >>> from linkdist.report.metrics import reliability
    >>> found = reliability(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))
    >>> reliability_diagram(found, "features").count("<circle")
    2
    """
    across = Axis(0, 1, MARGIN, MARGIN + SIDE, 0.25)
    up = Axis(0, 1, SIDE + 10, 10, 0.25)
    marks = [line("ideal", across(0), up(0), across(1), up(1))]
    for tick in up.ticks():
        marks.insert(0, line("grid", across(0), up(tick), across(1), up(tick)))
        marks.append(
            f'<text class="y" x="{MARGIN - 8}" y="{up(tick) + 4}">{percent(tick, 0)}</text>'
        )
        place = f'x="{across(tick)}" y="{SIDE + BARS + 48}"'
        marks.append(f'<text class="tick" {place}>{percent(tick, 0)}</text>')
    marks.append(f'<text class="side" x="{across(0.04)}" y="{up(0.92)}">too modest</text>')
    marks.append(f'<text class="side y" x="{across(0.98)}" y="{up(0.05)}">too sure</text>')
    most = max(int(found.counts.max()), 1)
    for b in np.flatnonzero(found.counts).tolist():
        marks.append(_bin(found, b, most, across, up))
    middle = MARGIN + SIDE / 2
    marks.append(f'<text class="tick" x="{middle}" y="{SIDE + BARS + 66}">confidence</text>')
    told = " ".join(
        f"Confidence {b / BINS:.0%} to {(b + 1) / BINS:.0%}: {found.counts[b]} nodes, "
        f"mean confidence {found.confidence[b]:.1%}, {found.accuracy[b]:.1%} right."
        for b in np.flatnonzero(found.counts).tolist()
    )
    title = f"Accuracy by confidence, {MODES[mode]}"
    size = (MARGIN + SIDE + 24, SIDE + BARS + 72)
    return drawing(*size, f"reliability-{mode}", title, told, "".join(marks))


def _bin(found: Reliability, b: int, most: int, across: Axis, up: Axis) -> str:
    count, sure, right = found.counts[b], found.confidence[b], found.accuracy[b]
    tone = "features" if right >= sure else "links"
    base = SIDE + BARS + 28
    height = round(max((BARS - 14) * count / most, 1), 1)
    radius = round(3 + 5 * float(np.sqrt(count / most)), 1)
    x, width = across(b / BINS), SIDE / BINS
    return (
        f'<g class="{tone}"><title>{count} nodes, mean confidence {sure:.1%}, {right:.1%} right'
        f"</title>{line('gap', across(sure), up(sure), across(sure), up(right))}"
        f'<circle class="bin" cx="{across(sure)}" cy="{up(right)}" r="{radius}"/></g>'
        f'<rect class="bar" x="{x + 1}" y="{base - height:.1f}" width="{width - 2}" '
        f'height="{height}"/><text class="tick small" x="{x + width / 2:.1f}" '
        f'y="{base - height - 4:.1f}">{count:,}</text>'
    )


# The map of the hidden layer ----------------------------------------------------------------------

MAP_WIDTH, MAP_HEIGHT, ROOM = 640, 480, 14


def map_of(found: HiddenMap, names: Sequence[str], own: Sequence[int]) -> str:
    """Nodes by their place in the hidden layer, and each class's name amid its nodes.

    Parameters
    ----------
    found : HiddenMap
        Places and classes.
    names : sequence of str
        Of all classes.
    own : sequence of int
        The classes that have a mark of their own.

    Examples
    --------
    >>> places, known = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([True, False])
    >>> found = HiddenMap("PCA", places, ["x", "y"], np.array([0, 0]), known)
    >>> map_of(found, ["maths"], [0]).count('class="mark')
    2
    """
    low, span = found.places.min(axis=0), np.ptp(found.places, axis=0)
    size = np.array([MAP_WIDTH - 2 * ROOM, MAP_HEIGHT - 2 * ROOM])
    places = ROOM + (found.places - low) / np.where(span > 0, span, 1) * size
    rank = {c: i for i, c in enumerate(own)}
    order = np.argsort(found.known, kind="stable").tolist()  # known ones lie on top
    marks = []
    for i in order:
        c, known = int(found.classes[i]), bool(found.known[i])
        told = f"{found.ids[i]}: {names[c]}{'' if known else ', predicted'}"
        marks.append(_mark(rank.get(c), places[i, 0], places[i, 1], known, told))
    sizes = {c: int((found.classes == c).sum()) for c in own}
    told = "; ".join(f"{names[c]}: {n}" for c, n in sizes.items() if n)
    return drawing(
        MAP_WIDTH, MAP_HEIGHT, "map", f"Map of the hidden layer by {found.method}",
        f"{len(places)} nodes. Those of each class: {told}.",
        f"{''.join(marks)}{_labels(places, found.classes, sizes, names)}",
    )  # fmt: skip


def _mark(rank: int | None, x: float, y: float, known: bool, told: str = "") -> str:
    """A class's mark: every class has its own pair of colour and shape, the rest share one."""
    tone = "rest" if rank is None else f"c{rank % len(LIGHT)}"
    kind = f"mark{' known' * known} {tone}"
    title = f"<title>{escape(told)}</title>" if told else ""
    shape = None if rank is None else rank % SHAPES
    if shape == 0:
        return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.2">{title}</circle>'
    by = {1: "m-3.8-3.8h7.6v7.6h-7.6z", 2: "m0-4.9l4.6 8.2h-9.2z", None: "m-2.5-2.5h5v5h-5z"}
    return f'<path class="{kind}" d="M{x:.1f} {y:.1f}{by[shape]}">{title}</path>'


def _labels(
    places: Array, classes: IntArray, sizes: Mapping[int, int], names: Sequence[str]
) -> str:
    """Names at the middle of their classes, the largest first, where there is room."""
    taken: list[tuple[float, float, float]] = []
    labels = []
    for c in sorted(sizes, key=lambda c: -sizes[c]):
        if not sizes[c]:
            continue
        of_class = places[classes == c]
        middle = np.median(of_class, axis=0)
        x, y = of_class[((of_class - middle) ** 2).sum(axis=1).argmin()].tolist()
        half = 4.2 * len(short(names[c], 18)) + 4
        x = min(max(x, half), MAP_WIDTH - half)
        if all(abs(x - a) > half + b or abs(y - d) > 17 for a, d, b in taken):
            taken.append((x, y, half))
            name = escape(short(names[c], 18))
            labels.append(f'<text class="label" x="{x:.1f}" y="{y + 4:.1f}">{name}</text>')
    return "".join(labels)


def map_legend(names: Sequence[str], own: Sequence[int], others: int) -> str:
    """Every class's mark and name, and what hollow means.

    Examples
    --------
    >>> map_legend(["maths", "physics"], [0, 1], others=0).count("<li>")
    3
    """
    items = [(_mark(i, 8, 8, known=True), escape(short(names[c], 40))) for i, c in enumerate(own)]
    if others:
        items.append((_mark(None, 8, 8, known=True), f"{others} other classes"))
    items.append((_mark(0, 8, 8, known=False), "hollow: predicted, the label is not known"))
    inner = "".join(
        f'<li><svg viewBox="0 0 16 16" aria-hidden="true">{mark}</svg>{words}</li>'
        for mark, words in items
    )
    return f'<ul class="legend">{inner}</ul>'
