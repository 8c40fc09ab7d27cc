"""A model told to a person: a page in Markdown and a line chart in hand-made SVG.

Both tell what training left in `about`, and pass over what it did not. The chart's colours are of
middle lightness, so that it can be read on a white page and on a dark one alike: a picture in a
README does not know which it is on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple, TypeAlias

from linkdist.report.svg import round_ends, round_step

About: TypeAlias = Mapping[str, Any]

LARGEST_CONFUSION = 20
"""From more classes than these a table of all pairs is no longer looked at."""

STALE = (
    "This was measured in training, before the model was updated. An update leaves no report: the "
    "nodes that it would tell of are not at hand."
)

SCORED = {"new_rows": "", "known_rows": "rows of the table", "baselines": ""}
"""The lists of scores in 'estimates', and which rows each is of; empty: those of 'rows'."""

LIMITS = """\
- A node gets one of the classes above, also where it is of none of them.
- Probabilities are calibrated on held-out labels where the method is SelfLinkDist, and otherwise
  the network's own.
- The accuracy is that of nodes held out from the graph trained on. Nodes from elsewhere, or from
  later, can differ: measure it on labelled nodes of your own.
- Prediction with links asks for the columns of the neighbours as well."""


def card(
    name: str,
    about: About,
    classes: Sequence[str],
    columns: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """What a model is and how to use it, as the README.md of its directory.

    Parameters
    ----------
    name : str
        Of the directory.
    about : mapping
        What training was, as plain JSON. Known are 'id', 'label', 'method', 'setting', 'epochs',
        'seconds', 'data', 'tally', 'estimates', 'scores', 'curve', 'kept', 'confusion', 'updates'
        and 'versions'; what is missing is left out.
    classes : sequence of str
        Their names.
    columns : sequence of mapping, optional
        The columns' 'name' and 'kind', for a model that reads tables.

    Returns
    -------
    str
        Markdown.

    Examples
    --------
    >>> print(card("papers", {"label": "field"}, ["maths", "physics"])[:54])
    # papers
    <BLANKLINE>
    A LinkDist model that tells a node's `field`
    """
    label = _code(about["label"]) if about.get("label") else "class"
    what = (
        f"A LinkDist model that tells a node's {label}, one of {len(classes)}, from the node's own "
        "features. It learnt from the links of a graph as well, and needs none to predict; where "
        "links are at hand, it can use them."
    )
    sections = {
        "Use": _usage(name, about, columns),
        "How good it is": _estimates(about),
        "Held-out accuracy": _accuracy(about),
        "Confusion": _confusion(about.get("confusion"), classes),
        "Classes": ", ".join(map(_text, classes)),
        "Columns": _columns(columns),
        "Data": _pairs({**_mapping(about.get("data")), **_mapping(about.get("tally"))}),
        "Training": _pairs(
            {key: about.get(key) for key in ("method", "setting", "epochs", "seconds")}
        ),
        "Versions": _pairs(about.get("versions")),
        "Limits": LIMITS,
    }
    parts = [f"## {title}\n\n{body}\n" for title, body in sections.items() if body]
    return f"# {_text(name)}\n\n{what}\n\n" + "\n".join(parts)


def _usage(name: str, about: About, columns: Sequence[Mapping[str, Any]] | None) -> str:
    known = f" with the id in column {_code(about['id'])}" if about.get("id") else ""
    if columns is None:
        return (
            "In Python, with the features of n nodes as an array of n rows:\n\n"
            "```python\nimport linkdist\nfrom linkdist.artifacts.model_dir import load\n\n"
            f"saved = load({json.dumps(name)})\n"
            "probabilities = linkdist.from_features(saved.model, features)\n```"
        )
    return (
        f"On the command line, for a table of nodes{known}; the links are optional:\n\n"
        "```console\n"
        f"$ linkdist predict {_shell(name)} nodes.parquet --edges edges.csv "
        "--out predictions.parquet\n```\n\n"
        "In Python:\n\n"
        "```python\nimport linkdist\nimport pyarrow.parquet as pq\n"
        "from linkdist.artifacts.model_dir import load\n\n"
        f"saved = load({json.dumps(name)})\n"
        'for batch in pq.ParquetFile("nodes.parquet").iter_batches():\n'
        "    features = saved.encoders.transform(batch)\n"
        "    probabilities = linkdist.from_features(saved.model, features)\n```"
    )


def _estimates(about: About) -> str:
    """Verdict, scores beside baselines, and warnings; empty where nobody judged."""
    known = _mapping(about.get("estimates"))
    rows = [
        _score(part, rows_of or str(known.get("rows", "new rows")))
        for key, rows_of in SCORED.items()
        for part in _list(known.get(key))
        if isinstance(part, Mapping)
    ]
    if not rows:
        return ""
    on = f"These are scores of {_number(known.get('judges'))} labelled nodes, by {known.get('by')}."
    warnings = "\n".join(f"- {_text(said)}" for said in _list(known.get("warnings")))
    parts = [
        " ".join(map(_text, _list(known.get("verdict")))),
        _table(["who", "accuracy", "90 % interval", "needs links"], rows),
        _text(on),
        f"What these scores cannot tell:\n\n{warnings}" if warnings else "",
        STALE if about.get("updates") else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _score(part: About, rows_of: str) -> list[str]:
    """A row of the table of scores."""
    who = _text(f"{part.get('name')}, {rows_of}")
    between = f"{_share(part.get('low'))} to {_share(part.get('high'))}"
    return [who, _share(part.get("accuracy")), between, "yes" if part.get("links") else "no"]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _accuracy(about: About) -> str:
    rows = _flat(_mapping(about.get("scores")))
    table = _table(["", "accuracy"], [[_text(key), _share(value)] for key, value in rows])
    words = _sentence(_drawable(about), _unit(about))
    picture = f"![{_text(words)}](curve.svg)" if words else ""
    stale = STALE if about.get("updates") else ""
    return "\n\n".join(part for part in (table if rows else "", picture, stale) if part)


def _confusion(counts: Sequence[Sequence[int]] | None, classes: Sequence[str]) -> str:
    if not counts or len(counts) != len(classes) or len(classes) > LARGEST_CONFUSION:
        return ""
    names = [_text(name) for name in classes]
    rows = [
        [f"**{name}**", *(f"**{n}**" if i == j else str(n) for j, n in enumerate(row))]
        for i, (name, row) in enumerate(zip(names, counts, strict=True))
    ]
    return (
        "A row is what a held-out node is, a column what it was taken for; right ones are bold.\n\n"
        + _table(["", *names], rows)
    )


def _columns(columns: Sequence[Mapping[str, Any]] | None) -> str:
    rows = [[_text(part.get("name")), _text(part.get("kind"))] for part in columns or []]
    return _table(["column", "read as"], rows, align="---") if rows else ""


def _pairs(values: object) -> str:
    rows = _flat(_mapping(values))
    return "\n".join(f"- {_text(key)}: {_text(_number(value))}" for key, value in rows)


def _mapping(value: object) -> About:
    return value if isinstance(value, Mapping) else {}


def _flat(values: About, before: str = "") -> list[tuple[str, Any]]:
    """Keys and values without those that are missing; a mapping within gives a row a key."""
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        title = f"{before}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            rows += _flat(value, f"{title}, ")
        elif isinstance(value, list | tuple):
            rows.append((title, ", ".join(_number(part) for part in value)))
        elif value is not None:
            rows.append((title, value))
    return rows


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "---:") -> str:
    rule = ["---", *[align] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def _share(value: object) -> str:
    """An accuracy, of 1, as a percentage."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.1%}"
    return _text(_number(value))


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return f"{value:,}" if type(value) is int else str(value)


