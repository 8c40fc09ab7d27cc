"""What was understood of tables; counts are those of the columns, counted with Python."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from linkdist.errors import TableError
from linkdist.pipeline import Tables, summarise_tables
from linkdist.progress import Callback
from linkdist.tables.labels import label_warnings

ROWS = 20
FIELDS = ["math", "art", None, "math"] * 5
LINKS = {"from": range(19), "to": range(1, 20)}


def summary(links=LINKS, strict=False, unknown=(), **columns):
    nodes = {"id": range(ROWS), "field": FIELDS, "size": [i * i for i in range(ROWS)]} | columns
    tables = Tables(nodes, links, "id", "field", strict=strict, unknown=unknown)
    return summarise_tables(tables, Callback())


def test_the_summary_counts_rows_labels_and_missing_values():
    found = summary(age=[5.0, None] * 10, note=pa.nulls(ROWS), title=["a b", ""] * 10)
    assert (found.rows, found.unknown) == (ROWS, 5)
    assert found.classes == dict(sorted(Counter(filter(None, FIELDS)).items()))
    assert {column.name: (column.kind, column.missing) for column in found.columns} == {
        "size": ("numeric", 0.0),
        "age": ("numeric", 0.5),
        "note": (None, None),
        "title": ("categorical", 0.5),
    }
    assert (found.links.kept, found.links.unused) == (19, ())
    text = str(found)
    assert text.startswith("20 rows, 3 feature columns, 2 classes\ncolumn")
    assert "labels (field): art 5, math 10; unknown in 5 rows" in text
    assert "age     numeric      50 %" in text


def test_clean_tables_have_no_warnings():
    assert summary(strict=True).warnings == ()


NUMBERS = [str(i * i) for i in range(ROWS)]


@pytest.mark.parametrize(
    ("columns", "warning"),
    [
        ({"age": ["old", *NUMBERS[1:]]}, "1 value is not a number and is treated as missing"),
        ({"age": ["old", "new", *NUMBERS[2:]]},
         "'age': 2 values are not numbers and are treated as missing: 'old', 'new'"),
        ({"day": ["soon", *(f"2004-05-{i:02d}" for i in range(1, ROWS))]},
         "'day': 1 value is not a date and is treated as missing: 'soon'"),
        ({"code": [f"x{i}" for i in range(ROWS)]}, "'code': one word, different in every row"),
        ({"row": range(ROWS)}, "'row': looks like a row number"),
        ({"day": [f"05/{i % 9 + 1:02d}/2004" for i in range(ROWS)]}, "month or the day"),
        *(({"unit": [value] * ROWS}, "'unit' has the same value in every row")
          for value in ("kg", 3.5, "two words", "a|b", ["a", "b"], [1.0, 2.0], "2004-05-31")),
        ({"field": [name or "NA" for name in FIELDS]}, r"'NA' \(5 rows\) may mean .* --unknown NA"),
        ({"field": ["once", *FIELDS[1:]]}, "the class 'once' has one label only"),
    ],
)  # fmt: skip
def test_suspicious_columns_are_warned_about_and_strictly_refused(columns, warning):
    with pytest.raises(TableError, match=warning):
        summary(**columns, strict=True)
    (found,) = summary(**columns).warnings
    assert f"Warning: {found}" in str(summary(**columns))


def test_declared_unknown_labels_are_not_warned_about():
    found = summary(field=[name or "NA" for name in FIELDS], unknown=["NA"])
    assert found == summary()


def test_all_warnings_are_in_one_error():
    with pytest.raises(TableError, match=r"'row': looks like.*'unit' has the same value"):
        summary(row=range(ROWS), unit=["kg"] * ROWS, strict=True)


@pytest.mark.parametrize(
    ("counts", "warnings"),
    [
        ({"art": 5, "math": 5}, []),
        ({"?": 5, "math": 5}, ["may mean that the label is unknown"]),
        ({"0.5": 5, "1.5": 5}, []),
        ({f"{i / 8}": 1 for i in range(40)}, ["look like a number to predict"]),
        ({"a|b": 5, "a": 5}, ["looks like several labels"]),
        ({"a": 1, "b": 1, "c": 5}, ["the classes 'a', 'b' have one label only"]),
        (dict.fromkeys("abcdefg", 1), ["'e' and 2 more have one label only"]),
    ],
)
def test_suspicious_labels_are_warned_about(counts, warnings):
    found = list(label_warnings("field", counts))
    assert len(found) == len(warnings)
    assert all(part in text for part, text in zip(warnings, found, strict=True))
