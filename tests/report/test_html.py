"""Oracles: the page read back by parsers; counts, words and places worked by hand; colours as
those see them who lack a cone (matrices of Machado, Oliveira and Fernandes, 2009)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from linkdist import pipeline, updating
from linkdist.artifacts.model_dir import load_model
from linkdist.data.graph import UNKNOWN
from linkdist.pipeline import Options, Tables
from linkdist.report.charts import (
    DARK,
    LIGHT,
    SHAPES,
    SHOWN,
    accuracy_curve,
    draw_map,
    heat_map,
)
from linkdist.report.hidden_map import HiddenMap
from linkdist.report.html import combine_classes, render_report, shown_classes
from linkdist.report.metrics import (
    Metrics,
    ValidationMetrics,
    evaluate,
    homophily,
    least_certain,
)
from linkdist.report.svg import Axis, plain, round_step

ABOUT = {"label": "field", "method": "colinkdist", "epochs": 4, "seconds": 75.2}
SECTIONS = ["accuracy", "classes", "confusion", "calibration", "map", "links", "uncertain"]
NO_VALIDATION = (
    "There are no validation nodes, so this page has no accuracy, learning curve, scores by class, "
    "confusion matrix or calibration."
)
ONLY_ESTIMATES = NO_VALIDATION.replace("accuracy, ", "")
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "]]></style></svg><b>",
    "&lt;b&gt; \x00\x1b\u202e\ud800",
    "long " * 50,
]


def some_metrics(C=3, n=120, names=None, ids=None, replicas=1, held=True, seed=0):
    """Metrics of a model that is often wrong."""
    random = np.random.default_rng(seed)
    p, truth = random.dirichlet(np.full(C, 0.4), n), random.integers(0, C, n)
    labels = np.where(random.random(n) < 0.4, truth, UNKNOWN)
    links = random.integers(0, n, (3 * n, 2))
    ids = ids or [f"n{i}" for i in range(n)]
    modes = {"features": evaluate(p, truth), "links": evaluate(p[::-1], truth)}
    curves = {mode: random.random((4, replicas)) for mode in modes}
    known = labels != UNKNOWN
    shown = np.where(known, labels, p.argmax(axis=1))
    return Metrics(
        tuple(names or (f"class {c}" for c in range(C))),
        n,
        np.bincount(labels[known], minlength=C),
        replicas,
        ValidationMetrics(n, curves, np.arange(replicas) % 4, modes) if held else None,
        homophily(links, labels, C),
        homophily(links, p.argmax(axis=1), C),
        HiddenMap("t-SNE", random.normal(size=(n, 2)), ids, shown, known),
        least_certain(p, labels, ids),
    )


class Page(HTMLParser):
    """Checks that what is opened is closed, and keeps what was met."""

    VOID = ("meta", "link", "br", "img")

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.ids = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def drawings(page):
    """Every SVG element of a page, read as XML."""
    return [ET.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, flags=re.S)]


def figures(page):
    return [svg for svg in drawings(page) if svg.get("role") == "img"]


def test_a_page_has_everything_in_order_and_is_well_formed():
    page = render_report("papers", some_metrics(replicas=3), ABOUT)
    read = Page(page)
    assert page.startswith("<!doctype html>")
    assert [id for id in read.ids if id in SECTIONS] == SECTIONS
    assert len(set(read.ids)) == len(read.ids)
    assert len(figures(page)) == 1 + 2 + 2 + 1 + 1
    for svg in figures(page):
        title, description = svg.find("title"), svg.find("desc")
        assert svg.get("aria-labelledby").split() == [title.get("id"), description.get("id")]
        assert title.text
        assert description.text
    assert page.count("How to read it") == len(SECTIONS)
    assert "1 min 15 s" in page
    assert "3 replicas" in page


def test_nothing_is_loaded_and_no_script_is_run():
    page = render_report("papers", some_metrics(), ABOUT)
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    assert "url(" not in page
    assert "@import" not in page
    tags = {tag for tag, _ in Page(page).tags}
    assert not tags & {"script", "link", "img", "iframe", "object"}


def test_the_key_figures_are_those_of_the_metrics():
    found = some_metrics()
    page = render_report("papers", found, ABOUT)
    for mode in ("features", "links"):
        assert f"<b>{100 * found.validation.modes[mode].accuracy:.1f}\xa0%</b>" in page
        assert f"{100 * found.validation.modes[mode].reliability.error:.1f} points" in page
    assert f"<b>{100 * found.known_links.share:.0f}\xa0%</b>" in page


def test_hostile_names_are_shown_and_do_nothing():
    ids = [HOSTILE[i % len(HOSTILE)] + str(i) for i in range(120)]
    found = some_metrics(C=len(HOSTILE), names=HOSTILE, ids=ids)
    page = render_report(HOSTILE[0], found, {**ABOUT, "label": HOSTILE[1], "method": HOSTILE[2]})
    read = Page(page)
    assert figures(page)
    plain_page = render_report("m", some_metrics(C=len(HOSTILE)), ABOUT)
    assert {tag for tag, _ in read.tags} == {tag for tag, _ in Page(plain_page).tags}
    assert not [name for _, attrs in read.tags for name in attrs if name.startswith("on")]
    for sign in "\x00\x1b\u202e\ud800":
        assert sign not in page
    assert HOSTILE[0] in "".join(read.text)
    page.encode("utf-8")


def test_without_held_out_nodes_their_sections_are_left_out():
    page = render_report("papers", some_metrics(held=False), ABOUT)
    assert NO_VALIDATION in page
    assert [id for id in Page(page).ids if id in SECTIONS] == ["map", "links", "uncertain"]
    assert "Accuracy from features" not in page


@pytest.mark.parametrize("about", [{}, {"epochs": None, "seconds": None, "label": None}])
def test_what_is_not_known_of_a_training_is_left_out(about):
    assert "Training time" not in render_report("m", some_metrics(), about)


def test_the_confusion_is_drawn_with_its_counts():
    found = some_metrics()
    svg = next(
        svg for svg in figures(render_report("m", found, ABOUT)) if "Confusion" in svg[0].text
    )
    cells = [(text.text or "") for text in svg.iter("text") if "in" in text.get("class").split()]
    expected = [str(n) if n else "" for n in found.validation.modes["features"].confusion.flat]
    assert cells == expected
    tones = [rect.get("class").split()[1] for rect in svg.iter("rect")]
    assert tones == ["features" if i % 4 == 0 else "links" for i in range(9)]


def test_the_classes_with_the_fewest_labels_are_combined():
    C = SHOWN + 5
    found = some_metrics(C=C, n=600)
    own = shown_classes(found.labelled)
    assert len(own) == SHOWN
    assert min(found.labelled[own]) >= max(np.delete(found.labelled, own))
    counts = np.arange(C * C).reshape(C, C)
    rest = [c for c in range(C) if c not in own]
    folded = combine_classes(counts, own)
    assert folded[-1, -1] == counts[np.ix_(rest, rest)].sum()
    np.testing.assert_array_equal(folded[:-1, :-1], counts[np.ix_(own, own)])
    np.testing.assert_array_equal(folded[:-1, -1], counts[np.ix_(own, rest)].sum(axis=1))
    page = render_report("m", found, ABOUT)
    Page(page)
    assert "5 other classes" in page
    assert len(figures(page)) == 7


def test_every_node_of_the_map_has_a_mark():
    found = some_metrics()
    svg = ET.fromstring(draw_map(found.map, found.classes, [0, 1, 2]))
    marks = [mark for mark in svg.iter() if "mark" in mark.get("class", "").split()]
    assert len(marks) == 120
    assert sum("known" in mark.get("class").split() for mark in marks) == found.map.known.sum()
    of_first = [mark for mark in marks if "c0" in mark.get("class").split()]
    assert len(of_first) == (found.map.classes == 0).sum()
    titles = {mark.find("title").text for mark in marks}
    assert titles >= {
        f"n0: class {found.map.classes[0]}" + ", predicted" * (not found.map.known[0])
    }


def test_a_map_of_one_place_is_drawn():
    places = np.zeros((1, 2))
    alone = HiddenMap("PCA", places, ["x"], np.array([0]), np.array([True]))
    assert "NaN" not in draw_map(alone, ["a"], [0])
    assert "nan" not in draw_map(alone, ["a"], [0])


def test_the_curve_by_hand():
    curve = np.array([[0.5], [0.6], [0.7]])
    held = some_metrics().validation._replace(curves={"features": curve, "links": curve + 0.1})
    svg = ET.fromstring(accuracy_curve(held._replace(best=np.array([2])), "epoch"))
    lines = [line.get("points").split() for line in svg.iter("polyline")]
    assert [len(line) for line in lines] == [3, 3]
    x = [float(point.split(",")[0]) for point in lines[0]]
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.11)
    # 0.5 to 0.8 in steps of 0.05: the axis ends where the values do
    low, high = (float(line[i].split(",")[1]) for line, i in zip(lines, (0, 2), strict=True))
    dots = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in svg.iter("circle")]
    assert dots[1] == (x[2], high)
    middle = float(lines[0][2].split(",")[1])
    assert (middle - high) / (low - high) == pytest.approx(1 / 3, abs=0.01)


def test_axes_take_in_all_values():
    axis = Axis.rounded([0.333], 0, 100, most=5, least=0.01)
    assert axis.low <= 0.333 <= axis.high
    assert axis.ticks() == [0.33, 0.34]
    assert round_step(0, most=5, least=0.01) == 0.01


def test_a_heat_map_of_one_class_is_drawn():
    svg = ET.fromstring(
        heat_map(["a"], np.ones((1, 1)), [["3"]], ("is", "as"), "u", "t", "d", True)
    )
    assert [rect.get("fill-opacity") for rect in svg.iter("rect")] == ["1.00"]


@pytest.mark.parametrize(("C", "n"), [(1, 10), (2, 3), (SHOWN, 100)])
def test_every_number_of_classes_has_a_page(C, n):
    page = render_report("m", some_metrics(C=C, n=n), ABOUT)
    Page(page)
    figures(page)
    assert "nan" not in re.sub(r"<[^>]*>", "", page).lower().split()


def test_the_page_says_whether_links_help():
    found = some_metrics()

    def page_of(share, chance, links=500):
        known = found.known_links._replace(share=share, chance=chance, links=links)
        return render_report("m", replace(found, known_links=known), ABOUT)

    assert "far more than chance" in page_of(0.8, 0.3)
    assert "links will hardly help" in page_of(0.32, 0.3)
    assert "less than chance" in page_of(0.05, 0.3)
    assert "so this is a rough estimate" not in page_of(0.8, 0.3)
    assert "Only 7 links could be counted, so this is a rough estimate." in page_of(
        0.8, 0.3, links=7
    )
    assert "of predicted class join" in page_of(0.0, 0.3, links=0)


def test_names_are_made_plain():
    assert plain(" a\n\tb\x07 ") == "a b\ufffd"


# Colours ------------------------------------------------------------------------------------------

SEEN = {
    "all cones": np.eye(3),
    "no red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
}


def lab(colour, sees):
    """CIELAB of a colour as it is seen."""
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(SEEN[sees]) @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ linear / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sees", SEEN)
@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_classes_differ_in_colour_or_in_shape(colours, sees):
    assert len({(i % len(colours), i % SHAPES) for i in range(SHOWN)}) == SHOWN
    seen = [lab(colour, sees) for colour in colours]
    for i in range(len(colours)):
        for j in range(i):
            # 10 is a difference that nobody overlooks; a shape of its own needs no colour
            apart = np.linalg.norm(seen[i] - seen[j])
            assert apart > 10 or i % SHAPES != j % SHAPES, (colours[i], colours[j], apart)


# In the model directory ---------------------------------------------------------------------------


@pytest.fixture
def tables(tmp_path, planted):
    def write(name, first, last):
        nodes, links = tmp_path / f"{name}.csv", tmp_path / f"{name}-links.csv"
        x, y = planted.features, planted.labels
        rows = [
            f"<n{i}>,{','.join(map(str, x[i]))},{'<a>' if y[i] else '&b'}"
            for i in range(first, last)
        ]
        nodes.write_text("\n".join(["id,p,q,r,s,t,u,kind", *rows]) + "\n")
        inside = [(a, b) for a, b in planted.links.tolist() if first <= a and b < last]
        links.write_text("\n".join(["a,b", *(f"<n{a}>,<n{b}>" for a, b in inside)]) + "\n")
        return Tables(nodes, links, "id", "kind")

    return write


def test_training_writes_a_report_and_an_update_removes_it(tables, tmp_path):
    out = tmp_path / "a & b"
    options = Options(epochs=2, held_out=0.3, device="cpu", replicas=2)
    saved = pipeline.train(tables("old", 0, 50), out, options)
    page = (out / "report.html").read_text("utf-8")
    assert page == saved.report_html
    assert Page(page).ids[0] == "estimates"
    assert "<h1>a &amp; b</h1>" in page
    assert "&lt;a&gt;" in page
    assert "<a>" not in page
    for score in saved.about["estimates"]["new_rows"]:
        assert f"<b>{100 * score['value']:.1f}\xa0%</b>" in page
    for sentence in saved.about["estimates"]["verdict"]:
        assert sentence in page
    # A single evaluation is no curve.
    assert [id for id in Page(page).ids if id in SECTIONS] == SECTIONS[1:]
    assert load_model(out).report_html is None
    updating.update(out, tables("new", 40, 60), out, epochs=1, device="cpu")
    assert not (out / "report.html").exists()
    assert "no report" in (out / "README.md").read_text("utf-8")


def test_a_report_without_held_out_nodes(tables, tmp_path):
    options = Options(epochs=1, held_out=0, device="cpu")
    saved = pipeline.train(tables("old", 0, 50), tmp_path / "m", options)
    assert NO_VALIDATION in saved.report_html


def test_card_and_report_state_the_same_validation_nodes(tables, tmp_path):
    """Replicas share validation nodes, so there are fewer nodes than predictions."""
    options = Options(method="colinkdist", epochs=3, held_out=0.3, device="cpu", replicas=3)
    saved = pipeline.train(tables("old", 0, 50), tmp_path / "m", options)
    page = " ".join("".join(Page(saved.report_html).text).split())
    card = (tmp_path / "m" / "README.md").read_text("utf-8")
    predictions = int(np.sum(saved.about["confusion"]))
    nodes = saved.about["scores"]["validation nodes"]
    assert nodes < predictions
    assert {int(n) for n in re.findall(r"(\d+) validation node", page)} == {nodes}
    assert f"{predictions} nodes" not in page
    assert f"3 replicas made {predictions} predictions for {nodes} validation nodes" in page
    assert f"of {predictions} predictions are wrong" in page or "all predictions are" in page
    assert f"| validation nodes | {nodes} |" in card
    assert f"The replicas made {predictions} predictions for {nodes} validation nodes;" in card
