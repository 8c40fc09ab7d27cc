"""docs/serving.md says what is so: its requests, sent to the service, get its answers.

Oracle: the page. A model of three epochs knows less than the page's, so labels and numbers differ;
names, modes and refusals do not.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from linkdist.serve.settings import Settings
from tests.serve.test_access_log import LINE as ACCESS
from tests.serving import serving

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/serving.md").read_text()
PAPERS = ROOT / "examples/papers"


@pytest.fixture(scope="module")
def address(papers_model):
    with serving(papers_model) as service:
        yield service.url


def asked(address, body, kind="application/json"):
    request = Request(address, body, {"Content-Type": kind})
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def shape(value):
    """The names in an answer, without what differs from model to model."""
    if isinstance(value, dict):
        return {name: part if name == "mode" else shape(part) for name, part in value.items()}
    return [shape(part) for part in value] if isinstance(value, list) else type(value).__name__


def examples():
    blocks = re.findall(r"```json\n(.*?)```", PAGE, flags=re.S)
    return list(zip(blocks[::2], map(json.loads, blocks[1::2]), strict=True))


@pytest.mark.parametrize(("sent", "shown"), examples())
def test_a_request_gets_the_answer_that_the_page_shows(address, sent, shown):
    status, text = asked(f"{address}/v1/predict", sent.encode())
    found = json.loads(text)
    if "error" in shown:
        assert (status, found) == (422, shown)
    else:
        assert (status, shape(found)) == (200, shape(shown))
        assert found.get("notices") == shown.get("notices")


def test_a_file_gets_a_table(address):
    (path,) = re.findall(r"127\.0\.0\.1:8000(/v1/predict/table\S+?)'", PAGE)
    file = (PAPERS / "new_nodes.csv").read_bytes()
    status, text = asked(address + path, file, "application/octet-stream")
    head, *rows = text.splitlines()
    assert (status, len(rows)) == (200, len(file.splitlines()) - 1)
    assert head.replace('"', "").split(",")[:3] == ["paper", "label", "confidence"]


def test_the_commands_that_send_files_do_so(address, tmp_path):
    """Each command of the page, run in a folder with the tables of the example."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    commands = re.findall(r"^curl .*/v1/predict/table.*$", PAGE, flags=re.M)
    assert [("-F file=" in one, "-F links=" in one) for one in commands] == [
        (True, False), (True, True), (False, False)
    ]  # fmt: skip
    for name in ("nodes.csv", "links.csv"):
        (tmp_path / name).symlink_to(PAPERS / name)
    answers = []
    for command in commands:
        line = command.replace("http://127.0.0.1:8000", address)
        subprocess.run(
            line, shell=True, check=True, cwd=tmp_path, env={**os.environ, "no_proxy": "*"}
        )
        answers.append((tmp_path / "predictions.csv").read_text().splitlines())
    form, linked, plain = answers
    assert form == plain
    assert linked[0] == plain[0]
    assert len(linked) == len(plain) == len((PAPERS / "nodes.csv").read_text().splitlines())
    assert linked != plain


def test_the_lines_of_the_access_log_are_as_shown():
    lines = re.search(r"```text\n(.*?)```", PAGE.partition("## Access log")[2], flags=re.S)[1]
    for line in lines.splitlines():
        assert ACCESS.fullmatch(line), line


def test_the_addresses_are_there(address):
    paths = ("/", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics", "/v1/model")
    for path in paths:
        assert f"`{path}`" in PAGE or path == "/"
        with urlopen(address + path, timeout=60) as answer:
            assert answer.status == 200


def test_the_limits_are_those_of_the_service():
    limits = Settings("")
    told = re.findall(r"^\| (?:rows and|bytes of|seconds for).*\| (.*) \|$", PAGE, flags=re.M)
    sizes = [f"{size >> 20} MiB" for size in (limits.body_bytes, limits.file_bytes)]
    assert told == [f"{limits.rows:,}", *sizes, f"{limits.seconds:g}"]
