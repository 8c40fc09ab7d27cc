"""What is inferred of a column, and what it warns about; cases worked out by hand."""

from __future__ import annotations

from datetime import date, time

import pyarrow as pa
import pytest

from linkdist.tables.schema import guess

ROWS = 20


def guessed(values):
    table = pa.table({"x": values})
    return guess(table.schema, table, [])["x"]


@pytest.mark.parametrize(
    ("values", "kind", "why"),
    [
        ([f"${i},000.50" for i in range(1, 10)], "numeric", "numbers, written as text"),
        ([f"{i},5" for i in range(9)], "numeric", "numbers with a decimal comma, written as text"),
        ([f"{i} %" for i in range(9)], "numeric", "numbers, written as text"),
        (["true", "false"] * 4, "numeric", "numbers, written as text"),
        (["2004-05-31", "n/a"], "date", "dates, written as year-month-day"),
        (["31.05.2004"], "date", "dates, written as day.month.year"),
        (["May 31, 2004"], "date", "dates, written as month day, year"),
        (["5/31/2004 12:30"], "date", "dates, written as month/day/year hour:minute"),
        ([date(2004, 5, 31)], "date", "contains date32[day]"),
        ([time(12, 30)], "numeric", "contains time64[us]"),
        (["war|love", "love|war", "war"] * 4, "tags", "separated by '|'"),
        (["war;love", "love;war", "war"] * 4, "tags", "separated by ';'"),
        (["war, love", "love, war", "war"] * 4, "categorical", "3 different values in"),
        ([["a"], ["b", "a"]], "tags", "contains list<item: string>"),
        ([[1], [2, 3]], "tags", "contains list<item: int64>"),
        ([[1, 2], [3, 4], []], "vector", "contains list<item: int64>"),
        ([[1.0], [2.0, 3.0]], "vector", "contains list<item: double>"),
        ([[True], [[False]][0]], "vector", "contains list<item: bool>"),
        ([{"a": 1}], None, "which cannot be a feature"),
        ([["a"], None, [None]], "tags", "contains list"),
        (["yes", "no"] * 4, "categorical", "2 different values in the first 8 rows"),
        ([f"w{i % 6}" for i in range(12)], "categorical", "6 different values"),
        ([f"w{i % 7}" for i in range(12)], "text", "7 different values"),
        ([f"w{i}" for i in range(10)], None, "one word, different in every row, like an id"),
        ([f"w{i}" for i in range(9)], "text", "9 different values"),
        ([f"w {i}" for i in range(10)], "text", "10 different values"),
        (["n/a", " ", None], None, "has no values in the first rows"),
        (pa.nulls(3), None, "has no values in the first rows"),
    ],
)  # fmt: skip
def test_the_kind_of_a_column_is_inferred_with_a_reason(values, kind, why):
    found = guessed(values)
    assert found.kind == kind
    assert why in found.why


@pytest.mark.parametrize(("wrong", "kind"), [(2, "numeric"), (3, "categorical")])
def test_a_tenth_of_other_values_is_tolerated_among_numbers(wrong, kind):
    found = guessed(["old"] * wrong + [str(i % 5) for i in range(ROWS - wrong)])
    assert found.kind == kind
    mixed = f"{ROWS - wrong} of {ROWS} values are numbers, the others are text"
    assert found.warning == ("" if kind == "numeric" else mixed)


@pytest.mark.parametrize(("wrong", "kind"), [(2, "date"), (3, "categorical")])
def test_a_tenth_of_other_values_is_tolerated_among_dates(wrong, kind):
    days = [f"2004-05-{i % 5 + 1:02d}" for i in range(ROWS - wrong)]
    assert guessed(["soon"] * wrong + days).kind == kind


def test_dates_that_may_start_with_month_or_day_are_warned_about():
    either = [f"05/{i:02d}/2004" for i in range(1, 13)]
    assert "may start with the month or the day" in guessed(either).warning
    assert guessed([*either, "05/31/2004", "05/30/2004"]).warning == ""


@pytest.mark.parametrize(
    ("values", "warns"),
    [
        ([5, 6, 7], True),
        ([5, 6, 8], False),
        ([5.0, 6.0, 7.0], False),
        ([5, 6], False),
        ([7, 6, 5], False),
        ([5, 6, None, 7], False),
    ],
)
def test_row_numbers_are_warned_about(values, warns):
    assert guessed(values).kind == "numeric"
    assert bool(guessed(values).warning) == warns


def test_the_example_is_the_first_value_that_is_there():
    assert guessed([None, "", "n/a", "war"]).example == "'war'"
    assert guessed([None, 7]).example == "7"


def test_columns_can_be_left_out():
    table = pa.table({"id": [1], "age": [2]})
    assert list(guess(table.schema, table, ["id"])) == ["age"]
