"""What was understood of tables; counts are those of the columns, counted with Python."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from linkdist.errors import TableError
from linkdist.pipeline import Tables, summarise_tables
from linkdist.progress import Callback
from linkdist.tables.label_warnings import label_warnings

ROWS = 20
FIELDS = ["math", "art", None, "math"] * 5
LINKS = {"from": range(19), "to": range(1, 20)}


def summary(links=LINKS, label="field", task=None, graph=None, strict=False, unknown=(), **columns):
    nodes = {"id": range(ROWS), "field": FIELDS, "size": [i * i for i in range(ROWS)]} | columns
    more = {"task": task, "graph": graph, "strict": strict, "unknown": unknown}
    return summarise_tables(Tables(nodes, links, "id", label, **more), Callback())


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


def test_the_summary_says_the_task_and_what_it_was_guessed_from():
    assert "\nTask: classification (guessed from column 'field')\n" in str(summary())
    assert "\nTask: classification\n" in str(summary(task="classification"))
    text = str(summary(field=["a, b", "a"] * 10, task="multilabel"))
    assert "\nTask: multilabel (labels are separated by ',')\n" in text


def test_the_summary_of_numbers_has_their_range_mean_and_missing_share():
    numbers = [i * 1.25 - 3 for i in range(ROWS)]
    known = [number for i, number in enumerate(numbers) if i % 5]
    y = [number if i % 5 else None for i, number in enumerate(numbers)]
    found = summary(field=y, task="regression", strict=True)
    assert found.numbers == (min(known), max(known), sum(known) / len(known))
    assert (found.task, found.classes, found.unknown) == ("regression", {"field": 16}, 4)
    text = str(found)
    assert text.startswith("20 rows, 1 feature column, 1 number\n")
    assert (
        "labels (field): 16 numbers from -1.75 to 20.75, mean 9.5; unknown in 4 rows (20 %)" in text
    )


def test_guessed_numbers_are_not_warned_about_but_forced_classes_are():
    columns = {
        "id": range(30),
        "size": [i * i for i in range(30)],
        "field": [i / 8 + 0.01 for i in range(30)],
    }
    found = summary(**columns, strict=True)
    expected = "column 'field', which contains 30 different decimal numbers; --task classification "
    assert found.why == f"guessed from {expected}makes each number a class"
    (warning,) = summary(**columns, task="classification").warnings
    assert "look like a number to predict, but each becomes a class" in warning


def test_the_summary_counts_each_of_several_labels():
    even = [None if i % 7 == 0 else i % 2 == 0 for i in range(ROWS)]
    above = [None if i % 7 == 0 else i > 4 for i in range(ROWS)]
    found = summary(label=["even", "above"], field=["x", "y"] * 10, even=even, above=above)
    assert found.classes == {"even": sum(filter(None, even)), "above": sum(filter(None, above))}
    assert (found.task, found.unknown, found.label) == ("multilabel", 3, "even, above")
    assert {column.name for column in found.columns} == {"field", "size"}
    assert "20 rows, 2 feature columns, 2 labels\n" in str(found)
    assert "\nTask: multilabel (guessed from 2 label columns)\n" in str(found)
    assert "labels (even, above): even 8, above 13; unknown in 3 rows" in str(found)


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ({"label": ["a", "b"], "a": [0, 1] * 10, "b": [1] * 20},
         "columns 'a', 'b': all 20 labelled rows have 'b', so it cannot be evaluated"),
        ({"label": ["a", "b"], "a": [0, 1] * 10, "b": [0] * 20}, "no row has 'b', so it cannot be"),
        ({"label": ["a", "b"], "a": [0, 1] * 10, "b": [1] + [0] * 19},
         "the class 'b' has one label only"),
        ({"field": [["a"], ["a", "b"], ["b", "NA"], []] * 5}, "the class 'NA' .5 rows. may mean"),
        ({"field": [*range(18), -1, -1], "task": "regression"},
         "-1 .2 rows. is the only negative number, so it may .* declare it with --unknown -1"),
        ({"field": ["a|b", "a", "b", "c", "d"] * 4}, "'a|b' looks like several labels"),
    ],
)  # fmt: skip
def test_suspicious_labels_of_other_tasks_are_warned_about(options, warning):
    columns = {"field": ["x", "y"] * 10} | options
    with pytest.raises(TableError, match=warning):
        summary(**columns, strict=True)
    assert len(summary(**columns).warnings) == 1


@pytest.mark.parametrize("y", [[*range(18), -1, -2], [*range(19), -1], [-5, -5, *range(18)]])
def test_negative_numbers_are_suspicious_only_if_there_is_one_of_them_several_times(y):
    found = summary(field=y, task="regression").warnings
    assert len(found) == (y[0] == -5)


def test_the_summary_counts_the_rows_and_labels_of_each_graph():
    country = ["DE", "ES", "ES", "FR"] * 5
    found = summary(graph="country", country=country)
    rows = Counter(country)
    labels = Counter(name for name, label in zip(country, FIELDS, strict=True) if label)
    assert found.graphs == {name: (rows[name], labels[name]) for name in sorted(rows)}
    assert "\n3 graphs: DE 5 rows, 5 labels; ES 10 rows, 5 labels; FR 5 rows, 5 labels\n" in str(
        found
    )
    assert summary().graphs == {}


def test_long_lists_are_cut():
    nodes = {"country": [f"c{i // 2:02d}" for i in range(50)], "id": range(50)}
    nodes |= {"size": range(0, 500, 10), "field": [f"k{i // 2:02d}" for i in range(50)]}
    links = {"a": range(0, 50, 2), "b": range(1, 50, 2)}
    text = str(summary(links, graph="country", **nodes))
    assert "k19 2, 5 more classes; unknown" in text
    assert "c19 2 rows, 2 labels; 5 more graphs\n" in text


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
    ("counts", "warnings", "forced"),
    [
        ({"art": 5, "math": 5}, [], True),
        ({"?": 5, "math": 5}, ["may mean that the label is unknown"], False),
        ({"0.5": 5, "1.5": 5}, [], True),
        ({f"{i / 8}": 2 for i in range(40)}, ["look like a number to predict"], True),
        ({f"{i / 8}": 2 for i in range(40)}, [], False),
        ({"a|b": 5, "a": 5}, ["looks like several labels"], True),
        ({"a|b": 5, "a": 5}, [], False),
        ({"a; b": 5, "a": 5, "b": 5}, ["looks like several labels"], False),
        ({"a": 1, "b": 1, "c": 5}, ["the classes 'a', 'b' have one label only"], False),
        (dict.fromkeys("abcdefg", 1), ["'e' and 2 more have one label only"], True),
    ],
)
def test_suspicious_labels_are_warned_about(counts, warnings, forced):
    found = list(label_warnings("field", counts, forced))
    assert len(found) == len(warnings)
    assert all(part in text for part, text in zip(warnings, found, strict=True))
