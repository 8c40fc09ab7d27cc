"""The model card: a Markdown page about a model, written to the README.md of its directory.

Its chart of the validation accuracy is an SVG file beside it. The HTTP service imports this module,
without PyTorch.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from markupsafe import Markup

from linkdist.report.svg import Frame, curve, evaluation_unit, tag

About: TypeAlias = Mapping[str, Any]
Columns: TypeAlias = Sequence[Mapping[str, Any]]

LARGEST_CONFUSION = 20
"""Largest number of classes for which the card has a confusion matrix."""

LONGEST_EXAMPLE, MOST_EXAMPLES = 60, 10
"""Length of an example of a column, and number of columns in the example of a request."""

STALE = (
    "These values were measured in training, before the model was updated. An update writes no "
    "report, because the training nodes are not available."
)

SCORED = {"new_rows": "", "known_rows": "rows of the table", "baselines": ""}
"""The lists of scores in 'estimates' and the rows they are measured on; empty: see 'rows'."""

LIMITS = """\
- Every node is assigned to one of the classes above, even if it belongs to none of them.
- With the method SelfLinkDist, probabilities are calibrated on validation labels; otherwise they
  are the softmax output of the network.
- The accuracy is measured on nodes of the training graph. Nodes from another source or from a later
  time can differ: measure the accuracy on labelled nodes of your own.
