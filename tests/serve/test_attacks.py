"""Attacks on a running service: each is refused or bounded, and others are answered meanwhile.

The numbers are those of the table in docs/security.md. All traffic stays on this machine.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

import httpx2
import pyarrow as pa
import pyarrow.parquet
import pytest

from linkdist.artifacts.manifest import digest_of
from tests.serve.models import vectors
from tests.serving import serving

SERVE = [sys.executable, "-m", "linkdist.cli.main", "serve"]
BODY = json.dumps({"rows": [{"year": 1974, "title": "photon", "venue": "review"}]}).encode()
TABLE = "/v1/predict/table?name={}"
CONNECTIONS, SPOOL_MIB = 40, 16
LIMITS = [
    "--connections", str(CONNECTIONS), "--header-seconds", "2", "--max-spool", str(SPOOL_MIB),
    "--tables", "1", "--table-rows", "300000", "--memory", "256",
]  # fmt: skip


@pytest.fixture(scope="module")
def service(papers_model):
    with serving(papers_model, *LIMITS) as service:
        yield service


@pytest.fixture(autouse=True)
def still_answers(request):
    """After every attack the service that it was made on predicts."""
    yield
    if "service" in request.fixturenames:
        assert predict(request.getfixturevalue("service")).status_code == 200


def predict(service, **options):
    headers = {"content-type": "application/json"}
    return httpx2.post(f"{service.url}/v1/predict", content=BODY, headers=headers, **options)


def is_healthy(service):
    return httpx2.get(f"{service.url}/healthz", timeout=5).status_code == 200


def connect(service):
    return socket.create_connection(("127.0.0.1", service.port), timeout=30)


def head(path="/v1/predict", length=0, more=""):
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n{more}\r\n"
    ).encode()


def received(connection):
    """All that comes until the service closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def parquet(columns, path, **options):
    pyarrow.parquet.write_table(pa.table(columns), path, compression="zstd", **options)
    return path.read_bytes()


@pytest.fixture(scope="module")
def bomb(tmp_path_factory):
    """3: a few kilobytes, whose one title of 2 MB is repeated 4,000 times."""
    n, title = 4000, pa.array(["a" * 2_000_000])
    titles = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), title)
    columns = {"paper": pa.array(range(n)), "title": titles, "venue": ["x"] * n, "year": [1.0] * n}
    content = parquet(columns, tmp_path_factory.mktemp("bomb") / "bomb.parquet")
    assert len(content) < 40_000
    return content


@pytest.fixture(scope="module")
def service_of_many_classes(tmp_path_factory):
    """A service whose answers have 1,000 probabilities for each row."""
    model = vectors(tmp_path_factory.mktemp("classes") / "model", [str(k) for k in range(1000)])
    with serving(model, "--tables", "1") as service:
        yield service


@pytest.fixture(scope="module")
def long_table(tmp_path_factory):
    """A table whose predictions are more than sockets hold, 20 MB."""
    columns = {"node": range(2000), "v": [[1.0, 2.0, 3.0]] * 2000}
    return parquet(columns, tmp_path_factory.mktemp("long") / "long.parquet")


SMALL = b'{"node": 1, "v": [1.0, 2.0, 3.0]}\n'


def small_table(service):
    return httpx2.post(service.url + TABLE.format("a.jsonl"), content=SMALL, timeout=30)


def test_3_unknown_columns_keep_nobody_waiting(service):
    names = {f"column {k:x} of a request": 1 for k in range(100_000)}
    body = json.dumps({"rows": [names]}).encode()
    with connect(service) as attacker:
        attacker.sendall(head(length=len(body), more="Connection: close\r\n") + body)
        assert is_healthy(service)
        assert predict(service).status_code == 200
        answer = received(attacker)
    assert answer.startswith(b"HTTP/1.1 422")
    assert b"there are 100,000 unknown columns in all" in answer


@pytest.mark.parametrize("accept", ["text/csv", "application/x-ndjson"])
def test_4_a_table_that_grows_beyond_its_memory_is_refused(service, bomb, accept):
    answer = httpx2.post(
        service.url + TABLE.format("bomb.parquet"), content=bomb, headers={"accept": accept},
        timeout=60,
    )  # fmt: skip
    told = json.loads(answer.text.splitlines()[-1])["error"]
    assert "256 MiB" in told
    assert answer.status_code in (200, 413)
    assert answer.status_code == 413 or accept != "text/csv"


def test_5_a_table_with_too_many_rows_is_refused_before_it_is_read(service, tmp_path):
    n = 300_001
    columns = {"paper": [7] * n, "title": ["x"] * n, "venue": ["x"] * n, "year": [1.0] * n}
    content = parquet(columns, tmp_path / "rows.parquet")
    answer = httpx2.post(service.url + TABLE.format("a.parquet"), content=content, timeout=60)
    assert answer.status_code == 413
    assert "may have 300,000 rows; found 300,001" in answer.json()["error"]


@pytest.mark.parametrize("more", ["", "Accept: application/x-ndjson\r\n"])
def test_5_work_ends_when_the_client_leaves(service_of_many_classes, tmp_path, more):
    """Half a million rows would take minutes; the next table is predicted after seconds."""
    n = 500_000
    endless = parquet({"node": range(n), "v": [[1.0, 2.0, 3.0]] * n}, tmp_path / "a.parquet")
    with connect(service_of_many_classes) as attacker:
        attacker.sendall(head(TABLE.format("a.parquet"), len(endless), more) + endless)
        if more:
            assert attacker.recv(12) == b"HTTP/1.1 200"  # it has begun
    assert small_table(service_of_many_classes).status_code == 200


