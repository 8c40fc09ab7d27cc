"""Check what the header of a model directory says about the training.

Columns and labels of tables are read as it says, and the model card and a service show it. Other
keys than those below may have any value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

Mode = Literal["features", "links"]
Shares = Annotated[list[float], Field(min_length=1)]


class LabelWriting(BaseModel, strict=True, extra="forbid"):
    """How the labels of a table are written; see `linkdist.tables.targets.LabelFormat`."""

    decimal: Literal[".", ","] = "."
    separator: str | None = None
    binary: bool = False


class DecisionFacts(BaseModel, strict=True, extra="allow"):
    """Widths of prediction intervals, thresholds of labels and factors of classes."""

    widths: dict[Mode, float | None] | None = None
    thresholds: dict[Mode, Shares] | None = None
    factors: Shares | None = None
    coverage: float | None = None


class AboutFacts(BaseModel, strict=True, extra="allow"):
    """The keys that a program reads; see `linkdist.artifacts.model_dir.Saved.about`."""

    id: str | None = None
    label: str | list[str] | None = None
    unknown: list[str] | None = None
    source: str | None = None
    target: str | None = None
    graph: str | None = None
    relation: str | None = None
    weight: str | None = None
    directed: bool | None = None
    relations: list[str] | None = None
    task: Literal["classification", "regression", "multilabel"] | None = None
    method: str | None = None
    label_format: LabelWriting | None = None
    decision: DecisionFacts | None = None
    estimates: dict[str, Any] | None = None
    scores: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    updates: list[Any] | None = None
    curve: list[list[float | None]] | None = None
    kept: list[int | None] | None = None
    confusion: list[list[int]] | None = None

    @model_validator(mode="after")
    def _each_kept_evaluation_exists(self) -> AboutFacts:
        if self.kept is not None:
            curves = self.curve or []
            ends = [number is None or 1 <= number <= len(values) for number, values in
                    zip(self.kept, curves, strict=False)]  # fmt: skip
            if len(self.kept) != len(curves) or not all(ends):
                raise ValueError("kept must have the number of an evaluation for each curve")
        return self


def checked_about(about: Mapping[str, Any]) -> dict[str, Any]:
    """Check the description of a training.

    Raises
    ------
    ValueError
        Lists all values of another type than programs expect, and numbers and text that JSON does
        not have.

    Examples
    --------
    >>> checked_about({"id": "paper", "seed": 0})
    {'id': 'paper', 'seed': 0}
    >>> checked_about({"id": 7, "label": {}})
    Traceback (most recent call last):
    ValueError: about.id: Input should be a valid string; about.label: Input should be a valid \
string or list
    """
    about = dict(about)
    try:
        json.dumps(about, allow_nan=False, ensure_ascii=False).encode()
        AboutFacts.model_validate(about)
    except ValidationError as error:
        raise ValueError("; ".join(_problems(error))) from error
    return about


def _problems(error: ValidationError) -> list[str]:
    """A text for each value; alternatives of one value are one problem."""
    found: dict[str, list[str]] = {}
    for one in error.errors():
        place = ".".join(str(part) for part in one["loc"] if part not in ("str", "list[str]"))
        found.setdefault(f"about.{place}".rstrip("."), []).append(one["msg"])
    return [
        f"{place}: {' or '.join(dict.fromkeys(ways)).replace(' or Input should be a valid', ' or')}"
        for place, ways in found.items()
    ]
