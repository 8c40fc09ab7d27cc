"""The token."""

import base64

import pytest
from starlette.testclient import TestClient

from linkdist.errors import OptionError
from linkdist.serve.app import make_app
from linkdist.serve.settings import Settings


@pytest.fixture
def locked(papers_model, tmp_path):
    (tmp_path / "token").write_text("a token of many letters\n")
    app = make_app(Settings(str(papers_model), token_file=str(tmp_path / "token")))
    with TestClient(app) as client:
        yield client


def basic(password):
    return "Basic " + base64.b64encode(f"anyone:{password}".encode()).decode()


@pytest.mark.parametrize("sent", [
    None, "", "Bearer", "Bearer no", "a token of many letters", basic("no"), "Basic !!", "Basic",
    "Bearer a token of many letter", "Bearer a token of many letterss",
])  # fmt: skip
@pytest.mark.parametrize(
    "path", ["/", "/v1/model", "/metrics", "/docs", "/openapi.json", "/v1/openapi.json", "/nothing"]
)
def test_without_the_token_nothing_but_health_is_answered(locked, sent, path):
    headers = {} if sent is None else {"authorization": sent}
    answer = locked.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert "token" in answer.json()["error"]
    assert locked.get("/healthz").status_code == locked.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    "sent", ["Bearer a token of many letters", basic("a token of many letters")]
)
def test_the_token_opens(locked, sent):
    assert locked.get("/v1/model", headers={"authorization": sent}).status_code == 200


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 30, "ümläut".encode() * 9])
def test_a_token_that_is_none_is_refused(papers_model, tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(OptionError, match="token"):
        make_app(Settings(str(papers_model), token_file=str(tmp_path / "token")))