@pytest.mark.parametrize("more", ["", "Accept: application/x-ndjson\r\n"])
def test_5_clients_that_do_not_read_hold_up_nobody(service_of_many_classes, long_table, more):
    with socket.socket() as attacker:
        attacker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        attacker.settimeout(60)
        attacker.connect(("127.0.0.1", service_of_many_classes.port))
        attacker.sendall(head(TABLE.format("a.parquet"), len(long_table), more) + long_table)
        assert attacker.recv(12) == b"HTTP/1.1 200"
        assert small_table(service_of_many_classes).status_code == 200


def test_5_clients_that_send_slowly_hold_up_nobody(service_of_many_classes):
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            attacker = stack.enter_context(connect(service_of_many_classes))
            attacker.sendall(head(TABLE.format("a.csv"), 1000) + b"node,v\n")
        assert small_table(service_of_many_classes).status_code == 200


@pytest.mark.parametrize(
    "start",
    [b"", b"POST /v1/predict HTTP/1.1\r\nHost: ", head(length=100) + b"{", b"GET /healthz"],
    ids=["nothing", "half a header", "half a body", "half a line"],
)
def test_6_half_sent_requests_keep_nobody_out(service, start):
    with contextlib.ExitStack() as stack:
        for _ in range(3 * CONNECTIONS):
            attacker = stack.enter_context(connect(service))
            attacker.sendall(start)
        assert is_healthy(service)
        assert predict(service).status_code == 200


def test_6_headers_that_do_not_arrive_are_given_up(service):
    with connect(service) as attacker:
        attacker.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        assert received(attacker).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("line", [b"A: " + b"a" * 997 + b"\r\n", b"a" * 1000], ids=["many", "one"])
def test_6_headers_are_limited_in_size(service, line):
    sent = 0
    with connect(service) as attacker, contextlib.suppress(ConnectionError):
        attacker.sendall(b"GET /healthz HTTP/1.1\r\n" + b"Host: localhost\r\nB: ")
        for _ in range(20_000):
            attacker.sendall(line)
            sent += len(line)
    assert sent < 10_000_000


def test_6_requests_that_are_sent_ahead_are_limited(service):
    ahead = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20_000
    with connect(service) as attacker, contextlib.suppress(ConnectionError):
        attacker.sendall(ahead)
        assert received(attacker).count(b"HTTP/1.1 200") < 1000


def test_6_unfinished_bodies_are_limited_in_total(service):
    part = b'{"rows": [' + b" " * (1 << 20)
    with contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(connect(service)) for _ in range(2 * SPOOL_MIB)]
        for attacker in attackers:
            with contextlib.suppress(ConnectionError):
                attacker.sendall(head(length=8 << 20) + part)
        readable, _, _ = select.select(attackers, [], [], 30)
        assert readable[0].recv(12) == b"HTTP/1.1 503"
        assert predict(service).status_code == 200


def test_13_an_answer_with_too_many_probabilities_is_refused(service_of_many_classes):
    body = {"rows": [{"v": [1, 2, 3]}] * 1001}
    answer = httpx2.post(f"{service_of_many_classes.url}/v1/predict", json=body, timeout=30)
    assert answer.status_code == 413
    assert "1,001,000 probabilities; an answer may have 1,000,000" in answer.json()["error"]
    body["rows"].pop()
    path = f"{service_of_many_classes.url}/v1/predict"
    with httpx2.stream("POST", path, json=body, timeout=60) as answer:
        assert is_healthy(service_of_many_classes)
        assert len(json.loads(answer.read())["predictions"]) == 1000


def test_11_a_model_that_cannot_run_ends_the_service(broken_model):
    asked = [*SERVE, str(broken_model), "--port", "0", "--workers", "2"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("linkdist: ")
    assert "does not run" in done.stderr or "is not an ONNX file" in done.stderr


@pytest.fixture
def broken_model(tmp_path):
    """A model whose ONNX file has the digest of the manifest and is none."""
    path = vectors(tmp_path / "model")
    header = json.loads((path / "model.json").read_text())
    (path / "model.onnx").write_bytes(b"not a network")
    header["digests"]["model.onnx"] = digest_of(b"not a network")
    (path / "model.json").write_text(json.dumps(header))
    return path


def test_21_a_closed_terminal_ends_the_service_after_its_requests(papers_model, papers):
    content = (papers / "new_nodes.csv").read_bytes()
    with serving(papers_model) as service, connect(service) as client:
        asked = head(TABLE.format("a.csv"), len(content), "Expect: 100-continue\r\n")
        client.sendall(asked)
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        service.process.send_signal(signal.SIGHUP)
        while is_listening(service):  # until the signal has arrived
            pass
        client.sendall(content)
        assert received(client).startswith(b"HTTP/1.1 200")
        assert service.process.wait(timeout=30) in (0, -signal.SIGTERM)


def test_21_workers_end_with_their_parent(papers_model):
    with serving(papers_model, "--workers", "2") as service:
        assert predict(service, timeout=60).status_code == 200
        os.kill(service.process.pid, signal.SIGKILL)
        started = time.monotonic()
        while is_listening(service):
            assert time.monotonic() - started < 30


def is_listening(service):
    try:
        connect(service).close()
    except OSError:
        return False
    return True


def test_22_others_do_not_get_in_without_a_token(papers_model):
    asked = [*SERVE, str(papers_model), "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--token-file" in done.stderr
    assert "--no-token" in done.stderr
