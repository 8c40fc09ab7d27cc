"""The HTTP service: its addresses and answers.

POST /v1/predict          rows as JSON            GET /            the page
POST /v1/predict/table    a table as a file       GET /v1/model    the model's description
POST /v1/explain          rows as JSON
GET  /healthz, /readyz    for monitoring          GET /metrics     for Prometheus
GET  /docs                the reference           GET /openapi.json

How a prediction request is handled::

    guard.Guard                     checks the token, and counts
    app.predict                     the address
    spool.read_spooled              reads the body, within limits
    schema.RequestSchema.read       validates it
    current_model.Batcher.predict   computes it together with others: compute.compute
    answers.answer                  writes the predictions

Large requests, tables and explanations are computed in other processes: see `linkdist.serve.large`.
A request that cannot be answered raises an `errors.RefusedError` on its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from linkdist._version import __version__
from linkdist.artifacts.manifest import CURVE, REPORT, Header, Shape
from linkdist.serve.access_log import AccessLog
from linkdist.serve.answers import (
    KINDS,
    Answer,
    ModelInfo,
    Status,
    answer,
    check_values,
    model_info,
)
from linkdist.serve.caution import Abstain, Sets, cautious
from linkdist.serve.current_model import Batcher, CurrentModel
from linkdist.serve.document import add_table_example, add_token
from linkdist.serve.errors import RefusedError, refusals
from linkdist.serve.explain import router as explanations
from linkdist.serve.forms import CONTENT, Spooling, save_files
from linkdist.serve.guard import Guard, check_content_type
from linkdist.serve.large import LargeRequests
from linkdist.serve.lifetime import end_with
from linkdist.serve.metrics import Metrics
from linkdist.serve.schema import RequestSchema
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from linkdist.serve.spool import SMALL, read_spooled
from linkdist.serve.workers import Process
from linkdist.tables.feature_encoder import make_feature_encoder

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

SVG, HTML = "image/svg+xml", "text/html"
PAGE_TYPES = {".html": HTML, ".css": "text/css", ".js": "text/javascript", ".svg": SVG}

PAGES = {"index.html": "/", "docs.html": "/docs"}

NDJSON = "application/x-ndjson"
TABLE = {
    "description": "The id of each row, and its class, its number with an interval, or its labels; "
    "with probabilities, if there are classes or labels.",
    "content": {"text/csv": {}, NDJSON: {}},
}

TINY = 1 << 10
"""Bytes or probabilities that are read or written in less than a millisecond."""

UNEXPECTED = "an unexpected error occurred. This is a bug in LinkDist; the log has the details."

predictions = APIRouter(tags=["predict"], responses=refusals(400, 408, 413, 415, 422, 507))
description = APIRouter(tags=["model"])
monitoring = APIRouter(tags=["health"])


def make_app(
    settings: Settings | None = None, idle: deque[Process] | None = None
) -> Guard | AccessLog:
    """Make a service and load its model.

    Parameters
    ----------
    settings : Settings, optional
        By default the published ones: uvicorn calls this function in every worker.
    idle : deque of Process, optional
        Processes for large requests that several services share, for tests.

    Raises
    ------
    LinkDistError
        If the model or the token cannot be used.
    """
    settings = settings or Settings.published()
    app, token, metrics = _make_app(), settings.read_token(), Metrics()
    app.state.settings, app.state.metrics = settings, metrics
    app.state.current = CurrentModel(
        Path(settings.model), settings.waiting, metrics, settings.drift_rows
    )
    app.state.turn = asyncio.Lock()
    app.state.large = LargeRequests(settings, metrics, idle)
    guard = Guard(app, token, metrics, settings.hosts)
    return AccessLog(guard) if settings.access_log else guard


def _make_app() -> FastAPI:
    app = FastAPI(
        title="LinkDist",
        summary="Predict nodes with a model that was trained on a graph's links.",
        version=__version__,
        docs_url=None,  # that page loads scripts from other hosts; ours is a file of the page
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.openapi = lambda: _served_openapi(app)  # type: ignore[method-assign]
    for kind in (RefusedError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _refuse)
    for router in (predictions, explanations, description, monitoring):
        app.include_router(router)
    app.add_api_route("/v1/openapi.json", _document, include_in_schema=False)
    policy = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"}
    for file in (files("linkdist.serve") / "page").iterdir():
        media_type = PAGE_TYPES[Path(file.name).suffix]
        response = Response(file.read_bytes(), media_type=media_type, headers=policy)
        path, methods = PAGES.get(file.name, f"/{file.name}"), ["GET", "HEAD"]
        app.add_api_route(path, _sending(response), methods=methods, include_in_schema=False)
    return app


def _sending(response: Response) -> Callable[[], Awaitable[Response]]:
    async def send() -> Response:
        return response

    return send


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # Imported objects live as long as the process. A garbage collection that visits them delays
    # every request.
    gc.collect()
    gc.freeze()
    tasks = [asyncio.create_task(app.state.current.watch())]
    if parent := app.state.settings.parent:
        tasks.append(asyncio.create_task(end_with(parent)))
    yield
    for task in tasks:
        task.cancel()
    app.state.large.close()


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer with the problem; every problem has the same form."""
    if isinstance(error, RefusedError):
        return error.response()
    if isinstance(error, RequestValidationError):
        found = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
        text = f"a parameter of the address is missing or wrong: {found}."
        return RefusedError(422, text).response()
    if isinstance(error, HTTPException):
        path, method, status = request.url.path, request.method, error.status_code
        texts = {404: f"there is nothing at {path}.", 405: f"{path} does not accept {method}."}
        return RefusedError(status, texts.get(status, error.detail)).response(error.headers)
    return RefusedError(500, UNEXPECTED).response()


