"""Samples, bins, words and agreement: what the summary of a training is made of."""

import numpy as np
import pyarrow as pa
import pytest

from linkdist.tables.agreement import find_pairs, informative_words, mean_and_error
from linkdist.tables.bag_encoders import Categorical, Tags
from linkdist.tables.bins import NumberBins, bins_from_state, fit_bins
from linkdist.tables.column_summary import Counts, summarise_columns
from linkdist.tables.column_values import column_values, unseen_shares
from linkdist.tables.feature_encoder import make_feature_encoder
from linkdist.tables.table_sample import TableSample
from linkdist.tables.text_encoders import Text

RANDOM = np.random.default_rng(0)


def sampled(size, batch):
    sample = TableSample(["v"], size)
    for start in range(0, 1000, batch):
        sample.add(
            pa.record_batch({"v": np.arange(start, min(start + batch, 1000)), "w": [0] * batch})
        )
    return sample


def test_a_sample_does_not_depend_on_batches():
    few = sampled(50, 10)
    assert few.table().schema.names == ["v"]
    assert few.table()["v"].to_pylist() == few.rows().tolist() == sorted(set(few.rows().tolist()))
    assert few.rows().tolist() == sampled(50, 200).rows().tolist()
    assert len(few.rows()) == 50
    assert 400 < few.rows().mean() < 600
    assert sampled(1000, 100).rows().tolist() == list(range(1000))
    assert TableSample(["v"], 5).table().num_rows == 0


# Bins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers",
    [
        RANDOM.normal(size=1000),
        RANDOM.integers(0, 5, 1000).astype(float),
        np.repeat([0.0, 1.0], [990, 10]),
        np.full(20, 7.5),
        np.array([np.nan, 3.0]),
    ],
)
def test_every_number_is_between_the_edges_of_its_bin(numbers):
    bins = fit_bins(numbers)
    assert len(bins.labels) == len(bins.edges) + 2 <= 13
    ends = [-np.inf, *bins.edges, np.inf]
    for value, k in zip(numbers, bins.place(numbers).tolist(), strict=True):
        inside = np.isnan(value) if k == len(bins.edges) + 1 else ends[k] < value <= ends[k + 1]
        assert inside
    counts = bins.count(numbers)
    assert counts[0] == counts[-2] == 0  # below all and above all
    far = bins.place(np.array([np.nanmin(numbers) - 1, np.nanmax(numbers) + 1, np.nan]))
    assert far.tolist() == [0, len(bins.edges), len(bins.edges) + 1]
    assert bins_from_state(bins.state()) == bins


def test_tenths_of_different_numbers_have_equally_many_rows():
    assert fit_bins(RANDOM.normal(size=1000)).count(RANDOM.normal(size=0)).sum() == 0
    numbers = np.arange(1000.0)
    assert fit_bins(numbers).count(numbers).tolist() == [0, *[100] * 10, 0, 0]
    assert fit_bins(np.array([np.nan])).labels == ["all", "missing"]


def test_dates_are_named_as_dates():
    days = pa.array(["2004-05-31", "2010-06-02", None])
    encoders = make_feature_encoder({"day": "date"}, pa.table({"day": days}))
    (day,) = summarise_columns(encoders, pa.table({"day": days})).columns
    assert day.bins.labels[:2] == ["below 2004-05-31", "2004-05-31"]
    assert day.counts[-1] == 1


def test_a_row_counts_for_its_rarest_word():
    rows = [["the", "cat"], ["the"], ["the", "dog"], ["the", "dog", "cat"], ["the", "dog"], []]
    bins = fit_bins(rows)
    assert bins.names == ("cat", "dog", "the")
    assert bins.count(rows).tolist() == [2, 2, 1, 0, 1]
    assert bins.count([["emu"]]).tolist() == [0, 0, 0, 1, 0]


def test_values_beyond_the_most_frequent_are_others():
    values = pa.array([f"v{k}" for k in range(50) for _ in range(50 - k)] + ["x" * 200] * 60)
    bins = fit_bins(values)
    assert bins.names == tuple(f"v{k}" for k in range(20))
    assert bins.count(values)[-2:].tolist() == [sum(range(1, 31)) + 60, 0]


