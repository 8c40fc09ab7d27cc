"""Oracles: scikit-learn's TfidfVectorizer and TfidfTransformer, CRC-32 of the words."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer

from linkdist.errors import ModelError
from linkdist.tables import bag_encoders
from linkdist.tables.feature_encoder import FeatureEncoder, make_feature_encoder
from linkdist.tables.text_encoders import LONGEST, HashedText, Text, words_of

texts = st.lists(st.text(st.sampled_from("aäbB .1ß_"), max_size=12), min_size=1, max_size=12)


def fitted(texts):
    """Fitted in two batches."""
    first, second = (pa.array(part, pa.string()) for part in (texts[:3], texts[3:]))
    return Text("t").partial_fit(first).partial_fit(second)


@given(texts)
def test_text_is_weighted_like_scikit_learn(texts):
    text = fitted(texts)
    new = [*texts, "b unseen", "unseen"]
    if not text.width:
        assert text.transform(pa.array(new)).shape == (len(new), 0)
        return
    options = {"token_pattern": r"\w+", "vocabulary": list(text.frequencies)}
    expected = TfidfVectorizer(**options).fit(texts).transform(new).toarray()
    np.testing.assert_allclose(text.transform(pa.array(new)).toarray(), expected, atol=1e-6)


@given(texts)
def test_text_survives_json(texts):
    text = fitted(texts)
    back = Text.from_state(json.loads(json.dumps(text.state())))
    assert list(back.frequencies.items()) == list(text.frequencies.items())
    new = pa.array([*texts, "b unseen"])
    assert back.transform(new).toarray().tolist() == text.transform(new).toarray().tolist()


@given(texts)
def test_all_batches_at_once_give_the_same_as_one_after_the_other(texts):
    encoder = make_feature_encoder({"t": "text"})
    batch = pa.record_batch({"t": texts})
    found = encoder.fit_transform([(1, batch.slice(0, 3)), (4, batch.slice(3))])
    assert encoder.state() == [fitted(texts).state()]
    assert found.toarray().tolist() == fitted(texts).transform(batch["t"]).toarray().tolist()


def test_most_frequent_words_are_kept_with_ties_by_name(monkeypatch):
    monkeypatch.setattr(Text, "most", 2)
    assert fitted(["c b", "c c", "a"]).frequencies == {"c": 2, "a": 1}


def test_rare_words_are_dropped_while_counting(monkeypatch):
    monkeypatch.setattr(bag_encoders, "COUNTED", 10)
    text = Text("t")
    for start in range(0, 100, 5):
        text.partial_fit(pa.array(["often", " ".join(map(str, range(start, start + 5)))]))
        assert len(text._counts) <= 10
    assert next(iter(text.frequencies.items())) == ("often", 20)


def test_very_long_words_have_no_feature():
    assert fitted(["a" * LONGEST, "b" * (LONGEST + 1)]).frequencies == {"a" * LONGEST: 1}


def test_missing_empty_and_unseen_texts_encode_to_zeros():
    found = fitted(["a"]).transform(pa.array([None, "", " ?! ", "unseen"]))
    assert found.toarray().tolist() == [[0.0]] * 4


def test_every_letter_becomes_lower_case_on_its_own():
    """Python's own rule depends on the letters around, which no ONNX operator knows."""
    assert words_of("ΟΔΟΣ ΣΑΣ İI ÄẞǅÉ") == ["οδοσ", "σασ", "ii", "äßǆé"]
    assert words_of("one-two_3, ½ 東京!") == ["one", "two_3", "½", "東京"]


@pytest.mark.parametrize(
    "change",
    [
        *({"rows": 1.5}, {"rows": 0}, {"frequencies": {"war": -1}}, {"frequencies": {"war": 9}}),
        {"frequencies": {"\ud800": 1}},
    ],
)
def test_an_invalid_state_is_rejected(change):
    state = {"kind": "text", "name": "t", "rows": 2, "frequencies": {"war": 1}}
    assert FeatureEncoder.from_state([state]).d == 1
    with pytest.raises(ModelError, match="the state of the columns is damaged"):
        FeatureEncoder.from_state([state | change])


# Models of older versions hash words --------------------------------------------------------------


@given(texts)
def test_hashed_text_is_weighted_like_scikit_learn(texts):
    counts = np.zeros((len(texts), 4096))
    for row, text in enumerate(texts):
        letters = (c if c.isalnum() or c == "_" else " " for c in text.lower())
        for word in "".join(letters).split():
            counts[row, zlib.crc32(word.encode()) % 4096] += 1
    state = {"kind": "text", "name": "t", "rows": len(texts)}
    state["frequencies"] = (counts > 0).sum(axis=0).tolist()
    encoder = FeatureEncoder.from_state(json.loads(json.dumps([state])))
    assert isinstance(encoder.columns[0], HashedText)
    assert encoder.state() == [state]
    expected = TfidfTransformer().fit_transform(sparse.csr_matrix(counts)).toarray()
    found = encoder.transform(pa.record_batch({"t": texts})).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_hashed_text_can_be_fitted_to_more_rows():
    text = HashedText("t", 0, [0] * 4096).partial_fit(pa.array(["Knoten"]))
    assert np.flatnonzero(text.frequencies).tolist() == [zlib.crc32(b"knoten") % 4096]
    assert zlib.crc32(b"123456789") == 0xCBF43926  # the algorithm's published check value
