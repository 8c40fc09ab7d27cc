"""Oracles: counted labels, searches for the nodes and links of validation nodes, references."""

from __future__ import annotations

import numpy as np
import pytest

from linkdist import Graph
from linkdist.data.graph import UNKNOWN
from linkdist.data.splits import Split, observe, semi_supervised
from linkdist.training.panel.replicas import (
    FEWEST,
    FOLDS,
    fold_replicas,
    held_out_replicas,
    stratified,
    validation_replicas,
)

NONE = np.array([], dtype=np.int64)


def of_kind(replicas, kind):
    return [replica for replica in replicas if replica.kind == kind]


@pytest.fixture(params=["transductive", "inductive"])
def setting(request):
    return request.param


@pytest.fixture
def split(wordy):
    """Thirty labels, no validation nodes, test nodes that an inductive setting hides."""
    found = semi_supervised(wordy, 0, per_class=10, validation=0, test=30)
    return Split(found.train, NONE, found.test)


@pytest.fixture
def replicas(wordy, split, setting):
    return fold_replicas(wordy, split, setting, [5, 6, 7])


@pytest.mark.parametrize("kind", ["new row", "known row"])
def test_each_label_is_judged_once_as_a_new_row_and_once_as_a_known_one(replicas, split, kind):
    validation = np.concatenate([replica.validation for replica in of_kind(replicas, kind)])
    assert len(of_kind(replicas, kind)) == FOLDS
    assert np.sort(validation).tolist() == split.train.tolist()


def test_nobody_knows_the_labels_of_its_judges_and_all_others_are_known(replicas, wordy, split):
    for replica in replicas:
        assert (replica.view.labels[replica.validation] == UNKNOWN).all()
        others = np.setdiff1d(split.train, replica.validation)
        assert replica.view.train.tolist() == others.tolist()
        assert (replica.view.labels[others] == wordy.labels[others]).all()


def test_new_rows_are_not_there_and_neither_are_their_links(replicas, wordy, split, setting):
    whole = observe(wordy, split, setting)
    for replica in of_kind(replicas, "new row"):
        assert not np.isin(replica.validation, replica.view.nodes).any()
        assert not np.isin(replica.view.edges, replica.validation).any()
        assert np.union1d(replica.view.nodes, replica.validation).tolist() == whole.nodes.tolist()
        kept = whole.edges[~np.isin(whole.edges, replica.validation).any(axis=1)]
        assert replica.view.edges.tolist() == kept.tolist()
        assert replica.present.tolist() == whole.nodes.tolist()


def test_known_rows_are_there_with_all_their_links(replicas, wordy, split, setting):
    whole = observe(wordy, split, setting)
    for replica in of_kind(replicas, "known row"):
        assert replica.view.nodes.tolist() == whole.nodes.tolist()
        assert replica.view.edges.tolist() == whole.edges.tolist()


def test_what_the_setting_hides_is_in_no_view(replicas, split, setting):
    for replica in replicas:
        there = np.isin(split.test, np.r_[replica.view.nodes, replica.view.edges.ravel()])
        assert there.all() if setting == "transductive" else not there.any()
        assert not np.isin(split.test, replica.view.train).any()


def test_folds_trust_all_judges_but_their_own(replicas):
    assert [replica.kind for replica in replicas[:FOLDS]] == ["new row"] * FOLDS
    for kind in ("new row", "known row"):
        for k, replica in enumerate(of_kind(replicas, kind)):
            assert set(replica.calibrated_by) == set(range(FOLDS)) - {k}


def test_trusted_judges_are_new_rows(replicas):
    """Each referenced replica has validation nodes that were hidden from it, all of other folds."""
    for replica in replicas:
        for place in replica.calibrated_by:
            assert replicas[place].kind == "new row"
            assert not np.isin(replica.validation, replicas[place].validation).any()


def test_teachers_know_no_more_labels_than_those_whom_they_teach(replicas):
    for replica in replicas:
        taught = replicas[replica.taught_by]
        assert not np.isin(replica.validation, taught.view.train).any()


def test_kept_replicas_see_all_labels_and_trust_all_folds(replicas, wordy, split, setting):
    kept = of_kind(replicas, "kept")
    whole = observe(wordy, split, setting)
    assert [replica.seed for replica in kept] == [5, 6, 7]
    for replica in kept:
        assert replica.view.labels.tolist() == whole.labels.tolist()
        assert replica.view.nodes.tolist() == whole.nodes.tolist()
        assert len(replica.validation) == 0
        assert set(replica.calibrated_by) == set(range(FOLDS))
        assert replicas[replica.taught_by] is kept[0]


