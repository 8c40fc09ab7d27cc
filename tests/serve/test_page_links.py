"""Choices and links on the page, in a real browser.

Oracle: what the service answers to the same request without the page.
"""

import json
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.serve.test_page import NEW, PAPERS, bars, classify, enter, keep, percent

NODE = {"title": "new evidence on a large system", "venue": "review", "year": 1999}
NEIGHBOURS = [
    {"title": 'credit, "so" and inflation', "venue": "review", "year": "1995"},
    {"title": "an auction of labour", "venue": "annals"},
]
PASTED = """\
paper,title,venue,year,field
P1,"credit, ""so"" and inflation",review,1995,x

P2,an auction of labour, annals ,,
"""


@pytest.fixture(scope="module")
def model(service):
    with urlopen(f"{service}/v1/model") as answer:
        return json.load(answer)


def predicted(service, **request):
    head = {"Content-Type": "application/json"}
    with urlopen(Request(f"{service}/v1/predict", json.dumps(request).encode(), head)) as answer:
        return json.load(answer)


def paste(page, text):
    if not page.locator("#neighbours-text").is_visible():
        page.get_by_text("Add neighbours").click()
    page.get_by_label("Nodes that are linked to this one").fill(text)


@pytest.fixture
def asked(pages, model):
    """A page of another model, and the requests that it sends; each gets the same answer."""

    def open_page(**other):
        page, requests = pages(model={**model, **other}), []
        one = {"label": "a", "confidence": 1, "probabilities": {"a": 1}, "mode": "links"}
        answer = {"version": model["version"], "predictions": [one]}
        page.route(
            "**/v1/predict",
            lambda route: (
                requests.append(route.request.post_data_json),
                route.fulfill(json=answer),
            ),
        )
        return page, requests

    return open_page


# Choices ------------------------------------------------------------------------------------------


def test_few_values_are_a_choice_and_many_are_not(asked):
    columns = [
        {"name": "few", "kind": "categorical", "values": [" a", "<b>"]},
        {"name": "most", "kind": "categorical", "values": [f"v{k}" for k in range(20)]},
        {"name": "many", "kind": "categorical", "values": [f"v{k}" for k in range(21)]},
        {"name": "none", "kind": "categorical", "values": []},
    ]
    page, requests = asked(columns=columns)
    tags = [page.locator(f"#field-{k}").evaluate("field => field.localName") for k in range(4)]
    assert tags == ["select", "select", "input", "input"]
    offered = page.locator("#field-0 option").all_text_contents()
    assert offered == ["Not known, or another value", " a", "<b>"]
    assert page.locator("#field-2-values option").count() == 21
    page.get_by_label("few", exact=True).select_option(" a")
    page.get_by_label("many", exact=True).fill("other")
    page.get_by_role("button", name="Classify").click()
    page.wait_for_selector('#result[data-state="shown"]')
    assert requests == [{"rows": [{"few": " a", "most": None, "many": "other", "none": None}]}]
    page.get_by_role("button", name="Clear").click()
    assert page.locator("#field-0").input_value() == ""


def test_the_page_leads_to_the_reference_and_the_report(page, service):
    links = page.locator("#links a").evaluate_all("all => all.map(a => [a.textContent, a.href])")
    assert dict(links) == {
        "HTTP reference": f"{service}/docs",
        "OpenAPI document": f"{service}/openapi.json",
        "Report": f"{service}/v1/model/report.html",
    }
    for _, address in links:
        with urlopen(address) as answer:
            assert answer.status == 200


# Neighbours ---------------------------------------------------------------------------------------


def test_neighbours_are_used(page, service):
    answer = predicted(service, rows=[NODE], neighbours=NEIGHBOURS, links=[[0, 1], [0, 2]])
    alone = predicted(service, rows=[NODE])
    paste(page, PASTED)
    told = page.locator("#neighbours-hint").inner_text()
    assert told == "2 neighbours. Not used: paper and field."
    check_result(page, answer)
    assert "and its links" in page.locator("#result-words").inner_text()
    assert page.locator("#notices li").all_inner_texts() == answer["notices"]
    keep(page, "neighbours")
    page.locator("#neighbours-text").fill("")
    assert page.locator("#result").get_attribute("data-state") == "stale"
    check_result(page, alone)
    for separator in "\t;":
        text = PASTED.replace(",", separator).replace(f"credit{separator}", "credit,")
        paste(page, text)
        check_result(page, answer)


