"""The answers to prediction requests."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field

from linkdist.artifacts.manifest import Header
from linkdist.data.graph import FloatArray
from linkdist.serve.schema import PredictionRequest


class Prediction(BaseModel):
    """The predicted class of a row."""

    label: str
    confidence: Annotated[float, Field(ge=0, le=1, description="The label's probability.")]
    probabilities: dict[str, float]
    mode: Annotated[
        Literal["features", "links"], Field(description="'links' if the row has a link.")
    ]


class Answer(BaseModel):
    """Predictions in the order of the rows."""

    version: Annotated[str, Field(description="The version of the model that answered.")]
    predictions: list[Prediction]


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
    content = json.dumps({"version": header.version, "predictions": predictions})
    return content.encode(), sum(linked)
