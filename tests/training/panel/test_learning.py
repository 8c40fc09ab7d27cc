"""Oracles: the same training again, alone, killed or scrambled; accuracies by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from linkdist import Graph, fit
from linkdist.data.splits import Split, semi_supervised
from linkdist.errors import GraphError, OptionError
from linkdist.model import logits
from linkdist.nn.aggregation import relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.training.checkpoint import Checkpoint
from linkdist.training.panel import fitting, learning

CPU = torch.device("cpu")
NONE = np.array([], dtype=np.int64)


def trained(graph, splits, setting="transductive", **options):
    return fit(
        graph, splits, setting, **{"method": "selflinkdist", "epochs": 2, "device": "cpu"} | options
    )


def weights(result):
    """All numbers of a model."""
    model = result.model
    return {**model.network.state_dict(), "alpha": model.alpha, "kappa": model.kappa}


def probabilities(result, graph):
    """From features and with links, each (R, n, C)."""
    z, s = logits(result.model.network, make_inputs(graph.features, CPU))
    neighbours = relations_of(graph, graph.n, CPU)
    return z.softmax(-1), result.model.with_neighbours(z, s, neighbours).softmax(-1)


def assert_same(one, two):
    a, b = weights(one), weights(two)
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def labelled(graph, per_class=6, seed=0):
    """Labels without validation or test nodes: folds validate."""
    return Split(semi_supervised(graph, seed, per_class, 0, 1).train, NONE, NONE)


def divided(graph, seed=0, per_class=6, validation=20, test=25):
    return semi_supervised(graph, seed, per_class, validation, test)


@pytest.mark.parametrize("validation", ["folds", "validation"])
def test_the_same_seed_gives_the_same_weights(wordy, validation):
    split = labelled(wordy) if validation == "folds" else divided(wordy)
    assert_same(*(trained(wordy, split, seeds=[3, 4]) for _ in range(2)))


def test_other_seeds_give_other_weights(wordy):
    one, two = (trained(wordy, divided(wordy), seeds=[seed]) for seed in (0, 1))
    assert not torch.equal(*(weights(result)["first.weight"] for result in (one, two)))


def test_a_replica_alone_is_the_same_replica_beside_another(wordy):
    splits = [divided(wordy, seed) for seed in (0, 1)]
    together = weights(trained(wordy, splits, "inductive", seeds=[7, 8]))
    for r in range(2):
        alone = weights(trained(wordy, splits[r], "inductive", seeds=[7 + r]))
        for name, value in alone.items():
            assert torch.allclose(together[name][r], value[0], rtol=0, atol=1e-5), name


def test_a_replica_alone_predicts_as_beside_another_from_dense_features(broad):
    """Adam makes a step of a gradient of rounding errors: predictions hardly feel it."""
    splits = [divided(broad, seed) for seed in (0, 1)]
    together = probabilities(trained(broad, splits, "inductive", seeds=[7, 8]), broad)
    for r in range(2):
        alone = probabilities(trained(broad, splits[r], "inductive", seeds=[7 + r]), broad)
        for whole, value in zip(together, alone, strict=True):
            assert torch.allclose(whole[r], value[0], rtol=0, atol=1e-4)


def scrambled(graph, hidden):
    """Other features, labels and links for some nodes, in CSR as in dense graphs."""
    random = np.random.default_rng(5)
    dense = isinstance(graph.features, np.ndarray)
    x = graph.features.copy() if dense else graph.features.toarray()
    x[hidden] = random.permuted(x[hidden], axis=1)
    labels = graph.labels.copy()
    labels[hidden] = (labels[hidden] + 1) % graph.C
    links = graph.links[~np.isin(graph.links, hidden).any(axis=1)]
    strange = np.stack([random.choice(hidden, 90), random.integers(0, graph.n, 90)], axis=1)
    x = x if dense else type(graph.features)(x)
    return Graph.build(x, np.concatenate([links, strange]), labels)


@pytest.mark.parametrize(
    ("kind", "validation"),
    [
        ("wordy", "folds"),
        ("wordy", "validation"),
        ("broad", "folds"),
        ("broad", "validation"),
        ("narrow", "validation"),
    ],
)
def test_what_an_inductive_split_hides_cannot_matter(request, kind, validation):
    graph = request.getfixturevalue(kind)
    split = divided(graph)
    if validation == "folds":
        split = Split(split.train, NONE, split.test)
    other = scrambled(graph, split.test)
    assert_same(*(trained(some, split, "inductive") for some in (graph, other)))


def test_labels_of_test_nodes_cannot_matter_in_any_setting(wordy):
    split = divided(wordy)
    labels = wordy.labels.copy()
    labels[split.test] = (labels[split.test] + 1) % 3
    other = Graph.build(wordy.features, wordy.links, labels)
    assert_same(*(trained(some, split, "transductive") for some in (wordy, other)))


class KilledError(Exception):
    pass


def killed_after(visits):
    reports = itertools.count()  # the first is the start

    def kill(done, total):
        if next(reports) == visits:
            raise KilledError

    return kill


FOLDS = {"epochs": 7, "seeds": [3]}
CYCLES = {"epochs": None, "seeds": [3, 4]}


@pytest.fixture(scope="module")
def undisturbed(wordy):
    """The training with folds that others are killed in."""
    return trained(wordy, labelled(wordy), **FOLDS)


@pytest.mark.parametrize("after", [2, 6, 7])
def test_a_killed_training_with_folds_goes_on_to_the_same_weights(
    wordy, tmp_path, undisturbed, after
):
    """Killed before a state is kept, after it, and at the end; it is kept after five visits."""
    checkpoint = Checkpoint(tmp_path / "state", "this one")
    split, kill = labelled(wordy), killed_after(after)
    with pytest.raises(KilledError):
        trained(wordy, split, progress=kill, checkpoint=checkpoint, **FOLDS)
    assert (checkpoint.load() is None) == (after < 5)
    resumed = trained(wordy, split, checkpoint=checkpoint, **FOLDS)
    assert_same(resumed, undisturbed)
    assert resumed.estimates == undisturbed.estimates


@pytest.fixture(scope="module")
def two_cycles(wordy):
    """Splits, and a training that goes through two short cycles."""
    splits = [divided(wordy, seed) for seed in (0, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "cycles_for", lambda nodes, folds, batch, long: (6, 11))
        return splits, trained(wordy, splits, **CYCLES)


@pytest.mark.parametrize("after", [5, 6, 11, 17])
def test_a_killed_training_with_validation_nodes_goes_on_to_the_same_weights(
    wordy, tmp_path, monkeypatch, two_cycles, after
):
    """Killed in the first cycle, between the two, in the second, and at its end."""
    monkeypatch.setattr(fitting, "cycles_for", lambda nodes, folds, batch, long: (6, 11))
    splits, undisturbed = two_cycles
    checkpoint, kill = Checkpoint(tmp_path / "state", "this one"), killed_after(after)
    with pytest.raises(KilledError):
        trained(wordy, splits, progress=kill, checkpoint=checkpoint, **CYCLES)
    resumed = trained(wordy, splits, checkpoint=checkpoint, **CYCLES)
    assert_same(resumed, undisturbed)
    assert resumed.estimates == undisturbed.estimates
    assert resumed.epochs == undisturbed.epochs == 17
    for mode in ("features", "mean"):
        one, two = resumed.history, undisturbed.history
        assert (one.curve(mode) == two.curve(mode)).all()
        assert (one.best(mode).epochs == two.best(mode).epochs).all()


@pytest.mark.parametrize("kind", ["wordy", "broad", "narrow"])
def test_it_learns_from_dense_and_from_csr_features(request, kind):
    graph = request.getfixturevalue(kind)
    result = trained(graph, divided(graph, validation=30), epochs=20)
    best = result.history.best("mean")
    assert best.validation[0] > 0.6
    assert all(tensor.isfinite().all() for tensor in weights(result).values())
    boosted = "gradient boosting on features" in result.estimates.teachers
    assert boosted == (kind == "narrow")


def test_the_teachers_shares_sum_to_one_and_more_teachers_are_among_them(wordy):
    more = [KNeighborsClassifier(3), LogisticRegression(), KNeighborsClassifier(5)]
    result = trained(wordy, divided(wordy), teachers=more)
    shares = result.estimates.teachers
    assert sum(shares.values()) == pytest.approx(1)
    assert {"KNeighborsClassifier", "LogisticRegression", "KNeighborsClassifier 2"} < set(shares)
    assert all(share > 0 for share in shares.values())
    baselines = {score.name: score for score in result.estimates.baselines}
    assert not baselines["KNeighborsClassifier"].links


def test_more_teachers_are_judged_by_folds_too(broad):
    result = trained(broad, labelled(broad), teachers=[GaussianNB()])
    assert "GaussianNB" in result.estimates.teachers
    assert result.estimates.labels == 18


def test_a_users_classifier_is_left_as_it_was(wordy):
    mine = KNeighborsClassifier(3)
    trained(wordy, divided(wordy), teachers=[mine])
    assert not hasattr(mine, "classes_")


def check_it_trained(result, *warned):
    assert all(tensor.isfinite().all() for tensor in weights(result).values())
    assert all(np.isfinite(share) for share in result.estimates.teachers.values())
    assert 0 <= result.estimates.new_rows[0].value <= 1
    for words in warned:
        assert any(words in sentence for sentence in result.estimates.warnings), words


def test_a_graph_without_links_is_a_table(wordy):
    alone = Graph.build(wordy.features, [], wordy.labels)
    result = trained(alone, labelled(alone))
    check_it_trained(result, "There are no links")
    assert not any("hop" in name or "spreading" in name for name in result.estimates.teachers)


def test_links_may_touch_no_label(wordy):
    split = labelled(wordy)
    far = wordy.links[~np.isin(wordy.links, split.train).any(axis=1)]
    graph = Graph.build(wordy.features, far, wordy.labels)
    check_it_trained(trained(graph, split), "No link touches a labelled row")


def test_a_class_may_have_one_label(wordy):
    few = [np.flatnonzero(wordy.labels == c)[:size] for c, size in enumerate((7, 6, 1))]
    split = Split(np.sort(np.concatenate(few)), NONE, NONE)
    check_it_trained(trained(wordy, split), "Only one row is labelled '2'")


@pytest.mark.parametrize(
    ("kind", "classes"),
    [
        ("wordy", (0, 1, 2, 0, 1)),
        ("wordy", (0, 0, 0, 0, 1)),
        ("narrow", (0, 1, 2, 0, 1)),
        ("narrow", (0, 0, 0, 0, 1)),
    ],
)
def test_there_may_be_five_labels(request, kind, classes):
    """Of three classes, or of two: then a fold may know a single class."""
    graph = request.getfixturevalue(kind)
    labels = np.full(graph.n, -1)
    labels[:5] = classes
    graph = Graph.build(graph.features, graph.links, labels)
    result = trained(graph, Split(np.arange(5), NONE, NONE))
    check_it_trained(result, "only 5 labelled rows")
    assert result.estimates.labels == 5


@pytest.mark.parametrize("size", [2, 3])
def test_fewer_labels_than_folds_need_train_without_an_estimate(wordy, size):
    result = trained(wordy, Split(np.arange(size), NONE, NONE))
    assert result.estimates is None
    assert all(tensor.isfinite().all() for tensor in weights(result).values())


def test_training_without_judges_trains_no_longer_than_it_uses(wordy, monkeypatch):
    """A second cycle without validation nodes could not be compared with the first."""
    monkeypatch.setattr(fitting, "cycles_for", lambda nodes, folds, batch, long: (2, 3))
    result = trained(wordy, labelled(wordy), held_out=0, epochs=None)
    assert result.estimates is None
    assert result.epochs == 2


def test_many_labels_hold_a_share_out(wordy, monkeypatch):
    monkeypatch.setattr(fitting, "FEW", 30)
    split = Split(np.arange(80), NONE, NONE)
    result = trained(wordy, split, seeds=[0, 1])
    assert result.estimates.by == "validation nodes"
    assert len(result.estimates.known_rows) == 2
    assert 2 <= result.estimates.labels <= 6
    check_it_trained(result)


def test_splits_that_differ_need_validation_nodes(wordy):
    splits = [labelled(wordy, seed=seed) for seed in (0, 1)]
    with pytest.raises(OptionError, match="all replicas must have the same split"):
        trained(wordy, splits, seeds=[0, 1])


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_accuracies_of_splits_of_different_sizes_are_those_of_the_model(wordy, setting):
    """Test nodes were once counted as validation nodes of the smaller set."""
    splits = [divided(wordy, 0, validation=7, test=30), divided(wordy, 1, validation=31, test=12)]
    result = trained(wordy, splits, setting, seeds=[5, 6], epochs=3)
    for mode, scores in zip(("features", "mean"), probabilities(result, wordy), strict=True):
        right = scores.argmax(-1).numpy() == wordy.labels
        best = result.history.best(mode)
        for r, split in enumerate(splits):
            assert best.validation[r] == pytest.approx(right[r, split.validation].mean())
            assert best.test[r] == pytest.approx(right[r, split.test].mean())


def test_estimates_of_validation_nodes_are_the_models_own_accuracy(wordy):
    """Transductive: all nodes are visible, so the validation nodes have the model's links."""
    split = divided(wordy)
    result = trained(wordy, split, epochs=3)
    for score, scores in zip(result.estimates.new_rows, probabilities(result, wordy), strict=True):
        right = scores[0].argmax(-1).numpy() == wordy.labels
        assert score.value == pytest.approx(right[split.validation].mean())


