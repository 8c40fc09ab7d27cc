"""The page of models that predict numbers or several labels, in a real browser.

Oracle: what the service answers to the same request without the page.
"""

import csv
import json
import math
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest

from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.tables.feature_encoder import make_feature_encoder
from tests.serve.test_page import bars, enter, keep, percent
from tests.serve.test_page_explain import check_parts, explained, log_odds, shown_parts
from tests.serving import serving
from tests.task_models import about_task, task_model

NODE = {"size": 3.5, "kind": "north"}
TABLE = "node,size,kind,age\nN0,-3,north,0\nN1,0,south,1\nN2,9,,2\n"
SCORES = {
    "regression": {"R² from features": 0.8125, "mean absolute error from features": 12.5},
    "multilabel": {"micro F1 from features": 0.875},
}
FORMS = {"lists": {"separator": ";"}, "columns": {"binary": True}}
"""How the labels of the training are written."""


def save(folder, task, **about):
    encoders = make_feature_encoder({"size": "numeric", "kind": "categorical", "age": "numeric"})
    batch = {"size": [1.0, 4.0], "kind": ["north", "south"], "age": [0.0, 9.0]}
    encoders.partial_fit(pa.record_batch(batch))
    scores = {"validation nodes": 40, **SCORES[task]}
    about = about_task(task, scores=scores, data={"nodes": 60, "labels": {"even": 9}}, **about)
    save_model(folder, with_onnx(Saved(task_model(task), encoders, about)))
    return folder


@pytest.fixture
def opened(browser, tmp_path, request):
    """A page and the address of its service; nothing may go wrong on the page."""
    task, about = request.param
    wrong = []
    with serving(save(tmp_path / "model", task, **about)) as service:
        context = browser.new_context(viewport={"width": 1000, "height": 900})
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(service.url)
        page.wait_for_selector("#app:not([hidden])")
        yield page, service.url
        context.close()
    assert wrong == []


def post(url, path, body, kind):
    with urlopen(Request(url + path, body, {"Content-Type": kind})) as answer:
        return answer.read()


def predict_node(page, url):
    """Fill in the form, and return the answer of the service to the same row."""
    assert page.locator("#one").inner_text() == "Predict one node"
    assert page.locator("#verdict").inner_text() == "No result yet"
    enter(page, NODE)
    page.get_by_role("button", name="Predict").click()
    page.wait_for_selector('#result[data-state="shown"]')
    body = json.dumps({"rows": [NODE]}).encode()
    (one,) = json.loads(post(url, "/v1/predict", body, "application/json"))["predictions"]
    return one


def predict_table(page, url):
    """Upload a table, and return the rows that the service predicts."""
    content = TABLE.encode()
    page.set_input_files("#file", {"name": "x.csv", "mimeType": "text/csv", "buffer": content})
    page.wait_for_selector("#done:not([hidden])")
    assert page.locator("#done-words").inner_text() == "3 rows predicted"
    answer = post(url, "/v1/predict/table?name=x.csv", content, "application/octet-stream")
    return list(csv.DictReader(answer.decode().splitlines()))


def texts(page, where):
    return page.locator(where).all_inner_texts()


def preview(page):
    return [row.split("\t") for row in texts(page, "#preview tbody tr")]


def number(value):
    """Five significant digits, as the page writes them."""
    rounded = float(f"{float(value):.5g}")
    return f"{rounded:,.10f}".rstrip("0").rstrip(".")


def ask_why(page, url):
    """Press the button, and return the explanations of the service."""
    page.get_by_role("button", name="Why?").click()
    page.locator("#explanation").wait_for()
    return explained(url, {"rows": [NODE]})


