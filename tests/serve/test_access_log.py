"""The access log. Oracle: what was sent and answered."""

import asyncio
import logging
import re

import pytest
from starlette.testclient import TestClient

from linkdist.serve.access_log import AccessLog
from linkdist.serve.app import make_app
from linkdist.serve.settings import Settings
from tests.serve.models import ask

TOKEN = "a-token-of-many-letters"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (\S+) ([A-Z]+) (\S+) (\d+|-) (\d+)B \d+\.\dms")


@pytest.fixture
def lines():
    """What is logged."""
    found, log = [], logging.getLogger("linkdist.access")
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())
    log.addHandler(handler)
    yield found
    log.removeHandler(handler)


@pytest.fixture
def logged(papers_model, tmp_path, lines):
    (tmp_path / "token").write_text(TOKEN)
    settings = Settings(str(papers_model), str(tmp_path / "token"), access_log=True)
    with TestClient(make_app(settings), raise_server_exceptions=False) as client:
        yield client


def parts(line):
    found = LINE.fullmatch(line)
    assert found, line
    return found.groups()


def test_a_request_is_a_line(logged, lines):
    logged.headers["authorization"] = f"Bearer {TOKEN}"
    answer = ask(logged)
    table = logged.post("/v1/predict/table?name=x.txt", content=b"secret")
    page = logged.get("/docs")
    sizes = [str(len(one.content)) for one in (answer, table, page)]
    assert [parts(line)[1:] for line in lines] == [
        ("POST", "/v1/predict", "200", sizes[0]),
        ("POST", "/v1/predict/table", "415", sizes[1]),
        ("GET", "/docs", "200", sizes[2]),
    ]


def test_no_line_shows_a_row_a_token_or_what_a_client_made_up(logged, lines):
    secret = f"?token={TOKEN}&row=SECRET"
    logged.get(f"/v1/model{secret}", headers={"authorization": f"Bearer {TOKEN}"})
    logged.get(f"/nothing/SECRET%0A127.0.0.1{secret}", headers={"authorization": f"Bearer {TOKEN}"})
    logged.get(f"/v1/model{secret}", headers={"authorization": f"Bearer {TOKEN}SECRET"})
    logged.request("SECRET", "/healthz")
    logged.get("/page.css%0A", headers={"authorization": f"Bearer {TOKEN}"})
    ask(logged, [{"title": "SECRET"}])
    assert [parts(line)[1:4] for line in lines] == [
        ("GET", "/v1/model", "200"),
        ("GET", "other", "404"),
        ("GET", "other", "401"),
        ("OTHER", "/healthz", "405"),
        ("GET", "/page.css", "200"),
        ("POST", "other", "401"),
    ]
    text = "\n".join(lines)
    assert TOKEN not in text
    assert "SECRET" not in text


@pytest.mark.parametrize(
    ("client", "shown"),
    [
        (("10.0.0.7", 1), "10.0.0.7"),
        (("2001:db8::1", 1), "2001:db8::1"),
        (("fe80::1%a\nb", 1), "fe80::1"),
        (("x\n127.0.0.1 GET / 200", 1), "-"),
        (("testclient", 1), "-"),
        (None, "-"),
    ],
)
def test_a_client_is_an_address_or_nothing(client, shown, lines):
    async def leaves(scope, receive, send):
        raise RuntimeError("the client has gone")

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": client}
    with pytest.raises(RuntimeError):
        asyncio.run(AccessLog(leaves)(scope, None, None))
    (line,) = lines
    assert parts(line) == (shown, "GET", "other", "-", "0")


def test_there_is_no_log_unless_it_is_asked_for(papers_model, lines):
    with TestClient(make_app(Settings(str(papers_model)))) as client:
        assert client.get("/healthz").status_code == 200
    assert lines == []
