"""Services of a model of papers: in this process, in its own process, and in a browser."""

from collections import deque

import pytest
from starlette.testclient import TestClient

from linkdist.artifacts.model_dir import load_model
from linkdist.serve.app import make_app
from linkdist.serve.settings import Settings
from tests.browser import chromium
from tests.serving import serving


@pytest.fixture(scope="module")
def model(papers_model):
    return load_model(papers_model)


@pytest.fixture(scope="session")
def idle():
    """Processes for tables and large requests, which take a second to start."""
    processes = deque()
    yield processes
    for process in processes:
        process.close()


@pytest.fixture
def app(papers_model, idle):
    settings = Settings(str(papers_model), rows=100, body_bytes=20_000, file_bytes=100_000)
    return make_app(settings, idle)


@pytest.fixture
def client(app):
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")  # Playwright runs a loop of its own, which others must not meet
def browser():
    with chromium() as program:
        yield program


@pytest.fixture(scope="module")
def service(browser, papers_model):
    """The address of a service of a model of papers; started only where there is a browser."""
    with serving(papers_model) as started:
        yield started.url


@pytest.fixture
def pages(browser, service):
    """Open the page as often as one likes; nothing may leave the host, nothing may go wrong."""
    contexts, outside, wrong = [], [], []

    def open_page(width=1200, height=900, scheme="light", model=None):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("request", lambda r: None if inside(r.url) else outside.append(r.url))
        page.on("console", lambda m: wrong.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        if model is not None:
            page.route("**/v1/model", lambda route: route.fulfill(json=model))
        page.goto(service)
        page.wait_for_selector("#app:not([hidden])")
        return page

    def inside(url):
        return url.startswith((service, f"blob:{service}"))

    yield open_page
    for context in contexts:
        context.close()
    assert outside == []
    # Chromium itself writes a line for every answer that is an error, and a test may want one.
    assert [text for text in wrong if not text.startswith("Failed to load resource")] == []


@pytest.fixture
def page(pages):
    return pages()
