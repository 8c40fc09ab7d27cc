"""Requests that hypothesis makes up. Oracle: the encoders that tables go through."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from linkdist.artifacts.manifest import Header, Shape
from linkdist.errors import TableError
from linkdist.serve.errors import RefusedError
from linkdist.serve.schema import RequestSchema
from linkdist.tables.encoders import FAR
from linkdist.tables.feature_encoder import make_feature_encoder
from linkdist.tables.io import open_table
from linkdist.tables.nodes import node_batches

KINDS = {"a": "numeric", "b": "numeric", "c": "categorical", "d": "vector", "e": "numeric"}
SPARSE = {**KINDS, "t": "text", "g": "tags", "h": "tags:binary", "w": "date"}
SCHEMA = pa.schema(
    [("a", pa.float64()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.list_(pa.float64())),
     ("e", pa.float64()), ("t", pa.string()), ("g", pa.list_(pa.string())),
     ("h", pa.string()), ("w", pa.string())]
)  # fmt: skip


def header_of(kinds):
    encoders = make_feature_encoder(kinds)
    learn(encoders)
    return header_with(encoders)


def learn(encoders):
    rows = [
        {
            "a": 1.0,
            "b": -2.0,
            "c": "x",
            "d": [0.0, 1.0],
            "e": 5.0,
            "t": "some words",
            "g": ["x", "7"],
            "h": "x words",
            "w": "2004-05-31",
        },
        {
            "a": 3.5,
            "b": -2.0,
            "c": "7",
            "d": [2.0, 4.0],
            "e": None,
            "t": "other words",
            "g": ["x"],
            "h": "7",
            "w": "2010-06-02T10:30",
        },
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    encoders.partial_fit(batch)


def header_with(encoders):
    shape = Shape(1, encoders.d, 256, 2)
    one = np.ones(1, np.float32)
    return Header(shape, ("no", "yes"), one, one, encoders, {}, {}, "")


HEADERS = {"dense": header_of({k: v for k, v in KINDS.items() if k != "c"}),
           "sparse": header_of(SPARSE)}  # fmt: skip

SCHEMAS = {kind: RequestSchema(header) for kind, header in HEADERS.items()}

numbers = st.none() | st.floats(-FAR, FAR) | st.integers(-1000, 1000)
words = (
    st.none()
    | st.sampled_from(["x", "7", "words", "other"])
    | st.text(max_size=8).filter(lambda text: text.isprintable() and text.isascii())
)
rows = st.fixed_dictionaries({
    "a": st.floats(-1e6, 1e6), "b": numbers, "c": words, "e": numbers, "t": words,
    "d": st.none() | st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=2),
    "g": st.none() | st.lists(words, max_size=3), "h": words,
    "w": st.none() | st.dates().map(str) | st.datetimes().map(str),
})  # fmt: skip


@pytest.mark.parametrize("kind", HEADERS)
@settings(deadline=None)  # other processes may use the cores
@given(made=st.lists(rows, min_size=1, max_size=5))
def test_a_request_is_encoded_as_a_table_is(kind, made):
    header = HEADERS[kind]
    names = header.encoders.names
    asked = [{name: row[name] for name in names} for row in made]
    found = features_of(json.dumps({"rows": asked}).encode(), SCHEMAS[kind])
    table = [{**row, **{name: as_float(row[name]) for name in ("a", "b", "e")}} for row in made]
    expected = header.encoders.transform(pa.RecordBatch.from_pylist(table, schema=SCHEMA))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(dense(found), dense(expected))


def features_of(body, schema, most=100):
    return schema.encode(schema.read(body, most).columns)


TEXTS = [
    "", "NA", "na", "nan", "-NaN", "null", "None", "N/A", "#N/A", " ", "1", " 5 ", "+5", "1e3",
    "1E3", "-0.5", ".5", "5.", "1_000", "1,5", "0x10", "inf", "-inf", "Infinity", "1e999", "1e39",
    "3e38", "old", "٣", "true", "True", "TRUE", "tRuE", "false", "False", "yes", "2004-05-31",
    " 2004-05-31 ", "2004-02-31", "0001-01-01", "2004-5-31", "20040531", "2004-W05-1", "2004-05",
    "2001-09-09T01:46:40", "2001-09-09 01:46:40", "2001-09-09T01:46", "2001-09-09T01",
    "2001-09-09T01:46:40.5", "2001-09-09T01:46:40.123456", "2001-09-09T01:46:40Z",
    "2001-09-09T01:46:40+02:00", "2001-09-09T01:46:40+0200", "2001-09-09T01:46:40+02",
    "2001-09-09T", "10:30:00", "10:30", "25:30", "10:30:00.5", "9:30", "10:30Z",
    "2001-09-09T25:00:00", "1900-01-01", "2001-09-09t01:46:40", "2001-09-09T01:46:40z",
]  # fmt: skip
"""What a cell of a numeric column may hold."""


@pytest.mark.parametrize("text", TEXTS)
def test_text_in_a_numeric_column_is_read_as_a_table_reads_it(text, tmp_path):
    encoders = make_feature_encoder({"a": "numeric", "b": "numeric"})
    learn(encoders)
    schema = RequestSchema(header_with(encoders))
    found = outcome(json.dumps({"rows": [{"a": text, "b": 1}]}).encode(), schema)
    (tmp_path / "nodes.csv").write_text(f'id,a,b\n7,"{text}",1\n')
    try:
        ((_, expected),) = node_batches(open_table(tmp_path / "nodes.csv"), "id", encoders)
    except TableError:
        assert isinstance(found, RefusedError)
        assert set(found.columns) == {"a"}
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "value", ["", "NA", "1_000", "7", 7, 7.0, 2.5, 1e20, True, False, 2**60, -0.0]
)
def test_values_of_a_category_are_read_as_a_table_reads_them(value):
    encoders = make_feature_encoder({"c": "categorical"})
    batch = pa.record_batch({"c": pa.array([value])})
    known = ["7", "2.5", "true", "false", "NA", "1_000", "1e+20", "0", "-0", str(2**60)]
    encoders.partial_fit(pa.record_batch({"c": known}))
    found = outcome(
        json.dumps({"rows": [{"c": value}]}).encode(), RequestSchema(header_with(encoders))
    )
    np.testing.assert_array_equal(dense(found), dense(encoders.transform(batch)))


def as_float(value):
    return None if value is None else float(value)


def dense(x):
    return x.toarray() if sparse.issparse(x) else x


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
)


@settings(deadline=None)
@given(
    body=st.binary(max_size=40)
    | anything.map(lambda value: json.dumps(value).encode())
    | st.fixed_dictionaries(
        {"rows": st.lists(st.dictionaries(st.sampled_from([*SPARSE, "z"]), anything))},
        optional={"links": anything, "neighbours": anything, "more": anything},
    ).map(lambda value: json.dumps(value).encode())
)
def test_whatever_is_sent_is_answered_or_refused_with_a_sentence(body):
    header = HEADERS["sparse"]
    found = outcome(body, SCHEMAS["sparse"])
    if isinstance(found, RefusedError):
        assert 400 <= found.status < 500
        assert found.error.endswith(".")
        assert set(found.columns) <= set(header.encoders.names)
    else:
        assert found.shape[1] == header.encoders.d
        assert np.isfinite(dense(found)).all()


def outcome(body, schema):
    try:
        return features_of(body, schema, 10)
    except RefusedError as error:
        return error
