"""The site is built without a warning, holds together, and loads nothing from elsewhere.

Oracles: the nav of mkdocs.yml; every link and anchor of every page, followed; a second build on
another day, byte for byte; the program's own list of commands.
"""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools" / "site"))
LOADS = {
    **{"script": ["src"], "link": ["href"], "img": ["src", "srcset"], "iframe": ["src"]},
    **{"source": ["src", "srcset"], "audio": ["src"], "video": ["src", "poster"]},
    **{"embed": ["src"], "object": ["data"], "image": ["href"], "use": ["href"]},
}
"""What a browser fetches by itself; a link that a reader may click is no such thing."""


class Page(HTMLParser):
    """What a page names: its anchors, its links, what it loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads, self.classes = set(), [], [], set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.classes |= set(values.get("class", "").split())
        self.loads += [values[name] for name in LOADS.get(tag, ()) if name in values]
        self.links += [values["href"]] if tag == "a" and "href" in values else []


def start(folder, day):
    environment = {
        **os.environ,
        **{"SOURCE_DATE_EPOCH": str(day * 86400), "PYTHONHASHSEED": str(day)},
        **{"NO_MKDOCS_2_WARNING": "1", "GIT_DIR": str(folder / "none")},
    }
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stderr=subprocess.PIPE, encoding="utf-8"
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site, twice."""
    folders = [tmp_path_factory.mktemp(f"site{day}") for day in (1, 20000)]
    runs = [start(folder, day) for folder, day in zip(folders, (1, 20000), strict=True)]
    for run in runs:
        _, said = run.communicate(timeout=300)
        assert run.returncode == 0, said
        assert "WARNING" not in said
    return folders


@pytest.fixture(scope="module")
def pages(built):
    return {path: Page(path) for path in sorted(built[0].rglob("*.html"))}


def nav(entries):
    for entry in entries:
        for place in entry.values():
            yield from [place] if isinstance(place, str) else nav(place)


def test_every_page_of_the_nav_is_there(built):
    listed = list(nav(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert [name for name in listed if not (built[0] / name).with_suffix(".html").exists()] == []


def test_every_link_and_anchor_leads_somewhere(built, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            to = urlsplit(link)
            if to.scheme or to.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            there = target.exists() and target.is_relative_to(built[0])
            if not there or (to.fragment and unquote(to.fragment) not in pages[target].anchors):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_nothing_comes_from_another_host(built, pages):
    for path, page in pages.items():
        outside = [load for load in page.loads if re.match(r"\s*(\w+:)?//", load)]
        assert outside == [], path
        assert not page.classes & {"mermaid", "md-source"}, "the theme would fetch for these"
        text = path.read_text("utf-8")
        assert not re.search(r"(@import|url\()\s*[\"']?\s*(https?:)?//", text), path
    for path in built[0].rglob("*.css"):
        found = re.findall(
            r"(?:@import|url\()\s*[\"']?\s*(?:https?:)?//\S+", path.read_text("utf-8")
        )
        assert found == [], path


def test_a_later_build_is_the_same(built):
    one, two = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in built
    )
    assert [str(name) for name in one.keys() | two.keys() if one.get(name) != two.get(name)] == []


def test_nothing_of_this_machine_is_in_it(built):
    for path in built[0].rglob("*.html"):
        assert str(ROOT) not in path.read_text("utf-8"), path


def test_every_command_and_name_has_its_section(pages, built):
    from typer.main import get_command

    import linkdist
    from linkdist.cli.main import app

    said = (built[0] / "commands.html").read_text("utf-8")
    assert [name for name in get_command(app).commands if f"linkdist {name}</" not in said] == []
    anchors = pages[built[0] / "python.html"].anchors
    assert [name for name in linkdist.__all__ if f"linkdist.{name}" not in anchors] == []


def test_the_http_reference_tells_paths_bodies_and_schemas():
    from http_reference import reference

    row = {
        "description": "A node.",
        "required": ["year"],
        "properties": {
            "year": {"type": ["number", "null"], "description": "When | where."},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Row"}}}}
    asked = {"name": "name", "in": "query", "required": True, "schema": {"type": "string"}}
    operation = {
        **{"summary": "Predict.", "parameters": [asked], "requestBody": body},
        "responses": {"200": {"description": "Fine.", **body}, "422": {"description": "Not so."}},
    }
    said = reference({
        "paths": {"/v1/predict": {"post": operation}}, "components": {"schemas": {"Row": row}},
    })  # fmt: skip
    assert said.splitlines() == [
        *("## POST /v1/predict", "", "Predict.", ""),
        *("**Parameters**", "", "| name | where | type | what |", "| --- | --- | --- | --- |"),
        *("| `name` | query, required | text |  |", "", "**Body**", ""),
        *("- `application/json`: [Row](#schema-row)", "", "**Answers**", ""),
        *("| status | when | body |", "| --- | --- | --- |"),
        "| `200` | Fine. | `application/json`: [Row](#schema-row) |",
        *("| `422` | Not so. |  |", "", "## Schemas", ""),
        *("### Row { #schema-row }", "", "A node.", ""),
        *("| field | type | required | what |", "| --- | --- | --- | --- |"),
        "| `year` | number or null | yes | When \\| where. |",
        "| `tags` | list of text |  |  |",
    ]
