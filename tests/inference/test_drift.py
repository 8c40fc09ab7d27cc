"""Alarms: none for rows like those of the training, and a name for each disturbance."""

import json

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from scipy.special import chdtrc, ndtr

from linkdist.errors import ModelError, OptionError, TableError
from linkdist.inference.chance import above, chi_square
from linkdist.inference.drift import CHANCE, chance_of, psi
from linkdist.inference.drift_table import Reference, drift
from linkdist.tables.column_summary import KEY
from tests.inference.tables import (
    KINDS,
    RELATED,
    changed,
    half_missing,
    made_reference,
    made_table,
    shuffled,
    some_rows,
)


@pytest.fixture(scope="module")
def table():
    return made_table(3000)


@pytest.fixture(scope="module")
def reference(table):
    return made_reference(table)


def found(report, name):
    return next(one for one in report.columns if one.name == name)


# The statistics -----------------------------------------------------------------------------------


def test_psi_is_the_sum_over_bins():
    reference, counts = np.array([40, 50, 10, 0]), np.array([5, 5, 30, 10])
    p, q = (reference + 0.5) / 102, (counts + 0.5) / 52
    expected = sum((b - a) * np.log(b / a) for a, b in zip(p, q, strict=True))
    assert psi(reference, counts) == pytest.approx(expected)
    assert psi(counts, counts) == 0
    assert psi(reference, counts) > 0.2 > psi(reference, 10 * reference)


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 21, 60])
def test_probabilities_are_those_of_scipy(freedom):
    for statistic in (0.0, 0.01, 1.0, 9.0, 80.0, 900.0):
        assert chi_square(freedom, statistic) == pytest.approx(chdtrc(freedom, statistic), rel=1e-9)
        assert above(statistic / 10) == pytest.approx(ndtr(-statistic / 10), rel=1e-9)


def both_tests(*samples):
    found = [
        stats.chi2_contingency(samples, correction=False, lambda_=name).pvalue
        for name in ("pearson", "log-likelihood")
    ]
    return pytest.approx(max(found))


def test_chance_is_a_test_of_homogeneity():
    reference, counts = np.array([400, 500, 100]), np.array([60, 50, 30])
    assert chance_of(reference, counts) == both_tests(reference, counts)
    # Bins with few rows are tested as one.
    few = [2, 1, 0, 1, 1]
    many = np.array([400, 500, *few]), np.array([60, 50, *few])
    assert chance_of(*many) == both_tests([400, 500, 5], [60, 50, 5])
    # A single row outside of the range of the training is not extreme; half of the rows are.
    single = np.array([0, 1000, 1000, 2000]), np.array([1, 25, 25, 50])
    assert chance_of(*single) > 0.01
    assert chance_of(np.array([3000, 0]), np.array([50, 50])) < 1e-30
    assert chance_of(reference, np.zeros(3, int)) == 1


def test_chance_is_uniform_if_nothing_has_changed():
    random, shares = np.random.default_rng(0), np.array([0.3, 0.3, 0.2, 0.1, 0.07, 0.03])
    found = [
        chance_of(random.multinomial(5000, shares), random.multinomial(800, shares))
        for _ in range(4000)
    ]
    for level in (0.5, 0.1, 0.01):
        assert np.mean(np.array(found) < level) == pytest.approx(level, rel=0.35)


# No alarms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [50, 200, 1000])
def test_twenty_draws_of_the_training_raise_no_alarm(reference, table, size):
    reports = [drift(reference, some_rows(table, size, seed)) for seed in range(20)]
    assert [str(report) for report in reports if report.alarms] == []
    assert {report.rows for report in reports} == {size}


@pytest.mark.parametrize("size", [50, 500])
def test_twenty_draws_of_new_rows_raise_no_alarm(reference, size):
    new = made_table(3000, seed=1)
    reports = [drift(reference, some_rows(new, size, seed)) for seed in range(20)]
    assert [str(report) for report in reports if report.alarms] == []


def test_the_training_itself_has_not_changed(reference, table):
    report = drift(reference, table)
    assert report.alarms == []
    assert str(report) == "No alarm: 3000 rows are like those of the training."
    assert max(one.psi for one in report.columns) == pytest.approx(0, abs=1e-12)
    assert {one.name for one in report.columns} == {
        *KINDS, "topic", "predicted class", "confidence"
    }  # fmt: skip


# Alarms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["age", "price", "noise"])
@pytest.mark.parametrize("factor", [-1, 3, 1000])
def test_a_scaled_column_is_named(reference, name, factor):
    table = made_table(300, seed=2)
    report = drift(reference, changed(table, name, pa.array(factor * table[name].to_numpy())))
    assert [one for one in report.alarms if one in KINDS] in ([name], [])
    # Noise around 0 looks the same with another sign.
    assert bool(report.alarms) != (name == "noise" and factor == -1)


@pytest.mark.parametrize("name", KINDS)
def test_a_half_missing_column_of_100_rows_is_named(reference, name):
    report = drift(reference, half_missing(made_table(100, seed=2), name))
    assert [one for one in report.alarms if one in KINDS] == [name]
    assert "missing 0 % before and 50 % now" in found(report, name).alarms
    assert found(report, name).missing.now == 0.5


