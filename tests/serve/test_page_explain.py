"""The button "Why?" of the page, in a real browser.

Oracle: what the service answers to the same request without the page.
"""

import json
from urllib.request import Request, urlopen

import pytest

from tests.serve.test_page import classify, keep, percent, tab_to
from tests.serve.test_page_links import NEIGHBOURS, NODE, PASTED, paste

REQUEST = {"rows": [NODE], "neighbours": NEIGHBOURS, "links": [[0, 1], [0, 2]]}


def explained(url, request):
    head = {"Content-Type": "application/json"}
    with urlopen(Request(f"{url}/v1/explain", json.dumps(request).encode(), head)) as answer:
        return json.load(answer)["explanations"]


def log_odds(value):
    return "0.00" if round(value, 2) == 0 else f"{value:+.2f}"


def shown_parts(page, where="#explanation"):
    """The bars of an explanation: name, number, and the signed width of the bar."""
    found = page.locator(f"{where} li").evaluate_all(
        """items => items.map(item => {
            const [name, number, track] = item.children;
            const { offsetLeft: left, offsetWidth: width } = track.firstChild;
            const middle = track.offsetWidth / 2;
            const isLeft = left + width / 2 < middle;
            if (Math.abs(left + (isLeft ? width : 0) - middle) > 1) throw new Error("not centred");
            return [name.textContent, number.textContent, (isLeft ? -width : width) / middle];
        })"""
    )
    return [tuple(one) for one in found]


def check_parts(found, parts, number):
    names = {"neighbour": "neighbour "}
    assert [(name, text) for name, text, _ in found] == [
        (f"{part['column']} {names.get(part['kind'], '')}{part['value']}",
         number(part["contribution"])) for part in parts
    ]  # fmt: skip
    most = abs(parts[0]["contribution"])
    widths = [part["contribution"] / most for part in parts]
    assert [width for *_, width in found] == pytest.approx(widths, abs=0.02)


def test_the_reasons_of_a_result_are_shown_until_it_is_old(pages, service):
    page = pages()
    why, box = page.get_by_role("button", name="Why?"), page.locator("#explanation")
    assert not why.is_visible()
    paste(page, PASTED)
    classify(page, NODE)
    tab_to(page, "why")
    page.keyboard.press("Enter")
    box.wait_for()
    (one,) = explained(service, REQUEST)
    assert {"column", "word", "neighbour"} <= {part["kind"] for part in one["parts"]}
    if len(one["parts"]) > 10:
        box.get_by_role("button", name="Show all").click()
    check_parts(shown_parts(page), one["parts"], log_odds)
    shares = percent(one["base_probability"]), percent(one["probability"])
    assert box.locator("dd").all_inner_texts() == [
        f"{log_odds(one['base'])} ({shares[0]})",
        log_odds(one["score"] - one["base"]),
        f"{log_odds(one['score'])} ({shares[1]})",
    ]
    assert box.locator(".sides span").all_inner_texts() == [
        f"◂ against {one['label']}", f"for {one['label']} ▸",
    ]  # fmt: skip
    assert f"+0.69 doubles the odds of {one['label']}" in box.inner_text()
    assert page.locator("#why-said").text_content().startswith(f"For {one['label']}: ")
    keep(page, "why")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    keep(page, "why-phone")
    why.click()
    assert (box.is_visible(), why.get_attribute("aria-expanded")) == (False, "false")
    why.click()
    assert (box.is_visible(), why.get_attribute("aria-expanded")) == (True, "true")
    page.get_by_label("year", exact=True).fill("1986")
    assert not box.is_visible()
    assert not why.is_visible()
    assert page.locator("#why-said").text_content() == ""


def test_what_prevents_an_explanation(pages, service):
    page = pages()
    why, error = page.get_by_role("button", name="Why?"), page.locator("#why-error")
    other = {"version": "newer", "explanations": []}
    page.route("**/v1/explain", lambda route: route.fulfill(json=other))
    classify(page, NODE)
    why.click()
    error.get_by_text("The service uses a new model now.").wait_for()
    page.unroute("**/v1/explain")
    page.route("**/v1/explain", lambda route: route.abort())
    why.click()
    error.get_by_text("The service does not answer.").wait_for()
    page.unroute("**/v1/explain")
    page.route("**/v1/explain", lambda route: None)  # no answer, ever
    why.click()
    page.locator("#why.busy").wait_for()
    page.get_by_role("button", name="Clear").click()
    assert not page.locator("#reasons").is_visible()
    page.unroute("**/v1/explain")
    row = {"title": "zzz"}  # a word that is not in the training data
    classify(page, row)
    why.click()
    page.locator("#explanation").wait_for()
    (one,) = explained(service, {"rows": [row]})
    assert one["parts"] == []
    assert "None of the values changes the prediction" in page.locator("#explanation").inner_text()
