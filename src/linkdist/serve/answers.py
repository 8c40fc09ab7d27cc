"""The answers of the service: predictions, and the description of the model."""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from linkdist.artifacts.manifest import CURVE, REPORT, Header
from linkdist.artifacts.model_card import model_card
from linkdist.data.graph import FloatArray
from linkdist.serve.engine import Engine
from linkdist.serve.schema import PredictionRequest, known_values
from linkdist.serve.settings import Settings
from linkdist.tables.bag_encoders import Categorical, Tags
from linkdist.tables.encoders import Encoder

MAX_VALUES = 100
"""Categories or tags of a column that are listed; other values may be sent, too."""

TRAINING = ("method", "epochs", "seconds", "date")


class Status(BaseModel):
    """The status of the service."""

    status: str


class Prediction(BaseModel):
    """The predicted class of a row."""

    label: str
    confidence: float = Field(ge=0, le=1, description="The label's probability.")
    probabilities: dict[str, float]
    mode: Literal["features", "links"] = Field(description="'links' if the row has a link.")


class Answer(BaseModel):
    """Predictions in the order of the rows."""

    version: str = Field(description="The version of the model that answered.")
    predictions: list[Prediction]
    notices: list[str] = Field(
        [], description="Columns with missing or unknown values; left out if there are none."
    )


class Column(BaseModel):
    """A column that the model reads."""

    name: str
    kind: Literal["numeric", "date", "categorical", "text", "tags", "tags:binary", "vector"]
    example: float | str | None = None
    values: list[str] | None = None
    separator: str | None = None
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
    card: str = Field(description="The model card, in Markdown.")
    has_curve: bool
    has_report: bool
    limits: Limits
    refused: RefusedModel | None


def answer(header: Header, request: PredictionRequest, p: FloatArray) -> tuple[bytes, int]:
    """Write the answer to a request.

    Parameters
    ----------
    header : Header
        The header of the model.
    request : PredictionRequest
        The request.
    p : (rows, C) array
        The probabilities of its rows.

    Returns
    -------
    content : bytes
        An `Answer` as JSON.
    with_links : int
        The number of rows that were predicted with links.
    """
    ends = request.links[request.links[:, 0] != request.links[:, 1]]
    linked = np.isin(np.arange(request.rows), ends).tolist()
    rounded = np.round(p.astype(np.float64), 6).tolist()
    # The label is that of the exact probabilities: rounded ones may be equal.
    best = p.argmax(axis=1).tolist()
    predictions = [
        {
            "label": header.classes[k],
            "confidence": row[k],
            "probabilities": dict(zip(header.classes, row, strict=True)),
            "mode": "links" if has_link else "features",
        }
        for k, row, has_link in zip(best, rounded, linked, strict=True)
    ]
    content: dict[str, Any] = {"version": header.version, "predictions": predictions}
    if request.notices:
        content["notices"] = request.notices
    return json.dumps(content).encode(), sum(linked)


def model_info(engine: Engine, settings: Settings, refused: RefusedModel | None) -> dict[str, Any]:
    """Return the content of a `ModelInfo`."""
    header = engine.header
    about, encoders = header.about, header.encoders
    columns = None if encoders is None else encoders.describe()
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
        "card": model_card(engine.name, about, header.classes, columns),
        "has_curve": CURVE in engine.extras,
        "has_report": REPORT in engine.extras,
        "limits": {name: getattr(settings, name) for name in Limits.model_fields},
        "refused": refused and refused.model_dump(),
    }


def _column(encoder: Encoder) -> dict[str, Any]:
    column: dict[str, Any] = {"name": encoder.name, "kind": encoder.kind}
    if encoder.kind in ("numeric", "date"):
        column["example"] = encoder.example()
    elif isinstance(encoder, Categorical | Tags):
        column["values"] = list(known_values(encoder)[:MAX_VALUES])
    elif encoder.kind == "vector":
        column["width"] = encoder.width
    if isinstance(encoder, Tags):
        column["separator"] = encoder.separator
    return column