@predictions.post("/v1/predict", summary="Predict rows", response_model=Answer)
async def predict(request: Request, sets: Sets = None, abstain: Abstain = None) -> Response:
    """Predict rows from features, or with links if the request has links.

    The predictions have the order of the rows: a class with its probability, a number with its
    prediction interval, or several labels. `sets` adds the conformal set of each class prediction.
    """
    settings: Settings = request.app.state.settings
    metrics: Metrics = request.app.state.metrics
    batcher: Batcher = request.app.state.current.batcher
    large: LargeRequests = request.app.state.large
    check_content_type(request, "application/json")
    columns = cautious(batcher.engine.columns, sets, abstain)
    batcher.check_room()
    limits = settings.body_bytes, settings.seconds
    body = await read_spooled(large.spool, request, *limits, large.check_room)
    if not isinstance(body, bytes) or batcher.engine.schema.work(body) > SMALL:
        return await large.predict(request, batcher.engine, body, columns.caution)
    async with _turn(request, len(body)):
        rows = batcher.engine.schema.read(body, settings.rows)
    check_values(batcher.engine, rows.rows, settings.values)
    if rows.rows * len(batcher.engine.header.classes) > SMALL:
        return await large.predict(request, batcher.engine, body, columns.caution)
    try:
        async with asyncio.timeout(settings.seconds):
            p = await batcher.predict(rows)
    except TimeoutError:
        text = f"no answer within {settings.seconds:g} seconds. Send fewer rows at once."
        raise RefusedError(503, text) from None
    async with _turn(request, p.size):
        content, with_links = answer(batcher.engine, rows, p, columns)
    metrics.predicted("links", with_links)
    metrics.predicted("features", rows.rows - with_links)
    return Response(content, media_type="application/json")


@contextlib.asynccontextmanager
async def _turn(request: Request, size: int) -> AsyncIterator[None]:
    """Do longer work one at a time, so that the event loop answers other requests in between."""
    if size <= TINY:
        yield
        return
    async with request.app.state.turn:
        yield


@predictions.post(
    "/v1/predict/table",
    summary="Predict a table",
    response_class=Response,
    responses={200: TABLE},
    openapi_extra={"requestBody": {"required": True, "content": CONTENT}},
)
async def predict_table(
    request: Request,
    name: Annotated[
        str | None,
        Query(
            description="The name of the file; its suffix names the format. The files of a form "
            "have names of their own."
        ),
    ] = None,
    sets: Sets = None,
    abstain: Abstain = None,
) -> Response:
    """Predict a Parquet, CSV or JSON lines file with the model's columns.

    The body is the file itself, or a form with the file and optionally a table of the links between
    its rows.

    With `Accept: application/x-ndjson` the answer is a stream of JSON lines:
    `{"total": ...}`, then `{"done": ..., "csv": ...}`, then `{"end": ..., "notices": [...]}` or an
    error. Notices name columns with missing or unknown values; without any, they are left out.
    """
    state = request.app.state
    settings: Settings = state.settings
    large: LargeRequests = state.large
    engine: ServedModel = state.current.engine
    columns = cautious(engine.columns, sets, abstain)
    large.check_room_for_table(request)
    with contextlib.ExitStack() as resources:
        most_links = len(engine.header.relations)
        spooling = Spooling(large.spool, resources)
        table, links = await save_files(request, name, settings, spooling, most_links)
        lines_type = NDJSON if NDJSON in request.headers.get("accept", "") else None
        return await large.predict_table(
            request, engine, table, links, lines_type, resources, columns.caution
        )


