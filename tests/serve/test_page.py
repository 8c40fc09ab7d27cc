"""The page in a real browser, with a real service behind it.

Oracle: what the service answers to the same question without the page. Pictures of the page are
left in artefacts/.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "examples" / "papers"
NEW = PAPERS / "new_nodes.csv"
PICTURES = ROOT / "artefacts"

NODE = {"title": "photon change plasma vacuum", "venue": "letters", "year": 1985}
FIELDS = {"title": "#field-0", "venue": "#field-1", "year": "#field-2"}


@pytest.fixture(scope="module")
def model(service):
    with urlopen(f"{service}/v1/model") as answer:
        return json.load(answer)


def ask(service, path, body, **headers):
    with urlopen(Request(service + path, body, headers)) as answer:
        return answer.read()


def predicted(service, row):
    body = json.dumps({"rows": [row]}).encode()
    answer = ask(service, "/v1/predict", body, **{"Content-Type": "application/json"})
    return json.loads(answer)["predictions"][0]


def predicted_table(service, name, content):
    path = f"/v1/predict/table?name={name}"
    return ask(service, path, content, **{"Content-Type": "application/octet-stream"})


def keep(page, name):
    PICTURES.mkdir(exist_ok=True)
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def enter(page, node):
    """Fill in the form; a column with few values is a choice."""
    for name, value in node.items():
        field = page.get_by_label(name, exact=True)
        if field.evaluate("field => field.localName") == "select":
            field.select_option(value)
        else:
            field.fill(str(value))


def classify(page, node):
    enter(page, node)
    page.get_by_role("button", name="Classify").click()
    page.wait_for_selector('#result[data-state="shown"]')


def percent(share):
    if 0 < share < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= share < 1 else f"{100 * share:.1f}%"


def bars(page, where):
    names = page.locator(f"{where} li > :first-child").all_inner_texts()
    return dict(zip(names, page.locator(f"{where} li > .number").all_inner_texts(), strict=True))


# One node -----------------------------------------------------------------------------------------


def test_what_the_model_is(page, model):
    assert page.title() == f"{model['name']} · LinkDist"
    told = page.locator("header").inner_text()
    assert "Predicts a node’s field" in told
    for name in [*model["classes"], *(column["name"] for column in model["columns"])]:
        assert name in told
    for key, value in model["scores"].items():
        if key.startswith("accuracy"):
            assert percent(value) in told
    picture = page.locator("#curve-image")
    assert "Selected:" in picture.get_attribute("alt")
    picture.scroll_into_view_if_needed()
    page.wait_for_function("document.getElementById('curve-image').naturalWidth > 0")
    assert bars(page, "#groups").keys() == model["data"]["labels"].keys()


def test_the_card_is_rendered(page, model):
    page.get_by_text("Model card").click()
    lines = model["card"].splitlines()
    titles = [line[3:] for line in lines if line.startswith("## ")]
    assert page.locator("#card-text h4").all_inner_texts() == titles
    rules = sum(line.startswith("| ---") for line in lines)
    assert page.locator("#card-text table").count() == rules
    assert page.locator("#card-text pre").count() == lines.count("```")
    words = page.locator("#card-text :is(h3, h4, p, li, td, th)").all_inner_texts()
    assert not set("`|#\\*") & set("".join(words)), "marks are gone"


def test_a_node_is_classified_by_the_form(page, service):
    answer = predicted(service, NODE)
    classify(page, NODE)
    verdict = page.locator("#verdict").inner_text()
    assert verdict.split() == [answer["label"], percent(answer["confidence"])]
    ordered = sorted(answer["probabilities"].items(), key=lambda pair: -pair[1])
    assert list(bars(page, "#bars").items()) == [(name, percent(p)) for name, p in ordered]
    tracks = page.locator("#bars .track").evaluate_all(
        "all => all.map(track => track.firstChild.clientWidth / track.clientWidth)"
    )
    assert tracks == pytest.approx([p for _, p in ordered], abs=0.01)
    said = page.locator("#result-said[role=status]").text_content()
    assert said.startswith(f"field: {answer['label']}, confidence {percent(answer['confidence'])}")
    keep(page, "result")


def test_an_empty_field_is_a_missing_value(page, service):
    answer = predicted(service, {"title": NODE["title"]})
    classify(page, {"title": NODE["title"]})
    assert page.locator("#verdict").inner_text().split()[0] == answer["label"]
    assert percent(answer["confidence"]) in page.locator("#verdict").inner_text()


def test_a_change_makes_the_result_old(page):
    classify(page, NODE)
    page.get_by_label("year", exact=True).fill("1986")
    assert page.locator("#result").get_attribute("data-state") == "stale"
    page.get_by_role("button", name="Clear").click()
    assert page.locator("#result").get_attribute("data-state") == "empty"
    assert [page.locator(field).input_value() for field in FIELDS.values()] == ["", "", ""]


@pytest.mark.parametrize("typed", ["1e", "1e39"], ids=["the page sees it", "the service sees it"])
def test_a_wrong_value_is_told_next_to_its_field(page, typed):
    year = page.get_by_label("year", exact=True)
    page.get_by_label("title", exact=True).fill("photon")
    year.press_sequentially(typed)
    page.get_by_role("button", name="Classify").click()
    error = page.locator("#field-2-error")
    error.wait_for()
    assert "number" in error.inner_text()
    assert year.get_attribute("aria-invalid") == "true"
    assert "field-2-error" in year.get_attribute("aria-describedby").split()
    assert year.evaluate("field => field === document.activeElement")
    assert year.bounding_box()["y"] < error.bounding_box()["y"]
    assert page.locator(".error:visible").count() == 1
    if typed == "1e39":
        keep(page, "error")
    year.fill("1985")
    assert not error.is_visible()
    assert year.get_attribute("aria-invalid") is None


def test_an_error_of_no_field_is_told_at_the_form(page):
    page.get_by_role("button", name="Classify").click()
    assert "All fields are empty" in page.locator("#form-error").inner_text()
    page.route("**/v1/predict", lambda route: route.abort())
    page.get_by_label("title", exact=True).fill("photon")
    page.get_by_role("button", name="Classify").click()
    page.get_by_text("The service does not answer.").wait_for()
    assert page.locator("#form-error").evaluate("error => error === document.activeElement")


def tab_to(page, target):
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("id => document.activeElement.id === id", target):
            return
    pytest.fail(f"Tab does not lead to {target}")


def test_the_keyboard_alone_is_enough(page, service):
    answer = predicted(service, NODE)
    for name, value in NODE.items():
        tab_to(page, FIELDS[name].removeprefix("#"))
        page.keyboard.type(str(value))
    tab_to(page, "classify")
    page.keyboard.press("Enter")
    page.wait_for_selector('#result[data-state="shown"]')
    assert page.locator("#verdict").inner_text().split()[0] == answer["label"]
    assert page.evaluate("document.activeElement.id") == "classify"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    tab_to(page, "file")
    assert page.locator("#drop").evaluate("drop => getComputedStyle(drop).outlineStyle") == "solid"


# A table ------------------------------------------------------------------------------------------


def check_table(page, service, name, content):
    """What is shown and downloaded is what the service gives for the same file."""
    page.locator("#done").wait_for()
    if content == NEW.read_bytes():
        told = ["column 'year': of 748 values, 40 are missing."]
        assert page.locator("#table-notices li").all_inner_texts() == told
    expected = predicted_table(service, name, content)
    rows = list(csv.DictReader(expected.decode().splitlines()))
    with page.expect_download() as download:
        page.get_by_role("link", name="Download predictions.csv").click()
    assert download.value.suggested_filename == "predictions.csv"
    assert Path(download.value.path()).read_bytes() == expected
    assert page.locator("#done-words").inner_text() == f"{len(rows)} rows classified"
    counts = Counter(row["label"] for row in rows)
    shown = {label: int(words.split()[0]) for label, words in bars(page, "#counts").items()}
    assert {label: count for label, count in shown.items() if count} == counts
    cells = page.locator("#preview tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert cells == [
        [row["paper"], row["label"], percent(float(row["confidence"]))] for row in rows[:10]
    ]


def test_a_file_is_classified_and_downloaded(page, service):
    page.set_input_files("#file", NEW)
    page.locator("#done").wait_for()
    assert page.evaluate("document.activeElement.id") == "done-words"
    check_table(page, service, "new_nodes.csv", NEW.read_bytes())
    keep(page, "table")


def test_a_dropped_file_is_taken_and_the_next_one_too(page, service):
    text = NEW.read_text()
    drop = """([text, name]) => {
        const dropped = new DataTransfer();
        dropped.items.add(new File([text], name));
        const init = { dataTransfer: dropped, bubbles: true, cancelable: true };
        for (const kind of ["dragenter", "dragover", "drop"])
            document.getElementById("drop").dispatchEvent(new DragEvent(kind, init));
    }"""
    page.evaluate(drop, [text, "new_nodes.csv"])
    check_table(page, service, "new_nodes.csv", text.encode())
    few = "".join(text.splitlines(keepends=True)[:4])
    page.evaluate(drop, [few, "few.csv"])
    page.get_by_text("3 rows classified").wait_for()
    check_table(page, service, "few.csv", few.encode())


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("links.csv", b"from,to\nP1,P2\n", "title"),
        ("notes.txt", b"Dear diary", "notes.txt does not have the name of a CSV, JSON"),
        ("none.csv", b"", "none.csv is empty."),
        ("nodes.parquet", b"paper,title\n", "nodes.parquet"),
    ],
)
def test_a_bad_file_is_told_at_the_drop_area(page, name, content, told):
    page.set_input_files("#file", {"name": name, "mimeType": "", "buffer": content})
    error = page.locator("#table [role=alert]")
    error.wait_for()
    assert told in error.inner_text()
    assert page.locator("#file").get_attribute("aria-invalid") == "true"
    assert page.evaluate("document.activeElement.id") == "file"
    assert page.locator("#drop").is_visible()
    if name == "links.csv":
        keep(page, "bad-file")


def test_a_file_too_large_is_not_sent(pages, model):
    page = pages(model={**model, "limits": {**model["limits"], "file_bytes": 1000}})
    page.set_input_files("#file", NEW)
    assert "the largest size is 1000 bytes" in page.locator("#file-error").inner_text()


def test_a_running_file_can_be_cancelled(page, service):
    page.route("**/v1/predict/table*", lambda route: None)  # no answer, ever
    page.set_input_files("#file", NEW)
    page.get_by_role("button", name="Cancel").wait_for()
    assert page.evaluate("document.activeElement.id") == "cancel"
    keep(page, "running")
    page.keyboard.press("Enter")
    page.locator("#drop").wait_for()
    assert page.evaluate("document.activeElement.id") == "file"
    page.unroute("**/v1/predict/table*")
    page.set_input_files("#file", NEW)
    check_table(page, service, "new_nodes.csv", NEW.read_bytes())


def test_an_answer_that_breaks_off_is_no_result(page):
    lines = '{"total": 2}\n{"done": 1, "csv": "label,confidence,p_a\\n\\"a\\",1,1\\n"}\n'
    page.route("**/v1/predict/table*", lambda route: route.fulfill(body=lines))
    page.set_input_files("#file", NEW)
    page.get_by_text("The connection was lost").wait_for()
    assert not page.locator("#done").is_visible()


# Other models, other screens ----------------------------------------------------------------------


def test_a_model_of_bare_features(pages, model):
    bare = {**model, "columns": None, "features": 3, "label": None, "id": None}
    page = pages(model={**bare, "scores": {}, "data": {}, "training": {}, "has_curve": False})
    asked = []
    answer = {"label": "a", "confidence": 1, "probabilities": {"a": 1}, "mode": "features"}
    page.route(
        "**/v1/predict",
        lambda route: (
            asked.append(route.request.post_data_json),
            route.fulfill(json={"version": model["version"], "predictions": [answer]}),
        ),
    )
    numbers = page.get_by_label("Features")
    for typed, told in [("1, 2", "Add 1."), ("1 2 3 4", "Remove 1."), ("1;x;3", "Entry 2")]:
        numbers.fill(typed)
        page.get_by_role("button", name="Classify").click()
        assert told in page.locator("#field-0-error").inner_text()
    numbers.fill("[1, -2.5\n3e2]")
    page.get_by_role("button", name="Classify").click()
    page.wait_for_selector('#result[data-state="shown"]')
    assert asked == [{"rows": [[1, -2.5, 300]]}]
    assert not page.locator("#drop").is_visible(), "such a model reads no tables"


def test_dates_and_tags_have_fields_and_notices_are_shown(pages, model):
    columns = [
        {"name": "day", "kind": "date", "example": "05/31/2004"},
        {"name": "genre", "kind": "tags", "values": ["war", "love"], "separator": "|"},
        {"name": "topics", "kind": "tags:binary", "values": ["a b"], "separator": None},
        {"name": "price", "kind": "numeric", "example": 3.5},
    ]
    page = pages(model={**model, "columns": columns})
    asked, notices = [], ["column 'price': of 1 value, 1 is missing.", "<b>"]
    answer = {"label": "a", "confidence": 1, "probabilities": {"a": 1}, "mode": "features"}
    told = {"version": model["version"], "predictions": [answer], "notices": notices}
    page.route(
        "**/v1/predict",
        lambda route: (asked.append(route.request.post_data_json), route.fulfill(json=told)),
    )
    hints = page.locator("#fields .hint").all_inner_texts()
    assert hints[:2] == ["A date, such as 05/31/2004", "Tags, separated by bars, such as war|love"]
    page.get_by_label("genre", exact=True).fill("war|pop")
    assert "This tag was not in the training data" in page.locator("#field-1-hint").inner_text()
    classify(page, {"day": "06/01/2004", "genre": "war| love|", "topics": "a b, c"})
    row = {"day": "06/01/2004", "genre": ["war", "love"], "topics": ["a b", "c"], "price": None}
    assert asked == [{"rows": [row]}]
    assert page.locator("#notices li").all_inner_texts() == notices
    page.get_by_role("button", name="Clear").click()
    assert not page.locator("#notices").is_visible()


def test_many_classes_are_folded_and_a_new_model_is_told(pages, model):
    shares = {f"class {i}": 2.0 ** -(i + 1) for i in range(30)}
    vector = {"name": "embedding", "kind": "vector", "width": 2}
    other = {**model, "classes": list(shares), "columns": [vector], "version": "older"}
    page = pages(model={**other, "refused": {"at": "2026-11-15T12:00:00Z", "reason": "It is cut."}})
    assert "It is cut." in page.locator("#refused").inner_text()
    answer = {"label": "class 0", "confidence": 0.5, "probabilities": shares, "mode": "features"}
    page.route(
        "**/v1/predict",
        lambda route: route.fulfill(json={"version": "newer", "predictions": [answer]}),
    )
    classify(page, {"embedding": "1, 2"})
    page.get_by_text("The service uses a new model now.").wait_for()
    assert page.locator("#bars li:visible").count() == 10
    page.locator("#bars").get_by_role("button", name="Show all 30").click()
    assert page.locator("#bars li:visible").count() == 30
    page.locator("#bars").get_by_role("button", name="Show the first 10").click()
    assert page.locator("#bars li:visible").count() == 10


def test_what_a_model_says_stays_text(pages, model):
    bad = "<img src=x onerror=alert(1)>"
    hostile = {**model, "name": bad, "label": bad, "classes": [bad, "b"], "id": bad}
    hostile["columns"] = [{"name": bad, "kind": "categorical", "values": [bad]}]
    hostile["card"] = f"# {bad}\n\n- {bad}\n\n| {bad} |\n| --- |\n| `{bad}` |\n\n[a](javascript:1)"
    hostile["data"] = {bad: bad, "labels": {bad: 1}}
    hostile["refused"] = {"at": bad, "reason": bad}
    page = pages(model=hostile)
    page.get_by_text("Model card").click()
    assert page.locator("h1:visible").inner_text() == bad
    assert page.locator("img[onerror], #card-text img, #card-text a").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_wide_and_tall(pages, scheme):
    page = pages(scheme=scheme)
    page.wait_for_function("document.getElementById('curve-image').complete")
    keep(page, scheme)


def test_a_phone_needs_no_scrolling_to_the_side(pages, model):
    long = "a_column_with_a_name_that_no_phone_is_wide_enough_for_" * 2
    columns = [*model["columns"], {"name": long, "kind": "vector", "width": 500}]
    for about in (model, {**model, "name": long, "classes": [long, "b"], "columns": columns}):
        page = pages(360, 740, model=about)
        page.get_by_text("Model card").click()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    page = pages(360, 740)
    classify(page, NODE)
    page.set_input_files("#file", NEW)
    page.locator("#done").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    keep(page, "phone")
    page.set_input_files("#file", {"name": f"{long}.txt", "mimeType": "", "buffer": b"x"})
    page.locator("#file-error").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """WCAG 2's ratio of contrast."""
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_keep_wcags_contrast(pages, scheme):
    page = pages(scheme=scheme)
    style = "name => getComputedStyle(document.documentElement).getPropertyValue('--' + name)"
    text = {
        "ink": ["page", "card", "inset", "warn-page"],
        "muted": ["page", "card", "inset"],
        "accent": ["card", "inset"],
        "on-accent": ["accent", "accent-deep"],
        "wrong": ["card", "wrong-page"],
    }
    shapes = {
        "edge": ["card", "page"],
        "accent": ["track", "track-inset"],
        "warn": ["track-inset"],
    }
    for pairs, least in [(text, 4.5), (shapes, 3)]:
        for front, backs in pairs.items():
            for back in backs:
                ratio = contrast(page.evaluate(style, front), page.evaluate(style, back))
                assert ratio >= least, f"{front} on {back}: {ratio:.2f}"


def test_nothing_goes_wrong_on_the_way(browser, service):
    """No answer is an error either, and Chromium's policy for the page is never broken."""
    context = browser.new_context()
    page = context.new_page()
    told, asked = [], []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(service)
    page.wait_for_selector("#app:not([hidden])")
    classify(page, NODE)
    page.set_input_files("#file", NEW)
    page.locator("#done").wait_for()
    with page.expect_download():
        page.get_by_role("link", name="Download predictions.csv").click()
    page.get_by_text("Model card").click()
    context.close()
    assert told == []
    assert {url for url in asked if not url.startswith((service, f"blob:{service}"))} == set()
