"""The site is built without a warning, holds together, and loads nothing from elsewhere.

Oracles: the nav of mkdocs.yml; every link and anchor of every page, followed; a second build on
another day, byte for byte; the program's own list of commands; a browser without a network.
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

from tests.browser import chromium

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
        **{"GIT_DIR": str(folder / "none"), "PYTHONPATH": str(ROOT / "src")},
    }
    command = [sys.executable, str(ROOT / "tools" / "site" / "build.py"), str(folder)]
    said = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=environment, text=True, encoding="utf-8", **said)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site, twice."""
    folders = [tmp_path_factory.mktemp(f"site{day}") for day in (1, 20000)]
    runs = [start(folder, day) for folder, day in zip(folders, (1, 20000), strict=True)]
    for run in runs:
        said, _ = run.communicate(timeout=300)
        assert run.returncode == 0, said
        assert "No issues found" in said
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


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("What is it for?", ["#five-minutes"]),
        ("Is it for me?", ["is-it-for-me.html"]),
        ("How do I install it without a GPU?", ["#install"]),
        ("How do I use my two tables?", ["your-own-graph.html"]),
        ("How good will it be?", ["how-many-labels.html"]),
        ("How do I deploy it?", ["serving.html", "onnx.html"]),
    ],
)
def test_the_front_page_answers_what_a_newcomer_asks(built, question, answers):
    page = (built[0] / "index.html").read_text("utf-8")
    (row,) = re.findall(rf"<tr>\s*<td>{re.escape(question)}</td>(.*?)</tr>", page, flags=re.S)
    assert [name.removeprefix("./") for name in re.findall(r'href="([^"]+)"', row)] == answers


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


def test_a_link_that_leads_nowhere_stops_the_build(tmp_path, monkeypatch):
    import build

    def with_a_broken_link(project):
        (project / "docs").mkdir()
        (project / "docs" / "index.md").write_text("# Start\n\n[gone](gone.md)\n")
        (project / "mkdocs.yml").write_text("site_name: Two lines\n")

    monkeypatch.setattr(build, "assemble", with_a_broken_link)
    with pytest.raises(SystemExit, match="not built"):
        build.build(tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_a_folder_that_holds_no_site_is_left_alone(tmp_path):
    import build

    (tmp_path / "thesis.txt").write_text("ten years")
    with pytest.raises(SystemExit, match="something other than a site"):
        build.build(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "ten years"


def test_the_search_works_from_a_folder_without_a_network(built):
    asked = []
    with chromium() as browser:
        page = browser.new_context(offline=True).new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((built[0] / "index.html").as_uri())
        page.keyboard.press("/")
        page.get_by_role("combobox", name="Search").fill("conformal")
        found = page.get_by_role("option").first
        found.wait_for()
        found.click()
        page.wait_for_url("**/certainty.html*")
    assert [url for url in asked if not url.startswith("file:")] == []


def test_a_page_shows_the_table_of_a_result_file(tmp_path):
    from result_tables import ABSENT, filled

    (tmp_path / "results").mkdir()
    table = "# Speed\n\n| a |\n|---|\n| [1](raw.json) |\n"
    (tmp_path / "results" / "speed.md").write_text(table)
    page = tmp_path / "docs" / "speed.md"
    shown = filled("Before\n\n<!-- result: results/speed.md -->\n", page, tmp_path)
    assert shown == "Before\n\n| a |\n|---|\n| [1](../results/raw.json) |\n"
    (tmp_path / "results" / "speed.svg").touch()
    shown = filled("<!-- result: results/speed.svg Rows a second. -->", page, tmp_path)
    assert shown == "![Rows a second.](../results/speed.svg)"
    assert filled("<!-- result: results/later.md -->", page, tmp_path) == ABSENT


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