def _text(value: object) -> str:
    """A name that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", " ".join(str(value).split()))


def _code(value: object) -> str:
    """A name in backticks, or shown as it is where it has some of its own."""
    plain = " ".join(str(value).split())
    return _text(value) if "`" in plain or "|" in plain else f"`{plain}`"


def _shell(name: str) -> str:
    return name if re.fullmatch(r"[\w./-]+", name) else "'" + name.replace("'", "'\\''") + "'"


# The chart ----------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 640, 260, 52, 18, 34, 40

STYLE = """
text { font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #74797f }
.title { font-size: 13px; font-weight: 600 }
.y { text-anchor: end; font-variant-numeric: tabular-nums } .x { text-anchor: middle }
.grid { stroke: #808080; stroke-opacity: .25 }
.run { fill: none; stroke: #2b7fd4; stroke-width: 2; stroke-linejoin: round }
.many .run { stroke-width: 1.3; stroke-opacity: .75 }
.best { fill: #c2620c } .word { fill: #c2620c; font-weight: 600 }
"""


def curve(about: About) -> str:
    """Held-out accuracy by look at the weights, a line a replica and a dot at what it kept.

    Parameters
    ----------
    about : mapping
        Its 'curve' holds accuracies of 1, an entry a look, one sequence a replica; 'kept', where
        it is known, each replica's look, from 1. Where there are as many looks as 'epochs', a look
        is called an epoch.

    Returns
    -------
    str
        An SVG file; empty where there is nothing to draw.

    Examples
    --------
    >>> curve({"curve": [[0.5, 0.75, 0.7]]}).count('class="best"')
    1
    >>> curve({})
    ''
    """
    lines = _drawable(about)
    if not lines:
        return ""
    unit = _unit(about)
    scale = _Scale([line.values for line in lines])
    drawn = [part for line in lines for part in _drawn(line, scale)]
    title = _sentence(lines, unit)
    first = lines[0]
    word = f"{first.best:.1%}" if len(lines) == 1 else ""
    x, y = scale(first.kept, first.best)
    side = "end" if x > WIDTH / 2 else "start"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" aria-labelledby="title">'
        f'<title id="title">{escape(title)}</title><style>{STYLE}</style>'
        f'<text class="title" x="{LEFT}" y="18">Held-out accuracy by {unit}</text>'
        f"{_axes(scale, unit)}"
        f'<g class="{"many" if len(lines) > 1 else "one"}">{"".join(drawn)}</g>'
        f'<text class="word" x="{x}" y="{y - 9}" text-anchor="{side}">{word}</text>'
        "</svg>\n"
    )


class _Scale:
    """Where a look and an accuracy lie."""

    def __init__(self, lines: Sequence[Sequence[float]]) -> None:
        values = [value for line in lines for value in line]
        low, high = min(values), max(values)
        self.step = round_step(high - low, most=4.5, least=0.01)
        self.low, self.high = round_ends(low / self.step, high / self.step)
        self.looks = max(len(line) for line in lines)

    def __call__(self, look: int, accuracy: float) -> tuple[float, float]:
        """X and y, to a tenth of a unit; looks from 0."""
        across = look / (self.looks - 1) if self.looks > 1 else 0.5
        up = (accuracy / self.step - self.low) / (self.high - self.low)
        return (
            round(LEFT + across * (WIDTH - LEFT - RIGHT), 1),
            round(HEIGHT - FOOT - up * (HEIGHT - TOP - FOOT), 1),
        )


def _axes(scale: _Scale, unit: str) -> str:
    marks = []
    for tick in range(scale.low, scale.high + 1):
        _, y = scale(0, tick * scale.step)
        marks.append(
            f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>'
            f'<text class="y" x="{LEFT - 8}" y="{y + 4}">{tick * scale.step:.0%}</text>'
        )
    for look in sorted({1, *_round_looks(scale.looks)}):
        x, _ = scale(look - 1, 0)
        marks.append(f'<text class="x" x="{x}" y="{HEIGHT - FOOT + 17}">{look:,}</text>')
    marks.append(f'<text class="x" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}">{unit}</text>')
    return "".join(marks)


def _round_looks(looks: int) -> range:
    """Up to seven round numbers of looks."""
    step = int(round_step(looks, most=7, least=1))
    return range(step, looks + 1, step)


def _drawn(line: _Line, scale: _Scale) -> list[str]:
    points = [scale(look, value) for look, value in enumerate(line.values)]
    path = " ".join(f"{x},{y}" for x, y in points)
    x, y = points[line.kept]
    return [
        f'<polyline class="run" points="{path}"/>',
        f'<circle class="best" cx="{x}" cy="{y}" r="4"/>',
    ]


class _Line(NamedTuple):
    """A replica's accuracies and the look that it kept, from 0."""

    values: list[float]
    kept: int

    @property
    def best(self) -> float:
        """The accuracy that was kept."""
        return self.values[self.kept]


def _drawable(about: About) -> list[_Line]:
    """The lines that are all numbers: an accuracy of no nodes is none."""
    curves: Sequence[Sequence[float | None]] = about.get("curve") or []
    kept: Sequence[int | None] = about.get("kept") or [None] * len(curves)
    lines = []
    for whole, look in zip(curves, kept, strict=True):
        values = [value for value in whole if value is not None and 0 <= value <= 1]
        if values and len(values) == len(whole):
            first = values.index(max(values))
            lines.append(_Line(values, first if look is None else look - 1))
    return lines


def _unit(about: About) -> str:
    """What a look is called: one after each epoch is just the epoch."""
    curves = about.get("curve") or [[]]
    return "epoch" if about.get("epochs") in (None, len(curves[0])) else "look"


def _sentence(lines: Sequence[_Line], unit: str) -> str:
    """The chart in words."""
    if not lines:
        return ""
    kept = [f"{line.best:.1%} in {unit} {line.kept + 1}" for line in lines]
    told = ", ".join(kept[:10]) + (", …" if len(kept) > 10 else "")
    each = "" if len(lines) == 1 else f" of {len(lines)} replicas"
    looks = max(len(line.values) for line in lines)
    return f"Held-out accuracy by {unit}{each}; kept: {told}, of {looks} {unit}s."
