"""Oracles: the page read back by parsers; texts and places worked by hand."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from linkdist.artifacts.model_card import LIMITS_OF_TASK, model_card
from linkdist.cli import train as command
from linkdist.report.card import model_html
from linkdist.report.hidden_map import HiddenMap
from linkdist.report.html import render_report
from linkdist.report.metrics import evaluate
from linkdist.report.score_chart import is_cut, score_chart
from linkdist.report.score_text import measure_named
from linkdist.report.task_metrics import (
    TaskMetrics,
    TaskValidation,
    evaluate_labels,
    evaluate_numbers,
)
from linkdist.training.panel.estimates import Estimates, RelationWorth, Score
from tests.report.test_html import ABOUT, HOSTILE, Page, figures, some_metrics

NAN = float("nan")
OURS = ("this model, from features", "this model, with links")


def estimates_of(measure, values, low=0.05, **changes):
    scores = [Score(name, v, v - low, v + low, i == 1) for i, (name, v) in enumerate(values)]
    found = Estimates(60, "folds", scores[:2], [], scores[2:], ["One sentence."], measure=measure)
    return replace(found, **changes)


R2 = estimates_of("r2", [*zip(OURS, (0.5, 0.75), strict=True), ("mean", -0.01)])
MAE = estimates_of("mae", [*zip(OURS, (3.5e4, 2e4), strict=True), ("mean", 5e4)], low=1000.0)
F1 = estimates_of("micro-f1", zip(OURS, (0.8, 0.9), strict=True))


def task_metrics(task="regression", estimates=R2, names=None, width=1.5, **changes):
    random = np.random.default_rng(0)
    names = names or (("price",) if task == "regression" else ("even", "above", "loop"))
    n, C = 80, len(names)
    numbers, labels = {}, {}
    for mode, noise in (("features", 1.0), ("links", 0.5)):
        truth = random.normal(100, 3, n)
        if task == "regression":
            numbers[mode] = evaluate_numbers(truth + random.normal(0, noise, n), truth, width)
        else:
            rows = random.integers(0, 2, (n, C))
            p = np.clip(0.2 + 0.5 * rows + random.normal(0, noise / 3, rows.shape), 0, 1)
            labels[mode] = evaluate_labels(p, rows, names, [0.25] * C)
    groups = ("below 1", "from 1")
    places, known = random.normal(size=(n, 2)), random.random(n) < 0.5
    ids = [f"n{i}" for i in range(n)]
    found = TaskMetrics(
        task, tuple(names), n, 60, 200, 1,
        TaskValidation(60, numbers, labels, {}), 120, np.full(C, 0.5), np.full(C, 30),
        HiddenMap("t-SNE", places, ids, random.integers(0, 2, n), known, task == "regression"),
        groups, estimates,
    )  # fmt: skip
    return replace(found, **changes)


def text_of(page):
    return " ".join("".join(Page(page).text).split())


def ids_of(page):
    return [
        attrs["aria-labelledby"]
        for tag, attrs in Page(page).tags
        if tag == "section" and "aria-labelledby" in attrs
    ]


def test_a_page_of_numbers():
    found = task_metrics()
    page = render_report("m", found, {**ABOUT, "label": "price"})
    assert ids_of(page) == ["estimates", "numbers", "errors", "map", "links"]
    read = Page(page)
    assert len(set(read.ids)) == len(read.ids)
    assert len(figures(page)) == 1 + 2 + 1 + 1
    for svg in figures(page):
        assert svg.find("title").text
        assert svg.find("desc").text
    text = text_of(page)
    scores = found.validation.numbers["features"].scores
    for part in (
        "This model predicts a number, the “price” of a node. Its R² was measured on 60 labelled",
        "R² from features0.500 for new rows; 90 % interval 0.450 to 0.550",
        f"is off by {scores.mae:.4g} on average",
        "The prediction interval is the prediction ± 1.5 from features and ± 1.5 with links.",
        f"from features it contains {100 * scores.coverage:.1f} % of them",
        "the numbers at the two ends have a correlation of 0.50",
        "baselines with a dot to its right are better. R² is the share of the variance",
        "hollow: predicted number, the label is unknown",
    ):
        assert part in text
    assert f"{scores.r2:.3f}" in text
    assert "class" not in text
    assert "The chart ends" not in text


def test_a_page_of_several_labels():
    found = task_metrics("multilabel", F1)
    page = render_report("m", found, {**ABOUT, "label": ["even", "above", "loop"]})
    assert ids_of(page) == ["estimates", "labels", "map", "links"]
    assert len(figures(page)) == 3
    text = text_of(page)
    assert "predicts which of 3 labels a node has (“even, above and loop”)." in text
    assert "Micro F1 from features80.0 %" in text
    (table,) = re.findall(r'<table class="scores">.*?</table>', page, re.S)
    rows = [["".join(cell.itertext()) for cell in row] for row in ET.fromstring(table).iter("tr")]
    own, linked = (found.validation.labels[mode].labels for mode in ("features", "links"))
    for row, one, other in zip(rows[2:], own, linked, strict=True):
        shown = [
            cell
            for part in (one, other)
            for cell in (
                "0.25",
                *(f"{100 * v:.1f}\xa0%" for v in (part.precision, part.recall, part.f1)),
            )
        ]
        assert row == [one.name, str(one.rows), "0.50", *shown]


@pytest.mark.parametrize(
    ("task", "words"), [("regression", "chart of errors or"), ("multilabel", "scores by label or")]
)
def test_pages_without_validation_nodes(task, words):
    page = render_report("m", task_metrics(task, None, validation=None, map=None), ABOUT)
    assert f"There are no validation nodes, so this page has no scores, {words}" in text_of(page)
    assert ids_of(page) == ["links"]


def test_a_page_without_a_prediction_interval():
    text = text_of(render_report("m", task_metrics(width=np.inf), ABOUT))
    assert "too few validation nodes for a prediction interval" in text
    assert "±" not in text


@pytest.mark.parametrize("changes", [{"links": 0, "joined": 0}, {"joined": 0}, {"joined": 3}])
def test_pages_without_a_correlation(changes):
    page = render_report("m", task_metrics(correlation=np.array([NAN]), **changes), ABOUT)
    assert "Correlation over links" not in page
    assert "nan" not in text_of(page).lower().split()


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_hostile_names_do_nothing(task):
    names = HOSTILE if task == "multilabel" else HOSTILE[:1]
    relations = [RelationWorth(name, 0.0, 0.5) for name in HOSTILE]
    estimates = replace(R2 if task == "regression" else F1, relations=relations)
    found = task_metrics(task, estimates, names, groups=tuple(HOSTILE[:2]), relations=relations)
    page = render_report(HOSTILE[0], found, {**ABOUT, "label": HOSTILE})
    plain = task_metrics(task, estimates, relations=relations)
    tags = {tag for tag, _ in Page(render_report("m", plain, ABOUT)).tags}
    assert {tag for tag, _ in Page(page).tags} <= tags | {"span"}
    assert not [name for _, attrs in Page(page).tags for name in attrs if name.startswith("on")]
    for sign in "\x00\x1b\u202e\ud800":
        assert sign not in page


def test_the_rows_of_an_unseen_graph():
    other = replace(R2, rows="rows of other graphs")
    text = text_of(render_report("m", task_metrics(estimates=other), ABOUT))
    unseen = "those of rows of an unseen graph"
    assert f"trained without its whole graph. The scores are {unseen}" in text
    assert "This model, rows of other graphs" in text
    card = model_card("m", {"estimates": other.as_json()}, ["a", "b"])
    assert f"the scores are {unseen}" in card
    assert "measured on graphs that training has not seen. Nodes from another source" in card


# Scores of other measures -------------------------------------------------------------------------


def dots(estimates):
    svg = ET.fromstring(score_chart(estimates))
    return [float(dot.get("cx")) for dot in svg.iter("circle")], svg


def test_an_error_is_drawn_from_zero():
    places, svg = dots(MAE)
    ticks = [text for text in svg.iter("text") if text.get("class") == "tick"]
    start, end = (float(tick.get("x")) for tick in (ticks[0], ticks[-1]))
    low, high = (float(tick.text.replace(",", "")) for tick in (ticks[0], ticks[-1]))
    assert low == 0
    expected = [start + v / high * (end - start) for v in (3.5e4, 2e4, 5e4)]
    assert places == pytest.approx(expected, abs=0.06)
    text = text_of(render_report("m", task_metrics(estimates=MAE), ABOUT))
    assert "baselines with a dot to its left are better. It is in the unit of the labels." in text
    assert "Mean absolute error from features35,000 for new rows" in text


def test_a_very_bad_score_is_at_the_edge():
    bad = estimates_of("r2", [*zip(OURS, (0.5, 0.75), strict=True), ("tree", -40.0)])
    places, svg = dots(bad)
    assert is_cut(bad)
    assert not is_cut(R2)
    assert places[2] == 28.0
    assert "-40.000" in "".join(svg.itertext())


def test_a_score_that_is_not_defined_has_no_dot():
    unknown = replace(F1, baselines=[Score("b", NAN, NAN, NAN, False)], measure="roc-auc")
    places, svg = dots(unknown)
    assert len(places) == 2
    assert "undefined" in "".join(svg.itertext())
    assert "undefined" in text_of(render_report("m", task_metrics("multilabel", unknown), ABOUT))
    stored = unknown.as_json()
    card = model_card("m", {"estimates": stored}, ["a"])
    assert "| b, new rows | undefined | undefined to undefined | no |" in card
    stored["baselines"][0] |= dict.fromkeys(("value", "low", "high"))  # JSON has no NaN
    assert model_card("m", {"estimates": stored}, ["a"]) == card


def test_a_rare_class_has_a_curve_and_operating_points():
    found = some_metrics(C=2)
    page = render_report("m", found, ABOUT)
    assert "ranking" in ids_of(page)
    assert len(figures(page)) == 9
    ranking = found.validation.modes["features"].ranking
    text = text_of(page)
    assert f"the ROC AUC is {100 * ranking.roc_auc:.1f} %" in text
    (table,) = re.findall(r'<table class="points">.*?</table>', page, re.S)
    rows = [["".join(cell.itertext()) for cell in row] for row in ET.fromstring(table).iter("tr")]
    for row, point in zip(rows[1:], [*ranking.table, ranking.chosen], strict=True):
        shares = (point.precision, point.recall, point.share)
        assert row[1:] == [f"{100 * share:.1f}\xa0%" for share in shares]
    assert rows[-1][0] == "0.5 (in use)"
    assert "ranking" not in ids_of(render_report("m", some_metrics(C=3), ABOUT))
    assert evaluate(np.eye(2), np.array([0, 1])).ranking is None


# Relations ----------------------------------------------------------------------------------------

RELATIONS = [RelationWorth("cites", 0.75, 0.71), RelationWorth("spam", 0.0, 0.75)]


def test_relations_have_their_weight_and_worth():
    found = task_metrics(estimates=replace(R2, relations=RELATIONS), relations=RELATIONS)
    page = render_report("m", found, ABOUT)
    assert ids_of(page)[1] == "relations"
    (table,) = re.findall(r'<table class="relations">.*?</table>', page, re.S)
    rows = [["".join(cell.itertext()) for cell in row] for row in ET.fromstring(table).iter("tr")]
    assert rows == [
        ["Relation", "α", "R² without it", "Worth"],
        ["cites", "0.75", "0.710", "+0.040"],
        ["spam", "0.00", "0.750", "0.000"],
    ]
    nothing = "With α = 0, the relation spam carries nothing: predictions do not use its links."
    assert nothing in text_of(page)
    card = model_card("m", {"estimates": found.estimates.as_json()}, ["price"])
    assert "| cites | 0.75 | 0.710 | +0.040 |" in card
    assert nothing in card
    assert "## Relations" not in model_card("m", {"estimates": R2.as_json()}, ["price"])


def test_a_smaller_error_is_a_gain():
    worth = [RelationWorth("cites", 1.0, 2.5e4), RelationWorth("near", 1.0, NAN)]
    page = render_report("m", task_metrics(estimates=MAE, relations=worth), ABOUT)
    assert "<td>25,000</td><td>+5,000</td>" in page
    assert "<td>undefined</td><td>undefined</td>" in page


# Model card, Jupyter card and command line --------------------------------------------------------


def test_the_card_of_numbers():
    about = {
        "task": "regression",
        "label": "price",
        "estimates": MAE.as_json(),
        "scores": {
            "validation nodes": 60,
            "R² from features": 0.5,
            "mean absolute error with links": 3540.0,
        },
        "decision": {"widths": {"features": 7903.25, "links": None}},
    }
    card = model_card("m", about, ["price"])
    assert "predicts the `price` of a node, a number, from the features" in card
    assert "## Estimated mean absolute error" in card
    assert "| this model, from features, new rows | 35,000 | 34,000 to 36,000 | no |" in card
    assert "## Validation scores" in card
    assert "| R² from features | 0.500 |" in card
    assert "| mean absolute error with links | 3,540 |" in card
    assert "The prediction interval is the prediction ± 7903 from features. It contains" in card
    assert card.endswith(LIMITS_OF_TASK["regression"] + "\n")
    assert "class" not in card
    few = {**about, "decision": {"widths": {"features": None, "links": None}}}
    assert "too few labels for prediction intervals" in model_card("m", few, ["price"])


def test_the_card_of_several_labels():
    about = {
        "task": "multilabel",
        "label": ["even", "loop"],
        "estimates": F1.as_json(),
        "scores": {"validation nodes": 60, "micro F1 from features": 0.8},
        "decision": {"thresholds": {"features": [0.25, 0.5], "links": [0.3, 0.6]}},
    }
    card = model_card("m", about, ["even", "loop"])
    assert "predicts which of 2 labels a node has (`even` and `loop`), from the features" in card
    assert "| micro F1 from features | 80.0% |" in card
    assert "| even | 0.25 | 0.3 |\n| loop | 0.5 | 0.6 |" in card
    assert "## Labels\n\neven, loop" in card
    assert card.endswith(LIMITS_OF_TASK["multilabel"] + "\n")


def test_the_card_of_another_metric_has_its_score_and_factors():
    about = {
        "scores": {
            "validation nodes": 9,
            "accuracy from features": 0.5,
            "macro F1 from features": 0.4,
        },
        "decision": {"factors": [1.0, 2.5]},
    }
    card = model_card("m", about, ["a", "b"])
    assert "## Validation scores" in card
    assert "| macro F1 from features | 40.0% |" in card
    assert "| b | 2.5 |" in card


@pytest.mark.parametrize(
    "value", [None, 3, "x", [], [1], {"widths": 3}, {"thresholds": {"features": [1]}}]
)
def test_any_stored_decision_gives_a_card(value):
    about = {"decision": value, "label": value, "task": value, "estimates": {"relations": [value]}}
    assert model_card("m", about, ["a", "b"]).startswith("# m\n")


def test_the_jupyter_card_names_the_measure():
    about = {"task": "regression", "label": ["price"], "estimates": R2.as_json()}
    page = model_html(["price"], {"age": "numeric"}, about)
    assert "Predicts <i>price</i>: a number" in page
    assert "estimated R², from 60 labels" in page
    assert "from features, new rows: 0.500</td>" in page
    assert "0.450 to 0.550" in page
    several = model_html(["a", "b"], {}, {"task": "multilabel", "label": ["a", "b"]})
    assert "Predicts <i>a and b</i>: any of <b>a</b>, <b>b</b>" in several


@pytest.mark.parametrize(
    ("estimates", "title", "value", "interval"),
    [
        (R2, "R²", "0.500", "0.450 to 0.550"),
        (F1, "micro F1", "80.0", "75.0 to 85.0"),
        (MAE, "mean absolute error", "35,000", "34,000 to 36,000"),
        (replace(F1, measure="accuracy"), "accuracy", "80.0", "75.0 to 85.0"),
    ],
)
def test_the_printed_rows(estimates, title, value, interval):
    measure = measure_named(estimates.measure)
    first = next(iter(command._estimate_rows(estimates.as_json(), measure)))
    assert first == {
        "": OURS[0],
        "for": "new rows",
        title: value,
        "90 % interval": interval,
        "needs links": "no",
    }


def test_the_printed_relations():
    found = replace(R2, relations=RELATIONS).as_json()
    rows = list(command._relation_rows(found, measure_named("r2")))
    assert rows[0] == {"": "cites", "α": "0.75", "R² without it": "0.710", "worth": "+0.040"}
    sentences = list(command._sentences(found))
    assert sentences[0] == "One sentence."
    assert sentences[1].startswith("With α = 0, the relation spam carries nothing")
    assert list(command._relation_rows(R2.as_json(), measure_named("r2"))) == []
