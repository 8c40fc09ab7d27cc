"""A real Chromium for tests, found on this machine and driven by Playwright."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
"""Nothing of Chromium's own goes over the network."""


@contextmanager
def chromium():
    """A headless Chromium; without one, or without Playwright, the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.skip(f"no Chromium on the PATH; looked for {', '.join(PROGRAMS)}")
    with playwright.sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=found, args=QUIET)
        yield program
        program.close()
