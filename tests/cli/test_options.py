"""Option groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from linkdist.cli.options import LinkTable, NodeTable, given, grouped


@dataclass(frozen=True)
class Size:
    """Size of it. More words."""

    width: Annotated[int, typer.Option(help="The width.")]
    full_height: Annotated[int, typer.Option(help="The height.")] = 2


@pytest.fixture
def call():
    """A command with a group between an argument and an option; what it received."""
    app, received = typer.Typer(), []

    @app.command()
    @grouped(required=("edges",))
    def draw(
        name: str, size: Size, links: LinkTable, fast: Annotated[bool, typer.Option()] = False
    ) -> None:
        """Draw it."""
        received.append((name, size, links, fast))

    return lambda *args: (CliRunner().invoke(app, args), received)


def test_fields_become_options_and_come_back_as_groups(call):
    result, received = call("x", "--width", "3", "--edges", "links.csv", "--strict", "--fast")
    assert result.exit_code == 0, result.output
    links = LinkTable(edges=[Path("links.csv")], strict=True)
    assert received == [("x", Size(3, 2), links, True)]


@pytest.mark.parametrize("missing", ["width", "edges"])
def test_fields_without_a_default_and_those_named_are_required(call, missing):
    options = {"width": "3", "edges": "links.csv"}
    del options[missing]
    result, received = call("x", *(f"--{name}={value}" for name, value in options.items()))
    assert result.exit_code == 2
    assert f"--{missing}" in result.output
    assert received == []


def test_each_group_has_a_panel_with_its_title(call):
    output = call("--help")[0].output
    titles = ("Size of it ─", "Link table ─")
    places = [output.index(part) for part in (titles[0], "--full-height", titles[1], "--strict")]
    assert places == sorted(places)


def test_given_options_are_named_as_the_user_writes_them():
    assert given(Size(0, 5)) == ["--width", "--full-height"]
    assert given(LinkTable()) == given(NodeTable()) == []
