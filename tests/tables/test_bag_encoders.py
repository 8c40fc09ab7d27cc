"""Oracles: scikit-learn's TfidfVectorizer and MultiLabelBinarizer, lengths of texts."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer, StandardScaler

from linkdist.errors import ModelError, OptionError, TableError
from linkdist.tables.bag_encoders import BinaryTags, Categorical, Tags
from linkdist.tables.embedding import Embedding
from linkdist.tables.feature_encoder import FeatureEncoder, make_feature_encoder
from linkdist.tables.text_encoders import Text
from linkdist.tables.validation import Problems

tag_rows = st.lists(
    st.lists(st.sampled_from(["war", "love", "drama", "3"]), unique=True, max_size=3),
    min_size=1,
    max_size=8,
).filter(any)


def lists(rows):
    return pa.array(rows, pa.list_(pa.string()))


def fitted(encoder, rows):
    """Fitted in two batches."""
    return encoder.partial_fit(lists(rows[:2])).partial_fit(lists(rows[2:]))


@given(tag_rows)
def test_tags_are_weighted_like_scikit_learn(rows):
    tags = fitted(Tags("genre"), rows)
    oracle = TfidfVectorizer(analyzer=list, vocabulary=list(tags.frequencies)).fit(rows)
    expected = oracle.transform(rows).toarray()
    np.testing.assert_allclose(tags.transform(lists(rows)).toarray(), expected, atol=1e-6)


@given(tag_rows)
def test_binary_tags_are_those_of_scikit_learn(rows):
    tags = fitted(BinaryTags("genre"), rows)
    oracle = MultiLabelBinarizer(classes=list(tags.frequencies))
    assert tags.transform(lists(rows)).toarray().tolist() == oracle.fit_transform(rows).tolist()


@given(tag_rows, st.sampled_from([Tags, BinaryTags]))
def test_tags_survive_json(rows, kind):
    tags = fitted(kind("genre"), rows)
    back = kind.from_state(json.loads(json.dumps(tags.state())))
    new = lists([*rows, ["pop", "war"]])
    assert back.transform(new).toarray().tolist() == tags.transform(new).toarray().tolist()


def test_tags_in_text_are_those_of_lists():
    rows = [["war", "love"], ["love"], []]
    text = pa.array(["war|love", "love", None])
    tags = Tags("genre").prepare(text).partial_fit(text)
    assert tags.separator == "|"
    assert tags.state() | {"separator": None} == fitted(Tags("genre"), rows).state()


def test_most_frequent_tags_are_kept_with_ties_by_name(monkeypatch):
    monkeypatch.setattr(Tags, "most", 2)
    tags = fitted(Tags("genre"), [["c", "b"], ["c"], ["a"]])
    assert tags.frequencies == {"c": 2, "a": 1}


def test_numbers_are_no_tags():
    with pytest.raises(TableError, match="'genre' must contain lists or separated text; row 2 has"):
        Tags("genre").partial_fit(pa.array([None, 5]))


def test_missing_and_unseen_values_are_tallied():
    problems = Problems()
    genre = fitted(Tags("genre"), [["war"], ["love"]])
    genre.transform(lists([["pop", "war", "jazz"], ["pop"], [], None]), problems=problems)
    shelf = Categorical("shelf").partial_fit(pa.array(["a"]))
    shelf.transform(pa.array(["a", "b", "b", None]), problems=problems)
    title = Text("title").partial_fit(pa.array(["a"]))
    title.transform(pa.array(["", None, "New words", "a new one", "?"]), problems=problems)
    assert problems.notices() == [
        "column 'genre': of 4 values, 2 are missing and 2 are unknown to the model "
        "('pop', 'jazz').",
        "column 'shelf': of 4 values, 1 is missing and 2 are unknown to the model ('b').",
        "column 'title': of 5 values, 2 are missing and 1 is unknown to the model "
        "('new', 'words').",
    ]
    assert not problems


def test_a_value_that_is_unseen_in_many_batches_is_shown_once():
    problems, shelf = Problems(), Categorical("shelf").partial_fit(pa.array(["a"]))
    for values in (["x", "y"], ["x"], ["x", "z"]):
        shelf.transform(pa.array(values), problems=problems)
    assert problems.tallies["shelf"].unseen == 5
    assert problems.tallies["shelf"].examples == ["'x'", "'y'", "'z'"]


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 1.5},
        {"rows": 0},
        {"frequencies": {"war": -1}},
        {"frequencies": {"war": 9}},
        {"frequencies": ["war"]},
        {"separator": "/"},
    ],
)
def test_an_invalid_state_of_tags_is_rejected(change):
    state = {"kind": "tags", "name": "genre", "rows": 2, "frequencies": {"war": 1}}
    state |= {"separator": None}
    assert FeatureEncoder.from_state([state]).d == 1
    with pytest.raises(ModelError, match="the state of the columns is damaged"):
        FeatureEncoder.from_state([state | change])


# Embedding ----------------------------------------------------------------------------------------


class Lengths:
    """A text encoder: the number of characters and of words."""

    def encode(self, texts):
        return np.array([[len(text), len(text.split())] for text in texts])


TITLES = ["On graphs", "links", None, "a b c d"]


def test_embeddings_are_standardised_like_scikit_learn():
    encoder = make_feature_encoder({"title": "text"}, text_encoder=Lengths())
    batch = pa.record_batch({"title": TITLES})
    found = encoder.fit_transform([(1, batch.slice(0, 1)), (2, batch.slice(1))])
    scaler = StandardScaler().fit(Lengths().encode([text for text in TITLES if text]))
    expected = scaler.transform(Lengths().encode([text or "" for text in TITLES]))
    expected[2] = 0
    np.testing.assert_allclose(found, expected, atol=1e-6)
    back = FeatureEncoder.from_state(json.loads(json.dumps(encoder.state())))
    with pytest.raises(ModelError, match=r"Pass it in Python: .*text_encoder="):
        back.transform(batch)
    assert back.with_text_encoder(Lengths()).transform(batch).tolist() == found.tolist()


def test_a_column_without_texts_has_no_embedding():
    encoder = make_feature_encoder({"title": "text"}, text_encoder=Lengths())
    found = encoder.fit_transform([(1, pa.record_batch({"title": pa.nulls(2, pa.string())}))])
    assert found.shape == (2, 0)
    assert encoder.transform(pa.record_batch({"title": ["new"]})).shape == (1, 0)


@pytest.mark.parametrize("vectors", [[1.0, 2.0], [[1.0]], [[np.nan], [1.0]], [[[1.0]], [[2.0]]]])
def test_a_text_encoder_must_return_finite_vectors(vectors):
    title = Embedding("title")
    title.encoder = type("Wrong", (), {"encode": lambda self, texts: vectors})()
    with pytest.raises(TableError, match=r"must return finite vectors of shape \(2, 1\)"):
        title.partial_fit(pa.array(["a", "b"]))


def test_embedding_is_no_kind_to_choose():
    with pytest.raises(OptionError, match="unknown kind of column 'embedding'"):
        make_feature_encoder({"title": "embedding"})
