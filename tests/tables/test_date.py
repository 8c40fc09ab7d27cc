"""Oracle: age and points on circles by a formula in NumPy, standardised by scikit-learn."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from linkdist.errors import ModelError, TableError
from linkdist.tables.encoders import Date
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.validation import Problems

DAY = 86400
moments = st.lists(st.datetimes(datetime(1950, 1, 1), datetime(2050, 1, 1)), min_size=2, max_size=9)


def parts(moments):
    """Seconds since 1970, and the angles of the year, the week and the day."""
    t = np.array([moment.replace(tzinfo=UTC).timestamp() for moment in moments])
    angles = 2 * np.pi * t[:, None] / (np.array([365.2425, 7, 1]) * DAY)
    circles = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(t), 6)
    return np.concatenate([t[:, None], circles], axis=1)


@given(moments)
def test_dates_are_age_and_points_on_circles(moments):
    moments = [moment.replace(microsecond=0) for moment in moments]
    column = pa.array([*moments, None], pa.timestamp("ms"))
    encoder = Date("day").partial_fit(column.slice(0, 1)).partial_fit(column.slice(1))
    found, features = encoder.transform(column), parts(moments)
    assert found[-1].tolist() == [0] * 7
    varies = features.std(axis=0) > 1e-6  # otherwise rounding is all there is
    expected = StandardScaler().fit_transform(features)
    np.testing.assert_allclose(found[:-1, varies], expected[:, varies], atol=1e-3)
    assert np.isfinite(found).all()


def test_the_same_weekday_and_hour_are_the_same_points():
    weeks = [datetime(2004, 5, 31, 12) + timedelta(days=7 * i) for i in range(5)]
    days = pa.array([*weeks, datetime(2004, 6, 2)])
    x = Date("day").partial_fit(days).transform(days)
    assert (x[:5, 3:] == x[0, 3:]).all()
    assert np.ptp(x[:, 0]) > 1


def test_dates_without_a_time_of_day_have_no_rounding_as_a_feature():
    days = pa.array([datetime(2004, 5, 31) + timedelta(days=i) for i in range(50)])
    x = Date("day").partial_fit(days).transform(days)
    assert not x[:, 5:].any()
    assert x[:, :5].std(axis=0) == pytest.approx(np.ones(5), abs=1e-3)


def test_rounding_is_no_difference_between_dates():
    """The cosines of Wednesday and Friday are equal in theory, and not in double precision."""
    days = pa.array([datetime(2000, 1, 26), datetime(2000, 6, 2)])
    encoder = Date("day").partial_fit(days)
    assert encoder.deviation[4] == 0
    assert encoder.transform(days)[:, 4].tolist() == [0, 0]


@pytest.mark.parametrize("format", ["%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y", "%B %d, %Y"])
def test_text_gives_the_features_of_timestamps(format):
    days = [datetime(2004, 1, 29) + timedelta(days=31 * i) for i in range(12)]
    text, column = pa.array([day.strftime(format) for day in days]), pa.array(days)
    found = Date("day").prepare(text).partial_fit(text).transform(text)
    assert found.tolist() == Date("day").partial_fit(column).transform(column).tolist()


def test_state_survives_json():
    text = pa.array(["31.05.2004", "02.06.2005", None])
    day = Date("day").prepare(text).partial_fit(text)
    back = FeatureEncoder.from_state([json.loads(json.dumps(day.state()))])
    found = back.transform(pa.record_batch({"day": text}))
    assert found.tolist() == day.transform(text).tolist()
    for change in ({"format": "%x"}, {"mean": [0.0], "deviation": [1.0]}):
        with pytest.raises(ModelError, match="the state of the columns is damaged"):
            FeatureEncoder.from_state([day.state() | change])


def test_a_few_other_words_are_missing_and_many_are_an_error():
    days = ["2004-05-31"] * 18
    problems = Problems()
    found = (
        Date("day")
        .partial_fit(pa.array(days))
        .transform(pa.array([*days, "soon", None]), problems=problems)
    )
    assert found[-2:].tolist() == [[0] * 7] * 2
    assert problems.notices() == [
        "column 'day': of 20 values, 1 is missing and 1 is unsuitable (read as missing) ('soon')."
    ]
    with pytest.raises(
        TableError, match="dates such as 2004-05-31; row 1 has 'soon', row 2 has '5'"
    ):
        Date("day").partial_fit(pa.array(["soon", "5"]))
    with pytest.raises(TableError, match="must contain dates such as"):
        Date("day").partial_fit(pa.array([20040531]))
