"""A small HTML card of a trained model, which Jupyter shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from linkdist.report import score_text
from linkdist.report._jinja import render


def model_html(classes: Sequence[str], columns: Mapping[str, str], about: Mapping[str, Any]) -> str:
    """Render the card.

    Parameters
    ----------
    classes : sequence of str
        Names of the classes.
    columns : mapping of str to str
        The kind of each feature column.
    about : mapping
        The description of the training, as in a model directory.

    Examples
    --------
    >>> "<b>a &amp; b</b>" in model_html(["a & b", "c"], {"age": "numeric"}, {"method": "linkdist"})
    True
    """
    about = {"method": None, "label": None, "estimates": None, **about}
    return render(
        "card.html",
        classes=classes,
        columns=columns,
        about=about,
        label=score_text.named(about["label"]) if about["label"] else None,
        task=about.get("task", "classification"),
        measure=score_text.measure_named((about["estimates"] or {}).get("measure")),
        texts=score_text,
    )
