"""Charts of the report: learning curves, heat maps, reliability and the hidden layer.

Colour is never the only distinction: shape, position or text carry the same information. Classes
use seven colours and three shapes in turn, which gives 21 different marks. A filled mark is a known
label, a hollow mark is a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from linkdist.data.graph import IntArray
from linkdist.report.hidden_map import Array, HiddenMap
from linkdist.report.metrics import BINS, Reliability, ValidationMetrics
from linkdist.report.score_text import MODES as MODES
from linkdist.report.svg import Axis, Frame, curve, drawing, line, percent, short, tag

SHOWN = 20
"""Number of classes that are shown separately; further classes are combined."""

LIGHT = ("#0072b2", "#d9600a", "#00896a", "#b8458c", "#45a3d9", "#8f7400", "#6d2140")
DARK = ("#4a94e0", "#f58a3c", "#2fbf97", "#ec93c8", "#a3daf8", "#d9c84a", "#c4607c")
SHAPES = 3
LIGHT_ORDER = ("#14466b", "#4a8fbf", "#8a8d91", "#dd8a3f", "#9c3d04")
DARK_ORDER = ("#5aa9e6", "#a9d2f2", "#b9bcc1", "#f6c08c", "#f08534")
"""Colours of ordered groups, such as numbers from low to high."""
_whole_percent = partial(percent, digits=0)


# Validation accuracy over training ----------------------------------------------------------------

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
    >>> from linkdist.report.metrics import evaluate
    >>> modes = dict.fromkeys(MODES, evaluate(np.eye(2), np.array([0, 1])))
    >>> curves = dict.fromkeys(MODES, np.array([[0.5], [1.0]]))
    >>> validation = ValidationMetrics(2, curves, np.array([1]), modes)
    >>> accuracy_curve(validation, "epoch").count("<polyline")
    2
    """
    curves = validation.curves
    replicas = [values for found in curves.values() for values in found.T.tolist()]
    x, y, axes = PAGE.axes(replicas, unit, 6, _whole_percent)
    heights = _spread({mode: y(found[-1].mean()) for mode, found in curves.items()}, 22)
    end = x(len(replicas[0])) + 9
    lines = [
        tag(
            "g",
            *_mode_lines(found, validation.best, x, y),
            tag("text", MODES[mode], class_="word", x=end, y=heights[mode] + 4),
            class_=mode,
        )
        for mode, found in curves.items()
    ]
    description = " ".join(
        f"Prediction {label}: {percent(curves[mode][0].mean())} at the first {unit}, "
        f"{percent(curves[mode][-1].mean())} at the last {unit}, "
        f"{percent(validation.modes[mode].accuracy)} with the selected weights."
        for mode, label in MODES.items()
    )
    title = f"Validation accuracy by {unit}"
    return drawing(PAGE.width, PAGE.height, "curve", title, description, axes, *lines)


def _mode_lines(found: Array, best: IntArray, x: Axis, y: Axis) -> list[Markup]:
    """Return the mean of a curve (evaluations, R), each replica, and dots at selected weights."""
    replicas = [curve("run each", values, x, y) for values in found.T if found.shape[1] > 1]
    dots = [
        tag("circle", class_="best", cx=x(at + 1), cy=y(found[at, r]), r=4.5)
        for r, at in enumerate(best.tolist())
    ]
    return [*replicas, curve("run", found.mean(axis=1), x, y), *dots]


def _spread(places: Mapping[str, float], room: float) -> dict[str, float]:
    """Move labels apart until they do not overlap."""
    moved = dict(places)
    for above, below in pairwise(sorted(places, key=places.__getitem__)):
        overlap = room - (moved[below] - moved[above])
        if overlap > 0:
            moved[above], moved[below] = moved[above] - overlap / 2, moved[below] + overlap / 2
    return moved


# Heat maps ----------------------------------------------------------------------------------------


