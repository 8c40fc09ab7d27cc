"""The shapes of what is asked and answered, for the OpenAPI document.

They are documentation: `linkdist.serve.rows` reads requests with its own care, and answers are
written as they are. A test holds both to these shapes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from linkdist.serve.errors import RULES

Value = str | float | bool | list[float] | None
Row = dict[str, Value] | list[float]


class Request(BaseModel):
    """Nodes to classify, and links where there are some."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "rows": [{"year": 2004, "venue": "a", "title": "graphs"}],
                "neighbours": [{"year": 1998, "venue": "a", "title": "links"}],
                "links": [[0, 1]],
            }
        },
    )
    rows: Annotated[
        list[Row],
        Field(
            min_length=1,
            description="A value a column, as in the training table; null or left out where it "
            "is missing. For a model of bare features: lists of numbers.",
        ),
    ]
    neighbours: Annotated[
        list[Row], Field(description="Further nodes, which only lend their word to `rows`.")
    ] = []
    links: Annotated[
        list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]],
        Field(description="Pairs of positions: rows count from 0, neighbours go on after them."),
    ] = []


class Prediction(BaseModel):
    """What a row is."""

    label: str
    confidence: Annotated[float, Field(ge=0, le=1, description="The label's probability.")]
    probabilities: dict[str, float]
    mode: Annotated[
        Literal["features", "links"], Field(description="'links' for a row that has a link.")
    ]


class Answer(BaseModel):
    """Predictions, in the order of the rows."""

    version: Annotated[str, Field(description="Of the model that answered.")]
    predictions: list[Prediction]


class Column(BaseModel):
    """A column that the model reads."""

    name: str
    kind: Literal["numeric", "categorical", "text", "vector"]
    example: float | None = None
    values: list[str] | None = None
    width: int | None = None


class Limits(BaseModel):
    """What a request may hold."""

    rows: int
    body_bytes: int
    file_bytes: int
    seconds: float


class RefusedModel(BaseModel):
    """A newer model that is not good; the old one goes on."""

    at: str
    reason: str


class About(BaseModel):
    """What the model is."""

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
    card: Annotated[str, Field(description="The model's README, in Markdown.")]
    has_curve: bool
    has_report: bool
    limits: Limits
    refused: RefusedModel | None


class Status(BaseModel):
    """How the service is."""

    status: str


class Problem(BaseModel):
    """Why a request was refused."""

    error: str
    columns: Annotated[dict[str, str], Field(description="The same about single columns.")]


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers of an operation that are no success.

    Examples
    --------
    >>> sorted(refusals(404))
    [401, 404, 503]
    """
    every = sorted({401, 503, *statuses})
    return {status: {"model": Problem, "description": RULES[status]} for status in every}