@pytest.mark.parametrize(
    "state", [{"edges": [1, 1]}, {"edges": [None]}, {"names": [], "kind": "a"}]
)
def test_invalid_bins_are_refused(state):
    with pytest.raises((ValueError, TypeError)):
        bins_from_state(state)


# Unseen values ------------------------------------------------------------------------------------


def test_unseen_values_of_the_training_are_those_of_leaving_a_row_out():
    rows = [["a", "b"], ["a"], ["c", "a"], []]
    tags = Tags("t").partial_fit(pa.array(rows))
    left_out = [
        np.mean([not any(word in other for other in rows[:k] + rows[k + 1 :]) for word in row])
        for k, row in enumerate(rows[:3])
    ]
    found = unseen_shares(tags, column_values(tags, pa.array(rows)), of_training=True)
    assert found[:3].tolist() == left_out
    assert np.isnan(found[3])
    assert unseen_shares(tags, [["a", "z"]]).tolist() == [0.5]


def test_words_and_categories_that_training_did_not_see():
    title = Text("title").partial_fit(pa.array(["Graphs and links", "links"]))
    values = column_values(title, pa.array(["LINKS, links zebra", None]))
    assert values == [["links", "zebra"], []]
    assert unseen_shares(title, values)[0] == 0.5
    field = Categorical("field").partial_fit(pa.array(["a", "a", "b"]))
    shares = unseen_shares(field, column_values(field, pa.array(["b", "c", None])))
    assert shares[:2].tolist() == [0, 1]
    assert np.isnan(shares[2])


# Agreement ----------------------------------------------------------------------------------------


def test_agreement_of_two_binary_columns_is_their_correlation():
    a = RANDOM.integers(0, 2, 20_000)
    b = np.where(RANDOM.random(20_000) < 0.3, RANDOM.integers(0, 2, 20_000), 1 - a)
    ((pair, sums),) = find_pairs([a, b], [3, 3])
    assert mean_and_error(sums)[0] == pytest.approx(abs(np.corrcoef(a, b)[0, 1]), abs=0.02)
    again = pair.sums([a, RANDOM.permutation(b)])
    assert abs(mean_and_error(again)[0]) < 0.03


def test_unrelated_and_missing_values_do_not_agree():
    columns = [RANDOM.integers(0, 10, 300) for _ in range(12)]
    assert find_pairs(columns, [11] * 12) == []
    missing = np.full(300, 10)
    assert find_pairs([missing, missing], [11, 11]) == []


def test_words_are_chosen_that_depend_on_other_columns():
    place = RANDOM.integers(0, 3, 2000)
    rows = [["the", f"own{k}", f"any{RANDOM.integers(0, 5)}"] for k in place]
    words = ["the", *(f"any{k}" for k in range(5)), *(f"own{k}" for k in range(3))]
    assert sorted(informative_words(rows, words, [place], [4])) == ["own0", "own1", "own2"]


def test_counts_add_up_whatever_the_batches():
    table = pa.table({"v": RANDOM.normal(size=100), "t": [["a", "b"][: k % 3] for k in range(100)]})
    encoders = make_feature_encoder({"v": "numeric", "t": "tags"}, table)
    encoders.partial_fit(table.to_batches()[0])
    summary = summarise_columns(encoders, table)
    whole, parts = Counts(summary, encoders.columns), Counts(summary, encoders.columns)
    whole.add({name: table[name] for name in table.schema.names})
    for start in (0, 30, 60):
        part = Counts(summary, encoders.columns)
        part.add({name: table[name].slice(start, 30 + 10 * (start == 60)) for name in ("v", "t")})
        parts.add_counts(part)
    assert parts.rows == whole.rows == 100
    for one, other, column in zip(parts.columns, whole.columns, summary.columns, strict=True):
        assert one.tolist() == other.tolist() == column.counts.tolist()
    assert parts.words[1].tolist() == summary.columns[1].word_counts.tolist() == [66, 33]
    np.testing.assert_allclose(parts.unseen, whole.unseen)
    assert isinstance(summary.columns[0].bins, NumberBins)
