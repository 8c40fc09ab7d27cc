"""Oracles: the page read back by parsers; SciPy's Wilson intervals; places worked by hand."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist.report.html import render_report
from linkdist.report.score_chart import DRAWN, score_chart
from linkdist.training.measures import wilson as interval
from linkdist.training.panel.estimates import Estimates, Score
from tests.report.test_html import (
    ABOUT,
    HOSTILE,
    NO_VALIDATION,
    ONLY_ESTIMATES,
    Page,
    figures,
    some_metrics,
)


def scored(name, accuracy, links=False, n=140):
    return Score(name, accuracy, *interval(accuracy, n), links)


OURS = ("this model, from features", "this model, with links")
NASTY = "<i>a</i> & \"b\" 'c'"
KNOWN = Estimates(
    140,
    "folds",
    [scored(OURS[0], 0.7434), scored(OURS[1], 0.7861, True)],
    [scored(OURS[0], 0.7931), scored(OURS[1], 0.8142, True)],
    [scored("label spreading", 0.7512, True), scored(NASTY, 0.601), scored("largest class", 0.3)],
    ["Links pay in training: 74.3 % against <b>60.1 %</b>.", "Links & labels make a difference."],
    ["One row alone is labelled '<b>'."],
    {"features": 0.125, NASTY: 0.625, "label spreading": 0.25},
)


def page_with(**changes):
    return render_report(
        "papers", replace(some_metrics(), estimates=replace(KNOWN, **changes)), ABOUT
    )


def text_of(page):
    return " ".join("".join(Page(page).text).split())


def test_estimates_come_first():
    page = page_with()
    read = Page(page)
    sections = [attrs["aria-labelledby"] for tag, attrs in read.tags if tag == "section"]
    assert sections[:2] == ["estimates", "accuracy"]
    assert len(set(read.ids)) == len(read.ids)
    assert len(figures(page)) == 8
    first = figures(page)[0]
    title, words = first.find("title"), first.find("desc")
    assert first.get("aria-labelledby").split() == [title.get("id"), words.get("id")]
    assert "from features 74.3\xa0%, 90\xa0% interval 67.8 to 79.9\xa0%" in words.text
    assert "label spreading (needs links) 75.1\xa0%" in words.text
    text = text_of(page)
    parts = [
        *("Estimated accuracy", *KNOWN.verdict, "Show as a table"),
        *("Limitations of these scores", *KNOWN.warnings),
        "Each of the 140 labels was predicted by networks that were trained without it. For new "
        "rows, the row and its links were hidden as well.",
        *("Weights of the teachers", "Validation accuracy by epoch"),
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def rows_of(page, kind):
    (table,) = re.findall(rf'<table class="{kind}">.*?</table>', page, re.S)
    return [
        tuple("".join(cell.itertext()) for cell in row) for row in ET.fromstring(table).iter("tr")
    ]


def expected(name, score):
    between = f"{100 * score.low:.1f} to {100 * score.high:.1f}\xa0%"
    return (name, f"{100 * score.value:.1f}\xa0%", between, "yes" if score.links else "no")


def test_the_table_has_every_estimate():
    assert rows_of(page_with(), "estimates")[1:] == [
        ("This model, new rows",),
        expected("from features", KNOWN.new_rows[0]),
        expected("with links", KNOWN.new_rows[1]),
        ("This model, rows of the table",),
        expected("from features", KNOWN.known_rows[0]),
        expected("with links", KNOWN.known_rows[1]),
        ("Baselines, new rows",),
        *(expected(score.name, score) for score in KNOWN.baselines),
    ]


def test_the_teachers_are_listed_by_weight():
    assert rows_of(page_with(), "teachers")[1:] == [
        (NASTY, "62.5\xa0%"),
        ("label spreading", "25.0\xa0%"),
        ("features", "12.5\xa0%"),
    ]
    assert "of the teachers" not in page_with(teachers={})


def lines_of(svg):
    """Each row's tone, name, value, and where its interval begins, its dot lies, it ends."""
    for row in svg.iter("g"):
        dot, span = row.find("circle"), row.find("line[@class='span']")
        if dot is not None:
            name, value = (text.text for text in row.iter("text"))
            places = (span.get("x1"), dot.get("cx"), span.get("x2"))
            yield row.get("class"), name, value, [float(place) for place in places]


def axis_of(svg):
    """From a share to its place, by the two outer ticks."""
    ticks = [text for text in svg.iter("text") if text.get("class") == "tick"]
    (low, start), (high, end) = (
        (float(tick.text.rstrip("\xa0%")) / 100, float(tick.get("x")))
        for tick in (ticks[0], ticks[-1])
    )
    return low, high, lambda share: start + (share - low) / (high - low) * (end - start)


def test_dots_and_intervals_lie_where_the_estimates_are():
    svg = ET.fromstring(score_chart(KNOWN))
    low, high, at = axis_of(svg)
    assert (low, high) == (0.2, 1.0)  # the largest class's interval begins at 24 %
    scores = [*KNOWN.new_rows, *KNOWN.known_rows, *KNOWN.baselines]
    lines = list(lines_of(svg))
    for (*_, value, places), score in zip(lines, scores, strict=True):
        assert value == f"{100 * score.value:.1f}\xa0%"
        shares = (score.low, score.value, score.high)
        assert places == pytest.approx([at(share) for share in shares], abs=0.06)
        assert places == sorted(places)
    assert [tone for tone, *_ in lines] == ["features"] * 4 + ["rest"] * 3
    names = ["from features", "with links"] * 2
    assert [name for _, name, *_ in lines] == [
        *names,
        "label spreading (needs links)",
        *(NASTY, "largest class"),
    ]
    guide = svg.find(".//line[@class='guide']")
    assert guide.get("x1") == guide.get("x2")
    assert float(guide.get("x1")) == lines[0][-1][1]


