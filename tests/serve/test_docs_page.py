"""The HTTP reference in a real browser.

Oracles: the OpenAPI document, and curl, which runs the lines that the page shows.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest
from starlette.testclient import TestClient

from linkdist.serve.app import PAGE_POLICY, make_app
from linkdist.serve.settings import Settings
from tests.serve.models import of_all_kinds
from tests.serve.test_page import keep

NEW = Path(__file__).parents[2] / "examples" / "papers" / "new_nodes.csv"


@pytest.fixture
def document(service):
    with urlopen(f"{service}/openapi.json") as answer:
        return json.load(answer)


@pytest.fixture
def docs(pages, service):
    def open_page(width=1200, scheme="light", document=None):
        page = pages(width, scheme=scheme)
        if document is not None:
            page.route("**/openapi.json", lambda route: route.fulfill(json=document))
        page.goto(f"{service}/docs")
        page.wait_for_selector("#app:not([hidden])")
        return page

    return open_page


def trial(page, method, path):
    return page.get_by_role("form", name=f"Try {method} {path}", exact=True)


def sent(form):
    """Send the request; gives the words about the answer and its text."""
    form.get_by_role("button", name="Send").click()
    form.locator("[role=status]", has_text="Status ").wait_for()
    return form.get_by_role("status").inner_text(), form.locator(".answer").text_content()


def curl(form, folder=None, **variables):
    """What curl gets with the line that is shown."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    line = form.locator(".line").text_content()
    environment = {**os.environ, **variables, "no_proxy": "*"}
    done = subprocess.run(
        ["sh", "-c", f"{line} -s -S"], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_operation_and_column_is_there(docs, document):
    page = docs()
    shown = page.locator("h3:has(.badge)").all_inner_texts()
    assert [text.split() for text in shown] == [
        [method.upper(), path] for path, item in document["paths"].items() for method in item
    ]
    fields = page.locator("section[aria-labelledby='schema-Row'] th[scope=row]").all_inner_texts()
    assert fields == list(document["components"]["schemas"]["Row"]["properties"])
    names = page.locator(":is(h3, h5)[id^='schema-']").all_inner_texts()
    assert sorted(names) == sorted(document["components"]["schemas"])
    targets = page.locator("main a, #contents a").evaluate_all(
        "all => all.map(a => [a.hash, document.getElementById(a.hash.slice(1)) !== null])"
    )
    assert all(exists for _, exists in targets), targets
    assert page.evaluate("new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size") == (
        page.locator("[id]").count()
    )


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/explain"])
def test_the_example_of_rows_is_sent_by_the_button_and_by_curl(docs, document, path):
    form = trial(docs(), "POST", path)
    words, text = sent(form)
    assert words.startswith("Status 200, application/json")
    assert json.loads(text) == json.loads(curl(form))
    body = form.get_by_label("Body")
    content = document["paths"][path]["post"]["requestBody"]["content"]
    assert json.loads(body.input_value()) == content["application/json"]["example"]
    body.fill('{"rows": [{"title": "it\'s \\"so\\" $HOME `id`", "year": 1985}]}')
    words, text = sent(form)
    assert words.startswith("Status 200")
    assert json.loads(text) == json.loads(curl(form))
    body.fill("{")
    words, text = sent(form)
    assert words.startswith("Status 400")
    assert "must be JSON" in text


def test_a_table_is_sent_as_text_and_as_a_form(docs, service, tmp_path):
    page = docs()
    form = trial(page, "POST", "/v1/predict/table")
    words, text = sent(form)
    assert words.startswith("Status 200, text/csv")
    assert text.splitlines()[0].startswith('"paper","label","confidence"')
    assert text == curl(form)
    form.get_by_label("Content type").select_option("multipart/form-data")
    form.get_by_label("file").set_input_files(NEW)
    words, text = sent(form)
    assert words.startswith("Status 200, text/csv")
    whole = curl(form, NEW.parent)
    assert text.startswith(whole[:20_000])
    assert len(whole.splitlines()) == len(NEW.read_text().splitlines())
    assert "the first 20,000 characters" in text
    keep(page, "docs-sent")


def test_what_takes_nothing_is_answered(docs, document):
    page = docs()
    for path, item in document["paths"].items():
        if "get" not in item or path == "/v1/model/report.html":
            continue
        form = trial(page, "GET", path)
        words, text = sent(form)
        assert words.startswith("Status 200")
        if path == "/readyz":
            assert json.loads(text) == json.loads(curl(form))
    page.route("**/healthz", lambda route: route.abort())
    form = trial(page, "GET", "/healthz")
    form.get_by_role("button", name="Send").click()
    form.get_by_text("The service does not answer.").wait_for()


def test_what_a_document_says_stays_text(docs, document):
    bad = "<img src=x onerror=alert(1)>'; touch hacked; '"
    row = document["components"]["schemas"]["Row"]["properties"]
    row[bad] = {"type": "string", "description": bad, "enum": [bad]}
    document["info"]["title"] = bad
    predict = document["paths"]["/v1/predict"]["post"]
    predict |= {"summary": bad, "description": bad}
    predict["requestBody"]["content"]["application/json"]["example"] = {"rows": [{bad: 1}]}
    page = docs(document=document)
    assert page.locator("img[onerror]").count() == 0
    assert page.locator("#name").inner_text() == bad
    form = trial(page, "POST", "/v1/predict")
    assert json.loads(curl(form))["error"].startswith('unknown column "<img')


def test_a_phone_needs_no_scrolling_to_the_side(docs, document):
    long = "a_column_with_a_name_that_no_phone_is_wide_enough_for_" * 2
    document["components"]["schemas"]["Row"]["properties"][long] = {"type": "string"}
    page = docs(360, "dark", document)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    keep(page, "docs-phone")


def test_the_keyboard_reaches_what_is_there(docs):
    page = docs()
    seen = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.getAttribute('href')"))
    assert {".", "openapi.json", "#post-v1-predict", "#get-healthz"} <= seen
    form = trial(page, "GET", "/readyz")
    form.get_by_role("button", name="Send").focus()
    page.keyboard.press("Enter")
    form.locator(".answer").wait_for()


# The document -------------------------------------------------------------------------------------


def test_the_reference_and_the_document_have_addresses(client):
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"] == PAGE_POLICY
    document = client.get("/openapi.json").json()
    assert client.get("/v1/openapi.json").json() == document
    assert not any("openapi" in path for path in document["paths"])
    assert "security" not in document


def test_the_example_of_a_table_is_answered(client, tmp_path, idle):
    of_all_kinds(tmp_path / "films")
    with TestClient(make_app(Settings(str(tmp_path / "films")), idle)) as films:
        for one, id in ((client, "paper"), (films, "node")):
            operation = one.get("/openapi.json").json()["paths"]["/v1/predict/table"]["post"]
            example = operation["requestBody"]["content"]["application/octet-stream"]["example"]
            name = operation["parameters"][0]["example"]
            query = {"name": name}
            answer = one.post("/v1/predict/table", params=query, content=example.encode())
            assert answer.status_code == 200, answer.text
            head, *rows = answer.text.splitlines()
            assert (head.split(",")[0], len(rows)) == (f'"{id}"', 2)


def test_a_token_is_part_of_the_document(papers_model, tmp_path):
    (tmp_path / "token").write_text("a token of many letters")
    app = make_app(Settings(str(papers_model), token_file=str(tmp_path / "token")))
    sent = {"authorization": "Bearer a token of many letters"}
    with TestClient(app) as client:
        document = client.get("/openapi.json", headers=sent).json()
    (name,) = document["security"][0]
    assert document["components"]["securitySchemes"][name]["scheme"] == "bearer"
    free = [
        path
        for path, item in document["paths"].items()
        if item.get("get", {}).get("security") == []
    ]
    assert free == ["/healthz", "/readyz"]
