"""Schemathesis against the service's own OpenAPI document: no 5xx, no undocumented status.

Oracle: the document, with Schemathesis's own checks of statuses, types, headers and bodies.
"""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from linkdist.serve.app import make_app, openapi
from linkdist.serve.settings import Settings

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
    return schemathesis.openapi.from_asgi("/v1/openapi.json", make_app(Settings(str(papers_model))))


@pytest.mark.filterwarnings("ignore")  # of the libraries under it
@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_the_service_does_as_its_document_says(schema, path, method, mode):
    operation = schema[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    def check(case):
        # The document is every model's; what fits this one's columns it cannot say.
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    check()
