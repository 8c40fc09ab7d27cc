"""Oracles: the labels of the store, and the replicas of a graph in memory."""

from __future__ import annotations

import numpy as np
import pytest

from linkdist.distributed.panel import sample as module
from linkdist.distributed.panel.sample import draw_labelled, draw_sample, rows_for
from linkdist.distributed.survey import PART, part_rows
from linkdist.progress import Callback
from linkdist.store.synthetic import Planted, synth

PLANTED = Planted(900, 4000, features=5, classes=3, labelled=0.5)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("stores") / "store", PLANTED, parts=4)


def all_labelled(store):
    """The numbers and the labels of all labelled nodes."""
    numbers, labels = [], []
    for part in range(store.P):
        y = store.labels(part)
        numbers.append((part << PART) + np.flatnonzero(y >= 0))
        labels.append(y[y >= 0])
    return np.concatenate(numbers), np.concatenate(labels)


def test_all_labels_are_drawn_if_there_are_few(store):
    for ours, theirs in zip(draw_labelled(store, 10**6, 0), all_labelled(store), strict=True):
        assert np.array_equal(ours, theirs)


def test_some_labels_are_drawn_at_random(store):
    numbers, labels = all_labelled(store)
    drawn, y = draw_labelled(store, 200, seed=1)
    assert len(drawn) == 200
    assert (np.diff(drawn) > 0).all()
    assert np.array_equal(labels[np.searchsorted(numbers, drawn)], y)
    assert np.array_equal(draw_labelled(store, 200, seed=1)[0], drawn)
    assert not np.array_equal(draw_labelled(store, 200, seed=2)[0], drawn)
    count = np.zeros(len(numbers))
    for seed in range(300):
        count[np.isin(numbers, draw_labelled(store, 200, seed)[0])] += 1
    share = 200 / len(numbers)
    deviation = np.sqrt(300 * share * (1 - share))
    assert (np.abs(count - 300 * share) < 5 * deviation).all(), "each node is as likely as others"


@pytest.mark.parametrize(("share", "kinds"), [(None, 11), (0.2, 2), (0.0, 2)])
def test_replicas_hide_their_validation_nodes(store, share, kinds):
    seeds = [0] if share is None else [0, 1]
    found = draw_sample(store, seeds, share, 10**9, Callback())
    assert len(found.replicas) == kinds
    assert np.array_equal(found.numbers(found.labelled), all_labelled(store)[0])
    for replica in found.replicas:
        hidden, withheld = found.hidden(replica), found.withheld(replica)
        aside = np.union1d(replica.validation, replica.known)
        assert _numbers(withheld) == found.numbers(aside).tolist()
        gone = [] if replica.kind == "known row" else found.numbers(replica.validation).tolist()
        assert _numbers(hidden) == gone


def _numbers(rows):
    return [int((part << PART) + row) for part in sorted(rows) for row in rows[part]]


def test_few_of_many_labels_are_held_out(store, monkeypatch):
    monkeypatch.setattr(module, "MOST_VALIDATION", 20)
    found = draw_sample(store, [0], None, 10**9, Callback())
    (replica,) = found.replicas
    assert len(replica.validation) + len(replica.known) == pytest.approx(20, abs=3)


def test_the_sample_has_the_features_of_its_nodes(store):
    found = draw_sample(store, [0], 0.2, 10**9, Callback())
    for part, rows in part_rows(found.survey.nodes):
        own = np.flatnonzero(found.survey.nodes >> PART == part)
        assert np.array_equal(found.graph.features[own], store.features(part)[rows])
        assert np.array_equal(found.graph.labels[own], store.labels(part)[rows])


def test_the_number_of_rows_follows_the_memory(store):
    assert rows_for(store, 0) == module.FEWEST_ROWS
    assert rows_for(store, 10**12) == module.MOST_ROWS
    some = rows_for(store, 10**7)
    assert module.FEWEST_ROWS < some < module.MOST_ROWS
    assert rows_for(store, 2 * 10**7) == pytest.approx(2 * some, abs=2)
