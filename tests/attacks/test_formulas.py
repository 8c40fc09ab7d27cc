"""Finding 19: a spreadsheet takes no text of a CSV file of predictions for a formula."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist.serve.table_prediction import csv_text
from linkdist.tables.csv_text import escape_formulas
from linkdist.tables.predictions import PredictionWriter, write_table

TEXTS = ["=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-", "P1", "", None]
NUMBERS = ["-5", "+4.5", "-1e-5", "-1,200.50", "-.5", "1.5"]


def is_number(text):
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return text.strip() == text and text.isascii() and text.lower().strip("+-") not in (
        "nan", "inf", "infinity",
    )  # fmt: skip


@given(st.lists(st.none() | st.text("=+-@'\t\r\n0123456789.,eEaA ", max_size=5), max_size=5))
def test_text_that_starts_like_a_formula_and_is_no_number_is_escaped(texts):
    escaped, counts = escape_formulas(pa.record_batch({"id": pa.array(texts, pa.string())}))
    found = escaped["id"].to_pylist()
    for before, after in zip(texts, found, strict=True):
        unsafe = bool(before) and before[0] in "=+-@\t\r\n" and not is_number(before)
        # Commas and points may be anywhere in numbers of people.
        loose = bool(before) and set(before) <= set("+-0123456789.,eE")
        if unsafe and not loose:
            assert after == f"'{before}"
        elif not unsafe:
            assert after == before
        assert not (after or "").startswith(("=", "@", "\t", "\r", "\n"))
    assert counts.get("id", 0) == sum(a != b for a, b in zip(texts, found, strict=True))


def rows_of(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def write(path, ids, classes=("=a", "b"), **options):
    with PredictionWriter(path, "=id", ids.type, classes, **options) as writer:
        writer.write(ids, np.tile(np.float32([0.75, 0.25]), (len(ids), 1)))
    return dict(writer.escaped)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_ids_labels_and_names_are_escaped_in_csv(tmp_path, kind):
    path = tmp_path / "out.csv"
    counts = write(path, pa.array(TEXTS + NUMBERS, kind))
    head, *rows = rows_of(path.read_bytes().decode())
    assert head == ["'=id", "label", "confidence", "p_=a", "p_b"]
    expected = [f"'{text}" if text and text != "P1" else text or "" for text in TEXTS]
    assert [row[0] for row in rows] == expected + NUMBERS
    assert {row[1] for row in rows} == {"'=a"}
    assert counts == {"=id": 7, "label": len(rows)}


def test_numbers_stay_numbers(tmp_path):
    assert write(tmp_path / "out.csv", pa.array([-5, 3]), ("a", "b")) == {}
    assert rows_of((tmp_path / "out.csv").read_text())[1][0] == "-5"


def test_text_stays_as_it_is_if_asked_for_and_in_parquet(tmp_path):
    ids = pa.array(TEXTS)
    assert write(tmp_path / "out.parquet", ids) == {}
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet")["=id"].to_pylist() == TEXTS
    assert write(tmp_path / "out.csv", ids, raw_text=True) == {}
    head, *rows = rows_of((tmp_path / "out.csv").read_bytes().decode())
    assert head[0] == "=id"
    assert [row[0] or None for row in rows] == [text or None for text in TEXTS]
    table = pa.table({"id": ids})
    assert write_table(table, tmp_path / "two.csv") == {"id": 7}
    assert write_table(table, tmp_path / "two.csv", raw_text=True) == {}


def test_a_service_escapes_likewise():
    batch = pa.record_batch({"=id": TEXTS[:2]})
    assert rows_of(csv_text(batch, True)) == [["'=id"], [f"'{TEXTS[0]}"], [f"'{TEXTS[1]}"]]


def test_predict_says_so_and_has_an_option(papers, papers_model, tmp_path, command):
    head, row, *_ = (papers / "nodes.csv").read_text().splitlines()
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(f"{head}\n=1+2{row[5:]}\n")
    out = tmp_path / "out.csv"
    code, _, said = command("predict", papers_model, nodes, "--out", out)
    assert code == 0
    assert "Warning: 1 values of column 'paper' look like formulas" in said
    assert "--raw-text" in said
    assert rows_of(out.read_text())[1][0] == "'=1+2"
    code, _, said = command("predict", papers_model, nodes, "--out", out, "--raw-text")
    assert (code, "Warning" in said) == (0, False)
    assert rows_of(out.read_text())[1][0] == "=1+2"
