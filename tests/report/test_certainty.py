"""Oracle: points of the curve computed by hand, and the page read back by a parser."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from linkdist.artifacts.model_card import model_card
from linkdist.report.certainty import FEWEST, answer_chart, certainty_data
from linkdist.report.html import render_report
from linkdist.tables.certainty import Certainty
from tests.report.test_html import ABOUT, Page, some_metrics

CLASSES = ("a", "b", "c")


@pytest.fixture(scope="module")
def certainty():
    random = np.random.default_rng(0)
    p, q = (random.dirichlet(np.ones(3), 50) for _ in range(2))
    return Certainty.of({"features": p, "links": q}, random.integers(0, 3, 50))


def test_a_curve_has_the_accuracy_of_each_share_of_rows(certainty):
    held = {"features": certainty.features, "links": certainty.links}
    found = ET.fromstring(answer_chart(held))
    lines = [e.get("points").split() for e in found.iter() if e.tag.endswith("polyline")]
    ticks = [e for e in found.iter() if e.get("class") in ("tick", "y") and "%" in (e.text or "")]
    at = {(e.get("class"), float(e.text.strip("\xa0 %")) / 100): e for e in ticks}
    left, right = (float(at["tick", share].get("x")) for share in (0.0, 1.0))
    values = sorted(value for kind, value in at if kind == "y")
    foot, top = (float(at["y", value].get("y")) - 4 for value in (values[0], values[-1]))
    for one, points in zip(held.values(), lines, strict=True):
        assert len(points) == 50 - FEWEST + 1
        for place, k in zip(points, range(FEWEST, 51), strict=True):
            x, y = map(float, place.split(","))
            assert x == pytest.approx(left + k / 50 * (right - left), abs=0.1)
            share = (one.accuracy[k - 1] - values[0]) / (values[-1] - values[0])
            assert y == pytest.approx(foot + share * (top - foot), abs=0.1)


def test_report_and_card_show_the_same_values(certainty):
    about = {**ABOUT, "certainty": certainty.state()}
    page = render_report("m", some_metrics(), about)
    assert "certainty" in Page(page).ids
    section = page[page.index('id="certainty"') : page.index("</section>", page.index("Certainty"))]
    rows = [re.findall(r"<t[hd][^>]*>([^<]+)</t[hd]>", row) for row in section.split("<tr>")]
    cells = {row[0]: row[1:] for row in rows if row and "%" in row[0]}
    card = model_card("m", about, CLASSES)
    for one, k in ((certainty.features, 0), (certainty.links, 1)):
        answered = cells["50\xa0%"][2 * k : 2 * k + 2]
        assert answered == [f"{100 * x(0.5):.1f}\xa0%" for x in (one.accuracy_of, one.least)]
        assert cells["95\xa0%"][2 * k] == f"{one.sets[2].size:.2f}"
    accuracies = [f"{one.accuracy_of(0.5):.1%}" for one in (certainty.features, certainty.links)]
    assert f"| 50 % | {' | '.join(accuracies)} |" in card
    sizes = [f"{one.sets[2].size:.2f}" for one in (certainty.features, certainty.links)]
    assert f"| 95 % | {' | '.join(sizes)} |" in card


def test_models_without_scores_or_with_few_have_no_section(certainty):
    few = Certainty.of(dict.fromkeys(("features", "links"), np.eye(FEWEST)), np.arange(FEWEST))
    for more in ({}, {"certainty": few.state()}):
        assert certainty_data(more)["certainty"] is None
        assert "certainty" not in Page(render_report("m", some_metrics(), {**ABOUT, **more})).ids
    assert "## Certainty" not in model_card("m", ABOUT, CLASSES)
