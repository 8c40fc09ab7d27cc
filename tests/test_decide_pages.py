"""Numbers in the pages that help to decide are those of the result files that they link."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")


def results(text):
    """The numbers in the result files that a text links."""
    links = re.findall(r"\]\(\.\./((?:results|benchmarks)/[^)#]+)", text)
    return [float(n) for link in links for n in DECIMAL.findall((ROOT / link).read_text("utf-8"))]


def paragraphs(page):
    """Parts of a page: a paragraph, with the table that follows a colon."""
    text = re.sub(r":\n\n\|", ":\n|", (DOCS / page).read_text("utf-8"))
    return [part for part in text.split("\n\n") if "](../" in part]


def is_among(shown, known):
    """Whether a number, as rounded on a page, is one of those known."""
    digits = len(shown.partition(".")[2])
    return any(abs(float(shown) - number) <= 0.51 * 10**-digits for number in known)


@pytest.mark.parametrize("page", ["is-it-for-me.md", "compared-with.md"])
def test_numbers_are_in_the_linked_tables(page):
    found = {part: results(part) for part in paragraphs(page)}
    found = {part: known for part, known in found.items() if known}
    assert len(found) >= 3
    unknown = {
        shown
        for part, known in found.items()
        for shown in DECIMAL.findall(part)
        if shown not in ("0.5",) and not is_among(shown, known)
    }
    assert unknown == set()


def test_the_table_of_few_labels_is_that_of_the_results():
    measured = (ROOT / "results" / "past-the-paper" / "few-labels.md").read_text("utf-8")
    kinds = re.split(r"^## ", measured, flags=re.M)[1:4]
    of_kind = [dict(re.findall(r"^\| ([\w-]+) \| (.*)$", kind, flags=re.M)) for kind in kinds]
    page = (DOCS / "how-many-labels.md").read_text("utf-8")
    rows = re.findall(r"^\| ([a-z-]+) \| \d+ \| (.*) \|$", page, flags=re.M)
    assert len(rows) == 8
    for graph, cells in rows:
        *shown, worst = cells.split(" | ")
        for text, kind in zip(shown, of_kind, strict=True):
            draws_features_best_links = kind[graph].split(" | ")
            pair = f"{draws_features_best_links[1]} / {draws_features_best_links[3]}"
            assert text.split(" (")[0] == pair, graph
        assert worst == of_kind[2][graph].split(" | ")[5].split(" / ")[0], graph


def test_the_readme_has_the_summary_of_the_rivals():
    summary = (ROOT / "results" / "rivals" / "summary.md").read_text().strip()
    assert summary in (ROOT / "README.md").read_text()
