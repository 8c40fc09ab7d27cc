"""Targets of the students. Oracles: known labels, and the mixture without them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, roc_auc_score

from linkdist import Graph, fit
from linkdist.data.splits import Split
from linkdist.nn.inputs import make_inputs
from linkdist.training.panel.ensemble import TeacherEnsemble
from linkdist.training.panel.learning import assemble
from linkdist.training.panel.replicas import fold_replicas
from linkdist.training.panel.teachers import TeachingContext

CPU = torch.device("cpu")
NONE = np.array([], dtype=np.int64)


def ensemble_of(graph, labels):
    split = Split(np.arange(labels), NONE, NONE)
    replicas = fold_replicas(graph, split, "transductive", [0])
    taught = sorted({replica.taught_by for replica in replicas})
    views = [replicas[r].view for r in taught]
    context = TeachingContext(graph, views, make_inputs(graph.features, CPU))
    return TeacherEnsemble(graph, replicas, context, assemble(context))


@pytest.mark.parametrize("labels", [30, 80])
def test_known_labels_are_targets_and_the_others_are_probabilities(wordy, labels):
    found = ensemble_of(wordy, labels)
    for row, replica in zip(found.targets().numpy(), found.replicas, strict=True):
        known = replica.view.train
        np.testing.assert_array_equal(row[known], np.eye(3)[wordy.labels[known]])
        others = np.setdiff1d(replica.view.nodes, known)
        np.testing.assert_allclose(row[others].sum(axis=1), 1, atol=1e-5)
        assert row[others].max() < 1


def test_smooth_targets_have_no_labels_if_most_nodes_are_labelled(wordy):
    few, many = ensemble_of(wordy, 30), ensemble_of(wordy, 80)
    assert torch.equal(few.targets(smooth=True), few.targets())
    smooth, sharp = many.targets(smooth=True), many.targets()
    for a, b, replica in zip(smooth, sharp, many.replicas, strict=True):
        known = torch.from_numpy(replica.view.train)
        assert a[known].max() < 1
        others = torch.from_numpy(np.setdiff1d(replica.view.nodes, replica.view.train))
        assert torch.equal(a[others], b[others])


def test_a_model_that_is_chosen_by_a_ranking_does_not_learn_labels_by_heart():
    """All nodes are labelled, and the labels are noisy."""
    random = np.random.default_rng(0)
    x = random.normal(size=(500, 30))
    odds = x[:, 0] + x[:, 1]
    y = (odds + 2 * random.normal(size=500) > 0).astype(int)
    graph = Graph.build(x[:300], random.integers(0, 300, (600, 2)), y[:300])
    everyone = Split(np.arange(300), NONE, NONE)
    score, lost = {}, {}
    for metric in (None, "roc-auc"):
        model = fit(graph, everyone, epochs=60, device="cpu", metric=metric).model
        p = model.predict_proba(x)[:, 1]
        score[metric] = roc_auc_score(odds[300:] > 0, p[300:])
        lost[metric] = roc_auc_score(y[:300], p[:300]) - roc_auc_score(y[300:], p[300:])
    assert score["roc-auc"] > score[None]
    assert lost["roc-auc"] < lost[None] - 0.05


def test_given_class_weights_are_the_only_factors_of_the_estimates():
    """Macro F1 chooses factors, but not beside those that are given."""
    random = np.random.default_rng(0)
    y = (random.random(200) < 0.15).astype(int)
    x = random.normal(size=(200, 3)) + y[:, None]
    graph = Graph.build(x, random.integers(0, 200, (300, 2)), y)
    split, weight = Split(np.arange(200), NONE, NONE), np.array([1.0, 4.0])
    result = fit(graph, split, epochs=3, device="cpu", metric="macro-f1", class_weight=weight)

    found = result.predictions["new row"]["features"]
    expected = f1_score(found.labels, found.scores.argmax(axis=1), average="macro")
    assert result.estimates.new_rows[0].value == pytest.approx(expected)
    assert result.decision.factors == weight.tolist()
