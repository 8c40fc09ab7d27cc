"""Oracles: Markdown and SVG read back by a parser; coordinates worked by hand."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist.artifacts.model_card import (
    HEIGHT,
    LEFT,
    LIMITS,
    RIGHT,
    STALE,
    TOP,
    WIDTH,
    card,
    curve,
)
from linkdist.training.panel.estimates import Estimates, Score

ABOUT = {
    "id": "paper",
    "label": "field",
    "method": "colinkdist",
    "setting": "transductive",
    "epochs": 3,
    "seconds": 12.3456,
    "data": {"nodes": "nodes.parquet", "n": 2708},
    "tally": {"links_to_unknown_ids": 17},
    "scores": {"from features": 0.8125, "with_links": [0.5, 0.75]},
    "curve": [[0.5, 0.75, 0.75]],
    "confusion": [[41, 2], [3, 1234]],
    "versions": {"linkdist": "0.1.0"},
}
COLUMNS = [{"name": "age", "kind": "numeric"}, {"name": "title", "kind": "text", "rows": 3}]


def sections(text):
    parts = text.split("\n## ")
    return dict(part.split("\n", 1) for part in parts[1:])


def cells(table):
    rows = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_a_card_tells_all_that_is_known():
    text = card("papers", ABOUT, ["maths", "physics"], COLUMNS)
    found = sections(text)
    assert list(found) == [
        *("Use", "Held-out accuracy", "Confusion", "Classes", "Columns"),
        *("Data", "Training", "Versions", "Limits"),
    ]
    assert "a node's `field`, one of 2," in text
    assert "$ linkdist predict papers nodes.parquet" in found["Use"]
    assert 'load_model("papers")' in found["Use"]
    assert "column `paper`" in found["Use"]
    assert cells(found["Held-out accuracy"])[2:] == [
        ["from features", "81.2%"],
        ["with links", "0.5, 0.75"],
    ]
    words = "![Held-out accuracy by epoch; kept: 75.0% in epoch 2, of 3 epochs.]"
    assert words in found["Held-out accuracy"]
    assert cells(found["Confusion"]) == [
        ["", "maths", "physics"],
        ["---", "---:", "---:"],
        ["**maths**", "**41**", "2"],
        ["**physics**", "3", "**1234**"],
    ]
    assert cells(found["Columns"])[2:] == [["age", "numeric"], ["title", "text"]]
    assert "- n: 2,708\n- links to unknown ids: 17" in found["Data"]
    assert "- seconds: 12.35" in found["Training"]
    assert LIMITS in found["Limits"]


def test_what_is_missing_is_left_out():
    text = card("m", {}, ["a", "b"])
    assert list(sections(text)) == ["Use", "Classes", "Limits"]
    assert "a node's class, one of 2," in text
    assert "linkdist predict" not in text
    assert "None" not in text


def test_a_large_confusion_is_left_out():
    names = [str(i) for i in range(21)]
    assert "Confusion" not in sections(card("m", {"confusion": [[0] * 21] * 21}, names))
    assert "Confusion" in sections(card("m", {"confusion": [[0] * 20] * 20}, names[:20]))


@given(st.lists(st.text(), min_size=2, max_size=4, unique=True), st.text())
def test_any_names_stay_in_their_cells(classes, column):
    about = {"confusion": [[1] * len(classes)] * len(classes), "label": column, "id": column}
    text = card("m", about, classes, [{"name": column, "kind": "text"}])
    table = [line for line in sections(text)["Confusion"].splitlines() if line.startswith("|")]
    assert len(table) == len(classes) + 2
    for line in table:
        bars = line.replace("\\\\", "").replace("\\|", "").count("|")
        assert bars == len(classes) + 2
    assert text.count("\n# ") + text.startswith("# ") == 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_any_json_can_be_told(value):
    keys = ("id", "label", "method", "epochs", "seconds", "data", "tally", "scores", "versions")
    about = {**dict.fromkeys(keys, value), "estimates": {"new_rows": [{"name": value}]}}
    about["estimates"] |= dict.fromkeys(("judges", "by", "verdict", "known_rows"), value)
    assert card("m", about, ["a"], []).endswith(LIMITS + "\n")
    assert card("m", {"estimates": value}, ["a"], []).endswith(LIMITS + "\n")


def scored(name, accuracy, links=False):
    return Score(name, accuracy, accuracy - 0.05, accuracy + 0.04, links)


KNOWN = Estimates(
    140,
    "folds",
    [scored("this model, from features", 0.7434), scored("this model, with links", 0.786, True)],
    [scored("this model, from features", 0.793), scored("this model, with links", 0.814, True)],
    [scored("label spreading", 0.75, True), scored('<b> | & "x"', 0.6)],
    ["Links pay in training: 74.3 %.", "From features, <b> | is *better*."],
    ["One row alone is labelled '<b>'.", "There are no links."],
    {"features": 1.0},
)


def test_a_card_tells_how_good_the_model_is_before_anything_was_held_out():
    about = {**ABOUT, "estimates": json.loads(json.dumps(KNOWN.as_json()))}
    text = card("papers", about, ["maths", "physics"], COLUMNS)
    found = sections(text)
    assert list(found)[:3] == ["Use", "How good it is", "Held-out accuracy"]
    good = found["How good it is"]
    assert cells(good) == [
        ["who", "accuracy", "90 % interval", "needs links"],
        ["---", "---:", "---:", "---:"],
        ["this model, from features, new rows", "74.3%", "69.3% to 78.3%", "no"],
        ["this model, with links, new rows", "78.6%", "73.6% to 82.6%", "yes"],
        ["this model, from features, rows of the table", "79.3%", "74.3% to 83.3%", "no"],
        ["this model, with links, rows of the table", "81.4%", "76.4% to 85.4%", "yes"],
        ["label spreading, new rows", "75.0%", "70.0% to 79.0%", "yes"],
        ['\\<b\\> \\| \\& "x", new rows', "60.0%", "55.0% to 64.0%", "no"],
    ]
    lead = "Links pay in training: 74.3 %. From features, \\<b\\> \\| is \\*better\\*."
    assert good.strip().startswith(lead)
    assert "140 labelled nodes, by folds." in good
    assert good.rstrip().endswith(
        "What these scores cannot tell:\n\n- One row alone is labelled '\\<b\\>'.\n"
        "- There are no links."
    )
    others = {title: body for title, body in found.items() if title != "How good it is"}
    assert others == sections(card("papers", ABOUT, ["maths", "physics"], COLUMNS))


def test_estimates_without_warnings_or_rows_of_the_table():
    known = replace(KNOWN, known_rows=[], warnings=[]).as_json()
    good = sections(card("m", {"estimates": known}, ["a"]))["How good it is"]
    assert len(cells(good)) == 2 + 4
    assert "cannot tell" not in good
    assert STALE not in good
    updated = card("m", {"estimates": known, "updates": [1]}, ["a"])
    assert STALE in sections(updated)["How good it is"]


@pytest.mark.parametrize("nothing", [None, {}, [], "", {"new_rows": []}, {"new_rows": [1]}])
def test_no_estimates_are_no_section(nothing):
    assert "How good" not in card("m", {"estimates": nothing}, ["a"])


def drawn(picture):
    root = ET.fromstring(picture)
    space = {"s": "http://www.w3.org/2000/svg"}
    lines = [line.get("points") for line in root.findall(".//s:polyline", space)]
    dots = [
        (float(dot.get("cx")), float(dot.get("cy"))) for dot in root.findall(".//s:circle", space)
    ]
    words = [text.text for text in root.findall(".//s:text", space)]
    return [[tuple(map(float, p.split(","))) for p in line.split()] for line in lines], dots, words


def test_the_line_lies_where_the_numbers_are():
    (line,), dots, words = drawn(curve({"curve": [[0.0, 1.0, 0.5]]}))
    low, high = HEIGHT - 40, TOP
    middle = (LEFT + WIDTH - RIGHT) / 2
    assert line == [(LEFT, low), (middle, high), (WIDTH - RIGHT, (low + high) / 2)]
    assert dots == [(middle, high)]
    assert "100.0%" in words
    assert {"0%", "50%", "100%", "1", "2", "3", "epoch"} <= set(words)


TWO = {"curve": [[0.1, 0.4, 0.4], [0.3, 0.2, 0.1]], "epochs": 3}


def test_a_replica_has_a_line_and_a_dot_at_its_first_best_epoch():
    lines, dots, _ = drawn(curve(TWO))
    assert dots == [lines[0][1], lines[1][0]]
    title = ET.fromstring(curve(TWO))[0].text
    assert "of 2 replicas; kept: 40.0% in epoch 2, 30.0% in epoch 1," in title
    assert title.endswith("of 3 epochs.")


def test_where_it_is_known_the_dot_is_at_the_look_that_was_kept():
    """Of equally good looks SelfLinkDist keeps the latest, and an epoch has several."""
    about = {**TWO, "kept": [3, 1], "epochs": 1}
    lines, dots, words = drawn(curve(about))
    assert dots == [lines[0][2], lines[1][0]]
    assert {"Held-out accuracy by look", "look"} <= set(words)
    told = "by look of 2 replicas; kept: 40.0% in look 3, 30.0% in look 1, of 3 looks."
    assert ET.fromstring(curve(about))[0].text.endswith(told)
    assert told in card("m", about, ["a", "b"])


@pytest.mark.parametrize("nothing", [[], [[]], [[None, 0.5]], [[float("nan")]]])
def test_nothing_to_draw_is_no_picture(nothing):
    assert curve({"curve": nothing}) == ""
    assert "curve.svg" not in card("m", {"curve": nothing}, ["a"])


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=300), min_size=1, max_size=3))
def test_every_line_stays_inside(curves):
    lines, dots, words = drawn(curve({"curve": curves}))
    assert len(lines) == len(dots) == len(curves)
    assert 4 <= len(words) <= 20
    for x, y in [point for line in lines for point in line]:
        assert LEFT <= x <= WIDTH - RIGHT
        assert TOP <= y <= HEIGHT - 40
