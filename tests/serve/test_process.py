"""The service as a process: what travels over a socket, signals, and what it imports."""

import json
import resource
import socket
import subprocess
import sys
import threading

import httpx2
import pytest

from linkdist.cli import serve
from linkdist.errors import OptionError
from tests.serving import serving

BODY = json.dumps({"rows": [{"year": 1974, "title": "photon", "venue": "review"}]}).encode()


@pytest.fixture(scope="module")
def service(papers_model):
    with serving(papers_model) as service:
        yield service


def predict(service, **options):
    return httpx2.post(
        f"{service.url}/v1/predict", content=BODY,
        headers={"content-type": "application/json"}, **options,
    )  # fmt: skip


def sent(service, text, breaks_off=False):
    """What the service answers to bytes on a socket."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        connection.sendall(text)
        if breaks_off:
            connection.shutdown(socket.SHUT_WR)
        return received(connection)


def received(connection):
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def listens(service):
    try:
        socket.create_connection(("127.0.0.1", service.port), timeout=5).close()
    except OSError:
        return False
    return True


def head(length, path="/v1/predict", more=""):
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\n{length}{more}\r\n"
    ).encode()


LENGTH = f"Content-Length: {len(BODY)}\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        head("Content-Length: 99999999999\r\n") + BODY,  # far too much promised
        head("Content-Length: -5\r\n") + BODY,
        head("Content-Length: many\r\n") + BODY,
        head("Transfer-Encoding: chunked\r\n") + b"zz\r\n",
        head(LENGTH).replace(b"close", b"keep-alive") + BODY + b"more than was promised",
        b"nonsense\r\n\r\n",
        b"\0" * 100,
    ],
)
def test_a_request_that_lies_is_told_so_and_harms_nobody(service, request_):
    assert sent(service, request_).startswith(b"HTTP/1.1 4")
    assert predict(service).status_code == 200


@pytest.mark.parametrize(
    "request_",
    [
        head(f"Content-Length: {len(BODY) + 50}\r\n") + BODY,  # less than promised
        head(LENGTH) + BODY[:20],
        head("Transfer-Encoding: chunked\r\n") + b'5\r\n{"row',
        head(LENGTH)[:40],
    ],
)
def test_a_request_that_breaks_off_harms_nobody(service, request_):
    answer = sent(service, request_, breaks_off=True)
    assert not answer or answer.startswith(b"HTTP/1.1 4")
    assert predict(service).status_code == 200


def test_a_million_rows_are_refused_and_the_service_goes_on(service):
    rows = b'{"rows": [' + b'{"year": 1},' * 999_999 + b'{"year": 1}]}'
    answer = httpx2.post(
        f"{service.url}/v1/predict", content=rows, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413
    assert "8,388,608 bytes" in answer.json()["error"]
    assert predict(service).status_code == 200


def test_sigterm_lets_a_request_end(papers_model, papers):
    """A table that is half sent when the signal comes is still predicted."""
    with serving(papers_model) as service:
        content = (papers / "new_nodes.csv").read_bytes()
        path = "/v1/predict/table?name=a.csv"
        connection = socket.create_connection(("127.0.0.1", service.port), timeout=60)
        start = head(f"Content-Length: {len(content)}\r\n", path, "Expect: 100-continue\r\n")
        connection.sendall(start)
        assert connection.recv(100).startswith(b"HTTP/1.1 100")  # it is being read
        ended = threading.Thread(target=service.stop)
        ended.start()
        while listens(service):  # until the signal has arrived
            pass
        with connection:
            connection.sendall(content)
            answer = received(connection)
        ended.join()
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.count(b"\n") > 700


def test_several_workers_answer_and_count_together(papers_model):
    with serving(papers_model, "--workers", "2") as service:
        for _ in range(10):
            assert predict(service, timeout=60).status_code == 200
        text = httpx2.get(f"{service.url}/metrics").text
        assert 'linkdist_rows_total{mode="features"} 10.0' in text
        assert service.stop() in (0, -15)


def test_the_service_imports_no_pytorch():
    code = (
        "import sys, linkdist.serve.app, linkdist.cli.main\n"
        "print([m for m in ('torch', 'sklearn', 'numba', 'onnx') if m in sys.modules])"
    )
    asked = [sys.executable, "-c", code]
    answer = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["nowhere"], "there is no directory"),
        (["MODEL", "--host", "999.1.1.1", "--no-token"], "cannot be listened to"),
        (["MODEL", "--token-file", "nowhere"], "token file"),
    ],
)
def test_a_mistake_is_told_in_plain_words(papers_model, options, words):
    asked = [str(papers_model) if part == "MODEL" else part for part in options]
    program = [sys.executable, "-m", "linkdist.cli.main", "serve"]
    done = subprocess.run([*program, *asked], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("linkdist: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_windows_is_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(OptionError, match="runs on Linux and macOS"):
        serve.serve(model=tmp_path, **vars(serve.Limits()))


@pytest.mark.parametrize(("open_files", "connections"), [(256, 192), (10, 1), (5000, 1000)])
def test_a_limit_of_files_that_cannot_be_raised_bounds_the_connections(
    open_files, connections, monkeypatch
):
    """macOS states that there is no limit, and refuses to have none."""

    def refuse(*_):
        raise ValueError("current limit exceeds maximum limit")

    limits = open_files, resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    assert serve._possible_connections(1000) == connections
