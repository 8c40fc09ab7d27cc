"""POST /v1/explain: what speaks for and against the predictions of a request."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from linkdist.serve.errors import refusals
from linkdist.serve.explanations import ExplainAnswer
from linkdist.serve.guard import check_content_type
from linkdist.serve.large import LargeRequests
from linkdist.serve.settings import Settings
from linkdist.serve.spool import read_spooled

MAX_BYTES = 1 << 20
"""Largest size of a request."""

router = APIRouter(tags=["predict"], responses=refusals(400, 408, 413, 415, 422, 507))


@router.post("/v1/explain", summary="Explain predictions", response_model=ExplainAnswer)
async def explain_rows(
    request: Request,
    label: Annotated[
        list[str] | None,
        Query(alias="class", description="A class to explain instead of the predicted one."),
    ] = None,
) -> Response:
    """Explain the predictions of up to 100 rows, from features or with links.

    The request has the form of that to `/v1/predict`. The contributions of all parts of a row sum
    to the difference between its score and that of a row without any values and links.
    """
    settings: Settings = request.app.state.settings
    large: LargeRequests = request.app.state.large
    check_content_type(request, "application/json")
    large.requests.check_room()
    limits = min(settings.body_bytes, MAX_BYTES), settings.seconds
    body = await read_spooled(large.spool, request, *limits, large.check_room)
    return await large.explain(request, request.app.state.current.engine, body, label)
