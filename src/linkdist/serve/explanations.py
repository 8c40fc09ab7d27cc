"""Explanations of the rows of a request, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, Field

from linkdist.errors import OptionError, TableError
from linkdist.inference.explain import MOST, Explanation, explain
from linkdist.inference.heads import NearRows, Neighbours
from linkdist.serve.answers import Mode
from linkdist.serve.errors import RefusedError
from linkdist.serve.schema import PredictionRequest
from linkdist.serve.served_model import ServedModel

MAX_ROWS = 100
"""Rows that a request may explain: each takes as long as hundreds of predictions."""


class PartOfRow(BaseModel):
    """A part of a row, and what it contributes."""

    kind: Literal[
        "column", "word", "words", "tag", "tags", "neighbour", "neighbours", "together"
    ] = Field(
        description="The plural is for many that are one part. 'together' is what the words, tags "
        "or neighbours of a column contribute beyond their single contributions."
    )
    column: str = Field(description="The column; of a neighbour, the relation of the link.")
    value: str = Field(
        description="The value, the word, the tag, or the position of the neighbour: rows are "
        "numbered from 0, and neighbours follow the rows."
    )
    contribution: float = Field(
        description="What speaks for the label is positive, what speaks against it is negative."
    )


class ExplainedPrediction(BaseModel):
    """Why a row is predicted as it is: `score` is `base` plus the sum of all contributions."""

    row: int = Field(description="The position of the row in the request.")
    label: str = Field(description="The class or label; for regression, the number's name.")
    score: float = Field(description="ln(p / (1 - p)) of the label, or the predicted number.")
    base: float = Field(description="The score of a row without any values and links.")
    parts: list[PartOfRow] = Field(description="The largest contribution first.")
    probability: float | None = Field(description="p; null for regression.")
    base_probability: float | None = Field(description="The probability that `base` stands for.")
    mode: Mode


class ExplainAnswer(BaseModel):
    """Explanations in the order of the rows."""

    version: str = Field(description="The version of the model that answered.")
    explanations: list[ExplainedPrediction] = Field(
        description="One for each row; if a row may have several labels, one for each of them."
    )
    notices: list[str] = Field([], description="As in the answer to /v1/predict.")


def explain_request(
    engine: ServedModel, body: bytes, max_rows: int, labels: Sequence[str] | None
) -> bytes:
    """Read a request and explain its rows, as the JSON of an `ExplainAnswer`.

    Parameters
    ----------
    engine : ServedModel
        The model.
    body : bytes
        The body of the request.
    max_rows : int
        Largest number of rows and neighbours.
    labels : sequence of str, optional
        The classes to explain.
    """
    if engine.header.encoders is None:
        raise RefusedError(422, "the model has no columns, so there are no parts to explain.")
    request = engine.schema.read(body, max_rows)
    if request.rows > MAX_ROWS:
        rule = f"a request may explain {MAX_ROWS} rows"
        raise RefusedError(413, f"{rule}; found {request.rows:,}. Send several requests.")
    try:
        found = [asdict(one) for one in _explanations(engine, request, labels)]
    except (OptionError, TableError) as error:
        raise RefusedError(422, str(error)) from error
    content: dict[str, Any] = {"version": engine.header.version, "explanations": found}
    if request.notices:
        content["notices"] = request.notices
    return json.dumps(content).encode()


def _explanations(
    engine: ServedModel, request: PredictionRequest, labels: Sequence[str] | None
) -> Iterator[Explanation]:
    """Explain the rows of a request one by one."""
    encoders = engine.header.encoders
    assert encoders is not None
    columns = {name: values[: request.rows] for name, values in request.columns.items()}
    rows = pa.record_batch(engine.schema.arrays(columns))
    near = _neighbours(engine, request)
    return explain(engine.heads, encoders, engine.columns, rows, near, labels)


def _neighbours(engine: ServedModel, request: PredictionRequest) -> list[Neighbours | None]:
    """The neighbours of each row; their ids are positions."""
    near = NearRows.of(request.links, request.count, np.arange(request.rows))
    if not len(near.positions):
        return [None] * request.rows
    columns = {
        name: [values[i] for i in near.positions.tolist()]
        for name, values in request.columns.items()
    }
    _, outputs = engine.outputs(engine.schema.encode(columns))
    names = list(map(str, near.positions.tolist()))
    return [near.neighbours(row, outputs, names, MOST) for row in range(request.rows)]