def check_result(page, answer):
    """Classify the node; what is shown is an answer of the service."""
    classify(page, NODE)
    page.wait_for_selector('#result[aria-busy="false"]')
    shares = answer["predictions"][0]["probabilities"]
    ordered = sorted(shares.items(), key=lambda pair: -pair[1])
    assert list(bars(page, "#bars").items()) == [(name, percent(p)) for name, p in ordered]


def test_wrong_neighbours_are_told_at_their_field(page):
    enter(page, NODE)
    for text, told in [
        ("name,age\na,1\n", "The first line must name columns, such as title, venue or year"),
        ("title,year\n", "There are no neighbours below the line of columns."),
        ("title,year\na,1999\nb,2001,3\n", "Neighbour 2 has 3 values, but the first line names 2"),
        ("title,year\na,1999\nb,soon\n", "row 3 has 'soon'. Row 1 is the node itself"),
    ]:
        paste(page, text)
        page.get_by_role("button", name="Classify").click()
        page.locator("#neighbours-error").wait_for()
        assert told in page.locator("#neighbours-error").inner_text()
        assert page.evaluate("document.activeElement.id") == "neighbours-text"
        assert page.locator("#neighbours-text").get_attribute("aria-invalid") == "true"
        assert page.locator(".error:visible").count() == 1


def test_neighbours_have_relations_weights_and_directions(asked):
    links = {"relation": "kind", "weight": None, "source": None, "target": None}
    page, requests = asked(
        relations=["cites", "knows"], directed=True, weighted=True, link_columns=links
    )
    page.get_by_text("Add neighbours").click()
    hint = page.locator("#neighbours-hint").inner_text()
    assert "relation (cites or knows), weight and direction (out, from the node" in hint
    head, rows = "title,kind,weight,direction", ["a,cites,2,", "b,knows,0.5,in", "c,cites,1,out"]
    enter(page, NODE)
    for wrong, told in [("a,cites,2,up", "out or in"), ("a,cites,-1,in", "positive number")]:
        paste(page, f"{head}\n{rows[0]}\n{wrong}")
        page.get_by_role("button", name="Classify").click()
        assert told in page.locator("#neighbours-error").inner_text()
        assert "neighbour 2 has" in page.locator("#neighbours-error").inner_text()
    paste(page, "\n".join([head, *rows]))
    page.get_by_role("button", name="Classify").click()
    page.wait_for_selector('#result[data-state="shown"]')
    (request,) = requests
    assert request["neighbours"] == [{"title": "a"}, {"title": "b"}, {"title": "c"}]
    assert request["links"] == [
        {"source": 0, "target": 1, "relation": "cites", "weight": 2},
        {"source": 2, "target": 0, "relation": "knows", "weight": 0.5},
        {"source": 0, "target": 3, "relation": "cites", "weight": 1},
    ]


def test_neighbours_of_a_model_of_bare_features(asked):
    page, requests = asked(columns=None, features=3, label=None, id=None)
    paste(page, "1, 2, 3\n\n4 5 6\n")
    page.get_by_label("Features").fill("7 8 9")
    page.get_by_role("button", name="Classify").click()
    page.wait_for_selector('#result[data-state="shown"]')
    assert requests == [
        {"rows": [[7, 8, 9]], "neighbours": [[1, 2, 3], [4, 5, 6]], "links": [[0, 1], [0, 2]]}
    ]


DROP = """([id, ...files]) => {
    const dropped = new DataTransfer();
    for (const [name, text] of files) dropped.items.add(new File([text], name));
    const init = { dataTransfer: dropped, bubbles: true, cancelable: true };
    for (const kind of ["dragenter", "dragover", "drop"])
        document.getElementById(id).dispatchEvent(new DragEvent(kind, init));
}"""


def test_a_file_of_neighbours_can_be_dropped(page):
    page.get_by_text("Add neighbours").click()
    page.evaluate(DROP, ["neighbours-text", ["near.csv", PASTED]])
    page.get_by_text("2 neighbours.").wait_for()
    assert page.locator("#neighbours-text").input_value() == PASTED
    assert not page.locator("#file-error").is_visible(), "it is no table to predict"


