"""The service: what is asked at which address, and what is answered.

    POST /v1/predict          rows as JSON            GET /            the page
    POST /v1/predict/table    a CSV or Parquet file   GET /v1/model    what the model is
    GET  /healthz, /readyz    for who watches it      GET /metrics     for Prometheus

What a request may do is checked before it is read; `Guard` stands around all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from linkdist.artifacts.manifest import CURVE, REPORT
from linkdist.data.graph import FloatArray
from linkdist.serve import schema as schemas
from linkdist.serve.engine import Engine
from linkdist.serve.errors import RefusedError
from linkdist.serve.metrics import Metrics
from linkdist.serve.middleware import Guard, read_token
from linkdist.serve.model_info import described
from linkdist.serve.reload import Current
from linkdist.serve.request_body import check_type, read, read_into
from linkdist.serve.rows import Asked, read_request
from linkdist.serve.schema import refusals
from linkdist.serve.settings import Settings
from linkdist.serve.streaming import Streamed, lines_of, parts_of, write
from linkdist.serve.table_prediction import Predicted, suffix_of

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/favicon.svg": ("favicon.svg", "image/svg+xml"),
}

NDJSON = "application/x-ndjson"


def make() -> Guard:
    """The service that the process's settings describe; what uvicorn calls."""
    return make_app(Settings.published())


def openapi() -> dict[str, Any]:
    """The OpenAPI document, which is the same for every model.

    Examples
    --------
    >>> sorted(openapi()["paths"])[:3]
    ['/healthz', '/metrics', '/readyz']
    """
    return _routes(Settings(""), Metrics()).openapi()


def make_app(settings: Settings) -> Guard:
    """The service for some settings, its model read.

    Raises
    ------
    LinkDistError
        If the model or the token is not good.
    """
    metrics, token = Metrics(), read_token(settings.token_file)
    app = _routes(settings, metrics)
    app.state.current = Current(Path(settings.model), settings.waiting, metrics)
    return Guard(app, token, metrics)


def _routes(settings: Settings, metrics: Metrics) -> FastAPI:
    app = FastAPI(
        title="LinkDist",
        summary="Classify nodes by a model that learnt from a graph's links.",
        version=version("linkdist"),
        docs_url=None,  # its page would come from outside hosts
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        lifespan=_watching,
    )
    _answer_refusals(app)
    _serve_predictions(app, settings, metrics)
    _serve_model(app, settings)
    _serve_health(app, metrics)
    _serve_page(app)
    return app


@contextlib.asynccontextmanager
async def _watching(app: FastAPI) -> AsyncIterator[None]:
    # What was imported stays: looking through it for garbage stops every request for long.
    gc.collect()
    gc.freeze()
    task = asyncio.create_task(app.state.current.watch())
    yield
    task.cancel()


def _answer_refusals(app: FastAPI) -> None:
    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        busy = {"Retry-After": "1"} if error.status == 503 else None
        return JSONResponse(error.body(), error.status, headers=busy)

    @app.exception_handler(RequestValidationError)
    async def misses_something(request: Request, error: RequestValidationError) -> Response:
        found = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
        body = RefusedError(422, f"the address must have all of its parameters; {found}.").body()
        return JSONResponse(body, 422)

    @app.exception_handler(HTTPException)
    async def not_there(request: Request, error: HTTPException) -> Response:
        path, method = request.url.path, request.method
        what = {404: f"there is nothing at {path}.", 405: f"{path} does not take {method}."}
        text = what.get(error.status_code, HTTPStatus(error.status_code).phrase)
        body = RefusedError(error.status_code, text).body()
        return JSONResponse(body, error.status_code, headers=error.headers)


