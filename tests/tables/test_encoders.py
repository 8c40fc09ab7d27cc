"""Compared with: scikit-learn's scaler, one-hot encoder and tf-idf; small examples."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from linkdist.errors import LinkDistError, ModelError, OptionError, TableError
from linkdist.tables import bag_encoders as module
from linkdist.tables.bag_encoders import Categorical
from linkdist.tables.encoders import Date, Numeric, Vector
from linkdist.tables.feature_encoder import FeatureEncoder, make_feature_encoder
from linkdist.tables.parsing import text_of
from linkdist.tables.schema import KINDS, guess
from linkdist.tables.validation import Problems

NAN, INF = float("nan"), float("inf")


def fitted(encoder, *batches):
    for batch in batches:
        encoder.partial_fit(batch)
    return encoder


def dense(features):
    return features.toarray() if sparse.issparse(features) else features


# Numeric ------------------------------------------------------------------------------------------

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(st.lists(numbers, max_size=8), min_size=1, max_size=5).filter(any))
def test_numbers_are_standardised_like_scikit_learn_for_any_batches(batches):
    encoder = fitted(Numeric("x"), *(pa.array(batch, pa.float64()) for batch in batches))
    x = np.concatenate(batches)[:, None]
    oracle = StandardScaler().fit(x)
    size = np.abs(x).max()
    np.testing.assert_allclose(encoder.mean, oracle.mean_[0], atol=1e-12 * size)
    np.testing.assert_allclose(encoder.deviation, x.std(), rtol=1e-6, atol=1e-12 * size)
    if x.std() > 1e-9 * size:
        found = encoder.transform(pa.array(x[:, 0]))
        np.testing.assert_allclose(found, oracle.transform(x), rtol=1e-5, atol=1e-6)


def test_small_deviation_of_large_numbers_is_exact():
    x = 1e9 + np.tile([0.0, 1.0], 50_000)
    encoder = fitted(Numeric("x"), *(pa.array(part) for part in np.split(x, 10)))
    assert encoder.mean == 1e9 + 0.5
    assert encoder.deviation == 0.5


@pytest.mark.parametrize("value", [0.1, -3.7e38 / 2, 5e-324, 1 / 3])
def test_constant_column_encodes_to_0(value):
    encoder = fitted(Numeric("x"), *[pa.array([value] * 7)] * 3)
    assert encoder.deviation == 0
    assert encoder.transform(pa.array([value, None, value + 1])).tolist() == [[0], [0], [0]]


def test_missing_number_encodes_to_the_mean():
    encoder = fitted(Numeric("x"), pa.array([1.0, None, NAN, 3.0]))
    assert (encoder.mean, encoder.deviation) == (2, 1)
    assert encoder.transform(pa.array([None, NAN, 3.0])).tolist() == [[0], [0], [1]]
    empty = fitted(Numeric("x"), pa.nulls(3))
    assert empty.transform(pa.array([None, 5.0])).tolist() == [[0], [0]]


@pytest.mark.parametrize(
    ("column", "mean"),
    [
        (pa.array([True, False]), 0.5),
        (pa.array([1, 2], pa.uint8()), 1.5),
        (pa.array([2**62, 2**62 + 2]), float(2**62)),
        (pa.array([1, 2], pa.float16()), 1.5),
        (pa.array([Decimal("1.5"), Decimal("2.5")]), 2.0),
        (pa.array([date(1970, 1, 2), None]), 86400.0),
        (pa.array([date(1970, 1, 2)], pa.date64()), 86400.0),
        (pa.array([datetime(1970, 1, 2)], pa.timestamp("us")), 86400.0),
        (pa.array([datetime(1970, 1, 2)], pa.timestamp("ns", "UTC")), 86400.0),
        (pa.array([60_000], pa.time32("ms")), 60.0),
        (pa.array([5], pa.duration("s")), 5.0),
        (pa.array([1, 3]).dictionary_encode(), 2.0),
        (pa.array([" 1 ", "", "NA", "2.5e0", "null"]), 1.75),
        (pa.array(["1", "3"], pa.string_view()), 2.0),
    ],
)
def test_types_that_are_read_as_numbers(column, mean):
    assert fitted(Numeric("x"), column).mean == pytest.approx(mean)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            [1.0, INF, -INF],
            "column 'x' must contain finite numbers; row 2 has inf, row 3 has -inf.",
        ),
        ([1.0, 1e39], "column 'x' must contain finite numbers; row 2 has 1e+39."),
        (["1", "old", "2_0"], "column 'x' must contain numbers; row 2 has 'old', row 3 has '2_0'."),
        (["inf"], "column 'x' must contain finite numbers; row 1 has 'inf'."),
        ([None, [1.0]], "column 'x' must contain numbers; row 2 has [1.0]."),
        ([b"\xff"], r"column 'x' must contain numbers; row 1 has b'\xff'."),
    ],
)
def test_values_that_are_not_numbers_are_reported_with_their_rows(column, message):
    for method in (Numeric("x").partial_fit, Numeric("x").transform):
        with pytest.raises(TableError) as caught:
            method(pa.array(column))
        assert str(caught.value) == message


def test_a_few_other_values_are_missing_wherever_batches_end():
    column = pa.array([*map(str, range(39)), "old"])
    for size in (40, 39, 20, 7):  # the last batches have 40, 1, 20 and 5 rows
        problems, encoder = Problems(), Numeric("x")
        for start in range(0, 40, size):
            encoder.partial_fit(column.slice(start, size), start + 1, problems)
        problems.check()
        assert problems.tallies["x"].unsuitable == 1
        assert encoder.mean == 19
    with pytest.raises(TableError, match="'x' must contain numbers; row 40 has 'old'"):
        Numeric("x").partial_fit(column.slice(39), 40)


def test_extreme_numbers_are_clipped():
    encoder = fitted(Numeric("x"), pa.array([0.0, 1e-30]))
    assert encoder.transform(pa.array([1e38, -1e38])).tolist() == [[1e6], [-1e6]]


# Categorical --------------------------------------------------------------------------------------


@given(st.lists(st.text(min_size=1, max_size=2), min_size=1, max_size=30))
def test_categories_are_one_hot_encoded_like_scikit_learn(values):
    encoder = fitted(Categorical("c"), pa.array(values[::2]), pa.array(values[1::2], pa.string()))
    assert sorted(encoder.categories) == sorted(set(values))
    counts = [values.count(category) for category in encoder.categories]
    assert counts == sorted(counts, reverse=True)
    oracle = OneHotEncoder(categories=[list(encoder.categories)], sparse_output=False)
    expected = oracle.fit_transform([[value] for value in values])
    assert encoder.transform(pa.array(values)).toarray().tolist() == expected.tolist()


def test_most_frequent_categories_are_kept_with_ties_by_name(monkeypatch):
    monkeypatch.setattr(module, "CATEGORIES", 3)
    encoder = fitted(Categorical("c"), pa.array(list("dcbbaad")), pa.array(["e"]))
    assert encoder.categories == ("a", "b", "d")
    assert encoder.transform(pa.array(["e", "d", None, "new"])).toarray().tolist() == [
        *([0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0])
    ]


def test_rare_categories_are_dropped_while_counting(monkeypatch):
    monkeypatch.setattr(module, "COUNTED", 10)
    encoder = Categorical("c")
    for start in range(0, 100, 5):
        encoder.partial_fit(pa.array(["often", "often", *map(str, range(start, start + 5))]))
        assert len(encoder._counts) <= 10
    assert encoder.categories[0] == "often"


def test_categories_of_all_types_are_compared_as_text():
    encoder = fitted(Categorical("c"), pa.array([1, 1, 2]))
    assert encoder.categories == ("1", "2")
    assert encoder.transform(pa.array(["2", "1"])).toarray().tolist() == [[0, 1], [1, 0]]
    assert encoder.transform(pa.array([2.0, NAN])).toarray().tolist() == [[0, 1], [0, 0]]


def test_lists_cannot_be_categories():
    with pytest.raises(TableError, match=r"'c' must contain one value per row; row 1 has \[1\]\."):
        Categorical("c").partial_fit(pa.array([[1], None]))


# Vector -------------------------------------------------------------------------------------------

kinds_of_lists = pytest.mark.parametrize(
    "kind",
    [
        *(pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)),
        *(pa.list_(pa.int16()), pa.list_(pa.int64(), 2), pa.list_(pa.decimal128(5, 1))),
    ],
)


@kinds_of_lists
def test_vectors_are_standardised_like_scikit_learn(kind):
    rows = [[1, 5], [2, 5], None, [6, 5]]
    column = pa.array(rows, kind)
    encoder = fitted(Vector("v"), column.slice(0, 1), column.slice(1))
    expected = StandardScaler().fit_transform([row for row in rows if row])
    found = encoder.transform(column)
    np.testing.assert_allclose(found[[0, 1, 3]], expected, rtol=1e-6)
    assert found[2].tolist() == [0, 0]
    assert encoder.transform(column.slice(2)).tolist() == found[2:].tolist()


def test_unsuitable_vectors_are_reported_with_their_rows():
    encoder = fitted(Vector("v"), pa.array([[1.0, 2.0], []]))
    column = pa.array([[1.0], [1.0, INF], [NAN, 1.0], [None, 0.0], [1.0, 2.0, 3.0], None, []])
    with pytest.raises(TableError) as caught:
        encoder.transform(column, first_row=11)
    assert str(caught.value) == (
        "column 'v' must contain vectors of length 2; row 11 has [1.0], "
        "row 15 has [1.0, 2.0, 3.0]. "
        "column 'v' must contain vectors of finite numbers; row 12 has inf, row 13 has nan, "
        "row 14 has nan."
    )


@pytest.mark.parametrize("column", [["[1, 2]"], [1.0], [["a"]], [{"a": 1}]])
def test_values_that_are_not_vectors_are_reported(column):
    with pytest.raises(TableError, match=r"'v' must contain lists of numbers .* row 1 has"):
        Vector("v").partial_fit(pa.array(column))


def test_column_without_vectors_has_no_features():
    encoder = fitted(Vector("v"), pa.nulls(2), pa.array([[], None], pa.list_(pa.int8())))
    assert encoder.width == 0
    assert encoder.transform(pa.array([[1, 2], None])).shape == (2, 0)
    assert encoder.width == 0


# FeatureEncoder -----------------------------------------------------------------------------------

BATCH = pa.record_batch(
    {
        "age": [30, None, 50],
        "field": ["math", "art", "math"],
        "title": ["On graphs", "", None],
        "place": [[0.0, 1.0], [2.0, 3.0], None],
    }
)
KINDS_OF = {"age": "numeric", "field": "categorical", "title": "text", "place": "vector"}


def test_features_of_columns_are_concatenated_in_order():
    encoders = fitted(make_feature_encoder(KINDS_OF), BATCH)
    assert encoders.names == ("age", "field", "title", "place")
    assert encoders.d == 1 + 2 + 2 + 2
    found = encoders.transform(BATCH)
    assert isinstance(found, sparse.csr_matrix)
    assert found.dtype == np.float32
    each = [dense(column.transform(BATCH[column.name])) for column in encoders.columns]
    assert found.toarray().tolist() == np.concatenate(each, axis=1).tolist()
    turned = BATCH.select(["place", "title", "age", "field"])
    assert encoders.transform(turned).toarray().tolist() == found.toarray().tolist()


def test_features_of_numbers_and_vectors_are_dense():
    found = fitted(make_feature_encoder({"place": "vector", "age": "numeric"}), BATCH).transform(
        BATCH
    )
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float32
    assert found.tolist() == [[-1, -1, -1], [1, 1, 0], [0, 0, 1]]


def test_every_problem_is_in_one_message():
    encoders = fitted(make_feature_encoder(KINDS_OF), BATCH)
    batch = pa.record_batch({"Age": [1, 2], "field": [["a"], None], "place": [[1.0], [INF, 0.0]]})
    with pytest.raises(TableError) as caught:
        encoders.transform(batch, first_row=7)
    assert str(caught.value) == (
        "unknown column 'age' (near: Age), 'title'; choose from Age, field, place. "
        "column 'field' must contain one value per row; row 7 has ['a']. "
        "column 'place' must contain vectors of length 2; row 7 has [1.0]. "
        "column 'place' must contain vectors of finite numbers; row 8 has inf."
    )


def test_problems_of_many_batches_are_counted_and_the_first_are_shown():
    problems, encoder = Problems(), Numeric("x")
    for first_row in (1, 4, 7):
        encoder.partial_fit(pa.array(["a" * 100, "1", "b"]), first_row, problems)
    with pytest.raises(TableError) as caught:
        problems.check("nodes.csv")
    long = f"'{'a' * 56}..."
    assert str(caught.value) == (
        f"nodes.csv: column 'x' must contain numbers; row 1 has {long}, row 3 has 'b', "
        f"row 4 has {long}, row 6 has 'b', row 7 has {long}, 6 in total."
    )


def test_state_survives_json():
    encoders = fitted(make_feature_encoder(KINDS_OF), BATCH)
    back = FeatureEncoder.from_state(json.loads(json.dumps(encoders.state())))
    assert back.state() == encoders.state()
    assert (back.transform(BATCH) != encoders.transform(BATCH)).nnz == 0


@pytest.mark.parametrize(
    "state",
    [
        *(None, 1, "numeric", {"kind": "numeric"}, [None], ["numeric"], [[]]),
        [{"kind": "pickle", "name": "x"}],
        [{"kind": [], "name": "x"}],
        [{"kind": "numeric", "name": "x", "mean": 0.0}],
        [{"kind": "numeric", "name": "x", "mean": "a", "deviation": 1.0}],
        [{"kind": "numeric", "name": "x", "mean": NAN, "deviation": 1.0}],
        [{"kind": "numeric", "name": "x", "mean": 0.0, "deviation": -1.0}],
        [{"kind": "numeric", "name": "x", "mean": [1], "deviation": [1]}],
        [{"kind": "numeric", "name": 3, "mean": 0.0, "deviation": 1.0}],
        [{"kind": "numeric", "name": "x", "mean": 0.0, "deviation": 1.0}] * 2,
        [{"kind": "vector", "name": "x", "mean": [0.0], "deviation": [1.0, 2.0]}],
        [{"kind": "vector", "name": "x", "mean": 0.0, "deviation": 1.0}],
        [{"kind": "categorical", "name": "x", "categories": ["a", "a"]}],
        [{"kind": "categorical", "name": "x", "categories": ["a", None]}],
        [{"kind": "categorical", "name": "x", "categories": [1]}],
        [{"kind": "categorical", "name": "x", "categories": ["\ud800"]}],
        [{"kind": "text", "name": "x", "rows": 1, "frequencies": []}],
        [{"kind": "text", "name": "x", "rows": 1, "frequencies": [2]}],
        [{"kind": "text", "name": "x", "rows": 1, "frequencies": [0.5]}],
        [{"kind": "text", "name": "x", "rows": "1", "frequencies": [1]}],
    ],
)
def test_invalid_state_is_rejected(state):
    with pytest.raises(ModelError, match="the state of the columns is damaged"):
        FeatureEncoder.from_state(state)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
states = st.fixed_dictionaries(
    {"kind": st.sampled_from(KINDS), "name": st.text(max_size=3) | json_values},
    optional=dict.fromkeys(("mean", "deviation", "categories", "rows", "frequencies"), json_values),
)


@given(st.lists(states, max_size=2))
def test_any_json_is_a_state_or_a_model_error(state):
    try:
        encoders = FeatureEncoder.from_state(state)
    except ModelError:
        return
    batch = pa.record_batch(dict.fromkeys(encoders.names, pa.nulls(2)))
    assert encoders.transform(batch).shape[1] == encoders.d


# Inferred kinds -----------------------------------------------------------------------------------


def test_inferred_kinds():
    rows = 60
    table = pa.table(
        {
            "id": range(rows),
            "age": pa.array(range(rows), pa.int8()),
            "born": [date(2000, 1, 1)] * rows,
            "field": ["math", "art"] * 30,
            "shelf": pa.array(["a", "b"] * 30).dictionary_encode(),
            "title": [f"title {i}" for i in range(rows)],
            "name": [f"name {i % 51}" for i in range(rows)],
            "place": [[1.0, 2.0]] * rows,
            "words": [["a"]] * rows,
            "raw": [b"1"] * rows,
            "none": pa.nulls(rows),
            "blank": [""] * rows,
        }
    )
    found = guess(table.schema, table, ["id"])
    assert {name: one.kind for name, one in found.items()} == {
        "age": "numeric",
        "born": "date",
        "field": "categorical",
        "shelf": "categorical",
        "title": "text",
        "name": "text",
        "place": "vector",
        "words": "tags",
        "raw": None,
        "none": None,
        "blank": None,
    }
    assert found["field"].why == "2 different values in the first 60 rows"
    assert found["raw"].why == "contains binary, which cannot be a feature"


def test_unknown_kind_is_rejected():
    with pytest.raises(OptionError, match=r"unknown kind of column 'number' .*choose from numeric"):
        make_feature_encoder({"a": "number", "b": "text"})


def test_ids_are_compared_as_text():
    assert text_of(pa.array([7, None])).to_pylist() == ["7", None]
    assert text_of(pa.array([7.0, NAN, 0.5])).to_pylist() == ["7", None, "0.5"]
    assert text_of(pa.array([b"ab", b"\xff"])).to_pylist() == ["ab", "\\xff"]
    assert text_of(pa.array(["x", ""]).dictionary_encode()).to_pylist() == ["x", None]


# Any column ---------------------------------------------------------------------------------------

wide = st.floats(width=64) | st.sampled_from([1e308, -1e308, 1e-308, 5e-324, 3.4e38, 2.0**53 + 2])
columns = st.one_of(
    *(
        st.lists(st.none() | values, max_size=6).map(lambda rows, kind=kind: pa.array(rows, kind))
        for values, kind in [
            (wide, pa.float64()),
            (st.integers(-(2**63), 2**63 - 1), pa.int64()),
            (st.integers(0, 2**64 - 1), pa.uint64()),
            (st.booleans(), pa.bool_()),
            (st.text(max_size=5) | st.sampled_from(["1", "-inf", "nan", "1e999"]), pa.string()),
            (st.text(max_size=5), pa.large_string()),
            (st.binary(max_size=3), pa.binary()),
            (st.integers(-(2**31), 2**31 - 1), pa.date32()),
            (st.integers(-(2**63), 2**63 - 1), pa.timestamp("ns")),
            (st.integers(-(2**63), 2**63 - 1), pa.timestamp("s", "Europe/Nowhere")),
            (st.integers(-(2**63), 2**63 - 1), pa.duration("us")),
            (st.decimals(-999, 999, places=2), pa.decimal128(5, 2)),
            (st.lists(st.none() | wide, max_size=3), pa.list_(pa.float64())),
            (st.lists(wide, min_size=2, max_size=2), pa.list_(pa.float64(), 2)),
            (st.lists(st.integers(0, 9), max_size=2), pa.large_list(pa.int8())),
            (st.lists(st.text(max_size=2), max_size=2), pa.list_(pa.string())),
            (st.fixed_dictionaries({"a": st.integers(0, 9)}), pa.struct([("a", pa.int8())])),
        ]
    ),
    st.integers(0, 4).map(pa.nulls),
)


@settings(max_examples=300)
@given(columns, columns, st.sampled_from(KINDS))
def test_any_column_of_any_kind_is_encoded_or_rejected(first, second, kind):
    encoders = make_feature_encoder({"x": kind})
    guess(pa.schema([("x", first.type)]), pa.table({"x": first}), [])
    for column in (first, second, first.slice(1)):
        batch = pa.record_batch({"x": column})
        try:
            encoders.partial_fit(batch)
            features = encoders.transform(batch)
        except LinkDistError:
            continue
        assert features.shape == (len(column), encoders.d)
        assert features.dtype == np.float32
        assert np.isfinite(dense(features)).all()
        back = FeatureEncoder.from_state(json.loads(json.dumps(encoders.state())))
        assert dense(back.transform(batch)).tolist() == dense(features).tolist()


def test_iso_dates_may_be_mixed_with_the_format_of_a_column():
    days = Date("day").prepare(pa.array(["05/31/2004"] * 9 + ["2004-06-01"]))
    assert days.format == "%m/%d/%Y"
    problems = Problems()
    found = days.parse(pa.array(["05/31/2004", "2004-05-31", "2004-05-31T00:00Z"]), 1, problems)
    np.testing.assert_array_equal(found, np.repeat(found[:1], 3, axis=0))
    assert not problems
    days.parse(pa.array(["31/05/2004"]), 1, problems)
    with pytest.raises(TableError, match=r"dates such as 05/31/2004; row 1 has '31/05/2004'\.$"):
        problems.check()


def test_examples_are_values_of_their_columns():
    batch = pa.record_batch(
        {
            "age": [1.0, 2.0],
            "born": ["31.05.2004", "02.06.2004"],
            "town": ["here", "here"],
            "genre": ["war|love", "war"],
            "place": [[1.0, 2.0], [3.0, 4.0]],
        }
    )
    kinds = ("numeric", "date", "categorical", "tags", "vector")
    columns = dict(zip(batch.schema.names, kinds, strict=True))
    encoder = make_feature_encoder(columns, pa.table(batch)).partial_fit(batch)
    examples = {one["name"]: one["example"] for one in encoder.describe()}
    assert examples == {
        "age": 1.5,
        "born": "01.06.2004",
        "town": "here",
        "genre": ["war", "love"],
        "place": [0.0, 0.0],
    }
    assert Date("never", mean=[1e300] * 7, deviation=[1.0] * 7).example() == "2004-05-31"