def _sends(media_type: str, *statuses: int) -> dict[str, Any]:
    """Document an operation whose answer is not JSON."""
    responses = {200: {"content": {media_type: {}}}, **refusals(*statuses)}
    return {"response_class": Response, "responses": responses}


@description.get(
    "/v1/model", summary="Describe the model", response_model=ModelInfo, responses=refusals()
)
async def model(request: Request) -> Response:
    """Task, classes, columns, relations, model card, scores, and the limits of a request."""
    current: CurrentModel = request.app.state.current
    return JSONResponse(model_info(current.engine, request.app.state.settings, current.refused))


@description.get(
    f"/v1/model/{CURVE}", summary="Validation scores during training", **_sends(SVG, 404)
)
async def curve(request: Request) -> Response:
    """The training curve as an image."""
    return _file(request, CURVE, SVG)


@description.get(f"/v1/model/{REPORT}", summary="The training report", **_sends(HTML, 404))
async def report(request: Request) -> Response:
    """The evaluation of the model, with charts."""
    return _file(request, REPORT, HTML)


def _file(request: Request, name: str, media_type: str) -> Response:
    content = request.app.state.current.engine.extras.get(name)
    if content is None:
        raise RefusedError(404, f"the model has no {name}.")
    policy = {"Content-Security-Policy": REPORT_POLICY}
    return Response(content, media_type=media_type, headers=policy)


@monitoring.get("/healthz", summary="Whether the service runs")
async def health() -> Status:
    """Needs no token."""
    return Status(status="ok")


@monitoring.get("/readyz", summary="Whether a model is loaded")
async def ready(request: Request) -> Status:
    """The version of the model. Needs no token."""
    return Status(status=f"serving {request.app.state.current.engine.header.version}")


@monitoring.get("/metrics", summary="Counters for Prometheus", **_sends("text/plain"))
async def counters(request: Request) -> Response:
    """The counters of all workers."""
    text = request.app.state.metrics.text()
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the service of a model of three columns.

    Examples
    --------
    >>> document = openapi()
    >>> sorted(document["paths"])[:3]
    ['/healthz', '/metrics', '/readyz']
    >>> list(document["components"]["schemas"]["Row"]["properties"])
    ['title', 'venue', 'year', 'field', 'paper']
    """
    encoders = make_feature_encoder({"title": "text", "venue": "categorical", "year": "numeric"})
    shape, one = Shape(1, encoders.d, 256, 2), np.ones(1, np.float32)
    about = {"id": "paper", "label": "field"}
    header = Header(shape, ("art", "math"), one, one, encoders, about, {}, "")
    return _openapi(_make_app(), RequestSchema(header))


async def _document(request: Request) -> Response:
    """The document at the address that it had in the first version of the service."""
    return JSONResponse(request.app.openapi())


def _served_openapi(app: FastAPI) -> dict[str, Any]:
    """The document with the columns and the task of the model that is served now."""
    engine: ServedModel = app.state.current.engine
    document = _openapi(app, engine.schema)
    of_task = {"$ref": f"#/components/schemas/{KINDS[engine.header.task].__name__}"}
    answer = document["components"]["schemas"]["Answer"]["properties"]
    answer["predictions"] = {"type": "array", "title": "Predictions", "items": of_task}
    document["info"]["title"] = f"{engine.name} · LinkDist"
    if app.state.settings.token_file:
        add_token(document)
    return document


def _openapi(app: FastAPI, schema: RequestSchema) -> dict[str, Any]:
    """The document of the app, with the columns of a model."""
    document = deepcopy(FastAPI.openapi(app))  # it is the same for every model
    template = "#/components/schemas/{model}"
    request = schema.model.model_json_schema(ref_template=template)
    document["components"]["schemas"] |= {**request.pop("$defs", {}), "Request": request}
    request.pop("example")  # pydantic sorts its keys
    json = {"schema": {"$ref": template.format(model="Request")}, "example": schema.example}
    body = {"required": True, "content": {"application/json": json}}
    for path in ("/v1/predict", "/v1/explain"):
        document["paths"][path]["post"]["requestBody"] = body
    add_table_example(document, schema.header)
    return document
