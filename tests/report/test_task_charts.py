"""Oracles: the drawings read back by an XML parser; places and counts worked by hand."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist.report.task_charts import (
    BARS,
    POINTS,
    label_bars,
    number_chart,
    precision_recall_curve,
    residual_histogram,
)
from linkdist.report.task_evaluation import LabelEvaluation
from linkdist.training.decisions import OperatingPoint, operating_points

HOSTILE = "<script>alert(1)</script> \x00\u202e & \"'"


def parsed(svg):
    """The root of a drawing whose numbers are all finite."""
    assert not re.search(r'="-?(nan|inf)', svg)
    return ET.fromstring(str(svg))


def all_of(root, name, kind=None):
    return [e for e in root.iter(name) if kind is None or kind in e.get("class", "").split()]


def box(root):
    return [float(part) for part in root.get("viewBox").split()]


def label(name, rows, f1):
    return LabelEvaluation(name, rows, 0.5, f1, f1, (0.0, 1.0), f1)


def test_a_dot_lies_where_its_numbers_are():
    root = parsed(number_chart(np.array([0.0, 10.0, 4.0]), np.array([0.0, 10.0, 6.0]), "x", 1.0))
    dots, outside = all_of(root, "circle", "dot"), all_of(root, "circle", "out")
    (left, bottom), (right, top) = ((float(d.get("cx")), float(d.get("cy"))) for d in dots)
    assert right - left == bottom - top > 0  # both axes have the same scale
    (out,) = outside
    assert float(out.get("cx")) == pytest.approx(left + 0.6 * (right - left))
    assert float(out.get("cy")) == pytest.approx(bottom - 0.4 * (bottom - top))


def test_the_band_is_as_wide_as_the_interval():
    root = parsed(number_chart(np.array([0.0, 10.0]), np.array([0.0, 10.0]), "x", 2.5))
    (band,) = all_of(root, "polygon")
    corners = [tuple(map(float, p.split(","))) for p in band.get("points").split()]
    (x0, y0), (x1, y1), (x2, y2), (x3, y3), (x4, y4), (x5, y5) = corners
    size = x3 - x0
    assert (x1, y1) == (x0, pytest.approx(y0 - size / 4))
    assert (x2, y2) == (pytest.approx(x3 - size / 4), y3)
    assert (x4, y4) == (x3, pytest.approx(y3 + size / 4))
    assert (x5, y5) == (pytest.approx(x0 + size / 4), y0)


def test_many_rows_are_sampled_and_counted():
    random = np.random.default_rng(0)
    y = random.normal(size=5000)
    svg = number_chart(y, y + random.normal(size=5000), "x", width=1.0)
    root = parsed(svg)
    assert len(all_of(root, "circle")) == POINTS
    assert "5,000 rows, of which 2,000 are drawn. 68." in svg
    assert len(svg) < 150_000


def test_residuals_are_counted_in_bars():
    residuals = np.concatenate([np.zeros(300), np.linspace(-1, 1, 101), [50.0, np.nan]])
    svg = residual_histogram(residuals, "x", width=0.8)
    root = parsed(svg)
    bars = all_of(root, "rect")
    counts = [int(e.find("title").text.split()[0]) for e in bars]
    assert sum(counts) == 402
    assert len(bars) <= BARS
    assert "1 larger errors are in the outermost bars" in svg
    heights = [float(e.get("height")) for e in bars]
    assert np.corrcoef(counts, heights)[0, 1] == pytest.approx(1, abs=1e-3)


def test_the_steps_have_the_area_of_the_average_precision():
    from sklearn.metrics import average_precision_score

    random = np.random.default_rng(0)
    y = (random.random(100) < 0.3).astype(int)
    p = y + random.normal(size=100)
    points = operating_points(p, y)
    root = parsed(precision_recall_curve(points, y.mean(), "yes", points[3]))
    (curve,) = all_of(root, "polyline")
    x, h = np.array([part.split(",") for part in curve.get("points").split()], float).T
    (circle,) = all_of(root, "circle")
    left, bottom = x[0], 30 + 340
    area = (np.diff(x) * (bottom - h[1:])).sum() / 340**2
    assert area == pytest.approx(average_precision_score(y, p), abs=1e-3)
    place = (left + 340 * points[3].recall, bottom - 340 * points[3].precision)
    assert (float(circle.get("cx")), float(circle.get("cy"))) == pytest.approx(place, abs=0.1)


def test_bars_have_the_length_of_f1_and_the_best_is_first():
    root = parsed(label_bars([label("low", 5, 0.25), label("high", 9, 1.0), label("none", 1, 0.0)]))
    widths = [float(e.get("width")) for e in all_of(root, "rect")]
    assert widths == pytest.approx([584, 146, 1])
    names = [e.text for e in all_of(root, "text", "who")]
    assert names == ["high (9 rows)", "low (5 rows)", "none (1 row)"]


def test_many_labels_are_those_with_the_most_rows():
    svg = label_bars([label(f"n{i}", i, 0.5) for i in range(30)])
    assert svg.count("<rect") == 20
    assert "10 labels with fewer rows are not drawn" in svg
    assert ">n9 (" not in svg


@given(
    st.lists(st.floats(-1e30, 1e30) | st.just(float("nan")), max_size=8),
    st.sampled_from([None, 0.0, 1e-9, 3.0, float("inf")]),
)
def test_any_numbers_can_be_drawn(values, width):
    y = np.array(values)
    p = y[::-1] + 1
    for svg in (number_chart(y, p, HOSTILE, width), residual_histogram(y - p, HOSTILE, width)):
        root = parsed(svg)
        assert "<script" not in svg
        *_, right, bottom = box(root)
        for mark in all_of(root, "circle"):
            assert 0 <= float(mark.get("cx")) <= right
            assert 0 <= float(mark.get("cy")) <= bottom


@pytest.mark.parametrize("span", [1e-12, 1e-3, 1.0, 7.0, 1e5, 1e12])
def test_ticks_have_different_texts(span):
    root = parsed(number_chart(np.linspace(0, span, 9), np.linspace(0, span, 9), "x"))
    texts = [e.text for e in all_of(root, "text", "tick")]
    assert 3 <= len(set(texts)) == len(texts)


def test_names_are_escaped():
    point = OperatingPoint(0.5, 0.5, 0.5, 0.5)
    for svg in (
        label_bars([label(HOSTILE, 3, 0.5)]),
        precision_recall_curve([], 0.5, HOSTILE, point),
    ):
        parsed(svg)
        assert "<script" not in svg
