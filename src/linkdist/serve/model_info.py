"""The description of the served model, for the page and for other programs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from linkdist.artifacts.manifest import CURVE, REPORT
from linkdist.artifacts.model_card import model_card
from linkdist.serve.reload import CurrentModel
from linkdist.serve.settings import Settings
from linkdist.tables.bag_encoders import Categorical
from linkdist.tables.encoders import Encoder, Numeric

MAX_VALUES = 100
"""Values of a categorical column that are listed; other values may be sent, too."""

TRAINING = ("method", "epochs", "seconds", "date")


class Column(BaseModel):
    """A column that the model reads."""

    name: str
    kind: Literal["numeric", "categorical", "text", "vector"]
    example: float | None = None
    values: list[str] | None = None
    width: int | None = None


class Limits(BaseModel):
    """The limits of a request."""

    rows: int
    body_bytes: int
    file_bytes: int
    seconds: float


class RefusedModel(BaseModel):
    """A newer model that could not be loaded; the old one stays."""

    at: str
    reason: str


class ModelInfo(BaseModel):
    """The description of the served model."""

    name: str
    version: str
    loaded: str
    classes: list[str]
    features: int
    replicas: int
    label: str | None
    id: str | None
    columns: list[Column] | None
    scores: dict[str, Any]
    data: dict[str, Any]
    training: dict[str, Any]
    card: Annotated[str, Field(description="The model card, in Markdown.")]
    has_curve: bool
    has_report: bool
    limits: Limits
    refused: RefusedModel | None


def model_info(current: CurrentModel, settings: Settings) -> dict[str, Any]:
    """Return the content of a `ModelInfo`."""
    engine, refused = current.engine, current.refused
    header = engine.header
    about, encoders = header.about, header.encoders
    state = None if encoders is None else encoders.state()
    return {
        "name": engine.name,
        "version": header.version,
        "loaded": engine.loaded.isoformat(timespec="seconds"),
        "classes": list(header.classes),
        "features": header.shape.features,
        "replicas": header.shape.replicas,
        "label": about.get("label"),
        "id": about.get("id"),
        "columns": None if encoders is None else [_column(one) for one in encoders.columns],
        "scores": about.get("scores", {}),
        "data": about.get("data", {}),
        "training": {key: about[key] for key in TRAINING if key in about},
        "card": model_card(engine.name, about, header.classes, state),
        "has_curve": CURVE in engine.extras,
        "has_report": REPORT in engine.extras,
        "limits": {name: getattr(settings, name) for name in Limits.model_fields},
        "refused": refused and {"at": refused.at.isoformat(), "reason": refused.reason},
    }


def _column(encoder: Encoder) -> dict[str, Any]:
    column: dict[str, Any] = {"name": encoder.name, "kind": encoder.kind}
    if isinstance(encoder, Numeric):
        column["example"] = float(f"{encoder.mean:.4g}")
    elif isinstance(encoder, Categorical):
        column["values"] = list(encoder.categories[:MAX_VALUES])
    elif encoder.kind == "vector":
        column["width"] = encoder.width
    return column