def test_baselines_are_trained_where_asked_for(wordy):
    result = trained(wordy, labelled(wordy), baselines=True)
    names = {score.name: score.links for score in result.estimates.baselines}
    assert names["largest class"] is names["CoLinkDist"] is False
    assert names["CoLinkDist, with links"] is True


def test_a_budget_of_nothing_still_trains(wordy):
    result = trained(wordy, labelled(wordy), epochs=None, budget=1e-6)
    assert result.epochs == 1
    assert result.estimates is None
    assert all(tensor.isfinite().all() for tensor in weights(result).values())


def test_students_have_the_first_cycle_alone_where_folds_judge(wordy, monkeypatch):
    monkeypatch.setattr(fitting, "cycles_for", lambda nodes, folds, batch, long: (2, 3))
    assert trained(wordy, labelled(wordy), epochs=None).epochs == 2
    assert trained(wordy, divided(wordy), epochs=None).epochs == 5


def test_a_state_is_kept_every_few_visits(wordy, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(learning.Student, "KEEP_EVERY", 3)
    checkpoint = Checkpoint(tmp_path / "state", "this one")

    def look(done, total):
        found = checkpoint.load()
        kept.append(found[0] if found else 0)

    trained(wordy, divided(wordy), epochs=7, progress=look, checkpoint=checkpoint)
    assert kept[1:8] == [0, 0, 3, 3, 3, 6, 7]  # the first report is the start


def test_labels_of_one_class_are_refused_before_any_training(wordy):
    with pytest.raises(GraphError, match="labels of more than one class; found 1 labelled rows"):
        trained(wordy, Split(np.arange(1), NONE, NONE))
