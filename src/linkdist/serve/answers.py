"""The answers of the service: predictions, and the description of the model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from linkdist.artifacts.manifest import CURVE, REPORT
from linkdist.artifacts.model_card import model_card
from linkdist.data.graph import FloatArray
from linkdist.data.links import has_neighbours
from linkdist.serve.errors import RefusedError
from linkdist.serve.schema import PredictionRequest, known_values
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from linkdist.tables.bag_encoders import Categorical, Tags
from linkdist.tables.encoders import Encoder
from linkdist.tables.prediction_columns import BETWEEN, MODES, PredictionColumns

MAX_VALUES = 100
"""Categories or tags of a column that are listed; other values may be sent, too."""

Row: TypeAlias = dict[str, Any]
Mask: TypeAlias = npt.NDArray[np.bool_]

LINK_COLUMNS = ("source", "target", "relation", "weight")
TRAINING = ("method", "epochs", "seconds", "date")


class Status(BaseModel):
    """The status of the service."""

    status: str


Mode: TypeAlias = Annotated[
    Literal["features", "links"], Field(description="'links' if the row has a link.")
]


class Prediction(BaseModel):
    """The predicted class of a row."""

    label: str | None = Field(description="Null if the row is not certain enough; see `abstain`.")
    confidence: float = Field(ge=0, le=1, description="The probability of the likeliest class.")
    set: list[str] = Field([], description="The conformal set, if `sets` asks for it.")
    probabilities: dict[str, float]
    mode: Mode


class NumberPrediction(BaseModel):
    """The predicted number of a row, in the unit of the training table."""

    predicted: float
    low: float | None = Field(description="The start of the prediction interval, if there is one.")
    high: float | None = Field(description="The end of the prediction interval.")
    mode: Mode


class LabelsPrediction(BaseModel):
    """The predicted labels of a row."""

    labels: list[str] = Field(description="The labels whose probability reaches their threshold.")
    probabilities: dict[str, float]
    mode: Mode


class Answer(BaseModel):
    """Predictions in the order of the rows: classes, numbers or several labels."""

    version: str = Field(description="The version of the model that answered.")
    predictions: list[Prediction] | list[NumberPrediction] | list[LabelsPrediction]
    notices: list[str] = Field(
        [],
        description="Columns with missing or unknown values, and links without the weights that "
        "training had; left out if there are none.",
    )


KINDS: dict[str, type[BaseModel]] = {
    "classification": Prediction,
    "regression": NumberPrediction,
    "multilabel": LabelsPrediction,
}
"""The predictions of each task."""


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
    values: int = Field(description="Probabilities of an answer: rows × classes.")
    body_bytes: int
    file_bytes: int
    table_rows: int
    seconds: float = Field(description="For a body to arrive, and for an answer.")
    table_seconds: float


class RefusedModel(BaseModel):
    """A newer model that could not be loaded; the old one stays."""

    at: str
    reason: str


class ModelInfo(BaseModel):
    """The description of the served model."""

    name: str
    version: str
    loaded: str
    task: Literal["classification", "regression", "multilabel"]
    classes: list[str] = Field(description="Classes or labels; for regression, the number's name.")
    features: int
    replicas: int
    label: str | list[str] | None
    id: str | None
    coverage: float | None = Field(description="The share of numbers that intervals contain.")
    thresholds: dict[str, list[float]] | None = Field(
        description="The probability from which each of several labels is predicted, by mode."
    )
    separator: str | None = Field(
        description="What separates the labels of a row in a table of predictions; null if each "
        "label has a column."
    )
    relations: list[str]
    directed: bool = Field(description="Whether links lead from their source to their target.")
    weighted: bool = Field(description="Whether the links of the training had weights.")
    link_columns: dict[str, str | None] = Field(
        description="The columns that tables of links have: 'source', 'target', 'relation' and "
        "'weight'; null if training named none."
    )
    columns: list[Column] | None
    scores: dict[str, Any]
    data: dict[str, Any]
    training: dict[str, Any]
    card: str = Field(description="The model card, in Markdown.")
    has_curve: bool
    has_report: bool
    limits: Limits
    refused: RefusedModel | None


def check_values(engine: ServedModel, rows: int, most: int) -> None:
    """Refuse a request whose answer has too many probabilities: rows × classes.

    Raises
    ------
    RefusedError
        With the number of rows that may be sent.
    """
    classes = len(engine.header.classes)
    if rows * classes > most:
        found = f"{rows:,} rows of {classes:,} classes are {rows * classes:,} probabilities"
        rule = f"an answer may have {most:,}"
        raise RefusedError(413, f"{found}; {rule}. Send {max(1, most // classes):,} rows at once.")


def answer(
    engine: ServedModel, request: PredictionRequest, p: FloatArray, columns: PredictionColumns
) -> tuple[bytes, int]:
    """Write the answer to a request.

    Parameters
    ----------
    engine : ServedModel
        The model.
    request : PredictionRequest
        The request.
    p : (rows, C) array
        The probabilities of its rows; for regression, numbers (rows, 1).
    columns : PredictionColumns
        Those of the engine, perhaps with sets or unanswered rows.

    Returns
    -------
    content : bytes
        An `Answer` as JSON.
    with_links : int
        The number of rows that were predicted with links.
    """
    linked = has_neighbours(request.links, request.count)[: request.rows]
    modes = np.where(linked, "links", "features").tolist()
    rows = PREDICTIONS[engine.header.task](columns, p, linked)
    predictions = [{**row, "mode": mode} for row, mode in zip(rows, modes, strict=True)]
    content: dict[str, Any] = {"version": engine.header.version, "predictions": predictions}
    if notices := [*request.notices, *filter(None, [columns.too_few()])]:
        content["notices"] = notices
    return json.dumps(content).encode(), int(linked.sum())


def _classes(columns: PredictionColumns, p: FloatArray, linked: Mask) -> Iterator[Row]:
    # The label is that of the exact probabilities: rounded ones may be equal.
    best, answered = p.argmax(axis=1).tolist(), columns.answered(p, linked).tolist()
    sets: list[dict[str, list[str]]] = [{}] * len(p)
    if columns.caution.sets:
        names = columns.label_lists(columns.sets(p, linked), in_lists=True).to_pylist()
        sets = [{"set": one} for one in names]
    for k, known, own, shares in zip(best, answered, sets, _by_class(columns, p), strict=True):
        label = columns.form.classes[k]
        row = {"label": label if known else None, "confidence": shares[label], **own}
        yield {**row, "probabilities": shares}


def _numbers(columns: PredictionColumns, p: FloatArray, linked: Mask) -> Iterator[Row]:
    found = np.concatenate([p, columns.interval(p, linked)], axis=1)
    for row in found.tolist():
        yield dict(zip(("predicted", "low", "high"), map(_number, row), strict=True))


def _number(value: float) -> float | None:
    """A number with the digits of float32; None for NaN and infinity, which JSON does not have."""
    with np.errstate(over="ignore"):
        short = float(str(np.float32(value)))
    return short if math.isfinite(short) else None


def _labels(columns: PredictionColumns, p: FloatArray, linked: Mask) -> Iterator[Row]:
    decided = columns.label_lists(columns.decided(p, linked), in_lists=True).to_pylist()
    for labels, shares in zip(decided, _by_class(columns, p), strict=True):
        yield {"labels": labels, "probabilities": shares}


def _by_class(columns: PredictionColumns, p: FloatArray) -> Iterator[dict[str, float]]:
    for row in np.round(p.astype(np.float64), 6).tolist():
        yield dict(zip(columns.form.classes, row, strict=True))


PREDICTIONS: dict[str, Callable[[PredictionColumns, FloatArray, Mask], Iterator[Row]]]
PREDICTIONS = {"classification": _classes, "regression": _numbers, "multilabel": _labels}


def model_info(
    engine: ServedModel, settings: Settings, refused: RefusedModel | None
) -> dict[str, Any]:
    """Return the content of a `ModelInfo`."""
    header = engine.header
    about, encoders = header.about, header.encoders
    columns = None if encoders is None else encoders.describe()
    return {
        "name": engine.name,
        "version": header.version,
        "loaded": engine.loaded.isoformat(timespec="seconds"),
        "task": header.task,
        "classes": list(header.classes),
        "features": header.shape.features,
        "replicas": header.shape.replicas,
        "label": about.get("label"),
        "id": about.get("id"),
        "coverage": _coverage(about),
        "thresholds": _thresholds(engine.columns),
        "separator": _separator(engine.columns),
        "relations": list(header.relations),
        "directed": header.directed,
        "weighted": about.get("weight") is not None,
        "link_columns": {role: about.get(role) for role in LINK_COLUMNS},
        "columns": None if encoders is None else [_column(one) for one in encoders.columns],
        "scores": about.get("scores") or {},
        "data": about.get("data") or {},
        "training": {key: about[key] for key in TRAINING if key in about},
        "card": model_card(engine.name, about, header.classes, columns),
        "has_curve": CURVE in engine.extras,
        "has_report": REPORT in engine.extras,
        "limits": {name: getattr(settings, name) for name in Limits.model_fields},
        "refused": refused and refused.model_dump(),
    }


def _coverage(about: Mapping[str, Any]) -> float | None:
    found = (about.get("decision") or {}).get("coverage")
    return found if isinstance(found, float) else None


def _thresholds(columns: PredictionColumns) -> dict[str, list[float]] | None:
    if columns.task != "multilabel":
        return None
    return dict(zip(MODES, columns.thresholds.tolist(), strict=True))


def _separator(columns: PredictionColumns) -> str | None:
    if columns.task != "multilabel" or columns.form.binary:
        return None
    return columns.form.separator or BETWEEN


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
