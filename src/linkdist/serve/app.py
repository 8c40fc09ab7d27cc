"""The HTTP service: its addresses and answers.

POST /v1/predict          rows as JSON            GET /            the page
POST /v1/predict/table    a CSV or Parquet file   GET /v1/model    the model's description
GET  /healthz, /readyz    for monitoring          GET /metrics     for Prometheus

`linkdist.serve.middleware` checks the token of a request before it comes here.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import Annotated, Any, ParamSpec, TypeVar

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from linkdist.artifacts.manifest import CURVE, REPORT, Header, Shape
from linkdist.serve.answers import Answer, answer
from linkdist.serve.errors import RefusedError, refusals
from linkdist.serve.metrics import Metrics
from linkdist.serve.middleware import UNEXPECTED, Guard, read_token
from linkdist.serve.model_info import ModelInfo, model_info
from linkdist.serve.reload import CurrentModel
from linkdist.serve.request_body import check_content_type, read_body, save_body
from linkdist.serve.schema import RequestSchema
from linkdist.serve.settings import Settings
from linkdist.serve.table_prediction import (
    Streamed,
    TablePrediction,
    read_in_parts,
    table_suffix,
)
from linkdist.tables.feature_encoder import make_feature_encoder

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

PAGE_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

NDJSON = "application/x-ndjson"

SMALL = 1 << 14
"""Bytes or probabilities that are read or written faster than a thread is started."""

P = ParamSpec("P")
T = TypeVar("T")


class Status(BaseModel):
    """The status of the service."""

    status: str


def make() -> Guard:
    """Make the service from the published settings; uvicorn calls this."""
    return make_app(Settings.published())


def make_app(settings: Settings) -> Guard:
    """Make a service and load its model.

    Raises
    ------
    LinkDistError
        If the model or the token cannot be used.
    """
    metrics, token = Metrics(), read_token(settings.token_file)
    app = _routes(settings, metrics)
    app.state.current = CurrentModel(Path(settings.model), settings.waiting, metrics)
    return Guard(app, token, metrics)


def openapi(schema: RequestSchema | None = None) -> dict[str, Any]:
    """Return the OpenAPI document of the service.

    Parameters
    ----------
    schema : RequestSchema, optional
        The request schema of a model; by default that of a model of three columns.

    Examples
    --------
    >>> document = openapi()
    >>> sorted(document["paths"])[:3]
    ['/healthz', '/metrics', '/readyz']
    >>> list(document["components"]["schemas"]["Row"]["properties"])
    ['title', 'venue', 'year', 'field', 'paper']
    """
    return _openapi(_routes(Settings(""), Metrics()), schema or _example_schema())


def _example_schema() -> RequestSchema:
    encoders = make_feature_encoder({"title": "text", "venue": "categorical", "year": "numeric"})
    shape, one = Shape(1, encoders.d, 256, 2), np.ones(1, np.float32)
    about = {"id": "paper", "label": "field"}
    return RequestSchema(Header(shape, ("art", "math"), one, one, encoders, about, {}, ""))


def _openapi(app: FastAPI, schema: RequestSchema) -> dict[str, Any]:
    """The document of the app, with the columns of the model that is served now."""
    document = FastAPI.openapi(app)
    template = "#/components/schemas/{model}"
    request = schema.model.model_json_schema(ref_template=template)
    parts = {**request.pop("$defs", {}), "Request": request}
    document["components"]["schemas"].update(parts)
    reference, example = {"$ref": template.format(model="Request")}, request.pop("example")
    content = {"application/json": {"schema": reference, "example": example}}
    body = {"required": True, "content": content}
    document["paths"]["/v1/predict"]["post"]["requestBody"] = body
    return document


def _routes(settings: Settings, metrics: Metrics) -> FastAPI:
    app = FastAPI(
        title="LinkDist",
        summary="Classify nodes with a model that was trained on a graph's links.",
        version=version("linkdist"),
        docs_url=None,  # that page loads scripts from other hosts
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        lifespan=_lifespan,
    )
    app.openapi = lambda: _openapi(app, app.state.current.engine.schema)  # type: ignore[method-assign]
    _handle_errors(app)
    _serve_predictions(app, settings, metrics)
    _serve_model(app, settings)
    _serve_health(app, metrics)
    _serve_page(app)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # Imported objects live as long as the process. A garbage collection that visits them delays
    # every request.
    gc.collect()
    gc.freeze()
    task = asyncio.create_task(app.state.current.watch())
    yield
    task.cancel()


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        busy = {"Retry-After": "1"} if error.status == 503 else None
        return JSONResponse(error.body(), error.status, headers=busy)

    @app.exception_handler(RequestValidationError)
    async def invalid_parameters(request: Request, error: RequestValidationError) -> Response:
        found = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
        body = RefusedError(422, f"a parameter of the address is missing or wrong: {found}.").body()
        return JSONResponse(body, 422)

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> Response:
        path, method = request.url.path, request.method
        texts = {404: f"there is nothing at {path}.", 405: f"{path} does not accept {method}."}
        text = texts.get(error.status_code, HTTPStatus(error.status_code).phrase)
        body = RefusedError(error.status_code, text).body()
        return JSONResponse(body, error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return JSONResponse(RefusedError(500, UNEXPECTED).body(), 500)


def _serve_predictions(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    free_places = asyncio.Semaphore(settings.tables)

    @app.post(
        "/v1/predict",
        tags=["predict"],
        summary="Classify rows",
        response_model=Answer,
        responses=refusals(400, 408, 413, 415, 422),
    )
    async def predict(request: Request) -> Response:
        """Predict rows from features, or with links if the request has links.

        The predictions have the order of the rows.
        """
        check_content_type(request, "application/json")
        batcher = request.app.state.current.batcher
        batcher.check_room()
        body = await read_body(request, settings.body_bytes, settings.seconds)
        schema, header = batcher.engine.schema, batcher.engine.header
        rows = await _run(len(body), schema.read, body, settings.rows)
        try:
            async with asyncio.timeout(settings.seconds):
                p = await batcher.predict(rows)
        except TimeoutError:
            text = f"no answer within {settings.seconds:g} seconds. Send fewer rows at once."
            raise RefusedError(503, text) from None
        content, with_links = await _run(p.size, answer, header, rows, p)
        metrics.predicted("links", with_links)
        metrics.predicted("features", rows.rows - with_links)
        return Response(content, media_type="application/json")

    @app.post(
        "/v1/predict/table",
        tags=["predict"],
        summary="Classify a table",
        response_class=Response,
        responses={
            200: {
                "description": "The id, label and confidence of each row, and its probabilities.",
                "content": {"text/csv": {}, NDJSON: {}},
            },
            **refusals(400, 408, 413, 415, 422),
        },
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                },
            }
        },
    )
    async def predict_table(
        request: Request,
        name: Annotated[str, Query(description="The file's name; its suffix names the format.")],
    ) -> Response:
        """Predict a Parquet or CSV file with the model's columns.

        With `Accept: application/x-ndjson` the answer is a stream of JSON lines:
        `{"total": ...}`, then `{"done": ..., "csv": ...}`, then `{"end": ...}` or an error.
        """
        engine = request.app.state.current.engine
        suffix = table_suffix(name)
        if free_places.locked():
            text = f"{settings.tables} tables are being predicted. Try again in a minute."
            raise RefusedError(503, text)
        await free_places.acquire()
        with contextlib.ExitStack() as resources:
            resources.callback(free_places.release)
            file = resources.enter_context(NamedTemporaryFile(suffix=suffix))
            await save_body(file, request, settings.file_bytes, settings.seconds)
            table = await asyncio.to_thread(TablePrediction, Path(file.name), name, engine)
            if NDJSON in request.headers.get("accept", ""):
                return Streamed(table.lines(metrics), NDJSON, resources.pop_all())
            output = resources.enter_context(TemporaryFile())
            metrics.predicted("features", await asyncio.to_thread(table.write, output))
            return Streamed(read_in_parts(output), "text/csv", resources.pop_all())


async def _run(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function; in a thread if its work is large, so that other requests do not wait."""
    if size <= SMALL:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


