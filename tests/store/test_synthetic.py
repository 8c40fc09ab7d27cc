"""Oracles: the shares that were asked for, within statistical bounds; a formula for chance."""

from __future__ import annotations

import numpy as np
import pytest

from linkdist.errors import OptionError
from linkdist.store.reader import Store
from linkdist.store.synthetic import ACCURACY, Planted, _means, synth
from tests.stores import as_arrays, small, tree

PLANTED = Planted(20_000, 100_000, features=32, classes=8, labelled=0.1, homophily=0.7, seed=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("stores") / "made"
    with small():
        return synth(out, PLANTED, parts=3)


@pytest.fixture(scope="module")
def arrays(made):
    ids = [text for part in range(made.P) for text in made.ids(part).to_pylist()]
    truth = np.concatenate([made.truth(part) for part in range(made.P)])
    return (*as_arrays(made, ids), truth)


def within(share, expected, n):
    """Whether a share of n draws is within five deviations."""
    return abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / n)


def test_sizes_are_those_asked_for(made):
    assert made.n == 20_000
    assert made.sizes.tolist() == [6666, 6667, 6667]
    assert (made.d, made.C, made.kind) == (32, 8, "float16")
    assert 0.98 * 100_000 < made.m <= 100_000 + made.loops
    counts = made.counts / made.m
    even = np.triu(np.full((3, 3), 2 / 9) - np.eye(3) / 9)
    assert np.abs(counts - even).max() < 0.005


def test_shares_are_those_asked_for(made, arrays):
    _, labels, links, truth = arrays
    apart = links[links[:, 0] != links[:, 1]]
    same = (truth[apart[:, 0]] == truth[apart[:, 1]]).mean()
    assert within(same, 0.7 + 0.3 / 8, len(apart))
    known = labels >= 0
    assert within(known.mean(), 0.1, made.n)
    assert (labels[known] == truth[known]).all()
    assert all(within(share, 1 / 8, made.n) for share in np.bincount(truth) / made.n)
    assert list(made.manifest.labelled) == np.bincount(labels[known]).tolist()


def test_every_node_has_a_link(tmp_path):
    with small():
        made = synth(tmp_path / "store", Planted(20_000, 30_000, 2, 8), parts=3)
    ids = [text for part in range(made.P) for text in made.ids(part).to_pylist()]
    _, _, links = as_arrays(made, ids)
    degree = np.bincount(links.ravel(), minlength=made.n)
    assert (degree > 0).all()
    alone = links[links[:, 0] == links[:, 1], 0]
    assert len(alone) == made.loops
    assert (degree[alone] == 2).all(), "a self-loop stands for those that have no other link"
    # With k links among n nodes, a node has none with probability (1 - 2 / n)^k.
    assert within(made.loops / made.n, np.exp(-2 * (made.m - made.loops) / made.n), made.n)


def test_features_tell_a_class_as_often_as_planned(arrays):
    x, _, _, truth = arrays
    means = _means(PLANTED)
    guess = (x.astype(np.float32) @ means.T).argmax(axis=1)  # means are equally far from 0
    assert abs((guess == truth).mean() - ACCURACY) < 0.06, "means are not quite at right angles"
    noise = x.astype(np.float32) - means[truth]
    assert abs(noise.std() - 1) < 0.01
    assert abs(noise.mean()) < 0.01


def test_a_made_graph_is_the_same_each_time(made, tmp_path):
    with small():
        synth(tmp_path / "again", PLANTED, parts=3)
        other = Planted(20_000, 100_000, 32, 8, 0.1, 0.7, seed=4)
        synth(tmp_path / "other", other, parts=3)
    assert tree(tmp_path / "again") == tree(made.directory)
    assert not np.array_equal(Store.open(tmp_path / "other").truth(0), made.truth(0))


def test_single_precision_and_few_nodes(tmp_path):
    with small():
        store = synth(tmp_path / "store", Planted(5, 3, 2, 4, 1.0, 1.0, dtype="float32"), parts=4)
    assert store.n == 5
    assert store.features(3).dtype == np.float32
    assert sum((store.labels(part) >= 0).sum() for part in range(4)) == 5


def test_shares_and_sizes_that_cannot_be_are_told_at_once(tmp_path):
    with pytest.raises(OptionError) as found:
        synth(tmp_path / "store", Planted(1, 0, classes=1, labelled=1.5, homophily=-1))
    for name in ("nodes", "links", "classes", "labelled", "homophily"):
        assert f"--{name} must be" in str(found.value)
    with pytest.raises(OptionError, match="unknown type of features 'int8'"):
        synth(tmp_path / "store", Planted(10, 10, dtype="int8"))
    assert not list(tmp_path.iterdir())
