"""Oracles: the labels of the store, and the replicas of a graph in memory."""

from __future__ import annotations

import numpy as np
import pytest

from linkdist import Graph
from linkdist.data.splits import Split
from linkdist.distributed import survey
from linkdist.distributed.panel import sample as module
from linkdist.distributed.panel.sample import (
    draw_labelled,
    draw_sample,
    in_table_order,
    links_for,
    rows_for,
)
from linkdist.distributed.survey import MAX_LINKS, PART, part_rows
from linkdist.progress import Callback
from linkdist.store.append import append
from linkdist.store.build import build
from linkdist.store.synthetic import Planted, synth
from linkdist.tables.source import Tables
from linkdist.training.panel.replicas import fold_replicas

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


def test_the_number_of_links_follows_the_memory(store):
    assert links_for(store, 0) == module.FEWEST_LINKS
    assert links_for(store, 10**12) == MAX_LINKS
    some = links_for(store, 10**7)
    assert module.FEWEST_LINKS < some < MAX_LINKS
    assert links_for(store, 2 * 10**7) == pytest.approx(2 * some, abs=2)


def test_validation_nodes_have_fewer_links_in_less_memory(store, monkeypatch):
    monkeypatch.setattr(module, "FEWEST_LINKS", 1)
    monkeypatch.setattr(survey, "LIMIT", 0)  # no links of other nodes
    large, small = (draw_sample(store, [0], 0.5, room, Callback()) for room in (10**9, 10**5))
    held = len(small.survey.split.validation)
    most = max(1, links_for(store, 10**5) // held)
    assert len(small.graph.links) <= held * most < len(large.graph.links)


def table(folder, nodes=60, labelled=40):
    """Tables of nodes and links, of which some nodes have one of three labels."""
    random = np.random.default_rng(0)
    rows = [f"n{i},{'abc'[i % 3] if i < labelled else ''},{i % 7}" for i in range(nodes)]
    rows = [rows[i] for i in random.permutation(nodes)]
    (folder / "nodes.csv").write_text("\n".join(["id,label,x", *rows]) + "\n")
    pairs = random.integers(nodes, size=(600, 2))
    text = "\n".join(f"n{a},n{b}" for a, b in pairs)
    (folder / "links.csv").write_text(f"source,target\n{text}\n")
    return Tables(folder / "nodes.csv", folder / "links.csv", "id", "label")


def folds(replicas, ids):
    return [(replica.kind, sorted(ids[n] for n in replica.validation)) for replica in replicas]


@pytest.mark.parametrize("P", [1, 2, 3])
def test_the_folds_of_a_store_are_those_of_its_table(tmp_path, P):
    tables = table(tmp_path)
    store = build(tables, tmp_path / "store", parts=P)
    found = draw_sample(store, [5], None, 10**9, Callback())
    ids = [store.ids(part).to_pylist() for part in range(P)]
    numbers = found.survey.nodes
    named = [ids[number >> PART][number & ((1 << PART) - 1)] for number in numbers]
    lines = [line.split(",") for line in (tmp_path / "nodes.csv").read_text().split()[1:]]
    labels = np.array(["abc".find(line[1]) if line[1] else -1 for line in lines])
    graph = Graph.build(np.ones((len(lines), 1)), np.empty((0, 2), int), labels)
    none = np.array([], dtype=np.int64)
    split = Split(np.flatnonzero(labels >= 0), none, none)
    theirs = fold_replicas(graph, split, "transductive", [5])
    assert folds(found.replicas, named) == folds(theirs, [line[0] for line in lines])


def test_appended_labels_come_after_those_of_the_table(tmp_path):
    store = build(table(tmp_path), tmp_path / "store", parts=2)
    before = in_table_order(store, 40)
    store = append(tmp_path / "store", {"id": ["new"], "label": ["b"], "x": [1]})
    assert in_table_order(store, 41).tolist() == [*before.tolist(), 40]


def test_a_store_without_the_rows_of_its_table_has_its_own_order(store):
    assert store.manifest.label_rows is None
    assert in_table_order(store, 4).tolist() == [0, 1, 2, 3]
