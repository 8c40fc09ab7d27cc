"""A small HTML card of a trained model, which Jupyter shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader

TEMPLATES = Environment(loader=PackageLoader("linkdist.report"), autoescape=True)


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
    return TEMPLATES.get_template("card.html").render(
        classes=classes, columns=columns, about=about, estimates=about.get("estimates")
    )