shares = st.tuples(*[st.floats(0, 1)] * 3).map(sorted)
scores = st.builds(
    lambda name, ends, links: Score(name, ends[1], ends[0], ends[2], links),
    st.text(),
    shares,
    st.booleans(),
)
some = st.lists(scores, max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(shares, min_size=2, max_size=2), some, some)
def test_any_scores_can_be_drawn(ours, known, others):
    new = [Score(name, s[1], s[0], s[2], False) for name, s in zip(OURS, ours, strict=True)]
    page = page_with(new_rows=new, known_rows=known[:2], baselines=others)
    svg = figures(page)[0]
    lines = list(lines_of(svg))
    assert len(lines) == 2 + len(known[:2]) + min(len(others), DRAWN)
    assert svg.get("viewBox").startswith("0 0 640 ")
    for *_, (start, dot, end) in lines:
        assert 28 <= start <= dot <= end <= 612
    assert axis_of(svg)[1] == 1
    bodies = bool(known) + bool(others) + 1
    assert len(rows_of(page, "estimates")) == 1 + bodies + 2 + len(known[:2]) + len(others)


def test_the_best_baselines_are_drawn_and_all_are_in_the_table():
    many = [scored(f"b{i}", 0.9 - i / 20) for i in range(DRAWN + 2)]
    page = page_with(baselines=many)
    drawn = [name for tone, name, *_ in lines_of(figures(page)[0]) if tone == "rest"]
    assert drawn == [f"b{i}" for i in range(DRAWN)]
    assert "The chart shows the best 8 of 10 baselines; the table lists all." in page
    assert [row[0] for row in rows_of(page, "estimates")[-10:]] == [f"b{i}" for i in range(10)]
    assert "baselines; the table" not in page_with()


def test_missing_estimates_are_left_out():
    page = page_with(known_rows=[], baselines=[], warnings=[])
    assert [row[0] for row in rows_of(page, "estimates")[1:]] == [
        *("This model, new rows", "from features", "with links"),
    ]
    assert "Limitations" not in page
    assert "rows of the table" not in page


def test_the_key_figures_are_those_of_new_rows():
    tiles = page_with().split("</header>")[0]
    low, high = 100 * KNOWN.new_rows[1].low, 100 * KNOWN.new_rows[1].high
    assert (
        "<dt>Accuracy with links</dt><dd><b>78.6\xa0%</b> <span>for new rows; 90\xa0% interval "
        f"{low:.1f} to {high:.1f}\xa0%</span>"
    ) in tiles
    assert "<dt>Accuracy from features</dt><dd><b>74.3\xa0%</b>" in tiles
    assert tiles.count("<dt>Accuracy") == 2
    assert "95\xa0%" not in tiles
    assert "measured on 140 labelled nodes." in tiles


def test_a_page_without_estimates():
    page = render_report("papers", some_metrics(), ABOUT)
    assert Page(page).ids[0] == "accuracy"
    for words in ("Estimated", "Limitations", "of the teachers", "<details", "new rows", "90\xa0%"):
        assert words not in page
    # SciPy's Wilson intervals of 38 and of 42 in 120
    assert "95\xa0% interval 24 to 40\xa0%" in page
    assert "95\xa0% interval 27 to 44\xa0%" in page


def test_a_page_of_estimates_alone_does_not_say_that_it_has_no_accuracy():
    page = render_report("papers", replace(some_metrics(held=False), estimates=KNOWN), ABOUT)
    assert ONLY_ESTIMATES in page
    assert NO_VALIDATION not in page
    assert [id for id in Page(page).ids if "-" not in id] == [
        "estimates",
        "map",
        "links",
        "uncertain",
    ]


def test_few_evaluations_are_no_curve():
    found = some_metrics(replicas=2)
    curves = {mode: curve[:2] for mode, curve in found.validation.curves.items()}
    held = found.validation._replace(curves=curves, best=np.array([0, 1]))
    flat = replace(found, validation=held)
    assert "accuracy" in Page(render_report("m", flat, ABOUT)).ids
    page = render_report("m", replace(flat, estimates=KNOWN), ABOUT)
    assert "accuracy" not in Page(page).ids
    assert "replicas made" not in page  # a label lies in one fold
    assert "replicas made" in render_report("m", flat, ABOUT)


def test_estimates_on_validation_nodes():
    text = text_of(page_with(by="validation nodes", labels=1234))
    assert "1,234 labelled nodes were held out: no network was trained on their labels." in text
    assert "Each of" not in text


def test_hostile_names_of_scores_and_teachers_do_nothing():
    hostile = page_with(
        baselines=[scored(name, 0.5, True) for name in HOSTILE],
        verdict=HOSTILE,
        warnings=HOSTILE,
        teachers=dict.fromkeys(HOSTILE, 1 / len(HOSTILE)),
    )
    read = Page(hostile)
    assert {tag for tag, _ in read.tags} == {tag for tag, _ in Page(page_with()).tags}
    assert not [name for _, attrs in read.tags for name in attrs if name.startswith("on")]
    for sign in "\x00\x1b\u202e\ud800":
        assert sign not in hostile
    assert "".join(read.text).count(HOSTILE[0]) >= 5
    assert len(list(lines_of(figures(hostile)[0]))) == 4 + len(HOSTILE)
