"""Schemathesis against the service's own OpenAPI document: no 5xx, no undocumented status.

Oracle: the document, with Schemathesis's own checks of statuses, types, headers and bodies.
"""

import asyncio

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.serve.app import make_app, openapi
from linkdist.serve.settings import Settings
from tests.serve.models import bare
from tests.task_models import RELATIONS, TASKS, about_task, task_model

GOOD, BAD = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
CASES = [
    (path, method, mode)
    for path, found in openapi()["paths"].items()
    for method in found
    for mode in ((GOOD, BAD) if method == "post" else (GOOD,))
]
"""What takes nothing cannot be asked wrongly."""


@pytest.fixture(scope="module")
def schema(papers_model):
    return schemathesis.openapi.from_asgi("/openapi.json", make_app(Settings(str(papers_model))))


@pytest.mark.filterwarnings("ignore")  # of the libraries under it
@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_the_service_does_as_its_document_says(schema, path, method, mode):
    operation = schema[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    def check(case):
        # JSON Schema cannot say which text is a date, nor that links name rows of the request.
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    check()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("mode", [GOOD, BAD])
def test_other_tasks_and_relations_do_as_their_document_says(tmp_path_factory, task, mode):
    folder = tmp_path_factory.mktemp("typed") / "model"
    about = about_task(task, weight="strength")
    save_model(folder, with_onnx(Saved(task_model(task, RELATIONS, directed=True), about=about)))
    app = make_app(Settings(str(folder)))
    operation = schemathesis.openapi.from_asgi("/openapi.json", app)["/v1/predict"]["post"]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    def check(case):
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    check()


def test_the_document_has_the_columns_of_the_served_model(tmp_path, papers_model):
    app = make_app(Settings(str(papers_model))).app
    document = app.openapi()
    body = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"] == {"$ref": "#/components/schemas/Request"}
    schemas = document["components"]["schemas"]
    assert schemas["Request"]["properties"]["rows"]["items"] == {"$ref": "#/components/schemas/Row"}
    row = schemas["Row"]
    assert row["additionalProperties"] is False
    assert set(row["properties"]) == {"title", "venue", "year", "paper", "field"}
    types = {part["type"] for part in row["properties"]["year"]["anyOf"]}
    assert types == {"number", "boolean", "string", "null"}
    with TestClient(app) as client:
        answer = client.post("/v1/predict", json=body["example"])
        assert answer.status_code == 200

    bare(tmp_path / "model")
    app.state.current.directory = tmp_path / "model"
    asyncio.run(app.state.current.check())
    rows = app.openapi()["components"]["schemas"]["Request"]["properties"]["rows"]
    assert (rows["items"]["minItems"], rows["items"]["maxItems"]) == (4, 4)
