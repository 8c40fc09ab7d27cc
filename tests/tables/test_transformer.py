"""`TableEncoder`: scikit-learn's own checks, its scaler and encoder, and a pipeline."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import (
    check_estimator_cloneable,
    check_estimator_repr,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
)

from linkdist.errors import OptionError, TableError
from linkdist.tables.nodes import read_nodes
from linkdist.tables.transformer import TableEncoder, needs_encoding

FRAME = pd.DataFrame(
    {
        "age": [1.0, 3.0, 5.0, 7.0] * 5,
        "shelf": ["a", "b", "a", "c"] * 5,
        "size": [2, 4, 6, 9] * 5,
    }
)


@pytest.mark.parametrize(
    "check",
    [
        check_estimator_cloneable,
        check_estimator_repr,
        check_get_params_invariance,
        check_no_attributes_set_in_init,
        check_parameters_default_constructible,
        check_set_params,
    ],
)  # the others pass arrays, which have no column names
def test_scikit_learns_checks(check):
    check("TableEncoder", TableEncoder())


def test_columns_are_encoded_like_scikit_learn():
    scaled = StandardScaler(), ["age", "size"]
    shelves = OneHotEncoder(categories=[["a", "b", "c"]]), ["shelf"]
    expected = make_column_transformer(scaled, shelves).fit_transform(FRAME)
    encoder = TableEncoder()
    found = encoder.fit_transform(FRAME).toarray()
    np.testing.assert_allclose(found, expected[:, [0, 2, 3, 4, 1]], atol=1e-6)
    assert encoder.kinds_ == {"age": "numeric", "shelf": "categorical", "size": "numeric"}
    assert encoder.get_feature_names_out().tolist() == [
        "age",
        "shelf_0",
        "shelf_1",
        "shelf_2",
        "size",
    ]
    assert encoder.feature_names_in_.tolist() == list(FRAME.columns)
    assert encoder.n_features_in_ == 3


def test_fit_then_transform_is_fit_transform():
    encoder = TableEncoder().fit(FRAME)
    found = encoder.transform(FRAME).toarray()
    assert found.tolist() == TableEncoder().fit_transform(FRAME).toarray().tolist()
    turned = encoder.transform(FRAME[["size", "shelf", "age"]].assign(extra=1))
    assert turned.toarray().tolist() == found.tolist()


def test_files_and_frames_have_the_features_of_read_nodes(tmp_path):
    path = tmp_path / "t.csv"
    clocks = [f"12:{i:02d}:00" for i in range(20)]
    table = FRAME.assign(day=[f"5/{i + 1}/2004" for i in range(20)], clock=clocks)
    table.to_csv(path, index=False)
    table.assign(id=range(20), y=["u", "v"] * 10).to_csv(tmp_path / "n.csv", index=False)
    expected = read_nodes(tmp_path / "n.csv", "id", "y").features.toarray()
    encoder = TableEncoder().fit(path)
    assert encoder.transform(path).toarray().tolist() == expected.tolist()
    frame = table.assign(clock=pd.to_timedelta(table.clock).astype("timedelta64[s]"))
    found = TableEncoder().fit_transform(frame).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_pipeline_learns_from_text_and_missing_values():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 60)
    words = np.array([["red green", "red"], ["green blue", "blue"]])
    frame = pd.DataFrame(
        {"title": words[y, random.integers(0, 2, 60)], "x": random.normal(size=60)}
    )
    frame.loc[::7, "title"] = None
    frame.loc[::5, "x"] = np.nan
    model = make_pipeline(TableEncoder(kinds={"title": "text"}), LogisticRegression())
    assert cross_val_score(model, frame, y, cv=3, error_score="raise").mean() > 0.8
    assert clone(model).fit(frame, y).predict(frame.head(3)).shape == (3,)


def test_kinds_and_a_text_encoder_can_be_given():
    lengths = type("Lengths", (), {"encode": lambda self, texts: [[len(t)] for t in texts]})()
    encoder = TableEncoder(kinds={"shelf": "text"}, text_encoder=lengths).fit(FRAME)
    assert not sparse.issparse(encoder.transform(FRAME))
    assert clone(encoder).kinds == {"shelf": "text"}
    assert clone(encoder).text_encoder.encode(["abc"]) == [[3]]


def test_errors_are_in_words():
    with pytest.raises(NotFittedError):
        TableEncoder().transform(FRAME)
    with pytest.raises(OptionError, match="unknown kind of column 'number'"):
        TableEncoder(kinds={"age": "number"}).fit(FRAME)
    with pytest.raises(TableError, match=r"unknown column 'aged' \(near: age\)"):
        TableEncoder(kinds={"aged": "numeric"}).fit(FRAME)
    with pytest.raises(TableError, match="unknown column 'age'"):
        TableEncoder().fit(FRAME).transform(FRAME.drop(columns="age"))


def test_an_empty_table_has_no_rows_of_features():
    assert TableEncoder().fit(FRAME).transform(FRAME.head(0)).shape == (0, 5)


@pytest.mark.parametrize(
    ("X", "needs"),
    [
        (FRAME, True),
        (FRAME[["age", "size"]], False),
        (FRAME[["age"]].replace(3.0, np.nan), True),
        (pd.DataFrame({"a": [True]}), False),
        (pd.DataFrame({"a": pd.to_datetime(["2004-05-31"])}), True),
        (pd.DataFrame(np.ones((2, 2))), False),
        (np.array([[np.nan]]), False),
        (sparse.eye(2), False),
        (pa.table({"a": ["x"]}), True),
    ],
)
def test_only_tables_that_need_it_are_encoded(X, needs):
    assert needs_encoding(X) == needs
