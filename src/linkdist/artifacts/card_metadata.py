"""The metadata of a model card: YAML at its start, which a model hub reads.

The keys are those of the Hugging Face Hub: the library, the task, tags and, under `model-index`,
the estimates of the training. Values are written as JSON, which is also YAML. There is no licence:
whoever publishes a model chooses it.
"""

from __future__ import annotations

import json
import math
from typing import Any

from linkdist.artifacts.markdown import About, as_list, as_mapping
from linkdist.report.score_text import measure_named

PIPELINES = {"regression": "tabular-regression"}
CLASSES = "tabular-classification"
"""The Hub's names of tasks; one class and several labels are both classification."""

METRICS = {"macro-f1": "f1", "micro-f1": "f1", "r2": "r_squared"}
"""The Hub's names of measures, where they are not ours with an underscore."""

OWN = "this model, "


def card_metadata(name: str, about: About) -> str:
    """Return the front matter of a model card, with the lines of `---` around it.

    Parameters
    ----------
    name : str
        The name of the model directory.
    about : mapping
        Facts about the training, as in `linkdist.artifacts.model_card.model_card`.

    Examples
    --------
    >>> print(card_metadata("papers", {"task": "regression"}))
    ---
    library_name: "linkdist"
    pipeline_tag: "tabular-regression"
    tags: ["linkdist", "graph", "regression"]
    ---
    <BLANKLINE>
    """
    task = str(about.get("task") or "classification")
    pipeline = PIPELINES.get(task, CLASSES)
    keys: dict[str, Any] = {
        "library_name": "linkdist",
        "pipeline_tag": pipeline,
        "tags": ["linkdist", "graph", _printable(task)],
    }
    # An update changes the weights, so that the estimates are no longer those of the model.
    metrics = [] if about.get("updates") else _metrics(as_mapping(about.get("estimates")))
    if metrics:
        dataset = {"type": "training-table", "name": "labelled nodes of the training"}
        result = {"task": {"type": pipeline}, "dataset": dataset, "metrics": metrics}
        keys["model-index"] = [{"name": _printable(name), "results": [result]}]
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in keys.items()]
    return f"---\n{''.join(lines)}---\n"


def _metrics(estimates: About) -> list[dict[str, Any]]:
    """The scores of the model itself, without those of baselines."""
    measure = measure_named(estimates.get("measure"))
    kind = METRICS.get(measure.name, measure.name.replace("-", "_"))
    rows = {"new_rows": str(estimates.get("rows", "new rows")), "known_rows": "rows of the table"}
    metrics = []
    for key, of in rows.items():
        for part in map(as_mapping, as_list(estimates.get(key))):
            value, mode = part.get("value"), str(part.get("name")).removeprefix(OWN)
            if isinstance(value, float) and math.isfinite(value):
                title = _printable(f"{measure.title} of {of}, {mode}")
                metrics.append({"type": kind, "value": round(value, 4), "name": title})
    return metrics


def _printable(text: str) -> str:
    """Replace characters that YAML does not allow."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