# A table of links ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def expected(service):
    """What curl gets for the tables of the example, with and without links."""

    def ask(*options):
        command = ["curl", "-s", *options, f"{service}/v1/predict/table"]
        return subprocess.run(command, capture_output=True, check=True, cwd=PAPERS).stdout

    table = ("-F", "file=@new_nodes.csv")
    return ask(*table), ask(*table, "-F", "links=@new_links.csv")


def downloaded(page):
    with page.expect_download() as download:
        page.get_by_role("link", name="Download predictions.csv").click()
    return Path(download.value.path()).read_bytes()


def test_links_are_sent_with_the_table(page, expected):
    page.set_input_files("#links-file", PAPERS / "new_links.csv")
    assert page.evaluate("document.activeElement.id") == "links-remove"
    assert page.locator("#links-name").inner_text() == "new_links.csv (9.38 KB)"
    assert not page.locator("#done").is_visible(), "there is no table yet"
    page.set_input_files("#file", NEW)
    page.get_by_text("748 rows classified with links", exact=True).wait_for()
    assert downloaded(page) == expected[1]
    assert page.locator("#table-notices li").all_inner_texts() == [
        "column 'year': of 748 values, 40 are missing.",
        "796 links from 800 rows; duplicates merged: 4.",
    ]
    keep(page, "table-links")
    page.get_by_role("button", name="Remove").click()
    assert page.evaluate("document.activeElement.id") == "links-file"
    page.set_input_files("#file", NEW)
    page.get_by_text("748 rows classified", exact=True).wait_for()
    assert downloaded(page) == expected[0]


def test_links_can_follow_the_table_and_be_dropped(page, expected):
    page.evaluate(DROP, ["drop", ["new_nodes.csv", NEW.read_text()]])
    page.get_by_text("748 rows classified", exact=True).wait_for()
    links = (PAPERS / "new_links.csv").read_text()
    page.evaluate(DROP, ["links-words", ["new_links.csv", links]])
    page.get_by_text("748 rows classified with links", exact=True).wait_for()
    assert downloaded(page) == expected[1]


def test_wrong_links_are_told_and_can_be_replaced(page):
    page.set_input_files("#links-file", {"name": "a.txt", "mimeType": "", "buffer": b"x"})
    assert "a.txt does not have the name" in page.locator("#file-error").inner_text()
    assert not page.locator("#links-chosen").is_visible()
    one = {"name": "one.csv", "mimeType": "", "buffer": b"from\nP0000\n"}
    page.set_input_files("#links-file", one)
    page.set_input_files("#file", NEW)
    page.locator("#file-error").wait_for()
    assert "one.csv: links need two columns" in page.locator("#file-error").inner_text()
    page.get_by_role("button", name="Remove").click()
    page.set_input_files("#file", NEW)
    page.get_by_text("748 rows classified", exact=True).wait_for()


def test_the_table_and_its_links_have_one_limit(pages, model):
    size = NEW.stat().st_size
    page = pages(model={**model, "limits": {**model["limits"], "file_bytes": size + 10}})
    few = {"name": "few.csv", "mimeType": "", "buffer": b"from,to\nP0000,P0002\n"}
    page.set_input_files("#links-file", few)
    page.set_input_files("#file", NEW)
    assert "new_nodes.csv and its links have" in page.locator("#file-error").inner_text()


def test_each_relation_can_have_a_file(pages, model):
    other = {"relation": None, "weight": "w", "source": "from", "target": "to"}
    page = pages(model={**model, "relations": ["cites", "knows"], "link_columns": other})
    assert page.locator("#links-file").get_attribute("multiple") is not None
    assert page.locator("#links-hint").inner_text() == (
        "Needed columns: two columns of ids (from and to) and w (the weight). "
        "One file for each relation: cites and knows."
    )
    few = [
        {"name": f"{name}.csv", "mimeType": "", "buffer": b"a,b\n"} for name in ("cites", "knows")
    ]
    page.set_input_files("#links-file", few)
    assert page.locator("#links-name").inner_text().startswith("cites.csv and knows.csv (")
