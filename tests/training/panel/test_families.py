"""Oracles: SciPy's optimisers on the same penalised likelihood, scikit-learn's linear models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression, Ridge

from linkdist.training.panel.families import Numbers, Sets, family_of
from linkdist.training.panel.likelihood import fit_linear, mean_weights


def labels_and_scores(N=150, C=3, K=2, seed=0):
    """Log-odds that are right but too large, K of them, and the labels."""
    random = np.random.default_rng(seed)
    odds = random.normal(size=(N, C))
    labels = (random.random((N, C)) < expit(odds)).astype(np.int64)
    return 2.0 * (odds + 0.5 * random.normal(size=(K, N, C))), labels


def test_exponents_of_several_labels_are_those_that_scipy_finds():
    scores, labels = labels_and_scores()
    family, default = Sets(), [0.5, 0.5]
    prior = family.prior(labels, 3)

    def loss(at):
        z = np.tensordot(at[:-1], scores, 1) + at[-1] * prior
        penalty = ((at - [*default, 0.0]) ** 2).sum() / 2
        return np.logaddexp(0, np.where(labels == 1, -z, z)).sum() + penalty

    bounds = [(0, None), (0, None), (None, None)]
    expected = minimize(loss, [*default, 0.0], method="L-BFGS-B", bounds=bounds).x
    assert family.fit(scores, prior, labels, default) == pytest.approx(expected, abs=2e-3)


def test_exponents_of_numbers_are_those_that_scipy_finds():
    random = np.random.default_rng(0)
    y = random.normal(size=80)
    scores = np.stack([0.5 * y, -y])[..., None] + 0.3 * random.normal(size=(2, 80, 1))
    family, default = Numbers(), [0.5, 0.5]
    start = np.array([*default, 0.0])
    rows = np.concatenate([scores[..., 0], np.ones((1, 80))])

    def loss(at, variance):
        return ((y - at @ rows) ** 2).sum() / variance / 2 + ((at - start) ** 2).sum() / 2

    variance = ((y - start @ rows) ** 2).mean()
    bounds = [(0, None), (0, None), (None, None)]
    expected = minimize(loss, start, (variance,), "L-BFGS-B", bounds=bounds).x
    found = family.fit(scores, np.ones(1), y, default)
    assert found == pytest.approx(expected, abs=2e-3)
    assert found[1] == 0  # a prediction that is the wrong way round


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_of_predictions_is_the_best_of_a_grid(seed):
    random = np.random.default_rng(seed)
    y = random.normal(size=400)
    m = y + np.array([[0.5], [0.8]]) * random.normal(size=(2, 400))
    grid = np.linspace(0, 1, 1001)
    errors = ((grid[:, None] * m[0] + (1 - grid[:, None]) * m[1] - y) ** 2).sum(axis=1)
    best = grid[errors.argmin()]
    assert mean_weights(m, y, pseudo_nodes=0.0) == pytest.approx([best, 1 - best], abs=2e-3)


def test_few_nodes_reduce_no_weight_to_nothing():
    y = np.arange(4.0)
    m = np.stack([y, y[::-1]])
    assert mean_weights(m + 0.1, y)[1] > 0
    assert mean_weights(m + 0.1, y).sum() == pytest.approx(1)


@pytest.mark.parametrize("c", [0.1, 10.0])
def test_linear_models_of_labels_and_numbers_are_scikit_learns(c):
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 5)).astype(np.float32)
    rows, known = torch.from_numpy(x)[None], torch.ones(1, 60, 1)
    odds = x @ random.normal(size=(5, 2))
    labels = (random.random((60, 2)) < expit(odds)).astype(np.float32)
    common = (known, 5, torch.tensor([c]))
    found = fit_linear(lambda W: rows @ W, torch.from_numpy(labels)[None], *common, "multilabel")
    for k in range(2):
        exact = LogisticRegression(C=c, tol=1e-8, max_iter=10_000).fit(x, labels[:, k])
        expected = [*exact.coef_[0], exact.intercept_[0]]
        np.testing.assert_allclose(found[0, :, k], expected, atol=5e-3)
    number = torch.from_numpy(odds[:, :1].astype(np.float32))[None]
    found = fit_linear(lambda W: rows @ W, number, *common, "regression")
    exact = Ridge(alpha=1 / c).fit(x, odds[:, 0])
    np.testing.assert_allclose(found[0, :, 0], [*exact.coef_, exact.intercept_], atol=5e-3)


def test_quality_is_the_log_likelihood_or_the_error():
    labels, odds = np.array([[0, 1]]), np.array([[0.5, 1.0]])
    expected = np.log([1 - expit(0.5), expit(1.0)])
    assert Sets().quality(odds, labels) == pytest.approx([expected.mean()])
    assert Sets().evidence(odds, labels) == pytest.approx(expected.sum())
    scores, y = np.array([[3.0], [1.0]]), np.array([1.0, 1.5])
    assert Numbers().quality(scores, y) == pytest.approx([-2.0, -0.125])
    assert Numbers(absolute=True).quality(scores, y) == pytest.approx([-2.0, -0.5])
    assert Numbers().evidence(scores, y) == pytest.approx(-np.log((4 + 0.25) / 2))


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_targets_are_what_a_certain_prediction_is(task):
    family = family_of(task)
    if task == "regression":
        y = np.array([1.5, -2.0])
        np.testing.assert_allclose(family.targets(y, 1), family.mean(y[:, None]))
        return
    labels = np.array([0, 2]) if task == "classification" else np.array([[1, 0, 1], [0, 0, 0]])
    targets = family.targets(labels, 3)
    with np.errstate(divide="ignore"):
        scores = np.log(targets) if task == "classification" else logit(targets)
    np.testing.assert_allclose(family.mean(scores), targets)


def test_the_prior_of_labels_is_smoothed_by_half_a_node():
    labels = np.array([[1, 0], [1, 0], [0, 0]])
    assert expit(Sets().prior(labels, 2)) == pytest.approx([2.5 / 4, 0.5 / 4])
