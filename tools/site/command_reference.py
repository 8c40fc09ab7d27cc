"""The site's hook that writes the command-line reference from the program itself."""

from __future__ import annotations

import re
import subprocess
import sys

from mkdocs.structure.pages import Page

PAGE, PLACE = "commands.md", "<!-- commands -->"


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Put the commands where the page leaves a place for them."""
    return markdown.replace(PLACE, commands()) if page.file.src_uri == PAGE else markdown


def commands() -> str:
    """Every command with its arguments and options, as Typer tells them."""
    ask = [sys.executable, "-m", "typer", "linkdist.cli.main", "utils", "docs"]
    ask += ["--name", "linkdist"]
    said = subprocess.run(ask, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    _, sections = re.split(r"^(?=## )", said, maxsplit=1, flags=re.M)
    always = r"^\* `--help`: .*\n"
    return re.sub(r"\*\*Options\*\*:\n\n(?!\*)", "", re.sub(always, "", sections, flags=re.M))