@pytest.mark.parametrize("name", RELATED)
def test_a_shuffled_column_is_named(reference, name):
    table = shuffled(made_table(600, seed=2), name)
    report = drift(reference, table)
    assert [one for one in report.alarms if one in KINDS] == [name]
    (alarm,) = found(report, name).alarms
    assert alarm.startswith("agreement with ")
    assert abs(found(report, name).agreement.now) < 0.5 * found(report, name).agreement.before


def test_a_column_that_is_related_to_nothing_can_be_shuffled(reference):
    report = drift(reference, shuffled(made_table(600, seed=2), "noise"))
    assert report.alarms == []
    assert found(report, "noise").agreement is None


def test_labels_in_other_rows_are_named_and_may_be_left_out(reference):
    table = made_table(600, seed=2)
    assert drift(reference, shuffled(table, "topic")).alarms == ["topic"]
    report = drift(reference, table.drop_columns(["topic"]))
    assert report.alarms == []
    assert "topic" not in {one.name for one in report.columns}


def test_renamed_codes_are_named(reference):
    table = made_table(600, seed=2)
    codes = [f"shop{(int(code[4:]) + 3) % 9}" for code in table["shop"].to_pylist()]
    assert drift(reference, changed(table, "shop", pa.array(codes))).alarms == ["shop"]


def test_unseen_categories_and_words_are_named(reference):
    table = made_table(200, seed=2)
    shops = [f"new{k}" if k % 4 == 0 else code for k, code in enumerate(table["shop"].to_pylist())]
    report = drift(reference, changed(table, "shop", pa.array(shops)))
    assert report.alarms == ["shop"]
    assert found(report, "shop").unseen.now == 0.25
    titles = [f"wort{k} wörter{k}" for k in range(200)]
    report = drift(reference, changed(table, "title", pa.array(titles)))
    assert report.alarms[0] == "title"
    assert "unseen" in str(report)


def test_a_word_that_vanishes_is_named(reference, table):
    titles = [title.replace("common7", "common8") for title in table["title"].to_pylist()]
    report = drift(reference, changed(table, "title", pa.array(titles)))
    assert report.alarms == ["title"]
    assert found(report, "title").word.name == "common7"
    assert found(report, "title").alarms[-1].startswith("word 'common7' ")


def test_a_threshold_is_a_number_above_zero(reference, table):
    few = some_rows(table, 300, 0)
    scaled = changed(few, "age", pa.array(1.15 * few["age"].to_numpy()))
    size = found(drift(reference, scaled), "age").psi
    assert drift(reference, scaled, threshold=size - 0.01).alarms == ["age"]
    assert drift(reference, scaled, threshold=size + 0.01).alarms == []
    for wrong in (0, -1, np.nan, np.inf):
        with pytest.raises(OptionError, match="the threshold must be a number above 0; found"):
            drift(reference, few, threshold=wrong)
    assert CHANCE == 0.001


# Tables and models --------------------------------------------------------------------------------


def test_problems_of_a_table_are_reported_at_once(reference, table):
    few = some_rows(table, 20, 0)
    wrong = changed(few, "age", pa.array(["old"] * 20)).drop_columns(["price"])
    with pytest.raises(TableError, match=r"unknown column 'price'.*must contain numbers"):
        drift(reference, wrong)
    with pytest.raises(TableError, match="the table has no rows"):
        drift(reference, few.slice(0, 0))


def test_a_summary_is_small_and_is_read_from_json_as_it_was(reference, table):
    state = reference.about[KEY]
    assert max(len(json.dumps(one)) for one in state["columns"]) < 5000
    assert len(json.dumps(state["pairs"])) < 1000 * len(KINDS)
    again = Reference(
        {**reference.about, KEY: json.loads(json.dumps(state))},
        reference.encoders, reference.columns, reference.predict,
    )  # fmt: skip
    few = some_rows(made_table(500, seed=3), 100, 0)
    assert drift(again, few).as_json() == drift(reference, few).as_json()


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state.pop("pairs"),
        lambda state: state["columns"].pop(0),
        lambda state: state["columns"][0]["counts"].pop(),
        lambda state: state["columns"][0]["counts"].__setitem__(0, -1),
        lambda state: state["columns"][0]["bins"]["edges"].reverse(),
        lambda state: state["columns"][0].update(bins={"names": [3], "kind": "values"}),
        lambda state: state["pairs"][0].update(columns=[0, 99]),
        lambda state: state["pairs"][0]["sums"].pop(),
        lambda state: state.update(columns=7),
    ],
)
def test_a_damaged_summary_is_refused(reference, table, damage):
    state = json.loads(json.dumps(reference.about[KEY]))
    damage(state)
    about = {**reference.about, KEY: state}
    broken = Reference(about, reference.encoders, reference.columns, reference.predict)
    with pytest.raises(ModelError, match="summary of the training columns is damaged"):
        drift(broken, table)


def test_a_model_without_a_summary_says_so(reference, table):
    older = Reference({"id": "node"}, reference.encoders, reference.columns, reference.predict)
    with pytest.raises(ModelError, match="no summary of its training columns, because it was"):
        drift(older, table)