def _serve_predictions(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    busy = asyncio.Semaphore(settings.tables)

    @app.post(
        "/v1/predict",
        tags=["predict"],
        summary="Classify rows",
        response_model=schemas.Answer,
        responses=refusals(400, 408, 413, 415, 422),
        openapi_extra=_body("application/json", schemas.Request.model_json_schema()),
    )
    async def predict(request: Request) -> Response:
        """From features, or with links where rows have some.

        Predictions come in the order of the rows.
        """
        check_type(request, "application/json")
        body = await read(request, settings.body_bytes, settings.seconds)
        batcher = request.app.state.current.batcher
        asked = read_request(body, batcher.engine.header, settings.rows)
        try:
            async with asyncio.timeout(settings.seconds):
                p = await batcher.ask(asked)
        except TimeoutError:
            text = f"no answer within {settings.seconds:g} seconds. Send fewer rows at once."
            raise RefusedError(503, text) from None
        content = _answer(batcher.engine, asked, p, metrics)
        return Response(content, media_type="application/json")

    @app.post(
        "/v1/predict/table",
        tags=["predict"],
        summary="Classify a table",
        response_class=Response,
        responses={
            200: {
                "description": "Predictions: ids, label, confidence, a probability a class.",
                "content": {"text/csv": {}, NDJSON: {}},
            },
            **refusals(400, 408, 413, 415, 422),
        },
        openapi_extra=_body("application/octet-stream", {"type": "string", "format": "binary"}),
    )
    async def predict_table(
        request: Request,
        name: Annotated[str, Query(description="The file's name; its ending says what it is.")],
    ) -> Response:
        """A Parquet or CSV file with the model's columns is the body, its predictions the answer.

        Asked to accept `application/x-ndjson`, the answer is a line a piece, with how far it is:
        `{"total": ...}`, then `{"done": ..., "csv": ...}`, then `{"end": ...}` or an error.
        """
        engine = request.app.state.current.engine
        suffix = suffix_of(name)
        if busy.locked():
            text = f"{settings.tables} tables are being predicted. Try again in a minute."
            raise RefusedError(503, text)
        await busy.acquire()
        with contextlib.ExitStack() as after:
            after.callback(busy.release)
            file = after.enter_context(NamedTemporaryFile(suffix=suffix))
            await read_into(file, request, settings.file_bytes, settings.seconds)
            table = await asyncio.to_thread(Predicted, Path(file.name), name, engine)
            if NDJSON in request.headers.get("accept", ""):
                return Streamed(lines_of(table, metrics), NDJSON, after.pop_all())
            whole = after.enter_context(TemporaryFile())
            metrics.predicted("features", await asyncio.to_thread(write, table, whole))
            return Streamed(parts_of(whole), "text/csv", after.pop_all())


def _serve_model(app: FastAPI, settings: Settings) -> None:
    @app.get(
        "/v1/model",
        tags=["model"],
        summary="What the model is",
        response_model=schemas.About,
        responses=refusals(),
    )
    async def model(request: Request) -> Response:
        """Classes, columns, card, held-out scores, and the limits of a request."""
        return JSONResponse(described(request.app.state.current, settings))

    @app.get(
        "/v1/model/curve.svg",
        tags=["model"],
        summary="Held-out accuracy in training",
        response_class=Response,
        responses={200: {"content": {"image/svg+xml": {}}}, **refusals(404)},
    )
    async def curve(request: Request) -> Response:
        """The curve of the training, as a picture."""
        return _file(request, CURVE, "image/svg+xml")

    @app.get(
        "/v1/model/report.html",
        tags=["model"],
        summary="The training's report",
        response_class=Response,
        responses={200: {"content": {"text/html": {}}}, **refusals(404)},
    )
    async def report(request: Request) -> Response:
        """What the held-out nodes showed, with plots."""
        return _file(request, REPORT, "text/html; charset=utf-8")


def _file(request: Request, name: str, kind: str) -> Response:
    content = request.app.state.current.engine.extras.get(name)
    if content is None:
        raise RefusedError(404, f"the model has no {name}.")
    return Response(content, media_type=kind, headers={"Content-Security-Policy": REPORT_POLICY})


def _serve_health(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/healthz", tags=["health"], summary="Whether the service lives")
    async def health() -> schemas.Status:
        return schemas.Status(status="ok")

    @app.get("/readyz", tags=["health"], summary="Whether a model is ready")
    async def ready(request: Request) -> schemas.Status:
        return schemas.Status(status=f"serving {request.app.state.current.engine.header.version}")

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
    folder = files("linkdist.serve") / "page"
    policy = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"}
    for path, (name, kind) in PAGE.items():
        page = Response((folder / name).read_bytes(), media_type=kind, headers=policy)
        app.router.add_route(path, _always(page), include_in_schema=False)


def _always(page: Response) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return page

    return answer


def _answer(engine: Engine, asked: Asked, p: FloatArray, metrics: Metrics) -> bytes:
    classes = engine.header.classes
    linked = set(asked.links.ravel().tolist())
    predictions = []
    for place, row in enumerate(p.tolist()):
        shares = {name: round(share, 6) for name, share in zip(classes, row, strict=True)}
        label = max(shares, key=shares.__getitem__)
        predictions.append(
            {
                "label": label,
                "confidence": shares[label],
                "probabilities": shares,
                "mode": "links" if place in linked else "features",
            }
        )
    with_links = sum(place in linked for place in range(asked.rows))
    metrics.predicted("links", with_links)
    metrics.predicted("features", asked.rows - with_links)
    return json.dumps({"version": engine.header.version, "predictions": predictions}).encode()


def _body(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}
