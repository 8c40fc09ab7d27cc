"""Compute the predictions of requests, in the service or in a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from linkdist.data.graph import FloatArray
from linkdist.serve.errors import RefusedError
from linkdist.serve.link_schema import join_links
from linkdist.serve.schema import PredictionRequest
from linkdist.serve.served_model import ServedModel

TOO_LARGE = "The values are too large: the model gives no prediction. Send smaller numbers."

Result: TypeAlias = FloatArray | Exception


def compute(engine: ServedModel, requests: Sequence[PredictionRequest]) -> list[Result]:
    """Compute the probabilities or numbers of several requests at once.

    Returns
    -------
    list of (rows, C) array or Exception
        One for each request. A request that cannot be computed does not affect the others.
    """
    columns = {
        name: [value for request in requests for value in request.columns[name]]
        for name in requests[0].columns
    }
    starts = np.cumsum([0, *(request.count for request in requests)]).tolist()
    links = join_links([(one.links, start) for one, start in zip(requests, starts, strict=False)])
    p = engine.probabilities(engine.schema.encode(columns), links)
    parts = [p[start : start + one.rows] for start, one in zip(starts, requests, strict=False)]
    return [part if np.isfinite(part).all() else RefusedError(422, TOO_LARGE) for part in parts]
