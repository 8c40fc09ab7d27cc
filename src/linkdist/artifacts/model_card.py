"""The model card: a Markdown page about a model, written to the README.md of its directory.

Its chart of the validation accuracy is an SVG file beside it. The HTTP service imports this module,
without PyTorch.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from linkdist.artifacts.card_scores import (
    certainty_section,
    confusion_section,
    decision_section,
    estimates_section,
    estimates_title,
    relations_section,
    validation_section,
    validation_title,
)
from linkdist.artifacts.markdown import About, as_list, as_mapping, code, pairs, table, text
from linkdist.report.score_text import named

Columns: TypeAlias = Sequence[Mapping[str, Any]]

LONGEST_EXAMPLE, MOST_EXAMPLES = 60, 10
"""Length of an example of a column, and number of columns in the example of a request."""

MEASURED = """\
- The {score} measured on nodes of the training graph. Nodes from another source or from a later
  time can differ: measure the {same} on labelled nodes of your own.
- Prediction with links also needs the columns of the neighbours."""

LIMITS = """\
- Every node is assigned to one of the classes above, even if it belongs to none of them.
- With the method SelfLinkDist, probabilities are calibrated on validation labels; otherwise they
  are the softmax output of the network.
""" + MEASURED.format(score="accuracy is", same="accuracy")

LIMITS_OF_TASK = {
    "regression": """\
- Nodes whose columns are unlike those of the training get a number all the same, and their
  prediction interval is as wide as that of other nodes.
"""
    + MEASURED.format(score="scores are", same="error"),
    "multilabel": """\
- Each label is predicted on its own: a node may get several labels or none, also sets of labels
  that no node of the training has.
- Thresholds balance precision and recall of each label (F1). If one of them matters more to you,
  choose other thresholds of the probabilities.
"""
    + MEASURED.format(score="scores are", same="scores"),
}
"""The limits for numbers and for several labels."""

OWN_TITLE = {"regression": "Number", "multilabel": "Labels"}
"""The title of the list of classes, for other tasks."""


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
        'updates', 'versions', 'task', 'decision' and 'certainty' are shown if they are present.
    classes : sequence of str
        The names of the classes or labels; for regression, the name of the number.
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
    task = str(about.get("task"))
    training = {key: about.get(key) for key in ("method", "setting", "epochs", "seconds")}
    what = (
        f"A LinkDist model that predicts {_what(about, len(classes))}, from the features of the "
        "node. It was trained on the links of a graph, but prediction needs no links; if links are "
        "available, it can use them."
    )
    sections = {
        "Use": _usage(name, about, columns),
        estimates_title(about): estimates_section(about),
        "Relations": relations_section(about),
        validation_title(about): validation_section(about),
        "Confusion matrix": confusion_section(about, classes),
        "Decision": decision_section(about, classes),
        "Certainty": certainty_section(about),
        OWN_TITLE.get(task, "Classes"): ", ".join(map(text, classes)),
        "Columns": _columns(columns),
        "Data": pairs({**as_mapping(about.get("data")), **as_mapping(about.get("tally"))}),
        "Training": pairs(training),
        "Versions": pairs(about.get("versions")),
        "Limitations": _limits(about, task),
    }
    parts = [f"## {title}\n\n{body}\n" for title, body in sections.items() if body]
    return f"# {text(name)}\n\n{what}\n\n" + "\n".join(parts)


def _limits(about: About, task: str) -> str:
    """The limitations; scores of held-out graphs are not about the graph of the training."""
    limits = LIMITS_OF_TASK.get(task, LIMITS)
    if as_mapping(about.get("estimates")).get("rows") == "rows of other graphs":
        return limits.replace("nodes of the training graph", "graphs that training has not seen")
    return limits


def _what(about: About, count: int) -> str:
    """What the model predicts, in a sentence."""
    label = about.get("label")
    columns = [code(one) for one in as_list(label)] or [code(label)]
    if about.get("task") == "regression":
        return f"the {columns[0] if label else 'number'} of a node, a number"
    if about.get("task") == "multilabel":
        return f"which of {count} labels a node has" + (f" ({named(columns)})" if label else "")
    return f"the {columns[0] if label else 'class'} of a node, one of {count} classes"


def _usage(name: str, about: About, columns: Columns | None) -> str:
    ids = f" with the ids in column {code(about['id'])}" if about.get("id") else ""
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


def _columns(columns: Columns | None) -> str:
    rows = [
        [text(part.get("name")), text(part.get("kind")), _example(part.get("example"))]
        for part in columns or []
    ]
    return table(["column", "kind", "example"], rows, align="---") if rows else ""


def _example(value: object) -> str:
    """Return a value as JSON, cut if it is long; empty if there is none."""
    spelled = "" if value in (None, []) else json.dumps(value, ensure_ascii=False)
    cut = spelled if len(spelled) <= LONGEST_EXAMPLE else f"{spelled[: LONGEST_EXAMPLE - 1]}…"
    return text(cut)