def _serve_model(app: FastAPI, settings: Settings) -> None:
    @app.get(
        "/v1/model",
        tags=["model"],
        summary="Describe the model",
        response_model=ModelInfo,
        responses=refusals(),
    )
    async def model(request: Request) -> Response:
        """Classes, columns, model card, validation scores, and the limits of a request."""
        return JSONResponse(model_info(request.app.state.current, settings))

    @app.get(
        "/v1/model/curve.svg",
        tags=["model"],
        summary="Validation accuracy during training",
        response_class=Response,
        responses={200: {"content": {"image/svg+xml": {}}}, **refusals(404)},
    )
    async def curve(request: Request) -> Response:
        """The training curve as an image."""
        return _file(request, CURVE, "image/svg+xml")

    @app.get(
        "/v1/model/report.html",
        tags=["model"],
        summary="The training report",
        response_class=Response,
        responses={200: {"content": {"text/html": {}}}, **refusals(404)},
    )
    async def report(request: Request) -> Response:
        """The evaluation of the model, with charts."""
        return _file(request, REPORT, "text/html; charset=utf-8")


def _file(request: Request, name: str, media_type: str) -> Response:
    content = request.app.state.current.engine.extras.get(name)
    if content is None:
        raise RefusedError(404, f"the model has no {name}.")
    policy = {"Content-Security-Policy": REPORT_POLICY}
    return Response(content, media_type=media_type, headers=policy)


def _serve_health(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/healthz", tags=["health"], summary="Whether the service runs")
    async def health() -> Status:
        return Status(status="ok")

    @app.get("/readyz", tags=["health"], summary="Whether a model is loaded")
    async def ready(request: Request) -> Status:
        return Status(status=f"serving {request.app.state.current.engine.header.version}")

    @app.get(
        "/metrics",
        tags=["health"],
        summary="Counters for Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **refusals()},
    )
    async def counters() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _serve_page(app: FastAPI) -> None:
    policy = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"}
    for file in (files("linkdist.serve") / "page").iterdir():
        media_type = PAGE_TYPES[Path(file.name).suffix]
        response = Response(file.read_bytes(), media_type=media_type, headers=policy)
        path = "/" if file.name == "index.html" else f"/{file.name}"
        app.router.add_route(path, _constant(response), include_in_schema=False)


def _constant(response: Response) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        return response

    return respond
