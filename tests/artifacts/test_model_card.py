"""Oracles: Markdown and SVG read back by a parser; coordinates worked by hand."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist.artifacts.card_curve import CARD, card_curve
from linkdist.artifacts.card_scores import STALE
from linkdist.artifacts.model_card import LIMITS, model_card
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
COLUMNS = [
    {"name": "age", "kind": "numeric", "example": 0.0},
    {"name": "title", "kind": "text", "example": "some words"},
    {"name": "genre", "kind": "tags:binary", "example": ["war", "love|life"]},
]


def sections(text):
    parts = text.split("\n## ")
    return dict(part.split("\n", 1) for part in parts[1:])


def cells(table):
    rows = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_a_card_has_everything_that_is_known():
    text = model_card("papers", ABOUT, ["maths", "physics"], COLUMNS)
    found = sections(text)
    assert list(found) == [
        *("Use", "Validation accuracy", "Confusion matrix", "Classes", "Columns"),
        *("Data", "Training", "Versions", "Limitations"),
    ]
    assert "the `field` of a node, one of 2 classes," in text
    assert "$ linkdist predict papers nodes.parquet" in found["Use"]
    assert 'load_model("papers")' in found["Use"]
    assert "column `paper`" in found["Use"]
    assert cells(found["Validation accuracy"])[2:] == [
        ["from features", "81.2%"],
        ["with links", "0.5, 0.75"],
    ]
    words = "![Validation accuracy by epoch. Selected: 75.0% at epoch 2 of 3.]"
    assert words in found["Validation accuracy"]
    assert cells(found["Confusion matrix"]) == [
        ["", "maths", "physics"],
        ["---", "---:", "---:"],
        ["**maths**", "**41**", "2"],
        ["**physics**", "3", "**1234**"],
    ]
    assert cells(found["Columns"])[2:] == [
        ["age", "numeric", "0.0"],
        ["title", "text", '"some words"'],
        ["genre", "tags:binary", '\\["war", "love\\|life"\\]'],
    ]
    request = '{"rows": [{"age": 0.0, "title": "some words", "genre": ["war", "love|life"]}]}'
    assert f"-d '{request}'" in found["Use"]
    assert "- n: 2,708\n- links to unknown ids: 17" in found["Data"]
    assert "- seconds: 12.35" in found["Training"]
    assert LIMITS in found["Limitations"]


def test_what_is_missing_is_left_out():
    text = model_card("m", {}, ["a", "b"])
    assert list(sections(text)) == ["Use", "Classes", "Limitations"]
    assert "the class of a node, one of 2 classes," in text
    assert "linkdist predict" not in text
    assert "None" not in text


def test_the_confusion_matrix_of_several_replicas_states_nodes_and_predictions():
    about = {"scores": {"validation nodes": 3}, "confusion": [[2, 1], [0, 3]]}
    words = "The replicas made 6 predictions for 3 validation nodes;"
    assert words in sections(model_card("m", about, ["a", "b"]))["Confusion matrix"]
    about["scores"]["validation nodes"] = 6
    assert "replicas" not in sections(model_card("m", about, ["a", "b"]))["Confusion matrix"]


def test_a_large_confusion_is_left_out():
    names = [str(i) for i in range(21)]
    assert "Confusion matrix" not in sections(
        model_card("m", {"confusion": [[0] * 21] * 21}, names)
    )
    assert "Confusion matrix" in sections(
        model_card("m", {"confusion": [[0] * 20] * 20}, names[:20])
    )


@given(st.lists(st.text(), min_size=2, max_size=4, unique=True), st.text())
def test_any_names_stay_in_their_cells(classes, column):
    about = {"confusion": [[1] * len(classes)] * len(classes), "label": column, "id": column}
    text = model_card("m", about, classes, [{"name": column, "kind": "text"}])
    table = [
        line for line in sections(text)["Confusion matrix"].splitlines() if line.startswith("|")
    ]
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
def test_any_json_gives_a_card(value):
    keys = ("id", "label", "method", "epochs", "seconds", "data", "tally", "scores", "versions")
    about = {**dict.fromkeys(keys, value), "estimates": {"new_rows": [{"name": value}]}}
    about["estimates"] |= dict.fromkeys(("labels", "by", "verdict", "known_rows"), value)
    assert model_card("m", about, ["a"], []).endswith(LIMITS + "\n")
    assert model_card("m", {"estimates": value}, ["a"], []).endswith(LIMITS + "\n")


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


def test_estimates_come_before_the_validation_accuracy():
    about = {**ABOUT, "estimates": json.loads(json.dumps(KNOWN.as_json()))}
    text = model_card("papers", about, ["maths", "physics"], COLUMNS)
    found = sections(text)
    assert list(found)[:3] == ["Use", "Estimated accuracy", "Validation accuracy"]
    good = found["Estimated accuracy"]
    assert cells(good) == [
        ["model", "accuracy", "90 % interval", "needs links"],
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
    assert "140 labelled nodes, by cross-validation." in good
    assert good.rstrip().endswith(
        "Limitations of these scores:\n\n- One row alone is labelled '\\<b\\>'.\n"
        "- There are no links."
    )
    others = {title: body for title, body in found.items() if title != "Estimated accuracy"}
    assert others == sections(model_card("papers", ABOUT, ["maths", "physics"], COLUMNS))


def test_estimates_without_warnings_or_rows_of_the_table():
    known = replace(KNOWN, known_rows=[], warnings=[]).as_json()
    good = sections(model_card("m", {"estimates": known}, ["a"]))["Estimated accuracy"]
    assert len(cells(good)) == 2 + 4
    assert "Limitations of" not in good
    assert STALE not in good
    updated = model_card("m", {"estimates": known, "updates": [1]}, ["a"])
    assert STALE in sections(updated)["Estimated accuracy"]


@pytest.mark.parametrize("nothing", [None, {}, [], "", {"new_rows": []}, {"new_rows": [1]}])
def test_no_estimates_are_no_section(nothing):
    assert "Estimated accuracy" not in model_card("m", {"estimates": nothing}, ["a"])


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
    (line,), dots, words = drawn(card_curve({"curve": [[0.0, 1.0, 0.5]]}))
    low, high = CARD.height - 40, CARD.top
    middle = (CARD.left + CARD.width - CARD.right) / 2
    assert line == [(CARD.left, low), (middle, high), (CARD.width - CARD.right, (low + high) / 2)]
    assert dots == [(middle, high)]
    assert "100.0%" in words
    assert {"0%", "50%", "100%", "1", "2", "3", "epoch"} <= set(words)


TWO = {"curve": [[0.1, 0.4, 0.4], [0.3, 0.2, 0.1]], "epochs": 3}


def test_a_replica_has_a_line_and_a_dot_at_its_first_best_epoch():
    lines, dots, _ = drawn(card_curve(TWO))
    assert dots == [lines[0][1], lines[1][0]]
    title = ET.fromstring(card_curve(TWO))[0].text
    assert "of 2 replicas. Selected: 40.0% at epoch 2, 30.0% at epoch 1 of 3." in title
    assert title.endswith("of 3.")


def test_the_dot_is_at_the_evaluation_that_was_kept():
    """Of equally good evaluations SelfLinkDist keeps the latest."""
    about = {**TWO, "kept": [3, 1], "epochs": 1}
    lines, dots, words = drawn(card_curve(about))
    assert dots == [lines[0][2], lines[1][0]]
    assert {"Validation accuracy by evaluation", "evaluation"} <= set(words)
    description = (
        "by evaluation of 2 replicas. Selected: 40.0% at evaluation 3, 30.0% at evaluation 1 of 3."
    )
    assert ET.fromstring(card_curve(about))[0].text.endswith(description)
    assert description in model_card("m", about, ["a", "b"])


@pytest.mark.parametrize("nothing", [[], [[]], [[None, 0.5]], [[float("nan")]]])
def test_nothing_to_draw_is_no_picture(nothing):
    assert card_curve({"curve": nothing}) == ""
    assert "curve.svg" not in model_card("m", {"curve": nothing}, ["a"])


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=300), min_size=1, max_size=3))
def test_every_line_stays_inside(curves):
    lines, dots, words = drawn(card_curve({"curve": curves}))
    assert len(lines) == len(dots) == len(curves)
    assert 4 <= len(words) <= 20
    for x, y in [point for line in lines for point in line]:
        assert CARD.left <= x <= CARD.width - CARD.right
        assert CARD.top <= y <= CARD.height - 40