def test_folds_have_seeds_of_their_own(replicas):
    for kind in ("new row", "known row"):
        seeds = [replica.seed for replica in of_kind(replicas, kind)]
        assert len(set(seeds)) == FOLDS


@pytest.mark.parametrize("size", range(1, FEWEST))
def test_few_labels_make_no_folds(wordy, size):
    replicas = fold_replicas(wordy, Split(np.arange(size), NONE, NONE), "transductive", [0, 1])
    assert [replica.kind for replica in replicas] == ["kept"] * 2
    assert [replica.taught_by for replica in replicas] == [0, 0]
    assert all(replica.calibrated_by == () for replica in replicas)


def test_folds_can_be_left_out(wordy, split):
    replicas = fold_replicas(wordy, split, "transductive", [0], folds=False)
    assert [replica.kind for replica in replicas] == ["kept"]
    assert replicas[0].calibrated_by == ()


@pytest.mark.parametrize("size", [4, 5, 6])
def test_each_of_a_few_labels_judges(wordy, size):
    replicas = fold_replicas(wordy, Split(np.arange(size), NONE, NONE), "transductive", [0])
    parts = [replica.validation for replica in of_kind(replicas, "new row")]
    assert len(parts) == min(size, FOLDS)
    assert all(len(part) for part in parts)
    assert np.sort(np.concatenate(parts)).tolist() == list(range(size))
    assert set(replicas[-1].calibrated_by) == set(range(len(parts)))


def test_a_class_of_one_label_judges_where_nothing_is_known_of_it():
    labels = np.array([0] * 10 + [1] * 9 + [2])
    graph = Graph.build(np.eye(20), [(0, 19), (1, 2)], labels)
    replicas = fold_replicas(graph, Split(np.arange(20), NONE, NONE), "transductive", [0])
    for replica in replicas[:-1]:
        assert (19 in replica.validation) == (2 not in replica.view.labels)
        assert set(replica.view.labels) >= {0, 1}
    assert 2 in replicas[-1].view.labels


def test_folds_are_of_like_size_and_spread_each_class():
    random = np.random.default_rng(0)
    labels = random.choice(4, 47, p=[0.5, 0.3, 0.15, 0.05])
    folds = stratified(labels, FOLDS, seed=3)
    assert np.ptp(np.bincount(folds, minlength=FOLDS)) <= 1
    for c in range(4):
        assert np.ptp(np.bincount(folds[labels == c], minlength=FOLDS)) <= 1
    assert (folds == stratified(labels, FOLDS, seed=3)).all()
    assert (folds != stratified(labels, FOLDS, seed=4)).any()


def test_validation_nodes_judge_the_replica_of_their_split(wordy, setting):
    splits = [semi_supervised(wordy, seed, 4, size, 20) for seed, size in [(0, 12), (1, 20)]]
    replicas = validation_replicas(wordy, splits, setting, [3, 4])
    for place, (replica, split) in enumerate(zip(replicas, splits, strict=True)):
        assert (replica.kind, replica.seed) == ("kept", 3 + place)
        assert (replica.taught_by, replica.calibrated_by) == (place, (place,))
        assert replica.validation.tolist() == split.validation.tolist()
        assert replica.view.train.tolist() == split.train.tolist()
        hidden = setting == "inductive"
        assert np.isin(split.validation, replica.view.nodes).any() != hidden
        assert np.isin(split.validation, replica.present).all()
        assert np.isin(split.test, replica.present).any() != hidden


def test_a_share_is_held_out_half_of_it_altogether(wordy, setting):
    split = semi_supervised(wordy, 0, per_class=25, validation=0, test=10)
    split = Split(split.train, NONE, split.test)
    replicas = held_out_replicas(wordy, split, setting, [8, 9], share=0.2)
    whole = observe(wordy, split, setting)
    for place, replica in enumerate(replicas):
        assert (replica.kind, replica.seed) == ("kept", 8 + place)
        assert (replica.taught_by, replica.calibrated_by) == (place, (place,))
        parts = [replica.validation, replica.known, replica.view.train]
        assert np.sort(np.concatenate(parts)).tolist() == split.train.tolist()
        assert len(replica.validation) + len(replica.known) == 15
        assert abs(len(replica.validation) - len(replica.known)) <= 1
        assert not np.isin(replica.validation, replica.view.nodes).any()
        assert not np.isin(replica.validation, replica.view.edges).any()
        assert np.isin(replica.known, replica.view.nodes).all()
        assert (replica.view.labels[replica.known] == UNKNOWN).all()
        assert replica.present.tolist() == whole.nodes.tolist()
        assert np.bincount(wordy.labels[replica.view.train]).tolist() == [20, 20, 20]