- Prediction with links also needs the columns of the neighbours."""


def model_card(
    name: str, about: About, classes: Sequence[str], columns: Columns | None = None
) -> str:
    """Describe a model and its use.

    Parameters
    ----------
    name : str
        The name of the model directory.
    about : mapping
        Facts about the training, as plain JSON. The keys 'id', 'label', 'method', 'setting',
        'epochs', 'seconds', 'data', 'tally', 'estimates', 'scores', 'curve', 'kept', 'confusion',
        'updates' and 'versions' are shown if they are present.
    classes : sequence of str
        The names of the classes.
    columns : sequence of mapping, optional
        'name', 'kind' and 'example' of each feature column, for a model that was trained on
        tables, as `FeatureEncoder.describe` returns them.

    Returns
    -------
    str
        Markdown.

    Examples
    --------
    >>> print(model_card("papers", {"label": "field"}, ["maths", "physics"])[:54])
    # papers
    <BLANKLINE>
    A LinkDist model that predicts the `field` o
    """
    label = _code(about["label"]) if about.get("label") else "class"
    training = {key: about.get(key) for key in ("method", "setting", "epochs", "seconds")}
    what = (
        f"A LinkDist model that predicts the {label} of a node, one of {len(classes)} classes, "
        "from the features of the node. It was trained on the links of a graph, but prediction "
        "needs no links; if links are available, it can use them."
    )
    sections = {
        "Use": _usage(name, about, columns),
        "Estimated accuracy": _estimates(about),
        "Validation accuracy": _accuracy(about),
        "Confusion matrix": _confusion(about, classes),
        "Classes": ", ".join(map(_text, classes)),
        "Columns": _columns(columns),
        "Data": _pairs({**_mapping(about.get("data")), **_mapping(about.get("tally"))}),
        "Training": _pairs(training),
        "Versions": _pairs(about.get("versions")),
        "Limitations": LIMITS,
    }
    parts = [f"## {title}\n\n{body}\n" for title, body in sections.items() if body]
    return f"# {_text(name)}\n\n{what}\n\n" + "\n".join(parts)


def _usage(name: str, about: About, columns: Columns | None) -> str:
    ids = f" with the ids in column {_code(about['id'])}" if about.get("id") else ""
    if columns is None:
        return (
            "In Python, with the features of n nodes as an array of n rows:\n\n"
            "```python\nimport linkdist\nfrom linkdist.artifacts.model_dir import load_model\n\n"
            f"saved = load_model({json.dumps(name)})\n"
            "probabilities = linkdist.from_features(saved.model, features)\n```"
        )
    needs_encoder = any(part.get("kind") == "embedding" for part in columns)
    loaded = f"{json.dumps(name)}, text_encoder=..." if needs_encoder else json.dumps(name)
    python = (
        f"In Python, for a file or data frame of nodes{ids}:\n\n"
        f"```python\nimport linkdist\n\nmodel = linkdist.load_model({loaded})\n"
        'labels = model.predict("nodes.parquet")\n```'
    )
    if needs_encoder:
        return f"{python}\n\nThe text encoder of the training is not in the model directory."
    return (
        f"On the command line, for a table of nodes{ids}; links are optional:\n\n"
        "```console\n"
        f"$ linkdist predict {shlex.quote(name)} nodes.parquet --edges edges.csv "
        f"--out predictions.parquet\n```\n\n{python}{_http(name, columns)}"
    )


def _http(name: str, columns: Columns) -> str:
    """The use over HTTP, with a request of the columns whose examples are short."""
    present = (part for part in columns if part.get("example") not in (None, []))
    examples = {part["name"]: part["example"] for part in present}
    short = [key for key, value in examples.items() if len(json.dumps(value)) <= LONGEST_EXAMPLE]
    if not short:
        return ""
    body = json.dumps({"rows": [{key: examples[key] for key in short[:MOST_EXAMPLES]}]})
    return (
        "\n\nOver HTTP; a value that is left out counts as missing:\n\n"
        f"```console\n$ linkdist serve {shlex.quote(name)} &\n"
        "$ curl -s http://127.0.0.1:8000/v1/predict -H 'Content-Type: application/json' \\\n"
        f"    -d {shlex.quote(body)}\n```"
    )


def _estimates(about: About) -> str:
    """Return a summary, scores of the model and of baselines, and warnings."""
    known = _mapping(about.get("estimates"))
    rows = [
        _score(part, rows_of or str(known.get("rows", "new rows")))
        for key, rows_of in SCORED.items()
        for part in _list(known.get(key))
        if isinstance(part, Mapping)
    ]
    if not rows:
        return ""
    nodes, by = _number(known.get("labels")), known.get("by")
    how = "cross-validation" if by == "folds" else by
    measured = f"The scores were measured on {nodes} labelled nodes, by {how}."
    warnings = "\n".join(f"- {_text(said)}" for said in _list(known.get("warnings")))
    parts = [
        " ".join(map(_text, _list(known.get("verdict")))),
        _table(["model", "accuracy", "90 % interval", "needs links"], rows),
        _text(measured),
        f"Limitations of these scores:\n\n{warnings}" if warnings else "",
        STALE if about.get("updates") else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _score(part: About, rows_of: str) -> list[str]:
    """Return a row of the table of scores."""
    name = _text(f"{part.get('name')}, {rows_of}")
    between = f"{_share(part.get('low'))} to {_share(part.get('high'))}"
    return [name, _share(part.get("accuracy")), between, "yes" if part.get("links") else "no"]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _accuracy(about: About) -> str:
    rows = _flat(_mapping(about.get("scores")))
    table = _table(["", "accuracy"], [[_text(key), _share(value)] for key, value in rows])
    description = describe_curve(about)
    picture = f"![{_text(description)}](curve.svg)" if description else ""
    stale = STALE if about.get("updates") else ""
    return "\n\n".join(part for part in (table if rows else "", picture, stale) if part)


def _confusion(about: About, classes: Sequence[str]) -> str:
    counts: Sequence[Sequence[int]] | None = about.get("confusion")
    if not counts or len(counts) != len(classes) or len(classes) > LARGEST_CONFUSION:
        return ""
    names = [_text(name) for name in classes]
    rows = [
        [f"**{name}**", *(f"**{n}**" if i == j else str(n) for j, n in enumerate(row))]
        for i, (name, row) in enumerate(zip(names, counts, strict=True))
    ]
    caption = "Rows are true classes, columns are predicted classes. Correct predictions are bold."
    nodes, total = _mapping(about.get("scores")).get("validation nodes"), sum(map(sum, counts))
    if isinstance(nodes, int) and nodes != total:
        caption += (
            f" The replicas made {total:,} predictions for {nodes:,} validation nodes; each "
            "replica predicts its own validation nodes."
        )
    return f"{caption}\n\n{_table(['', *names], rows)}"


def _columns(columns: Columns | None) -> str:
    rows = [
        [_text(part.get("name")), _text(part.get("kind")), _example(part.get("example"))]
        for part in columns or []
    ]
    return _table(["column", "kind", "example"], rows, align="---") if rows else ""


def _example(value: object) -> str:
    """Return a value as JSON, cut if it is long; empty if there is none."""
    spelled = "" if value in (None, []) else json.dumps(value, ensure_ascii=False)
    cut = spelled if len(spelled) <= LONGEST_EXAMPLE else f"{spelled[: LONGEST_EXAMPLE - 1]}…"
    return _text(cut)


def _pairs(values: object) -> str:
    rows = _flat(_mapping(values))
    return "\n".join(f"- {_text(key)}: {_text(_number(value))}" for key, value in rows)


def _mapping(value: object) -> About:
    return value if isinstance(value, Mapping) else {}


def _flat(values: About, prefix: str = "") -> list[tuple[str, Any]]:
    """Return pairs of key and value without missing values; nested mappings are flattened."""
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        title = f"{prefix}{key}".replace("_", " ")
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
    """Return an accuracy as a percentage."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.1%}"
    return _text(_number(value))


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return f"{value:,}" if type(value) is int else str(value)


def _text(value: object) -> str:
    """Escape text for Markdown, on one line."""
    return re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", " ".join(str(value).split()))


def _code(value: object) -> str:
    """Return a name as code, or as escaped text if it contains backticks or bars."""
    plain = " ".join(str(value).split())
    return _text(value) if "`" in plain or "|" in plain else f"`{plain}`"


# The chart of the validation accuracy -------------------------------------------------------------

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