@pytest.mark.parametrize("opened", [("regression", {})], indirect=True)
def test_a_number_has_its_interval(opened):
    page, url = opened
    header = page.locator("header").inner_text()
    assert "Predicts a node’s target, a number, from 3 columns." in header
    for text in ("R² from features", "0.8125", "Mean absolute error from features", "12.5"):
        assert text in header
    one = predict_node(page, url)
    assert page.locator("#verdict").inner_text() == number(one["predicted"])
    assert texts(page, "#bars .interval .number") == [number(one["low"]), number(one["high"])]
    words = f"The 90% prediction interval is {number(one['low'])} to {number(one['high'])}."
    assert texts(page, "#bars .hint") == [words]
    said = page.locator("#result-said").text_content()
    assert said == f"target: {number(one['predicted'])}. {words}"
    (why,) = ask_why(page, url)
    largest = max(abs(why[key]) for key in ("base", "score"))
    digits = 4 - math.floor(math.log10(largest))
    check_parts(shown_parts(page), why["parts"], lambda value: f"{value:+.{digits}f}")
    assert texts(page, "#explanation dd") == [
        f"{value:+.{digits}f}" for value in (why["base"], why["score"] - why["base"], why["score"])
    ]
    assert texts(page, "#explanation .sides span") == ["◂ lowers margin", "raises margin ▸"]
    assert "The numbers are in the unit of margin." in page.inner_text("#explanation")
    rows = predict_table(page, url)
    values = [float(row["predicted"]) for row in rows]
    assert texts(page, "#counts dd") == list(
        map(number, (min(values), sum(values) / 3, max(values)))
    )
    assert preview(page) == [
        [row["node"], *(number(row[name]) for name in ("predicted", "low", "high"))] for row in rows
    ]
    keep(page, "regression")


@pytest.mark.parametrize("opened", [("regression", {"decision": {}})], indirect=True)
def test_a_number_without_an_interval_says_why(opened):
    page, url = opened
    one = predict_node(page, url)
    assert one["low"] is None
    assert page.locator("#bars .interval").count() == 0
    assert "The model has no prediction intervals" in page.locator("#bars").inner_text()
    assert [row[2:] for row in preview_after(page, url)] == [["–", "–"]] * 3


def preview_after(page, url):
    predict_table(page, url)
    return preview(page)


@pytest.mark.parametrize(
    "opened", [("multilabel", {"label_format": form}) for form in FORMS.values()], indirect=True,
    ids=FORMS,
)  # fmt: skip
def test_labels_are_chips_with_probabilities(opened):
    page, url = opened
    header = page.locator("header").inner_text()
    assert "Predicts a node’s target (any of even and loop) from 3 columns." in header
    assert "87.5%" in header
    assert bars(page, "#groups") == {"even": "9"}
    one = predict_node(page, url)
    shares = {name: percent(p) for name, p in one["probabilities"].items()}
    chips = [f"{name} {shares[name]}" for name in one["labels"]]
    assert texts(page, "#verdict .chip") == chips
    if not chips:
        assert page.locator("#verdict").inner_text() == "No label"
    assert bars(page, "#bars") == shares
    marks = page.locator("#bars .mark").evaluate_all("all => all.map(mark => mark.style.left)")
    assert sorted(marks) == ["30%", "60%"]
    chosen = page.locator('#bars [data-chosen="true"] > :first-child').all_inner_texts()
    assert sorted(chosen) == sorted(one["labels"])
    why = ask_why(page, url)
    assert texts(page, "#explanation summary") == [
        f"{label} {shares[label]}" for label in one["labels"] if len(why) > 1
    ]
    check_parts(shown_parts(page)[: len(why[0]["parts"])], why[0]["parts"], log_odds)
    rows = predict_table(page, url)
    names = list(one["probabilities"])
    if "labels" in rows[0]:
        decided = [row["labels"].split(";") if row["labels"] else [] for row in rows]
    else:
        decided = [[name for name in names if row[name] == "1"] for row in rows]
    assert preview(page) == [
        [row["node"], ", ".join(labels) or "–"] for row, labels in zip(rows, decided, strict=True)
    ]
    counts = {name: sum(name in labels for labels in decided) for name in names}
    assert bars(page, "#counts") == {
        name: f"{count} ({percent(count / 3)})" for name, count in counts.items()
    }
    keep(page, "labels")
