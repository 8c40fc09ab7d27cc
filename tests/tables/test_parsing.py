"""Oracles: the number or date that was printed, Python's `datetime`, `str.split`."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist.tables.parsing import (
    DATE_FORMATS,
    as_numbers,
    as_seconds,
    as_tags,
    find_decimal,
    find_separator,
    suitable_formats,
)

amounts = st.integers(-(10**11), 10**11).map(lambda cents: cents / 100)
groups = st.sampled_from(["", ",", "'", "\u2019", " ", "\u00a0", "\u202f"])
units = st.sampled_from(["{}", "${}", "€ {}", "{} €", "{}EUR", "USD {}", "{}%", "{} %", " £{} "])


def printed(amount, group, decimal, unit):
    text = f"{abs(amount):,.2f}".replace(",", "G").replace(".", decimal).replace("G", group)
    return ("-" if amount < 0 else "") + unit.format(text)


def seconds(moment):
    return moment.replace(tzinfo=UTC).timestamp()


# Numbers.


@given(amounts, groups, units)
def test_a_number_in_any_style_is_read_back(amount, group, unit):
    found, wrong = as_numbers(pa.array([printed(amount, group, ".", unit)]))
    assert (found[0], wrong[0]) == (amount, False)


@given(amounts, groups.map(lambda group: "." if group == "," else group), units)
def test_a_number_with_a_decimal_comma_is_read_back(amount, group, unit):
    text = pa.array([printed(amount, group, ",", unit)])
    assert find_decimal(text) == ","
    found, wrong = as_numbers(text, ",")
    assert (found[0], wrong[0]) == (amount, False)


@given(st.floats(allow_nan=False))
def test_any_float_is_read_back(value):
    assert as_numbers(pa.array([repr(value), "$1"]))[0][0] == value


@pytest.mark.parametrize(
    "text",
    ["1,20", "12,34,567", "1_000", "$", "%", "5 apples", "--5", "-$-5", "1.2.3", "1 2", "€5€$"],
)
def test_what_is_no_number_is_marked(text):
    found, wrong = as_numbers(pa.array([text, "7"]))
    assert np.isnan(found[0])
    assert wrong.tolist() == [True, False]


@given(st.sampled_from(["", "  ", "NaN", "n/a", "NA", "None", "null", "#N/A", "-nan"]))
def test_missing_values_are_missing_in_numbers_and_dates(text):
    for parse in (as_numbers, as_seconds):
        found, wrong = parse(pa.array([text, None]))
        assert np.isnan(found).all()
        assert not wrong.any()


@pytest.mark.parametrize(
    ("texts", "decimal"),
    [
        (["1,200", "3,400"], "."),  # in thousands
        (["1,200.50", "3,5"], "."),  # a decimal point is there
        (["1.200", "3,5"], ","),
        (["1.200,500"], ","),
        (["0,12345"], ","),
        (["7", None], "."),
    ],
)
def test_the_decimal_separator_is_found(texts, decimal):
    assert find_decimal(pa.array(texts)) == decimal


# Dates.

moments = st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)).map(
    lambda moment: moment.replace(second=0, microsecond=0)
)


@pytest.mark.parametrize("format", DATE_FORMATS[1:])
@given(moment=moments)
def test_a_date_in_any_format_is_read_back(format, moment):
    text = moment.strftime(format)
    expected = seconds(datetime.strptime(text, format))
    found, wrong = as_seconds(pa.array([text, None]), format)
    assert (found[0], wrong[0]) == (expected, False)


@given(moments, st.sampled_from([" ", "T"]), st.integers(-14 * 60, 14 * 60) | st.none())
def test_an_iso_date_is_read_back_with_its_time_zone(moment, between, minutes):
    zone = UTC if minutes is None else timezone(timedelta(minutes=minutes))
    moment = moment.replace(tzinfo=zone)
    aware, naive = moment.isoformat(between), moment.replace(tzinfo=None).isoformat(between)
    found, _ = as_seconds(pa.array([aware, naive, str(moment.date())]))
    midnight = datetime.combine(moment.date(), time())
    expected = [moment.timestamp(), seconds(moment), seconds(midnight)]
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("02/30/2004", "%m/%d/%Y"),  # Arrow alone reads 1 March
        ("31.04.2004", "%d.%m.%Y"),
        ("29 Feb 2003", "%d %b %Y"),
        ("05/31/04", "%m/%d/%Y"),  # Arrow alone reads the year 4
        ("13/01/2004", "%m/%d/%Y"),
        ("05/31/2004 12:30", "%m/%d/%Y"),
        ("01/02/2004 25:00", "%d/%m/%Y %H:%M"),
        ("00000000000000000000000/1/2004", "%m/%d/%Y"),
        ("31x05x2004", "%d.%m.%Y"),
        *((text, "ISO") for text in ("2004", "20040531", "2004-02-30", "2004-05", "soon")),
    ],
)
def test_what_is_no_date_is_marked(text, format):
    found, wrong = as_seconds(pa.array([text]), format)
    assert np.isnan(found[0])
    assert wrong[0]


def test_dates_and_timestamps_of_all_units_are_seconds():
    moment = datetime(2004, 5, 31, 12, 30)
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC"):
            column = pa.array([moment, None], pa.timestamp(unit, zone))
            assert as_seconds(column)[0][0] == seconds(moment)
    day = seconds(datetime(2004, 5, 31))
    for kind in (pa.date32(), pa.date64()):
        assert as_seconds(pa.array([date(2004, 5, 31)], kind))[0][0] == day
    assert as_seconds(pa.array([5, None]))[1].tolist() == [True, False]


@pytest.mark.parametrize("format", DATE_FORMATS[1:])
def test_the_format_of_dates_is_found(format):
    days = [datetime(2004, 1, 29, 12, 30) + timedelta(days=17 * i) for i in range(30)]
    text = pa.array([day.strftime(format) for day in days])
    # Arrow reads short and long names of months alike.
    assert suitable_formats(text, 1.0)[0].replace("%b", "%B") == format.replace("%b", "%B")


def test_the_format_that_suits_most_dates_comes_first():
    us, other = "%m/%d/%Y", "%d/%m/%Y"
    either, day_first = ["01/02/2004"] * 9, ["31/05/2004"]
    assert suitable_formats(pa.array(either), 1.0) == [us, other]
    assert suitable_formats(pa.array(either + day_first), 0.9) == [other, us]
    assert suitable_formats(pa.array(["soon", None]), 0.9) == []


# Tags.

words = st.lists(st.text("abc", min_size=1, max_size=2), max_size=5)


@given(st.lists(words, min_size=1, max_size=5), st.sampled_from(["|", ";", ",", " "]))
def test_separated_tags_are_read_back(rows, mark):
    expected = [list(dict.fromkeys(row)) for row in rows]
    text = pa.array([mark.join(row) for row in rows])
    separator = find_separator(text)
    assert separator == (mark.strip() or None if any(len(row) > 1 for row in rows) else None)
    assert as_tags(text, separator) == expected
    assert as_tags(pa.array(rows, pa.list_(pa.string())), None) == expected


@given(st.lists(words, min_size=1, max_size=3))
def test_lists_that_pandas_wrote_to_csv_are_read_back(rows):
    text = pa.array([str(row) for row in rows])
    assert as_tags(text, ",") == [list(dict.fromkeys(row)) for row in rows]
