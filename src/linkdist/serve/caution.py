"""Conformal sets and unanswered rows, as parameters of a request."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Query

from linkdist.errors import ModelError, OptionError
from linkdist.serve.errors import RefusedError
from linkdist.tables.certainty import Caution
from linkdist.tables.prediction_columns import PredictionColumns

Sets: TypeAlias = Annotated[
    float | None,
    Query(
        gt=0,
        lt=1,
        description="Add a set of classes that contains the true class of this share of rows.",
    ),
]
Abstain: TypeAlias = Annotated[
    float | None,
    Query(gt=0, lt=1, description="Leave this share of rows, the least certain, without a label."),
]


def cautious(
    columns: PredictionColumns, sets: float | None, abstain: float | None
) -> PredictionColumns:
    """The columns of an answer.

    Raises
    ------
    RefusedError
        If the model has no classes, or does not have the scores that this needs.
    """
    try:
        return columns.cautious(Caution(sets, abstain))
    except (OptionError, ModelError) as error:
        raise RefusedError(422, str(error)) from error
