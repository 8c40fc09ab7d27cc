"""Requests that hypothesis makes up. Oracle: the encoders that tables go through."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from linkdist.artifacts.manifest import Header, Shape
from linkdist.serve.encoding import features_of
from linkdist.serve.errors import RefusedError
from linkdist.serve.rows import read_request
from linkdist.tables.encoders import FAR, make_encoders

KINDS = {"a": "numeric", "b": "numeric", "c": "categorical", "d": "vector", "e": "numeric"}
SCHEMA = pa.schema(
    [("a", pa.float64()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.list_(pa.float64())),
     ("e", pa.float64()), ("t", pa.string())]
)  # fmt: skip


def header_of(kinds):
    encoders = make_encoders(kinds)
    rows = [
        {"a": 1.0, "b": -2.0, "c": "x", "d": [0.0, 1.0], "e": 5.0, "t": "some words"},
        {"a": 3.5, "b": -2.0, "c": "7", "d": [2.0, 4.0], "e": None, "t": "other words"},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    encoders.see(batch)
    encoders.settle()
    shape = Shape(1, encoders.d, 256, 2)
    one = np.ones(1, np.float32)
    return Header(shape, ("no", "yes"), one, one, encoders, {}, {}, "")


HEADERS = {"dense": header_of({k: v for k, v in KINDS.items() if k != "c"}),
           "sparse": header_of({**KINDS, "t": "text"})}  # fmt: skip

numbers = st.none() | st.floats(-FAR, FAR) | st.integers(-1000, 1000)
words = (
    st.none()
    | st.sampled_from(["x", "7", "words", "other"])
    | st.text(max_size=8).filter(lambda text: text.isprintable() and text.isascii())
)
rows = st.fixed_dictionaries({
    "a": st.floats(-1e6, 1e6), "b": numbers, "c": words, "e": numbers, "t": words,
    "d": st.none() | st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=2),
})  # fmt: skip


@pytest.mark.parametrize("kind", HEADERS)
@given(made=st.lists(rows, min_size=1, max_size=5))
def test_a_request_is_encoded_as_a_table_is(kind, made):
    header = HEADERS[kind]
    names = header.encoders.names
    asked = [{name: row[name] for name in names} for row in made]
    request = read_request(json.dumps({"rows": asked}).encode(), header, 100)
    found = features_of(request.columns, header)
    table = [{**row, **{name: as_float(row[name]) for name in ("a", "b", "e")}} for row in made]
    expected = header.encoders.encode(pa.RecordBatch.from_pylist(table, schema=SCHEMA))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(dense(found), dense(expected))


def as_float(value):
    return None if value is None else float(value)


def dense(x):
    return x.toarray() if sparse.issparse(x) else x


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
)


@given(
    body=st.binary(max_size=40)
    | anything.map(lambda value: json.dumps(value).encode())
    | st.fixed_dictionaries(
        {"rows": st.lists(st.dictionaries(st.sampled_from([*KINDS, "t", "z"]), anything))},
        optional={"links": anything, "neighbours": anything, "more": anything},
    ).map(lambda value: json.dumps(value).encode())
)
def test_whatever_is_sent_is_answered_or_refused_with_a_sentence(body):
    header = HEADERS["sparse"]
    found = outcome(body, header)
    if isinstance(found, RefusedError):
        assert 400 <= found.status < 500
        assert found.error.endswith(".")
        assert set(found.columns) <= set(header.encoders.names)
    else:
        assert found.shape[1] == header.encoders.d
        assert np.isfinite(dense(found)).all()


def outcome(body, header):
    try:
        return features_of(read_request(body, header, 10).columns, header)
    except RefusedError as error:
        return error
