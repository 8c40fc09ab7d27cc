"""Every messy table is read or refused in words; the page shows what happens to each."""

from __future__ import annotations

from pathlib import Path

import pytest

import linkdist
from linkdist.errors import LinkDistError
from linkdist.pipeline import summarise_tables
from linkdist.progress import Callback
from linkdist.tables.source import Tables
from tests.tables.messy import CASES, CLEAN

PAGE = Path(__file__).parents[2] / "docs" / "messy-tables.md"
FAST = {"method": "linkdist", "epochs": 1, "hidden_size": 8, "device": "cpu", "held_out": 0}


def arguments(case, **options):
    return {"id": "id", "label": "field"} | case.options | options


def train(case, folder, **options):
    nodes, links = case.write(folder)
    return linkdist.train(nodes, links, **arguments(case, **FAST | options))


def outcome(case, folder):
    """What happens to a table, in words."""
    try:
        found = summarise_tables(Tables(*case.write(folder), **arguments(case)), Callback())
    except LinkDistError as error:
        return f"**refused**: {error}".replace(f"{folder}/", "")
    kinds = [f"{column.name}: {column.kind or 'left out'}" for column in found.columns]
    missing = [f"{100 * c.missing:.0f} % of {c.name} missing" for c in found.columns if c.missing]
    target = {
        "classification": f"classes {', '.join(found.classes)}",
        "regression": found.describe_labels().replace("labels (field)", "regression"),
        "multilabel": f"multilabel {', '.join(found.classes)}",
    }[found.task]
    graphs = found.describe_graphs()
    facts = [*kinds, *missing, target, *graphs, str(found.links).rstrip(".")]
    warnings = " ".join(f"**Warning**: {text}" for text in found.warnings)
    return f"{'; '.join(facts)}. {warnings}".strip()


def row(case, folder):
    cell = outcome(case, folder).replace("|", "\\|").replace("\n", " ")
    return f"| {case.title} | {cell} |"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_the_page_shows_what_happens(case, tmp_path):
    assert row(case, tmp_path) in PAGE.read_text().splitlines()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_tables_that_are_read_can_be_trained_on(case, tmp_path):
    try:
        found = summarise_tables(Tables(*case.write(tmp_path), **arguments(case)), Callback())
    except LinkDistError:
        with pytest.raises(LinkDistError):
            train(case, tmp_path)
    else:
        only_classes = found.task == "classification"
        model = train(case, tmp_path, **({} if only_classes else {"method": "selflinkdist"}))
        assert model.about["task"] == found.task


def test_the_page_has_no_other_rows():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert len(rows) - 1 == len(CASES) >= 40


def test_clean_tables_in_all_formats_give_the_same_model(tmp_path):
    """Compared with: the predictions after training on the clean CSV file."""
    expected = None
    for title in ("a clean table", "semicolons", "tabs in a .tsv file", "a .csv.gz file",
                  "a byte order mark", "JSON lines"):  # fmt: skip
        case = next(case for case in CASES if case.title == title)
        model = train(case, tmp_path)
        found = model.predict_proba({"age": [20, 33, 55]}).tolist()
        expected = expected or found
        assert found == expected, title


def test_strict_turns_warnings_into_one_error(tmp_path):
    case = next(case for case in CASES if case.title == "a constant column")
    with pytest.raises(LinkDistError, match="column 'unit' has the same value in every row"):
        train(case, tmp_path, strict=True)


if __name__ == "__main__":  # writes the rows of the page
    from tempfile import TemporaryDirectory

    for one in CASES:
        with TemporaryDirectory() as folder:
            print(row(one, Path(folder)))
    assert CLEAN