def heat_map(
    names: Sequence[str],
    shares: Array,
    labels: Sequence[Sequence[str]],
    axes: tuple[str, str],
    uid: str,
    title: str,
    description: str,
    two_tones: bool,
) -> Markup:
    """Draw a matrix of squares; a darker square is a larger share of its row.

    Parameters
    ----------
    names : sequence of str
        Names of the K rows and columns.
    shares : (K, K) array
        Shares from 0 to 1.
    labels : K sequences of K str
        Text in the squares.
    axes : tuple of str
        Names of the rows' and of the columns' axis.
    uid, title, description : str
        As for `linkdist.report.svg.drawing`.
    two_tones : bool
        Whether squares off the diagonal have another colour, for errors.

    Examples
    --------
    >>> labels, axes = [["1", ""], ["", "1"]], ("true", "predicted")
    >>> svg = heat_map(["a", "b"], np.eye(2), labels, axes, "eye", "A matrix", "No errors.", True)
    >>> svg.count("<rect")
    4
    """
    K = len(names)
    cell = min(max(round(340 / K), 30), 60)
    longest = max(len(short(name, 14)) for name in names)
    left = 22 + 7.2 * max(len(axes[0]) + 1, longest)
    flat = max(map(len, names)) * 7.2 < cell - 4
    top = 44 if flat else 34 + 5.4 * longest
    marks = [
        tag("text", f"{axes[0]} ↓", class_="name side", x=left - 8, y=top - 9),
        tag("text", f"{axes[1]} →", class_="side", x=left, y=12),
    ]
    for i, name in enumerate(names):
        x, y = left + (i + 0.5) * cell, top + (i + 0.5) * cell + 4
        text = [short(name, 14), *([tag("title", name)] if len(name) > 14 else [])]
        turn = {} if flat else {"transform": f"rotate(-45 {x:.1f} {top - 9:.1f})"}
        marks.append(
            tag("text", *text, class_="tick head" if flat else "head", x=x, y=top - 9, **turn)
        )
        marks.append(tag("text", *text, class_="name", x=left - 8, y=y))
    marks += [
        _square(left + j * cell, top + i * cell, cell, shares[i, j], labels[i][j],
                "links" if two_tones and i != j else "features")
        for i in range(K) for j in range(K)
    ]  # fmt: skip
    width = left + K * cell + (4 if flat else 58)
    return drawing(round(width), round(top + K * cell + 4), uid, title, description, *marks)


def _square(x: float, y: float, size: int, share: float, label: str, tone: str) -> Markup:
    strength = 0.1 + 0.9 * share if share > 0 else 0.03
    kind = "in over" if strength > 0.85 else "in mid" if strength > 0.55 else "in"
    font = min(13, 1.5 * size / max(len(label), 1))
    place = {"x": x, "y": y, "width": size, "height": size}
    middle = {"x": x + size / 2, "y": y + size / 2 + font / 3}
    rect = tag("rect", class_=f"cell {tone}", **place, fill_opacity=f"{strength:.2f}")
    return rect + tag("text", label, class_=kind, **middle, style=f"font-size: {font:.3g}px")


# Reliability diagrams -----------------------------------------------------------------------------

SIDE, MARGIN, BARS = 270, 52, 50


def reliability_diagram(found: Reliability, mode: str) -> Markup:
    """Draw accuracy over confidence, a dot per bin, and the number of nodes in each bin.

    Examples
    --------
    >>> from linkdist.report.metrics import reliability
    >>> found = reliability(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))
    >>> reliability_diagram(found, "features").count("<circle")
    2
    """
    x = Axis(0, 1, MARGIN, MARGIN + SIDE, 0.25)
    y = Axis(0, 1, SIDE + 10, 10, 0.25)
    bins = np.flatnonzero(found.counts).tolist()
    marks = [
        y.draw_y(x(0), x(1), _whole_percent),
        x.draw_x(SIDE + BARS + 48, _whole_percent),
        line("ideal", x(0), y(0), x(1), y(1)),
        tag("text", "underconfident", class_="side", x=x(0.04), y=y(0.92)),
        tag("text", "overconfident", class_="side y", x=x(0.98), y=y(0.05)),
        *(_bin(found, b, x, y) for b in bins),
        tag("text", "confidence", class_="tick", x=MARGIN + SIDE / 2, y=SIDE + BARS + 66),
    ]
    description = " ".join(
        f"Confidence {b / BINS:.0%} to {(b + 1) / BINS:.0%}: {_bin_text(found, b)}." for b in bins
    )
    title = f"Accuracy by confidence, {MODES[mode]}"
    size = (MARGIN + SIDE + 24, SIDE + BARS + 72)
    return drawing(*size, f"reliability-{mode}", title, description, *marks)


def _bin(found: Reliability, b: int, x: Axis, y: Axis) -> Markup:
    count, confidence, accuracy = int(found.counts[b]), found.confidence[b], found.accuracy[b]
    share = count / int(found.counts.max())
    base, left, width = SIDE + BARS + 28, x(b / BINS), SIDE / BINS
    height = max((BARS - 14) * share, 1)
    at = x(confidence)
    return (
        tag(
            "g",
            tag("title", _bin_text(found, b)),
            line("gap", at, y(confidence), at, y(accuracy)),
            tag("circle", class_="bin", cx=at, cy=y(accuracy), r=3 + 5 * share**0.5),
            class_="features" if accuracy >= confidence else "links",
        )
        + tag("rect", class_="bar", x=left + 1, y=base - height, width=width - 2, height=height)
        + tag("text", f"{count:,}", class_="tick small", x=left + width / 2, y=base - height - 4)
    )


def _bin_text(found: Reliability, b: int) -> str:
    values = f"mean confidence {found.confidence[b]:.1%}, accuracy {found.accuracy[b]:.1%}"
    return f"{found.counts[b]:,} predictions, {values}"


# The map of the hidden layer ----------------------------------------------------------------------

MAP_WIDTH, MAP_HEIGHT, ROOM = 640, 480, 14


def draw_map(found: HiddenMap, names: Sequence[str], shown: Sequence[int]) -> Markup:
    """Draw the nodes of a map, with the name of each class at its centre.

    Parameters
    ----------
    found : HiddenMap
        Coordinates and classes.
    names : sequence of str
        Names of all classes.
    shown : sequence of int
        The classes with a mark of their own.

    Examples
    --------
    >>> places, known = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([True, False])
    >>> found = HiddenMap("PCA", places, ["x", "y"], np.array([0, 0]), known)
    >>> draw_map(found, ["maths"], [0]).count('class="mark')
    2
    """
    low, span = found.places.min(axis=0), np.ptp(found.places, axis=0)
    size = np.array([MAP_WIDTH - 2 * ROOM, MAP_HEIGHT - 2 * ROOM])
    places = ROOM + (found.places - low) / np.where(span > 0, span, 1) * size
    rank = {c: i for i, c in enumerate(shown)}
    marks = []
    for i in np.argsort(found.known, kind="stable").tolist():  # known labels are on top
        c, known = int(found.classes[i]), bool(found.known[i])
        title = f"{found.ids[i]}: {names[c]}{'' if known else ', predicted'}"
        x, y = places[i].tolist()
        marks.append(class_mark(rank.get(c), x, y, known, title, found.ordered))
    sizes = {c: int((found.classes == c).sum()) for c in shown}
    counts = "; ".join(f"{names[c]}: {n}" for c, n in sizes.items() if n)
    return drawing(
        MAP_WIDTH, MAP_HEIGHT, "map", f"Map of the hidden layer by {found.method}",
        f"{len(places)} nodes. Number of nodes with each mark: {counts}.",
        *marks, *_class_labels(places, found.classes, sizes, names),
    )  # fmt: skip


def class_mark(
    rank: int | None, x: float, y: float, known: bool, title: str = "", ordered: bool = False
) -> Markup:
    """Draw the mark of a class. Each rank has its own pair of colour and shape; None is the rest.

    The colours of ordered groups go from blue to orange.

    Examples
    --------
    >>> class_mark(0, 8.0, 8.0, known=True)
    Markup('<circle class="mark known c0" cx="8.0" cy="8.0" r="4.2"/>')
    """
    tone = "rest" if rank is None else f"o{rank}" if ordered else f"c{rank % len(LIGHT)}"
    kind = f"mark{' known' * known} {tone}"
    inner = [tag("title", title)] if title else []
    shape = None if rank is None else rank % SHAPES
    if shape == 0:
        return tag("circle", *inner, class_=kind, cx=float(x), cy=float(y), r=4.2)
    path = {1: "m-3.8-3.8h7.6v7.6h-7.6z", 2: "m0-4.9l4.6 8.2h-9.2z", None: "m-2.5-2.5h5v5h-5z"}
    return tag("path", *inner, class_=kind, d=f"M{x:.1f} {y:.1f}{path[shape]}")


def _class_labels(
    places: Array, classes: IntArray, sizes: Mapping[int, int], names: Sequence[str]
) -> list[Markup]:
    """Return names at the centres of their classes, the largest classes first, without overlap."""
    taken: list[tuple[float, float, float]] = []
    labels = []
    for c in sorted(sizes, key=lambda c: -sizes[c]):
        if not sizes[c]:
            continue
        of_class = places[classes == c]
        middle = np.median(of_class, axis=0)
        x, y = of_class[((of_class - middle) ** 2).sum(axis=1).argmin()].tolist()
        name = short(names[c], 18)
        half = 4.2 * len(name) + 4
        x = min(max(x, half), MAP_WIDTH - half)
        if all(abs(x - a) > half + b or abs(y - d) > 17 for a, d, b in taken):
            taken.append((x, y, half))
            labels.append(tag("text", name, class_="label", x=x, y=y + 4))
    return labels
